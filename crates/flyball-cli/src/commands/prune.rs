//! `flyball prune`: takes away what is old. No counter of a session that lives is reset by it.

use crate::args::Prune;
use crate::fail::{Exit, Failure};
use crate::load;
use crate::store;
use crate::telling::print_next;
use crate::words::{age, moment, plural};
use flyball::Preset;
use serde_json::json;
use std::io::Write;

/// What counts as old, in milliseconds: as said, or as the policy says.
fn how_old(args: &Prune) -> Result<u64, Failure> {
    let help = "write a number and s, m, h, d or w: 30d";
    match &args.older_than {
        Some(text) => age(text)
            .ok_or_else(|| Failure::new("bad_age", "--older-than", format!("'{text}' is not an age"), help)),
        None => {
            let kept = load::source(&args.policy, Preset::Agent)?.base().journal.retention_ms;
            let what = "the policy keeps everything (journal.retention is off)";
            kept.ok_or_else(|| {
                Failure::new("bad_age", "--older-than", what, "say what is old: --older-than 30d")
            })
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Prune) -> Result<Exit, Failure> {
    let old = how_old(args)?;
    let desk = store::open(&args.store)?;
    // The store's own clock: what is old must not depend on the machine that cleans up.
    let before = desk.now()?.saturating_sub(old);
    let pruned = desk.prune(before, args.dry_run)?;
    if !args.dry_run {
        flyball_serve::prune_owners(desk.as_ref())?;
    }
    let mut out = crate::terminal::stdout();
    if args.json {
        let whole = json!({"before": before, "dry_run": args.dry_run, "sessions": pruned.sessions,
            "events": pruned.events, "errands": pruned.errands});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Done);
    }
    let done = if args.dry_run { "Would take away" } else { "Took away" };
    writeln!(
        out,
        "{done} what is older than {}: {} that had ended, {} of sessions that live on, {} that were done.",
        moment(before),
        plural(pruned.sessions, "session"),
        plural(pruned.events, "event"),
        plural(pruned.errands, "errand"),
    )?;
    writeln!(out, "Counters, waiting plans and ids of sessions that live on stay as they are.")?;
    let again = match &args.older_than {
        Some(age) => format!("flyball prune --older-than {age}"),
        None => "flyball prune".to_owned(),
    };
    let next = if args.dry_run { again } else { "flyball status".to_owned() };
    print_next(&mut out, &[next], &args.store)?;
    Ok(Exit::Done)
}
