//! Event submission: one event or a batch, with a decision for each.
//!
//! Operator actions are rejected here for every role; they have separate routes with stricter checks.

use super::extract::{self, BodyFormat, JsonBody, MAX_BATCH_BYTES, MAX_EVENT_BYTES, PathName, bad_request};
use super::schema::{AnswersSchema, DecisionSchema, EventsSchema};
use crate::api_error::ApiError;
use crate::app_state::SharedState;
use crate::audit_log;
use crate::auth::{AuthRole, ClientPeer, Principal, SessionScope};
use crate::operator_actions;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flyball::policy::ToolEffect;
use flyball::{Decision, EventKind};
use flyball_store::{BoxedSubmission, ClaimPolicy, Submission};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;
use std::fmt;
use utoipa::ToSchema;

/// Maximum number of events in a batch.
const MAX_EVENTS: usize = 1_000;

/// Submits one event or a batch.
///
/// The response to one object is its decision. The response to an array, or to `application/x-ndjson` with one object
/// per line, has one entry per event in the same order: a decision, or `{"error": …}` for a rejected event. Every
/// decision is durable before it is returned.
#[utoipa::path(
    post, path = "/v1/events", tag = "events",
    params(("Idempotency-Key" = Option<String>, Header, description = "Used as the event's id if it has none",
        max_length = 512, min_length = 1, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content(
        (EventsSchema = "application/json"),
        (String = "application/x-ndjson"),
    ), description = "An event, an array of events, or one event per line: docs/events.md"),
    responses(
        (status = 200, description = "The decision; for a batch, the results in order", content(
            (AnswersSchema = "application/json"), (String = "application/x-ndjson"))),
    )
)]
pub(crate) async fn submit(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<ClientPeer>,
    request: Request,
) -> Result<Response, ApiError> {
    handle_events(&app, &principal, peer, None, request).await
}

/// Submits one event or a batch to a session.
///
/// The path names the session. An event that names another session is rejected.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/events", tag = "events",
    params(
        ("session" = String, Path, description = "Session name", min_length = 1, max_length = 512),
        ("Idempotency-Key" = Option<String>, Header, description = "Used as the event's id if it has none",
        max_length = 512, min_length = 1, pattern = "^[A-Za-z0-9_.:-]+$"),
    ),
    request_body(content(
        (EventsSchema = "application/json"),
        (String = "application/x-ndjson"),
    ), description = "An event, an array of events, or one event per line: docs/events.md"),
    responses(
        (status = 200, description = "The decision; for a batch, the results in order", content(
            (AnswersSchema = "application/json"), (String = "application/x-ndjson"))),
    )
)]
pub(crate) async fn submit_to(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<ClientPeer>,
    PathName(session): PathName,
    request: Request,
) -> Result<Response, ApiError> {
    handle_events(&app, &principal, peer, Some(&session), request).await
}

/// A person's message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PersonMessageBody {
    /// The text.
    #[schema(min_length = 1, max_length = 100_000, pattern = r"\S")]
    text: String,
    /// The person's name or id in the channel; required with a channel key. An operator key identifies its owner.
    #[schema(min_length = 1, max_length = 512)]
    by: Option<String>,
    /// Digest of the plan that was shown; an answer to another plan is rejected.
    #[schema(max_length = 512)]
    digest: Option<String>,
}

/// Records a person's message in a session and returns what to do with it.
///
/// The message answers the pending plan or question, replaces the plan if it is a new request, and is otherwise
/// passed to the agent. The `person.message` effect of the decision says which (`as`) and what to do now (`next`). A
/// channel's message may start a session.
#[utoipa::path(post, path = "/v1/sessions/{session}/messages", tag = "people",
    params(("session" = String, Path, description = "Session name", min_length = 1, max_length = 512),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes retries safe",
            min_length = 1, max_length = 512, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content = PersonMessageBody, example = json!({"text": "yes", "by": "U1"})),
    responses((status = 200, description = "The decision", body = DecisionSchema)))]
