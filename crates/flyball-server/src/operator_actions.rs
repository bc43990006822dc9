//! Operator actions: approve, deny, release, stop, message. One code path for the API and the dashboard.
//!
//! The requester of a plan cannot approve it. An approval needs a ticket, which is issued with the question, is bound
//! to the session, plan and policy as shown, expires, and can be used once. The approval also names the plan's
//! digest, so a plan that was replaced meanwhile is not approved.

use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::audit_log::{self, AuditEntry};
use crate::auth::{AuthRole, Principal, check_proof, digest, random_token};
use axum::http::StatusCode;
use flyball::confirm::{ConfirmationAnswer, classify_answer};
use flyball::{Decision, EventKind};
use flyball_store::{KvEntry, Precondition, Submission};
use flyball_view::formatting::single_line;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Namespace of the tickets.
const TICKETS_NAMESPACE: &str = "tickets";
/// Lifetime of a ticket, in milliseconds; never longer than the plan's.
const TICKET_TTL_MS: u64 = 15 * 60 * 1000;
/// Digest of a message that arrived while no plan was pending; matches no plan.
const NO_PLAN: &str = "none";

/// An operator's action in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OperatorAction {
    /// Approves the pending plan.
    Approve {
        /// The ticket issued with the question.
        ticket: String,
    },
    /// Denies the pending plan.
    Deny,
    /// Releases a guard's hold within limits.
    Release {
        /// The guard; by default the one that holds the session.
        guard: Option<String>,
        /// `grant`, `reset` or `keep`.
        mode: String,
        /// Number of additional attempts.
        n: Option<u64>,
    },
    /// Removes the hold label: releases the block that it represents.
    Unlabel {
        /// The guard that set the block.
        guard: String,
    },
    /// Lifts operator stops. No other action lifts them.
    LiftStop,
    /// Stops the session until an operator lifts the stop.
    Stop,
    /// Sends a message to the agent; never an approval.
    Message {
        /// The text.
        text: String,
    },
}

impl OperatorAction {
    /// Whether it lets an agent continue and so needs a recent proof. Deny and stop only need a login.
    pub(crate) fn needs_proof(&self) -> bool {
        !matches!(self, OperatorAction::Deny | OperatorAction::Stop)
    }

    /// The name in the audit log.
    fn name(&self) -> &'static str {
        match self {
            OperatorAction::Approve { .. } => "approve",
            OperatorAction::Deny => "deny",
            OperatorAction::Release { .. } => "release",
            OperatorAction::Unlabel { .. } => "unlabel",
            OperatorAction::LiftStop => "lift_stop",
            OperatorAction::Stop => "stop",
            OperatorAction::Message { .. } => "say",
        }
    }
}

/// The session, plan, policy and principal that a ticket is bound to.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TicketBinding {
    session: String,
    digest: String,
    policy: String,
    /// The principal that the ticket was issued to.
    by: String,
}

/// Executes an action. `key` is the idempotency key.
///
/// # Errors
/// If it is not permitted or fails; then nothing was changed.
pub(crate) async fn run_action(
    app: &SharedState,
    principal: &Principal,
    session: &str,
    act: OperatorAction,
    why: Option<&str>,
    key: Option<&str>,
) -> Result<Decision, ApiError> {
    require_person(principal)?;
    principal.check_session(session)?;
    if act.needs_proof() {
        check_proof(principal)?;
    }
    let entry = AuditEntry::by(principal).action(act.name()).in_session(session, why);
    let open = audit_log::begin_entry(app, entry).await?;
    let outcome = match (&act, why.is_none_or(flyball::is_blank)) {
        (
            OperatorAction::Release { .. }
            | OperatorAction::Unlabel { .. }
            | OperatorAction::LiftStop
            | OperatorAction::Stop,
            true,
        ) => Err(reason_missing()),
        _ => submit_action(app, principal, session, act, why, key).await,
    };
    audit_log::finish_entry(app, open, &outcome).await;
    outcome
}

