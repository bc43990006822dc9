//! The decision about an event: allow, warn, block or halt, with its trips and the effects to perform.

use crate::fingerprint::Fingerprint;
use crate::output::LargeOutput;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Verdict of a decision. The strictest trip wins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Continue.
    #[default]
    Allow,
    /// Continue, but consider the feedback.
    Warn,
    /// Deny this request.
    Block,
    /// Stop until a person releases the session.
    Halt,
}

impl Verdict {
    /// The printed name.
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

/// Severity of a trip. `Observe` is reported and has no effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TripSeverity {
    /// Reported only.
    #[default]
    Observe,
    /// Causes a warning.
    Warn,
    /// Blocks the request.
    Block,
    /// Halts the session.
    Halt,
}

impl TripSeverity {
    /// The verdict caused by this severity.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self {
            TripSeverity::Observe => Verdict::Allow,
            TripSeverity::Warn => Verdict::Warn,
            TripSeverity::Block => Verdict::Block,
            TripSeverity::Halt => Verdict::Halt,
        }
    }

    /// The printed name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            TripSeverity::Observe => "observe",
            TripSeverity::Warn => "warn",
            TripSeverity::Block => "block",
            TripSeverity::Halt => "halt",
        }
    }
}

/// Phase of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionPhase {
    /// It may continue.
    #[default]
    Running,
    /// A plan is awaiting approval.
    AwaitingConfirmation,
    /// A request was blocked and escalated to a person; the session awaits a release.
    Blocked,
    /// Stopped until a release.
    Halted,
    /// The session has ended.
    Ended,
}

impl SessionPhase {
    /// The printed name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SessionPhase::Running => "running",
            SessionPhase::AwaitingConfirmation => "awaiting_confirmation",
            SessionPhase::Blocked => "blocked",
            SessionPhase::Halted => "halted",
            SessionPhase::Ended => "ended",
        }
    }
}

/// The five coarse halt reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HaltReason {
    /// A budget is exhausted.
    BudgetExceeded,
    /// No more progress.
    Stalled,
    /// The work alternates between states.
    Oscillating,
    /// The same failure occurs repeatedly.
    RepeatedError,
    /// A person stopped it.
    UserStop,
}

impl HaltReason {
    /// The printed name.
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

/// Evidence of a trip: enough for a person to verify it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Sequence numbers of the related events, oldest first.
    pub events: Vec<u64>,
    /// Length of the repeated block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<u64>,
    /// Number of consecutive repetitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u64>,
    /// The equal fingerprints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fingerprints: Vec<Fingerprint>,
    /// The trail of visited nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trail: Vec<String>,
    /// Values in measurement order, such as the number of failing tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trend: Vec<i64>,
    /// Related names, such as failing tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// A budget that is exhausted, or nearly so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUsage {
    /// `session`, `turn`, `node`, `loop`, `message` or `tree`.
    pub scope: String,
    /// `runtime_ms`, `turns`, `iterations`, `tokens`, `cost_micro_usd`, …
    pub name: String,
    /// The limit.
    pub limit: u64,
    /// The usage.
    pub used: u64,
}

/// A finding of a guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trip {
    /// The guard that tripped.
    pub guard: String,
    /// The specific reason.
    pub reason: String,
    /// The coarse reason; only for a halt.
    pub halt_reason: Option<HaltReason>,
    /// Severity after applying the guard's mode.
    pub severity: TripSeverity,
    /// Severity before applying the guard's mode. Under `observe` it shows what would have been stopped. Not
    /// serialized.
    #[serde(skip)]
    pub unclamped: UnclampedSeverity,
    /// Subject of the trip: a tool, node, edge, loop, operation, signal, …
    pub scope: BTreeMap<String, String>,
    /// The counted value.
    pub count: u64,
    /// The limit it was compared with.
    pub limit: u64,
    /// Message for a person.
    pub message: String,
    /// The evidence.
    pub evidence: Evidence,
    /// Names of suggested actions.
    pub suggested_actions: Vec<String>,
    /// The budget, for budget trips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetUsage>,
}

/// Severity before applying the guard's mode. Ignored when trips are compared for equality.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnclampedSeverity(pub TripSeverity);

impl PartialEq for UnclampedSeverity {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for UnclampedSeverity {}

/// An action for the caller to perform. The core performs no effects itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// `loop.halted`, `say`, `plan.approved`, `plan.rejected`, `label.added`, …
    pub effect: String,
    /// Idempotency key: the same effect of the same event has the same key.
    pub key: String,
    /// The remaining fields.
    #[serde(flatten)]
    pub fields: BTreeMap<String, Value>,
}

/// The decision about one event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The session.
    pub session: String,
    /// Sequence number of the event in its session, starting at 1.
    pub seq: u64,
    /// The verdict.
    pub decision: Verdict,
    /// Phase of the session after the event.
    pub state: SessionPhase,
    /// The reasons, one trip per finding.
    pub trips: Vec<Trip>,
    /// Text for the model, from fixed templates.
    pub feedback: Option<String>,
    /// Wait before the next attempt, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Effects for the caller to perform.
    pub effects: Vec<Effect>,
    /// The large output that the event reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<LargeOutput>>,
}

impl Decision {
    /// Whether a request was blocked only for lack of approval.
    #[must_use]
    pub fn lacks_approval(&self) -> bool {
        let mut blocking = self.trips.iter().filter(|trip| trip.severity >= TripSeverity::Block).peekable();
        self.decision == Verdict::Block
            && blocking.peek().is_some()
            && blocking.all(|trip| trip.reason == "approval_required")
    }

    /// The decision as one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.plain_json().unwrap_or_else(|| {
            // A decision holds only strings, numbers and maps with string keys, so serialization cannot fail.
            serde_json::to_string(self).unwrap_or_default()
        })
    }

    /// Fast path for a decision without trips or effects, the most common case. Produces the same bytes as serde.
    fn plain_json(&self) -> Option<String> {
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
    fn plain_json_fast_path_matches_serde() {
        let verdicts = [Verdict::Allow, Verdict::Warn, Verdict::Block, Verdict::Halt];
        let states = [
            SessionPhase::Running,
            SessionPhase::AwaitingConfirmation,
            SessionPhase::Blocked,
            SessionPhase::Halted,
            SessionPhase::Ended,
        ];
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
                plain += usize::from(quiet.plain_json().is_some());
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
