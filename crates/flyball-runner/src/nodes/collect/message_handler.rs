//! Handles an interpreted message: takes or rejects values, answers questions, cancels or acts.

use super::super::confirm::say_text;
use super::super::tool::{self, ToolCall};
use super::collect_dialogue::{CollectDialogue, RetryVerdict};
use super::model_reader::ReadOutcome;
use crate::dialogue::{
    DialogueLine, DialogueState, ExpectedReply, MessageMeaning, SlotEdit, SlotValue, value_text,
};
use crate::engine::{NodeOutcome, NodeStatus, RecordedEvent, RunStop, must_stop};
use crate::workflow::spec::SlotKind;
use flyball::confirm::{ConfirmationAnswer, ConfirmationMessage, classify_answer};
use serde_json::json;

/// Default number of aborts before a person takes over.
const MAX_ABORTS: u64 = 3;

/// Result of handling a message: `None` if the conversation continues.
type DialogueStep = Result<Option<NodeOutcome>, RunStop>;

impl CollectDialogue<'_, '_> {
    /// Interprets a message and acts on it.
    pub(super) fn handle_message(&mut self, text: &str) -> DialogueStep {
        let meaning = match self.read_message(text)? {
            ReadOutcome::Understood(meaning) => meaning,
            ReadOutcome::GiveUp(past) => return self.abort(&past, &ConfirmationMessage::RetryAborted),
            ReadOutcome::Unreadable => {
                return self.hand_over("not_understood", &DialogueLine::HandOver).map(Some);
            }
        };
        let confirming = self.expected == ExpectedReply::Confirmation;
        match meaning {
            MessageMeaning::Cancel => self.cancel(),
            MessageMeaning::Person => self.hand_over("asked_for_a_person", &DialogueLine::HandOver).map(Some),
            MessageMeaning::SideQuestion(key) => self.answer_side_question(key.as_deref()),
            MessageMeaning::Yes if confirming => self.on_confirmed(),
            MessageMeaning::No if confirming => self.on_denied(),
            MessageMeaning::No if self.expected == ExpectedReply::Change => self.on_nothing_to_change(),
            MessageMeaning::Values(act, found) => self.take_values(act, &found),
            MessageMeaning::Change(act, Some(slot)) => self.start_change(act, slot),
            MessageMeaning::Change(act, None) => self.on_ambiguous_change(act),
            MessageMeaning::Yes | MessageMeaning::No | MessageMeaning::Unclear => self.on_unclear(text),
        }
    }

    /// Next step: the next question, the confirmation, or the action.
    pub(super) fn advance(&mut self) -> DialogueStep {
        let missing =
            self.message_reader.slots().iter().position(|form| !self.values.contains_key(&form.slot().name));
        if let Some(slot) = missing {
            self.transition(DialogueState::WaitingForSlot)?;
            self.ask_slot(slot)?;
            return Ok(None);
        }
        if self.spec.confirm {
            if self.state() == DialogueState::ValidatingSlot {
                self.transition(DialogueState::ReadyForConfirmation)?;
            }
            self.transition(DialogueState::Confirming)?;
            let question = self.confirmation_question();
            self.expected = ExpectedReply::Confirmation;
            self.last_asked = Some(self.expected);
            self.ask_question(&question)?;
            return Ok(None);
        }
        self.transition(DialogueState::ReadyForAction)?;
        self.run_action().map(Some)
    }

    fn confirmation_question(&self) -> String {
        match &self.spec.question {
            Some(question) => self.render(question),
            None => self.texts.render_line(&DialogueLine::Confirm { summary: &self.summary() }),
        }
    }

    fn slot_question(&self, slot: usize) -> String {
        self.spec.slots.get(slot).map(|slot| self.render(&slot.ask)).unwrap_or_default()
    }

    /// Asks for a slot. A person who changed the subject is reminded without a new question event.
    fn ask_slot(&mut self, slot: usize) -> Result<(), RunStop> {
        let question = self.slot_question(slot);
        let again = self.last_asked == Some(ExpectedReply::Slot(slot));
        self.expected = ExpectedReply::Slot(slot);
        self.last_asked = Some(self.expected);
        if again {
            self.open_question.clone_from(&question);
            return self.say(&question);
        }
        self.ask_question(&question)
    }

    /// Returns to the state that waits for an answer.
    fn restore_waiting_state(&mut self) -> Result<(), RunStop> {
        match self.expected {
            ExpectedReply::Slot(_) => self.transition(DialogueState::WaitingForSlot),
            ExpectedReply::Confirmation => self.transition(DialogueState::Confirming),
            ExpectedReply::Anything | ExpectedReply::Change => Ok(()),
        }
    }

