//! Extractors with limits: request bodies, query parameters and names in the path.
//!
//! Errors name the field and the fix. Unknown fields are rejected, never ignored.

use crate::api_error::ApiError;
use crate::app_state::SharedState;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use flyball_view::formatting::single_line;
use http_body_util::{BodyExt, Limited};
use hyper::body::Body;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Maximum size of an event, in bytes.
pub(crate) const MAX_EVENT_BYTES: usize = 1024 * 1024;
/// Maximum size of a batch body, in bytes.
pub(crate) const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Maximum size of any other body, in bytes.
const MAX_BODY_BYTES: usize = 512 * 1024;
/// Timeout for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Media type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    /// `application/json`.
    Json,
    /// `application/x-ndjson`: one object per line.
    NdJson,
}

/// A JSON body, deserialized.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<SharedState> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &SharedState) -> Result<Self, ApiError> {
        let (media, text) = read_body(request, MAX_BODY_BYTES).await?;
        if media != BodyFormat::Json {
            return Err(unsupported_media());
        }
        // serde_json limits nesting to 128 levels, and serde rejects duplicate known fields.
        let read = serde_json::from_str(&text);
        read.map(JsonBody).map_err(|error| bad_request(&format!("invalid body: {error}")))
    }
}

/// Like [`JsonBody`], for a body that may be omitted.
#[derive(Debug)]
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<SharedState> for OptionalJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &SharedState) -> Result<Self, ApiError> {
        if request.body().is_end_stream() {
            return Ok(OptionalJsonBody(T::default()));
        }
        JsonBody::from_request(request, app).await.map(|JsonBody(read)| OptionalJsonBody(read))
    }
}

/// Query parameters, deserialized.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<SharedState> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &SharedState) -> Result<Self, ApiError> {
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        let why = |error: axum::extract::rejection::QueryRejection| {
            bad_request(&format!("invalid query: {}", error.body_text()))
        };
        read.map(|query| QueryParams(query.0)).map_err(why)
    }
}

/// A name in the path: a session, a key or a code.
#[derive(Debug)]
pub(crate) struct PathName(pub(crate) String);

impl FromRequestParts<SharedState> for PathName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &SharedState) -> Result<Self, ApiError> {
        let Path(name) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|_| bad_request("the name in the path is not UTF-8"))?;
        if name.is_empty() || name.len() > flyball::limits::NAME_BYTES || name.contains('\0') {
            return Err(bad_request("the name in the path is empty, too long, or contains a NUL byte"));
        }
        Ok(PathName(name))
    }
}

/// The idempotency key of a request, if any.
///
/// # Errors
/// If it is malformed.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let plain = |key: &&str| key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte));
    let key = value.to_str().ok().filter(|key| (1..=flyball::limits::ID_BYTES).contains(&key.len()));
    let message = "Idempotency-Key must be 1 to 512 letters, digits or _ . : -";
    key.filter(plain).map(Some).ok_or_else(|| bad_request(message))
}

/// Reads a body of at most `most` bytes as text.
///
/// # Errors
/// If it is too large, too slow, compressed, of another media type, or not UTF-8.
pub(crate) fn read_body(
    request: Request,
    most: usize,
) -> impl Future<Output = Result<(BodyFormat, String), ApiError>> + Send {
    let announced = check_announced(request.headers(), most);
    let body = request.into_body();
    async move { collect_body(announced?, body, most).await }
}

/// Checks the announced media type and length before the body is read.
fn check_announced(headers: &HeaderMap, most: usize) -> Result<BodyFormat, ApiError> {
    let media = body_format(headers)?;
    let bytes =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if bytes.is_some_and(|bytes| bytes > most as u64) { Err(too_large(most)) } else { Ok(media) }
}

async fn collect_body(
    media: BodyFormat,
    body: axum::body::Body,
    most: usize,
) -> Result<(BodyFormat, String), ApiError> {
    let read = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, most).collect()).await;
    let Ok(read) = read else {
        let message = "the body did not arrive in time";
        return Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            message,
            "retry and send the body without delay",
        ));
    };
    let bytes = read.map_err(|_| too_large(most))?.to_bytes();
    let text = String::from_utf8(bytes.into()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("byte {at} of the body is not UTF-8");
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "not_utf8", message, "send the body as UTF-8")
    })?;
    Ok((media, text))
}

fn body_format(headers: &HeaderMap) -> Result<BodyFormat, ApiError> {
    let plain = headers.get_all(header::CONTENT_ENCODING).iter().all(|value| value == "identity");
    if !plain {
        let message = "compressed bodies are not supported";
        let help = "send the body uncompressed, without Content-Encoding";
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            message,
            help,
        ));
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let known = [("application/json", BodyFormat::Json), ("application/x-ndjson", BodyFormat::NdJson)];
    let found = known.into_iter().find(|(name, _)| kind.eq_ignore_ascii_case(name));
    found.map(|(_, media)| media).ok_or_else(unsupported_media)
}

/// Error for an unsupported media type.
pub(crate) fn unsupported_media() -> ApiError {
    let help = "send Content-Type: application/json, or application/x-ndjson for a batch of events";
    let message = "unsupported media type";
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message, help)
}

/// Error for a body over the limit.
pub(crate) fn too_large(most: usize) -> ApiError {
    let message = format!("the body is larger than {most} bytes");
    let help = "send smaller batches; for large outputs, send a fingerprint or the first part only";
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message, help)
}

/// Error for a malformed request.
pub(crate) fn bad_request(message: &str) -> ApiError {
    let help = "see GET /v1/openapi.json for the parameters of each route";
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_request", single_line(message, 400), help)
}
