//! One session of a run, from its first event on. What is stored already is taken from the store; what is not, happens.
//!
//! A run that is taken up again walks the same way once more. Each event that it comes to is in its history, with its
//! decision and its result, until the history ends; from there on the walk is live. So a finished step never runs twice,
//! and the decisions are the same as without the interruption.

use super::book::{Book, Past};
use super::person_messages::{PersonMessage, PersonMessages, is_answer};
use super::stop::Stop;
use crate::fail::Failure;
use flyball::{Decision, Event, Kind, Sessions, Status, Verdict, is_blank};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

/// The field of an event that numbers the events of the run itself; what people send does not have it.
const NUMBER: &str = "run";
/// The field that says that nobody worked since the event before.
const IDLE: &str = "idle";

/// Who is told of every event.
pub trait Watcher: Send + Sync {
    /// An event was decided upon. `live` is false while a run is taken up again.
    fn event(&self, past: &Past, live: bool);

    /// A piece of output of a node's program or model.
    fn output(&self, session: &str, node: &str, text: &str);

    /// Words about the run itself.
    fn note(&self, text: &str);
}

/// Who answers when a person is asked while the run goes on.
pub trait Asker: Send + Sync {
    /// The answer; nothing if nobody is there, and the run must wait. `about` is the decision that made the question
    /// necessary: its evidence is shown before the question. An answer without a visible character is not one.
    fn ask(&self, session: &str, question: &str, about: Option<&Decision>) -> Option<String>;
}

/// How many events are looked ahead to at most before they are stored.
const AHEAD: usize = 256;
/// The field of an event that was decided upon before it was stored.
const FORESEEN: &str = "ahead";

/// Looking ahead: between two effects the walk need not wait for the disk. The governor is asked in memory, and what
/// it said is stored, and compared, before anything leaves.
#[derive(Default)]
struct Ahead {
    sessions: Option<Sessions>,
    events: Vec<Event>,
    tried: bool,
}

/// A session of a run.
pub struct Lane {
    book: Arc<Book>,
    watcher: Arc<dyn Watcher>,
    session: String,
    history: VecDeque<Past>,
    /// How many events of our own are in it.
    ours_left: usize,
    /// What people sent and nobody has read yet.
    mail: VecDeque<Past>,
    /// Messages from people that the next prompt of an agent contains.
    pub(super) messages: PersonMessages,
    /// Events of our own so far.
    count: u64,
    /// The session went on from a history, and nothing has happened since.
    resumed: bool,
    /// A person's release that came after the last refusal.
    released: bool,
    /// The last release left the session halted: it was for a guard, and a person has stopped the session.
    still_halted: bool,
    /// Events that were looked ahead to, and are not stored yet.
    ahead: Ahead,
    decision: Option<Decision>,
}

impl Lane {
    /// Opens a session, with its history.
    pub(super) fn open(book: &Arc<Book>, watcher: &Arc<dyn Watcher>, session: &str) -> Result<Self, Failure> {
        let history: VecDeque<Past> = book.history(session)?.into();
        Ok(Lane {
            book: Arc::clone(book),
            watcher: Arc::clone(watcher),
            session: session.to_owned(),
            resumed: !history.is_empty(),
            ours_left: history.iter().filter(|past| is_ours(&past.event)).count(),
            history,
            mail: VecDeque::new(),
            messages: PersonMessages::default(),
            count: 0,
            released: false,
            still_halted: false,
            ahead: Ahead::default(),
            decision: None,
        })
    }

