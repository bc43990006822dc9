//! What follows from a message: a value is taken or refused, a question is answered, something is given up or done.

use super::super::confirm::spoken;
use super::super::tool::{self, Called};
use super::course::{Course, Tried, stands};
use super::model::Read;
use crate::dialogue::{Act, Expecting, Found, Heard, Line, State, show};
use crate::engine::{Outcome, Past, Status, Stop};
use crate::workflow::spec::SlotKind;
use flyball::confirm::{Answer, Text, understand};
use serde_json::json;

/// How often a conversation may be given up before a person takes over, unless the file says otherwise.
const MAX_ABORTS: u64 = 3;

/// How a message left the conversation: nothing if it goes on.
type Over = Result<Option<Outcome>, Stop>;

impl Course<'_, '_> {
    /// Does what follows from a message.
    pub(super) fn follow(&mut self, text: &str) -> Over {
        let heard = match self.read(text)? {
            Read::Heard(heard) => heard,
            Read::GivenUp(past) => return self.abort(&past, &Text::RetryAborted),
            Read::Unreadable => return self.hand_over("not_understood", &Line::HandOver).map(Some),
        };
        let confirming = self.expecting == Expecting::Confirmation;
        match heard {
            Heard::Cancel => self.cancel(),
            Heard::Person => self.hand_over("asked_for_a_person", &Line::HandOver).map(Some),
            Heard::Side(key) => self.aside(key.as_deref()),
            Heard::Yes if confirming => self.confirmed(),
            Heard::No if confirming => self.denied(),
            Heard::No if self.expecting == Expecting::Change => self.nothing_to_change(),
            Heard::Values(act, found) => self.take(act, &found),
            Heard::Change(act, Some(slot)) => self.open_change(act, slot),
            Heard::Change(act, None) => self.which(act),
            Heard::Yes | Heard::No | Heard::Unclear => self.unclear(text),
        }
    }

    /// What comes next: the next question, the last question, or the end.
    pub(super) fn next(&mut self) -> Over {
        let missing =
            self.reader.forms().iter().position(|form| !self.values.contains_key(&form.slot().name));
        if let Some(slot) = missing {
            self.go(State::WaitingForSlot)?;
            self.ask(slot)?;
            return Ok(None);
        }
        if self.spec.confirm {
            if self.state() == State::ValidatingSlot {
                self.go(State::ReadyForConfirmation)?;
            }
            self.go(State::Confirming)?;
            let question = self.confirmation();
            self.expecting = Expecting::Confirmation;
            self.asked = Some(self.expecting);
            self.put(&question)?;
            return Ok(None);
        }
        self.go(State::ReadyForAction)?;
        self.act().map(Some)
    }

    fn confirmation(&self) -> String {
        match &self.spec.question {
            Some(question) => self.fill(question),
            None => self.speech.line(&Line::Confirm { summary: &self.summary() }),
        }
    }

    fn slot_question(&self, slot: usize) -> String {
        self.spec.slots.get(slot).map(|slot| self.fill(&slot.ask)).unwrap_or_default()
    }

    /// Asks for a slot. Somebody who talked about other things meanwhile is reminded, not asked anew.
    fn ask(&mut self, slot: usize) -> Result<(), Stop> {
        let question = self.slot_question(slot);
        let again = self.asked == Some(Expecting::Slot(slot));
        self.expecting = Expecting::Slot(slot);
        self.asked = Some(self.expecting);
        if again {
            self.question.clone_from(&question);
            return self.say(&question);
        }
        self.put(&question)
    }

    /// Goes back to the state in which an answer is waited for.
    fn wait_again(&mut self) -> Result<(), Stop> {
        match self.expecting {
            Expecting::Slot(_) => self.go(State::WaitingForSlot),
            Expecting::Confirmation => self.go(State::Confirming),
            Expecting::Anything | Expecting::Change => Ok(()),
        }
    }

