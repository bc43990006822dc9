//! What a person does: answers a plan, releases, stops, says something. One path for the interface and for the page.
//!
//! Whoever asked for a plan cannot say yes to it. A yes needs a ticket: it is given out with the question, is bound to
//! the session, the plan and the policy as they were shown, holds for a while and is taken once; and the yes itself
//! names the plan, so that one that was exchanged in between is not approved.

use crate::audit::{self, Entry};
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::{Principal, Role, check_proof, digest, random};
use axum::http::StatusCode;
use flyball::confirm::{Answer, understand};
use flyball::{Decision, Kind};
use flyball_journal::{If, Incoming, Note};
use flyball_view::words::line;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Where tickets are kept.
const TICKETS: &str = "tickets";
/// How long a ticket holds, in milliseconds; never longer than the plan.
const TICKET_MS: u64 = 15 * 60 * 1000;
/// What a message is bound to that came when no plan waited: no plan has this digest.
const NO_PLAN: &str = "none";

/// What a person does in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// Says yes to the plan that waits.
    Approve {
        /// What was given out with the question.
        ticket: String,
    },
    /// Says no to the plan that waits.
    Deny,
    /// Lets it go on, within bounds.
    Release {
        /// Which guard; without it, the one that holds it.
        guard: Option<String>,
        /// `grant`, `reset` or `keep`.
        mode: String,
        /// How many more.
        n: Option<u64>,
    },
    /// Takes off the label that called a person: releases the block that it stands for.
    Unlabel {
        /// The guard of that block.
        guard: String,
    },
    /// Lifts the stops by people. Nothing else lifts them.
    LiftStop,
    /// Stops it until a person lifts the stop.
    Stop,
    /// Says something: a message of a person, which is never an approval.
    Say {
        /// The words.
        text: String,
    },
}

impl Act {
    /// Whether it lets an agent continue. A refusal never needs more than a login.
    pub(crate) fn needs_proof(&self) -> bool {
        !matches!(self, Act::Deny | Act::Stop)
    }

    /// The word for the audit log.
    fn name(&self) -> &'static str {
        match self {
            Act::Approve { .. } => "approve",
            Act::Deny => "deny",
            Act::Release { .. } => "release",
            Act::Unlabel { .. } => "unlabel",
            Act::LiftStop => "lift_stop",
            Act::Stop => "stop",
            Act::Say { .. } => "say",
        }
    }
}

/// What a ticket is bound to.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Bound {
    session: String,
    digest: String,
    policy: String,
    /// For whom it was made out.
    by: String,
}

/// Does it. `key` makes a repetition harmless.
///
/// # Errors
/// If they may not, or it cannot be done; nothing was changed then.
pub(crate) async fn act(
    office: &Shared,
    principal: &Principal,
    session: &str,
    act: Act,
    why: Option<&str>,
    key: Option<&str>,
) -> Result<Decision, Problem> {
    person(principal)?;
    principal.may_touch(session)?;
    if act.needs_proof() {
        check_proof(principal)?;
    }
    let entry = Entry::by(principal).doing(act.name()).inside(session, why);
    let open = audit::begin(office, entry).await?;
    let came = match (&act, why.is_none_or(flyball::is_blank)) {
        (Act::Release { .. } | Act::Unlabel { .. } | Act::LiftStop | Act::Stop, true) => {
            Err(reason_missing())
        }
        _ => perform(office, principal, session, act, why, key).await,
    };
    audit::end(office, open, &came).await;
    came
}

