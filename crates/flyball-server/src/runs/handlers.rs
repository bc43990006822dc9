//! Handlers that list workflows and list, start and resume runs.

use super::job::{InterruptedStep, RunJob};
use super::record::{IdempotentRun, LastRunResult, RunRecord};
use super::registry::WorkflowInfo;
use crate::api::{JsonBody, OptionalJsonBody};
use crate::api_error::{ApiError, ApiErrorBody};
use crate::app_state::{AppState, SharedState};
use crate::auth::{Principal, check_proof};
use axum::Json;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use flyball_view::SessionStatus;
use flyball_view::formatting::single_line;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// Number of runs per page.
const PAGE_RUNS: usize = 100;
/// Maximum length of a key, name or setting, in bytes.
const MAX_TEXT_BYTES: usize = 200;
/// Maximum number of settings of a run.
const MAX_SETTINGS: usize = 50;
/// Keys that only the server's policy may set: delivery targets and failure handling.
const FORBIDDEN_KEYS: [&str; 2] = ["journal", "on_error"];

/// The workflows that can be started.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkflowList {
    /// The workflows, by name.
    workflows: Vec<WorkflowInfo>,
}

/// The run to start.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartRunBody {
    /// Name of the workflow.
    workflow: String,
    /// Policy values for this run, such as `budgets.session.runtime`: strings, numbers or booleans.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// Name of the session. By default, the workflow's name with a random suffix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

/// How to resume a run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeRunBody {
    /// How to handle an interrupted step. By default, a person is asked.
    #[serde(default)]
    #[serde(rename = "cut_off")]
    interrupted: Option<InterruptedStep>,
}

/// A run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApiRun {
    /// The session.
    session: String,
    /// The workflow it was started from.
    workflow: String,
    /// Who started it.
    by: String,
    /// Start time, in milliseconds since 1970.
    started: u64,
    /// Work state: `none`, `waiting` for a worker, or `running` on one.
    work: &'static str,
    /// Status of the session, once it has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    state: Option<SessionStatus>,
    /// Result of the last execution by a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<LastRunResult>,
}

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunList {
    /// The runs, by session name.
    runs: Vec<ApiRun>,
    /// Cursor for the next page, as `after`, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Query of the run list.
#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct RunListQuery {
    /// The last session of the previous page.
    #[serde(default)]
    after: String,
}

/// Lists the workflows that can be started.
#[utoipa::path(get, path = "/v1/workflows", tag = "runs", responses(
    (status = 200, description = "The workflows of the server's folder", body = WorkflowList)))]
pub(crate) async fn workflows(State(app): State<SharedState>) -> Result<Json<WorkflowList>, ApiError> {
    let workflows = app.run_blocking(|app| Ok::<_, ApiError>(app.runs.registry.list())).await?;
    Ok(Json(WorkflowList { workflows }))
}

/// Starts a workflow. A worker of any server of the store runs it.
#[utoipa::path(post, path = "/v1/runs", tag = "runs",
    request_body = StartRunBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key returns the same run for one day")),
    responses(
        (status = 202, description = "The run is queued", body = ApiRun),
        (status = 404, description = "The workflow does not exist", body = ApiErrorBody),
        (status = 409, description = "The session already exists, or the key was used for another run", body = ApiErrorBody),
        (status = 422, description = "Invalid request", body = ApiErrorBody)))]
pub(crate) async fn start(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    JsonBody(start): JsonBody<StartRunBody>,
) -> Result<(StatusCode, Json<ApiRun>), ApiError> {
    check_proof(&principal)?;
    let set = parse_settings(&start.set)?;
    let key = idempotency_digest(&headers, &principal.name)?;
    if let Some(session) = &start.session {
        check_session_name(session)?;
    }
    let run = app.run_blocking(move |app| start_run(app, start, set, key.as_deref(), &principal)).await?;
    Ok((StatusCode::ACCEPTED, Json(run)))
}

