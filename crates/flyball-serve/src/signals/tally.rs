//! The counts over all events of the store: what is new is counted as it comes, and what was there before the server
//! was started is counted beside it, so that a large store keeps nobody waiting.

use flyball::metrics::Metrics;
use flyball::{Decision, Event};
use flyball_journal::{Cursor, Entry};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct Counted {
    metrics: Metrics,
    /// Everything up to here was counted.
    place: Cursor,
    /// The reader of what is new stands here.
    newest: Cursor,
    /// It has begun.
    begun: bool,
}

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counted>);

impl Tally {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is new begins after this place.
    pub(crate) fn begin(&self, place: Cursor) {
        let mut counted = self.lock();
        counted.newest = place;
        counted.begun = true;
    }

    /// Events that are new, from one place to another.
    pub(crate) fn next<'a>(
        &self,
        (from, to): (Cursor, Cursor),
        events: impl Iterator<Item = (&'a Event, &'a Decision)>,
    ) {
        let mut counted = self.lock();
        counted.newest = to;
        // Until everything before is counted, these too are left to whoever catches up: the order matters.
        if counted.place == from {
            counted.place = to;
            events.for_each(|(event, decision)| counted.metrics.take(event, decision));
        }
    }

    /// Where the counting of earlier events stands; `None` once it has met the reader of what is new.
    pub(crate) fn behind(&self) -> Option<Cursor> {
        let counted = self.lock();
        (counted.place < counted.newest).then_some(counted.place)
    }

    /// Earlier events, read from where the counting stands.
    pub(crate) fn earlier(&self, entries: &[Entry]) {
        let read: Vec<_> = entries.iter().map(|entry| (entry.cursor, read(entry))).collect();
        let mut counted = self.lock();
        let newest = counted.newest;
        let mut place = counted.place;
        for (cursor, read) in read {
            if cursor > newest {
                place = newest;
                break;
            }
            place = cursor;
            if let Some((event, decision)) = read {
                counted.metrics.take(&event, &decision);
            }
        }
        // What was there when we began may have been pruned since.
        counted.place = if entries.is_empty() { newest } else { place };
    }

    /// Looks at the counts; whether they are complete comes along.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Metrics, bool) -> T) -> T {
        let counted = self.lock();
        at(&counted.metrics, counted.begun && counted.place >= counted.newest)
    }
}

/// An event and its decision as they are stored. What cannot be read is told by `flyball doctor`.
pub(crate) fn read(entry: &Entry) -> Option<(Event, Decision)> {
    let mut event = Event::from_json(&entry.record.text).ok()?;
    event.at = event.at.or(entry.record.at);
    Some((event, serde_json::from_str(&entry.record.decision).ok()?))
}
