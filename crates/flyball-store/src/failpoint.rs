//! Failpoints: named points at which a test may kill the process, to check what a crash there leaves behind.
//!
//! The shipped binary registers no hook, so a failpoint costs one comparison.

use std::sync::Arc;

/// A point at which a crash is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failpoint {
    /// Decided, nothing written yet.
    BeforeAppend,
    /// Written, not committed yet.
    InTransaction,
    /// Committed, not acknowledged yet.
    AfterCommit,
    /// Acknowledged, the effect not started yet.
    BeforeEffect,
    /// While the effect is performed.
    InEffect,
    /// Performed, not marked as done yet.
    AfterEffect,
    /// Between steps of a migration.
    InMigration,
}

impl Failpoint {
    /// All failpoints.
    pub const ALL: [Failpoint; 7] = [
        Failpoint::BeforeAppend,
        Failpoint::InTransaction,
        Failpoint::AfterCommit,
        Failpoint::BeforeEffect,
        Failpoint::InEffect,
        Failpoint::AfterEffect,
        Failpoint::InMigration,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Failpoint::BeforeAppend => "before_append",
            Failpoint::InTransaction => "in_transaction",
            Failpoint::AfterCommit => "after_commit",
            Failpoint::BeforeEffect => "before_effect",
            Failpoint::InEffect => "in_effect",
            Failpoint::AfterEffect => "after_effect",
            Failpoint::InMigration => "in_migration",
        }
    }
}

/// Callback for failpoints, if any.
#[derive(Clone, Default)]
pub struct FailpointHook(Option<Arc<dyn Fn(Failpoint) + Send + Sync>>);

impl FailpointHook {
    /// Calls `listener` at every failpoint.
    #[must_use]
    pub fn new(listener: impl Fn(Failpoint) + Send + Sync + 'static) -> Self {
        FailpointHook(Some(Arc::new(listener)))
    }

    /// Reports that a failpoint was reached.
    pub(crate) fn reach(&self, point: Failpoint) {
        if let Some(listener) = &self.0 {
            listener(point);
        }
    }
}

impl std::fmt::Debug for FailpointHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Probe(listening)" } else { "Probe" })
    }
}
