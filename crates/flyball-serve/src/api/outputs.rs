//! Large outputs, in slices: whoever may see the session may read them.

use super::ask::{Name, Query, bad_request};
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::Principal;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use flyball_journal::{OutputMatch, OutputRef, OutputSlice};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// How many characters a slice has if nothing is said, and at most.
const SLICE: u64 = 20_000;
const LARGEST_SLICE: u64 = 1_000_000;
/// How many lines a search gives.
const MATCHES: usize = 200;
/// The longest text that is searched for, in characters.
const NEEDLE: usize = 1_000;

/// Which part of an output is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutputQuery {
    /// The first character; 0 if nothing is said.
    #[param(minimum = 0)]
    offset: Option<u64>,
    /// How many characters: 20,000 if nothing is said, at most 1,000,000.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
    /// The lines that contain this text instead of a slice.
    #[param(min_length = 1, max_length = 1000)]
    search: Option<String>,
}

/// A part of an output.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutputPart {
    /// The reference.
    #[serde(rename = "ref")]
    reference: String,
    /// The session that it belongs to.
    session: String,
    /// The slice, unless a text was searched for.
    #[serde(flatten)]
    slice: Option<SlicePart>,
    /// The lines that contain the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<Vec<MatchPart>>,
}

/// A slice of an output.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SlicePart {
    /// Where it begins, in characters.
    offset: u64,
    /// The slice.
    text: String,
    /// Where the next slice begins; null at the end.
    next: Option<u64>,
    /// The length of the whole output in characters.
    chars: u64,
    /// The length of the whole output in bytes.
    bytes: u64,
}

/// A line of an output.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MatchPart {
    /// The number of the line, from 1.
    line: u64,
    /// Where the line begins, in characters.
    offset: u64,
    /// The line, cut if it is long.
    text: String,
}

impl From<OutputSlice> for SlicePart {
    fn from(slice: OutputSlice) -> Self {
        let OutputSlice { offset, text, next, chars, bytes } = slice;
        SlicePart { offset, text, next, chars, bytes }
    }
}

impl From<OutputMatch> for MatchPart {
    fn from(found: OutputMatch) -> Self {
        let OutputMatch { line, offset, text } = found;
        MatchPart { line, offset, text }
    }
}

/// Reads a part of a large output, or searches it.
///
/// The reference is `output.ref` of the decision on an `output.received` event. An output is there until its session ends.
#[utoipa::path(get, path = "/v1/outputs/{ref}", tag = "events",
    params(("ref" = String, Path, description = "The reference of the output", min_length = 1, max_length = 100), OutputQuery),
    responses((status = 200, description = "The part", body = OutputPart)))]
pub(crate) async fn read(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Name(reference): Name,
    Query(query): Query<OutputQuery>,
) -> Result<Json<OutputPart>, Problem> {
    let limit = query.limit.unwrap_or(SLICE);
    if !(1..=LARGEST_SLICE).contains(&limit) {
        return Err(bad_request("`limit` is a number from 1 to 1000000"));
    }
    let needle = query.search.as_deref();
    if needle.is_some_and(|text| text.is_empty() || text.chars().count() > NEEDLE) {
        return Err(bad_request("`search` is a text of 1 to 1000 characters"));
    }
    let reference = OutputRef::parse(&reference).ok_or_else(unknown)?;
    let of = reference.clone();
    let session = office.look(move |office| session_of(office, &of)).await?;
    // One of another key is as one that is not there.
    office.may_see(&principal, &session).await.map_err(|_| unknown())?;
    office.look(move |office| part(office, &reference, session, &query, limit)).await.map(Json)
}

fn session_of(office: &Office, reference: &OutputRef) -> Result<String, Problem> {
    office.recorder.outputs().session_of(reference).map_err(unreadable)?.ok_or_else(unknown)
}

fn part(
    office: &Office,
    reference: &OutputRef,
    session: String,
    query: &OutputQuery,
    limit: u64,
) -> Result<OutputPart, Problem> {
    let outputs = office.recorder.outputs();
    let (slice, matches) = match &query.search {
        Some(needle) => {
            let found =
                outputs.search(reference, needle, MATCHES).map_err(unreadable)?.ok_or_else(unknown)?;
            (None, Some(found.into_iter().map(MatchPart::from).collect()))
        }
        None => {
            let slice = outputs.slice(reference, query.offset.unwrap_or(0), limit).map_err(unreadable)?;
            (Some(slice.ok_or_else(unknown)?.into()), None)
        }
    };
    Ok(OutputPart { reference: reference.to_string(), session, slice, matches })
}

fn unknown() -> Problem {
    let what = "there is no output with this reference";
    let advice = "an output is there until its session ends; copy `output.ref` from the decision";
    Problem::new(StatusCode::NOT_FOUND, "output_unknown", what, advice)
}

fn unreadable(error: std::io::Error) -> Problem {
    let what = format!("the output cannot be read: {error}");
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "output_unreadable",
        what,
        "look at the disk of the store",
    )
}