    /// Answers a side question. The open question stays open, and no attempt is used up.
    fn answer_side_question(&mut self, key: Option<&str>) -> DialogueStep {
        let answer = match key.and_then(|key| self.spec.answers.get(key)) {
            Some(answer) => self.render(answer),
            None => self.texts.render_line(&DialogueLine::NoAnswer),
        };
        let open = match self.expected {
            ExpectedReply::Confirmation => self
                .texts
                .render_core_text(&ConfirmationMessage::StillWaiting { question: Some(&self.open_question) }),
            _ => self.open_question.clone(),
        };
        self.restore_waiting_state()?;
        self.say(format!("{answer} {open}").trim())?;
        Ok(None)
    }

    fn cancel(&mut self) -> DialogueStep {
        self.clear_failures()?;
        self.transition(DialogueState::Idle)?;
        self.values.clear();
        let reply = self.texts.render_core_text(&ConfirmationMessage::Cancelled);
        self.say(&reply)?;
        Ok(Some(self.outcome(NodeStatus::Failure, &reply, Some("cancelled"))))
    }

    fn on_confirmed(&mut self) -> DialogueStep {
        let node = self.turn.node.name.clone();
        self.record_success("confirmation", &node)?;
        self.transition(DialogueState::ReadyForAction)?;
        self.say(&self.texts.render_core_text(&ConfirmationMessage::Confirmed))?;
        self.run_action().map(Some)
    }

    /// Handles a declined confirmation: asks what to change, in the understanding state.
    fn on_denied(&mut self) -> DialogueStep {
        let node = self.turn.node.name.clone();
        self.record_success("confirmation", &node)?;
        self.ask_what_to_change()
    }

    fn ask_what_to_change(&mut self) -> DialogueStep {
        let reply = self.texts.render_core_text(&ConfirmationMessage::WhatToChange);
        self.expected = ExpectedReply::Change;
        self.last_asked = None;
        self.open_question.clone_from(&reply);
        self.say(&reply)?;
        Ok(None)
    }

    /// Handles "nothing to change" after a declined confirmation. Counted, because it makes no progress.
    fn on_nothing_to_change(&mut self) -> DialogueStep {
        let node = self.turn.node.name.clone();
        self.count_failure("modification", &node, Self::advance)
    }

    fn on_unclear(&mut self, text: &str) -> DialogueStep {
        let node = self.turn.node.name.clone();
        match self.expected {
            ExpectedReply::Anything => self.advance(),
            // "No" in reply to the question for a new value keeps the old one.
            ExpectedReply::Slot(slot)
                if self.has_value(slot) && classify_answer(text) == ConfirmationAnswer::No =>
            {
                self.advance()
            }
            ExpectedReply::Slot(slot) => {
                let key = self.slot_key(slot);
                self.count_failure("collect_next_slot", &key, Self::repeat_question)
            }
            ExpectedReply::Confirmation => match self.record_failure("confirmation", &node)? {
                RetryVerdict::GiveUp(past) => self.abort(&past, &ConfirmationMessage::Aborted),
                RetryVerdict::Retry => {
                    self.restore_waiting_state()?;
                    // The text asks for yes or no itself; append what it refers to.
                    let what = match &self.spec.question {
                        Some(_) => self.open_question.clone(),
                        None => self.summary(),
                    };
                    self.say(
                        &self
                            .texts
                            .render_core_text(&ConfirmationMessage::AskAgain { question: Some(&what) }),
                    )?;
                    Ok(None)
                }
            },
            ExpectedReply::Change => self.count_failure("modification", &node, Self::repeat_question),
        }
    }

    /// Counts a failed attempt, then continues with `retry` unless a guard gives up.
    fn count_failure(
        &mut self,
        operation: &str,
        key: &str,
        retry: impl FnOnce(&mut Self) -> DialogueStep,
    ) -> DialogueStep {
        match self.record_failure(operation, key)? {
            RetryVerdict::GiveUp(past) => self.abort(&past, &ConfirmationMessage::RetryAborted),
            RetryVerdict::Retry => retry(self),
        }
    }

    fn has_value(&self, slot: usize) -> bool {
        self.spec.slots.get(slot).is_some_and(|slot| self.values.contains_key(&slot.name))
    }

    /// Repeats the open question after an unclear message.
    fn repeat_question(&mut self) -> DialogueStep {
        self.restore_waiting_state()?;
        let reply = format!("{} {}", self.texts.render_line(&DialogueLine::AskAgain), self.open_question);
        self.say(&reply)?;
        Ok(None)
    }

