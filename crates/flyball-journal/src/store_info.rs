//! What is said of a store as a whole: its identity, and what a copy of it holds.

use crate::marks::Mark;

/// What tells a store from any other, and from older copies of itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct StoreIdentity {
    /// Its random id.
    pub id: String,
    /// What is known of it outside of its own files.
    pub mark: Option<Mark>,
    /// Why there is no mark.
    pub problem: Option<String>,
}

/// A copy of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Backup {
    /// The sessions in it.
    pub sessions: u64,
    /// The events in it.
    pub events: u64,
    /// Its size.
    pub bytes: u64,
}
