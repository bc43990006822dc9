//! `flyball outbox`: lists undelivered messages and retries failed ones.

use crate::args::OutboxArgs;
use crate::error::{CliError, Exit};
use crate::formatting::{format_table, plural, relative_time, single_line, typed};
use crate::plan_printer::print_next;
use crate::policy_loader;
use crate::store;
use flyball::Preset;
use flyball_store::{AdminStore, FailpointHook, OutboxDispatcher, OutboxMessage, OutboxState};
use serde_json::json;
use std::io::Write;
use std::sync::Arc;

/// Maximum number of messages shown.
const MAX_ROWS: usize = 200;

/// Runs the command.
pub(crate) fn run(args: &OutboxArgs) -> Result<Exit, CliError> {
    let store = store::open(&args.store)?;
    if let Some(key) = &args.retry {
        return retry_message(store.as_ref(), key, args);
    }
    if args.deliver {
        return deliver_due(store, args);
    }
    let both = args.dead == args.waiting;
    let mut messages: Vec<OutboxMessage> = Vec::new();
    for (wanted, state) in [(args.dead, OutboxState::Dead), (args.waiting, OutboxState::Waiting)] {
        if wanted || both {
            messages.extend(store.outbox_messages(state, MAX_ROWS)?);
        }
    }
    let mut out = crate::terminal::stdout();
    if args.json {
        writeln!(out, "{}", json!(messages))?;
        return Ok(Exit::Success);
    }
    if messages.is_empty() {
        writeln!(out, "No pending or failed messages in the outbox of {}.", store.address())?;
        print_next(&mut out, &["flyball status".to_owned()], &args.store)?;
        return Ok(Exit::Success);
    }
    let now = store.now()?;
    let rows: Vec<Vec<String>> = messages.iter().map(|message| table_row(message, now)).collect();
    for text in format_table(&["KEY", "EFFECT", "SESSION", "STATE", "ATTEMPTS", "DUE", "ERROR"], &rows) {
        writeln!(out, "{text}")?;
    }
    let dead = messages.iter().find(|message| message.state == OutboxState::Dead);
    let next = dead.map_or_else(
        || "flyball status".to_owned(),
        |message| format!("flyball outbox --retry {}", typed(&message.key)),
    );
    writeln!(out, "{}", plural(messages.len() as u64, "message"))?;
    print_next(&mut out, &[next], &args.store)?;
    Ok(Exit::Success)
}

/// Attempts each due message once.
fn deliver_due(store: Arc<dyn AdminStore>, args: &OutboxArgs) -> Result<Exit, CliError> {
    let policy = policy_loader::source(&args.policy, Preset::Agent)?;
    let dispatcher = OutboxDispatcher::new(store, &policy.base().journal, FailpointHook::default());
    let counts = dispatcher.deliver_due(MAX_ROWS)?;
    let mut out = crate::terminal::stdout();
    if args.json {
        writeln!(out, "{}", json!(counts))?;
    } else {
        writeln!(
            out,
            "{} delivered, {} to be retried, {} failed permanently",
            counts.done, counts.retried, counts.dead
        )?;
        print_next(&mut out, &["flyball outbox".to_owned()], &args.store)?;
    }
    Ok(Exit::Success)
}

fn table_row(message: &OutboxMessage, now: u64) -> Vec<String> {
    let due =
        if message.state == OutboxState::Waiting { relative_time(message.due, now) } else { String::new() };
    vec![
        single_line(&message.key, 80),
        single_line(&message.effect, 24),
        single_line(&message.session, 40),
        message.state.as_str().to_owned(),
        message.attempts.to_string(),
        due,
        single_line(message.error.as_deref().unwrap_or_default(), 70),
    ]
}

fn retry_message(store: &dyn AdminStore, key: &str, args: &OutboxArgs) -> Result<Exit, CliError> {
    if !store.retry_outbox(key)? {
        let what = format!("no failed message '{}'", single_line(key, 80));
        return Err(CliError::new("message_unknown", "", what, "list them with: flyball outbox --dead"));
    }
    let mut out = crate::terminal::stdout();
    if args.json {
        writeln!(out, "{}", json!({"key": key, "state": "waiting"}))?;
    } else {
        writeln!(out, "{} will be retried.", single_line(key, 80))?;
        print_next(&mut out, &["flyball outbox --waiting".to_owned()], &args.store)?;
    }
    Ok(Exit::Success)
}