    /// Handles a change of a known slot without a new value.
    fn start_change(&mut self, act: SlotEdit, slot: usize) -> DialogueStep {
        if !self.has_value(slot) {
            // A slot without a value cannot be changed, so ask for it.
            return if act == SlotEdit::Fill { self.advance() } else { self.on_ambiguous_change(act) };
        }
        self.transition(DialogueState::WaitingForSlot)?;
        self.ask_new_value(slot)
    }

    fn ask_new_value(&mut self, slot: usize) -> DialogueStep {
        let reply = self.texts.render_line(&DialogueLine::ChangeTo { slot: &self.label(slot) });
        self.expected = ExpectedReply::Slot(slot);
        self.last_asked = None;
        self.open_question.clone_from(&reply);
        self.say(&reply)?;
        Ok(None)
    }

    /// Handles a change of an unknown slot.
    fn on_ambiguous_change(&mut self, act: SlotEdit) -> DialogueStep {
        let node = self.turn.node.name.clone();
        self.count_failure(act.operation(), &node, |dialogue| {
            if dialogue.values.is_empty() { dialogue.advance() } else { dialogue.ask_what_to_change() }
        })
    }

    /// Validates values: takes the valid ones, and asks again for the first invalid one.
    fn take_values(&mut self, act: SlotEdit, found: &[SlotValue]) -> DialogueStep {
        let node = self.turn.node.name.clone();
        let was_confirming = self.expected == ExpectedReply::Confirmation;
        self.transition(DialogueState::ValidatingSlot)?;
        let (mut unfit, mut same, mut news) = (Vec::new(), None, Vec::new());
        for value in found {
            let Some(form) = self.message_reader.slots().get(value.slot) else { continue };
            let name = form.slot().name.clone();
            let Some(checked) = form.parse_value(&value.text) else {
                unfit.push(value.clone());
                continue;
            };
            let before = self.values.get(&name).cloned();
            if before.as_ref() == Some(&checked) {
                same = Some(value.slot);
                continue;
            }
            let shown = value_text(&checked);
            self.values.insert(name, checked);
            self.recently_filled.retain(|slot| *slot != value.slot);
            self.recently_filled.push(value.slot);
            let key = self.slot_key(value.slot);
            self.record_success("validation", &key)?;
            self.record_success("collect_next_slot", &key)?;
            if before.is_some() {
                news.push((value.slot, shown));
            }
        }
        self.publish_slots();
        self.record_changes(act, &news)?;
        if was_confirming && !news.is_empty() {
            self.record_success("confirmation", &node)?;
        }
        if self.spec.max_changes.is_some_and(|most| self.changes > most) {
            return self.hand_over("changed_too_often", &DialogueLine::HandOver).map(Some);
        }
        if !unfit.is_empty() {
            return self.reject_values(&unfit);
        }
        match same {
            Some(slot) if found.len() == 1 && act != SlotEdit::Fill => self.on_unchanged_value(act, slot),
            _ => self.advance(),
        }
    }

    /// Records changed values and confirms them to the person.
    fn record_changes(&mut self, act: SlotEdit, news: &[(usize, String)]) -> Result<(), RunStop> {
        let node = self.turn.node.name.clone();
        for (slot, value) in news {
            // An answer to the question for a new value is also a change.
            let asked_for = act == SlotEdit::Fill && self.expected == ExpectedReply::Slot(*slot);
            let act = if act == SlotEdit::Modify || asked_for { SlotEdit::Modify } else { SlotEdit::Correct };
            self.changes += 1;
            self.record_success(act.operation(), &node)?;
            let label = self.label(*slot);
            let line = match act {
                SlotEdit::Modify => DialogueLine::Changed { slot: &label, value },
                _ => DialogueLine::Updated { slot: &label, value },
            };
            self.say(&self.texts.render_line(&line))?;
        }
        Ok(())
    }

    fn reject_values(&mut self, unfit: &[SlotValue]) -> DialogueStep {
        let mut reply = Vec::new();
        for value in unfit {
            let key = self.slot_key(value.slot);
            if let RetryVerdict::GiveUp(past) = self.record_failure("validation", &key)? {
                return self.abort(&past, &ConfirmationMessage::RetryAborted);
            }
            reply.push(self.rejection_text(value));
        }
        let Some(first) = unfit.first() else { return self.advance() };
        self.transition(DialogueState::WaitingForSlot)?;
        self.expected = ExpectedReply::Slot(first.slot);
        self.last_asked = Some(self.expected);
        self.open_question = self.slot_question(first.slot);
        reply.push(self.open_question.clone());
        self.say(&reply.join(" "))?;
        Ok(None)
    }

