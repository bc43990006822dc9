//! Event log of one session of a run: replays stored events, then records new ones.
//!
//! A resumed run takes the same path again. Each event it reaches is in its history, with its decision and its result,
//! until the history ends; from there on the run is live. So a finished step never runs twice, and the decisions are
//! the same as without the interruption.

use super::event_sink::{EventSink, RecordedEvent};
use super::outcome::RunStop;
use super::person_messages::{PersonMessage, PersonMessages, is_answer};
use crate::run_error::RunError;
use flyball::{Decision, Event, EventKind, SessionPhase, Sessions, Verdict, is_blank};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

/// Event field that numbers the run's own events; events sent by people lack it.
const RUN_SEQ_FIELD: &str = "run";
/// Event field that says that no work happened since the previous event.
const IDLE_FIELD: &str = "idle";

/// Receives every event of a run.
pub trait RunListener: Send + Sync {
    /// An event was decided on. `live` is false during replay.
    fn on_event(&self, past: &RecordedEvent, live: bool);

    /// Output of a node's program or model.
    fn on_output(&self, session: &str, node: &str, text: &str);

    /// A note about the run itself.
    fn on_note(&self, text: &str);
}

/// Source of answers while the run is active.
pub trait HumanInput: Send + Sync {
    /// Asks a question. Returns `None` if no one can answer now and the run must wait. `about` is the decision that led
    /// to the question; its evidence is shown first. A blank answer does not count.
    fn ask(&self, session: &str, question: &str, about: Option<&Decision>) -> Option<String>;
}

/// Maximum number of speculated events before they are stored.
const MAX_SPECULATED_EVENTS: usize = 256;
/// Event field that marks an event decided on before it was stored.
const SPECULATED_FIELD: &str = "ahead";

/// Speculative state. Between two side effects the run does not wait for the disk: the governor decides in memory, and
/// the decisions are stored and compared before the next side effect.
#[derive(Default)]
struct Speculation {
    sessions: Option<Sessions>,
    events: Vec<Event>,
    loaded: bool,
}

/// Event log of one session.
pub struct ReplayLog {
    sink: Arc<EventSink>,
    listener: Arc<dyn RunListener>,
    session: String,
    history: VecDeque<RecordedEvent>,
    /// Number of the run's own events left in the history.
    own_events_left: usize,
    /// Events from people that nothing has consumed yet.
    inbox: VecDeque<RecordedEvent>,
    /// Messages from people for the next prompt.
    pub(super) messages: PersonMessages,
    /// Number of the run's own events so far.
    own_event_count: u64,
    /// The session was resumed, and nothing new has happened yet.
    resumed: bool,
    /// A person released the session after the last denial.
    released: bool,
    /// The last release left the session halted: it released a guard, but a person had stopped the session.
    still_halted: bool,
    /// Speculated events that are not stored yet.
    speculation: Speculation,
    last_decision: Option<Decision>,
}

impl ReplayLog {
    /// Opens a session with its history.
    pub(super) fn open(
        sink: &Arc<EventSink>,
        listener: &Arc<dyn RunListener>,
        session: &str,
    ) -> Result<Self, RunError> {
        let history: VecDeque<RecordedEvent> = sink.history(session)?.into();
        Ok(ReplayLog {
            sink: Arc::clone(sink),
            listener: Arc::clone(listener),
            session: session.to_owned(),
            resumed: !history.is_empty(),
            own_events_left: history.iter().filter(|past| is_own_event(&past.event)).count(),
            history,
            inbox: VecDeque::new(),
            messages: PersonMessages::default(),
            own_event_count: 0,
            released: false,
            still_halted: false,
            speculation: Speculation::default(),
            last_decision: None,
        })
    }

