//! Interpretation of a person's chat message: an answer to a pending plan or question, a new request, or a plain
//! message.
//!
//! A `person.message` is converted to the event it represents, and the rest of the governor sees only that event. The
//! effect `person.message` reports the interpretation (`as`) and the next step for the sender (`next`).

use crate::confirm::{ConfirmationAnswer, classify_answer, is_reply};
use crate::decision::Verdict;
use crate::event::{Event, EventKind, MessageOrigin};
use crate::guards::{Trips, nothing_pending_text};
use crate::limits::RELEASED_GUARDS;
use crate::policy::{NewRequestAction, Policy};
use crate::rules_version::RulesVersion;
use crate::state::{SessionState, read_layout};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;

/// The effect that reports how a `person.message` was interpreted.
const PERSON_MESSAGE_EFFECT: &str = "person.message";

/// The last speaker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum LastSpeaker {
    /// No message yet.
    #[default]
    Nobody,
    /// The agent spoke.
    Agent,
    /// A person answered a plan.
    Answer,
    /// A person sent another message.
    Message,
}

/// State about the session's people, and its restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PersonState {
    /// The event that asked a question that is still unanswered.
    pub(crate) open_question: Option<u64>,
    /// Number of `session.started` events for a session that already existed.
    pub(crate) restarts: u32,
    /// Sequence number of the last approval or release by a person.
    pub(crate) last_lift_seq: u64,
    /// Guards whose last release was made by the policy.
    pub(crate) policy_releases: BTreeSet<String>,
    last_speaker: LastSpeaker,
}

impl PersonState {
    /// Version of the stored layout.
    pub(crate) const LAYOUT: u16 = 2;

    /// Decodes the stored state and returns it with the remaining bytes.
    pub(crate) fn read(layout: u16, bytes: &[u8]) -> postcard::Result<(Self, &[u8])> {
        if layout == 1 {
            let ((open_question, restarts), rest) = read_layout(layout, 1, bytes)?;
            return Ok((PersonState { open_question, restarts, ..PersonState::default() }, rest));
        }
        read_layout(layout, Self::LAYOUT, bytes)
    }

    /// Records whether a grant was made by the policy or by a person.
    pub(crate) fn record_grant(&mut self, guard: &str, by_policy: bool) {
        if !by_policy {
            self.policy_releases.remove(guard);
        } else if self.policy_releases.len() < RELEASED_GUARDS {
            self.policy_releases.insert(guard.to_owned());
        }
    }
}

/// How a `person.message` is read.
pub(crate) struct PersonMessageReading {
    /// The event that the message represents.
    pub(crate) event: Event,
    name: &'static str,
    /// Whether it is an approval while nothing is pending; the person is notified.
    has_no_target: bool,
}

/// Interprets a `person.message`; `None` for any other event.
pub(crate) fn interpret(
    policy: &Policy,
    state: &SessionState,
    event: &Event,
) -> Option<PersonMessageReading> {
    let EventKind::PersonMessage { text, by, digest } = &event.kind else { return None };
    let message = || EventKind::UserMessage { text: text.clone(), origin: MessageOrigin::Human };
    let answer = || {
        let (text, by, digest) = (Some(text.clone()), by.clone(), digest.clone());
        EventKind::ConfirmationAnswered { text, value: None, by, digest }
    };
    let meaning = classify_answer(text);
    let confirmation = &state.guards.confirmation;
    let takes_back = state.rules > RulesVersion::V1
        && matches!(meaning, ConfirmationAnswer::No | ConfirmationAnswer::Cancel)
        && !confirmation.unused_approvals(state.now).is_empty();
    let mut meets_nothing = false;
    let (kind, name) = if !confirmation.is_awaiting() && takes_back {
        (answer(), "plan_answer")
    } else if !confirmation.is_awaiting() {
        let answers = state.person.open_question.is_some() && !text.trim().is_empty();
        meets_nothing = state.rules > RulesVersion::V1
            && meaning == ConfirmationAnswer::Yes
            && !answers
            && state.person.last_speaker != LastSpeaker::Agent;
        match (answers, meets_nothing && state.person.last_speaker == LastSpeaker::Answer) {
            (true, _) => (message(), "question_answer"),
            // A repeated approval of the same plan: not passed on.
            (false, true) => (answer(), "nothing_pending"),
            (false, false) => (message(), "user_message"),
        }
    } else if meaning != ConfirmationAnswer::Unclear || is_reply(text) {
        (answer(), "plan_answer")
    } else if policy.guards.confirmation.on_new_request == NewRequestAction::Keep {
        (message(), "user_message")
    } else {
        (message(), "new_request")
    };
    let meets_nothing = meets_nothing && matches!(kind, EventKind::UserMessage { .. });
    Some(PersonMessageReading { event: Event { kind, ..event.clone() }, name, has_no_target: meets_nothing })
}

