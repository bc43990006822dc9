//! Named places at which a test may end the process, to see what a crash there leaves behind.
//!
//! In the shipped command nobody listens, and a place costs one comparison.

use std::sync::Arc;

/// A place at which a crash is interesting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Decided, but nothing was written.
    BeforeAppend,
    /// Written, but not committed.
    InTransaction,
    /// Committed, but not acknowledged.
    AfterCommit,
    /// Acknowledged, but the effect was not begun.
    BeforeEffect,
    /// The effect is being performed.
    InEffect,
    /// The effect was performed, but not marked as done.
    AfterEffect,
    /// Some steps of a migration were made.
    InMigration,
}

impl Point {
    /// All of them.
    pub const ALL: [Point; 7] = [
        Point::BeforeAppend,
        Point::InTransaction,
        Point::AfterCommit,
        Point::BeforeEffect,
        Point::InEffect,
        Point::AfterEffect,
        Point::InMigration,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Point::BeforeAppend => "before_append",
            Point::InTransaction => "in_transaction",
            Point::AfterCommit => "after_commit",
            Point::BeforeEffect => "before_effect",
            Point::InEffect => "in_effect",
            Point::AfterEffect => "after_effect",
            Point::InMigration => "in_migration",
        }
    }
}

/// Who is told when a place is passed.
#[derive(Clone, Default)]
pub struct Probe(Option<Arc<dyn Fn(Point) + Send + Sync>>);

impl Probe {
    /// Tells `listener` of every place that is passed.
    #[must_use]
    pub fn new(listener: impl Fn(Point) + Send + Sync + 'static) -> Self {
        Probe(Some(Arc::new(listener)))
    }

    /// A place is passed.
    pub(crate) fn pass(&self, point: Point) {
        if let Some(listener) = &self.0 {
            listener(point);
        }
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Probe(listening)" } else { "Probe" })
    }
}