    /// Why a value was rejected: the text of the file, or a default for its kind.
    fn rejection_text(&mut self, value: &SlotValue) -> String {
        let Some(slot) = self.spec.slots.get(value.slot) else { return String::new() };
        if let Some(reply) = &slot.invalid {
            self.turn.walk.vars.set("value", json!(crate::dialogue::single_line(&value.text)));
            return self.render(reply);
        }
        let values = slot.values.join(", ");
        self.texts.render_line(&match slot.kind {
            _ if !slot.values.is_empty() => DialogueLine::InvalidValue { values: &values },
            SlotKind::Number if slot.pattern.is_none() => DialogueLine::InvalidNumber,
            SlotKind::Date => DialogueLine::InvalidDate,
            _ => DialogueLine::Invalid,
        })
    }

    /// Handles a change to the current value. Counted, because it makes no progress.
    fn on_unchanged_value(&mut self, act: SlotEdit, slot: usize) -> DialogueStep {
        let node = self.turn.node.name.clone();
        self.count_failure(act.operation(), &node, |dialogue| {
            dialogue.transition(DialogueState::WaitingForSlot)?;
            dialogue.ask_new_value(slot)
        })
    }

    /// Aborts after a guard gave up: drops all values, tells the person, and starts over. After too many aborts a
    /// person takes over.
    fn abort(&mut self, past: &RecordedEvent, text: &ConfirmationMessage<'_>) -> DialogueStep {
        let stopped = must_stop(&past.decision);
        // A release may have arrived before or after the person was informed.
        let released = stopped && self.ensure_released(past).is_ok();
        self.clear_failures()?;
        self.transition(DialogueState::Error)?;
        let reply = self.texts.render_core_text(text);
        // The guard may have said it already, in the same language.
        if say_text(&past.decision).as_deref() == Some(reply.as_str()) {
            self.note_said(&reply);
        } else {
            self.say(&reply)?;
        }
        self.aborts += 1;
        if stopped {
            // The guard requires a person; wait for a release.
            if !released {
                self.say(&self.texts.render_line(&DialogueLine::HandOver))?;
                self.ensure_released(past)?;
                self.note_said(&reply);
            }
            self.aborts = 0;
        } else if self.aborts >= self.spec.max_aborts.unwrap_or(MAX_ABORTS).max(1) {
            return self.hand_over("aborted", &DialogueLine::HandOver).map(Some);
        }
        self.restart(reply, *text == ConfirmationMessage::Aborted)
    }

    /// Drops all values. The conversation stays in state `error` until the next message, which starts from `idle`. Asks
    /// the first question if the abort text does not ask one.
    fn restart(&mut self, reply: String, asks: bool) -> DialogueStep {
        self.values.clear();
        self.publish_slots();
        self.recently_filled.clear();
        self.last_asked = None;
        self.expected = ExpectedReply::Anything;
        self.open_question = reply;
        if self.replay_transition(DialogueState::Idle)? {
            // Earlier versions asked the first question from `idle`.
            return self.advance();
        }
        if !asks {
            self.ask_slot(0)?;
        }
        Ok(None)
    }

    /// Runs the action, reports the result, and ends.
    fn run_action(&mut self) -> Result<NodeOutcome, RunStop> {
        let mut output = self.summary();
        if let Some(action) = &self.spec.action {
            self.transition(DialogueState::ExecutingAction)?;
            let args = self.turn.walk.vars.render_value(&action.args);
            let id = self.name.clone();
            // A person who confirmed approved exactly these values.
            let approved = self.spec.confirm;
            let call = ToolCall { id: &id, tool: &action.tool, args: &args, round: None, approved };
            match tool::invoke(self.turn, &call)? {
                Ok(text) => output = text.trim_end().to_owned(),
                Err(text) => {
                    self.transition(DialogueState::Error)?;
                    let reply = self.texts.render_line(&DialogueLine::Failed { error: &text });
                    self.say(&reply)?;
                    return Ok(self.outcome(NodeStatus::Failure, &text, Some("action_failed")));
                }
            }
            self.transition(DialogueState::GeneratingResponse)?;
            self.turn.walk.vars.set("action", json!(output));
        }
        if let Some(response) = &self.spec.response {
            let reply = self.render(response);
            self.say(&reply)?;
        }
        self.transition(DialogueState::Completed)?;
        Ok(self.outcome(NodeStatus::Success, &output, None))
    }
}