async fn perform(
    office: &Shared,
    principal: &Principal,
    session: &str,
    act: Act,
    why: Option<&str>,
    key: Option<&str>,
) -> Result<Decision, Problem> {
    let mut event = match act {
        Act::Approve { ticket } => approval(office, principal, session, ticket, key).await?,
        Act::Deny => json!({"type": "confirmation.answered", "value": "no"}),
        Act::Release { guard, mode, n } => {
            let guard = match guard {
                Some(guard) => guard,
                None => holder(office, session).await?,
            };
            json!({"type": "human.released", "guard": guard, "mode": mode, "n": n})
        }
        Act::Unlabel { guard } => json!({"type": "human.released", "guard": guard, "label": "removed"}),
        Act::LiftStop => {
            require_stop(office, session, key).await?;
            json!({"type": "human.released", "guard": "human"})
        }
        Act::Stop => json!({"type": "human.stopped"}),
        Act::Say { text } => {
            if flyball::is_blank(&text) {
                return Err(empty_message());
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
    office.act(&event, &principal.name).await
}

/// Records what a person wrote in a chat. It answers the plan that waits now and no other, and a key never approves a
/// plan that it asked for itself.
///
/// # Errors
/// If they may not, or it cannot be recorded; nothing was changed then.
pub(crate) async fn hear(
    office: &Shared,
    principal: &Principal,
    incoming: Incoming,
) -> Result<Decision, Problem> {
    // Words may be a yes, and a yes in a browser needs a fresh proof.
    check_proof(principal)?;
    let session = incoming.event.session.clone();
    let entry = Entry::by(principal).doing("message").inside(&session, None);
    let open = audit::begin(office, entry).await?;
    let came = heard(office, principal, incoming).await;
    audit::end(office, open, &came).await;
    came
}

async fn heard(office: &Shared, principal: &Principal, incoming: Incoming) -> Result<Decision, Problem> {
    let who = principal.clone();
    let (event, is_new) = office.look(move |office| bound(office, &who, &incoming)).await?;
    if is_new {
        let event = office.read(&event.to_string(), &principal.name)?;
        return office.intake.submit_one(Box::new(event)).await;
    }
    office.act(&event, &principal.name).await
}

/// A person's message, bound to the plan that waits, and whether its session is new. If another plan takes its place
/// before the message is decided, the message answers neither.
fn bound(office: &Office, principal: &Principal, incoming: &Incoming) -> Result<(Value, bool), Problem> {
    let Kind::PersonMessage { text, digest, .. } = &incoming.event.kind else {
        return Err(Problem::busy());
    };
    let session = &incoming.event.session;
    let mut event: Value = serde_json::from_str(&incoming.text).unwrap_or_default();
    let Some(fields) = event.as_object_mut() else { return Err(Problem::busy()) };
    // It is written again where the event is recorded.
    fields.remove("principal");
    if principal.role >= Role::Operator {
        fields.insert("by".to_owned(), json!(principal.name));
    }
    let is_new = office.desk().load(session)?.is_none_or(|loaded| loaded.head.seq == 0);
    if is_new {
        return Ok((event, true));
    }
    let sent = digest.clone();
    let digest = match stored_digest(office, incoming)? {
        Some(digest) => digest,
        None => {
            let (state, _) = office.session(session)?;
            let Some(waiting) = state.waiting() else {
                fields.insert("digest".to_owned(), json!(sent.unwrap_or_else(|| NO_PLAN.to_owned())));
                return Ok((event, false));
            };
            if understand(text) == Answer::Yes && was_asked_by(office, session, &waiting, &principal.name)? {
                return Err(own_request());
            }
            sent.unwrap_or_else(|| waiting.digest.to_owned())
        }
    };
    fields.insert("digest".to_owned(), json!(digest));
    Ok((event, false))
}

/// The plan that the same message was bound to when it came before.
fn stored_digest(office: &Office, incoming: &Incoming) -> Result<Option<String>, Problem> {
    let (session, Some(id)) = (&incoming.event.session, &incoming.event.id) else { return Ok(None) };
    let Some(known) = office.desk().find(session, &id.id)? else { return Ok(None) };
    let record = office.desk().records(session, known.seq, known.seq)?.pop();
    let event = record.and_then(|record| serde_json::from_str::<Value>(&record.text).ok());
    Ok(event.and_then(|event| event.get("digest")?.as_str().map(str::to_owned)))
}

/// Whether a key asked for a plan or for a step of it.
fn was_asked_by(
    office: &Office,
    session: &str,
    waiting: &flyball::Waiting<'_>,
    key: &str,
) -> Result<bool, Problem> {
    let mut found = false;
    for seq in waiting.askers {
        let asked = office.desk().records(session, *seq, *seq)?.pop();
        let Some(asked) = asked.and_then(|record| serde_json::from_str::<Value>(&record.text).ok()) else {
            return Err(request_lost());
        };
        found |= asked.get("principal").and_then(Value::as_str) == Some(key);
    }
    Ok(found)
}

/// The refusal of a message without a visible character.
pub(crate) fn empty_message() -> Problem {
    let what = "the message is empty, and an empty message answers nothing";
    let advice = "write what the session should do";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "empty_answer", what, advice)
}

fn request_lost() -> Problem {
    let what = "it can no longer be seen who asked for this plan, so nobody can say yes to it";
    let advice = "deny it, and let the agent ask again";
    Problem::new(StatusCode::CONFLICT, "request_lost", what, advice)
}

fn own_request() -> Problem {
    let what = "whoever asked for a plan cannot say yes to it";
    Problem::new(StatusCode::FORBIDDEN, "own_request", what, "somebody else must answer")
}

/// Gives out a ticket for the plan that waits in a session.
///
/// # Errors
/// If no plan waits, or they may not answer it.
pub(crate) async fn ticket(office: &Shared, principal: &Principal, session: &str) -> Result<String, Problem> {
    person(principal)?;
    principal.may_touch(session)?;
    let (name, session) = (principal.name.clone(), session.to_owned());
    office
        .look(move |office| {
            office.tidy()?;
            let (bound, expires) = waiting(office, &session, &name)?;
            let word = random()?;
            let until = office.desk().now()?.saturating_add(TICKET_MS).min(expires.unwrap_or(u64::MAX));
            let text = json!(bound).to_string();
            let note = Note { shelf: TICKETS.to_owned(), key: digest(&word), text, until: Some(until) };
            office.desk().put(&note, If::New)?;
            Ok::<_, Problem>(word)
        })
        .await
}

/// The plan that waits, as a ticket is bound to it, and when a yes comes too late.
fn waiting(office: &Office, session: &str, by: &str) -> Result<(Bound, Option<u64>), Problem> {
    let (state, _) = office.session(session)?;
    let Some(waiting) = state.waiting() else {
        let what = "no plan waits for an answer in this session";
        return Err(Problem::new(StatusCode::CONFLICT, "nothing_waits", what, "look at the session again"));
    };
    if was_asked_by(office, session, &waiting, by)? {
        return Err(own_request());
    }
    let policy = office.desk().load(session)?.map(|loaded| loaded.head.policy).unwrap_or_default();
    let bound =
        Bound { session: session.to_owned(), digest: waiting.digest.to_owned(), policy, by: by.to_owned() };
    Ok((bound, waiting.expires))
}

/// The yes that a ticket stands for; the ticket is used up, whatever comes of it.
async fn approval(
    office: &Shared,
    principal: &Principal,
    session: &str,
    ticket: String,
    key: Option<&str>,
) -> Result<Value, Problem> {
    let (by, session, key) = (principal.name.clone(), session.to_owned(), key.map(str::to_owned));
    office
        .look(move |office| {
            if let Some(key) = &key
                && let Some(known) = office.desk().find(&session, key)?
            {
                // The same request again: the event is the same too, so it gets its stored answer.
                let record = office.desk().records(&session, known.seq, known.seq)?.pop();
                let event = record.and_then(|record| serde_json::from_str::<Value>(&record.text).ok());
                let digest = event.as_ref().and_then(|event| event.get("digest")?.as_str());
                let Some(digest) = digest else {
                    let what = "this Idempotency-Key was used for something else";
                    let advice = "use a key of its own for each request";
                    return Err(Problem::new(StatusCode::CONFLICT, "event_conflict", what, advice));
                };
                return Ok(json!({"type": "confirmation.answered", "value": "yes", "digest": digest}));
            }
            let taken = office.desk().take(TICKETS, &digest(&ticket))?;
            let bound = taken.and_then(|note| serde_json::from_str::<Bound>(&note.text).ok());
            let (now, expires) = waiting(office, &session, &by)?;
            let time = office.desk().now()?;
            match bound {
                Some(bound) if bound == now => {
                    Ok(json!({"type": "confirmation.answered", "value": "yes", "digest": bound.digest}))
                }
                // A ticket ends with its plan. The answer is recorded as one that came too late, at a time that is too
                // late on every clock, so that it approves nothing.
                _ if expires.is_some_and(|expires| expires <= time) => Ok(
                    json!({"type": "confirmation.answered", "value": "yes", "digest": now.digest, "at": time}),
                ),
                _ => {
                    let what =
                        "the ticket is not for this plan as it waits now, was used before, or is too old";
                    let advice = "look at the plan again; a new ticket comes with it";
                    Err(Problem::new(StatusCode::CONFLICT, "ticket_void", what, advice))
                }
            }
        })
        .await
}

/// The refusal of an act that needs a reason and has none.
pub(crate) fn reason_missing() -> Problem {
    let advice = "say why: whoever reads the record later wants to know";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "reason_missing", "the reason (`why`) is empty", advice)
}

/// The guard that holds a session. A person's stop is never lifted by a release that does not name it.
async fn holder(office: &Shared, session: &str) -> Result<String, Problem> {
    let session = session.to_owned();
    office
        .look(move |office| {
            let (state, _) = office.session(&session)?;
            if let Some(hold) = state.guard_hold() {
                return Ok(hold.guard.to_owned());
            }
            if let Some(stop) = state.operator_stops().next() {
                let what = format!(
                    "the session is {}; releasing a guard does not lift a person's stop",
                    line(&stop.message, 300)
                );
                let advice = "to lift the stop, release the guard `human`, with a reason";
                return Err(Problem::new(StatusCode::CONFLICT, "stopped_by_person", what, advice));
            }
            Err(nothing_held())
        })
        .await
}

/// Refuses to lift a stop where there is none. A request that comes again gets its stored answer.
async fn require_stop(office: &Shared, session: &str, key: Option<&str>) -> Result<(), Problem> {
    let (session, key) = (session.to_owned(), key.map(str::to_owned));
    office
        .look(move |office| {
            if let Some(key) = &key
                && office.desk().find(&session, key)?.is_some()
            {
                return Ok(());
            }
            let (state, _) = office.session(&session)?;
            if state.operator_stops().next().is_some() { Ok(()) } else { Err(nothing_held()) }
        })
        .await
}

fn nothing_held() -> Problem {
    let what = "nothing holds this session back; there is nothing to release";
    Problem::new(StatusCode::CONFLICT, "nothing_held", what, "look at the session again")
}

/// Refuses whoever is no person. The routes say so too; here it is said once more, where it is done.
fn person(principal: &Principal) -> Result<(), Problem> {
    if principal.role >= Role::Operator {
        return Ok(());
    }
    let what = format!(
        "'{}' is {}, which never answers in a person's place",
        principal.name,
        principal.role.with_article()
    );
    Err(Problem::new(StatusCode::FORBIDDEN, "role_forbidden", what, "a person must do this"))
}
