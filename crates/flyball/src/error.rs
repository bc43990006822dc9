//! Errors in events: a stable code, a message, and a hint.

use serde::Serialize;
use std::fmt;

/// Stable error code; each has a section in `docs/errors.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The line is not JSON, or not one JSON object.
    InvalidJson,
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
    /// A field has the wrong type or an out-of-range value.
    WrongType,
    /// The event's `type` is not known.
    UnknownEvent,
    /// The same id was sent with a different body.
    EventConflict,
    /// The inline policy is invalid.
    BadPolicy,
    /// The inline workflow is invalid.
    BadWorkflow,
    /// A name or id is too long.
    NameTooLong,
    /// Stored state cannot be read.
    BadState,
    /// The input contains no event.
    EmptyInput,
    /// The input has no known format.
    UnknownFormat,
    /// The input is a single JSON document that is too large to read at once.
    DocumentTooLarge,
    /// The `kind` of a check names no tool with a supported output format.
    UnknownCheckKind,
}

impl ErrorCode {
    /// The printed code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorCode::InvalidJson => "invalid_json",
            ErrorCode::EventTooLarge => "event_too_large",
            ErrorCode::EventTooDeep => "event_too_deep",
            ErrorCode::DuplicateKey => "duplicate_key",
            ErrorCode::NotUtf8 => "not_utf8",
            ErrorCode::MissingField => "missing_field",
            ErrorCode::WrongType => "wrong_type",
            ErrorCode::UnknownEvent => "unknown_event",
            ErrorCode::EventConflict => "event_conflict",
            ErrorCode::BadPolicy => "bad_policy",
            ErrorCode::BadWorkflow => "bad_workflow",
            ErrorCode::NameTooLong => "name_too_long",
            ErrorCode::BadState => "bad_state",
            ErrorCode::EmptyInput => "empty_input",
            ErrorCode::UnknownFormat => "unknown_format",
            ErrorCode::DocumentTooLarge => "document_too_large",
            ErrorCode::UnknownCheckKind => "unknown_check_kind",
        }
    }
}

/// An error in an event or in stored state. The state is unchanged when it is returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Error {
    /// The stable code.
    pub code: ErrorCode,
    /// The problem, in one line.
    #[serde(rename = "what")]
    pub message: String,
    /// How to fix it, in one line.
    #[serde(rename = "advice")]
    pub help: String,
}

impl Error {
    /// Creates an error from its parts.
    pub fn new(code: ErrorCode, message: impl Into<String>, help: impl Into<String>) -> Self {
        Error { code, message: message.into(), help: help.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.code.as_str())
    }
}

impl std::error::Error for Error {}
