//! Errors in a set of gates.

use std::fmt;

/// A set of gates that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateError {
    /// The stable code.
    pub code: &'static str,
    /// The problem and its location, in one line.
    pub message: String,
    /// The next thing to do, in one line.
    pub help: String,
}

impl GateError {
    /// Creates an error.
    pub(crate) fn new(code: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        GateError { code, message: message.into(), help: help.into() }
    }
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]: {}", self.message, self.code, self.help)
    }
}

impl std::error::Error for GateError {}
