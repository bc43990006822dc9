//! Error type of the runner: message, location, help and a stable code.

use std::fmt;

/// A failed operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError {
    /// The stable code, in snake case.
    pub code: String,
    /// File position, node or session that caused it; empty if none.
    pub location: String,
    /// The problem.
    pub message: String,
    /// The next thing to do.
    pub help: String,
}

impl RunError {
    /// Error without a location.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        RunError {
            code: code.to_owned(),
            location: String::new(),
            message: message.into(),
            help: help.into(),
        }
    }

    /// Adds a location.
    #[must_use]
    pub fn at(mut self, location: impl Into<String>) -> Self {
        self.location = location.into();
        self
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunError { code, location, message, help } = self;
        let gap = if location.is_empty() { "" } else { ": " };
        write!(f, "{location}{gap}{message} ({code}); {help}")
    }
}

impl std::error::Error for RunError {}

impl From<flyball::Error> for RunError {
    fn from(error: flyball::Error) -> Self {
        RunError::new(error.code.as_str(), error.message, error.help)
    }
}

impl From<flyball_store::StoreError> for RunError {
    fn from(error: flyball_store::StoreError) -> Self {
        let help = error.help().to_owned();
        RunError::new(error.kind.as_str(), error.message, help)
    }
}

impl From<flyball_store::RecordError> for RunError {
    fn from(refusal: flyball_store::RecordError) -> Self {
        match refusal {
            flyball_store::RecordError::Event(error) => error.into(),
            flyball_store::RecordError::Store(error) => error.into(),
        }
    }
}

impl From<crate::tools::ToolError> for RunError {
    fn from(error: crate::tools::ToolError) -> Self {
        RunError::new(error.code, error.message, error.help)
    }
}

impl From<crate::gates::GateError> for RunError {
    fn from(error: crate::gates::GateError) -> Self {
        RunError::new(error.code, error.message, error.help)
    }
}

impl From<crate::provider::ProviderError> for RunError {
    fn from(error: crate::provider::ProviderError) -> Self {
        RunError::new(error.code(), error.message, error.help).at(format!("provider '{}'", error.provider))
    }
}
