//! Starting workflows, telling a run something, and taking it up again, for people over HTTP.

use super::library::Listed;
use super::order::{CutOff, Order};
use super::record::{Asked, Last, Record};
use crate::api::{Ask, Maybe};
use crate::office::{Office, Shared};
use crate::problem::{Problem, ProblemBody};
use crate::who::{Principal, check_proof};
use axum::Json;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use flyball_view::SessionStatus;
use flyball_view::words::line;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// How many runs are listed at once.
const PAGE: usize = 100;
/// How long a key, a name or a value of a setting may be.
const SHORT: usize = 200;
/// How many settings a run may have.
const SETTINGS: usize = 50;
/// What only the server's own policy may say: where things are sent, and what happens when it fails.
const FORBIDDEN: [&str; 2] = ["journal", "on_error"];

/// The workflows that may be started.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Workflows {
    /// By name.
    workflows: Vec<Listed>,
}

/// What is to be run.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    /// The name of the workflow.
    workflow: String,
    /// Values of the policy for this run, such as `budgets.session.runtime`: texts, numbers, or yes and no.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// The name of the session. Without it: the workflow's name and something random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

/// How a run is taken up again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resume {
    /// What to do with a step that was cut off. Without it, a person is asked.
    #[serde(default)]
    cut_off: Option<CutOff>,
}

/// A run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Run {
    /// The session.
    session: String,
    /// The workflow that it was started from.
    workflow: String,
    /// Who started it.
    by: String,
    /// When, in milliseconds since 1970.
    started: u64,
    /// What the workers do about it: nothing, it waits for one, or one has it.
    work: &'static str,
    /// The state of the session, once it has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    state: Option<SessionStatus>,
    /// How it went the last time that a worker had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Last>,
}

/// Many runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunList {
    /// By the name of the session.
    runs: Vec<Run>,
    /// Where to read on, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Where to read on.
#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct After {
    /// The last session that was seen.
    #[serde(default)]
    after: String,
}

/// Lists the workflows that may be started.
#[utoipa::path(get, path = "/v1/workflows", tag = "runs", responses(
    (status = 200, description = "The workflows of the server's folder", body = Workflows)))]
pub(crate) async fn workflows(State(office): State<Shared>) -> Result<Json<Workflows>, Problem> {
    let workflows = office.look(|office| Ok::<_, Problem>(office.runs.library.list())).await?;
    Ok(Json(Workflows { workflows }))
}

/// Starts a workflow. It is carried out by a worker of any server of the store.
#[utoipa::path(post, path = "/v1/runs", tag = "runs",
    request_body = Start,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key gives the same run, for a day")),
    responses(
        (status = 202, description = "It is ordered", body = Run),
        (status = 404, description = "There is no such workflow", body = ProblemBody),
        (status = 409, description = "There is such a session, or the key was used for something else", body = ProblemBody),
        (status = 422, description = "The request is wrong", body = ProblemBody)))]
pub(crate) async fn start(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    Ask(start): Ask<Start>,
) -> Result<(StatusCode, Json<Run>), Problem> {
    check_proof(&principal)?;
    let set = settings(&start.set)?;
    let key = key(&headers, &principal.name)?;
    if let Some(session) = &start.session {
        check_name(session)?;
    }
    let run = office.look(move |office| order(office, start, set, key.as_deref(), &principal)).await?;
    Ok((StatusCode::ACCEPTED, Json(run)))
}

fn order(
    office: &Office,
    start: Start,
    set: BTreeMap<String, String>,
    key: Option<&str>,
    principal: &Principal,
) -> Result<Run, Problem> {
    let runs = &office.runs;
    runs.library.find(&start.workflow)?;
    let body = blake3::hash(json!(start).to_string().as_bytes()).to_hex().to_string();
    let given = start.session.is_some();
    let mut session = match start.session {
        Some(session) => session,
        None => format!("{}-{}", start.workflow, random()?),
    };
    principal.may_touch(&session)?;
    if let Some(key) = key {
        let asked = runs.records.once(key, Asked { session: session.clone(), body: body.clone() })?;
        if asked.body != body {
            let what = "this Idempotency-Key was used for another run";
            let advice = "use a new key for a new run";
            return Err(Problem::new(StatusCode::CONFLICT, "idempotency_conflict", what, advice));
        }
        let before = runs.records.find(&asked.session)?.filter(|record| record.key.as_deref() == Some(key));
        if let Some(record) = before {
            // Asked before. If the server died before it wrote the order, it is written now.
            if record.last.is_none() && office.desk().records(&asked.session, 1, 1)?.is_empty() {
                runs.place(&asked.session, &principal.name, None)?;
            }
            return shown(office, record);
        }
        session.clone_from(&asked.session);
    }
    if given && !office.desk().records(&session, 1, 1)?.is_empty() {
        return Err(taken(&session));
    }
    let record = Record {
        session: session.clone(),
        workflow: start.workflow,
        set,
        by: principal.name.clone(),
        started: runs.records.now()?,
        key: key.map(str::to_owned),
        last: None,
    };
    if !runs.records.begin(&record)? {
        return Err(taken(&session));
    }
    runs.place(&session, &principal.name, None)?;
    shown(office, record)
}

fn taken(session: &str) -> Problem {
    let what = format!("there is a session '{}' already", line(session, 80));
    Problem::new(StatusCode::CONFLICT, "run_exists", what, "choose another name, or take it up again")
}

