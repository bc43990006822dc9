//! The course of a conversation: what is heard and said, which state it is in, what the guards have to count.
//!
//! Two sessions keep it. Messages, words, and every attempt, failure and success (`operation.failed`,
//! `operation.succeeded`) belong to the run's own session: that is where people send their words to and where a
//! release is given, and its counters hold for as long as the run lasts. The steps from state to state go to a session
//! below it, `SESSION/NODE.dialogue.N`, one for each conversation: in the run's own they would be taken for steps of
//! the workflow, and the tenth message for the tenth visit of a node. There every message of the person begins the
//! count of steps anew (`cycle`, `budgets.message`), as a conversation goes round by its nature, and only one that goes
//! round without a person has a mistake in it. What goes round with a person is counted above.

use super::super::talk;
use crate::dialogue::{Expecting, Form, Known, Line, Reader, Speech, State, clean, show};
use crate::engine::{Lane, Outcome, Past, Status, Stop, Turn};
use crate::provider::Message;
use crate::workflow::spec::{Collect, Words};
use flyball::confirm::{Language, Text};
use flyball::{Decision, Event, Kind, Origin, Verdict};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// A conversation that is under way.
pub(super) struct Course<'c, 't> {
    pub(super) turn: &'c mut Turn<'t>,
    pub(super) spec: &'c Collect,
    pub(super) reader: Reader,
    pub(super) speech: Speech,
    pub(super) values: Map<String, Value>,
    pub(super) expecting: Expecting,
    /// The slots in the order in which they got their values.
    pub(super) recent: Vec<usize>,
    /// The question that is open.
    pub(super) question: String,
    /// What was asked for last by a question of its own.
    pub(super) asked: Option<Expecting>,
    pub(super) aborts: u64,
    pub(super) changes: u64,
    /// What was said to a model that reads the messages, and what it answered.
    pub(super) talk: Vec<Message>,
    /// A name for this conversation that no other of the run has.
    pub(super) name: String,
    states: Lane,
    state: State,
    /// What was said since the person spoke.
    words: Vec<String>,
    /// Operations that have failed and not succeeded since.
    failing: BTreeSet<(String, String)>,
    /// The last message brought something.
    got_on: bool,
}

/// What a guard said to a failed attempt.
pub(super) enum Tried {
    /// It may be tried again.
    Again,
    /// It is given up.
    GivenUp(Box<Past>),
}

impl<'c, 't> Course<'c, 't> {
    /// Begins a conversation, or takes it up.
    pub(super) fn open(turn: &'c mut Turn<'t>, spec: &'c Collect) -> Result<Self, Stop> {
        let forms: Vec<Form> = spec.slots.iter().map(Form::new).collect::<Result<_, _>>()?;
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
        let states = turn.walk.lane_below(&name, None, Some(policy))?;
        let guess = spec.slots.first().map(|slot| slot.ask.in_language(Language::En)).unwrap_or_default();
        let world = &turn.walk.world;
        let speech = Speech::new(&world.book.policy().guards.confirmation, &world.plan.texts, guess);
        let mut course = Course {
            reader: Reader::new(forms, spec.answers.keys().cloned()),
            turn,
            spec,
            speech,
            values: Map::new(),
            expecting: Expecting::Anything,
            recent: Vec::new(),
            question: String::new(),
            asked: None,
            aborts: 0,
            changes: 0,
            talk: Vec::new(),
            name,
            states,
            state: State::Idle,
            words: Vec::new(),
            failing: BTreeSet::new(),
            got_on: false,
        };
        course.keep_slots();
        Ok(course)
    }

    /// The first words: what was said already, an opening question, or the question for the first slot.
    pub(super) fn begin(&mut self) -> Result<Option<Outcome>, Stop> {
        let from = self.spec.from.as_ref().map(|from| self.turn.walk.vars.fill(from)).unwrap_or_default();
        if !from.trim().is_empty() {
            self.speech.heard(&from);
            let counted = self.count_message()?;
            self.states.go_on(&counted)?;
            return self.follow(&from);
        }
        if let Some(opening) = &self.spec.opening {
            let question = self.fill(opening);
            self.put(&question)?;
            return Ok(None);
        }
        self.next()
    }