fn start_run(
    app: &AppState,
    start: StartRunBody,
    set: BTreeMap<String, String>,
    key: Option<&str>,
    principal: &Principal,
) -> Result<ApiRun, ApiError> {
    let runs = &app.runs;
    runs.registry.find(&start.workflow)?;
    let body = blake3::hash(json!(start).to_string().as_bytes()).to_hex().to_string();
    let given = start.session.is_some();
    let mut session = match start.session {
        Some(session) => session,
        None => format!("{}-{}", start.workflow, random_suffix()?),
    };
    principal.check_session(&session)?;
    if let Some(key) = key {
        let asked = runs
            .records
            .claim_key(key, IdempotentRun { session: session.clone(), body_digest: body.clone() })?;
        if asked.body_digest != body {
            let message = "this Idempotency-Key was used for another run";
            let help = "use a new key for a new run";
            return Err(ApiError::new(StatusCode::CONFLICT, "idempotency_conflict", message, help));
        }
        let before = runs.records.find(&asked.session)?.filter(|record| record.key.as_deref() == Some(key));
        if let Some(record) = before {
            // A retry. If the server died before it queued the job, queue it now.
            if record.last.is_none() && app.store().records(&asked.session, 1, 1)?.is_empty() {
                runs.enqueue(&asked.session, &principal.name, None)?;
            }
            return api_run(app, record);
        }
        session.clone_from(&asked.session);
    }
    if given && !app.store().records(&session, 1, 1)?.is_empty() {
        return Err(session_exists(&session));
    }
    let record = RunRecord {
        session: session.clone(),
        workflow: start.workflow,
        set,
        by: principal.name.clone(),
        started: runs.records.now()?,
        key: key.map(str::to_owned),
        last: None,
    };
    if !runs.records.insert(&record)? {
        return Err(session_exists(&session));
    }
    runs.enqueue(&session, &principal.name, None)?;
    api_run(app, record)
}

fn session_exists(session: &str) -> ApiError {
    let message = format!("session '{}' already exists", single_line(session, 80));
    ApiError::new(StatusCode::CONFLICT, "run_exists", message, "choose another name, or resume it")
}

fn api_run(app: &AppState, record: RunRecord) -> Result<ApiRun, ApiError> {
    let RunRecord { session, workflow, by, started, last, .. } = record;
    let state = app.store().load(&session)?.filter(|loaded| loaded.head.seq > 0);
    let reader = app.activity_reader()?;
    let state = state.map(|loaded| reader.activity(&loaded.head)).transpose()?;
    let state = state.map(|activity| activity.status);
    let work = match app.runs.jobs.find(&session)? {
        None => "none",
        Some(RunJob { holder: None, .. }) => "waiting",
        Some(_) => "running",
    };
    Ok(ApiRun { session, workflow, by, started, work, state, last })
}

/// Lists the runs that were started through a server.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", params(RunListQuery), responses(
    (status = 200, description = "Runs, by session name", body = RunList)))]
pub(crate) async fn list(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    Query(RunListQuery { after }): Query<RunListQuery>,
) -> Result<Json<RunList>, ApiError> {
    let list = app.run_blocking(move |app| {
        let records = app.runs.records.list(&after, PAGE_RUNS)?;
        let next =
            (records.len() == PAGE_RUNS).then(|| records.last().map(|last| last.session.clone())).flatten();
        let mut runs = Vec::with_capacity(records.len());
        for record in records {
            if app.can_see(&principal, &record.session)? {
                runs.push(api_run(app, record)?);
            }
        }
        Ok::<_, ApiError>(RunList { runs, next })
    });
    Ok(Json(list.await?))
}

/// Resumes a run after a stop or a crash.
#[utoipa::path(post, path = "/v1/sessions/{session}/resume", tag = "runs",
    params(("session" = String, Path, description = "Session name, or a branch of it")),
    request_body(content = ResumeRunBody, description = "How to handle an interrupted step; may be omitted"),
    responses(
        (status = 202, description = "The run is queued", body = Value),
        (status = 404, description = "The session does not exist", body = ApiErrorBody),
        (status = 409, description = "The session is not a run of one of the server's workflows", body = ApiErrorBody)))]
