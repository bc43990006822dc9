//! `flyball metrics`: what was counted over all sessions of the store, as Prometheus reads it or as JSON.

use crate::args::Metrics as Args;
use crate::fail::{Exit, Failure};
use crate::store;
use flyball::metrics::Metrics;
use flyball::{Decision, Event};
use flyball_journal::{Cursor, Desk, Record};
use serde_json::json;
use std::io::Write;

/// How many events are read at once.
const PORTION: usize = 1_000;

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let desk = store::open(&args.store)?;
    let mut metrics = Metrics::default();
    each(desk.as_ref(), |_, event, decision, _| {
        metrics.take(event, decision);
        Ok(())
    })?;
    let mut out = crate::terminal::stdout();
    if args.json {
        let mut all = json!(metrics);
        if let Some(all) = all.as_object_mut() {
            all.insert("sessions".to_owned(), json!(metrics.sessions()));
        }
        writeln!(out, "{all}")?;
    } else {
        write!(out, "{}", metrics.to_prometheus())?;
    }
    Ok(Exit::Done)
}

/// An event and its decision, as they are stored. What cannot be read is told by `flyball doctor`.
pub(crate) fn read(record: &Record) -> Option<(Event, Decision)> {
    let mut event = Event::from_json(&record.text).ok()?;
    event.at = event.at.or(record.at);
    Some((event, serde_json::from_str(&record.decision).ok()?))
}

/// Hands on all events of a store with their decisions, in the order in which they were stored. Gives the place after
/// the last one.
pub(crate) fn each(
    desk: &dyn Desk,
    mut take: impl FnMut(&str, &Event, &Decision, &Record) -> Result<(), Failure>,
) -> Result<Cursor, Failure> {
    let mut cursor = Cursor::default();
    loop {
        let (next, count) = portion(desk, cursor, &mut take)?;
        cursor = next;
        if count < PORTION {
            return Ok(cursor);
        }
    }
}

/// The next events of a store; gives the place after them, and how many there were.
pub(crate) fn portion(
    desk: &dyn Desk,
    after: Cursor,
    mut take: impl FnMut(&str, &Event, &Decision, &Record) -> Result<(), Failure>,
) -> Result<(Cursor, usize), Failure> {
    let entries = desk.since(after, PORTION)?;
    for entry in &entries {
        if let Some((event, decision)) = read(&entry.record) {
            take(&entry.session, &event, &decision, &entry.record)?;
        }
    }
    Ok((entries.last().map_or(after, |last| last.cursor), entries.len()))
}
