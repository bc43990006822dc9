//! How a guard reports: a draft of a trip, and the list that collects the trips of one event.

use crate::decision::{BudgetUse, Evidence, HaltReason, Natural, Severity, Trip, Verdict};
use crate::fingerprint::Fingerprint;
use crate::limits::{EVIDENCE_EVENTS, EVIDENCE_FINGERPRINTS};
use crate::policy::Mode;
use serde_json::Value;
use std::collections::BTreeMap;

/// A trip in the making, with what the governor needs besides.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) trip: Trip,
    /// A block of this kind calls a person.
    pub(crate) escalates: bool,
    /// The coarse reason if it becomes a halt.
    pub(crate) halt_reason: HaltReason,
    /// What to say to the model; a template of the guard.
    pub(crate) feedback: Option<String>,
    pub(crate) retry_after_ms: Option<u64>,
    /// The effect that goes with it if it refuses: its name and fields.
    pub(crate) refusal: Option<(&'static str, BTreeMap<String, Value>)>,
}

impl Draft {
    /// Begins a trip of a guard.
    pub(crate) fn new(guard: &str, reason: &str, severity: Severity, message: impl Into<String>) -> Self {
        Draft {
            trip: Trip {
                guard: guard.to_owned(),
                reason: reason.to_owned(),
                halt_reason: None,
                severity,
                natural: Natural(severity),
                scope: BTreeMap::new(),
                count: 0,
                limit: 0,
                message: message.into(),
                evidence: Evidence::default(),
                suggested_actions: Vec::new(),
                budget: None,
            },
            escalates: false,
            halt_reason: HaltReason::Stalled,
            feedback: None,
            retry_after_ms: None,
            refusal: None,
        }
    }

    /// What was counted and what it is compared with.
    pub(crate) fn count(mut self, count: u64, limit: u64) -> Self {
        self.trip.count = count;
        self.trip.limit = limit;
        self
    }

    /// What it is about.
    pub(crate) fn scope(mut self, key: &str, value: impl Into<String>) -> Self {
        self.trip.scope.insert(key.to_owned(), value.into());
        self
    }

    /// The events it rests on: the newest are kept if there are too many.
    pub(crate) fn events(mut self, mut events: Vec<u64>) -> Self {
        let surplus = events.len().saturating_sub(EVIDENCE_EVENTS);
        events.drain(..surplus);
        self.trip.evidence.events = events;
        self
    }

    /// The block that repeats.
    pub(crate) fn block(mut self, period: u64, repeats: u64, mut fingerprints: Vec<Fingerprint>) -> Self {
        fingerprints.truncate(EVIDENCE_FINGERPRINTS);
        self.trip.evidence.period = Some(period);
        self.trip.evidence.repeats = Some(repeats);
        self.trip.evidence.fingerprints = fingerprints;
        self
    }

    /// The way through the nodes.
    pub(crate) fn trail(mut self, trail: Vec<String>) -> Self {
        self.trip.evidence.trail = trail;
        self
    }

    /// The measured values.
    pub(crate) fn trend(mut self, trend: Vec<i64>) -> Self {
        self.trip.evidence.trend = trend;
        self
    }

    /// Names that belong to it.
    pub(crate) fn names(mut self, names: Vec<String>) -> Self {
        self.trip.evidence.names = names;
        self
    }

    /// What could be done.
    pub(crate) fn actions(mut self, actions: &[&str]) -> Self {
        self.trip.suggested_actions = actions.iter().map(|action| (*action).to_owned()).collect();
        self
    }

    /// The coarse reason if it becomes a halt.
    pub(crate) fn halts_as(mut self, reason: HaltReason) -> Self {
        self.halt_reason = reason;
        self
    }

    /// A block of this kind calls a person.
    pub(crate) fn escalates(mut self) -> Self {
        self.escalates = true;
        self
    }

    /// The budget that is used up.
    pub(crate) fn budget(mut self, scope: &str, name: &str, limit: u64, used: u64) -> Self {
        let (scope, name) = (scope.to_owned(), name.to_owned());
        self.trip.budget = Some(BudgetUse { scope, name, limit, used });
        self.count(used, limit).halts_as(HaltReason::BudgetExceeded)
    }

    /// What to say to the model.
    pub(crate) fn feedback(mut self, text: impl Into<String>) -> Self {
        self.feedback = Some(text.into());
        self
    }

    /// An effect that goes with it if it refuses.
    pub(crate) fn refuses_with(mut self, effect: &'static str, fields: BTreeMap<String, Value>) -> Self {
        self.refusal = Some((effect, fields));
        self
    }

    /// How long to wait before the next attempt.
    pub(crate) fn retry_after(mut self, wait_ms: u64) -> Self {
        self.retry_after_ms = Some(wait_ms);
        self
    }
}

/// The trips of one event, and the effects that guards ask for.
#[derive(Debug, Default)]
pub(crate) struct Trips {
    pub(crate) list: Vec<Draft>,
    pub(crate) effects: Vec<(&'static str, BTreeMap<String, Value>)>,
    /// What is said to the model besides, once, after the templates of the trips.
    pub(crate) note: Option<String>,
}

impl Trips {
    /// Adds a trip as grave as the guard's mode lets it be.
    pub(crate) fn add(&mut self, mode: Mode, mut draft: Draft) {
        let natural = draft.trip.severity;
        draft.trip.natural = Natural(natural);
        draft.trip.severity = match mode {
            Mode::Off => return,
            Mode::Observe => Severity::Observe,
            Mode::Warn => natural.min(Severity::Warn),
            Mode::Block => natural.min(Severity::Block),
            Mode::Halt if natural == Severity::Block => Severity::Halt,
            Mode::Halt | Mode::Staged => natural,
        };
        self.list.push(draft);
    }

    /// Asks for an effect with one field.
    pub(crate) fn effect(&mut self, name: &'static str, key: &str, value: impl Into<Value>) {
        self.effects.push((name, BTreeMap::from([(key.to_owned(), value.into())])));
    }

    /// Asks for words to be said to the person.
    pub(crate) fn say(&mut self, text: String) {
        self.effect("say", "text", text);
    }

    /// What all trips together lead to.
    pub(crate) fn verdict(&self) -> Verdict {
        self.list.iter().map(|draft| draft.trip.severity.verdict()).max().unwrap_or_default()
    }

    /// Whether this guard is among those who refuse.
    pub(crate) fn refuses(&self, guard: &str) -> bool {
        self.list.iter().any(|draft| draft.trip.severity >= Severity::Block && draft.trip.guard == guard)
    }
}
