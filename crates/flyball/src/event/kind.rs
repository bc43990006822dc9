//! The kinds of event of the contract, each with its own fields.

use super::check::Check;
use crate::graph::Workflow;
use crate::output::StoredOutput;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Who a user message comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person: starts the counting of repetitions afresh.
    #[default]
    Human,
    /// Another agent.
    Agent,
    /// A scheduler that woke the agent.
    Schedule,
}

/// Who refused a tool call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denier {
    /// A person said no.
    #[default]
    Human,
    /// A permission rule of the host said no.
    Policy,
    /// Flyball itself said no; this is its own veto coming back.
    Guard,
}

/// What a release does to the guard that tripped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseMode {
    /// Lets a number of further acts through.
    #[default]
    Grant,
    /// Sets the guard's counters back to zero.
    Reset,
    /// Lifts the stop and keeps the counters as they are.
    Keep,
}

/// In which direction a number reported as progress gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Higher is better: passed tests, coverage.
    Up,
    /// Lower is better: failing tests, open errors.
    Down,
}

impl Better {
    /// The direction of a built-in signal: `tests` counts failing tests, `checklist` and `docs` what is done. Any other
    /// name says nothing.
    #[must_use]
    pub fn of_builtin(signal: &str) -> Option<Better> {
        match signal {
            "tests" => Some(Better::Down),
            "checklist" | "docs" => Some(Better::Up),
            _ => None,
        }
    }
}

/// One step of a plan that waits for a confirmation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanStep {
    /// The tool that would be called.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Value,
}

/// What happened or is asked for.
#[allow(missing_docs, reason = "the fields carry the names of the contract, where each is explained")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Kind {
    /// A session begins, or goes on after a restart.
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
        /// The work was taken up again on purpose: counting starts afresh.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reopen: bool,
    },
    /// Somebody spoke to the agent.
    #[serde(rename = "user.message")]
    UserMessage {
        #[serde(default)]
        text: String,
        #[serde(default)]
        origin: Origin,
    },
    /// A person wrote something in a chat. What it is (an answer, a new request, a message) follows from what waits.
    #[serde(rename = "person.message")]
    PersonMessage {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The plan that was shown to the person; an answer to another one than the one that waits is refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    },
    /// The agent spoke.
    #[serde(rename = "assistant.message")]
    AssistantMessage {
        #[serde(default)]
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
        #[serde(default, rename = "final")]
        is_final: bool,
    },
    /// A node wants to begin a turn.
    #[serde(rename = "turn.started")]
    TurnStarted {},
    /// A node ended its turn.
    #[serde(rename = "turn.finished")]
    TurnFinished {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// A budget cut a turn's step short. It is neither a result nor a failure.
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
    /// The agent wants to call a tool.
    #[serde(rename = "tool.requested")]
    ToolRequested {
        #[serde(default)]
        call: Option<String>,
        tool: String,
        #[serde(default)]
        args: Value,
    },
    /// A tool call ended.
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
    /// An output arrived; a large one is stored before the governor sees the event.
    #[serde(rename = "output.received")]
    OutputReceived {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Where it was stored; never taken from a client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<StoredOutput>,
    },
    /// A tool call was refused.
    #[serde(rename = "tool.denied")]
    ToolDenied {
        #[serde(default)]
        call: Option<String>,
        #[serde(default)]
        by: Denier,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        args: Value,
    },
    /// The work wants to go from one node to another.
    #[serde(rename = "transition.requested")]
    TransitionRequested {
        from: String,
        to: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edge: Option<String>,
    },
    /// A signal of progress was measured.
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
        better: Option<Better>,
    },
    /// The model's answer could not be used.
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
    /// The model's answer could be used.
    #[serde(rename = "validation.passed")]
    ValidationPassed {},
    /// An operation is about to run: does its breaker let it through?
    #[serde(rename = "operation.requested")]
    OperationRequested {
        operation: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// An operation of a dialogue or a workflow failed, and would be tried again.
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
    /// The agent says that it is done.
    #[serde(rename = "completion.requested")]
    CompletionRequested {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
    },
    /// The quality gate was run.
    #[serde(rename = "gate.checked")]
    GateChecked {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
        #[serde(default)]
        checks: Vec<Check>,
    },
    /// A plan waits for a person's yes.
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
    /// A person answered.
    #[serde(rename = "confirmation.answered")]
    ConfirmationAnswered {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// `yes`, `no`, `cancel`, `change` or `unclear`; `true`, `false` and `null` are read as yes, no and unclear.
        #[serde(default, deserialize_with = "answer_value", skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Which plan was shown to them; an answer to another one than the one that waits is refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    },
    /// The agent asks a person something.
    #[serde(rename = "question.asked")]
    QuestionAsked { text: String },
    /// The conversation was shortened; evidence stays.
    #[serde(rename = "compaction")]
    Compaction {},
    /// The provider's answer was asked for again.
    #[serde(rename = "api.retry")]
    ApiRetry {},
    /// A person lets a stopped session go on.
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
    /// The session meets another policy than the one that it is pinned to.
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
    /// The session is over.
    #[serde(rename = "session.ended")]
    SessionEnded {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<String>,
    },
}

/// Reads the `value` of an answer: a word, or the result of a classifier as `true`, `false` or `null`.
fn answer_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(word) => Ok(Some(word)),
        Value::Bool(true) => Ok(Some("yes".to_owned())),
        Value::Bool(false) => Ok(Some("no".to_owned())),
        Value::Null => Ok(Some("unclear".to_owned())),
        other => Err(D::Error::custom(format!("expected a text, true, false or null, found {other}"))),
    }
}

