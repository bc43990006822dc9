//! What waits for a person, and a person's word: answers, releases, stops.

use super::ask::{Ask, Name, Query, bad_request, idempotency_key};
use super::schema::Decided;
use super::sessions::{SessionLine, place};
use crate::acts::{self, Act};
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::Principal;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use flyball::Decision;
use flyball_journal::{Head, Which};
use flyball_view::{ActivityReader, Plan, evidence, heads, story};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// How many sessions that wait are shown at once: the oldest.
const SHOWN: usize = 100;
/// How many that wait are looked through for them.
const LOOKED_THROUGH: usize = 100_000;

/// What waits for a person.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Inbox {
    /// The sessions, the one that waits longest first; at most 100.
    waiting: Vec<Waiting>,
    /// How many wait in all.
    count: u64,
    /// What to send as `after` for the next page; nothing if this is the last one.
    next: Option<String>,
}

/// Which part of the inbox is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct InboxQuery {
    /// How many at once: 100 if nothing is said, and at most.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u64>,
    /// Where the page before ended: its `next`.
    #[param(pattern = r"^\d{1,19}:.{1,512}$")]
    after: Option<String>,
}

/// A session that waits for a person.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Waiting {
    /// The session.
    #[serde(flatten)]
    session: SessionLine,
    /// The plan that waits for a yes, with its question.
    #[schema(value_type = Option<Object>)]
    plan: Option<Value>,
    /// What a yes to this very plan must bring along; void after a while, and good for one yes. Nothing if it is not
    /// theirs to answer.
    ticket: Option<String>,
    /// The decision that it stands still for.
    #[schema(value_type = Option<Object>)]
    decision: Option<Decision>,
    /// The events that the decision rests on.
    #[schema(value_type = Vec<Object>)]
    evidence: Vec<evidence::Line>,
}

/// What waits for a person, the one that waits longest first.
#[utoipa::path(get, path = "/v1/inbox", tag = "people", params(InboxQuery),
    responses((status = 200, description = "What waits", body = Inbox)))]
pub(crate) async fn inbox(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Query(InboxQuery { limit, after }): Query<InboxQuery>,
) -> Result<Json<Inbox>, Problem> {
    let who = principal.clone();
    let limit = limit.map_or(Some(SHOWN), |limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| (1..=SHOWN).contains(limit));
    let limit = limit.ok_or_else(|| bad_request("`limit` is a number from 1 to 100"))?;
    let after = after.as_deref().map(place).transpose()?;
    let Inbox { mut waiting, count, next } =
        office.look(move |office| all(office, &who, after.as_ref(), limit)).await?;
    for one in &mut waiting {
        if one.plan.is_some() {
            // It may have been answered in between, or be theirs: then there is no ticket.
            one.ticket = acts::ticket(&office, &principal, one.session.name()).await.ok();
        }
    }
    Ok(Json(Inbox { waiting, count, next }))
}

fn all(
    office: &Office,
    principal: &Principal,
    after: Option<&(u64, String)>,
    limit: usize,
) -> Result<Inbox, Problem> {
    let reader = office.activity_reader()?;
    let mut found = heads::heads(office.desk(), &[Which::Blocked, Which::Waiting], LOOKED_THROUGH)?;
    for (_, session) in office.figures.asking(office.desk())? {
        found.extend(office.desk().load(&session)?.map(|loaded| loaded.head));
    }
    found.retain(|head| principal.may_touch(&head.session).is_ok());
    let count = found.len() as u64;
    found.sort_by(|a, b| a.updated.cmp(&b.updated).then_with(|| a.session.cmp(&b.session)));
    // The cursor is a position and not a number: what is answered in between moves nothing.
    found.retain(|head| after.is_none_or(|(at, name)| (head.updated, &head.session) > (*at, name)));
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| format!("{}:{}", last.updated, last.session));
    let waiting = found.into_iter().map(|head| waits(office, &reader, head)).collect::<Result<_, _>>()?;
    Ok(Inbox { waiting, count, next })
}

fn waits(office: &Office, reader: &ActivityReader<'_>, head: Head) -> Result<Waiting, Problem> {
    let desk = office.desk();
    let activity = reader.activity(&head)?;
    let (state, _) = office.session(&head.session)?;
    let plan = Plan::of(desk, &head.session, &state)?.map(|plan| plan.as_json());
    let decision = story::lately(desk, &head.session, head.seq)?.pop();
    let wanted = decision.iter().flat_map(|decision| &decision.trips);
    let wanted = wanted.flat_map(|trip| trip.evidence.events.iter().copied()).collect();
    let evidence = evidence::fetch(desk, &head.session, &wanted)?;
    Ok(Waiting { session: SessionLine::new(head, activity), plan, ticket: None, decision, evidence })
}

/// An answer to the plan that waits.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerBody {
    /// Yes or no, as a word or as a truth value.
    answer: PlanAnswer,
    /// What came with the plan; a yes needs it.
    #[schema(max_length = 128)]
    ticket: Option<String>,
    /// Why.
    #[schema(max_length = 2000)]
    why: Option<String>,
}

/// Yes or no, as a word or as a truth value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum PlanAnswer {
    /// As a word.
    Word(YesOrNo),
    /// As a truth value.
    Truth(bool),
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum YesOrNo {
    /// Exactly this plan may run, once.
    Yes,
    /// Nothing of it may run.
    No,
}