    /// A question on the side is answered; the one that is open stays open, and no attempt is used up.
    fn aside(&mut self, key: Option<&str>) -> Over {
        let answer = match key.and_then(|key| self.spec.answers.get(key)) {
            Some(answer) => self.fill(answer),
            None => self.speech.line(&Line::NoAnswer),
        };
        let open = match self.expecting {
            Expecting::Confirmation => {
                self.speech.text(&Text::StillWaiting { question: Some(&self.question) })
            }
            _ => self.question.clone(),
        };
        self.wait_again()?;
        self.say(format!("{answer} {open}").trim())?;
        Ok(None)
    }

    fn cancel(&mut self) -> Over {
        self.clear_failing()?;
        self.go(State::Idle)?;
        self.values.clear();
        let words = self.speech.text(&Text::Cancelled);
        self.say(&words)?;
        Ok(Some(self.over(Status::Failure, &words, Some("cancelled"))))
    }

    fn confirmed(&mut self) -> Over {
        let node = self.turn.node.name.clone();
        self.succeeded("confirmation", &node)?;
        self.go(State::ReadyForAction)?;
        self.say(&self.speech.text(&Text::Confirmed))?;
        self.act().map(Some)
    }

    /// A no: the person is asked what to change, and the conversation stays where messages are understood.
    fn denied(&mut self) -> Over {
        let node = self.turn.node.name.clone();
        self.succeeded("confirmation", &node)?;
        self.what_to_change()?;
        Ok(None)
    }

    fn what_to_change(&mut self) -> Result<(), Stop> {
        let words = self.speech.text(&Text::WhatToChange);
        self.expecting = Expecting::Change;
        self.asked = None;
        self.question.clone_from(&words);
        self.say(&words)
    }

    /// Nothing is to be changed after all. To deny it and then change nothing leads nowhere, so it is counted.
    fn nothing_to_change(&mut self) -> Over {
        let node = self.turn.node.name.clone();
        match self.failed("modification", &node)? {
            Tried::GivenUp(past) => self.abort(&past, &Text::RetryAborted),
            Tried::Again => self.next(),
        }
    }

    fn unclear(&mut self, text: &str) -> Over {
        let node = self.turn.node.name.clone();
        match self.expecting {
            Expecting::Anything => self.next(),
            // "No" to "What would you like to change it to?": it stays as it is.
            Expecting::Slot(slot) if self.is_known(slot) && understand(text) == Answer::No => self.next(),
            Expecting::Slot(slot) => {
                let key = self.slot_key(slot);
                match self.failed("collect_next_slot", &key)? {
                    Tried::GivenUp(past) => self.abort(&past, &Text::RetryAborted),
                    Tried::Again => self.again(),
                }
            }
            Expecting::Confirmation => match self.failed("confirmation", &node)? {
                Tried::GivenUp(past) => self.abort(&past, &Text::Aborted),
                Tried::Again => {
                    self.wait_again()?;
                    // The sentence asks for a yes or a no by itself; behind it stands what the yes would be to.
                    let what = match &self.spec.question {
                        Some(_) => self.question.clone(),
                        None => self.summary(),
                    };
                    self.say(&self.speech.text(&Text::AskAgain { question: Some(&what) }))?;
                    Ok(None)
                }
            },
            Expecting::Change => match self.failed("modification", &node)? {
                Tried::GivenUp(past) => self.abort(&past, &Text::RetryAborted),
                Tried::Again => self.again(),
            },
        }
    }

    fn is_known(&self, slot: usize) -> bool {
        self.spec.slots.get(slot).is_some_and(|slot| self.values.contains_key(&slot.name))
    }

    /// Not understood: the open question once more.
    fn again(&mut self) -> Over {
        self.wait_again()?;
        let words = format!("{} {}", self.speech.line(&Line::AskAgain), self.question);
        self.say(&words)?;
        Ok(None)
    }

    /// It is clear what is to be changed, and open to what.
    fn open_change(&mut self, act: Act, slot: usize) -> Over {
        if !self.is_known(slot) {
            // It has no value yet, so there is nothing to change: it is simply asked for.
            return if act == Act::Fill { self.next() } else { self.which(act) };
        }
        self.go(State::WaitingForSlot)?;
        self.change_to(slot)
    }

