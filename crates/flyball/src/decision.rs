//! The answer to an event: allow, warn, block or halt, with the trips behind it and what is to be done next.

use crate::fingerprint::Fingerprint;
use crate::output::Output;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a decision says. The strictest trip wins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Go on.
    #[default]
    Allow,
    /// Go on, but take the feedback to heart.
    Warn,
    /// Not this act.
    Block,
    /// Nothing more until a person releases the session.
    Halt,
}

impl Verdict {
    /// The word as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Warn => "warn",
            Verdict::Block => "block",
            Verdict::Halt => "halt",
        }
    }
}

/// How grave a trip is. `Observe` is told and changes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Reported only.
    #[default]
    Observe,
    /// Leads to a warning.
    Warn,
    /// Leads to a refusal of the act.
    Block,
    /// Leads to a halt of the session.
    Halt,
}

impl Severity {
    /// The verdict that this severity leads to.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self {
            Severity::Observe => Verdict::Allow,
            Severity::Warn => Verdict::Warn,
            Severity::Block => Verdict::Block,
            Severity::Halt => Verdict::Halt,
        }
    }

    /// The word as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Observe => "observe",
            Severity::Warn => "warn",
            Severity::Block => "block",
            Severity::Halt => "halt",
        }
    }
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It may go on.
    #[default]
    Running,
    /// A plan waits for a person's yes.
    AwaitingConfirmation,
    /// An act was refused and a person was called; a release is waited for.
    Blocked,
    /// Stopped until a release.
    Halted,
    /// Over.
    Ended,
}

impl Status {
    /// The word as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::AwaitingConfirmation => "awaiting_confirmation",
            Status::Blocked => "blocked",
            Status::Halted => "halted",
            Status::Ended => "ended",
        }
    }
}

/// The five coarse reasons of a halt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HaltReason {
    /// A budget is used up.
    BudgetExceeded,
    /// Nothing moves any more.
    Stalled,
    /// It goes to and fro.
    Oscillating,
    /// The same failure again and again.
    RepeatedError,
    /// A person said stop.
    UserStop,
}

impl HaltReason {
    /// The word as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            HaltReason::BudgetExceeded => "budget_exceeded",
            HaltReason::Stalled => "stalled",
            HaltReason::Oscillating => "oscillating",
            HaltReason::RepeatedError => "repeated_error",
            HaltReason::UserStop => "user_stop",
        }
    }
}

/// What a trip rests on: enough for a person to look it up and believe it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The numbers of the events that belong to it, oldest first.
    pub events: Vec<u64>,
    /// The length of the block that repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<u64>,
    /// How often it stands in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u64>,
    /// The fingerprints that were equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fingerprints: Vec<Fingerprint>,
    /// The way through the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trail: Vec<String>,
    /// Values in the order they were measured, such as the number of failing tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trend: Vec<i64>,
    /// Names that belong to it, such as failing tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// A budget that is used up, or nearly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUse {
    /// `session`, `turn`, `node`, `loop`, `message` or `tree`.
    pub scope: String,
    /// `runtime_ms`, `turns`, `iterations`, `tokens`, `cost_micro_usd`, …
    pub name: String,
    /// What was allowed.
    pub limit: u64,
    /// What is used.
    pub used: u64,
}

/// A guard's finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trip {
    /// The guard that found it.
    pub guard: String,
    /// The fine reason.
    pub reason: String,
    /// The coarse reason, on a halt.
    pub halt_reason: Option<HaltReason>,
    /// How grave it is.
    pub severity: Severity,
    /// How grave it would be if the guard's mode did not hold it back. Under `observe` this says what would have been
    /// stopped. Not part of the answer as JSON.
    #[serde(skip)]
    pub natural: Natural,
    /// What it is about: a tool, node, edge, loop, operation, signal, …
    pub scope: BTreeMap<String, String>,
    /// What was counted.
    pub count: u64,
    /// What it was compared with.
    pub limit: u64,
    /// The sentence for a person.
    pub message: String,
    /// What it rests on.
    pub evidence: Evidence,
    /// What could be done about it.
    pub suggested_actions: Vec<String>,
    /// The budget, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetUse>,
}

