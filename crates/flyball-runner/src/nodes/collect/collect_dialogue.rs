//! A running conversation: its messages, its state, and the events that the guards count.
//!
//! Two sessions record it. Messages, replies, and every attempt, failure and success (`operation.failed`,
//! `operation.succeeded`) belong to the run's main session: people send messages and releases there, and its counters
//! last as long as the run. State transitions go to a child session, `SESSION/NODE.dialogue.N`, one per conversation:
//! in the main session they would count as workflow transitions, and the tenth message as the tenth visit of a node. In
//! the child session every message from the person resets the transition counters (`cycle`, `budgets.message`), because
//! a conversation loops by nature, and only a loop without a person is a defect. Loops with a person are counted in the
//! main session.

use super::super::human_io;
use crate::dialogue::{
    DialogueLine, DialogueState, DialogueTexts, ExpectedReply, MessageContext, MessageReader, SlotMatcher,
    single_line, value_text,
};
use crate::engine::{NodeOutcome, NodeStatus, RecordedEvent, ReplayLog, RunStop, Turn, must_stop};
use crate::provider::ChatMessage;
use crate::workflow::spec::{CollectNode, LocalizedText};
use flyball::confirm::{ConfirmationMessage, Language};
use flyball::{Decision, Event, EventKind, MessageOrigin, Verdict};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// A conversation in progress.
pub(super) struct CollectDialogue<'c, 't> {
    pub(super) turn: &'c mut Turn<'t>,
    pub(super) spec: &'c CollectNode,
    pub(super) message_reader: MessageReader,
    pub(super) texts: DialogueTexts,
    pub(super) values: Map<String, Value>,
    pub(super) expected: ExpectedReply,
    /// Slots in the order in which they were filled.
    pub(super) recently_filled: Vec<usize>,
    /// The open question.
    pub(super) open_question: String,
    /// The reply that the last separate question asked for.
    pub(super) last_asked: Option<ExpectedReply>,
    pub(super) aborts: u64,
    pub(super) changes: u64,
    /// Conversation with the model that interprets messages.
    pub(super) model_messages: Vec<ChatMessage>,
    /// Name of this conversation, unique within the run.
    pub(super) name: String,
    state_log: ReplayLog,
    state: DialogueState,
    /// Text sent since the person's last message.
    pending_text: Vec<String>,
    /// Operations that failed and have not succeeded since.
    failing_operations: BTreeSet<(String, String)>,
    /// Whether the last message made progress.
    made_progress: bool,
}

/// Verdict of a guard on a failed attempt.
pub(super) enum RetryVerdict {
    /// It may be retried.
    Retry,
    /// It must be abandoned.
    GiveUp(Box<RecordedEvent>),
}

impl<'c, 't> CollectDialogue<'c, 't> {
    /// Starts or resumes a conversation.
    pub(super) fn start(turn: &'c mut Turn<'t>, spec: &'c CollectNode) -> Result<Self, RunStop> {
        let matchers: Vec<SlotMatcher> = spec.slots.iter().map(SlotMatcher::new).collect::<Result<_, _>>()?;
        let node = &turn.node.name;
        let number = turn.walk.visits.entry(format!("{node}.dialogue")).or_insert(0);
        *number += 1;
        let name = format!("{node}.dialogue.{number}");
        let turns = match spec.max_turns_without_progress {
            Some(most) => json!({"mode": "block", "turns": most}),
            None => json!({"mode": "off"}),
        };
        let off = json!({"mode": "off"});
        let policy = json!({"guards": {"visits": off, "transitions": off, "stall": turns}});
        let states = turn.walk.open_child_log(&name, None, Some(policy))?;
        let guess = spec.slots.first().map(|slot| slot.ask.in_language(Language::En)).unwrap_or_default();
        let world = &turn.walk.context;
        let dialogue_texts =
            DialogueTexts::new(&world.sink.policy().guards.confirmation, &world.plan.texts, guess);
        let mut dialogue = CollectDialogue {
            message_reader: MessageReader::new(matchers, spec.answers.keys().cloned()),
            turn,
            spec,
            texts: dialogue_texts,
            values: Map::new(),
            expected: ExpectedReply::Anything,
            recently_filled: Vec::new(),
            open_question: String::new(),
            last_asked: None,
            aborts: 0,
            changes: 0,
            model_messages: Vec::new(),
            name,
            state_log: states,
            state: DialogueState::Idle,
            pending_text: Vec::new(),
            failing_operations: BTreeSet::new(),
            made_progress: false,
        };
        dialogue.publish_slots();
        Ok(dialogue)
    }

