//! Metrics over all events of the store. New events are counted as they arrive; history is counted in the background,
//! so that a large store does not delay startup.

use flyball::metrics::Metrics;
use flyball::{Decision, Event};
use flyball_store::{StreamCursor, StreamEntry};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct EventMetricsState {
    metrics: Metrics,
    /// Everything up to this cursor was counted.
    counted_to: StreamCursor,
    /// Cursor of the live reader.
    newest: StreamCursor,
    /// Whether the live reader has started.
    started: bool,
}

/// Metrics over all events.
#[derive(Debug, Default)]
pub(crate) struct EventMetrics(Mutex<EventMetricsState>);

impl EventMetrics {
    fn lock(&self) -> MutexGuard<'_, EventMetricsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the cursor where live events start.
    pub(crate) fn start_at(&self, cursor: StreamCursor) {
        let mut state = self.lock();
        state.newest = cursor;
        state.started = true;
    }

    /// Adds new events between two cursors.
    pub(crate) fn add_new<'a>(
        &self,
        (from, to): (StreamCursor, StreamCursor),
        events: impl Iterator<Item = (&'a Event, &'a Decision)>,
    ) {
        let mut state = self.lock();
        state.newest = to;
        // Order matters: until the history is counted, new events are left to the catch-up as well.
        if state.counted_to == from {
            state.counted_to = to;
            events.for_each(|(event, decision)| state.metrics.take(event, decision));
        }
    }

    /// Where to continue counting history; `None` once it has reached the live reader.
    pub(crate) fn catch_up_cursor(&self) -> Option<StreamCursor> {
        let state = self.lock();
        (state.counted_to < state.newest).then_some(state.counted_to)
    }

    /// Adds history read from the catch-up cursor.
    pub(crate) fn add_history(&self, entries: &[StreamEntry]) {
        let read: Vec<_> = entries.iter().map(|entry| (entry.cursor, parse_entry(entry))).collect();
        let mut state = self.lock();
        let newest = state.newest;
        let mut counted_to = state.counted_to;
        for (cursor, read) in read {
            if cursor > newest {
                counted_to = newest;
                break;
            }
            counted_to = cursor;
            if let Some((event, decision)) = read {
                state.metrics.take(&event, &decision);
            }
        }
        // Events that existed at startup may have been pruned since.
        state.counted_to = if entries.is_empty() { newest } else { counted_to };
    }

    /// Reads the metrics; the flag says whether they are complete.
    pub(crate) fn inspect<T>(&self, at: impl FnOnce(&Metrics, bool) -> T) -> T {
        let state = self.lock();
        at(&state.metrics, state.started && state.counted_to >= state.newest)
    }
}

/// Parses a stored event and its decision. `flyball doctor` reports entries that cannot be parsed.
pub(crate) fn parse_entry(entry: &StreamEntry) -> Option<(Event, Decision)> {
    let mut event = Event::from_json(&entry.record.text).ok()?;
    event.at = event.at.or(entry.record.at);
    Some((event, serde_json::from_str(&entry.record.decision_json).ok()?))
}