    fn change_to(&mut self, slot: usize) -> Over {
        let words = self.speech.line(&Line::ChangeTo { slot: &self.label(slot) });
        self.expecting = Expecting::Slot(slot);
        self.asked = None;
        self.question.clone_from(&words);
        self.say(&words)?;
        Ok(None)
    }

    /// Something is to be changed, and nobody can tell what.
    fn which(&mut self, act: Act) -> Over {
        let node = self.turn.node.name.clone();
        match self.failed(act.operation(), &node)? {
            Tried::GivenUp(past) => self.abort(&past, &Text::RetryAborted),
            Tried::Again if self.values.is_empty() => self.next(),
            Tried::Again => {
                self.what_to_change()?;
                Ok(None)
            }
        }
    }

    /// Values: each is checked, those that fit are taken, the first that does not is asked for again.
    fn take(&mut self, act: Act, found: &[Found]) -> Over {
        let node = self.turn.node.name.clone();
        let was_confirming = self.expecting == Expecting::Confirmation;
        self.go(State::ValidatingSlot)?;
        let (mut unfit, mut same, mut news) = (Vec::new(), None, Vec::new());
        for value in found {
            let Some(form) = self.reader.forms().get(value.slot) else { continue };
            let name = form.slot().name.clone();
            let Some(checked) = form.check(&value.said) else {
                unfit.push(value.clone());
                continue;
            };
            let before = self.values.get(&name).cloned();
            if before.as_ref() == Some(&checked) {
                same = Some(value.slot);
                continue;
            }
            let shown = show(&checked);
            self.values.insert(name, checked);
            self.recent.retain(|slot| *slot != value.slot);
            self.recent.push(value.slot);
            let key = self.slot_key(value.slot);
            self.succeeded("validation", &key)?;
            self.succeeded("collect_next_slot", &key)?;
            if before.is_some() {
                news.push((value.slot, shown));
            }
        }
        self.keep_slots();
        self.changed(act, &news)?;
        if was_confirming && !news.is_empty() {
            self.succeeded("confirmation", &node)?;
        }
        if self.spec.max_changes.is_some_and(|most| self.changes > most) {
            return self.hand_over("changed_too_often", &Line::HandOver).map(Some);
        }
        if !unfit.is_empty() {
            return self.does_not_fit(&unfit);
        }
        match same {
            Some(slot) if found.len() == 1 && act != Act::Fill => self.stays_the_same(act, slot),
            _ => self.next(),
        }
    }

    /// Tells that values were changed.
    fn changed(&mut self, act: Act, news: &[(usize, String)]) -> Result<(), Stop> {
        let node = self.turn.node.name.clone();
        for (slot, value) in news {
            // An answer to "What would you like to change it to?" is a change as well.
            let asked_for = act == Act::Fill && self.expecting == Expecting::Slot(*slot);
            let act = if act == Act::Modify || asked_for { Act::Modify } else { Act::Correct };
            self.changes += 1;
            self.succeeded(act.operation(), &node)?;
            let label = self.label(*slot);
            let line = match act {
                Act::Modify => Line::Changed { slot: &label, value },
                _ => Line::Updated { slot: &label, value },
            };
            self.say(&self.speech.line(&line))?;
        }
        Ok(())
    }

    fn does_not_fit(&mut self, unfit: &[Found]) -> Over {
        let mut words = Vec::new();
        for value in unfit {
            let key = self.slot_key(value.slot);
            if let Tried::GivenUp(past) = self.failed("validation", &key)? {
                return self.abort(&past, &Text::RetryAborted);
            }
            words.push(self.why_not(value));
        }
        let Some(first) = unfit.first() else { return self.next() };
        self.go(State::WaitingForSlot)?;
        self.expecting = Expecting::Slot(first.slot);
        self.asked = Some(self.expecting);
        self.question = self.slot_question(first.slot);
        words.push(self.question.clone());
        self.say(&words.join(" "))?;
        Ok(None)
    }