impl PersonMessageReading {
    /// Adds the effect with the interpretation, before all effects that follow from it.
    pub(crate) fn add_reading_effect(&self, policy: &Policy, trips: &mut Trips) {
        trips.add_effect(PERSON_MESSAGE_EFFECT, "as", self.name);
        if let (true, EventKind::UserMessage { text, .. }) = (self.has_no_target, &self.event.kind) {
            trips.say(nothing_pending_text(&policy.guards.confirmation, text));
        }
    }

    /// Adds the sender's next step, once all resulting effects are known.
    pub(crate) fn add_next_effect(&self, state: &SessionState, trips: &mut Trips) {
        let has = |name: &str| trips.effects.iter().any(|(effect, _)| *effect == name);
        let said = match &self.event.kind {
            EventKind::ConfirmationAnswered { text: Some(text), .. } => text.as_str(),
            _ => "",
        };
        let next = match self.name {
            "question_answer" => "answer_question",
            "nothing_pending" => "none",
            "new_request" | "user_message" => "pass_on",
            _ if has("plan.approved") => "run_plan",
            _ if has("plan.rejected") && classify_answer(said) == ConfirmationAnswer::Change => "change_plan",
            _ if ["plan.rejected", "plan.expired", "plan.aborted"].into_iter().any(has) => "drop_plan",
            _ if trips.list.iter().any(|draft| draft.trip.reason == "confirmation_unclear") => "ask_again",
            _ if state.guards.confirmation.is_awaiting() => "wait",
            _ => "none",
        };
        if let Some((_, fields)) =
            trips.effects.iter_mut().find(|(effect, _)| *effect == PERSON_MESSAGE_EFFECT)
        {
            fields.insert("next".to_owned(), json!(next));
        }
    }
}

/// Records the open question, the last speaker and the last approval or release. A relayed prompt does not answer a
/// question.
pub(crate) fn record(state: &mut SessionState, event: &Event, refused: bool, trips: &Trips) {
    let approved = trips.effects.iter().any(|(effect, _)| *effect == "plan.approved");
    let person = &mut state.person;
    let released = matches!(event.kind, EventKind::HumanReleased { .. }) && trips.verdict() < Verdict::Block;
    if approved || released {
        person.last_lift_seq = state.seq;
    }
    match &event.kind {
        EventKind::QuestionAsked { .. } if !refused => {
            person.open_question = Some(state.seq);
            person.last_speaker = LastSpeaker::Agent;
        }
        EventKind::AssistantMessage { .. } => person.last_speaker = LastSpeaker::Agent,
        EventKind::ConfirmationAnswered { .. } => person.last_speaker = LastSpeaker::Answer,
        EventKind::UserMessage { origin: MessageOrigin::Human, .. } => {
            person.last_speaker = LastSpeaker::Message;
            if !event.extra.contains_key("relayed_by") {
                person.open_question = None;
            }
        }
        EventKind::SessionEnded { .. } => person.open_question = None,
        EventKind::SessionStarted { .. } if state.seq > 1 => {
            person.restarts = person.restarts.saturating_add(1);
        }
        _ => {}
    }
}
