//! Decisions per minute and sessions with open questions, updated incrementally from the last cursor.

use flyball::{Event, EventKind, SessionPhase, Verdict};
use flyball_store::{AdminStore, StoreError, StreamCursor, StreamEntry};
use flyball_view::run_status::unanswered_question;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Number of events read at once.
const BATCH_EVENTS: usize = 2_000;
/// Maximum number of batches per update; the next update continues from there.
const MAX_BATCHES: usize = 25;
/// Number of minutes shown.
pub(super) const MINUTES: u64 = 60;
/// Maximum number of tracked sessions with questions.
const MAX_ASKING: usize = 10_000;
const MINUTE_MS: u64 = 60_000;

/// The counts.
#[derive(Default)]
pub(super) struct DashboardCounts {
    cursor: StreamCursor,
    /// Decisions by minute since 1970: allow, warn, block, halt.
    pub(super) minutes: BTreeMap<u64, [u64; 4]>,
    /// Sessions whose last event is, or may be, a question to a person.
    pub(super) asking: BTreeMap<String, PendingQuestion>,
    /// Whether the store has more events than were counted.
    pub(super) is_behind: bool,
}

/// The last event of a session with a possible question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PendingQuestion {
    pub(super) at: u64,
    pub(super) seq: u64,
    /// Whether it is certainly a question; otherwise the preceding events decide.
    pub(super) is_certain: bool,
}

/// The counts, shared by all pages.
#[derive(Default)]
pub(crate) struct DashboardCounters(Mutex<DashboardCounts>);

impl DashboardCounters {
    /// Counts new events and passes the counts to `show`.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) fn with_counts<T>(
        &self,
        store: &dyn AdminStore,
        show: impl FnOnce(&DashboardCounts) -> T,
    ) -> Result<T, StoreError> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.is_behind = true;
        for _ in 0..MAX_BATCHES {
            let entries = store.events_since(counted.cursor, BATCH_EVENTS)?;
            entries.iter().for_each(|entry| counted.add_entry(entry));
            if entries.len() < BATCH_EVENTS {
                counted.is_behind = false;
                break;
            }
        }
        Ok(show(&counted))
    }
}

impl DashboardCounters {
    /// Sessions whose last event is a question to a person, with the time of that event.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn asking_sessions(&self, store: &dyn AdminStore) -> Result<Vec<(u64, String)>, StoreError> {
        let mut found = Vec::new();
        for (session, asks) in self.with_counts(store, |counted| counted.asking.clone())? {
            if asks.is_certain || unanswered_question(store, &session, asks.seq)?.is_some() {
                found.push((asks.at, session));
            }
        }
        Ok(found)
    }
}

impl DashboardCounts {
    fn add_entry(&mut self, entry: &StreamEntry) {
        self.cursor = entry.cursor;
        let record = &entry.record;
        if let Some(at) = record.at {
            let minute = self.minutes.entry(at / MINUTE_MS).or_default();
            minute[record.verdict as usize] += 1;
            if self.minutes.len() as u64 > MINUTES * 2 {
                self.minutes.pop_first();
            }
        }
        // Redaction and truncation can leave stored text that no longer parses as an event; it is not counted.
        let Ok(event) = Event::from_json(&record.text) else { return };
        let asks = match &event.kind {
            EventKind::QuestionAsked { .. } => (record.verdict < Verdict::Block).then_some(true),
            EventKind::AssistantMessage { is_final: true, .. } if event.extra.contains_key("run") => {
                Some(false)
            }
            _ => None,
        };
        let asks = asks.filter(|_| record.status == SessionPhase::Running && self.asking.len() < MAX_ASKING);
        if let Some(is_certain) = asks {
            let asking = PendingQuestion { at: record.at.unwrap_or_default(), seq: record.seq, is_certain };
            self.asking.insert(entry.session.clone(), asking);
        } else {
            self.asking.remove(&entry.session);
        }
    }
}