    /// Why a value does not fit: in the words of the file, or by its kind.
    fn why_not(&mut self, value: &Found) -> String {
        let Some(slot) = self.spec.slots.get(value.slot) else { return String::new() };
        if let Some(words) = &slot.invalid {
            self.turn.walk.vars.set("value", json!(crate::dialogue::clean(&value.said)));
            return self.fill(words);
        }
        let values = slot.values.join(", ");
        self.speech.line(&match slot.kind {
            _ if !slot.values.is_empty() => Line::InvalidValue { values: &values },
            SlotKind::Number if slot.pattern.is_none() => Line::InvalidNumber,
            SlotKind::Date => Line::InvalidDate,
            _ => Line::Invalid,
        })
    }

    /// A change to what it is already: counted, because it leads nowhere.
    fn stays_the_same(&mut self, act: Act, slot: usize) -> Over {
        let node = self.turn.node.name.clone();
        match self.failed(act.operation(), &node)? {
            Tried::GivenUp(past) => self.abort(&past, &Text::RetryAborted),
            Tried::Again => {
                self.go(State::WaitingForSlot)?;
                self.change_to(slot)
            }
        }
    }

    /// A guard gave up. Everything is dropped, the person is told, and it starts over; if it was given up too often a
    /// person takes over.
    fn abort(&mut self, past: &Past, text: &Text<'_>) -> Over {
        let stands = stands(&past.decision);
        // A release may have come before anybody was told, or after.
        let released = stands && self.released(past).is_ok();
        self.clear_failing()?;
        self.go(State::Error)?;
        let words = self.speech.text(text);
        // The guard has said it already, if it speaks the person's language.
        if spoken(&past.decision).as_deref() == Some(words.as_str()) {
            self.said(&words);
        } else {
            self.say(&words)?;
        }
        self.aborts += 1;
        if stands {
            // The guard calls a person; until there is a release nothing goes on.
            if !released {
                self.say(&self.speech.line(&Line::HandOver))?;
                self.released(past)?;
                self.said(&words);
            }
            self.aborts = 0;
        } else if self.aborts >= self.spec.max_aborts.unwrap_or(MAX_ABORTS).max(1) {
            return self.hand_over("aborted", &Line::HandOver).map(Some);
        }
        self.start_over(words, *text == Text::Aborted)
    }

    /// Everything is dropped. The conversation stays in the state `error` until the next message, which starts from
    /// `idle`; where the words do not ask anything themselves, the first question is put.
    fn start_over(&mut self, words: String, asks: bool) -> Over {
        self.values.clear();
        self.keep_slots();
        self.recent.clear();
        self.asked = None;
        self.expecting = Expecting::Anything;
        self.question = words;
        if self.upcoming(State::Error, State::Idle) {
            // A history in which the first question was put from `idle`.
            self.go(State::Idle)?;
            return self.next();
        }
        if !asks {
            self.ask(0)?;
        }
        Ok(None)
    }

    /// Does what there is to do, tells about it, and ends.
    fn act(&mut self) -> Result<Outcome, Stop> {
        let mut output = self.summary();
        if let Some(action) = &self.spec.action {
            self.go(State::ExecutingAction)?;
            let args = self.turn.walk.vars.fill_value(&action.args);
            let call = self.name.clone();
            let called = if self.spec.confirm {
                // The yes was to these very values.
                tool::invoke_approved(self.turn, &call, &action.tool, &args)?
            } else {
                tool::invoke(self.turn, &call, &action.tool, &args, None)?
            };
            match called {
                Called::Ran { ok: true, text } => output = text.trim_end().to_owned(),
                Called::Ran { ok: false, text } | Called::Refused { text } => {
                    self.go(State::Error)?;
                    let words = self.speech.line(&Line::Failed { error: &text });
                    self.say(&words)?;
                    return Ok(self.over(Status::Failure, &text, Some("action_failed")));
                }
            }
            self.go(State::GeneratingResponse)?;
            self.turn.walk.vars.set("action", json!(output));
        }
        if let Some(response) = &self.spec.response {
            let words = self.fill(response);
            self.say(&words)?;
        }
        self.go(State::Completed)?;
        Ok(self.over(Status::Success, &output, None))
    }
}
