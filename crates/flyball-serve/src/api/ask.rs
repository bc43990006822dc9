//! What comes in with a request: bodies with bounds, questions after a `?`, and the name of a session in the path.
//!
//! Everything that is wrong is told with what, where and what to do; a field that nobody knows is named, never ignored.

use crate::office::Shared;
use crate::problem::Problem;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use flyball_view::words::line;
use http_body_util::{BodyExt, Limited};
use hyper::body::Body;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The largest event, in bytes.
pub(crate) const EVENT_BYTES: usize = 1024 * 1024;
/// The largest body of many events, in bytes.
pub(crate) const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// The largest body of anything else, in bytes.
const BODY_BYTES: usize = 512 * 1024;
/// How long a body may take to arrive.
const ARRIVES: Duration = Duration::from_secs(30);

/// What kind of text a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    /// `application/json`.
    Json,
    /// `application/x-ndjson`: one object a line.
    Lines,
}

/// A body that is JSON and nothing else, read into what a route asks for.
#[derive(Debug)]
pub(crate) struct Ask<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Shared> for Ask<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Shared) -> Result<Self, Problem> {
        let (media, text) = body(request, BODY_BYTES).await?;
        if media != Media::Json {
            return Err(unknown_media());
        }
        // The parser gives up at a depth of 128, and a known field that comes twice is an error.
        let read = serde_json::from_str(&text);
        read.map(Ask).map_err(|error| bad_request(&format!("the body cannot be used: {error}")))
    }
}

/// As [`Ask`], for a body that may be left out.
#[derive(Debug)]
pub(crate) struct Maybe<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<Shared> for Maybe<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, office: &Shared) -> Result<Self, Problem> {
        if request.body().is_end_stream() {
            return Ok(Maybe(T::default()));
        }
        Ask::from_request(request, office).await.map(|Ask(read)| Maybe(read))
    }
}

/// What was asked after the `?`.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        let why = |error: axum::extract::rejection::QueryRejection| {
            bad_request(&format!("the question after `?` cannot be used: {}", error.body_text()))
        };
        read.map(|query| Query(query.0)).map_err(why)
    }
}

/// The part of the path that is a name: of a session, a key, a code.
#[derive(Debug)]
pub(crate) struct Name(pub(crate) String);

impl FromRequestParts<Shared> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, office: &Shared) -> Result<Self, Problem> {
        let Path(name) = Path::<String>::from_request_parts(parts, office)
            .await
            .map_err(|_| bad_request("the name in the path is not UTF-8"))?;
        if name.is_empty() || name.len() > flyball::limits::NAME_BYTES || name.contains('\0') {
            return Err(bad_request("the name in the path is empty, too long, or holds a zero byte"));
        }
        Ok(Name(name))
    }
}

/// The key that makes a repetition harmless, if one was sent.
///
/// # Errors
/// If it is no text.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let plain = |key: &&str| key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte));
    let key = value.to_str().ok().filter(|key| (1..=flyball::limits::ID_BYTES).contains(&key.len()));
    let what = "Idempotency-Key is 1 to 512 letters, digits or _ . : -";
    key.filter(plain).map(Some).ok_or_else(|| bad_request(what))
}

/// Reads a body of at most so many bytes, as text.
///
/// # Errors
/// If it is too large, too slow, compressed, of another kind, or not UTF-8.
pub(crate) fn body(
    request: Request,
    most: usize,
) -> impl Future<Output = Result<(Media, String), Problem>> + Send {
    let announced = announced(request.headers(), most);
    let body = request.into_body();
    async move { arrived(announced?, body, most).await }
}

/// What kind of body is announced.
fn announced(headers: &HeaderMap, most: usize) -> Result<Media, Problem> {
    let media = media(headers)?;
    let bytes =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if bytes.is_some_and(|bytes| bytes > most as u64) { Err(too_large(most)) } else { Ok(media) }
}

async fn arrived(media: Media, body: axum::body::Body, most: usize) -> Result<(Media, String), Problem> {
    let read = tokio::time::timeout(ARRIVES, Limited::new(body, most).collect()).await;
    let Ok(read) = read else {
        let what = "the body did not arrive in time";
        return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", what, "send it again, at once"));
    };
    let bytes = read.map_err(|_| too_large(most))?.to_bytes();
    let text = String::from_utf8(bytes.into()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let what = format!("byte {at} of the body is not UTF-8");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not_utf8", what, "send the body as UTF-8")
    })?;
    Ok((media, text))
}

fn media(headers: &HeaderMap) -> Result<Media, Problem> {
    let plain = headers.get_all(header::CONTENT_ENCODING).iter().all(|value| value == "identity");
    if !plain {
        let what = "compressed bodies are not taken";
        let advice = "send it as it is, without Content-Encoding";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unknown_media", what, advice));
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let known = [("application/json", Media::Json), ("application/x-ndjson", Media::Lines)];
    let found = known.into_iter().find(|(name, _)| kind.eq_ignore_ascii_case(name));
    found.map(|(_, media)| media).ok_or_else(unknown_media)
}

/// A body of a kind that is not taken here.
pub(crate) fn unknown_media() -> Problem {
    let advice = "send Content-Type: application/json; many events also as application/x-ndjson";
    let what = "the body is of a kind that is not taken here";
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unknown_media", what, advice)
}

/// More bytes than are taken.
pub(crate) fn too_large(most: usize) -> Problem {
    let what = format!("the body has more than {most} bytes");
    let advice = "send less at once; of large outputs, send a fingerprint or the first part";
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", what, advice)
}

/// A request that cannot be understood.
pub(crate) fn bad_request(what: &str) -> Problem {
    let advice = "GET /v1/openapi.json says what each address takes";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_request", line(what, 400), advice)
}
