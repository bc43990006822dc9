//! What the server says when it refuses, in our words; and whether a write may have happened all the same.

use crate::error::{StoreError, Trouble};
use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

/// Why a piece of work did not end well.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server refused, or the connection broke.
    Sql(Error),
    /// No answer came in time.
    Late,
    /// Somebody was faster: the same work may be tried again from the start.
    Again(String),
    /// What was found or done, in our own words.
    Store(StoreError),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault::Store(error)
    }
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Self {
        let what = match error {
            PoolError::Backend(error) => return Fault::Store(meaning(&error)),
            PoolError::Timeout(TimeoutType::Wait) => {
                return Fault::Store(StoreError::new(
                    Trouble::Busy,
                    "all connections to the server are in use",
                ));
            }
            PoolError::Timeout(_) => "the server does not answer".to_owned(),
            PoolError::Closed => "the store was closed".to_owned(),
            PoolError::PostCreateHook(hook) => format!("a new connection could not be set up: {hook}"),
            PoolError::NoRuntimeSpecified => "the connections have nothing to run on".to_owned(),
        };
        Fault::Store(StoreError::new(Trouble::Unreachable, what))
    }
}

impl Fault {
    /// Whether the transaction lost a race and did nothing, so that it may be tried again.
    pub(super) fn again(&self) -> bool {
        match self {
            Fault::Again(_) => true,
            Fault::Sql(error) => error.code().is_some_and(|code| matches!(code.code(), "40001" | "40P01")),
            Fault::Late | Fault::Store(_) => false,
        }
    }

    /// Whether the connection broke, so that it is not known how far the server came.
    pub(super) fn lost(&self) -> bool {
        match self {
            Fault::Sql(error) => error.as_db_error().is_none_or(fatal),
            Fault::Late => true,
            Fault::Again(_) | Fault::Store(_) => false,
        }
    }

    /// The error of work that certainly changed nothing.
    pub(super) fn undone(self) -> StoreError {
        match self {
            Fault::Sql(error) => meaning(&error),
            Fault::Late => StoreError::new(Trouble::Unreachable, "the server does not answer"),
            Fault::Again(what) => StoreError::new(Trouble::Busy, what),
            Fault::Store(error) => error,
        }
    }

    /// The error of a write that commits by itself: if the connection broke, nobody knows.
    pub(super) fn written(self) -> StoreError {
        if self.lost() { unknown() } else { self.undone() }
    }
}

/// The commit may or may not have happened.
pub(super) fn unknown() -> StoreError {
    StoreError::new(Trouble::Unknown, "the connection was lost before the server said whether it is stored")
}

fn fatal(error: &DbError) -> bool {
    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// An error of the server in our words. The detail of the server is left out: it holds values of rows.
pub(super) fn meaning(error: &Error) -> StoreError {
    let Some(refused) = error.as_db_error() else {
        return broken(error);
    };
    let code = refused.code().code();
    let trouble = match code {
        "3D000" | "3F000" => Trouble::Missing,
        "28000" | "28P01" | "42501" => Trouble::Forbidden,
        "25006" => Trouble::ReadOnly,
        "53100" => Trouble::Full,
        "53300" | "55P03" | "57014" | "40001" | "40P01" => Trouble::Busy,
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => Trouble::Unreachable,
        "XX001" | "XX002" | "23505" | "23502" | "42P01" | "42703" => Trouble::Corrupt,
        _ if code.starts_with("08") => Trouble::Unreachable,
        _ => Trouble::Io,
    };
    let what = match code {
        "28000" | "28P01" => "the server does not let this user in".to_owned(),
        "57014" => "the server gave a statement up: it took too long or was cancelled".to_owned(),
        "23505" => format!(
            "an event, id or key is already there that cannot be ({})",
            refused.constraint().unwrap_or("no name")
        ),
        _ => format!("the server says: {} ({code})", one_line(refused.message())),
    };
    StoreError::new(trouble, what)
}

/// An error without a word of the server: the network, TLS, or a value that cannot be sent or read.
fn broken(error: &Error) -> StoreError {
    let trouble = if error.is_closed() || is_network(error) { Trouble::Unreachable } else { Trouble::Io };
    let mut what = one_line(&error.to_string());
    if let Some(cause) = std::error::Error::source(error) {
        let cause = one_line(&cause.to_string());
        if !what.contains(&cause) {
            what = format!("{what}: {cause}");
        }
    }
    StoreError::new(trouble, what)
}

fn is_network(error: &Error) -> bool {
    let text = error.to_string();
    ["error connecting", "timeout", "communicating", "TLS", "connection"]
        .iter()
        .any(|word| text.contains(word))
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(300).collect()
}
