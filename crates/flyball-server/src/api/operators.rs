//! The inbox and the operator actions: approve, deny, release, stop.

use super::extract::{JsonBody, PathName, QueryParams, bad_request, idempotency_key};
use super::schema::DecisionSchema;
use super::sessions::{SessionListItem, parse_page_cursor};
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::Principal;
use crate::operator_actions::{self, OperatorAction};
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use flyball::Decision;
use flyball_store::{SessionFilter, SessionRow};
use flyball_view::{ActivityReader, PlanView, decision_history, evidence, session_list};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// Maximum number of inbox items in a page, oldest first.
const MAX_INBOX_ITEMS: usize = 100;
/// Maximum number of waiting sessions examined.
const MAX_SEARCHED_SESSIONS: usize = 100_000;

/// Sessions that need a person.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Inbox {
    /// The sessions, longest waiting first; at most 100.
    waiting: Vec<InboxItem>,
    /// Total number of waiting sessions.
    count: u64,
    /// Cursor for the next page, as `after`; null on the last page.
    next: Option<String>,
}

/// Query of the inbox.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct InboxQuery {
    /// Page size: 100 by default and at most.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u64>,
    /// Cursor: the `next` of the previous page.
    #[param(pattern = r"^\d{1,19}:.{1,512}$")]
    after: Option<String>,
}

/// A session that needs a person.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InboxItem {
    /// The session.
    #[serde(flatten)]
    session: SessionListItem,
    /// The plan awaiting approval, with its question.
    #[schema(value_type = Option<Object>)]
    plan: Option<Value>,
    /// Single-use ticket that an approval of this plan must include; it expires. Null if the caller may not answer
    /// the plan.
    ticket: Option<String>,
    /// The decision that stopped the session.
    #[schema(value_type = Option<Object>)]
    decision: Option<Decision>,
    /// The events that the decision is based on.
    #[schema(value_type = Vec<Object>)]
    evidence: Vec<evidence::EvidenceLine>,
}

/// Lists the sessions that need a person, longest waiting first.
#[utoipa::path(get, path = "/v1/inbox", tag = "people", params(InboxQuery),
    responses((status = 200, description = "The waiting sessions", body = Inbox)))]
pub(crate) async fn inbox(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    QueryParams(InboxQuery { limit, after }): QueryParams<InboxQuery>,
) -> Result<Json<Inbox>, ApiError> {
    let who = principal.clone();
    let limit = limit.map_or(Some(MAX_INBOX_ITEMS), |limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| (1..=MAX_INBOX_ITEMS).contains(limit));
    let limit = limit.ok_or_else(|| bad_request("`limit` must be between 1 and 100"))?;
    let after = after.as_deref().map(parse_page_cursor).transpose()?;
    let Inbox { mut waiting, count, next } =
        app.run_blocking(move |app| read_inbox(app, &who, after.as_ref(), limit)).await?;
    for one in &mut waiting {
        if one.plan.is_some() {
            // No ticket if the plan was answered meanwhile or the caller requested it.
            one.ticket = operator_actions::issue_ticket(&app, &principal, one.session.name()).await.ok();
        }
    }
    Ok(Json(Inbox { waiting, count, next }))
}

fn read_inbox(
    app: &AppState,
    principal: &Principal,
    after: Option<&(u64, String)>,
    limit: usize,
) -> Result<Inbox, ApiError> {
    let reader = app.activity_reader()?;
    let mut found = session_list::list_sessions(
        app.store(),
        &[SessionFilter::Blocked, SessionFilter::Waiting],
        MAX_SEARCHED_SESSIONS,
    )?;
    for (_, session) in app.dashboard_counters.asking_sessions(app.store())? {
        found.extend(app.store().load(&session)?.map(|loaded| loaded.head));
    }
    found.retain(|head| principal.check_session(&head.session).is_ok());
    let count = found.len() as u64;
    found.sort_by(|a, b| a.updated.cmp(&b.updated).then_with(|| a.session.cmp(&b.session)));
    // The cursor is a position, not an offset: answering an item does not shift the pages.
    found.retain(|head| after.is_none_or(|(at, name)| (head.updated, &head.session) > (*at, name)));
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| format!("{}:{}", last.updated, last.session));
    let waiting = found.into_iter().map(|head| inbox_item(app, &reader, head)).collect::<Result<_, _>>()?;
    Ok(Inbox { waiting, count, next })
}

fn inbox_item(app: &AppState, reader: &ActivityReader<'_>, head: SessionRow) -> Result<InboxItem, ApiError> {
    let store = app.store();
    let activity = reader.activity(&head)?;
    let (state, _) = app.session(&head.session)?;
    let plan = PlanView::load(store, &head.session, &state)?.map(|plan| plan.as_json());
    let decision = decision_history::recent_decisions(store, &head.session, head.seq)?.pop();
    let wanted = decision.iter().flat_map(|decision| &decision.trips);
    let wanted = wanted.flat_map(|trip| trip.evidence.events.iter().copied()).collect();
    let evidence = evidence::fetch(store, &head.session, &wanted)?;
    Ok(InboxItem { session: SessionListItem::new(head, activity), plan, ticket: None, decision, evidence })
}

/// An answer to the pending plan.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfirmationBody {
    /// Yes or no, as a string or a boolean.
    answer: PlanAnswer,
    /// The ticket issued with the plan; required to approve.
    #[schema(max_length = 128)]
    ticket: Option<String>,
    /// Reason.
    #[schema(max_length = 2000)]
    why: Option<String>,
}