/// Answers the plan that waits in a session.
///
/// A yes needs the ticket that came with the plan in the inbox. Whoever asked for a plan cannot say yes to it.
#[utoipa::path(post, path = "/v1/sessions/{session}/confirmation", tag = "people",
    params(("session" = String, Path, description = "The name of the session", min_length = 1, max_length = 512),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repetition harmless",
            min_length = 1, max_length = 512, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content = AnswerBody, example = json!({"answer": "no", "why": "not on a Friday"})),
    responses((status = 200, description = "The decision", body = Decided)))]
pub(crate) async fn confirmation(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Name(session): Name,
    headers: HeaderMap,
    Ask(AnswerBody { answer, ticket, why }): Ask<AnswerBody>,
) -> Result<Response, Problem> {
    let why = words(why)?;
    if ticket.as_ref().is_some_and(|ticket| ticket.chars().count() > 128) {
        return Err(bad_request("`ticket` is longer than a ticket is"));
    }
    let is_yes = matches!(answer, PlanAnswer::Word(YesOrNo::Yes) | PlanAnswer::Truth(true));
    let act = match (is_yes, ticket) {
        (true, Some(ticket)) => Act::Approve { ticket },
        (true, None) => {
            return Err(bad_request("a yes needs the `ticket` that came with the plan in GET /v1/inbox"));
        }
        (false, _) => Act::Deny,
    };
    done(&office, &principal, &session, act, why.as_deref(), &headers).await
}

/// A release.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseBody {
    /// Which guard; without it, the one that holds the session. `human` lifts the stops by people, and nothing else
    /// does.
    #[schema(min_length = 1, max_length = 512)]
    guard: Option<String>,
    /// `grant` if nothing is said.
    mode: Option<Mode>,
    /// How many more; without it, as the policy says.
    #[schema(minimum = 1, maximum = 1000)]
    n: Option<u64>,
    /// Why.
    #[schema(min_length = 1, max_length = 2000, pattern = r"\S")]
    why: String,
}

/// What a release does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Some more, then it trips again.
    Grant,
    /// It counts from the beginning.
    Reset,
    /// Nothing that it has counted is forgotten.
    Keep,
}

/// Lets a session go on, within bounds.
#[utoipa::path(post, path = "/v1/sessions/{session}/releases", tag = "people",
    params(("session" = String, Path, description = "The name of the session", min_length = 1, max_length = 512),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repetition harmless",
            min_length = 1, max_length = 512, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content = ReleaseBody, example = json!({"guard": "repetition", "n": 3, "why": "it polls a slow job"})),
    responses((status = 200, description = "The decision", body = Decided)))]
pub(crate) async fn releases(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Name(session): Name,
    headers: HeaderMap,
    Ask(ReleaseBody { guard, mode, n, why }): Ask<ReleaseBody>,
) -> Result<Response, Problem> {
    let why = needed(why)?;
    if n.is_some_and(|n| !(1..=1000).contains(&n)) {
        return Err(bad_request("`n` is a number from 1 to 1000"));
    }
    if guard.as_ref().is_some_and(String::is_empty) {
        return Err(bad_request("`guard` is empty; leave it out for the one that holds the session"));
    }
    let mode = match mode {
        None | Some(Mode::Grant) => "grant",
        Some(Mode::Reset) => "reset",
        Some(Mode::Keep) => "keep",
    };
    let act = match guard.as_deref() {
        Some("human") => Act::LiftStop,
        _ => Act::Release { guard, mode: mode.to_owned(), n },
    };
    done(&office, &principal, &session, act, Some(&why), &headers).await
}

/// A stop.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopBody {
    /// Why.
    #[schema(min_length = 1, max_length = 2000, pattern = r"\S")]
    why: String,
}

/// Stops a session until a person lifts the stop (a release of the guard `human`).
#[utoipa::path(post, path = "/v1/sessions/{session}/stop", tag = "people",
    params(("session" = String, Path, description = "The name of the session", min_length = 1, max_length = 512),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repetition harmless",
            min_length = 1, max_length = 512, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content = StopBody, example = json!({"why": "wrong branch"})),
    responses((status = 200, description = "The decision, which is halt", body = Decided)))]
pub(crate) async fn stop(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Name(session): Name,
    headers: HeaderMap,
    Ask(StopBody { why }): Ask<StopBody>,
) -> Result<Response, Problem> {
    let why = needed(why)?;
    done(&office, &principal, &session, Act::Stop, Some(&why), &headers).await
}

async fn done(
    office: &Shared,
    principal: &Principal,
    session: &str,
    act: Act,
    why: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let key = idempotency_key(headers)?;
    let decision = acts::act(office, principal, session, act, why, key).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], decision.to_json()).into_response())
}

fn words(why: Option<String>) -> Result<Option<String>, Problem> {
    match why {
        Some(why) if why.chars().count() > 2_000 => Err(bad_request("`why` has more than 2000 characters")),
        other => Ok(other),
    }
}

fn needed(why: String) -> Result<String, Problem> {
    if flyball::is_blank(&why) {
        return Err(acts::reason_missing());
    }
    Ok(words(Some(why))?.unwrap_or_default())
}
