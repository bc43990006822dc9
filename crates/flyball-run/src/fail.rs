//! How a run fails: what, where, what to do, and a stable code.

use std::fmt;

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The stable code, in snake case.
    pub code: String,
    /// The file, line, node or session it is about; empty if there is none.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl Failure {
    /// A failure without a place.
    #[must_use]
    pub fn new(code: &str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Failure { code: code.to_owned(), place: String::new(), what: what.into(), advice: advice.into() }
    }

    /// The same at a place.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { code, place, what, advice } = self;
        let gap = if place.is_empty() { "" } else { ": " };
        write!(f, "{place}{gap}{what} ({code}); {advice}")
    }
}

impl std::error::Error for Failure {}

impl From<flyball::Error> for Failure {
    fn from(error: flyball::Error) -> Self {
        Failure::new(error.code.as_str(), error.what, error.advice)
    }
}

impl From<flyball_journal::StoreError> for Failure {
    fn from(error: flyball_journal::StoreError) -> Self {
        let advice = error.advice().to_owned();
        Failure::new(error.trouble.as_str(), error.what, advice)
    }
}

impl From<flyball_journal::Refusal> for Failure {
    fn from(refusal: flyball_journal::Refusal) -> Self {
        match refusal {
            flyball_journal::Refusal::Event(error) => error.into(),
            flyball_journal::Refusal::Store(error) => error.into(),
        }
    }
}

impl From<crate::tools::ToolError> for Failure {
    fn from(error: crate::tools::ToolError) -> Self {
        Failure::new(error.code, error.what, error.hint)
    }
}

impl From<crate::gates::GateError> for Failure {
    fn from(error: crate::gates::GateError) -> Self {
        Failure::new(error.code, error.what, error.hint)
    }
}

impl From<crate::provider::ProviderError> for Failure {
    fn from(error: crate::provider::ProviderError) -> Self {
        Failure::new(error.code(), error.what, error.advice).at(format!("provider '{}'", error.provider))
    }
}
