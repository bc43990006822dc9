//! `flyball metrics`: counters over all sessions of the store, in Prometheus format or as JSON.

use crate::args::MetricsArgs as Args;
use crate::error::{CliError, Exit};
use crate::store;
use flyball::metrics::Metrics;
use flyball::{Decision, Event};
use flyball_store::{AdminStore, EventRecord, StreamCursor};
use serde_json::json;
use std::io::Write;

/// Number of events read at once.
const BATCH_SIZE: usize = 1_000;

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Exit, CliError> {
    let store = store::open(&args.store)?;
    let mut metrics = Metrics::default();
    for_each_event(store.as_ref(), |_, event, decision, _| {
        metrics.take(event, decision);
        Ok(())
    })?;
    let mut out = crate::terminal::stdout();
    if args.json {
        let mut all = json!(metrics);
        if let Some(all) = all.as_object_mut() {
            all.insert("sessions".to_owned(), json!(metrics.sessions_by_health()));
        }
        writeln!(out, "{all}")?;
    } else {
        write!(out, "{}", metrics.to_prometheus())?;
    }
    Ok(Exit::Success)
}

/// Decodes a stored event and its decision. `flyball doctor` reports those that cannot be decoded.
pub(crate) fn decode_record(record: &EventRecord) -> Option<(Event, Decision)> {
    let mut event = Event::from_json(&record.text).ok()?;
    event.at = event.at.or(record.at);
    Some((event, serde_json::from_str(&record.decision_json).ok()?))
}

/// Calls a function for all events of a store with their decisions, in storage order. Returns the cursor after the last
/// one.
pub(crate) fn for_each_event(
    store: &dyn AdminStore,
    mut take: impl FnMut(&str, &Event, &Decision, &EventRecord) -> Result<(), CliError>,
) -> Result<StreamCursor, CliError> {
    let mut cursor = StreamCursor::default();
    loop {
        let (next, count) = next_batch(store, cursor, &mut take)?;
        cursor = next;
        if count < BATCH_SIZE {
            return Ok(cursor);
        }
    }
}

/// Processes the next batch of events; returns the cursor after it and the number of events.
pub(crate) fn next_batch(
    store: &dyn AdminStore,
    after: StreamCursor,
    mut take: impl FnMut(&str, &Event, &Decision, &EventRecord) -> Result<(), CliError>,
) -> Result<(StreamCursor, usize), CliError> {
    let entries = store.events_since(after, BATCH_SIZE)?;
    for entry in &entries {
        if let Some((event, decision)) = decode_record(&entry.record) {
            take(&entry.session, &event, &decision, &entry.record)?;
        }
    }
    Ok((entries.last().map_or(after, |last| last.cursor), entries.len()))
}