    /// The next message; or how it ended, if it brought nothing once too often.
    pub(super) fn listen(&mut self) -> Result<Result<String, Outcome>, Stop> {
        let past = talk::hear(self.turn, &self.words.join(" "))?;
        self.words.clear();
        let text = talk::words(&past);
        self.speech.heard(&text);
        if self.turn.walk.lane.decision().map(|decision| decision.state) == Some(flyball::Status::Halted) {
            // Somebody has stopped the run meanwhile. The question is said once more, and goes no further than that.
            self.say(&self.question.clone())?;
            self.words.clear();
        }
        let counted = self.count_message()?;
        if stands(&past.decision) {
            self.stand_still(&past)?;
        }
        if has_no_progress(&counted.decision) {
            return Ok(Err(self.hand_over("no_progress", &Line::NoProgress)?));
        }
        self.states.go_on(&counted)?;
        Ok(Ok(text))
    }

    /// Tells the session of the states that the person has spoken; its words are kept once, in the session above.
    fn count_message(&mut self) -> Result<Past, Stop> {
        self.got_on = false;
        let spoke = Kind::UserMessage { text: String::new(), origin: Origin::Human };
        let counted = self.states.record(Event::new("", spoke))?;
        if self.state == State::Error {
            self.go(State::Idle)?;
        }
        if self.state != State::Understanding {
            self.go(State::Understanding)?;
        }
        Ok(counted)
    }

    /// The session was stopped by the person's own message: they are told why, and it waits for a release.
    fn stand_still(&mut self, past: &Past) -> Result<(), Stop> {
        let lane = &mut self.turn.walk.lane;
        // A release may have come before anybody was told, or after.
        let released = lane.go_on(past).is_ok();
        if has_no_progress(&past.decision) {
            self.go(State::Fallback)?;
            self.say(&self.speech.line(&Line::NoProgress))?;
        }
        if !released {
            self.turn.walk.lane.go_on(past)?;
        }
        if self.state == State::Fallback {
            self.go(State::Understanding)?;
        }
        self.words.clear();
        Ok(())
    }

    /// Takes a step to another state. The guards look at it as they do at every step.
    pub(super) fn go(&mut self, next: State) -> Result<(), Stop> {
        let next = self.state.to(next)?;
        let (from, to) = (self.state.as_str().to_owned(), next.as_str().to_owned());
        let step = self.turn.event(Kind::TransitionRequested { from, to, edge: None });
        let mut told = false;
        loop {
            let past = self.states.record(step.clone())?;
            if past.decision.decision < Verdict::Block {
                break;
            }
            if !std::mem::replace(&mut told, true) {
                self.say(&self.speech.text(&Text::RetryAborted))?;
            }
            if comes_from_above(&past.decision) {
                // The run's own session was halted, and is not any more: else nothing could have been said.
                continue;
            }
            self.states.go_on(&past)?;
            if !stands(&past.decision) && !self.encouraged()? {
                return Err(Stop::Blocked { decision: Box::new(past.decision), alternatives: Vec::new() });
            }
        }
        self.state = next;
        Ok(())
    }

    /// Whether the next thing in the history of the states is this step.
    pub(super) fn upcoming(&self, from: State, to: State) -> bool {
        self.states.upcoming_step(from.as_str(), to.as_str()).is_some()
    }

    /// Whether a person has said or released something since a step was refused: worth another try.
    fn encouraged(&mut self) -> Result<bool, Stop> {
        if self.states.encouraged() {
            return Ok(true);
        }
        if !self.turn.walk.lane.encouraged() {
            return Ok(false);
        }
        let spoke = Kind::UserMessage { text: String::new(), origin: Origin::Human };
        self.states.record(Event::new("", spoke))?;
        Ok(true)
    }

    /// The state it is in.
    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// Says something.
    pub(super) fn say(&mut self, text: &str) -> Result<(), Stop> {
        // Not the last word of the node: an answer is waited for, or something is done first.
        let kind = Kind::AssistantMessage { text: text.to_owned(), structured: None, is_final: false };
        let said = self.turn.event(kind);
        self.turn.walk.tell(said)?;
        self.said(text);
        Ok(())
    }

    /// Something was said already; it is only shown with the next question.
    pub(super) fn said(&mut self, text: &str) {
        self.words.push(text.to_owned());
    }

    /// Asks something. The same question again and again is the guards' business.
    pub(super) fn put(&mut self, question: &str) -> Result<(), Stop> {
        let asked = self.turn.event(Kind::QuestionAsked { text: question.to_owned() });
        self.turn.walk.ask(&asked)?;
        self.words.push(question.to_owned());
        question.clone_into(&mut self.question);
        Ok(())
    }

    /// Words of the file, filled in, in the person's language.
    pub(super) fn fill(&self, words: &Words) -> String {
        self.turn.walk.vars.fill(words.in_language(self.speech.language()))
    }

    /// What a slot is called.
    pub(super) fn label(&self, slot: usize) -> String {
        let Some(slot) = self.spec.slots.get(slot) else { return String::new() };
        match &slot.label {
            Some(label) => self.fill(label),
            None => slot.name.replace('_', " "),
        }
    }