pub(crate) async fn resume(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    Path(session): Path<String>,
    OptionalJsonBody(ResumeRunBody { interrupted }): OptionalJsonBody<ResumeRunBody>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    check_proof(&principal)?;
    principal.check_session(&session)?;
    let queued = app.run_blocking(move |app| {
        if app.store().records(&session, 1, 1)?.is_empty() && app.runs.records.find(&session)?.is_none() {
            return Err(ApiError::unknown_session(&session));
        }
        let run = match app.runs.server_run(&session)? {
            Some(run) => run,
            None if app.runs.records.find(&session)?.is_some() => session,
            None => return Err(not_a_run(&session)),
        };
        app.runs.enqueue(&run, &principal.name, interrupted)?;
        Ok(run)
    });
    Ok((StatusCode::ACCEPTED, Json(json!({"session": queued.await?, "work": "waiting"}))))
}

fn not_a_run(session: &str) -> ApiError {
    let message =
        format!("session '{}' is not a run of one of this server's workflows", single_line(session, 80));
    let help = "continue it with the program that started it";
    ApiError::new(StatusCode::CONFLICT, "not_a_run", message, help)
}

fn invalid_run(message: String) -> ApiError {
    let help = "see GET /v1/openapi.json for the format";
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_run", single_line(&message, 300), help)
}

/// Digest of the idempotency key, scoped to the principal.
fn idempotency_digest(headers: &HeaderMap, principal: &str) -> Result<Option<String>, ApiError> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| !key.is_empty() && key.len() <= MAX_TEXT_BYTES);
    let key = key.ok_or_else(|| {
        invalid_run(format!("Idempotency-Key must be 1 to {MAX_TEXT_BYTES} printable ASCII characters"))
    })?;
    Ok(Some(blake3::hash(json!([principal, key]).to_string().as_bytes()).to_hex().to_string()))
}

/// Rejects a session name that cannot be displayed and typed.
fn check_session_name(session: &str) -> Result<(), ApiError> {
    if session.is_empty() || session.len() > MAX_TEXT_BYTES || session.chars().any(char::is_control) {
        return Err(invalid_run(format!(
            "a session name must be 1 to {MAX_TEXT_BYTES} bytes without control characters"
        )));
    }
    Ok(())
}

/// Converts the settings to command-line form.
fn parse_settings(set: &BTreeMap<String, Value>) -> Result<BTreeMap<String, String>, ApiError> {
    if set.len() > MAX_SETTINGS {
        return Err(invalid_run(format!("a run can have at most {MAX_SETTINGS} settings")));
    }
    set.iter().map(|(key, value)| Ok((check_setting_key(key)?, setting_value(key, value)?))).collect()
}

fn check_setting_key(key: &str) -> Result<String, ApiError> {
    let good = |c: char| c.is_ascii_alphanumeric() || "_.->".contains(c);
    let first = key.split('.').next().unwrap_or_default();
    if key.is_empty() || key.len() > MAX_TEXT_BYTES || !key.chars().all(good) {
        return Err(invalid_run(format!("'{key}' is not a policy key")));
    }
    if FORBIDDEN_KEYS.iter().any(|forbidden| first.eq_ignore_ascii_case(forbidden)) {
        let message = format!("'{first}' cannot be set for a run");
        let help = "set it in the server's policy";
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "policy_forbidden", message, help));
    }
    Ok(key.to_owned())
}

fn setting_value(key: &str, value: &Value) -> Result<String, ApiError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return Err(invalid_run(format!("'{key}' must be a string, a number or a boolean"))),
    };
    if text.len() > MAX_TEXT_BYTES || text.chars().any(char::is_control) {
        return Err(invalid_run(format!("the value of '{key}' is too long or contains control characters")));
    }
    Ok(text)
}

/// A random suffix for a session name.
fn random_suffix() -> Result<String, ApiError> {
    let mut bytes = [0_u8; 6];
    getrandom::fill(&mut bytes).map_err(|error| {
        ApiError::from(flyball_store::StoreError::new(
            flyball_store::StoreErrorKind::Io,
            format!("no randomness available: {error}"),
        ))
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
