//! Events in, decisions out: one by one, or many at once with an answer for each.
//!
//! What only a person may say is not taken here, whatever the key: it has routes of its own, which ask for more.

use super::ask::{self, Ask, BATCH_BYTES, EVENT_BYTES, Media, Name, bad_request};
use super::schema::{Answers, Decided, EventBody};
use crate::acts;
use crate::audit;
use crate::office::Shared;
use crate::problem::Problem;
use crate::who::{Peer, Principal, Role, Scope};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flyball::policy::Effect;
use flyball::{Decision, Kind};
use flyball_journal::{Claims, Incoming, Parcel};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;
use std::fmt;
use utoipa::ToSchema;

/// How many events may come at once.
const AT_ONCE: usize = 1_000;

/// Decides upon an event, or upon many.
///
/// One object is answered with its decision. An array, or `application/x-ndjson` with one object a line, is answered
/// with as many answers in the same order: a decision, or `{"error": …}` for an event that was not taken. What is
/// answered with a decision is on the disk.
#[utoipa::path(
    post, path = "/v1/events", tag = "events",
    params(("Idempotency-Key" = Option<String>, Header, description = "The id of the event, if it has none",
        max_length = 512, min_length = 1, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content(
        (EventBody = "application/json"),
        (String = "application/x-ndjson"),
    ), description = "An event, an array of events, or one event a line: docs/events.md"),
    responses(
        (status = 200, description = "The decision; for many events, the answers in order", content(
            (Answers = "application/json"), (String = "application/x-ndjson"))),
    )
)]
pub(crate) async fn submit(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Problem> {
    take(&office, &principal, peer, None, request).await
}

/// Decides upon an event of a session, or upon many.
///
/// The session is the one in the path. An event that names another one is refused.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/events", tag = "events",
    params(
        ("session" = String, Path, description = "The name of the session", min_length = 1, max_length = 512),
        ("Idempotency-Key" = Option<String>, Header, description = "The id of the event, if it has none",
        max_length = 512, min_length = 1, pattern = "^[A-Za-z0-9_.:-]+$"),
    ),
    request_body(content(
        (EventBody = "application/json"),
        (String = "application/x-ndjson"),
    ), description = "An event, an array of events, or one event a line: docs/events.md"),
    responses(
        (status = 200, description = "The decision; for many events, the answers in order", content(
            (Answers = "application/json"), (String = "application/x-ndjson"))),
    )
)]
pub(crate) async fn submit_to(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    Name(session): Name,
    request: Request,
) -> Result<Response, Problem> {
    take(&office, &principal, peer, Some(&session), request).await
}

/// What a person said.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageBody {
    /// Their words.
    #[schema(min_length = 1, max_length = 100_000, pattern = r"\S")]
    text: String,
    /// Who they are, as the channel knows them; a channel's key must name them. A person's own key is their name.
    #[schema(min_length = 1, max_length = 512)]
    by: Option<String>,
    /// The plan that was shown to them: an answer to another one is refused.
    #[schema(max_length = 512)]
    digest: Option<String>,
}

/// Records what a person said in a session, and says what to do now.
///
/// It answers the plan or the question that waits, replaces the plan if it is a new request, and is passed on to the
/// agent otherwise. The effect `person.message` of the decision says which (`as`) and what to do now (`next`). A channel's
/// message may begin a session.
#[utoipa::path(post, path = "/v1/sessions/{session}/messages", tag = "people",
    params(("session" = String, Path, description = "The name of the session", min_length = 1, max_length = 512),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repetition harmless",
            min_length = 1, max_length = 512, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content = MessageBody, example = json!({"text": "yes", "by": "U1"})),
    responses((status = 200, description = "The decision", body = Decided)))]
pub(crate) async fn message(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    Name(session): Name,
    headers: HeaderMap,
    Ask(MessageBody { text, by, digest }): Ask<MessageBody>,
) -> Result<Response, Problem> {
    let key = ask::idempotency_key(&headers)?;
    if principal.role >= Role::Operator {
        // A person means a session that is there; only a chat begins one.
        let named = session.clone();
        let known = office.look(move |office| Ok::<_, Problem>(office.desk().load(&named)?));
        if known.await?.is_none_or(|loaded| loaded.head.seq == 0) {
            return Err(Problem::unknown_session(&session));
        }
    }
    let mut event = json!({"type": "person.message", "session": session, "text": text});
    for (field, value) in [("by", by), ("digest", digest)] {
        if let Some(value) = value {
            event[field] = json!(value);
        }
    }
    let sender = Sender { office: &office, principal: &principal, peer, session: Some(&session) };
    let decision = sender.send_one(&event.to_string(), key).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], decision.to_json()).into_response())
}