/// Yes or no, as a string or a boolean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum PlanAnswer {
    /// As a string.
    Word(ApiConfirmationAnswer),
    /// As a boolean.
    Truth(bool),
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApiConfirmationAnswer {
    /// Exactly this plan may run, once.
    Yes,
    /// Nothing of the plan may run.
    No,
}

/// Approves or denies the pending plan of a session.
///
/// Approval requires the ticket issued with the plan in the inbox. The requester of a plan cannot approve it.
#[utoipa::path(post, path = "/v1/sessions/{session}/confirmation", tag = "people",
    params(("session" = String, Path, description = "Session name", min_length = 1, max_length = 512),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes retries safe",
            min_length = 1, max_length = 512, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content = ConfirmationBody, example = json!({"answer": "no", "why": "not on a Friday"})),
    responses((status = 200, description = "The decision", body = DecisionSchema)))]
pub(crate) async fn confirmation(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    PathName(session): PathName,
    headers: HeaderMap,
    JsonBody(ConfirmationBody { answer, ticket, why }): JsonBody<ConfirmationBody>,
) -> Result<Response, ApiError> {
    let why = check_reason(why)?;
    if ticket.as_ref().is_some_and(|ticket| ticket.chars().count() > 128) {
        return Err(bad_request("`ticket` is too long"));
    }
    let is_yes = matches!(answer, PlanAnswer::Word(ApiConfirmationAnswer::Yes) | PlanAnswer::Truth(true));
    let act = match (is_yes, ticket) {
        (true, Some(ticket)) => OperatorAction::Approve { ticket },
        (true, None) => {
            return Err(bad_request("approval needs the plan's `ticket` from GET /v1/inbox"));
        }
        (false, _) => OperatorAction::Deny,
    };
    respond_with_decision(&app, &principal, &session, act, why.as_deref(), &headers).await
}

/// The release to apply.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseBody {
    /// The guard to release; by default the one that holds the session. Only `human` lifts operator stops.
    #[schema(min_length = 1, max_length = 512)]
    guard: Option<String>,
    /// `grant` by default.
    mode: Option<ApiReleaseMode>,
    /// Number of additional attempts; by default as set in the policy.
    #[schema(minimum = 1, maximum = 1000)]
    n: Option<u64>,
    /// Reason.
    #[schema(min_length = 1, max_length = 2000, pattern = r"\S")]
    why: String,
}

/// Effect of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApiReleaseMode {
    /// Grants some more attempts, then the guard trips again.
    Grant,
    /// Resets the guard's counters.
    Reset,
    /// Keeps the guard's counters unchanged.
    Keep,
}

/// Releases a session within limits.
#[utoipa::path(post, path = "/v1/sessions/{session}/releases", tag = "people",
    params(("session" = String, Path, description = "Session name", min_length = 1, max_length = 512),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes retries safe",
            min_length = 1, max_length = 512, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content = ReleaseBody, example = json!({"guard": "repetition", "n": 3, "why": "it polls a slow job"})),
    responses((status = 200, description = "The decision", body = DecisionSchema)))]
pub(crate) async fn releases(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    PathName(session): PathName,
    headers: HeaderMap,
    JsonBody(ReleaseBody { guard, mode, n, why }): JsonBody<ReleaseBody>,
) -> Result<Response, ApiError> {
    let why = require_reason(why)?;
    if n.is_some_and(|n| !(1..=1000).contains(&n)) {
        return Err(bad_request("`n` must be between 1 and 1000"));
    }
    if guard.as_ref().is_some_and(String::is_empty) {
        return Err(bad_request("`guard` is empty; omit it to release the guard that holds the session"));
    }
    let mode = match mode {
        None | Some(ApiReleaseMode::Grant) => "grant",
        Some(ApiReleaseMode::Reset) => "reset",
        Some(ApiReleaseMode::Keep) => "keep",
    };
    let act = match guard.as_deref() {
        Some("human") => OperatorAction::LiftStop,
        _ => OperatorAction::Release { guard, mode: mode.to_owned(), n },
    };
    respond_with_decision(&app, &principal, &session, act, Some(&why), &headers).await
}

/// The stop to apply.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopBody {
    /// Reason.
    #[schema(min_length = 1, max_length = 2000, pattern = r"\S")]
    why: String,
}

/// Stops a session until an operator lifts the stop by releasing the guard `human`.
#[utoipa::path(post, path = "/v1/sessions/{session}/stop", tag = "people",
    params(("session" = String, Path, description = "Session name", min_length = 1, max_length = 512),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes retries safe",
            min_length = 1, max_length = 512, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content = StopBody, example = json!({"why": "wrong branch"})),
    responses((status = 200, description = "The decision, which is halt", body = DecisionSchema)))]
pub(crate) async fn stop(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    PathName(session): PathName,
    headers: HeaderMap,
    JsonBody(StopBody { why }): JsonBody<StopBody>,
) -> Result<Response, ApiError> {
    let why = require_reason(why)?;
    respond_with_decision(&app, &principal, &session, OperatorAction::Stop, Some(&why), &headers).await
}

async fn respond_with_decision(
    app: &SharedState,
    principal: &Principal,
    session: &str,
    act: OperatorAction,
    why: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let key = idempotency_key(headers)?;
    let decision = operator_actions::run_action(app, principal, session, act, why, key).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], decision.to_json()).into_response())
}

fn check_reason(why: Option<String>) -> Result<Option<String>, ApiError> {
    match why {
        Some(why) if why.chars().count() > 2_000 => Err(bad_request("`why` is longer than 2000 characters")),
        other => Ok(other),
    }
}

fn require_reason(why: String) -> Result<String, ApiError> {
    if flyball::is_blank(&why) {
        return Err(operator_actions::reason_missing());
    }
    Ok(check_reason(Some(why))?.unwrap_or_default())
}
