//! What a person's words in a chat stand for: an answer to what waits, a new request, or a message.
//!
//! `person.message` is read as the event that it stands for, and everything else in the governor sees that event only.
//! The effect `person.message` tells the sender how it was read (`as`) and what to do now (`next`).

use crate::confirm::{Answer, is_reply, understand};
use crate::decision::Verdict;
use crate::event::{Event, Kind, Origin};
use crate::guards::{Trips, nothing_pending};
use crate::limits::RELEASED_GUARDS;
use crate::policy::{NewRequest, Policy};
use crate::rules_version::RulesVersion;
use crate::state::{State, read_layout};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;

/// The effect that says how a `person.message` was read.
const EFFECT: &str = "person.message";

/// Whose words came last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum LastWord {
    /// Nobody has said anything.
    #[default]
    Nobody,
    /// The agent spoke.
    Agent,
    /// A person answered a plan.
    Answer,
    /// A person said something else.
    Message,
}

/// What a session remembers of the people it talks to, and of its own restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Person {
    /// The event that asked a question which no person has answered yet.
    pub(crate) open_question: Option<u64>,
    /// How often `session.started` came while the session was there already.
    pub(crate) restarts: u32,
    /// The last event by which a person approved or released something.
    pub(crate) lifted: u64,
    /// The guards whose last release was made by the policy itself.
    pub(crate) policy_releases: BTreeSet<String>,
    last_word: LastWord,
}

impl Person {
    /// The layout in which it is stored.
    pub(crate) const LAYOUT: u16 = 2;

    /// Reads what is stored; returns it with the bytes that follow.
    pub(crate) fn read(layout: u16, bytes: &[u8]) -> postcard::Result<(Self, &[u8])> {
        if layout == 1 {
            let ((open_question, restarts), rest) = read_layout(layout, 1, bytes)?;
            return Ok((Person { open_question, restarts, ..Person::default() }, rest));
        }
        read_layout(layout, Self::LAYOUT, bytes)
    }

    /// Remembers who granted further acts of a guard.
    pub(crate) fn granted(&mut self, guard: &str, by_policy: bool) {
        if !by_policy {
            self.policy_releases.remove(guard);
        } else if self.policy_releases.len() < RELEASED_GUARDS {
            self.policy_releases.insert(guard.to_owned());
        }
    }
}

/// How a `person.message` is read.
pub(crate) struct Reading {
    /// The event that it stands for.
    pub(crate) event: Event,
    name: &'static str,
    /// It agrees to something, and nothing waits: the person is told.
    meets_nothing: bool,
}

/// How a `person.message` is read; nothing for any other event.
pub(crate) fn reading(policy: &Policy, state: &State, event: &Event) -> Option<Reading> {
    let Kind::PersonMessage { text, by, digest } = &event.kind else { return None };
    let message = || Kind::UserMessage { text: text.clone(), origin: Origin::Human };
    let answer = || {
        let (text, by, digest) = (Some(text.clone()), by.clone(), digest.clone());
        Kind::ConfirmationAnswered { text, value: None, by, digest }
    };
    let meaning = understand(text);
    let confirmation = &state.watch.confirmation;
    let takes_back = state.rules > RulesVersion::V1
        && matches!(meaning, Answer::No | Answer::Cancel)
        && !confirmation.unused(state.now).is_empty();
    let mut meets_nothing = false;
    let (kind, name) = if !confirmation.awaits() && takes_back {
        (answer(), "plan_answer")
    } else if !confirmation.awaits() {
        let answers = state.person.open_question.is_some() && !text.trim().is_empty();
        meets_nothing = state.rules > RulesVersion::V1
            && meaning == Answer::Yes
            && !answers
            && state.person.last_word != LastWord::Agent;
        match (answers, meets_nothing && state.person.last_word == LastWord::Answer) {
            (true, _) => (message(), "question_answer"),
            // A second yes to the same plan: nobody else needs to hear it.
            (false, true) => (answer(), "nothing_pending"),
            (false, false) => (message(), "user_message"),
        }
    } else if meaning != Answer::Unclear || is_reply(text) {
        (answer(), "plan_answer")
    } else if policy.guards.confirmation.on_new_request == NewRequest::Keep {
        (message(), "user_message")
    } else {
        (message(), "new_request")
    };
    let meets_nothing = meets_nothing && matches!(kind, Kind::UserMessage { .. });
    Some(Reading { event: Event { kind, ..event.clone() }, name, meets_nothing })
}

impl Reading {
    /// Tells how the message was read, ahead of everything that follows from it.
    pub(crate) fn tell(&self, policy: &Policy, trips: &mut Trips) {
        trips.effect(EFFECT, "as", self.name);
        if let (true, Kind::UserMessage { text, .. }) = (self.meets_nothing, &self.event.kind) {
            trips.say(nothing_pending(&policy.guards.confirmation, text));
        }
    }

    /// Tells what its sender does now, when everything that follows from it is known.
    pub(crate) fn tell_next(&self, state: &State, trips: &mut Trips) {
        let has = |name: &str| trips.effects.iter().any(|(effect, _)| *effect == name);
        let said = match &self.event.kind {
            Kind::ConfirmationAnswered { text: Some(text), .. } => text.as_str(),
            _ => "",
        };
        let next = match self.name {
            "question_answer" => "answer_question",
            "nothing_pending" => "none",
            "new_request" | "user_message" => "pass_on",
            _ if has("plan.approved") => "run_plan",
            _ if has("plan.rejected") && understand(said) == Answer::Change => "change_plan",
            _ if ["plan.rejected", "plan.expired", "plan.aborted"].into_iter().any(has) => "drop_plan",
            _ if trips.list.iter().any(|draft| draft.trip.reason == "confirmation_unclear") => "ask_again",
            _ if state.watch.confirmation.awaits() => "wait",
            _ => "none",
        };
        if let Some((_, fields)) = trips.effects.iter_mut().find(|(effect, _)| *effect == EFFECT) {
            fields.insert("next".to_owned(), json!(next));
        }
    }
}

/// Notes a question that waits for a person, who spoke last, and what a person has lifted. A relayed prompt answers
/// nothing.
pub(crate) fn note(state: &mut State, event: &Event, refused: bool, trips: &Trips) {
    let approved = trips.effects.iter().any(|(effect, _)| *effect == "plan.approved");
    let person = &mut state.person;
    let released = matches!(event.kind, Kind::HumanReleased { .. }) && trips.verdict() < Verdict::Block;
    if approved || released {
        person.lifted = state.seq;
    }
    match &event.kind {
        Kind::QuestionAsked { .. } if !refused => {
            person.open_question = Some(state.seq);
            person.last_word = LastWord::Agent;
        }
        Kind::AssistantMessage { .. } => person.last_word = LastWord::Agent,
        Kind::ConfirmationAnswered { .. } => person.last_word = LastWord::Answer,
        Kind::UserMessage { origin: Origin::Human, .. } => {
            person.last_word = LastWord::Message;
            if !event.extra.contains_key("relayed_by") {
                person.open_question = None;
            }
        }
        Kind::SessionEnded { .. } => person.open_question = None,
        Kind::SessionStarted { .. } if state.seq > 1 => {
            person.restarts = person.restarts.saturating_add(1);
        }
        _ => {}
    }
}