    /// Opens with the initial message, the opening question, or the question for the first slot.
    pub(super) fn open_conversation(&mut self) -> Result<Option<NodeOutcome>, RunStop> {
        let from = self.spec.from.as_ref().map(|from| self.turn.walk.vars.render(from)).unwrap_or_default();
        if !from.trim().is_empty() {
            self.texts.detect_language(&from);
            let counted = self.count_message()?;
            self.state_log.ensure_may_continue(&counted)?;
            return self.handle_message(&from);
        }
        if let Some(opening) = &self.spec.opening {
            let question = self.render(opening);
            self.ask_question(&question)?;
            return Ok(None);
        }
        self.advance()
    }

    /// Next message, or the outcome if there were too many messages without progress.
    pub(super) fn next_message(&mut self) -> Result<Result<String, NodeOutcome>, RunStop> {
        let past = human_io::next_reply(self.turn, &self.pending_text.join(" "))?;
        self.pending_text.clear();
        let text = human_io::reply_text(&past);
        self.texts.detect_language(&text);
        if self.turn.walk.log.last_decision().map(|decision| decision.state)
            == Some(flyball::SessionPhase::Halted)
        {
            // The run was stopped in the meantime. Repeat the question; the run stops there.
            self.say(&self.open_question.clone())?;
            self.pending_text.clear();
        }
        let counted = self.count_message()?;
        if must_stop(&past.decision) {
            self.wait_for_release(&past)?;
        }
        if has_no_progress(&counted.decision) {
            return Ok(Err(self.hand_over("no_progress", &DialogueLine::NoProgress)?));
        }
        self.state_log.ensure_may_continue(&counted)?;
        Ok(Ok(text))
    }

    /// Records in the state session that the person wrote; the text is stored only in the main session.
    fn count_message(&mut self) -> Result<RecordedEvent, RunStop> {
        self.made_progress = false;
        let spoke = EventKind::UserMessage { text: String::new(), origin: MessageOrigin::Human };
        let counted = self.state_log.record(Event::new("", spoke))?;
        if self.state == DialogueState::Error {
            self.transition(DialogueState::Idle)?;
        }
        if self.state != DialogueState::Understanding {
            self.transition(DialogueState::Understanding)?;
        }
        Ok(counted)
    }

    /// Tells the person why their message stopped the session, then waits for a release.
    fn wait_for_release(&mut self, past: &RecordedEvent) -> Result<(), RunStop> {
        let log = &mut self.turn.walk.log;
        // A release may have arrived before or after the person was informed.
        let released = log.ensure_may_continue(past).is_ok();
        if has_no_progress(&past.decision) {
            self.transition(DialogueState::Fallback)?;
            self.say(&self.texts.render_line(&DialogueLine::NoProgress))?;
        }
        if !released {
            self.turn.walk.log.ensure_may_continue(past)?;
        }
        if self.state == DialogueState::Fallback {
            self.transition(DialogueState::Understanding)?;
        }
        self.pending_text.clear();
        Ok(())
    }

    /// Requests a transition to another state; guards check it like any transition.
    pub(super) fn transition(&mut self, next: DialogueState) -> Result<(), RunStop> {
        let step = self.transition_event(next)?;
        let past = self.state_log.record(step)?;
        self.complete_transition(next, past)
    }

    /// Replays a transition that only earlier versions made at this point. Returns whether the history has it.
    pub(super) fn replay_transition(&mut self, next: DialogueState) -> Result<bool, RunStop> {
        let step = self.transition_event(next)?;
        let Some(past) = self.state_log.replay_only(&step) else { return Ok(false) };
        self.complete_transition(next, past).map(|()| true)
    }

