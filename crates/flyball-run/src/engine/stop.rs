//! How a walk through a workflow ends, and what one visit of a node gave.

use crate::fail::Failure;
use flyball::Decision;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a turn went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As wanted.
    Success,
    /// Not at all.
    Failure,
    /// In part.
    PartialSuccess,
    /// Nobody can say.
    Unclear,
    /// A budget cut it short, and the workflow continues without it.
    Skipped,
}

impl Status {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::Failure => "failure",
            Status::PartialSuccess => "partial_success",
            Status::Unclear => "unclear",
            Status::Skipped => "skipped",
        }
    }
}

/// What a visit gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it went.
    pub status: Status,
    /// Its words.
    pub output: String,
    /// Its data.
    pub structured: Option<Value>,
    /// Where it wants to go, if it was its to decide.
    pub to: Option<String>,
}

impl Outcome {
    /// A success with words.
    #[must_use]
    pub fn success(output: impl Into<String>) -> Self {
        Outcome { status: Status::Success, output: output.into(), structured: None, to: None }
    }

    /// A failure with words.
    #[must_use]
    pub fn failure(output: impl Into<String>) -> Self {
        Outcome { status: Status::Failure, ..Outcome::success(output) }
    }

    /// A step that was left out, and why.
    #[must_use]
    pub fn skipped(why: impl std::fmt::Display) -> Self {
        Outcome { status: Status::Skipped, ..Outcome::success(format!("skipped: {why}")) }
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// The same with data.
    #[must_use]
    pub fn with(mut self, structured: Value) -> Self {
        self.structured = Some(structured);
        self
    }
}

/// Why a walk stopped before its end.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// A guard has halted the session.
    Halted(Box<Decision>),
    /// A guard wants a person to look before it goes on.
    Blocked {
        /// The decision.
        decision: Box<Decision>,
        /// Other ways that would have been there.
        alternatives: Vec<String>,
    },
    /// The quality gate refused the completion for good.
    Gate(Box<Decision>),
    /// A person is asked something.
    Asks(String),
    /// A step was cut off, and nobody knows how far it came.
    CutOff {
        /// The node or tool.
        step: String,
    },
    /// Somebody stopped the run from outside: it can be taken up again.
    Interrupted,
    /// A step was cut short, and the workflow says to continue without it. It ends the turn, and never the walk.
    Skipped,
    /// Something is wrong.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}
