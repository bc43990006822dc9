//! Sessions: the list, and the details of one.

use super::extract::{PathName, QueryParams, bad_request};
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::{Principal, SessionScope};
use axum::Json;
use axum::extract::{Extension, State};
use flyball_store::{SessionFilter, SessionRow};
use flyball_view::run_status::RunStatus;
use flyball_view::{PlanView, SessionActivity, SessionStatus, decision_history, session_list};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

/// Default and maximum page size.
const DEFAULT_PAGE: usize = 50;
const MAX_PAGE: usize = 500;
/// Number of sessions examined for a search or a later page.
const MAX_SEARCHED_SESSIONS: usize = 100_000;

/// Query of the session list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionQuery {
    /// Only sessions in this state.
    #[param(inline)]
    state: Option<ApiSessionStatus>,
    /// Only sessions whose name contains this text.
    #[param(max_length = 512)]
    search: Option<String>,
    /// Page size: 50 by default, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
    /// Cursor: the `next` of the previous page.
    #[param(pattern = r"^\d{1,19}:.{1,512}$")]
    after: Option<String>,
}

/// The status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApiSessionStatus {
    /// A process holds it, or an event arrived within the last minute.
    Running,
    /// No event for a minute or more.
    Idle,
    /// The process that ran it is gone.
    Lost,
    /// A plan is awaiting approval.
    AwaitingConfirmation,
    /// A question to a person has not been answered.
    AwaitingAnswer,
    /// It needs a release.
    Blocked,
    /// It is stopped until a release.
    Halted,
    /// It is over.
    Ended,
}

impl From<SessionStatus> for ApiSessionStatus {
    fn from(status: SessionStatus) -> Self {
        match status {
            SessionStatus::Running => ApiSessionStatus::Running,
            SessionStatus::Idle => ApiSessionStatus::Idle,
            SessionStatus::Lost => ApiSessionStatus::Lost,
            SessionStatus::AwaitingConfirmation => ApiSessionStatus::AwaitingConfirmation,
            SessionStatus::AwaitingAnswer => ApiSessionStatus::AwaitingAnswer,
            SessionStatus::Blocked => ApiSessionStatus::Blocked,
            SessionStatus::Halted => ApiSessionStatus::Halted,
            SessionStatus::Ended => ApiSessionStatus::Ended,
        }
    }
}

/// A session in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionListItem {
    /// Name of the session.
    session: String,
    /// Current status.
    state: ApiSessionStatus,
    /// How long the session has been idle, in milliseconds; null if it is not idle.
    idle_ms: Option<u64>,
    /// The unanswered question, if any.
    question: Option<String>,
    /// Number of events.
    events: u64,
    /// Number of `warn` decisions.
    warnings: u64,
    /// Number of `block` decisions.
    blocks: u64,
    /// Number of `halt` decisions.
    halts: u64,
    /// Why the session is stopped, if it is.
    stopped_by: Option<String>,
    /// The hold label, while it is set.
    label: Option<String>,
    /// Parent session.
    parent: Option<String>,
    /// Time of the first event, in milliseconds since 1970.
    started: u64,
    /// Time of the last event, in milliseconds since 1970.
    updated: u64,
}

impl SessionListItem {
    /// Name of the session.
    pub(crate) fn name(&self) -> &str {
        &self.session
    }
}

impl SessionListItem {
    /// A session with what it is doing.
    pub(crate) fn new(head: SessionRow, activity: SessionActivity) -> Self {
        let SessionRow { session, seq: events, started, updated, summary, .. } = head;
        SessionListItem {
            session,
            state: activity.status.into(),
            idle_ms: activity.idle_ms,
            question: activity.question,
            events,
            warnings: summary.warnings,
            blocks: summary.blocks,
            halts: summary.halts,
            stopped_by: summary.stopped_by,
            label: summary.label,
            parent: summary.parent,
            started,
            updated,
        }
    }
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionPage {
    /// The sessions, most recently changed first.
    sessions: Vec<SessionListItem>,
    /// Cursor for the next page, as `after`; null on the last page.
    next: Option<String>,
}

/// Lists sessions, most recently changed first.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(SessionQuery),
    responses((status = 200, description = "A page of sessions", body = SessionPage)))]