    fn transition_event(&self, next: DialogueState) -> Result<Event, RunStop> {
        let (from, to) = (self.state.as_str().to_owned(), self.state.transition(next)?.as_str().to_owned());
        Ok(self.turn.event(EventKind::TransitionRequested { from, to, edge: None }))
    }

    /// Requests a recorded transition again until it is allowed.
    fn complete_transition(&mut self, next: DialogueState, mut past: RecordedEvent) -> Result<(), RunStop> {
        let mut informed = false;
        loop {
            if past.decision.decision < Verdict::Block {
                break;
            }
            if !std::mem::replace(&mut informed, true) {
                self.say(&self.texts.render_core_text(&ConfirmationMessage::RetryAborted))?;
            }
            // If the main session was halted, it has been released since; otherwise the message above would have
            // failed.
            if !is_parent_halt(&past.decision) {
                self.state_log.ensure_may_continue(&past)?;
                if !must_stop(&past.decision) && !self.human_intervened()? {
                    return Err(RunStop::Blocked {
                        decision: Box::new(past.decision),
                        alternatives: Vec::new(),
                    });
                }
            }
            let step = self.transition_event(next)?;
            past = self.state_log.record(step)?;
        }
        self.state = next;
        Ok(())
    }

    /// Whether a person intervened since a transition was denied, so that a retry makes sense.
    fn human_intervened(&mut self) -> Result<bool, RunStop> {
        if self.state_log.human_intervened() {
            return Ok(true);
        }
        if !self.turn.walk.log.human_intervened() {
            return Ok(false);
        }
        let spoke = EventKind::UserMessage { text: String::new(), origin: MessageOrigin::Human };
        self.state_log.record(Event::new("", spoke))?;
        Ok(true)
    }

    /// Current state.
    pub(super) const fn state(&self) -> DialogueState {
        self.state
    }

    /// Sends a message.
    pub(super) fn say(&mut self, text: &str) -> Result<(), RunStop> {
        // Not the node's final message: an answer or an action follows.
        let kind = EventKind::AssistantMessage { text: text.to_owned(), structured: None, is_final: false };
        self.turn.record(kind)?;
        self.note_said(text);
        Ok(())
    }

    /// Notes text that was sent already, to show it with the next question.
    pub(super) fn note_said(&mut self, text: &str) {
        self.pending_text.push(text.to_owned());
    }

    /// Asks a question; guards detect repeated questions.
    pub(super) fn ask_question(&mut self, question: &str) -> Result<(), RunStop> {
        self.turn.request(EventKind::QuestionAsked { text: question.to_owned() })?;
        self.pending_text.push(question.to_owned());
        question.clone_into(&mut self.open_question);
        Ok(())
    }

    /// Renders a text of the file in the person's language.
    pub(super) fn render(&self, text: &LocalizedText) -> String {
        self.turn.walk.vars.render(text.in_language(self.texts.language()))
    }

    /// Display name of a slot.
    pub(super) fn label(&self, slot: usize) -> String {
        let Some(slot) = self.spec.slots.get(slot) else { return String::new() };
        match &slot.label {
            Some(label) => self.render(label),
            None => slot.name.replace('_', " "),
        }
    }

    /// All filled slots as text.
    pub(super) fn summary(&self) -> String {
        let known = |(at, form): (usize, &SlotMatcher)| {
            let value = self.values.get(&form.slot().name)?;
            Some(format!("{}: {}", self.label(at), single_line(&value_text(value))))
        };
        self.message_reader.slots().iter().enumerate().filter_map(known).collect::<Vec<_>>().join(", ")
    }

