//! What happened in a session: its events, what was found in them, what a finding rests on, and its graph.

use super::ask::{Name, Query, bad_request};
use super::schema::Decided;
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::Principal;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flyball::graph::render;
use flyball::{Decision, Trip, Verdict};
use flyball_journal::{Record, StoreError};
use flyball_view::{drawing, evidence};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

/// How many events are read at once at most.
const EVENTS: u64 = 500;
/// How many bytes of events are sent at once; the event that goes beyond is the last one.
const BYTES: usize = 8 * 1024 * 1024;
/// How many events are looked through for findings at once.
const LOOKED_THROUGH: u64 = 5_000;

/// The largest number that an event can have: stores count with 63 bits.
const LAST: u64 = i64::MAX as u64;

/// Which events are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Range {
    /// The first number; 1 if nothing is said.
    #[param(minimum = 1)]
    from: Option<u64>,
    /// The last number.
    #[param(minimum = 1)]
    to: Option<u64>,
    /// `json`, or `jsonl` for the bare events, one a line, as `flyball replay` reads them.
    #[param(inline)]
    format: Option<Lines>,
}

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Lines {
    /// With their decisions.
    Json,
    /// One event a line.
    Jsonl,
}

/// Which events are looked through.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Stretch {
    /// The first number; 1 if nothing is said.
    #[param(minimum = 1)]
    from: Option<u64>,
    /// The last number.
    #[param(minimum = 1)]
    to: Option<u64>,
}

/// An event with its decision.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Happened {
    /// Its number in the session.
    seq: u64,
    /// When, in milliseconds since 1970.
    at: Option<u64>,
    /// The event as it is stored: without secrets, and large parts shortened.
    #[schema(value_type = Object)]
    event: Value,
    /// The decision.
    #[schema(value_type = Decided)]
    decision: Value,
}

/// Some events of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventPage {
    /// The events, oldest first; what was pruned is left out.
    events: Vec<Happened>,
    /// Where to read on, as `from`; nothing if there is no more.
    next: Option<u64>,
}

/// What guards found at one event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Found {
    /// The number of the event.
    seq: u64,
    /// When, in milliseconds since 1970.
    at: Option<u64>,
    /// What was decided.
    #[schema(value_type = String)]
    decision: Verdict,
    /// The findings.
    #[schema(value_type = Vec<Object>)]
    trips: Vec<Trip>,
}

/// What guards found in a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TripPage {
    /// The events at which something was found, oldest first.
    trips: Vec<Found>,
    /// Where to read on, as `from`; nothing if there is no more.
    next: Option<u64>,
}

fn bounds(office: &Office, name: &str, from: Option<u64>, to: Option<u64>) -> Result<(u64, u64), Problem> {
    let (from, to) = (from.unwrap_or(1), to.unwrap_or(LAST));
    if from == 0 || to < from || to > LAST {
        return Err(bad_request("`from` is at least 1, and `to` is not before it"));
    }
    let loaded = office.desk().load(name)?.filter(|loaded| loaded.head.seq > 0);
    let head = loaded.ok_or_else(|| Problem::unknown_session(name))?.head;
    Ok((from, to.min(head.seq)))
}

fn damaged(record: &Record) -> impl Fn(serde_json::Error) -> Problem {
    let seq = record.seq;
    move |error| StoreError::corrupt(format!("event {seq} cannot be read: {error}")).into()
}

/// The events of a session with their decisions, oldest first.
#[utoipa::path(get, path = "/v1/sessions/{session}/events", tag = "sessions",
    params(("session" = String, Path, description = "The name of the session", min_length = 1,
        max_length = 512), Range),
    responses((status = 200,
        description = "At most 500 events; `next` (with jsonl, the header flyball-next) says where to read on",
        content((EventPage = "application/json"), (String = "application/x-ndjson")))))]
pub(crate) async fn events(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Name(name): Name,
    Query(range): Query<Range>,
) -> Result<Response, Problem> {
    principal.may_touch(&name)?;
    let format = range.format;
    let read = move |office: &Office| {
        let (from, to) = bounds(office, &name, range.from, range.to)?;
        let end = from.saturating_add(EVENTS - 1).min(to);
        let records = if from > to { Vec::new() } else { office.desk().records(&name, from, end)? };
        Ok::<_, Problem>(cut(records, end, to))
    };
    let (records, next) = office.look(read).await?;
    if format == Some(Lines::Jsonl) {
        let text: String = records.into_iter().map(|record| record.text + "\n").collect();
        let kind = (header::CONTENT_TYPE, "application/x-ndjson".to_owned());
        let Some(next) = next else { return Ok(([kind], text).into_response()) };
        let on = (HeaderName::from_static("flyball-next"), next.to_string());
        return Ok(([kind, on], text).into_response());
    }
    let told = |record: &Record| {
        let event = serde_json::from_str(&record.text).map_err(damaged(record))?;
        let decision = serde_json::from_str(&record.decision).map_err(damaged(record))?;
        Ok::<_, Problem>(Happened { seq: record.seq, at: record.at, event, decision })
    };
    let events = records.iter().map(told).collect::<Result<_, _>>()?;
    Ok(Json(EventPage { events, next }).into_response())
}

/// As many records as may be sent at once, and where to read on.
fn cut(mut records: Vec<Record>, end: u64, to: u64) -> (Vec<Record>, Option<u64>) {
    let mut bytes = 0_usize;
    let fits = |record: &Record| {
        let fits = bytes < BYTES;
        bytes = bytes.saturating_add(record.text.len() + record.decision.len());
        fits
    };
    let count = records.iter().map(fits).take_while(|fits| *fits).count();
    let left_out = records.get(count).map(|record| record.seq);
    records.truncate(count);
    (records, left_out.or((end < to).then_some(end.saturating_add(1))))
}

