//! A session's history: its events, trips, evidence and workflow graph.

use super::extract::{PathName, QueryParams, bad_request};
use super::schema::DecisionSchema;
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::Principal;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flyball::graph::render;
use flyball::{Decision, Trip, Verdict};
use flyball_store::{EventRecord, StoreError};
use flyball_view::{evidence, workflow_view};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

/// Maximum number of events in a page.
const MAX_EVENTS: u64 = 500;
/// Maximum number of bytes in a page; the event that exceeds it is the last one.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of events searched for trips per request.
const MAX_SEARCHED_EVENTS: u64 = 5_000;

/// The largest sequence number: stores use 63 bits.
const MAX_SEQ: u64 = i64::MAX as u64;

/// Query of a session's events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventRangeQuery {
    /// First sequence number; 1 by default.
    #[param(minimum = 1)]
    from: Option<u64>,
    /// Last sequence number.
    #[param(minimum = 1)]
    to: Option<u64>,
    /// `json`, or `jsonl` for the bare events, one per line, as `flyball replay` reads them.
    #[param(inline)]
    format: Option<EventFormat>,
}

/// Format of an event page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EventFormat {
    /// Events with their decisions.
    Json,
    /// One event per line.
    Jsonl,
}

/// Query of a session's trips.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TripRangeQuery {
    /// First sequence number; 1 by default.
    #[param(minimum = 1)]
    from: Option<u64>,
    /// Last sequence number.
    #[param(minimum = 1)]
    to: Option<u64>,
}

/// An event with its decision.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApiEvent {
    /// Sequence number in the session.
    seq: u64,
    /// Time in milliseconds since 1970.
    at: Option<u64>,
    /// The stored event: secrets redacted, large fields shortened.
    #[schema(value_type = Object)]
    event: Value,
    /// The decision.
    #[schema(value_type = DecisionSchema)]
    decision: Value,
}

/// A page of a session's events.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventPage {
    /// The events, oldest first; pruned events are left out.
    events: Vec<ApiEvent>,
    /// Start of the next page, as `from`; null on the last page.
    next: Option<u64>,
}

/// The trips at one event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventTrips {
    /// Sequence number of the event.
    seq: u64,
    /// Time in milliseconds since 1970.
    at: Option<u64>,
    /// The verdict.
    #[schema(value_type = String)]
    decision: Verdict,
    /// The trips.
    #[schema(value_type = Vec<Object>)]
    trips: Vec<Trip>,
}

/// A page of a session's trips.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TripPage {
    /// Events with trips, oldest first.
    trips: Vec<EventTrips>,
    /// Start of the next page, as `from`; null on the last page.
    next: Option<u64>,
}

fn event_range(
    app: &AppState,
    name: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> Result<(u64, u64), ApiError> {
    let (from, to) = (from.unwrap_or(1), to.unwrap_or(MAX_SEQ));
    if from == 0 || to < from || to > MAX_SEQ {
        return Err(bad_request("`from` must be at least 1, and `to` must not be less than `from`"));
    }
    let loaded = app.store().load(name)?.filter(|loaded| loaded.head.seq > 0);
    let head = loaded.ok_or_else(|| ApiError::unknown_session(name))?.head;
    Ok((from, to.min(head.seq)))
}

fn corrupt_record(record: &EventRecord) -> impl Fn(serde_json::Error) -> ApiError {
    let seq = record.seq;
    move |error| StoreError::corrupt(format!("cannot parse event {seq}: {error}")).into()
}

/// Lists the events of a session with their decisions, oldest first.
#[utoipa::path(get, path = "/v1/sessions/{session}/events", tag = "sessions",
    params(("session" = String, Path, description = "Session name", min_length = 1,
        max_length = 512), EventRangeQuery),
    responses((status = 200,
        description = "At most 500 events; `next` (with jsonl, the header flyball-next) is the start of the next page",
        content((EventPage = "application/json"), (String = "application/x-ndjson")))))]
pub(crate) async fn events(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
    QueryParams(range): QueryParams<EventRangeQuery>,
) -> Result<Response, ApiError> {
    principal.check_session(&name)?;
    let format = range.format;
    let read = move |app: &AppState| {
        let (from, to) = event_range(app, &name, range.from, range.to)?;
        let end = from.saturating_add(MAX_EVENTS - 1).min(to);
        let records = if from > to { Vec::new() } else { app.store().records(&name, from, end)? };
        Ok::<_, ApiError>(limit_bytes(records, end, to))
    };
    let (records, next) = app.run_blocking(read).await?;
    if format == Some(EventFormat::Jsonl) {
        let text: String = records.into_iter().map(|record| record.text + "\n").collect();
        let kind = (header::CONTENT_TYPE, "application/x-ndjson".to_owned());
        let Some(next) = next else { return Ok(([kind], text).into_response()) };
        let on = (HeaderName::from_static("flyball-next"), next.to_string());
        return Ok(([kind, on], text).into_response());
    }
    let to_api = |record: &EventRecord| {
        let event = serde_json::from_str(&record.text).map_err(corrupt_record(record))?;
        let decision = serde_json::from_str(&record.decision_json).map_err(corrupt_record(record))?;
        Ok::<_, ApiError>(ApiEvent { seq: record.seq, at: record.at, event, decision })
    };
    let events = records.iter().map(to_api).collect::<Result<_, _>>()?;
    Ok(Json(EventPage { events, next }).into_response())
}

/// Cuts a page to the byte limit and returns the start of the next page.
fn limit_bytes(mut records: Vec<EventRecord>, end: u64, to: u64) -> (Vec<EventRecord>, Option<u64>) {
    let mut bytes = 0_usize;
    let fits = |record: &EventRecord| {
        let fits = bytes < MAX_BYTES;
        bytes = bytes.saturating_add(record.text.len() + record.decision_json.len());
        fits
    };
    let count = records.iter().map(fits).take_while(|fits| *fits).count();
    let left_out = records.get(count).map(|record| record.seq);
    records.truncate(count);
    (records, left_out.or((end < to).then_some(end.saturating_add(1))))
}