/// Who sends, and where to.
struct Sender<'a> {
    office: &'a Shared,
    principal: &'a Principal,
    peer: Peer,
    /// The session that the path names.
    session: Option<&'a str>,
}

/// Whether an event brings an output, which may be as large as a body.
fn is_output(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Type {
        r#type: Option<String>,
    }
    let peek: Option<Type> = serde_json::from_str(text).ok();
    peek.and_then(|peek| peek.r#type).as_deref() == Some("output.received")
}

/// What of an event decides how it is read.
#[derive(Deserialize)]
struct Peek {
    session: Option<String>,
    id: Option<IgnoredAny>,
}

impl Sender<'_> {
    /// Reads an event, and refuses it if it is not theirs to send.
    fn admit(&self, text: &str, key: Option<&str>) -> Result<Parcel, Problem> {
        if text.len() > EVENT_BYTES && !is_output(text) {
            let what = format!("the event has {} bytes, one may have {EVENT_BYTES}", text.len());
            let advice = "send a fingerprint or the first part of large outputs instead of the whole";
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "event_too_large", what, advice));
        }
        let mut fields = vec![("principal", self.principal.name.as_str())];
        if self.session.is_some() || key.is_some() {
            // What cannot even be peeked at is complained about below, in better words.
            let peek: Option<Peek> = serde_json::from_str(text).ok();
            let (session, id) = peek.map_or((None, false), |peek| (peek.session, peek.id.is_some()));
            if let Some(own) = self.session.filter(|_| session.is_none()) {
                fields.push(("session", own));
            }
            if let Some(key) = key.filter(|_| !id) {
                fields.push(("id", key));
            }
        }
        let claims = match self.principal.role {
            Role::Agent => Some(Claims::of_agent()),
            Role::Host | Role::Channel => Some(Claims::of_relay(&self.principal.name)),
            Role::Operator | Role::Admin => None,
        };
        let event = self.office.read_with(text, &fields, claims.as_ref())?;
        if let Some(own) = self.session.filter(|own| event.event.session != **own) {
            let what = format!("the event names another session than the path, which says '{own}'");
            return Err(bad_request(&what));
        }
        may_send(self.principal, &event)?;
        let usage = &self.office.usage;
        usage.add_session(self.principal, &event.event.session)?;
        // A destructive call without an approval is a plan that awaits an answer, too.
        let asks_a_person = match &event.event.kind {
            Kind::ConfirmationRequested { .. } => true,
            Kind::ToolRequested { tool, .. } => {
                self.office.recorder.policy().effect_of(tool) == Some(Effect::Destructive)
            }
            _ => false,
        };
        if asks_a_person {
            usage.add_plan(self.principal, &event.event.session)?;
        }
        Ok(Box::new(event))
    }

    /// Refuses an event for a session of another key. Most events are for a session that is known to be theirs.
    async fn owns(&self, incoming: &Incoming) -> Result<(), Problem> {
        if self.principal.scope != Scope::Own {
            return Ok(());
        }
        // A session draws on the budget of the one above it, so that must be theirs as well.
        let parent = match &incoming.event.kind {
            Kind::SessionStarted { parent, .. } => parent.as_deref(),
            _ => None,
        };
        for session in std::iter::once(incoming.event.session.as_str()).chain(parent) {
            if self.office.owners.cached(session, &self.principal.name) != Some(true) {
                Box::pin(self.office.may_write(self.principal, session)).await?;
            }
        }
        Ok(())
    }

    /// Decides upon one event.
    async fn send_one(&self, text: &str, key: Option<&str>) -> Result<Decision, Problem> {
        self.office.intake.has_room()?;
        if self.office.usage.add_bytes(self.principal, text.len())? {
            Box::pin(self.office.usage.recheck_plans(self.office, self.principal)).await;
        }
        self.decide(text, key).await
    }

    async fn decide(&self, text: &str, key: Option<&str>) -> Result<Decision, Problem> {
        let event = self.admit(text, key)?;
        self.owns(&event).await?;
        let decision = match event.event.kind {
            Kind::PersonMessage { .. } => Box::pin(acts::hear(self.office, self.principal, *event)).await?,
            _ => self.office.intake.submit_one(event).await?,
        };
        self.office.usage.decided(self.principal, &decision);
        Ok(decision)
    }

    /// Notes a refusal that is one answer among many, and so no answer of its own.
    async fn note(&self, problem: &Problem) {
        if matches!(problem.code.as_str(), "role_forbidden" | "not_your_session") {
            let asked = "POST an event among many";
            audit::refused(self.office, Some(self.principal), self.peer, asked, problem).await;
        }
    }
}