/// How grave a finding would be if the guard's mode did not hold it back. It is no part of the answer: trips that differ
/// in nothing else are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Natural(pub Severity);

impl PartialEq for Natural {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Natural {}

/// What the caller must now do or tell. The core performs none of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// `loop.halted`, `say`, `plan.approved`, `plan.rejected`, `label.added`, …
    pub effect: String,
    /// The idempotency key: the same effect of the same event has the same key.
    pub key: String,
    /// The rest of its fields.
    #[serde(flatten)]
    pub fields: BTreeMap<String, Value>,
}

/// The answer to one event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The session.
    pub session: String,
    /// The number of the event inside its session, from 1.
    pub seq: u64,
    /// What is decided.
    pub decision: Verdict,
    /// What the session is doing from now on.
    pub state: Status,
    /// Why, one entry a guard's finding.
    pub trips: Vec<Trip>,
    /// Text for the model, from fixed templates.
    pub feedback: Option<String>,
    /// How long to wait before the next attempt.
    pub retry_after_ms: Option<u64>,
    /// What is to be done or told now.
    pub effects: Vec<Effect>,
    /// The large output that the event was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<Output>>,
}

impl Decision {
    /// Whether an act was blocked for lack of an approval, and for nothing else.
    #[must_use]
    pub fn lacks_approval(&self) -> bool {
        let mut blocking = self.trips.iter().filter(|trip| trip.severity >= Severity::Block).peekable();
        self.decision == Verdict::Block
            && blocking.peek().is_some()
            && blocking.all(|trip| trip.reason == "approval_required")
    }

    /// The decision as one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.plain().unwrap_or_else(|| {
            // A decision holds only texts, numbers and maps with text keys; writing it cannot fail.
            serde_json::to_string(self).unwrap_or_default()
        })
    }

    /// The same for a decision that has nothing to tell, as most have; byte for byte what the long way gives.
    fn plain(&self) -> Option<String> {
        let Decision { session, seq, decision, state, trips, feedback, retry_after_ms, effects, output } =
            self;
        let silent = trips.is_empty() && effects.is_empty() && output.is_none();
        let silent = silent && feedback.is_none() && retry_after_ms.is_none();
        let special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        if !silent || session.bytes().any(special) {
            return None;
        }
        Some(format!(
            "{{\"session\":\"{session}\",\"seq\":{seq},\"decision\":\"{}\",\"state\":\"{}\",\"trips\":[],\
             \"feedback\":null,\"retry_after_ms\":null,\"effects\":[]}}",
            decision.as_str(),
            state.as_str()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_with_nothing_to_tell_is_written_as_any_other() {
        let verdicts = [Verdict::Allow, Verdict::Warn, Verdict::Block, Verdict::Halt];
        let states =
            [Status::Running, Status::AwaitingConfirmation, Status::Blocked, Status::Halted, Status::Ended];
        let mut plain = 0;
        for session in ["s1", "", "ünï/1", "a\"b", "a\\b", "a\nb", "a\u{7f}\u{2028}b"] {
            for (decision, state) in verdicts.iter().flat_map(|v| states.iter().map(move |s| (*v, *s))) {
                let quiet = Decision {
                    session: session.to_owned(),
                    seq: u64::MAX,
                    decision,
                    state,
                    ..Decision::default()
                };
                plain += usize::from(quiet.plain().is_some());
                let told = Decision { feedback: Some("stop".to_owned()), ..quiet.clone() };
                let waits = Decision { retry_after_ms: Some(3), ..quiet.clone() };
                for one in [quiet, told, waits] {
                    assert_eq!(one.to_json(), serde_json::to_string(&one).unwrap());
                }
            }
        }
        assert_eq!(plain, 4 * 20);
    }
}