    /// How its session stands, as far as it is stored.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn report(&self) -> Result<Option<flyball::Report>, Failure> {
        self.book.report(&self.session)
    }

    /// Its name.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Whether the walk is live: nothing that it did itself is left of its history. What people sent may be.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.ours_left == 0
    }

    /// Whether the session has a history, and nothing new has happened yet.
    #[must_use]
    pub fn was_taken_up(&self) -> bool {
        self.resumed
    }

    /// The last decision.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// Whether the step that was begun last was cut off: its begin is the last thing that is stored.
    #[must_use]
    pub fn was_cut_off(&self) -> bool {
        self.resumed && self.is_live() && self.count > 0
    }

    /// An event: as it is stored, or decided upon and stored now.
    ///
    /// # Errors
    /// If it cannot be stored, or the history has something else in its place.
    pub fn record(&mut self, event: Event) -> Result<Past, Stop> {
        self.count += 1;
        if let Some(past) = self.next_of_ours(&event)? {
            self.seen(&past, false);
            return Ok(past);
        }
        let event = self.stamped(event);
        let mut events = std::mem::take(&mut self.ahead.events);
        events.push(event);
        let mut stored = self.store(events)?;
        stored.pop().ok_or_else(|| Failure::new("run_lost", "an event got no decision", "try again").into())
    }

    /// The same for an event that leads to no effect by itself: it may be stored later, together with the next one.
    ///
    /// # Errors
    /// As [`Lane::record`].
    pub fn foresee(&mut self, event: Event) -> Result<Past, Stop> {
        if !self.history.is_empty() || !self.looks_ahead()? {
            return self.record(event);
        }
        self.count += 1;
        let mut event = self.stamped(event);
        event.at = Some(self.book.now());
        event.extra.insert(FORESEEN.to_owned(), json!(true));
        let Some(sessions) = &mut self.ahead.sessions else { return self.record(event) };
        let decision = sessions.step(&event).map_err(Failure::from)?;
        self.ahead.events.push(event.clone());
        if decision.decision > Verdict::Allow
            || !decision.effects.is_empty()
            || self.ahead.events.len() >= AHEAD
        {
            let events = std::mem::take(&mut self.ahead.events);
            let mut stored = self.store(events)?;
            return stored
                .pop()
                .ok_or_else(|| Failure::new("run_lost", "an event got no decision", "try again").into());
        }
        Ok(Past { event, decision })
    }

    /// Stores what was looked ahead to.
    ///
    /// # Errors
    /// As [`Lane::record`].
    pub fn settle(&mut self) -> Result<(), Stop> {
        let events = std::mem::take(&mut self.ahead.events);
        if events.is_empty() { Ok(()) } else { self.store(events).map(drop) }
    }

    /// What happens in other sessions may change this one: nothing is known ahead any more.
    pub(super) fn look_again(&mut self) {
        self.ahead.sessions = None;
        self.ahead.tried = false;
    }

    fn looks_ahead(&mut self) -> Result<bool, Stop> {
        if !self.ahead.tried {
            self.ahead.tried = true;
            self.ahead.sessions = self.book.ahead(&self.session)?;
        }
        Ok(self.ahead.sessions.is_some())
    }

    fn stamped(&mut self, mut event: Event) -> Event {
        event.session.clone_from(&self.session);
        event.extra.insert(NUMBER.to_owned(), json!(self.count));
        if std::mem::take(&mut self.resumed) {
            event.extra.insert(IDLE.to_owned(), json!(true));
        }
        event
    }

    /// Stores events together. If one of them was refused that was foreseen to be allowed, somebody has stopped the
    /// session meanwhile: the walk goes no further, and nothing has left.
    fn store(&mut self, events: Vec<Event>) -> Result<Vec<Past>, Stop> {
        let last = events.len();
        let stored = self.book.submit(events)?;
        for (at, past) in stored.iter().enumerate() {
            self.seen(past, true);
            let foreseen = past.event.extra.contains_key(FORESEEN);
            if foreseen && at + 1 < last && stands_still(&past.decision) {
                self.look_again();
                return Err(stopped(past.decision.clone()));
            }
            // What was not foreseen is told to the copy in memory too.
            if !foreseen && let Some(sessions) = &mut self.ahead.sessions {
                let known = sessions.step(&past.event);
                if known.as_ref().ok().map(|known| known.seq) != Some(past.decision.seq) {
                    self.look_again();
                }
            }
        }
        Ok(stored)
    }

    /// Ends a session that nobody walks any more, wherever it was; one that never began or has ended stays as it is.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub fn close(&mut self, outcome: &str) -> Result<(), Stop> {
        let ours = |past: &&Past| is_ours(&past.event);
        let last = self.history.iter().rfind(ours).map(|past| past.event.kind.name());
        if last.is_none_or(|name| name == "session.ended") {
            return Ok(());
        }
        self.count = self.history.iter().filter(ours).count() as u64;
        self.ours_left = 0;
        self.history.clear();
        let kind = Kind::SessionEnded { outcome: Some(outcome.to_owned()) };
        self.record(Event::new("", kind)).map(drop)
    }

    /// Whether the walk may go on after a decision: the session stands, or a person has released it since.
    ///
    /// # Errors
    /// How it stopped.
    pub fn go_on(&mut self, past: &Past) -> Result<(), Stop> {
        if stands_still(&past.decision) {
            self.skip_foreseen();
            if !self.was_released() {
                return Err(stopped(past.decision.clone()));
            }
            self.look_again();
        }
        Ok(())
    }

    /// What a person sent next, with its decision. `about` is the decision that made the question necessary.
    ///
    /// # Errors
    /// [`Stop::Asks`] if nobody has sent anything yet.
    pub fn listen(
        &mut self,
        question: &str,
        about: Option<&Decision>,
        asker: &dyn Asker,
    ) -> Result<Past, Stop> {
        self.collect_mail();
        while let Some(past) = self.mail.pop_front() {
            // What the history shows as accepted was an answer then; from here on only a person's words are.
            if !self.is_live() || is_answer(&past.event) {
                self.messages.withdraw(&past);
                return Ok(past);
            }
        }
        let answer = asker.ask(&self.session, question, about).filter(|text| !is_blank(text));
        let Some(text) = answer else { return Err(Stop::Asks(question.to_owned())) };
        let waits =
            self.decision.as_ref().map(|decision| decision.state) == Some(Status::AwaitingConfirmation);
        let kind = if waits {
            Kind::ConfirmationAnswered { text: Some(text), value: None, by: None, digest: None }
        } else {
            Kind::UserMessage { text, origin: flyball::Origin::Human }
        };
        self.resumed = false;
        self.settle()?;
        self.look_again();
        let mut past = self.book.submit(vec![Event::new(self.session.clone(), kind)])?;
        let past =
            past.pop().ok_or_else(|| Failure::new("run_lost", "an event got no decision", "try again"))?;
        self.seen(&past, true);
        Ok(past)
    }

    /// The type of the next event of our own in the history.
    #[must_use]
    pub fn next_name(&self) -> Option<&'static str> {
        Some(self.history.iter().find(|past| is_ours(&past.event))?.event.kind.name())
    }

    /// The end of a node's turn, if that is the next event of our own in the history.
    #[must_use]
    pub fn upcoming(&self, node: &str) -> Option<&Event> {
        let next = self.history.iter().find(|past| is_ours(&past.event))?;
        let ends = matches!(next.event.kind, Kind::TurnFinished { .. });
        (ends && next.event.node.as_deref() == Some(node)).then_some(&next.event)
    }

    /// Events that were stored together with one that was refused: the walk never came to them.
    fn skip_foreseen(&mut self) {
        let past = |past: &Past| past.event.extra.contains_key(FORESEEN) && stands_still(&past.decision);
        while self.history.front().is_some_and(past) {
            self.history.pop_front();
            self.ours_left = self.ours_left.saturating_sub(1);
            self.count += 1;
        }
    }

    /// A step from a node to another, if that is the next event of our own in the history.
    #[must_use]
    pub fn upcoming_step(&self, from: &str, to: &str) -> Option<&Event> {
        let next = self.history.iter().find(|past| is_ours(&past.event))?;
        let found = match &next.event.kind {
            Kind::TransitionRequested { from: then, to: there, .. } => then == from && there == to,
            _ => false,
        };
        found.then_some(&next.event)
    }

    /// Whether the walk may continue after a release of its own that left the session halted: a person has lifted the
    /// stop since, or the history shows that it continued.
    pub(super) fn released_since(&mut self) -> bool {
        self.was_released() || !self.is_live()
    }

    /// Whether a release has come since the last refusal that lets the walk continue. In the history it continued after
    /// every release.
    fn was_released(&mut self) -> bool {
        self.collect_mail();
        std::mem::take(&mut self.released) && !(self.is_live() && self.still_halted)
    }

    /// Whether a person has said or released something since the last event of our own: worth another try.
    pub(crate) fn encouraged(&mut self) -> bool {
        self.collect_mail();
        let message = self.mail.pop_front();
        if let Some(message) = message.as_ref().and_then(PersonMessage::of) {
            self.messages.add(message);
        }
        let heard = message.is_some_and(|past| !self.is_live() || is_answer(&past.event));
        let released = self.was_released();
        if heard || released {
            self.look_again();
        }
        heard || released
    }

    /// Takes what people sent out of the history, up to the next event of our own.
    fn collect_mail(&mut self) {
        while self.history.front().is_some_and(|past| !is_ours(&past.event)) {
            let Some(past) = self.history.pop_front() else { return };
            self.seen(&past, false);
            match &past.event.kind {
                Kind::HumanReleased { .. } => {
                    if let Some(message) = PersonMessage::of(&past) {
                        self.messages.add(message);
                    }
                    self.released = true;
                    self.still_halted = past.decision.state == Status::Halted;
                }
                Kind::UserMessage { .. } | Kind::PersonMessage { .. } | Kind::ConfirmationAnswered { .. } => {
                    self.mail.push_back(past);
                }
                _ => {}
            }
        }
    }

    /// The messages from people that the next prompt contains: all that no agent has received, or, while the run is
    /// replayed, those that the prompt contained then.
    pub(crate) fn for_prompt(&mut self) -> Vec<PersonMessage> {
        self.collect_mail();
        let sent: Vec<PersonMessage> = self.mail.iter().filter_map(PersonMessage::of).collect();
        sent.into_iter().for_each(|message| self.messages.add(message));
        if self.is_live() {
            return self.messages.waiting().to_vec();
        }
        let answer = |past: &&Past| matches!(past.event.kind, Kind::AssistantMessage { .. });
        let next = self.history.iter().filter(|past| is_ours(&past.event)).find(answer);
        next.map(|past| self.messages.in_prompt_of(&past.event)).unwrap_or_default()
    }

    /// Takes note of the messages that the prompt behind an answer contained: nobody else takes them for an answer.
    pub(crate) fn delivered(&mut self, answer: &Event) {
        let contained = self.messages.in_prompt_of(answer);
        self.mail.retain(|past| PersonMessage::of(past).is_none_or(|message| !contained.contains(&message)));
        self.messages.note_delivered(answer);
    }

    /// The text of the messages from people that no agent has received yet.
    pub(crate) fn undelivered_text(&self) -> Option<String> {
        self.messages.text()
    }

    /// The next event of our own in the history. It must be of the same kind.
    fn next_of_ours(&mut self, event: &Event) -> Result<Option<Past>, Stop> {
        self.collect_mail();
        let Some(past) = self.history.pop_front() else { return Ok(None) };
        self.ours_left = self.ours_left.saturating_sub(1);
        let number = past.event.extra.get(NUMBER).and_then(Value::as_u64);
        if number != Some(self.count) || !alike(&past.event, event) {
            let what = format!(
                "step {} of session '{}' was '{}' when it was stored, and is '{}' now",
                self.count,
                self.session,
                past.event.kind.name(),
                event.kind.name()
            );
            let advice =
                "the workflow file was changed since the run began; start it anew, or put the file back";
            return Err(Failure::new("run_diverged", what, advice).into());
        }
        Ok(Some(past))
    }

    fn seen(&mut self, past: &Past, live: bool) {
        if is_ours(&past.event) {
            self.released = false;
        }
        self.decision = Some(past.decision.clone());
        self.watcher.event(past, live);
    }
}

fn is_ours(event: &Event) -> bool {
    event.extra.contains_key(NUMBER)
}

/// Whether a stored event stands for one that the walk has come to.
fn alike(stored: &Event, now: &Event) -> bool {
    let same_way = match (&stored.kind, &now.kind) {
        (
            Kind::TransitionRequested { from, to, .. },
            Kind::TransitionRequested { from: now_from, to: now_to, .. },
        ) => from == now_from && to == now_to,
        (Kind::ToolRequested { tool, .. }, Kind::ToolRequested { tool: now, .. }) => tool == now,
        _ => true,
    };
    same_way && stored.kind.name() == now.kind.name() && stored.node == now.node
}

/// Whether a session must not go on after a decision.
fn stands_still(decision: &Decision) -> bool {
    let refused = decision.decision >= Verdict::Block;
    refused && matches!(decision.state, Status::Halted | Status::Blocked)
}

fn stopped(decision: Decision) -> Stop {
    let gate = decision.trips.iter().any(|trip| trip.guard == "gate");
    match decision.state {
        _ if gate => Stop::Gate(Box::new(decision)),
        Status::Halted => Stop::Halted(Box::new(decision)),
        _ => Stop::Blocked { decision: Box::new(decision), alternatives: Vec::new() },
    }
}