pub(crate) async fn list(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    QueryParams(query): QueryParams<SessionQuery>,
) -> Result<Json<SessionPage>, ApiError> {
    if query.search.as_ref().is_some_and(|part| part.chars().count() > flyball::limits::NAME_BYTES) {
        return Err(bad_request("`search` is longer than the longest session name"));
    }
    let after = query.after.as_deref().map(parse_page_cursor).transpose()?;
    let most = match query.limit {
        Some(limit) => usize::try_from(limit).ok().filter(|limit| (1..=MAX_PAGE).contains(limit)),
        None => Some(DEFAULT_PAGE),
    };
    let most = most.ok_or_else(|| bad_request("`limit` must be between 1 and 500"))?;
    app.run_blocking(move |app| session_page(app, &principal, &query, after.as_ref(), most)).await.map(Json)
}

fn session_page(
    app: &AppState,
    principal: &Principal,
    query: &SessionQuery,
    after: Option<&(u64, String)>,
    most: usize,
) -> Result<SessionPage, ApiError> {
    let (which, state) = match query.state {
        None => (SessionFilter::All, None),
        Some(ApiSessionStatus::Blocked | ApiSessionStatus::Halted) => (SessionFilter::Blocked, query.state),
        Some(ApiSessionStatus::AwaitingConfirmation) => (SessionFilter::Waiting, query.state),
        Some(_) => (SessionFilter::All, query.state),
    };
    let filtered =
        state.is_some() || query.search.is_some() || after.is_some() || principal.scope != SessionScope::All;
    let read = if filtered { MAX_SEARCHED_SESSIONS } else { most + 1 };
    let mut all = session_list::list_sessions(app.store(), &[which], read)?;
    // Sessions that changed in the same millisecond are ordered by name.
    all.sort_by(|a, b| b.updated.cmp(&a.updated).then_with(|| a.session.cmp(&b.session)));
    let follows = |head: &SessionRow, (updated, name): &(u64, String)| {
        head.updated < *updated || (head.updated == *updated && head.session > *name)
    };
    let reader = app.activity_reader()?;
    all.retain(|head| {
        query.search.as_ref().is_none_or(|part| head.session.contains(part.as_str()))
            && after.is_none_or(|after| follows(head, after))
            && principal.check_session(&head.session).is_ok()
    });
    let mut sessions = Vec::new();
    for head in all {
        let activity = reader.activity(&head)?;
        if state.is_none_or(|state| matches_state(state, &activity)) {
            sessions.push(SessionListItem::new(head, activity));
        }
        if sessions.len() > most {
            break;
        }
    }
    let more = sessions.len() > most;
    sessions.truncate(most);
    let next = sessions.last().filter(|_| more).map(|last| format!("{}:{}", last.updated, last.session));
    Ok(SessionPage { sessions, next })
}

/// Whether a session matches a state. A session that ended while halted matches both: it still needs a release.
fn matches_state(state: ApiSessionStatus, activity: &SessionActivity) -> bool {
    let waits_for_release = matches!(state, ApiSessionStatus::Blocked | ApiSessionStatus::Halted);
    (waits_for_release && activity.is_held) || state == activity.status.into()
}

/// Parses a page cursor: time of the last change, and name.
pub(crate) fn parse_page_cursor(text: &str) -> Result<(u64, String), ApiError> {
    let parts = text.split_once(':').and_then(|(at, name)| Some((at.parse().ok()?, name.to_owned())));
    parts.ok_or_else(|| bad_request("`after` must be the `next` of a page"))
}

/// Returns one session: status, usage, pending plan, and recent decisions other than `allow`.
#[utoipa::path(get, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "Session name", min_length = 1, max_length = 512)),
    responses((status = 200, description = "The session", body = Object,
        example = json!({"session": "s1", "state": "running", "report": {"events": 3}, "pending": null}))))]
pub(crate) async fn get_session(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
) -> Result<Json<Value>, ApiError> {
    app.require_visible(&principal, &name).await?;
    app.run_blocking(move |app| session_json(app, &name)).await.map(Json)
}

fn session_json(app: &AppState, name: &str) -> Result<Value, ApiError> {
    let (state, policy) = app.session(name)?;
    let store = app.store();
    let head = store.load(name)?.map(|loaded| loaded.head).unwrap_or_default();
    let report = state.report_at(&policy, store.now()?);
    let plan = PlanView::load(store, name, &state)?;
    let lately = decision_history::recent_decisions(store, name, head.seq)?;
    let run = RunStatus::load(store, name, &state)?;
    let activity = app.activity_reader()?.activity(&head)?;
    Ok(json!({"session": name, "state": activity.status, "idle_ms": activity.idle_ms,
        "question": activity.question, "report": report,
        "pending": plan.as_ref().map(PlanView::as_json), "label": head.summary.label, "parent": head.summary.parent,
        "started": head.started, "updated": head.updated, "releases_ceiling": policy.releases.ceiling,
        "lately": lately, "run": run.as_ref().map(RunStatus::as_json)}))
}