/// What guards found in a session, oldest first.
#[utoipa::path(get, path = "/v1/sessions/{session}/trips", tag = "sessions",
    params(("session" = String, Path, description = "The name of the session", min_length = 1,
        max_length = 512), Stretch),
    responses((status = 200, description = "The findings among at most 5,000 events", body = TripPage)))]
pub(crate) async fn trips(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Name(name): Name,
    Query(stretch): Query<Stretch>,
) -> Result<Json<TripPage>, Problem> {
    office.may_see(&principal, &name).await?;
    let read = move |office: &Office| {
        let (from, to) = bounds(office, &name, stretch.from, stretch.to)?;
        let end = from.saturating_add(LOOKED_THROUGH - 1).min(to);
        let mut trips = Vec::new();
        evidence::each_record::<Problem>(office.desk(), &name, (from, end), |record| {
            if record.verdict > Verdict::Allow {
                let decision: Decision = serde_json::from_str(&record.decision).map_err(damaged(&record))?;
                let Decision { decision, trips: found, .. } = decision;
                trips.push(Found { seq: record.seq, at: record.at, decision, trips: found });
            }
            Ok(())
        })?;
        Ok::<_, Problem>(TripPage { trips, next: (end < to).then_some(end.saturating_add(1)) })
    };
    office.look(read).await.map(Json)
}

/// Which finding.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// The number of the event at which it was found.
    #[param(minimum = 1)]
    trip: u64,
}

/// The events that a finding rests on, shortened for a person to read.
#[utoipa::path(get, path = "/v1/sessions/{session}/evidence", tag = "sessions",
    params(("session" = String, Path, description = "The name of the session", min_length = 1,
        max_length = 512), Which),
    responses((status = 200, description = "The decision, and the events behind it", body = Object,
        example = json!({"session": "s1", "decision": {"decision": "block", "seq": 11},
            "events": [{"seq": 1, "text": "bash ls", "result": "a b c"}]}))))]
pub(crate) async fn evidence_of(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Name(name): Name,
    Query(which): Query<Which>,
) -> Result<Json<Value>, Problem> {
    principal.may_touch(&name)?;
    let read = move |office: &Office| {
        let (at, last) = bounds(office, &name, Some(which.trip), None)?;
        let record = if at > last { None } else { office.desk().records(&name, at, at)?.pop() };
        let found =
            record.map(|record| serde_json::from_str::<Decision>(&record.decision).map_err(damaged(&record)));
        let found = found.transpose()?.filter(|decision| !decision.trips.is_empty());
        let Some(decision) = found else {
            let what = format!("nothing was found at event {} of this session", which.trip);
            let advice = "GET /v1/sessions/{session}/trips has the numbers";
            return Err(Problem::new(StatusCode::NOT_FOUND, "no_such_trip", what, advice));
        };
        let wanted = decision.trips.iter().flat_map(|trip| trip.evidence.events.iter().copied()).collect();
        let lines = evidence::fetch(office.desk(), &name, &wanted)?;
        Ok::<_, Problem>(json!({"session": name, "decision": decision, "events": lines}))
    };
    office.look(read).await.map(Json)
}

/// How a graph is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Drawn {
    /// `svg` if nothing is said.
    #[param(inline)]
    format: Option<Drawing>,
}

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Drawing {
    /// A picture.
    Svg,
    /// Text for a terminal.
    Ascii,
    /// For Mermaid.
    Mermaid,
    /// For Graphviz.
    Dot,
}

/// The workflow of a session, with its loops and where it stands.
#[utoipa::path(get, path = "/v1/sessions/{session}/graph", tag = "sessions",
    params(("session" = String, Path, description = "The name of the session", min_length = 1,
        max_length = 512), Drawn),
    responses((status = 200, description = "The drawing",
        content((String = "image/svg+xml"), (String = "text/plain")))))]
pub(crate) async fn graph(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Name(name): Name,
    Query(drawn): Query<Drawn>,
) -> Result<Response, Problem> {
    principal.may_touch(&name)?;
    let format = drawn.format.unwrap_or(Drawing::Svg);
    let draw = move |office: &Office| {
        let recorder = office.under(&name)?;
        let (state, policy) = office.session(&name)?;
        let Some(workflow) = state.workflow() else {
            let what = "this session has no workflow";
            let advice = "its session.started must carry `workflow: {nodes, edges}`";
            return Err(Problem::new(StatusCode::NOT_FOUND, "no_workflow", what, advice));
        };
        let (mut view, _) = drawing::view_of(&state, &policy, workflow);
        drawing::add_branches(&mut view, &recorder, &name)?;
        Ok(match format {
            Drawing::Svg => render::svg(&view),
            Drawing::Ascii => render::ascii(&view),
            Drawing::Mermaid => render::mermaid(&view),
            Drawing::Dot => render::dot(&view),
        })
    };
    let text = office.look(draw).await?;
    let kind = if format == Drawing::Svg { "image/svg+xml" } else { "text/plain; charset=utf-8" };
    // A picture that is opened by itself must not run anything, whatever a session calls its nodes.
    let policy = (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; sandbox");
    let sniff = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    Ok(([(header::CONTENT_TYPE, kind), policy, sniff], text).into_response())
}
