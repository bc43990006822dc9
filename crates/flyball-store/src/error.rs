//! Store errors: a stable code, a message, a help text, and whether the write may have happened.

use serde::Serialize;

/// Kind of a store error. Codes are stable; scripts may rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreErrorKind {
    /// The store address is invalid.
    BadAddress,
    /// The directory or file does not exist and cannot be created.
    NotFound,
    /// This user may not read or write it, or other users may.
    PermissionDenied,
    /// It can be read but not written.
    ReadOnly,
    /// The disk is full.
    DiskFull,
    /// The file is not a database.
    NotADatabase,
    /// A newer Flyball wrote the store, or the engine is too old to be safe.
    UnsupportedVersion,
    /// Stored data is corrupt.
    Corrupt,
    /// Another process held the store for too long.
    Busy,
    /// The server cannot be reached.
    Unreachable,
    /// A read or write failed.
    Io,
    /// The commit may or may not have happened: the reply was lost.
    OutcomeUnknown,
    /// Another worker took over the session.
    LeaseLost,
    /// The files of the store were deleted, replaced, truncated or rolled back.
    Replaced,
}

impl StoreErrorKind {
    /// The code as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            StoreErrorKind::BadAddress => "store_address",
            StoreErrorKind::NotFound => "store_missing",
            StoreErrorKind::PermissionDenied => "store_forbidden",
            StoreErrorKind::ReadOnly => "store_read_only",
            StoreErrorKind::DiskFull => "store_full",
            StoreErrorKind::NotADatabase => "store_not_a_database",
            StoreErrorKind::UnsupportedVersion => "store_version",
            StoreErrorKind::Corrupt => "store_corrupt",
            StoreErrorKind::Busy => "store_busy",
            StoreErrorKind::Unreachable => "store_unreachable",
            StoreErrorKind::Io => "store_io",
            StoreErrorKind::OutcomeUnknown => "store_unknown_outcome",
            StoreErrorKind::LeaseLost => "lease_lost",
            StoreErrorKind::Replaced => "store_replaced",
        }
    }

    /// Default help text.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            StoreErrorKind::BadAddress => "write sqlite:PATH, postgres://USER@HOST/DATABASE or memory:",
            StoreErrorKind::NotFound => "create the folder, or choose another location with --store",
            StoreErrorKind::PermissionDenied => {
                "restrict the folder and the file to this user: chmod 700 and chmod 600"
            }
            StoreErrorKind::ReadOnly => {
                "make the file and its folder writable, or choose another location with --store"
            }
            StoreErrorKind::DiskFull => "free some disk space, then send the event again with the same id",
            StoreErrorKind::NotADatabase => "choose another file with --store; this one was not changed",
            StoreErrorKind::UnsupportedVersion => {
                "use the Flyball version that wrote the store, or a newer one"
            }
            StoreErrorKind::Corrupt => {
                "check it with `flyball doctor`; restore a backup, or use another store"
            }
            StoreErrorKind::Busy => {
                "find the process that holds the store, then send the event again with the same id"
            }
            StoreErrorKind::Unreachable => "check that the server is running and that the address is correct",
            StoreErrorKind::Io => "check the disk, then send the event again with the same id",
            StoreErrorKind::OutcomeUnknown => {
                "send the event again with the same id: it will be counted only once"
            }
            StoreErrorKind::LeaseLost => "stop working on this session; reload it before you continue",
            StoreErrorKind::Replaced => {
                "put the files back or run `flyball restore FILE`, then restart the processes that use the store"
            }
        }
    }
}

/// A store error. No acknowledged event is lost when it is returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreError {
    /// Kind of the error.
    pub kind: StoreErrorKind,
    /// One-line message without secrets.
    #[serde(rename = "what")]
    pub message: String,
    /// Whether the write may have happened anyway.
    pub outcome_unknown: bool,
    /// Help text that replaces the default of the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl StoreError {
    /// Creates an error with the default help text.
    #[must_use]
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        StoreError { kind, message: message.into(), outcome_unknown: false, help: None }
    }

    /// Replaces the help text.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The help text of this error, or the default of its kind.
    #[must_use]
    pub fn help(&self) -> &str {
        self.help.as_deref().unwrap_or(self.kind.help())
    }

    /// Marks the error as one of a write that may have happened anyway.
    #[must_use]
    pub fn with_unknown_outcome(mut self) -> Self {
        self.outcome_unknown = true;
        self
    }

    /// An error about corrupt data.
    #[must_use]
    pub fn corrupt(what: impl Into<String>) -> Self {
        StoreError::new(StoreErrorKind::Corrupt, what)
    }

    /// Whether the write may have happened anyway.
    #[must_use]
    pub const fn is_outcome_unknown(&self) -> bool {
        self.outcome_unknown || matches!(self.kind, StoreErrorKind::OutcomeUnknown)
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.message)
    }
}

impl std::error::Error for StoreError {}