    /// Context for interpreting a message.
    pub(super) fn message_context(&self) -> MessageContext<'_> {
        MessageContext {
            values: &self.values,
            expecting: self.expected,
            recently_filled: &self.recently_filled,
        }
    }

    /// Publishes the slots to templates as `{{slots.NAME}}`. Slots of other conversations are kept.
    pub(super) fn publish_slots(&mut self) {
        let vars = &mut self.turn.walk.vars;
        let mut slots = vars.get("slots").and_then(Value::as_object).cloned().unwrap_or_default();
        for slot in &self.spec.slots {
            match self.values.get(&slot.name) {
                Some(value) => slots.insert(slot.name.clone(), value.clone()),
                None => slots.remove(&slot.name),
            };
        }
        vars.set("slots", Value::Object(slots));
    }

    /// Operation key for a slot.
    pub(super) fn slot_key(&self, slot: usize) -> String {
        let name = self.spec.slots.get(slot).map(|slot| slot.name.as_str()).unwrap_or_default();
        format!("{}.{name}", self.turn.node.name)
    }

    /// Records a failed attempt; the guard decides whether it may be retried.
    pub(super) fn record_failure(&mut self, operation: &str, key: &str) -> Result<RetryVerdict, RunStop> {
        let kind = EventKind::OperationFailed { operation: operation.to_owned(), key: Some(key.to_owned()) };
        let mut event = self.turn.event(kind);
        // This node informs the person itself: once, in context and in their language.
        event.extra.insert("quiet".to_owned(), json!(true));
        let past = self.turn.walk.log.record(event)?;
        let operation = (operation.to_owned(), key.to_owned());
        if past.decision.decision < Verdict::Block {
            self.failing_operations.insert(operation);
            return Ok(RetryVerdict::Retry);
        }
        self.failing_operations.remove(&operation);
        Ok(RetryVerdict::GiveUp(Box::new(past)))
    }

    /// Records a successful or deliberately declined attempt, which clears its counter.
    pub(super) fn record_success(&mut self, operation: &str, key: &str) -> Result<(), RunStop> {
        let kind =
            EventKind::OperationSucceeded { operation: operation.to_owned(), key: Some(key.to_owned()) };
        self.failing_operations.remove(&(operation.to_owned(), key.to_owned()));
        self.turn.record(kind)?;
        if self.spec.max_turns_without_progress.is_some() && !std::mem::replace(&mut self.made_progress, true)
        {
            let kind = EventKind::OperationSucceeded { operation: "turn".to_owned(), key: None };
            self.state_log.record(Event::new("", kind))?;
        }
        Ok(())
    }

    /// Clears failure counters at the end, so that they do not carry over into the next conversation.
    pub(super) fn clear_failures(&mut self) -> Result<(), RunStop> {
        for (operation, key) in std::mem::take(&mut self.failing_operations) {
            let kind = EventKind::OperationSucceeded { operation, key: Some(key) };
            self.turn.record(kind)?;
        }
        Ok(())
    }

    /// Checks that a session stopped by this decision was released by a person.
    pub(super) fn ensure_released(&mut self, past: &RecordedEvent) -> Result<(), RunStop> {
        self.turn.walk.log.ensure_may_continue(past)?;
        self.pending_text.clear();
        Ok(())
    }

    /// Hands over to a person: the workflow continues at `on_unclear`.
    pub(super) fn hand_over(&mut self, why: &str, line: &DialogueLine<'_>) -> Result<NodeOutcome, RunStop> {
        self.clear_failures()?;
        self.transition(DialogueState::Fallback)?;
        let reply = self.texts.render_line(line);
        self.say(&reply)?;
        Ok(self.outcome(NodeStatus::Unclear, &reply, Some(why)))
    }

    /// Outcome at the end of the conversation.
    pub(super) fn outcome(&mut self, status: NodeStatus, reply: &str, why: Option<&str>) -> NodeOutcome {
        self.publish_slots();
        let about = json!({"state": self.state.as_str(), "slots": self.values, "why": why});
        NodeOutcome::success(reply).with_status(status).with_structured(about)
    }
}

/// Whether the denial comes from the parent session.
fn is_parent_halt(decision: &Decision) -> bool {
    decision.trips.iter().any(|trip| trip.reason == "user_stop" && trip.scope.contains_key("session"))
}

fn has_no_progress(decision: &Decision) -> bool {
    decision.decision >= Verdict::Block && decision.trips.iter().any(|trip| trip.reason == "no_progress")
}