async fn submit_action(
    app: &SharedState,
    principal: &Principal,
    session: &str,
    act: OperatorAction,
    why: Option<&str>,
    key: Option<&str>,
) -> Result<Decision, ApiError> {
    let mut event = match act {
        OperatorAction::Approve { ticket } => redeem_ticket(app, principal, session, ticket, key).await?,
        OperatorAction::Deny => json!({"type": "confirmation.answered", "value": "no"}),
        OperatorAction::Release { guard, mode, n } => {
            let guard = match guard {
                Some(guard) => guard,
                None => holding_guard(app, session).await?,
            };
            json!({"type": "human.released", "guard": guard, "mode": mode, "n": n})
        }
        OperatorAction::Unlabel { guard } => {
            json!({"type": "human.released", "guard": guard, "label": "removed"})
        }
        OperatorAction::LiftStop => {
            require_stop(app, session, key).await?;
            json!({"type": "human.released", "guard": "human"})
        }
        OperatorAction::Stop => json!({"type": "human.stopped"}),
        OperatorAction::Message { text } => {
            if flyball::is_blank(&text) {
                return Err(empty_message_error());
            }
            json!({"type": "user.message", "text": text})
        }
    };
    if let Some(fields) = event.as_object_mut() {
        fields.insert("session".to_owned(), json!(session));
        fields.insert("by".to_owned(), json!(principal.name));
        fields.insert("why".to_owned(), json!(why));
        fields.insert("id".to_owned(), json!(key));
        fields.retain(|_, value| !value.is_null());
    }
    app.submit_action(&event, &principal.name).await
}

/// Records a person's chat message. It answers only the currently pending plan, and a key never approves a plan that
/// it requested itself.
///
/// # Errors
/// If it is not permitted or fails; then nothing was changed.
pub(crate) async fn run_person_message(
    app: &SharedState,
    principal: &Principal,
    incoming: Submission,
) -> Result<Decision, ApiError> {
    // The message may approve a plan, so a browser needs a recent proof.
    check_proof(principal)?;
    let session = incoming.event.session.clone();
    let entry = AuditEntry::by(principal).action("message").in_session(&session, None);
    let open = audit_log::begin_entry(app, entry).await?;
    let outcome = submit_person_message(app, principal, incoming).await;
    audit_log::finish_entry(app, open, &outcome).await;
    outcome
}

async fn submit_person_message(
    app: &SharedState,
    principal: &Principal,
    incoming: Submission,
) -> Result<Decision, ApiError> {
    let who = principal.clone();
    let (event, is_new) = app.run_blocking(move |app| bind_to_plan(app, &who, &incoming)).await?;
    if is_new {
        let event = app.parse_event(&event.to_string(), &principal.name)?;
        return app.ingest.submit_one(Box::new(event)).await;
    }
    app.submit_action(&event, &principal.name).await
}

/// A person's message, bound to the pending plan, and whether its session is new. If another plan replaces it before
/// the message is evaluated, the message answers neither.
fn bind_to_plan(
    app: &AppState,
    principal: &Principal,
    incoming: &Submission,
) -> Result<(Value, bool), ApiError> {
    let EventKind::PersonMessage { text, digest, .. } = &incoming.event.kind else {
        return Err(ApiError::busy());
    };
    let session = &incoming.event.session;
    let mut event: Value = serde_json::from_str(&incoming.text).unwrap_or_default();
    let Some(fields) = event.as_object_mut() else { return Err(ApiError::busy()) };
    // Recording the event adds it again.
    fields.remove("principal");
    if principal.role >= AuthRole::Operator {
        fields.insert("by".to_owned(), json!(principal.name));
    }
    let is_new = app.store().load(session)?.is_none_or(|loaded| loaded.head.seq == 0);
    if is_new {
        return Ok((event, true));
    }
    let sent = digest.clone();
    let digest = match stored_digest(app, incoming)? {
        Some(digest) => digest,
        None => {
            let (state, _) = app.session(session)?;
            let Some(waiting) = state.pending_plan() else {
                fields.insert("digest".to_owned(), json!(sent.unwrap_or_else(|| NO_PLAN.to_owned())));
                return Ok((event, false));
            };
            if classify_answer(text) == ConfirmationAnswer::Yes
                && is_requester(app, session, &waiting, &principal.name)?
            {
                return Err(self_approval_forbidden());
            }
            sent.unwrap_or_else(|| waiting.digest.to_owned())
        }
    };
    fields.insert("digest".to_owned(), json!(digest));
    Ok((event, false))
}

