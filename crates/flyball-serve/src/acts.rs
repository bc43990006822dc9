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
use flyball::Decision;
use flyball_journal::{If, Note};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Where tickets are kept.
const TICKETS: &str = "tickets";
/// How long a ticket holds, in milliseconds; never longer than the plan.
const TICKET_MS: u64 = 15 * 60 * 1000;

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
    /// Stops it until somebody releases it.
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
        matches!(self, Act::Approve { .. } | Act::Release { .. } | Act::Say { .. })
    }

    /// The word for the audit log.
    fn name(&self) -> &'static str {
        match self {
            Act::Approve { .. } => "approve",
            Act::Deny => "deny",
            Act::Release { .. } => "release",
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
    let came = perform(office, principal, session, act, why, key).await;
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
        Act::Stop => json!({"type": "human.stopped"}),
        Act::Say { text } => json!({"type": "user.message", "text": text}),
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
    let asked = office.desk().records(session, waiting.asked, waiting.asked)?.pop();
    let asked = asked.and_then(|record| serde_json::from_str::<Value>(&record.text).ok());
    let Some(asked) = asked else {
        let what = "it can no longer be seen who asked for this plan, so nobody can say yes to it";
        let advice = "deny it, and let the agent ask again";
        return Err(Problem::new(StatusCode::CONFLICT, "request_lost", what, advice));
    };
    if asked.get("principal").and_then(Value::as_str) == Some(by) {
        let what = "whoever asked for a plan cannot say yes to it";
        return Err(Problem::new(StatusCode::FORBIDDEN, "own_request", what, "somebody else must answer"));
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
            let (now, _) = waiting(office, &session, &by)?;
            match bound {
                Some(bound) if bound == now => {
                    Ok(json!({"type": "confirmation.answered", "value": "yes", "digest": bound.digest}))
                }
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

/// The guard that holds a session.
async fn holder(office: &Shared, session: &str) -> Result<String, Problem> {
    let session = session.to_owned();
    office
        .look(move |office| {
            let (state, _) = office.session(&session)?;
            let held = state.standing().stopped_by.map(|(guard, _)| guard.to_owned());
            held.ok_or_else(|| {
                let what = "nothing holds this session back; there is nothing to release";
                Problem::new(StatusCode::CONFLICT, "nothing_held", what, "look at the session again")
            })
        })
        .await
}

/// Refuses whoever is no person. The routes say so too; here it is said once more, where it is done.
fn person(principal: &Principal) -> Result<(), Problem> {
    if principal.role >= Role::Operator {
        return Ok(());
    }
    let what = format!("'{}' is an agent, and an agent never answers in a person's place", principal.name);
    Err(Problem::new(StatusCode::FORBIDDEN, "role_forbidden", what, "a person must do this"))
}