/// Lists the trips of a session, oldest first.
#[utoipa::path(get, path = "/v1/sessions/{session}/trips", tag = "sessions",
    params(("session" = String, Path, description = "Session name", min_length = 1,
        max_length = 512), TripRangeQuery),
    responses((status = 200, description = "The trips among at most 5,000 events", body = TripPage)))]
pub(crate) async fn trips(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
    QueryParams(range): QueryParams<TripRangeQuery>,
) -> Result<Json<TripPage>, ApiError> {
    app.require_visible(&principal, &name).await?;
    let read = move |app: &AppState| {
        let (from, to) = event_range(app, &name, range.from, range.to)?;
        let end = from.saturating_add(MAX_SEARCHED_EVENTS - 1).min(to);
        let mut trips = Vec::new();
        evidence::each_record::<ApiError>(app.store(), &name, (from, end), |record| {
            if record.verdict > Verdict::Allow {
                let decision: Decision =
                    serde_json::from_str(&record.decision_json).map_err(corrupt_record(&record))?;
                let Decision { decision, trips: found, .. } = decision;
                trips.push(EventTrips { seq: record.seq, at: record.at, decision, trips: found });
            }
            Ok(())
        })?;
        Ok::<_, ApiError>(TripPage { trips, next: (end < to).then_some(end.saturating_add(1)) })
    };
    app.run_blocking(read).await.map(Json)
}

/// Query of a trip's evidence.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EvidenceQuery {
    /// Sequence number of the event that tripped.
    #[param(minimum = 1)]
    trip: u64,
}

/// Returns the events that a trip is based on, shortened for display.
#[utoipa::path(get, path = "/v1/sessions/{session}/evidence", tag = "sessions",
    params(("session" = String, Path, description = "Session name", min_length = 1,
        max_length = 512), EvidenceQuery),
    responses((status = 200, description = "The decision and its evidence", body = Object,
        example = json!({"session": "s1", "decision": {"decision": "block", "seq": 11},
            "events": [{"seq": 1, "text": "bash ls", "result": "a b c"}]}))))]
pub(crate) async fn evidence_of(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
    QueryParams(which): QueryParams<EvidenceQuery>,
) -> Result<Json<Value>, ApiError> {
    principal.check_session(&name)?;
    let read = move |app: &AppState| {
        let (at, last) = event_range(app, &name, Some(which.trip), None)?;
        let record = if at > last { None } else { app.store().records(&name, at, at)?.pop() };
        let found = record.map(|record| {
            serde_json::from_str::<Decision>(&record.decision_json).map_err(corrupt_record(&record))
        });
        let found = found.transpose()?.filter(|decision| !decision.trips.is_empty());
        let Some(decision) = found else {
            let message = format!("event {} of this session has no trip", which.trip);
            let help = "GET /v1/sessions/{session}/trips lists the events with trips";
            return Err(ApiError::new(StatusCode::NOT_FOUND, "no_such_trip", message, help));
        };
        let wanted = decision.trips.iter().flat_map(|trip| trip.evidence.events.iter().copied()).collect();
        let lines = evidence::fetch(app.store(), &name, &wanted)?;
        Ok::<_, ApiError>(json!({"session": name, "decision": decision, "events": lines}))
    };
    app.run_blocking(read).await.map(Json)
}

/// Query of a graph.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GraphQuery {
    /// `svg` by default.
    #[param(inline)]
    format: Option<GraphFormat>,
}

/// Format of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GraphFormat {
    /// SVG image.
    Svg,
    /// Text for a terminal.
    Ascii,
    /// Mermaid source.
    Mermaid,
    /// Graphviz source.
    Dot,
}

/// Draws the workflow of a session with its loops and its current node.
#[utoipa::path(get, path = "/v1/sessions/{session}/graph", tag = "sessions",
    params(("session" = String, Path, description = "Session name", min_length = 1,
        max_length = 512), GraphQuery),
    responses((status = 200, description = "The graph",
        content((String = "image/svg+xml"), (String = "text/plain")))))]
pub(crate) async fn graph(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
    QueryParams(drawn): QueryParams<GraphQuery>,
) -> Result<Response, ApiError> {
    principal.check_session(&name)?;
    let format = drawn.format.unwrap_or(GraphFormat::Svg);
    let draw = move |app: &AppState| {
        let recorder = app.recorder_for(&name)?;
        let (state, policy) = app.session(&name)?;
        let Some(workflow) = state.workflow() else {
            let message = "this session has no workflow";
            let help = "send `workflow: {nodes, edges}` in its session.started event";
            return Err(ApiError::new(StatusCode::NOT_FOUND, "no_workflow", message, help));
        };
        let (mut view, _) = workflow_view::workflow_view(&state, &policy, workflow);
        workflow_view::add_branches(&mut view, &recorder, &name)?;
        Ok(match format {
            GraphFormat::Svg => render::svg(&view),
            GraphFormat::Ascii => render::ascii(&view),
            GraphFormat::Mermaid => render::mermaid(&view),
            GraphFormat::Dot => render::dot(&view),
        })
    };
    let text = app.run_blocking(draw).await?;
    let kind = if format == GraphFormat::Svg { "image/svg+xml" } else { "text/plain; charset=utf-8" };
    // An SVG opened directly must not run scripts, since node names come from the client.
    let policy = (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; sandbox");
    let sniff = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    Ok(([(header::CONTENT_TYPE, kind), policy, sniff], text).into_response())
}