pub(crate) async fn post_person_message(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<ClientPeer>,
    PathName(session): PathName,
    headers: HeaderMap,
    JsonBody(PersonMessageBody { text, by, digest }): JsonBody<PersonMessageBody>,
) -> Result<Response, ApiError> {
    let key = extract::idempotency_key(&headers)?;
    if principal.role >= AuthRole::Operator {
        // An operator must name an existing session; only a channel can start one.
        let named = session.clone();
        let known = app.run_blocking(move |app| Ok::<_, ApiError>(app.store().load(&named)?));
        if known.await?.is_none_or(|loaded| loaded.head.seq == 0) {
            return Err(ApiError::unknown_session(&session));
        }
    }
    let mut event = json!({"type": "person.message", "session": session, "text": text});
    for (field, value) in [("by", by), ("digest", digest)] {
        if let Some(value) = value {
            event[field] = json!(value);
        }
    }
    let sender = EventSender { app: &app, principal: &principal, peer, session: Some(&session) };
    let decision = sender.send_one(&event.to_string(), key).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], decision.to_json()).into_response())
}

/// The sender of a request and its target.
struct EventSender<'a> {
    app: &'a SharedState,
    principal: &'a Principal,
    peer: ClientPeer,
    /// The session named in the path.
    session: Option<&'a str>,
}

/// Whether an event carries an output, which may be as large as the body limit.
fn is_output_event(text: &str) -> bool {
    #[derive(Deserialize)]
    struct EventTypeField {
        r#type: Option<String>,
    }
    let peek: Option<EventTypeField> = serde_json::from_str(text).ok();
    peek.and_then(|peek| peek.r#type).as_deref() == Some("output.received")
}

/// The fields needed before an event is fully parsed.
#[derive(Deserialize)]
struct EventPeek {
    session: Option<String>,
    id: Option<IgnoredAny>,
}

impl EventSender<'_> {
    /// Parses an event and rejects it if the sender may not send it.
    fn admit(&self, text: &str, key: Option<&str>) -> Result<BoxedSubmission, ApiError> {
        if text.len() > MAX_EVENT_BYTES && !is_output_event(text) {
            let message = format!("the event has {} bytes; the maximum is {MAX_EVENT_BYTES}", text.len());
            let help = "for large outputs, send a fingerprint or the first part only";
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "event_too_large", message, help));
        }
        let mut fields = vec![("principal", self.principal.name.as_str())];
        if self.session.is_some() || key.is_some() {
            // If this parse fails, the full parse below reports the error in detail.
            let peek: Option<EventPeek> = serde_json::from_str(text).ok();
            let (session, id) = peek.map_or((None, false), |peek| (peek.session, peek.id.is_some()));
            if let Some(own) = self.session.filter(|_| session.is_none()) {
                fields.push(("session", own));
            }
            if let Some(key) = key.filter(|_| !id) {
                fields.push(("id", key));
            }
        }
        let claims = match self.principal.role {
            AuthRole::Agent => Some(ClaimPolicy::for_agent()),
            AuthRole::Host | AuthRole::Channel => Some(ClaimPolicy::for_relay(&self.principal.name)),
            AuthRole::Operator | AuthRole::Admin => None,
        };
        let event = self.app.parse_event_with(text, &fields, claims.as_ref())?;
        if let Some(own) = self.session.filter(|own| event.event.session != **own) {
            let message = format!("the event names a session other than '{own}' in the path");
            return Err(bad_request(&message));
        }
        check_permitted(self.principal, &event)?;
        let usage = &self.app.key_limiter;
        usage.add_session(self.principal, &event.event.session)?;
        // A destructive call without an approval also creates a pending plan.
        let asks_a_person = match &event.event.kind {
            EventKind::ConfirmationRequested { .. } => true,
            EventKind::ToolRequested { tool, .. } => {
                self.app.recorder.policy().tool_effect(tool) == Some(ToolEffect::Destructive)
            }
            _ => false,
        };
        if asks_a_person {
            usage.add_plan(self.principal, &event.event.session)?;
        }
        Ok(Box::new(event))
    }

    /// Rejects an event for another key's session. Most events hit the owner cache.
    async fn check_owner(&self, incoming: &Submission) -> Result<(), ApiError> {
        if self.principal.scope != SessionScope::Own {
            return Ok(());
        }
        // A child session draws on its parent's budget, so the sender must own the parent as well.
        let parent = match &incoming.event.kind {
            EventKind::SessionStarted { parent, .. } => parent.as_deref(),
            _ => None,
        };
        for session in std::iter::once(incoming.event.session.as_str()).chain(parent) {
            if self.app.owners.cached(session, &self.principal.name) != Some(true) {
                Box::pin(self.app.require_writable(self.principal, session)).await?;
            }
        }
        Ok(())
    }

    /// Submits one event.
    async fn send_one(&self, text: &str, key: Option<&str>) -> Result<Decision, ApiError> {
        self.app.ingest.check_capacity()?;
        if self.app.key_limiter.add_bytes(self.principal, text.len())? {
            Box::pin(self.app.key_limiter.recheck_plans(self.app, self.principal)).await;
        }
        self.decide_event(text, key).await
    }

    async fn decide_event(&self, text: &str, key: Option<&str>) -> Result<Decision, ApiError> {
        let event = self.admit(text, key)?;
        self.check_owner(&event).await?;
        let decision = match event.event.kind {
            EventKind::PersonMessage { .. } => {
                Box::pin(operator_actions::run_person_message(self.app, self.principal, *event)).await?
            }
            _ => self.app.ingest.submit_one(event).await?,
        };
        self.app.key_limiter.record_decision(self.principal, &decision);
        Ok(decision)
    }

    /// Audits a refusal inside a batch, where the HTTP status does not show it.
    async fn audit_refusal(&self, problem: &ApiError) {
        if matches!(problem.code.as_str(), "role_forbidden" | "not_your_session") {
            let asked = "POST an event in a batch";
            audit_log::record_refusal(self.app, Some(self.principal), self.peer, asked, problem).await;
        }
    }
}