    /// Stored status of the session.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn report(&self) -> Result<Option<flyball::SessionReport>, RunError> {
        self.sink.session_report(&self.session)
    }

    /// Session name.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Whether the run is live: none of the events it created are left to replay. Events from people may be.
    pub(super) fn is_live(&self) -> bool {
        self.own_events_left == 0
    }

    /// Whether the session was resumed and nothing new has happened yet.
    pub(super) fn was_resumed(&self) -> bool {
        self.resumed
    }

    /// The latest decision.
    #[must_use]
    pub fn last_decision(&self) -> Option<&Decision> {
        self.last_decision.as_ref()
    }

    /// Whether the last step was interrupted: its start is the last stored event.
    pub(super) fn was_interrupted(&self) -> bool {
        self.resumed && self.is_live() && self.own_event_count > 0
    }

    /// Takes the run's next own event from the history if it is the expected one.
    pub(super) fn replay(&mut self, expected: impl FnOnce(&Event) -> bool) -> Option<RecordedEvent> {
        self.collect_inbox();
        let next = self.history.front()?;
        let number = next.event.extra.get(RUN_SEQ_FIELD).and_then(Value::as_u64);
        if number != Some(self.own_event_count + 1) || !expected(&next.event) {
            return None;
        }
        let past = self.history.pop_front()?;
        self.own_event_count += 1;
        self.own_events_left = self.own_events_left.saturating_sub(1);
        self.on_recorded(&past, false);
        Some(past)
    }

    /// Replays an event that only earlier versions recorded at this point.
    pub(crate) fn replay_only(&mut self, event: &Event) -> Option<RecordedEvent> {
        self.replay(|stored| matches_recorded(stored, event))
    }

    /// Replays an event from the history, or decides on and stores a new one.
    ///
    /// # Errors
    /// If it cannot be stored, or the history contains a different event.
    pub fn record(&mut self, event: Event) -> Result<RecordedEvent, RunStop> {
        if let Some(past) = self.replay(|stored| matches_recorded(stored, &event)) {
            return Ok(past);
        }
        if !self.is_live() {
            return Err(self.diverged(event.kind.name()));
        }
        let event = self.stamp(event);
        self.store(event)
    }

    /// The error for a history that does not continue with an event of this type.
    pub(super) fn diverged(&self, now: &str) -> RunStop {
        let recorded = self.next_own().map_or("nothing", |event| event.kind.name());
        let what = format!(
            "step {} of session '{}' was recorded as '{recorded}' but is now '{now}'",
            self.own_event_count + 1,
            self.session
        );
        let advice = "the workflow file has changed since the run started; restore it, or start a new run";
        RunError::new("run_diverged", what, advice).into()
    }

    /// Like [`ReplayLog::record`], for an event without side effects: it may be stored later, together with the next
    /// one.
    ///
    /// # Errors
    /// As [`ReplayLog::record`].
    pub(super) fn speculate(&mut self, event: Event) -> Result<RecordedEvent, RunStop> {
        if !self.history.is_empty() || !self.can_speculate()? {
            return self.record(event);
        }
        let mut event = self.stamp(event);
        event.at = Some(self.sink.now());
        event.extra.insert(SPECULATED_FIELD.to_owned(), json!(true));
        let Some(sessions) = &mut self.speculation.sessions else { return self.store(event) };
        let decision = sessions.step(&event).map_err(RunError::from)?;
        if decision.decision > Verdict::Allow
            || !decision.effects.is_empty()
            || self.speculation.events.len() + 1 >= MAX_SPECULATED_EVENTS
        {
            return self.store(event);
        }
        self.speculation.events.push(event.clone());
        Ok(RecordedEvent { event, decision })
    }

    /// Stores the speculated events.
    ///
    /// # Errors
    /// As [`ReplayLog::record`].
    pub(super) fn flush(&mut self) -> Result<(), RunStop> {
        self.speculation.events.pop().map_or(Ok(()), |last| self.store(last).map(drop))
    }

    /// Discards the speculative state, because events of other sessions may affect this one.
    pub(super) fn reset_speculation(&mut self) {
        self.speculation.sessions = None;
        self.speculation.loaded = false;
    }

    fn can_speculate(&mut self) -> Result<bool, RunStop> {
        if !self.speculation.loaded {
            self.speculation.loaded = true;
            self.speculation.sessions = self.sink.speculative_sessions(&self.session)?;
        }
        Ok(self.speculation.sessions.is_some())
    }

    fn stamp(&mut self, mut event: Event) -> Event {
        self.own_event_count += 1;
        event.session.clone_from(&self.session);
        event.extra.insert(RUN_SEQ_FIELD.to_owned(), json!(self.own_event_count));
        if std::mem::take(&mut self.resumed) {
            event.extra.insert(IDLE_FIELD.to_owned(), json!(true));
        }
        event
    }

    /// Stores an event together with the speculated ones before it. If one of those is denied now, the session was
    /// stopped in the meantime: the run stops before any side effect.
    fn store(&mut self, event: Event) -> Result<RecordedEvent, RunStop> {
        let mut events = std::mem::take(&mut self.speculation.events);
        events.push(event);
        let last = events.len();
        let mut stored = self.sink.submit(events)?;
        for (at, past) in stored.iter().enumerate() {
            self.on_recorded(past, true);
            let speculated = past.event.extra.contains_key(SPECULATED_FIELD);
            if speculated && at + 1 < last && must_stop(&past.decision) {
                self.reset_speculation();
                return Err(stop_for(past.decision.clone()));
            }
            // Keep the in-memory copy in step.
            if !speculated && let Some(sessions) = &mut self.speculation.sessions {
                let known = sessions.step(&past.event);
                if known.as_ref().ok().map(|known| known.seq) != Some(past.decision.seq) {
                    self.reset_speculation();
                }
            }
        }
        stored.pop().ok_or_else(|| {
            RunError::new("decision_missing", "the event received no decision", "try again").into()
        })
    }

    /// Ends an abandoned session. Does nothing if it never started or has ended.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(super) fn close(&mut self, outcome: &str) -> Result<(), RunStop> {
        let ours = |past: &&RecordedEvent| is_own_event(&past.event);
        let last = self.history.iter().rfind(ours).map(|past| past.event.kind.name());
        if last.is_none_or(|name| name == "session.ended") {
            return Ok(());
        }
        self.own_event_count = self.history.iter().filter(ours).count() as u64;
        self.own_events_left = 0;
        self.history.clear();
        let kind = EventKind::SessionEnded { outcome: Some(outcome.to_owned()) };
        self.record(Event::new("", kind)).map(drop)
    }

    /// Checks whether the run may continue after a decision: the session is not stopped, or a person has released it.
    ///
    /// # Errors
    /// The reason for the stop.
    pub fn ensure_may_continue(&mut self, past: &RecordedEvent) -> Result<(), RunStop> {
        if must_stop(&past.decision) {
            self.skip_speculated();
            if !self.was_released() {
                return Err(stop_for(past.decision.clone()));
            }
            self.reset_speculation();
        }
        Ok(())
    }

    /// Next input from a person, with its decision. `about` is the decision that led to the question.
    ///
    /// # Errors
    /// [`RunStop::AwaitingInput`] if there is no input yet.
    pub fn next_human_input(
        &mut self,
        question: &str,
        about: Option<&Decision>,
        asker: &dyn HumanInput,
    ) -> Result<RecordedEvent, RunStop> {
        self.collect_inbox();
        while let Some(past) = self.inbox.pop_front() {
            // During replay every recorded input counts as an answer; live, only a person's answer does.
            if !self.is_live() || is_answer(&past.event) {
                self.messages.remove(&past);
                return Ok(past);
            }
        }
        let answer = asker.ask(&self.session, question, about).filter(|text| !is_blank(text));
        let Some(text) = answer else { return Err(RunStop::AwaitingInput(question.to_owned())) };
        let waits = self.last_decision.as_ref().map(|decision| decision.state)
            == Some(SessionPhase::AwaitingConfirmation);
        let kind = if waits {
            EventKind::ConfirmationAnswered { text: Some(text), value: None, by: None, digest: None }
        } else {
            EventKind::UserMessage { text, origin: flyball::MessageOrigin::Human }
        };
        self.resumed = false;
        self.flush()?;
        self.reset_speculation();
        self.store(Event::new(self.session.clone(), kind))
    }

    /// The run's next own event in the history.
    pub(super) fn next_own(&self) -> Option<&Event> {
        Some(&self.history.iter().find(|past| is_own_event(&past.event))?.event)
    }

    /// Skips speculated events that were stored together with a denied one; the run never reached them.
    fn skip_speculated(&mut self) {
        let past = |past: &RecordedEvent| {
            past.event.extra.contains_key(SPECULATED_FIELD) && must_stop(&past.decision)
        };
        while self.history.front().is_some_and(past) {
            self.history.pop_front();
            self.own_events_left = self.own_events_left.saturating_sub(1);
            self.own_event_count += 1;
        }
    }

    /// Whether the run may continue after its own release left the session halted: a person has lifted the stop since,
    /// or the history shows that it continued.
    pub(super) fn released_since(&mut self) -> bool {
        self.was_released() || !self.is_live()
    }

    /// Whether a release since the last denial lets the run continue. During replay it continued after every release.
    fn was_released(&mut self) -> bool {
        self.collect_inbox();
        std::mem::take(&mut self.released) && !(self.is_live() && self.still_halted)
    }

    /// Whether a person sent a message or a release since the run's last own event, so that a retry makes sense.
    pub(crate) fn human_intervened(&mut self) -> bool {
        self.collect_inbox();
        let message = self.inbox.pop_front();
        if let Some(message) = message.as_ref().and_then(PersonMessage::from_event) {
            self.messages.add(message);
        }
        let answered = message.is_some_and(|past| !self.is_live() || is_answer(&past.event));
        let released = self.was_released();
        if answered || released {
            self.reset_speculation();
        }
        answered || released
    }

    /// Moves events from people out of the history, up to the run's next own event.
    fn collect_inbox(&mut self) {
        while self.history.front().is_some_and(|past| !is_own_event(&past.event)) {
            let Some(past) = self.history.pop_front() else { return };
            self.on_recorded(&past, false);
            match &past.event.kind {
                EventKind::HumanReleased { .. } => {
                    if let Some(message) = PersonMessage::from_event(&past) {
                        self.messages.add(message);
                    }
                    self.released = true;
                    self.still_halted = past.decision.state == SessionPhase::Halted;
                }
                EventKind::UserMessage { .. }
                | EventKind::PersonMessage { .. }
                | EventKind::ConfirmationAnswered { .. } => {
                    self.inbox.push_back(past);
                }
                _ => {}
            }
        }
    }

    /// Messages from people for the next prompt: all undelivered ones or, during replay, those that the recorded prompt
    /// contained.
    pub(crate) fn messages_for_prompt(&mut self) -> Vec<PersonMessage> {
        self.collect_inbox();
        let sent: Vec<PersonMessage> = self.inbox.iter().filter_map(PersonMessage::from_event).collect();
        sent.into_iter().for_each(|message| self.messages.add(message));
        if self.is_live() {
            return self.messages.pending().to_vec();
        }
        let answer = |past: &&RecordedEvent| matches!(past.event.kind, EventKind::AssistantMessage { .. });
        let next = self.history.iter().filter(|past| is_own_event(&past.event)).find(answer);
        next.map(|past| self.messages.pending_in_prompt_of(&past.event)).unwrap_or_default()
    }

    /// Marks the messages in the prompt of a reply as delivered, so that nothing else consumes them as an answer.
    pub(crate) fn mark_delivered(&mut self, answer: &Event) {
        let contained = self.messages.pending_in_prompt_of(answer);
        self.inbox.retain(|past| {
            PersonMessage::from_event(past).is_none_or(|message| !contained.contains(&message))
        });
        self.messages.mark_delivered(answer);
    }

    /// Text of the undelivered messages from people.
    pub(crate) fn undelivered_text(&self) -> Option<String> {
        self.messages.text()
    }

    fn on_recorded(&mut self, past: &RecordedEvent, live: bool) {
        if is_own_event(&past.event) {
            self.released = false;
        }
        self.last_decision = Some(past.decision.clone());
        self.listener.on_event(past, live);
    }
}

