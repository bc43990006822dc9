//! What a person's words in a chat stand for: an answer to what waits, a new request, or a message.
//!
//! `person.message` is read as the event that it stands for, and everything else in the governor sees that event only.

use crate::confirm::{Answer, is_reply, understand};
use crate::event::{Event, Kind, Origin};
use crate::policy::{NewRequest, Policy};
use crate::state::State;
use serde::{Deserialize, Serialize};

/// The effect that says how a `person.message` was read.
pub(crate) const EFFECT: &str = "person.message";

/// What a session remembers of the people it talks to, and of its own restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Person {
    /// The event that asked a question which no person has answered yet.
    pub(crate) open_question: Option<u64>,
    /// How often `session.started` came while the session was there already.
    pub(crate) restarts: u32,
}

/// The event that a `person.message` stands for, and the name of that reading.
pub(crate) fn reading(policy: &Policy, state: &State, event: &Event) -> Option<(Event, &'static str)> {
    let Kind::PersonMessage { text, by, digest } = &event.kind else { return None };
    let mut read = event.clone();
    let message = Kind::UserMessage { text: text.clone(), origin: Origin::Human };
    let (kind, name) = if !state.watch.confirmation.awaits() {
        let answers = state.person.open_question.is_some() && !text.trim().is_empty();
        (message, if answers { "question_answer" } else { "user_message" })
    } else if understand(text) != Answer::Unclear || is_reply(text) {
        let (text, by, digest) = (Some(text.clone()), by.clone(), digest.clone());
        (Kind::ConfirmationAnswered { text, value: None, by, digest }, "plan_answer")
    } else if policy.guards.confirmation.on_new_request == NewRequest::Keep {
        (message, "user_message")
    } else {
        (message, "new_request")
    };
    read.kind = kind;
    Some((read, name))
}

/// Notes a question that waits for a person, and that a person has spoken. A relayed prompt answers nothing.
pub(crate) fn note(state: &mut State, event: &Event, refused: bool) {
    match &event.kind {
        Kind::QuestionAsked { .. } if !refused => state.person.open_question = Some(state.seq),
        Kind::UserMessage { origin: Origin::Human, .. } if !event.extra.contains_key("relayed_by") => {
            state.person.open_question = None;
        }
        Kind::SessionEnded { .. } => state.person.open_question = None,
        Kind::SessionStarted { .. } if state.seq > 1 => {
            state.person.restarts = state.person.restarts.saturating_add(1);
        }
        _ => {}
    }
}
