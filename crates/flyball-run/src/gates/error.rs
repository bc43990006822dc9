//! What can be wrong with a set of gates, with a stable code and what to do.

use std::fmt;

/// A set of gates that cannot be run as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateError {
    /// The stable code.
    pub code: &'static str,
    /// What is wrong and where, in one line.
    pub what: String,
    /// What to do about it, in one line.
    pub hint: String,
}

impl GateError {
    /// Makes an error from its parts.
    pub(crate) fn new(code: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        GateError { code, what: what.into(), hint: hint.into() }
    }
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]: {}", self.what, self.code, self.hint)
    }
}

impl std::error::Error for GateError {}