fn is_own_event(event: &Event) -> bool {
    event.extra.contains_key(RUN_SEQ_FIELD)
}

/// Whether a stored event matches the event that the run has reached.
fn matches_recorded(stored: &Event, now: &Event) -> bool {
    let same_way = match (&stored.kind, &now.kind) {
        (
            EventKind::TransitionRequested { from, to, .. },
            EventKind::TransitionRequested { from: now_from, to: now_to, .. },
        ) => from == now_from && to == now_to,
        (EventKind::ToolRequested { tool, .. }, EventKind::ToolRequested { tool: now, .. }) => tool == now,
        _ => true,
    };
    same_way && stored.kind.name() == now.kind.name() && stored.node == now.node
}

/// Whether a session must stop after a decision.
pub(crate) fn must_stop(decision: &Decision) -> bool {
    let refused = decision.decision >= Verdict::Block;
    refused && matches!(decision.state, SessionPhase::Halted | SessionPhase::Blocked)
}

fn stop_for(decision: Decision) -> RunStop {
    let gate = decision.trips.iter().any(|trip| trip.guard == "gate");
    match decision.state {
        _ if gate => RunStop::Gate(Box::new(decision)),
        SessionPhase::Halted => RunStop::Halted(Box::new(decision)),
        _ => RunStop::Blocked { decision: Box::new(decision), alternatives: Vec::new() },
    }
}
