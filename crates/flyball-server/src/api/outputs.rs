//! Large outputs, read in slices by anyone who may see the session.

use super::extract::{PathName, QueryParams, bad_request};
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::Principal;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use flyball_store::{OutputMatch, OutputRef, OutputSlice};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Default and maximum number of characters in a slice.
const DEFAULT_SLICE_CHARS: u64 = 20_000;
const MAX_SLICE_CHARS: u64 = 1_000_000;
/// Maximum number of lines that a search returns.
const MAX_MATCHES: usize = 200;
/// Maximum length of a search text, in characters.
const MAX_NEEDLE_CHARS: usize = 1_000;

/// Query of an output.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutputQuery {
    /// Offset of the first character; 0 by default.
    #[param(minimum = 0)]
    offset: Option<u64>,
    /// Number of characters: 20,000 by default, at most 1,000,000.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
    /// Returns the lines that contain this text instead of a slice.
    #[param(min_length = 1, max_length = 1000)]
    search: Option<String>,
}

/// Part of an output.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutputResponse {
    /// Reference of the output.
    #[serde(rename = "ref")]
    reference: String,
    /// The session that the output belongs to.
    session: String,
    /// The slice, unless a text was searched for.
    #[serde(flatten)]
    slice: Option<OutputSliceBody>,
    /// The lines that contain the search text.
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<Vec<OutputMatchBody>>,
}

/// A slice of an output.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutputSliceBody {
    /// Start offset, in characters.
    offset: u64,
    /// The text.
    text: String,
    /// Offset of the next slice; null at the end.
    next: Option<u64>,
    /// Length of the whole output, in characters.
    chars: u64,
    /// Length of the whole output, in bytes.
    bytes: u64,
}

/// A matching line of an output.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutputMatchBody {
    /// Line number, from 1.
    line: u64,
    /// Start offset of the line, in characters.
    offset: u64,
    /// The line, truncated if it is long.
    text: String,
}

impl From<OutputSlice> for OutputSliceBody {
    fn from(slice: OutputSlice) -> Self {
        let OutputSlice { offset, text, next, chars, bytes } = slice;
        OutputSliceBody { offset, text, next, chars, bytes }
    }
}

impl From<OutputMatch> for OutputMatchBody {
    fn from(found: OutputMatch) -> Self {
        let OutputMatch { line, offset, text } = found;
        OutputMatchBody { line, offset, text }
    }
}

/// Reads a slice of a large output, or searches it.
///
/// The reference is `output.ref` in the decision on an `output.received` event. Outputs are kept until their session
/// ends.
#[utoipa::path(get, path = "/v1/outputs/{ref}", tag = "events",
    params(("ref" = String, Path, description = "Reference of the output", min_length = 1, max_length = 100), OutputQuery),
    responses((status = 200, description = "The slice or the matching lines", body = OutputResponse)))]
pub(crate) async fn get_output(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    PathName(reference): PathName,
    QueryParams(query): QueryParams<OutputQuery>,
) -> Result<Json<OutputResponse>, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_SLICE_CHARS);
    if !(1..=MAX_SLICE_CHARS).contains(&limit) {
        return Err(bad_request("`limit` must be between 1 and 1000000"));
    }
    let needle = query.search.as_deref();
    if needle.is_some_and(|text| text.is_empty() || text.chars().count() > MAX_NEEDLE_CHARS) {
        return Err(bad_request("`search` must have 1 to 1000 characters"));
    }
    let reference = OutputRef::parse(&reference).ok_or_else(unknown_output)?;
    let of = reference.clone();
    let session = app.run_blocking(move |app| session_of(app, &of)).await?;
    // Another key's output gets the same response as a missing one, so its existence is not revealed.
    app.require_visible(&principal, &session).await.map_err(|_| unknown_output())?;
    app.run_blocking(move |app| read_part(app, &reference, session, &query, limit)).await.map(Json)
}

fn session_of(app: &AppState, reference: &OutputRef) -> Result<String, ApiError> {
    app.recorder.outputs().session_of(reference).map_err(unreadable_output)?.ok_or_else(unknown_output)
}

fn read_part(
    app: &AppState,
    reference: &OutputRef,
    session: String,
    query: &OutputQuery,
    limit: u64,
) -> Result<OutputResponse, ApiError> {
    let outputs = app.recorder.outputs();
    let (slice, matches) = match &query.search {
        Some(needle) => {
            let found = outputs
                .search(reference, needle, MAX_MATCHES)
                .map_err(unreadable_output)?
                .ok_or_else(unknown_output)?;
            (None, Some(found.into_iter().map(OutputMatchBody::from).collect()))
        }
        None => {
            let slice =
                outputs.slice(reference, query.offset.unwrap_or(0), limit).map_err(unreadable_output)?;
            (Some(slice.ok_or_else(unknown_output)?.into()), None)
        }
    };
    Ok(OutputResponse { reference: reference.to_string(), session, slice, matches })
}

fn unknown_output() -> ApiError {
    let message = "no output has this reference";
    let help = "outputs are deleted when their session ends; copy `output.ref` from the decision";
    ApiError::new(StatusCode::NOT_FOUND, "output_unknown", message, help)
}

fn unreadable_output(error: std::io::Error) -> ApiError {
    let message = format!("cannot read the output: {error}");
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "output_unreadable",
        message,
        "check the disk of the store",
    )
}
