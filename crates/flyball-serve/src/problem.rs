//! What a caller is told when something cannot be done: what, what to do, and a stable code.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flyball_journal::{Refusal, StoreError, Trouble};
use serde::Serialize;
use utoipa::ToSchema;

/// How long a caller is asked to wait when there is too much to do, in seconds.
const WAIT_SECONDS: u64 = 1;

/// Why a request was not served. Nothing was changed, unless the code is `store_unknown_outcome`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The status of the answer.
    pub status: StatusCode,
    /// The stable code; each has a section in `docs/errors.md`.
    pub code: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub advice: String,
    /// How long to wait before trying again, in seconds, if that helps.
    pub retry_after: u64,
}

/// The body of an answer that is an error.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemBody {
    /// What went wrong.
    pub(crate) error: ProblemWords,
}

/// What went wrong, in words.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemWords {
    /// The stable code; each has a section in `docs/errors.md`.
    pub(crate) code: String,
    /// What is wrong.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) advice: String,
    /// Where it is explained: a page of this server.
    pub(crate) help: String,
}

/// A problem, attached to the answer that tells it, so that the audit log need not read bodies.
#[derive(Debug, Clone)]
pub(crate) struct Told(pub(crate) Problem);

impl Problem {
    /// A problem of its own.
    pub(crate) fn new(
        status: StatusCode,
        code: &str,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (what, advice) = (what.into(), advice.into());
        Problem { status, code: code.to_owned(), what, advice, retry_after: WAIT_SECONDS }
    }

    /// There is too much to do at the moment; nothing was taken.
    pub(crate) fn busy() -> Self {
        let what = "too many events wait for the store at the moment; this one was not taken";
        let advice = "wait as long as Retry-After says, then send it again with the same id";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", what, advice)
    }

    /// The server is about to stop; nothing was taken.
    pub(crate) fn stopping() -> Self {
        let what = "the server is about to stop; this was not taken";
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            what,
            "send it again with the same id, to any server of the store",
        )
    }

    /// There is no such session.
    pub(crate) fn unknown_session(name: &str) -> Self {
        let what = format!("there is no session '{}'", flyball_view::words::line(name, 80));
        Problem::new(StatusCode::NOT_FOUND, "session_unknown", what, "GET /v1/sessions has the names")
    }

    /// The body for a caller.
    pub(crate) fn body(&self) -> ProblemBody {
        let Problem { code, what, advice, .. } = self.clone();
        let help = format!("/errors/{code}");
        ProblemBody { error: ProblemWords { code, what, advice, help } }
    }
}

impl From<flyball::Error> for Problem {
    fn from(error: flyball::Error) -> Self {
        let status = if error.code.as_str() == "event_conflict" {
            StatusCode::CONFLICT
        } else {
            StatusCode::UNPROCESSABLE_ENTITY
        };
        Problem::new(status, error.code.as_str(), error.what, error.advice)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let status = match error.trouble {
            Trouble::Busy | Trouble::Unreachable | Trouble::LeaseLost | Trouble::Full | Trouble::Replaced => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let help = error.advice().to_owned();
        Problem::new(status, error.trouble.as_str(), error.what, help)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Event(error) => error.into(),
            Refusal::Store(error) => error.into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(self.retry_after));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Told(self));
        response
    }
}