/// The digest that the same message was bound to when it was first sent.
fn stored_digest(app: &AppState, incoming: &Submission) -> Result<Option<String>, ApiError> {
    let (session, Some(id)) = (&incoming.event.session, &incoming.event.id) else { return Ok(None) };
    let Some(known) = app.store().find_by_id(session, &id.id)? else { return Ok(None) };
    let record = app.store().records(session, known.seq, known.seq)?.pop();
    let event = record.and_then(|record| serde_json::from_str::<Value>(&record.text).ok());
    Ok(event.and_then(|event| event.get("digest")?.as_str().map(str::to_owned)))
}

/// Whether a key requested a plan or one of its steps.
fn is_requester(
    app: &AppState,
    session: &str,
    waiting: &flyball::Waiting<'_>,
    key: &str,
) -> Result<bool, ApiError> {
    let mut found = false;
    for seq in waiting.requesters {
        let asked = app.store().records(session, *seq, *seq)?.pop();
        let Some(asked) = asked.and_then(|record| serde_json::from_str::<Value>(&record.text).ok()) else {
            return Err(plan_requester_unknown());
        };
        found |= asked.get("principal").and_then(Value::as_str) == Some(key);
    }
    Ok(found)
}

/// Error for a message without a visible character.
pub(crate) fn empty_message_error() -> ApiError {
    let message = "the message is empty";
    let help = "write a message for the session";
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "empty_answer", message, help)
}

fn plan_requester_unknown() -> ApiError {
    let what = "the requester of this plan is no longer known, so it cannot be approved";
    let advice = "deny it, and let the agent ask again";
    ApiError::new(StatusCode::CONFLICT, "plan_requester_unknown", what, advice)
}

fn self_approval_forbidden() -> ApiError {
    let what = "the requester of a plan cannot approve it";
    ApiError::new(StatusCode::FORBIDDEN, "self_approval_forbidden", what, "another person must answer")
}

/// Issues a ticket for the pending plan of a session.
///
/// # Errors
/// If no plan is pending, or the principal may not approve it.
pub(crate) async fn issue_ticket(
    app: &SharedState,
    principal: &Principal,
    session: &str,
) -> Result<String, ApiError> {
    require_person(principal)?;
    principal.check_session(session)?;
    let (name, session) = (principal.name.clone(), session.to_owned());
    app.run_blocking(move |app| {
        app.purge_expired()?;
        let (bound, expires) = pending_plan_binding(app, &session, &name)?;
        let ticket = random_token()?;
        let until = app.store().now()?.saturating_add(TICKET_TTL_MS).min(expires.unwrap_or(u64::MAX));
        let text = json!(bound).to_string();
        let note = KvEntry {
            namespace: TICKETS_NAMESPACE.to_owned(),
            key: digest(&ticket),
            value: text,
            expires_at: Some(until),
        };
        app.store().kv_put(&note, Precondition::Absent)?;
        Ok::<_, ApiError>(ticket)
    })
    .await
}

/// The binding of a ticket for the pending plan, and when the plan expires.
fn pending_plan_binding(
    app: &AppState,
    session: &str,
    by: &str,
) -> Result<(TicketBinding, Option<u64>), ApiError> {
    let (state, _) = app.session(session)?;
    let Some(waiting) = state.pending_plan() else {
        let message = "no plan is pending in this session";
        return Err(ApiError::new(StatusCode::CONFLICT, "no_pending_plan", message, "reload the session"));
    };
    if is_requester(app, session, &waiting, by)? {
        return Err(self_approval_forbidden());
    }
    let policy = app.store().load(session)?.map(|loaded| loaded.head.policy).unwrap_or_default();
    let bound = TicketBinding {
        session: session.to_owned(),
        digest: waiting.digest.to_owned(),
        policy,
        by: by.to_owned(),
    };
    Ok((bound, waiting.expires))
}

