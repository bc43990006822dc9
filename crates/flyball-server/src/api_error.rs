//! API errors: a stable code, a message, and the next step.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flyball_store::{RecordError, StoreError, StoreErrorKind};
use serde::Serialize;
use utoipa::ToSchema;

/// Default `Retry-After` when the server is overloaded, in seconds.
const DEFAULT_RETRY_AFTER_S: u64 = 1;

/// Why a request failed. Nothing was changed, unless the code is `store_unknown_outcome`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable code; each has a section in `docs/errors.md`.
    pub code: String,
    /// The problem.
    pub message: String,
    /// How to fix it.
    pub help: String,
    /// Seconds to wait before a retry, sent with status 429 and 503.
    pub retry_after_s: u64,
}

/// Body of an error response.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApiErrorBody {
    /// The error.
    pub(crate) error: ApiErrorDetail,
}

/// Details of an error.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApiErrorDetail {
    /// Stable code; each has a section in `docs/errors.md`.
    pub(crate) code: String,
    /// The problem.
    pub(crate) what: String,
    /// How to fix it.
    pub(crate) advice: String,
    /// Path of the page that explains the code.
    pub(crate) help: String,
}

/// The error of a response, attached as an extension so that the audit log need not parse bodies.
#[derive(Debug, Clone)]
pub(crate) struct AttachedError(pub(crate) ApiError);

impl ApiError {
    /// Creates an error.
    pub(crate) fn new(
        status: StatusCode,
        code: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let (message, help) = (message.into(), help.into());
        ApiError { status, code: code.to_owned(), message, help, retry_after_s: DEFAULT_RETRY_AFTER_S }
    }

    /// The queue is full; the event was not accepted.
    pub(crate) fn busy() -> Self {
        let message = "too many events are waiting for the store; this one was not accepted";
        let help = "wait for the time in Retry-After, then send it again with the same id";
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", message, help)
    }

    /// The server is shutting down; the request was not accepted.
    pub(crate) fn stopping() -> Self {
        let message = "the server is shutting down; the request was not accepted";
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            message,
            "send it again with the same id, to any server that uses this store",
        )
    }

    /// The session does not exist.
    pub(crate) fn unknown_session(name: &str) -> Self {
        let message = format!("there is no session '{}'", flyball_view::formatting::single_line(name, 80));
        ApiError::new(
            StatusCode::NOT_FOUND,
            "session_unknown",
            message,
            "GET /v1/sessions lists the sessions",
        )
    }

    /// The response body.
    pub(crate) fn body(&self) -> ApiErrorBody {
        let ApiError { code, message: what, help: advice, .. } = self.clone();
        let help = format!("/errors/{code}");
        ApiErrorBody { error: ApiErrorDetail { code, what, advice, help } }
    }
}

impl From<flyball::Error> for ApiError {
    fn from(error: flyball::Error) -> Self {
        let status = if error.code.as_str() == "event_conflict" {
            StatusCode::CONFLICT
        } else {
            StatusCode::UNPROCESSABLE_ENTITY
        };
        ApiError::new(status, error.code.as_str(), error.message, error.help)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let status = match error.kind {
            StoreErrorKind::Busy
            | StoreErrorKind::Unreachable
            | StoreErrorKind::LeaseLost
            | StoreErrorKind::DiskFull
            | StoreErrorKind::Replaced => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let help = error.help().to_owned();
        ApiError::new(status, error.kind.as_str(), error.message, help)
    }
}

impl From<RecordError> for ApiError {
    fn from(refusal: RecordError) -> Self {
        match refusal {
            RecordError::Event(error) => error.into(),
            RecordError::Store(error) => error.into(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(self.retry_after_s));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(AttachedError(self));
        response
    }
}
