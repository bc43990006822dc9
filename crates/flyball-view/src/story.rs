//! How a session went: its notable decisions in order, equal ones folded.

use flyball::{Decision, Severity, Status, Verdict};
use flyball_journal::{Desk, StoreError};

/// How many decisions that were not `allow` are shown, and how many events are searched for them.
const LATELY: usize = 5;
const SEARCHED: u64 = 2_000;
const PORTION: u64 = 200;

/// One finding or effect, and how often it came in a row.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// The number of the first event.
    pub seq: u64,
    /// The number of the last one.
    pub last: u64,
    /// How grave a finding is; an effect has none.
    pub severity: Option<Severity>,
    /// Who found it; empty for an effect.
    pub guard: String,
    /// The fine reason; empty for an effect.
    pub reason: String,
    /// What was found, in words.
    pub message: String,
    /// How often in a row.
    pub times: u64,
}

impl Note {
    /// Whether another note says the same, so that both are told as one.
    fn folds(&self, other: &Note) -> bool {
        let digits = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        self.severity == other.severity
            && self.guard == other.guard
            && self.reason == other.reason
            && digits(&self.message) == digits(&other.message)
    }
}

/// How one session went.
#[derive(Debug, Default)]
pub struct Story {
    /// How many events there were.
    pub events: u64,
    /// The strictest decision.
    pub worst: Verdict,
    /// The state after the last event.
    pub state: Status,
    /// What was not simply allowed.
    pub notes: Vec<Note>,
}

impl Story {
    /// Takes only how it ended and how bad it was.
    pub fn count(&mut self, decision: &Decision) {
        self.events += 1;
        self.worst = self.worst.max(decision.decision);
        self.state = decision.state;
    }

    /// Takes one decision.
    pub fn take(&mut self, decision: &Decision) {
        self.count(decision);
        for trip in &decision.trips {
            self.note(Note {
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
            self.note(Note {
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

    fn note(&mut self, note: Note) {
        match self.notes.last_mut().filter(|last| last.folds(&note)) {
            Some(last) => {
                last.times += 1;
                last.last = note.seq;
                last.message = note.message;
            }
            None => self.notes.push(note),
        }
    }
}

/// The last decisions that were not `allow`, oldest first. `newest` is the number of the session's last event.
///
/// # Errors
/// If they cannot be read.
pub fn lately(desk: &dyn Desk, session: &str, newest: u64) -> Result<Vec<Decision>, StoreError> {
    let mut found: Vec<Decision> = Vec::new();
    let mut to = newest;
    while to > 0 && found.len() < LATELY && newest - to < SEARCHED {
        let from = to.saturating_sub(PORTION - 1).max(1);
        let records = desk.records(session, from, to)?;
        let notable = records.iter().rev().filter(|record| record.verdict > Verdict::Allow);
        let notable = notable.filter_map(|record| serde_json::from_str(&record.decision).ok());
        found.extend(notable.take(LATELY - found.len()));
        to = from - 1;
    }
    found.reverse();
    Ok(found)
}
