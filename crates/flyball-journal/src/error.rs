//! What can go wrong with a store, in words that a person can act on, and what it means for an event in flight.

use serde::Serialize;

/// What kind of trouble it is. The code is stable; scripts may rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// The address of the store cannot be understood.
    BadAddress,
    /// The folder or file is not there and cannot be made.
    Missing,
    /// It may not be read or written by this user, or is open to others.
    Forbidden,
    /// It can be read but not written.
    ReadOnly,
    /// The disk is full.
    Full,
    /// The file is not a database.
    NotADatabase,
    /// The store was written by a newer Flyball, or the engine is too old to be trusted.
    Version,
    /// What is stored is damaged.
    Corrupt,
    /// Somebody else held the store for too long.
    Busy,
    /// The server cannot be reached.
    Unreachable,
    /// Reading or writing failed.
    Io,
    /// The commit may or may not have happened: the answer was lost.
    Unknown,
    /// Another worker has taken the session over.
    LeaseLost,
    /// The files of the store were deleted, replaced, truncated or rolled back.
    Replaced,
}

impl Trouble {
    /// The code as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Trouble::BadAddress => "store_address",
            Trouble::Missing => "store_missing",
            Trouble::Forbidden => "store_forbidden",
            Trouble::ReadOnly => "store_read_only",
            Trouble::Full => "store_full",
            Trouble::NotADatabase => "store_not_a_database",
            Trouble::Version => "store_version",
            Trouble::Corrupt => "store_corrupt",
            Trouble::Busy => "store_busy",
            Trouble::Unreachable => "store_unreachable",
            Trouble::Io => "store_io",
            Trouble::Unknown => "store_unknown_outcome",
            Trouble::LeaseLost => "lease_lost",
            Trouble::Replaced => "store_replaced",
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Trouble::BadAddress => "write sqlite:PATH, postgres://USER@HOST/DATABASE or memory:",
            Trouble::Missing => "make the folder, or name another place with --store",
            Trouble::Forbidden => "give the folder and the file to this user alone: chmod 700 and chmod 600",
            Trouble::ReadOnly => "make the file and its folder writable, or name another place with --store",
            Trouble::Full => "free some space on the disk, then send the event again with the same id",
            Trouble::NotADatabase => "name another file with --store; this one was left as it is",
            Trouble::Version => "use the Flyball that wrote the store, or a newer one",
            Trouble::Corrupt => {
                "look at it with `flyball doctor`; bring the store back from a copy, or name another one"
            }
            Trouble::Busy => "find out who holds the store, then send the event again with the same id",
            Trouble::Unreachable => "check that the server runs and that the address is right",
            Trouble::Io => "check the disk, then send the event again with the same id",
            Trouble::Unknown => "send the event again with the same id: it will not be counted twice",
            Trouble::LeaseLost => "stop working on this session; load it again before you go on",
            Trouble::Replaced => {
                "put the files back or run `flyball restore FILE`, then restart the processes that use the store"
            }
        }
    }
}

/// An error of a store. Nothing that was acknowledged is lost when it is returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreError {
    /// What kind of trouble it is.
    pub trouble: Trouble,
    /// What happened, in one line, without secrets.
    pub what: String,
    /// Whether the write may have happened all the same.
    pub unsure: bool,
    /// What to do, if this case needs other steps than the kind of trouble in general.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl StoreError {
    /// Makes an error.
    #[must_use]
    pub fn new(trouble: Trouble, what: impl Into<String>) -> Self {
        StoreError { trouble, what: what.into(), unsure: false, help: None }
    }

    /// The same error with its own help text.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// What to do about it: the help text of this error, or that of its kind.
    #[must_use]
    pub fn advice(&self) -> &str {
        self.help.as_deref().unwrap_or(self.trouble.advice())
    }

    /// The same, for a write that may have happened all the same.
    #[must_use]
    pub fn unsure(mut self) -> Self {
        self.unsure = true;
        self
    }

    /// What is stored is damaged.
    #[must_use]
    pub fn corrupt(what: impl Into<String>) -> Self {
        StoreError::new(Trouble::Corrupt, what)
    }

    /// Whether the write may have happened all the same.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        self.unsure || matches!(self.trouble, Trouble::Unknown)
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.trouble.as_str(), self.what)
    }
}

impl std::error::Error for StoreError {}