/// The approval event for a ticket. The ticket is used up in any case.
async fn redeem_ticket(
    app: &SharedState,
    principal: &Principal,
    session: &str,
    ticket: String,
    key: Option<&str>,
) -> Result<Value, ApiError> {
    let (by, session, key) = (principal.name.clone(), session.to_owned(), key.map(str::to_owned));
    app.run_blocking(move |app| {
        if let Some(key) = &key
            && let Some(known) = app.store().find_by_id(&session, key)?
        {
            // A retry: the event is the same, so it gets the stored decision.
            let record = app.store().records(&session, known.seq, known.seq)?.pop();
            let event = record.and_then(|record| serde_json::from_str::<Value>(&record.text).ok());
            let digest = event.as_ref().and_then(|event| event.get("digest")?.as_str());
            let Some(digest) = digest else {
                let message = "this Idempotency-Key was already used for another request";
                let help = "use a new key for each request";
                return Err(ApiError::new(StatusCode::CONFLICT, "event_conflict", message, help));
            };
            return Ok(json!({"type": "confirmation.answered", "value": "yes", "digest": digest}));
        }
        let taken = app.store().kv_take(TICKETS_NAMESPACE, &digest(&ticket))?;
        let bound = taken.and_then(|note| serde_json::from_str::<TicketBinding>(&note.value).ok());
        let (now, expires) = pending_plan_binding(app, &session, &by)?;
        let time = app.store().now()?;
        match bound {
            Some(bound) if bound == now => {
                Ok(json!({"type": "confirmation.answered", "value": "yes", "digest": bound.digest}))
            }
            // A ticket expires with its plan. The answer is recorded with the current time, which is past the expiry
            // on every clock, so that it approves nothing.
            _ if expires.is_some_and(|expires| expires <= time) => {
                Ok(json!({"type": "confirmation.answered", "value": "yes", "digest": now.digest, "at": time}))
            }
            _ => {
                let message = "the ticket is for another plan, was already used, or has expired";
                let help = "reload the plan to get a new ticket";
                Err(ApiError::new(StatusCode::CONFLICT, "ticket_invalid", message, help))
            }
        }
    })
    .await
}

/// Error for an action that needs a reason.
pub(crate) fn reason_missing() -> ApiError {
    let help = "give a reason; it is kept in the audit log";
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "reason_missing", "the reason (`why`) is empty", help)
}

/// The guard that holds a session. An operator stop is lifted only by a release that names it.
async fn holding_guard(app: &SharedState, session: &str) -> Result<String, ApiError> {
    let session = session.to_owned();
    app.run_blocking(move |app| {
        let (state, _) = app.session(&session)?;
        if let Some(hold) = state.guard_hold() {
            return Ok(hold.guard.to_owned());
        }
        if let Some(stop) = state.operator_stops().next() {
            let message = format!(
                "the session is {}; releasing a guard does not lift an operator's stop",
                single_line(&stop.message, 300)
            );
            let help = "to lift the stop, release the guard `human` with a reason";
            return Err(ApiError::new(StatusCode::CONFLICT, "stopped_by_person", message, help));
        }
        Err(nothing_to_release())
    })
    .await
}

/// Rejects lifting a stop where there is none. A retry gets its stored decision.
async fn require_stop(app: &SharedState, session: &str, key: Option<&str>) -> Result<(), ApiError> {
    let (session, key) = (session.to_owned(), key.map(str::to_owned));
    app.run_blocking(move |app| {
        if let Some(key) = &key
            && app.store().find_by_id(&session, key)?.is_some()
        {
            return Ok(());
        }
        let (state, _) = app.session(&session)?;
        if state.operator_stops().next().is_some() { Ok(()) } else { Err(nothing_to_release()) }
    })
    .await
}

fn nothing_to_release() -> ApiError {
    let what = "nothing holds this session back; there is nothing to release";
    ApiError::new(StatusCode::CONFLICT, "nothing_to_release", what, "look at the session again")
}

/// Rejects callers below the operator role. Defense in depth: the routes check this too.
fn require_person(principal: &Principal) -> Result<(), ApiError> {
    if principal.role >= AuthRole::Operator {
        return Ok(());
    }
    let message =
        format!("'{}' is {} and cannot act for a person", principal.name, principal.role.with_article());
    Err(ApiError::new(StatusCode::FORBIDDEN, "role_forbidden", message, "use an operator's key"))
}