/// Rejects events that the sender's role does not permit.
fn check_permitted(principal: &Principal, incoming: &Submission) -> Result<(), ApiError> {
    let event = &incoming.event;
    // For `SessionScope::Own`, `check_owner` checks the owner instead of the name.
    let may_touch = |session: &str| match principal.scope {
        SessionScope::Own => Ok(()),
        _ => principal.check_session(session),
    };
    may_touch(&event.session)?;
    let route = match &event.kind {
        EventKind::ConfirmationAnswered { .. } => "confirmation",
        EventKind::HumanReleased { .. } => "releases",
        EventKind::HumanStopped { .. } => "stop",
        EventKind::PolicyChanged { .. } => {
            let message = "clients cannot send `policy.changed`; the server records it";
            let help = "accept a policy with `flyball policy accept SESSION --why TEXT`";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "role_forbidden", message, help));
        }
        EventKind::SessionStarted { policy, parent, reopen, .. } => {
            if let Some(parent) = parent {
                // A child session draws on its parent's budget.
                may_touch(parent)?;
            }
            let brings = policy.as_ref().is_some_and(|policy| !policy.is_null());
            // Both loosen limits: a different policy, and counters that restart at zero.
            if (brings || *reopen) && principal.role < AuthRole::Operator {
                let message = format!(
                    "'{}' is {}; only operators may loosen a session's limits",
                    principal.name,
                    principal.role.with_article()
                );
                let help = "remove `policy` and `reopen`; the server's policy applies";
                return Err(ApiError::new(StatusCode::FORBIDDEN, "role_forbidden", message, help));
            }
            return Ok(());
        }
        EventKind::PersonMessage { text, by, .. } => return check_may_relay(principal, text, by.as_deref()),
        _ => return Ok(()),
    };
    let help = format!("operators use POST /v1/sessions/{{session}}/{route}");
    if principal.role < AuthRole::Operator {
        let message =
            format!("'{}' is {} and cannot act for a person", principal.name, principal.role.with_article());
        return Err(ApiError::new(StatusCode::FORBIDDEN, "role_forbidden", message, help));
    }
    let message = "operator actions cannot be sent as events";
    Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "wrong_route", message, help))
}

/// Rejects a person's message that is empty, names no person, or does not come from a channel or an operator.
fn check_may_relay(principal: &Principal, text: &str, by: Option<&str>) -> Result<(), ApiError> {
    if principal.role < AuthRole::Channel {
        let message = format!(
            "'{}' is {}; only channels and operators may send a person's messages",
            principal.name,
            principal.role.with_article()
        );
        let help = "use a key with the channel role";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "role_forbidden", message, help));
    }
    if flyball::is_blank(text) {
        return Err(operator_actions::empty_message_error());
    }
    let person = by.and_then(|by| by.strip_prefix(&principal.name)).and_then(|by| by.strip_prefix(':'));
    if principal.role == AuthRole::Channel && person.is_none_or(flyball::is_blank) {
        let message = "the field `by` is missing: a channel must name the person who wrote the message";
        let help = "send the person's name or id in the chat as `by`";
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "missing_field", message, help));
    }
    Ok(())
}