    /// Everything that is known, in words.
    pub(super) fn summary(&self) -> String {
        let known = |(at, form): (usize, &Form)| {
            let value = self.values.get(&form.slot().name)?;
            Some(format!("{}: {}", self.label(at), clean(&show(value))))
        };
        self.reader.forms().iter().enumerate().filter_map(known).collect::<Vec<_>>().join(", ")
    }

    /// What is known when a message is read.
    pub(super) fn known(&self) -> Known<'_> {
        Known { values: &self.values, expecting: self.expecting, recent: &self.recent }
    }

    /// Lets templates use what is known: `{{slots.NAME}}`. Slots of other conversations stay.
    pub(super) fn keep_slots(&mut self) {
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

    /// The key of an operation that is about one slot.
    pub(super) fn slot_key(&self, slot: usize) -> String {
        let name = self.spec.slots.get(slot).map(|slot| slot.name.as_str()).unwrap_or_default();
        format!("{}.{name}", self.turn.node.name)
    }

    /// An attempt failed. Whether it may be tried again is the guard's to say; how long to wait is the person's.
    pub(super) fn failed(&mut self, operation: &str, key: &str) -> Result<Tried, Stop> {
        let kind = Kind::OperationFailed { operation: operation.to_owned(), key: Some(key.to_owned()) };
        let mut event = self.turn.event(kind);
        // The person is told here, once, with what the question is about and in their language.
        event.extra.insert("quiet".to_owned(), json!(true));
        let past = self.turn.walk.lane.record(event)?;
        let operation = (operation.to_owned(), key.to_owned());
        if past.decision.decision < Verdict::Block {
            self.failing.insert(operation);
            return Ok(Tried::Again);
        }
        self.failing.remove(&operation);
        Ok(Tried::GivenUp(Box::new(past)))
    }

    /// An attempt succeeded, or was denied on purpose: its counter is cleared.
    pub(super) fn succeeded(&mut self, operation: &str, key: &str) -> Result<(), Stop> {
        let kind = Kind::OperationSucceeded { operation: operation.to_owned(), key: Some(key.to_owned()) };
        self.failing.remove(&(operation.to_owned(), key.to_owned()));
        let event = self.turn.event(kind);
        self.turn.walk.tell(event)?;
        if self.spec.max_turns_without_progress.is_some() && !std::mem::replace(&mut self.got_on, true) {
            let kind = Kind::OperationSucceeded { operation: "turn".to_owned(), key: None };
            self.states.record(Event::new("", kind))?;
        }
        Ok(())
    }

    /// A conversation that is over leaves no half-full counters to the next one.
    pub(super) fn clear_failing(&mut self) -> Result<(), Stop> {
        for (operation, key) in std::mem::take(&mut self.failing) {
            let kind = Kind::OperationSucceeded { operation, key: Some(key) };
            let event = self.turn.event(kind);
            self.turn.walk.tell(event)?;
        }
        Ok(())
    }

    /// Whether a session that was stopped by this decision may go on: a person has released it.
    pub(super) fn released(&mut self, past: &Past) -> Result<(), Stop> {
        self.turn.walk.lane.go_on(past)?;
        self.words.clear();
        Ok(())
    }

    /// A person takes over: the workflow leads on by `on_unclear`.
    pub(super) fn hand_over(&mut self, why: &str, line: &Line<'_>) -> Result<Outcome, Stop> {
        self.clear_failing()?;
        self.go(State::Fallback)?;
        let words = self.speech.line(line);
        self.say(&words)?;
        Ok(self.over(Status::Unclear, &words, Some(why)))
    }

    /// The end of the conversation.
    pub(super) fn over(&mut self, status: Status, words: &str, why: Option<&str>) -> Outcome {
        self.keep_slots();
        let about = json!({"state": self.state.as_str(), "slots": self.values, "why": why});
        Outcome::success(words).with_status(status).with(about)
    }
}

/// Whether a session must not go on after a decision.
pub(super) fn stands(decision: &Decision) -> bool {
    decision.decision >= Verdict::Block
        && matches!(decision.state, flyball::Status::Halted | flyball::Status::Blocked)
}

/// Whether a refusal is that of the session above.
fn comes_from_above(decision: &Decision) -> bool {
    decision.trips.iter().any(|trip| trip.reason == "user_stop" && trip.scope.contains_key("session"))
}

fn has_no_progress(decision: &Decision) -> bool {
    decision.decision >= Verdict::Block && decision.trips.iter().any(|trip| trip.reason == "no_progress")
}
