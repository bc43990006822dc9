//! Decisions by the minute, and which runs ask a person something: read on from where the last look ended.

use flyball::{Event, Kind, Status, Verdict};
use flyball_journal::{Cursor, Desk, Entry, StoreError};
use flyball_view::whereabouts::question;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How many events are read at once.
const PORTION: usize = 2_000;
/// How many portions one look reads at most; the next look goes on from there.
const PORTIONS: usize = 25;
/// How many minutes are kept.
pub(super) const MINUTES: u64 = 60;
/// How many runs that ask are kept.
const ASKING: usize = 10_000;
const MINUTE_MS: u64 = 60_000;

/// What is counted.
#[derive(Default)]
pub(super) struct Counted {
    cursor: Cursor,
    /// Decisions by minute since 1970: allow, warn, block, halt.
    pub(super) minutes: BTreeMap<u64, [u64; 4]>,
    /// Sessions whose last event is a question to a person, or may be one.
    pub(super) asking: BTreeMap<String, Asking>,
    /// There is more to count than was read.
    pub(super) behind: bool,
}

/// The last event of a session that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asking {
    pub(super) at: u64,
    pub(super) seq: u64,
    /// It is a question for certain; else only the events before it tell.
    pub(super) sure: bool,
}

/// The counts, shared by all pages.
#[derive(Default)]
pub(crate) struct Figures(Mutex<Counted>);

impl Figures {
    /// Counts what is new, and shows the counts.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) fn with<T>(&self, desk: &dyn Desk, show: impl FnOnce(&Counted) -> T) -> Result<T, StoreError> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.behind = true;
        for _ in 0..PORTIONS {
            let entries = desk.since(counted.cursor, PORTION)?;
            entries.iter().for_each(|entry| counted.take(entry));
            if entries.len() < PORTION {
                counted.behind = false;
                break;
            }
        }
        Ok(show(&counted))
    }
}

impl Figures {
    /// The sessions whose last event is a question to a person, with the time of that event.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn asking(&self, desk: &dyn Desk) -> Result<Vec<(u64, String)>, StoreError> {
        let mut found = Vec::new();
        for (session, asks) in self.with(desk, |counted| counted.asking.clone())? {
            if asks.sure || question(desk, &session, asks.seq)?.is_some() {
                found.push((asks.at, session));
            }
        }
        Ok(found)
    }
}

impl Counted {
    fn take(&mut self, entry: &Entry) {
        self.cursor = entry.cursor;
        let record = &entry.record;
        if let Some(at) = record.at {
            let minute = self.minutes.entry(at / MINUTE_MS).or_default();
            minute[record.verdict as usize] += 1;
            if self.minutes.len() as u64 > MINUTES * 2 {
                self.minutes.pop_first();
            }
        }
        // What is stored may be shortened; what of it is no event any more is not counted.
        let Ok(event) = Event::from_json(&record.text) else { return };
        let asks = match &event.kind {
            Kind::QuestionAsked { .. } => (record.verdict < Verdict::Block).then_some(true),
            Kind::AssistantMessage { is_final: true, .. } if event.extra.contains_key("run") => Some(false),
            _ => None,
        };
        let asks = asks.filter(|_| record.status == Status::Running && self.asking.len() < ASKING);
        if let Some(sure) = asks {
            let asking = Asking { at: record.at.unwrap_or_default(), seq: record.seq, sure };
            self.asking.insert(entry.session.clone(), asking);
        } else {
            self.asking.remove(&entry.session);
        }
    }
}
