//! What can be wrong with an event, as a value with a stable code, a sentence, and what to do about it.

use serde::Serialize;
use std::fmt;

/// A stable code of an error in an event; each has a section in `docs/errors.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The line is not JSON, or not one JSON object.
    BrokenLine,
    /// The line is longer than an event may be.
    EventTooLarge,
    /// The JSON is nested too deeply.
    EventTooDeep,
    /// An object of the event has the same key twice.
    DuplicateKey,
    /// The bytes are not UTF-8.
    NotUtf8,
    /// A required field is missing.
    MissingField,
    /// A field has another type or range than the contract says.
    WrongType,
    /// The event's `type` is not known.
    UnknownEvent,
    /// The same id came with another body.
    EventConflict,
    /// The policy inside the event cannot be used.
    BadPolicy,
    /// The workflow inside the event cannot be used.
    BadWorkflow,
    /// A name or id is too long.
    NameTooLong,
    /// Stored state cannot be read.
    BadState,
    /// The input holds no event at all.
    EmptyInput,
    /// The input looks like no format that is known.
    UnknownFormat,
    /// The input is one JSON document, and larger than may be read at once.
    DocumentTooLarge,
    /// A check's `kind` names no tool whose output can be read.
    UnknownCheckKind,
}

impl Code {
    /// The code as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::BrokenLine => "broken_line",
            Code::EventTooLarge => "event_too_large",
            Code::EventTooDeep => "event_too_deep",
            Code::DuplicateKey => "duplicate_key",
            Code::NotUtf8 => "not_utf8",
            Code::MissingField => "missing_field",
            Code::WrongType => "wrong_type",
            Code::UnknownEvent => "unknown_event",
            Code::EventConflict => "event_conflict",
            Code::BadPolicy => "bad_policy",
            Code::BadWorkflow => "bad_workflow",
            Code::NameTooLong => "name_too_long",
            Code::BadState => "bad_state",
            Code::EmptyInput => "empty_input",
            Code::UnknownFormat => "unknown_format",
            Code::DocumentTooLarge => "document_too_large",
            Code::UnknownCheckKind => "unknown_check_kind",
        }
    }
}

/// An error in an event or in stored state. Nothing was counted when it is returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Error {
    /// The stable code.
    pub code: Code,
    /// What is wrong, in one line.
    pub what: String,
    /// What to do about it, in one line.
    pub advice: String,
}

impl Error {
    /// Makes an error from its parts.
    pub fn new(code: Code, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Error { code, what: what.into(), advice: advice.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.what, self.code.as_str())
    }
}

impl std::error::Error for Error {}