/// Refuses what is not theirs to say.
fn may_send(principal: &Principal, incoming: &Incoming) -> Result<(), Problem> {
    let event = &incoming.event;
    // Whose sessions they are when it is not said by their names, `owns` finds out.
    let may_touch = |session: &str| match principal.scope {
        Scope::Own => Ok(()),
        _ => principal.may_touch(session),
    };
    may_touch(&event.session)?;
    let route = match &event.kind {
        Kind::ConfirmationAnswered { .. } => "confirmation",
        Kind::HumanReleased { .. } => "releases",
        Kind::HumanStopped { .. } => "stop",
        Kind::PolicyChanged { .. } => {
            let what = "a changed policy is recorded by the server itself";
            let advice = "a person accepts a policy with `flyball policy accept SESSION --why TEXT`";
            return Err(Problem::new(StatusCode::FORBIDDEN, "role_forbidden", what, advice));
        }
        Kind::SessionStarted { policy, parent, reopen, .. } => {
            if let Some(parent) = parent {
                // A session draws on the budget of the one above it.
                may_touch(parent)?;
            }
            let brings = policy.as_ref().is_some_and(|policy| !policy.is_null());
            // Both loosen what holds: another policy, and counters that begin again.
            if (brings || *reopen) && principal.role < Role::Operator {
                let what = format!(
                    "'{}' is {}, and an agent does not loosen its own limits",
                    principal.name,
                    principal.role.with_article()
                );
                let advice = "leave `policy` and `reopen` out; the server's policy holds";
                return Err(Problem::new(StatusCode::FORBIDDEN, "role_forbidden", what, advice));
            }
            return Ok(());
        }
        Kind::PersonMessage { text, by, .. } => return may_relay(principal, text, by.as_deref()),
        _ => return Ok(()),
    };
    let advice = format!("a person does this at POST /v1/sessions/{{session}}/{route}");
    if principal.role < Role::Operator {
        let what = format!(
            "'{}' is {}, which never speaks in a person's place",
            principal.name,
            principal.role.with_article()
        );
        return Err(Problem::new(StatusCode::FORBIDDEN, "role_forbidden", what, advice));
    }
    let what = "what a person does is not sent as an event";
    Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "wrong_route", what, advice))
}

/// Refuses a person's words that do not come from a channel or a person, or say nothing, or do not say whose they are.
fn may_relay(principal: &Principal, text: &str, by: Option<&str>) -> Result<(), Problem> {
    if principal.role < Role::Channel {
        let what = format!(
            "'{}' is {}, and a person's words come from a channel or a person",
            principal.name,
            principal.role.with_article()
        );
        let advice = "send them with a key of the role channel";
        return Err(Problem::new(StatusCode::FORBIDDEN, "role_forbidden", what, advice));
    }
    if flyball::is_blank(text) {
        return Err(acts::empty_message());
    }
    let person = by.and_then(|by| by.strip_prefix(&principal.name)).and_then(|by| by.strip_prefix(':'));
    if principal.role == Role::Channel && person.is_none_or(flyball::is_blank) {
        let what = "the field `by` is missing: a channel says which person wrote the message";
        let advice = "send the person's name or id in the chat as `by`";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "missing_field", what, advice));
    }
    Ok(())
}

