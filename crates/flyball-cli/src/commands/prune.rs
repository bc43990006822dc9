//! `flyball prune`: deletes old data without resetting the counters of active sessions.

use crate::args::PruneArgs;
use crate::error::{CliError, Exit, parse_age};
use crate::formatting::{local_time, plural};
use crate::plan_printer::print_next;
use crate::policy_loader;
use crate::store;
use flyball::Preset;
use serde_json::json;
use std::io::Write;

/// The retention period in milliseconds, from the flag or the policy.
fn retention_ms(args: &PruneArgs) -> Result<u64, CliError> {
    match &args.older_than {
        Some(text) => parse_age("--older-than", text),
        None => {
            let kept = policy_loader::source(&args.policy, Preset::Agent)?.base().journal.retention_ms;
            let what = "the policy keeps everything (journal.retention is off)";
            kept.ok_or_else(|| {
                CliError::new(
                    "bad_duration",
                    "--older-than",
                    what,
                    "give an age, for example --older-than 30d",
                )
            })
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &PruneArgs) -> Result<Exit, CliError> {
    let old = retention_ms(args)?;
    let store = store::open(&args.store)?;
    // The store's clock: the result must not depend on the machine that prunes.
    let before = store.now()?.saturating_sub(old);
    let pruned = store.prune(before, args.dry_run)?;
    if !args.dry_run {
        flyball_server::prune_owners(store.as_ref())?;
    }
    let mut out = crate::terminal::stdout();
    if args.json {
        let whole = json!({"before": before, "dry_run": args.dry_run, "sessions": pruned.sessions,
            "events": pruned.events, "outbox_messages": pruned.outbox_messages});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Success);
    }
    let done = if args.dry_run { "Would delete" } else { "Deleted" };
    writeln!(
        out,
        "{done} data older than {}: {} that had ended, {} of active sessions, {} already delivered.",
        local_time(before),
        plural(pruned.sessions, "session"),
        plural(pruned.events, "event"),
        plural(pruned.outbox_messages, "message"),
    )?;
    writeln!(out, "Counters, pending plans and event ids of active sessions are unchanged.")?;
    let again = match &args.older_than {
        Some(age) => format!("flyball prune --older-than {age}"),
        None => "flyball prune".to_owned(),
    };
    let next = if args.dry_run { again } else { "flyball status".to_owned() };
    print_next(&mut out, &[next], &args.store)?;
    Ok(Exit::Success)
}