impl Kind {
    /// The type, as the contract writes it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Kind::SessionStarted { .. } => "session.started",
            Kind::UserMessage { .. } => "user.message",
            Kind::PersonMessage { .. } => "person.message",
            Kind::AssistantMessage { .. } => "assistant.message",
            Kind::TurnStarted { .. } => "turn.started",
            Kind::TurnFinished { .. } => "turn.finished",
            Kind::TurnInterrupted { .. } => "turn.interrupted",
            Kind::TurnResumed { .. } => "turn.resumed",
            Kind::ToolRequested { .. } => "tool.requested",
            Kind::ToolFinished { .. } => "tool.finished",
            Kind::OutputReceived { .. } => "output.received",
            Kind::ToolDenied { .. } => "tool.denied",
            Kind::TransitionRequested { .. } => "transition.requested",
            Kind::Progress { .. } => "progress",
            Kind::ValidationFailed { .. } => "validation.failed",
            Kind::ValidationPassed { .. } => "validation.passed",
            Kind::OperationRequested { .. } => "operation.requested",
            Kind::OperationFailed { .. } => "operation.failed",
            Kind::OperationSucceeded { .. } => "operation.succeeded",
            Kind::CompletionRequested { .. } => "completion.requested",
            Kind::GateChecked { .. } => "gate.checked",
            Kind::ConfirmationRequested { .. } => "confirmation.requested",
            Kind::ConfirmationAnswered { .. } => "confirmation.answered",
            Kind::QuestionAsked { .. } => "question.asked",
            Kind::Compaction { .. } => "compaction",
            Kind::ApiRetry { .. } => "api.retry",
            Kind::HumanReleased { .. } => "human.released",
            Kind::HumanStopped { .. } => "human.stopped",
            Kind::PolicyChanged { .. } => "policy.changed",
            Kind::SessionEnded { .. } => "session.ended",
        }
    }

    /// Whether the contract says that this event asks: an act waits for the decision.
    #[must_use]
    pub const fn asks(&self) -> bool {
        matches!(
            self,
            Kind::AssistantMessage { .. }
                | Kind::PersonMessage { .. }
                | Kind::TurnStarted {}
                | Kind::TurnFinished { .. }
                | Kind::ToolRequested { .. }
                | Kind::TransitionRequested { .. }
                | Kind::ValidationFailed { .. }
                | Kind::OperationRequested { .. }
                | Kind::OperationFailed { .. }
                | Kind::CompletionRequested { .. }
                | Kind::GateChecked { .. }
                | Kind::ConfirmationRequested { .. }
                | Kind::ConfirmationAnswered { .. }
                | Kind::QuestionAsked { .. }
                | Kind::HumanStopped { .. }
        )
    }

    /// Whether this is an act that has not happened yet, so that a refusal keeps it from being counted.
    #[must_use]
    pub const fn is_act(&self) -> bool {
        matches!(
            self,
            Kind::TurnStarted {}
                | Kind::ToolRequested { .. }
                | Kind::TransitionRequested { .. }
                | Kind::OperationRequested { .. }
                | Kind::CompletionRequested { .. }
                | Kind::ConfirmationRequested { .. }
                | Kind::QuestionAsked { .. }
        )
    }
}
