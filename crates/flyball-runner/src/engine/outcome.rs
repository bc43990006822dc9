//! Outcome of a node visit, and reasons why a run stops.

use crate::run_error::RunError;
use flyball::Decision;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Status of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// Completed as intended.
    Success,
    /// Failed.
    Failure,
    /// Completed in part.
    PartialSuccess,
    /// The result cannot be determined.
    Unclear,
    /// Interrupted by a budget; the workflow continues without it.
    Skipped,
}

impl NodeStatus {
    /// Name as stored in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            NodeStatus::Success => "success",
            NodeStatus::Failure => "failure",
            NodeStatus::PartialSuccess => "partial_success",
            NodeStatus::Unclear => "unclear",
            NodeStatus::Skipped => "skipped",
        }
    }
}

/// Outcome of a visit.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeOutcome {
    /// Status.
    pub status: NodeStatus,
    /// Output text.
    pub output: String,
    /// Structured output.
    pub structured: Option<Value>,
    /// Target that the node chose itself, if any.
    pub to: Option<String>,
}

impl NodeOutcome {
    /// A success with output.
    #[must_use]
    pub fn success(output: impl Into<String>) -> Self {
        NodeOutcome { status: NodeStatus::Success, output: output.into(), structured: None, to: None }
    }

    /// A failure with output.
    #[must_use]
    pub fn failed(output: impl Into<String>) -> Self {
        NodeOutcome { status: NodeStatus::Failure, ..NodeOutcome::success(output) }
    }

    /// A skipped step with the reason.
    #[must_use]
    pub fn skipped(why: impl std::fmt::Display) -> Self {
        NodeOutcome { status: NodeStatus::Skipped, ..NodeOutcome::success(format!("skipped: {why}")) }
    }

    /// Replaces the status.
    #[must_use]
    pub fn with_status(mut self, status: NodeStatus) -> Self {
        self.status = status;
        self
    }

    /// Adds structured output.
    #[must_use]
    pub fn with_structured(mut self, structured: Value) -> Self {
        self.structured = Some(structured);
        self
    }
}

/// Why a run stopped before its end.
#[derive(Debug, Clone, PartialEq)]
pub enum RunStop {
    /// A guard halted the session.
    Halted(Box<Decision>),
    /// A guard requires a person before the session continues.
    Blocked {
        /// The decision.
        decision: Box<Decision>,
        /// Other possible targets.
        alternatives: Vec<String>,
    },
    /// The quality gate denied the completion permanently.
    Gate(Box<Decision>),
    /// The run waits for a person's answer to this question.
    AwaitingInput(String),
    /// A step was interrupted, and its outcome is unknown.
    StepOutcomeUnknown {
        /// Node or tool.
        step: String,
    },
    /// The run was cancelled from outside and can be resumed.
    Interrupted,
    /// A step was interrupted and the workflow skips it. Ends the turn, never the run.
    Skipped,
    /// An error.
    Failed(RunError),
}

impl From<RunError> for RunStop {
    fn from(failure: RunError) -> Self {
        RunStop::Failed(failure)
    }
}