/// Handles a request body. Takes the request apart before the first await, so that the pending future stays small.
pub(crate) fn handle_events<'a>(
    app: &'a SharedState,
    principal: &'a Principal,
    peer: ClientPeer,
    session: Option<&'a str>,
    request: Request,
) -> impl Future<Output = Result<Response, ApiError>> + Send + 'a {
    let key = extract::idempotency_key(request.headers()).map(|key| key.map(str::to_owned));
    let body = extract::read_body(request, MAX_BATCH_BYTES);
    async move {
        let (key, (media, text)) = (key?, body.await?);
        respond(EventSender { app, principal, peer, session }, key, media, text).await
    }
}

async fn respond(
    sender: EventSender<'_>,
    key: Option<String>,
    media: BodyFormat,
    text: String,
) -> Result<Response, ApiError> {
    sender.app.ingest.check_capacity()?;
    let full = sender.app.key_limiter.add_bytes(sender.principal, text.len())?;
    if full {
        Box::pin(sender.app.key_limiter.recheck_plans(sender.app, sender.principal)).await;
    }
    let many = match media {
        BodyFormat::NdJson => split_lines(&text)?,
        BodyFormat::Json if text.trim_start().starts_with('[') => split_array(&text)?,
        BodyFormat::Json => {
            let decision = sender.decide_event(&text, key.as_deref()).await?;
            return Ok(([(header::CONTENT_TYPE, "application/json")], decision.to_json()).into_response());
        }
    };
    if key.is_some() {
        return Err(bad_request(
            "Idempotency-Key applies to a single event; in a batch, give each event an `id`",
        ));
    }
    let answers = Box::pin(respond_many(&sender, many)).await?;
    let (kind, body) = match media {
        BodyFormat::Json => ("application/json", format!("[{}]", answers.join(","))),
        BodyFormat::NdJson => {
            ("application/x-ndjson", answers.into_iter().map(|answer| answer + "\n").collect())
        }
    };
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// One response per event, in order. Invalid events do not affect the others.
async fn respond_many(sender: &EventSender<'_>, many: Vec<&str>) -> Result<Vec<String>, ApiError> {
    let mut read = Vec::with_capacity(many.len());
    let mut good = Vec::with_capacity(many.len());
    for text in many {
        let admitted = match sender.admit(text, None) {
            Ok(event) if matches!(event.event.kind, EventKind::PersonMessage { .. }) => {
                Err(bad_request("`person.message` cannot be part of a batch; send it alone"))
            }
            Ok(event) => sender.check_owner(&event).await.map(|()| event),
            Err(problem) => Err(problem),
        };
        match admitted {
            Ok(event) => {
                good.push(event);
                read.push(None);
            }
            Err(problem) => {
                sender.audit_refusal(&problem).await;
                read.push(Some(problem));
            }
        }
    }
    let decided = if good.is_empty() { Vec::new() } else { sender.app.ingest.submit(good).await? };
    let mut decided = decided.into_iter();
    let answer = |problem: Option<ApiError>| match problem {
        Some(problem) => error_json(&problem),
        None => match decided.next() {
            Some(Ok(decision)) => {
                sender.app.key_limiter.record_decision(sender.principal, &decision);
                decision.to_json()
            }
            Some(Err(refusal)) => error_json(&refusal.into()),
            None => error_json(&ApiError::busy()),
        },
    };
    Ok(read.into_iter().map(answer).collect())
}

fn error_json(problem: &ApiError) -> String {
    serde_json::to_string(&problem.body()).unwrap_or_default()
}

/// Error for a batch that is too large.
fn too_many() -> ApiError {
    bad_request(&format!("a batch can have at most {MAX_EVENTS} events"))
}

fn split_lines(text: &str) -> Result<Vec<&str>, ApiError> {
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(MAX_EVENTS + 1).collect();
    if all.len() > MAX_EVENTS { Err(too_many()) } else { Ok(all) }
}

/// Splits an array into its raw elements, so that each is parsed and rejected separately.
fn split_array(text: &str) -> Result<Vec<&str>, ApiError> {
    struct ElementsVisitor;
    impl<'a> Visitor<'a> for ElementsVisitor {
        type Value = Option<Vec<&'a str>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of events")
        }

        fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(element) = seq.next_element::<&RawValue>()? {
                if all.len() == MAX_EVENTS {
                    while seq.next_element::<IgnoredAny>()?.is_some() {}
                    return Ok(None);
                }
                all.push(element.get());
            }
            Ok(Some(all))
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = reader.deserialize_seq(ElementsVisitor).and_then(|all| reader.end().map(|()| all));
    let read = read.map_err(|error| bad_request(&format!("the body is not an array of events: {error}")))?;
    read.ok_or_else(too_many)
}
