//! Trip builder, and the list of trips of one event.

use crate::decision::{BudgetUsage, Evidence, HaltReason, Trip, TripSeverity, UnclampedSeverity, Verdict};
use crate::fingerprint::Fingerprint;
use crate::limits::{EVIDENCE_EVENTS, EVIDENCE_FINGERPRINTS};
use crate::policy::GuardMode;
use serde_json::Value;
use std::collections::BTreeMap;

/// A trip under construction, with the extra data that the governor needs.
#[derive(Debug, Clone)]
pub(crate) struct TripBuilder {
    pub(crate) trip: Trip,
    /// Whether a block by this trip escalates to a person.
    pub(crate) escalates: bool,
    /// Coarse reason if the trip becomes a halt.
    pub(crate) halt_reason: HaltReason,
    /// Feedback for the model, from the guard's template.
    pub(crate) feedback: Option<String>,
    pub(crate) retry_after_ms: Option<u64>,
    /// Name and fields of the effect emitted if the trip blocks.
    pub(crate) refusal: Option<(&'static str, BTreeMap<String, Value>)>,
}

impl TripBuilder {
    /// Starts a trip of a guard.
    pub(crate) fn new(guard: &str, reason: &str, severity: TripSeverity, message: impl Into<String>) -> Self {
        TripBuilder {
            trip: Trip {
                guard: guard.to_owned(),
                reason: reason.to_owned(),
                halt_reason: None,
                severity,
                unclamped: UnclampedSeverity(severity),
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

    /// Sets the counted value and its limit.
    pub(crate) fn count(mut self, count: u64, limit: u64) -> Self {
        self.trip.count = count;
        self.trip.limit = limit;
        self
    }

    /// Adds a scope entry: the tool, node or other subject of the trip.
    pub(crate) fn scope(mut self, key: &str, value: impl Into<String>) -> Self {
        self.trip.scope.insert(key.to_owned(), value.into());
        self
    }

    /// Sets the evidence events, keeping the newest if there are too many.
    pub(crate) fn events(mut self, mut events: Vec<u64>) -> Self {
        let surplus = events.len().saturating_sub(EVIDENCE_EVENTS);
        events.drain(..surplus);
        self.trip.evidence.events = events;
        self
    }

    /// Sets the repeated block.
    pub(crate) fn repeating(mut self, period: u64, repeats: u64, mut fingerprints: Vec<Fingerprint>) -> Self {
        fingerprints.truncate(EVIDENCE_FINGERPRINTS);
        self.trip.evidence.period = Some(period);
        self.trip.evidence.repeats = Some(repeats);
        self.trip.evidence.fingerprints = fingerprints;
        self
    }

    /// Sets the trail of visited nodes.
    pub(crate) fn trail(mut self, trail: Vec<String>) -> Self {
        self.trip.evidence.trail = trail;
        self
    }

    /// Sets the measured values.
    pub(crate) fn trend(mut self, trend: Vec<i64>) -> Self {
        self.trip.evidence.trend = trend;
        self
    }

    /// Sets the related names.
    pub(crate) fn names(mut self, names: Vec<String>) -> Self {
        self.trip.evidence.names = names;
        self
    }

    /// Sets the suggested actions.
    pub(crate) fn actions(mut self, actions: &[&str]) -> Self {
        self.trip.suggested_actions = actions.iter().map(|action| (*action).to_owned()).collect();
        self
    }

    /// Sets the coarse reason if the trip becomes a halt.
    pub(crate) fn halt_reason(mut self, reason: HaltReason) -> Self {
        self.halt_reason = reason;
        self
    }

    /// Makes a block by this trip escalate to a person.
    pub(crate) fn escalate(mut self) -> Self {
        self.escalates = true;
        self
    }

    /// Sets the exhausted budget.
    pub(crate) fn budget(mut self, scope: &str, name: &str, limit: u64, used: u64) -> Self {
        let (scope, name) = (scope.to_owned(), name.to_owned());
        self.trip.budget = Some(BudgetUsage { scope, name, limit, used });
        self.count(used, limit).halt_reason(HaltReason::BudgetExceeded)
    }

    /// Sets the feedback for the model.
    pub(crate) fn feedback(mut self, text: impl Into<String>) -> Self {
        self.feedback = Some(text.into());
        self
    }

    /// Sets an effect that is emitted if the trip blocks.
    pub(crate) fn add_refusal_effect(
        mut self,
        effect: &'static str,
        fields: BTreeMap<String, Value>,
    ) -> Self {
        self.refusal = Some((effect, fields));
        self
    }

    /// Sets the wait before the next attempt.
    pub(crate) fn retry_after(mut self, wait_ms: u64) -> Self {
        self.retry_after_ms = Some(wait_ms);
        self
    }
}

/// The trips of one event, and the effects requested by guards.
#[derive(Debug, Default)]
pub(crate) struct Trips {
    pub(crate) list: Vec<TripBuilder>,
    pub(crate) effects: Vec<(&'static str, BTreeMap<String, Value>)>,
    /// Additional feedback for the model, appended once after the templates of the trips.
    pub(crate) note: Option<String>,
}

impl Trips {
    /// Adds a trip, with its severity limited by the guard's mode.
    pub(crate) fn add(&mut self, mode: GuardMode, mut draft: TripBuilder) {
        let natural = draft.trip.severity;
        draft.trip.unclamped = UnclampedSeverity(natural);
        draft.trip.severity = match mode {
            GuardMode::Off => return,
            GuardMode::Observe => TripSeverity::Observe,
            GuardMode::Warn => natural.min(TripSeverity::Warn),
            GuardMode::Block => natural.min(TripSeverity::Block),
            GuardMode::Halt if natural == TripSeverity::Block => TripSeverity::Halt,
            GuardMode::Halt | GuardMode::Staged => natural,
        };
        self.list.push(draft);
    }

    /// Requests an effect with one field.
    pub(crate) fn add_effect(&mut self, name: &'static str, key: &str, value: impl Into<Value>) {
        self.effects.push((name, BTreeMap::from([(key.to_owned(), value.into())])));
    }

    /// Requests a message to the person.
    pub(crate) fn say(&mut self, text: String) {
        self.add_effect("say", "text", text);
    }

    /// The combined verdict of all trips.
    pub(crate) fn verdict(&self) -> Verdict {
        self.list.iter().map(|draft| draft.trip.severity.verdict()).max().unwrap_or_default()
    }

    /// Whether this guard blocks.
    pub(crate) fn is_blocked_by(&self, guard: &str) -> bool {
        self.list.iter().any(|draft| draft.trip.severity >= TripSeverity::Block && draft.trip.guard == guard)
    }
}