fn shown(office: &Office, record: Record) -> Result<Run, Problem> {
    let Record { session, workflow, by, started, last, .. } = record;
    let state = office.desk().load(&session)?.filter(|loaded| loaded.head.seq > 0);
    let reader = office.activity_reader()?;
    let state = state.map(|loaded| reader.activity(&loaded.head)).transpose()?;
    let state = state.map(|activity| activity.status);
    let work = match office.runs.orders.find(&session)? {
        None => "none",
        Some(Order { holder: None, .. }) => "waiting",
        Some(_) => "running",
    };
    Ok(Run { session, workflow, by, started, work, state, last })
}

/// Lists the runs that were started through a server.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", params(After), responses(
    (status = 200, description = "Runs, by the name of the session", body = RunList)))]
pub(crate) async fn list(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Query(After { after }): Query<After>,
) -> Result<Json<RunList>, Problem> {
    let list = office.look(move |office| {
        let records = office.runs.records.list(&after, PAGE)?;
        let next = (records.len() == PAGE).then(|| records.last().map(|last| last.session.clone())).flatten();
        let mut runs = Vec::with_capacity(records.len());
        for record in records {
            if office.sees(&principal, &record.session)? {
                runs.push(shown(office, record)?);
            }
        }
        Ok::<_, Problem>(RunList { runs, next })
    });
    Ok(Json(list.await?))
}

/// Takes a run up again after a stop or a crash.
#[utoipa::path(post, path = "/v1/sessions/{session}/resume", tag = "runs",
    params(("session" = String, Path, description = "The session, or a branch of it")),
    request_body(content = Resume, description = "What to do with a step that was cut off; may be left out"),
    responses(
        (status = 202, description = "It is ordered", body = Value),
        (status = 404, description = "There is no such session", body = ProblemBody),
        (status = 409, description = "It is no run of a workflow of the server", body = ProblemBody)))]
pub(crate) async fn resume(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Path(session): Path<String>,
    Maybe(Resume { cut_off }): Maybe<Resume>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    check_proof(&principal)?;
    principal.may_touch(&session)?;
    let ordered = office.look(move |office| {
        if office.desk().records(&session, 1, 1)?.is_empty() && office.runs.records.find(&session)?.is_none()
        {
            return Err(Problem::unknown_session(&session));
        }
        let run = match office.runs.ours(&session)? {
            Some(run) => run,
            None if office.runs.records.find(&session)?.is_some() => session,
            None => return Err(not_a_run(&session)),
        };
        office.runs.place(&run, &principal.name, cut_off)?;
        Ok(run)
    });
    Ok((StatusCode::ACCEPTED, Json(json!({"session": ordered.await?, "work": "waiting"}))))
}

fn not_a_run(session: &str) -> Problem {
    let what = format!("session '{}' is no run of a workflow of this server", line(session, 80));
    let advice = "whoever started it must go on with it";
    Problem::new(StatusCode::CONFLICT, "run_not_a_run", what, advice)
}

fn bad(what: String) -> Problem {
    let advice = "GET /v1/openapi.json says how it is written";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_run", line(&what, 300), advice)
}

/// The key that makes a repetition harmless, as it is kept: everybody has keys of their own.
fn key(headers: &HeaderMap, principal: &str) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| !key.is_empty() && key.len() <= SHORT);
    let key = key.ok_or_else(|| bad(format!("an Idempotency-Key has 1 to {SHORT} plain characters")))?;
    Ok(Some(blake3::hash(json!([principal, key]).to_string().as_bytes()).to_hex().to_string()))
}

/// A name of a session that can be shown and typed.
fn check_name(session: &str) -> Result<(), Problem> {
    if session.is_empty() || session.len() > SHORT || session.chars().any(char::is_control) {
        return Err(bad(format!("the name of a session has 1 to {SHORT} characters that can be seen")));
    }
    Ok(())
}

/// The settings as the command takes them.
fn settings(set: &BTreeMap<String, Value>) -> Result<BTreeMap<String, String>, Problem> {
    if set.len() > SETTINGS {
        return Err(bad(format!("a run has at most {SETTINGS} settings")));
    }
    set.iter().map(|(key, value)| Ok((setting(key)?, plain(key, value)?))).collect()
}

fn setting(key: &str) -> Result<String, Problem> {
    let good = |c: char| c.is_ascii_alphanumeric() || "_.->".contains(c);
    let first = key.split('.').next().unwrap_or_default();
    if key.is_empty() || key.len() > SHORT || !key.chars().all(good) {
        return Err(bad(format!("'{key}' is no key of a policy")));
    }
    if FORBIDDEN.iter().any(|forbidden| first.eq_ignore_ascii_case(forbidden)) {
        let what = format!("'{first}' cannot be set for a run");
        let advice = "set it in the policy of the server";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "policy_forbidden", what, advice));
    }
    Ok(key.to_owned())
}

fn plain(key: &str, value: &Value) -> Result<String, Problem> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return Err(bad(format!("'{key}' must be a text, a number, true or false"))),
    };
    if text.len() > SHORT || text.chars().any(char::is_control) {
        return Err(bad(format!("the value of '{key}' is too long, or cannot be seen")));
    }
    Ok(text)
}

/// Something that nobody else has in a name.
fn random() -> Result<String, Problem> {
    let mut bytes = [0_u8; 6];
    getrandom::fill(&mut bytes).map_err(|error| {
        Problem::from(flyball_journal::StoreError::new(
            flyball_journal::Trouble::Io,
            format!("no randomness: {error}"),
        ))
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