/// Takes what a request brings. What it holds until the answer is there is little: the request itself is not.
pub(crate) fn take<'a>(
    office: &'a Shared,
    principal: &'a Principal,
    peer: Peer,
    session: Option<&'a str>,
    request: Request,
) -> impl Future<Output = Result<Response, Problem>> + Send + 'a {
    let key = ask::idempotency_key(request.headers()).map(|key| key.map(str::to_owned));
    let body = ask::body(request, BATCH_BYTES);
    async move {
        let (key, (media, text)) = (key?, body.await?);
        answer(Sender { office, principal, peer, session }, key, media, text).await
    }
}

async fn answer(
    sender: Sender<'_>,
    key: Option<String>,
    media: Media,
    text: String,
) -> Result<Response, Problem> {
    sender.office.intake.has_room()?;
    let full = sender.office.usage.add_bytes(sender.principal, text.len())?;
    if full {
        Box::pin(sender.office.usage.recheck_plans(sender.office, sender.principal)).await;
    }
    let many = match media {
        Media::Lines => lines(&text)?,
        Media::Json if text.trim_start().starts_with('[') => array(&text)?,
        Media::Json => {
            let decision = sender.decide(&text, key.as_deref()).await?;
            return Ok(([(header::CONTENT_TYPE, "application/json")], decision.to_json()).into_response());
        }
    };
    if key.is_some() {
        return Err(bad_request("Idempotency-Key is for one event; many have an `id` each"));
    }
    let answers = Box::pin(answers(&sender, many)).await?;
    let (kind, body) = match media {
        Media::Json => ("application/json", format!("[{}]", answers.join(","))),
        Media::Lines => ("application/x-ndjson", answers.into_iter().map(|answer| answer + "\n").collect()),
    };
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// An answer for each, in order. Those that are no events do not keep the others back.
async fn answers(sender: &Sender<'_>, many: Vec<&str>) -> Result<Vec<String>, Problem> {
    let mut read = Vec::with_capacity(many.len());
    let mut good = Vec::with_capacity(many.len());
    for text in many {
        let admitted = match sender.admit(text, None) {
            Ok(event) if matches!(event.event.kind, Kind::PersonMessage { .. }) => {
                Err(bad_request("`person.message` is sent by itself, not among other events"))
            }
            Ok(event) => sender.owns(&event).await.map(|()| event),
            Err(problem) => Err(problem),
        };
        match admitted {
            Ok(event) => {
                good.push(event);
                read.push(None);
            }
            Err(problem) => {
                sender.note(&problem).await;
                read.push(Some(problem));
            }
        }
    }
    let decided = if good.is_empty() { Vec::new() } else { sender.office.intake.submit(good).await? };
    let mut decided = decided.into_iter();
    let answer = |problem: Option<Problem>| match problem {
        Some(problem) => told(&problem),
        None => match decided.next() {
            Some(Ok(decision)) => {
                sender.office.usage.decided(sender.principal, &decision);
                decision.to_json()
            }
            Some(Err(refusal)) => told(&refusal.into()),
            None => told(&Problem::busy()),
        },
    };
    Ok(read.into_iter().map(answer).collect())
}

fn told(problem: &Problem) -> String {
    serde_json::to_string(&problem.body()).unwrap_or_default()
}

/// Too many events at once.
fn too_many() -> Problem {
    bad_request(&format!("more than {AT_ONCE} events came at once"))
}

fn lines(text: &str) -> Result<Vec<&str>, Problem> {
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(AT_ONCE + 1).collect();
    if all.len() > AT_ONCE { Err(too_many()) } else { Ok(all) }
}

/// The elements of an array as they stand there, so that each is read and refused on its own.
fn array(text: &str) -> Result<Vec<&str>, Problem> {
    struct Elements;
    impl<'a> Visitor<'a> for Elements {
        type Value = Option<Vec<&'a str>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of events")
        }

        fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(element) = seq.next_element::<&RawValue>()? {
                if all.len() == AT_ONCE {
                    while seq.next_element::<IgnoredAny>()?.is_some() {}
                    return Ok(None);
                }
                all.push(element.get());
            }
            Ok(Some(all))
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = reader.deserialize_seq(Elements).and_then(|all| reader.end().map(|()| all));
    let read = read.map_err(|error| bad_request(&format!("the body is no array of events: {error}")))?;
    read.ok_or_else(too_many)
}
