//! The kinds of events and their fields.

use super::check::Check;
use crate::graph::Workflow;
use crate::output::StoredOutput;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The sender of a user message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageOrigin {
    /// A person: resets the repetition counters.
    #[default]
    Human,
    /// Another agent.
    Agent,
    /// A scheduler that triggered the agent.
    Schedule,
}

/// The party that denied a tool call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedBy {
    /// A person denied it.
    #[default]
    Human,
    /// A permission rule of the host denied it.
    Policy,
    /// Flyball itself denied it; the event reports Flyball's own veto.
    Guard,
}

/// The effect of a release on the guard that tripped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseMode {
    /// Allows a number of further actions.
    #[default]
    Grant,
    /// Resets the guard's counters to zero.
    Reset,
    /// Lifts the stop and keeps the counters.
    Keep,
}

/// The direction in which a progress value improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BetterDirection {
    /// Higher is better: passed tests, coverage.
    Up,
    /// Lower is better: failing tests, open errors.
    Down,
}

impl BetterDirection {
    /// The direction of a built-in signal: `tests` counts failing tests, `checklist` and `docs` count what is done.
    /// `None` for any other name.
    #[must_use]
    pub fn for_builtin_signal(signal: &str) -> Option<BetterDirection> {
        match signal {
            "tests" => Some(BetterDirection::Down),
            "checklist" | "docs" => Some(BetterDirection::Up),
            _ => None,
        }
    }
}

/// One step of a plan that awaits confirmation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanStep {
    /// The tool to call.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Value,
}

