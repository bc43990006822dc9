//! Mapping of PostgreSQL errors to store errors, including whether the write may have happened.

use crate::error::{StoreError, StoreErrorKind};
use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

/// Why an operation failed.
#[derive(Debug)]
pub(super) enum PostgresError {
    /// The server rejected it, or the connection broke.
    Sql(Error),
    /// No reply in time.
    Timeout,
    /// Lost a race: the operation may be retried from the start.
    Again(String),
    /// A store error.
    Store(StoreError),
}

impl From<Error> for PostgresError {
    fn from(error: Error) -> Self {
        PostgresError::Sql(error)
    }
}

impl From<StoreError> for PostgresError {
    fn from(error: StoreError) -> Self {
        PostgresError::Store(error)
    }
}

impl From<PoolError> for PostgresError {
    fn from(error: PoolError) -> Self {
        let what = match error {
            PoolError::Backend(error) => return PostgresError::Store(to_store_error(&error)),
            PoolError::Timeout(TimeoutType::Wait) => {
                return PostgresError::Store(StoreError::new(
                    StoreErrorKind::Busy,
                    "all server connections are in use",
                ));
            }
            PoolError::Timeout(_) => "the server does not respond".to_owned(),
            PoolError::Closed => "the store was closed".to_owned(),
            PoolError::PostCreateHook(hook) => format!("cannot set up a new connection: {hook}"),
            PoolError::NoRuntimeSpecified => "the connection pool has no runtime".to_owned(),
        };
        PostgresError::Store(StoreError::new(StoreErrorKind::Unreachable, what))
    }
}

impl PostgresError {
    /// Whether the transaction lost a race and changed nothing, so that it may be retried.
    pub(super) fn is_retryable(&self) -> bool {
        match self {
            PostgresError::Again(_) => true,
            PostgresError::Sql(error) => {
                error.code().is_some_and(|code| matches!(code.code(), "40001" | "40P01"))
            }
            PostgresError::Timeout | PostgresError::Store(_) => false,
        }
    }

    /// Whether the connection broke, so that the server's progress is unknown.
    pub(super) fn is_connection_lost(&self) -> bool {
        match self {
            PostgresError::Sql(error) => error.as_db_error().is_none_or(is_fatal),
            PostgresError::Timeout => true,
            PostgresError::Again(_) | PostgresError::Store(_) => false,
        }
    }

    /// Error of an operation that certainly changed nothing.
    pub(super) fn into_store_error(self) -> StoreError {
        match self {
            PostgresError::Sql(error) => to_store_error(&error),
            PostgresError::Timeout => {
                StoreError::new(StoreErrorKind::Unreachable, "the server does not respond")
            }
            PostgresError::Again(what) => StoreError::new(StoreErrorKind::Busy, what),
            PostgresError::Store(error) => error,
        }
    }

    /// Error of an autocommit write: if the connection broke, the outcome is unknown.
    pub(super) fn into_write_error(self) -> StoreError {
        if self.is_connection_lost() { outcome_unknown() } else { self.into_store_error() }
    }
}

/// The commit may or may not have happened.
pub(super) fn outcome_unknown() -> StoreError {
    StoreError::new(
        StoreErrorKind::OutcomeUnknown,
        "the connection was lost before the server confirmed the commit",
    )
}

fn is_fatal(error: &DbError) -> bool {
    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// Converts a server error. Its detail is omitted, because it contains row values.
pub(super) fn to_store_error(error: &Error) -> StoreError {
    let Some(refused) = error.as_db_error() else {
        return transport_error(error);
    };
    let code = refused.code().code();
    let trouble = match code {
        "3D000" | "3F000" => StoreErrorKind::NotFound,
        "28000" | "28P01" | "42501" => StoreErrorKind::PermissionDenied,
        "25006" => StoreErrorKind::ReadOnly,
        "53100" => StoreErrorKind::DiskFull,
        "53300" | "55P03" | "57014" | "40001" | "40P01" => StoreErrorKind::Busy,
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => StoreErrorKind::Unreachable,
        "XX001" | "XX002" | "23505" | "23502" | "42P01" | "42703" => StoreErrorKind::Corrupt,
        _ if code.starts_with("08") => StoreErrorKind::Unreachable,
        _ => StoreErrorKind::Io,
    };
    let what = match code {
        "28000" | "28P01" => "the server rejected this user's credentials".to_owned(),
        "57014" => "the server canceled a statement, or it timed out".to_owned(),
        "23505" => format!(
            "an event, id or key already exists ({})",
            refused.constraint().unwrap_or("unknown constraint")
        ),
        _ => format!("server error: {} ({code})", one_line(refused.message())),
    };
    StoreError::new(trouble, what)
}

/// Converts an error without a server reply: network, TLS, or a value that cannot be encoded or decoded.
fn transport_error(error: &Error) -> StoreError {
    let trouble =
        if error.is_closed() || is_network(error) { StoreErrorKind::Unreachable } else { StoreErrorKind::Io };
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
