//! Notable decisions of a session in order, with consecutive equal ones merged.

use flyball::{Decision, SessionPhase, TripSeverity, Verdict};
use flyball_store::{AdminStore, StoreError};

/// How many decisions that were not `allow` are shown, and how many events are searched for them.
const MAX_RECENT: usize = 5;
const MAX_SEARCHED_EVENTS: u64 = 2_000;
const PAGE_EVENTS: u64 = 200;

/// A trip or an effect, and how many times it occurred in a row.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DecisionNote {
    /// Sequence number of the first event.
    pub seq: u64,
    /// Sequence number of the last event.
    pub last: u64,
    /// Severity of the trip; `None` for an effect.
    pub severity: Option<TripSeverity>,
    /// The guard that tripped; empty for an effect.
    pub guard: String,
    /// The fine-grained reason; empty for an effect.
    pub reason: String,
    /// The message of the trip, or the effect with its text.
    pub message: String,
    /// Number of consecutive occurrences.
    pub times: u64,
}

impl DecisionNote {
    /// Whether both notes are equal except for digits in the message, so they can be merged.
    fn is_same(&self, other: &DecisionNote) -> bool {
        let digits = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        self.severity == other.severity
            && self.guard == other.guard
            && self.reason == other.reason
            && digits(&self.message) == digits(&other.message)
    }
}

/// Summary of one session's decisions.
#[derive(Debug, Default)]
pub struct DecisionHistory {
    /// Number of events.
    pub events: u64,
    /// The strictest verdict.
    pub worst: Verdict,
    /// The state after the last event.
    pub state: SessionPhase,
    /// Trips and effects, merged.
    pub notes: Vec<DecisionNote>,
}

impl DecisionHistory {
    /// Counts a decision without keeping its notes.
    pub fn count_decision(&mut self, decision: &Decision) {
        self.events += 1;
        self.worst = self.worst.max(decision.decision);
        self.state = decision.state;
    }

    /// Adds one decision.
    pub fn push(&mut self, decision: &Decision) {
        self.count_decision(decision);
        for trip in &decision.trips {
            self.push_note(DecisionNote {
                seq: decision.seq,
                last: decision.seq,
                severity: Some(trip.severity),
                guard: trip.guard.clone(),
                reason: trip.reason.clone(),
                message: trip.message.clone(),
                times: 1,
            });
        }
        for effect in decision.effects.iter().filter(|effect| effect.effect != "loop.halted") {
            let detail = ["text", "label", "digest"].iter().find_map(|key| effect.fields.get(*key)?.as_str());
            self.push_note(DecisionNote {
                seq: decision.seq,
                last: decision.seq,
                severity: None,
                guard: String::new(),
                reason: String::new(),
                message: format!("{} {}", effect.effect, detail.unwrap_or_default()).trim_end().to_owned(),
                times: 1,
            });
        }
    }

    fn push_note(&mut self, note: DecisionNote) {
        match self.notes.last_mut().filter(|last| last.is_same(&note)) {
            Some(last) => {
                last.times += 1;
                last.last = note.seq;
                last.message = note.message;
            }
            None => self.notes.push(note),
        }
    }
}

/// The last decisions that were not `allow`, oldest first. `newest` is the session's last sequence number.
///
/// # Errors
/// If they cannot be read.
pub fn recent_decisions(
    store: &dyn AdminStore,
    session: &str,
    newest: u64,
) -> Result<Vec<Decision>, StoreError> {
    let mut found: Vec<Decision> = Vec::new();
    let mut to = newest;
    while to > 0 && found.len() < MAX_RECENT && newest - to < MAX_SEARCHED_EVENTS {
        let from = to.saturating_sub(PAGE_EVENTS - 1).max(1);
        let records = store.records(session, from, to)?;
        let notable = records.iter().rev().filter(|record| record.verdict > Verdict::Allow);
        let notable = notable.filter_map(|record| serde_json::from_str(&record.decision_json).ok());
        found.extend(notable.take(MAX_RECENT - found.len()));
        to = from - 1;
    }
    found.reverse();
    Ok(found)
}