/// A fact or a request, with its fields.
#[allow(missing_docs, reason = "the fields are documented in docs/events.md")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum EventKind {
    /// A session starts, or continues after a restart.
    #[serde(rename = "session.started")]
    SessionStarted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workflow: Option<Workflow>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        labels: Map<String, Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goal: Option<String>,
        /// Whether the work was reopened on purpose, which resets the counters.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reopen: bool,
    },
    /// A message to the agent.
    #[serde(rename = "user.message")]
    UserMessage {
        #[serde(default)]
        text: String,
        #[serde(default)]
        origin: MessageOrigin,
    },
    /// A person's chat message. Whether it is an answer, a new request or a message depends on what is pending.
    #[serde(rename = "person.message")]
    PersonMessage {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The plan shown to the person. An answer to a plan other than the pending one is rejected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    },
    /// A message from the agent.
    #[serde(rename = "assistant.message")]
    AssistantMessage {
        #[serde(default)]
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
        #[serde(default, rename = "final")]
        is_final: bool,
    },
    /// A node requests to start a turn.
    #[serde(rename = "turn.started")]
    TurnStarted {},
    /// A node finished its turn.
    #[serde(rename = "turn.finished")]
    TurnFinished {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// A budget interrupted a step of a turn. This is neither a result nor a failure.
    #[serde(rename = "turn.interrupted")]
    TurnInterrupted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
    },
    /// The interrupted step of a turn is repeated.
    #[serde(rename = "turn.resumed")]
    TurnResumed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
    },
    /// The agent requests a tool call.
    #[serde(rename = "tool.requested")]
    ToolRequested {
        #[serde(default)]
        call: Option<String>,
        tool: String,
        #[serde(default)]
        args: Value,
    },
    /// A tool call finished.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        #[serde(default)]
        call: Option<String>,
        #[serde(default)]
        ok: Option<bool>,
        #[serde(default)]
        output: Value,
        #[serde(default)]
        error: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        args: Value,
    },
    /// An output was received. A large one is stored before the governor sees the event.
    #[serde(rename = "output.received")]
    OutputReceived {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The stored output. Never accepted from a client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<StoredOutput>,
    },
    /// A tool call was denied.
    #[serde(rename = "tool.denied")]
    ToolDenied {
        #[serde(default)]
        call: Option<String>,
        #[serde(default)]
        by: DeniedBy,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        args: Value,
    },
    /// A transition from one node to another is requested.
    #[serde(rename = "transition.requested")]
    TransitionRequested {
        from: String,
        to: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edge: Option<String>,
    },
    /// A progress signal was measured.
    #[serde(rename = "progress")]
    Progress {
        signal: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hash: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<serde_json::Number>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failing: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        done: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        better: Option<BetterDirection>,
    },
    /// The model's response was invalid.
    #[serde(rename = "validation.failed")]
    ValidationFailed {
        #[serde(default)]
        kind: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        received: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The model's response was valid.
    #[serde(rename = "validation.passed")]
    ValidationPassed {},
    /// An operation is about to run, if its circuit breaker allows it.
    #[serde(rename = "operation.requested")]
    OperationRequested {
        operation: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// An operation of a dialogue or a workflow failed and may be retried.
    #[serde(rename = "operation.failed")]
    OperationFailed {
        operation: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// An operation succeeded, or was denied on purpose.
    #[serde(rename = "operation.succeeded")]
    OperationSucceeded {
        operation: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// The agent declares that it is done.
    #[serde(rename = "completion.requested")]
    CompletionRequested {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
    },
    /// The quality gate ran.
    #[serde(rename = "gate.checked")]
    GateChecked {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
        #[serde(default)]
        checks: Vec<Check>,
    },
    /// A plan awaits a person's confirmation.
    #[serde(rename = "confirmation.requested")]
    ConfirmationRequested {
        #[serde(default)]
        plan: Vec<PlanStep>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requester: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        targets: Vec<Value>,
    },
    /// A person answered a confirmation.
    #[serde(rename = "confirmation.answered")]
    ConfirmationAnswered {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// `yes`, `no`, `cancel`, `change` or `unclear`; `true`, `false` and `null` mean yes, no and unclear.
        #[serde(
            default,
            deserialize_with = "deserialize_answer_value",
            skip_serializing_if = "Option::is_none"
        )]
        value: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The plan shown to the person. An answer to a plan other than the pending one is rejected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    },
    /// The agent asks a person a question.
    #[serde(rename = "question.asked")]
    QuestionAsked { text: String },
    /// The conversation was compacted; evidence is kept.
    #[serde(rename = "compaction")]
    Compaction {},
    /// A request to the model provider was retried.
    #[serde(rename = "api.retry")]
    ApiRetry {},
    /// A person releases a stopped session.
    #[serde(rename = "human.released")]
    HumanReleased {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guard: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trip: Option<Value>,
        #[serde(default)]
        mode: ReleaseMode,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A person stops the session.
    #[serde(rename = "human.stopped")]
    HumanStopped {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The session's pinned policy differs from the current one.
    #[serde(rename = "policy.changed")]
    PolicyChanged {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tightened: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        waiting: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The session ended.
    #[serde(rename = "session.ended")]
    SessionEnded {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<String>,
    },
}

/// Deserializes the `value` of an answer: a string, or a classifier's result as `true`, `false` or `null`.
fn deserialize_answer_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(word) => Ok(Some(word)),
        Value::Bool(true) => Ok(Some("yes".to_owned())),
        Value::Bool(false) => Ok(Some("no".to_owned())),
        Value::Null => Ok(Some("unclear".to_owned())),
        other => Err(D::Error::custom(format!("expected a string, true, false or null, found {other}"))),
    }
}

impl EventKind {
    /// The name of the event type.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            EventKind::SessionStarted { .. } => "session.started",
            EventKind::UserMessage { .. } => "user.message",
            EventKind::PersonMessage { .. } => "person.message",
            EventKind::AssistantMessage { .. } => "assistant.message",
            EventKind::TurnStarted { .. } => "turn.started",
            EventKind::TurnFinished { .. } => "turn.finished",
            EventKind::TurnInterrupted { .. } => "turn.interrupted",
            EventKind::TurnResumed { .. } => "turn.resumed",
            EventKind::ToolRequested { .. } => "tool.requested",
            EventKind::ToolFinished { .. } => "tool.finished",
            EventKind::OutputReceived { .. } => "output.received",
            EventKind::ToolDenied { .. } => "tool.denied",
            EventKind::TransitionRequested { .. } => "transition.requested",
            EventKind::Progress { .. } => "progress",
            EventKind::ValidationFailed { .. } => "validation.failed",
            EventKind::ValidationPassed { .. } => "validation.passed",
            EventKind::OperationRequested { .. } => "operation.requested",
            EventKind::OperationFailed { .. } => "operation.failed",
            EventKind::OperationSucceeded { .. } => "operation.succeeded",
            EventKind::CompletionRequested { .. } => "completion.requested",
            EventKind::GateChecked { .. } => "gate.checked",
            EventKind::ConfirmationRequested { .. } => "confirmation.requested",
            EventKind::ConfirmationAnswered { .. } => "confirmation.answered",
            EventKind::QuestionAsked { .. } => "question.asked",
            EventKind::Compaction { .. } => "compaction",
            EventKind::ApiRetry { .. } => "api.retry",
            EventKind::HumanReleased { .. } => "human.released",
            EventKind::HumanStopped { .. } => "human.stopped",
            EventKind::PolicyChanged { .. } => "policy.changed",
            EventKind::SessionEnded { .. } => "session.ended",
        }
    }

    /// Whether an action waits for the decision on this event.
    #[must_use]
    pub const fn needs_decision(&self) -> bool {
        matches!(
            self,
            EventKind::AssistantMessage { .. }
                | EventKind::PersonMessage { .. }
                | EventKind::TurnStarted {}
                | EventKind::TurnFinished { .. }
                | EventKind::ToolRequested { .. }
                | EventKind::TransitionRequested { .. }
                | EventKind::ValidationFailed { .. }
                | EventKind::OperationRequested { .. }
                | EventKind::OperationFailed { .. }
                | EventKind::CompletionRequested { .. }
                | EventKind::GateChecked { .. }
                | EventKind::ConfirmationRequested { .. }
                | EventKind::ConfirmationAnswered { .. }
                | EventKind::QuestionAsked { .. }
                | EventKind::HumanStopped { .. }
        )
    }

    /// Whether this is a request for an action that has not happened yet, which is not counted if it is denied.
    #[must_use]
    pub const fn is_request(&self) -> bool {
        matches!(
            self,
            EventKind::TurnStarted {}
                | EventKind::ToolRequested { .. }
                | EventKind::TransitionRequested { .. }
                | EventKind::OperationRequested { .. }
                | EventKind::CompletionRequested { .. }
                | EventKind::ConfirmationRequested { .. }
                | EventKind::QuestionAsked { .. }
        )
    }
}
