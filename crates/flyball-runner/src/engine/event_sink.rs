//! Destination of a run's events: the store, or only the governor for an ephemeral run.

use crate::run_error::RunError;
use flyball::policy::Policy;
use flyball::{Decision, Event, PolicySource, Session, SessionReport, Sessions};
use flyball_store::{Recorder, RedactingParser, Submission, stamp_suspension};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wall clock in milliseconds since the Unix epoch; injected so that tests control it.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// An event with its decision.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEvent {
    /// The event as stored.
    pub event: Event,
    /// The decision on it.
    pub decision: Decision,
}

/// Submits events to the governor, and to the store if the run is durable.
pub struct EventSink {
    inner: EventSinkInner,
    clock: Clock,
    parser: RedactingParser,
    /// Nanoseconds spent in the governor and the store.
    overhead_ns: AtomicU64,
}

enum EventSinkInner {
    Durable(Box<Recorder>),
    Ephemeral { sessions: Mutex<Sessions>, policy: Arc<Policy> },
}

impl EventSink {
    /// Sink that stores every event.
    ///
    /// # Errors
    /// If the policy's secret patterns are invalid.
    pub fn durable(recorder: Recorder, clock: Clock) -> Result<Self, RunError> {
        let parser = RedactingParser::new(&recorder.policy().journal)?;
        Ok(EventSink {
            inner: EventSinkInner::Durable(Box::new(recorder)),
            clock,
            parser,
            overhead_ns: AtomicU64::new(0),
        })
    }

    /// Sink that stores nothing.
    #[must_use]
    pub fn ephemeral(source: PolicySource, clock: Clock) -> Self {
        let policy = Arc::clone(source.base());
        let sessions = Mutex::new(Sessions::new(source));
        EventSink {
            inner: EventSinkInner::Ephemeral { sessions, policy },
            clock,
            parser: RedactingParser::default(),
            overhead_ns: AtomicU64::new(0),
        }
    }

    /// Base policy of its sessions.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        match &self.inner {
            EventSinkInner::Durable(recorder) => recorder.policy(),
            EventSinkInner::Ephemeral { policy, .. } => policy,
        }
    }

    /// The recorder, if the sink is durable.
    #[must_use]
    pub fn recorder(&self) -> Option<&Recorder> {
        match &self.inner {
            EventSinkInner::Durable(recorder) => Some(recorder),
            EventSinkInner::Ephemeral { .. } => None,
        }
    }

    /// Current time.
    #[must_use]
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Time that a session may work until a time budget runs out; `None` without such a budget.
    ///
    /// # Errors
    /// If the session cannot be read.
    pub(super) fn time_left(&self, session: &str, node: &str) -> Result<Option<Duration>, RunError> {
        let now = self.now();
        let left = match &self.inner {
            EventSinkInner::Durable(recorder) => {
                let found = recorder.session(session)?;
                found.and_then(|(state, policy)| state.time_left_ms(&policy, Some(node), now))
            }
            EventSinkInner::Ephemeral { sessions, .. } => {
                let sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
                let found = sessions.get(session);
                found.and_then(|found| found.state().time_left_ms(found.policy(), Some(node), now))
            }
        };
        // A budget is exceeded only one millisecond after it is used up.
        Ok(left.map(|ms| Duration::from_millis(ms.saturating_add(1))))
    }

    /// Total time spent in the governor and the store.
    #[must_use]
    pub fn overhead(&self) -> Duration {
        Duration::from_nanos(self.overhead_ns.load(Ordering::Relaxed))
    }

    /// Decides on events in order. A durable sink commits them together before this returns.
    pub(super) fn submit(&self, mut events: Vec<Event>) -> Result<Vec<RecordedEvent>, RunError> {
        let began = Instant::now();
        for event in events.iter_mut().filter(|event| event.at.is_none()) {
            event.at = Some((self.clock)());
            stamp_suspension(event);
        }
        let decided = match &self.inner {
            EventSinkInner::Durable(recorder) => {
                let incoming: Vec<Submission> =
                    events.into_iter().map(|event| self.redact(event)).collect::<Result<_, _>>()?;
                let events: Vec<Event> = incoming.iter().map(|incoming| incoming.event.clone()).collect();
                let answers = recorder.submit_all(incoming);
                let past = |(event, answer): (Event, flyball_store::RecordResult)| {
                    Ok(RecordedEvent { event, decision: answer? })
                };
                events.into_iter().zip(answers).map(past).collect()
            }
            EventSinkInner::Ephemeral { sessions, .. } => {
                let mut sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
                let past = |event: Event| {
                    let decision = sessions.step(&event)?;
                    Ok(RecordedEvent { event, decision })
                };
                events.into_iter().map(past).collect()
            }
        };
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.overhead_ns.fetch_add(nanos, Ordering::Relaxed);
        decided
    }

    /// Redacts secrets. The run continues with the stored form, because a resumed run has nothing else.
    fn redact(&self, event: Event) -> Result<Submission, RunError> {
        let text = event.to_json().to_string();
        let clean = self.parser.redact(&text);
        if clean == text {
            return Ok(Submission { event, text });
        }
        Ok(Submission::parse(clean.into_owned(), event.at)?)
    }

    /// Status of a session; `None` if it is unknown.
    pub(super) fn session_report(&self, session: &str) -> Result<Option<SessionReport>, RunError> {
        match &self.inner {
            EventSinkInner::Durable(recorder) => {
                Ok(recorder.session(session)?.map(|(state, policy)| state.report(&policy)))
            }
            EventSinkInner::Ephemeral { sessions, .. } => {
                let sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(sessions.get(session).map(|known| known.state().report(known.policy())))
            }
        }
    }

    /// In-memory copy of a stored session for speculation. `None` if the sink is ephemeral, or if the session has a
    /// parent and so cannot be evaluated alone.
    pub(super) fn speculative_sessions(&self, session: &str) -> Result<Option<Sessions>, RunError> {
        let EventSinkInner::Durable(recorder) = &self.inner else { return Ok(None) };
        let Some((state, policy)) = recorder.session(session)? else { return Ok(None) };
        if state.parent().is_some() {
            return Ok(None);
        }
        let mut sessions = Sessions::new(recorder.policy_source().clone());
        sessions.insert(session, Session::with_state(Arc::new(policy), state));
        Ok(Some(sessions))
    }

    /// All stored events of a session.
    pub(super) fn history(&self, session: &str) -> Result<Vec<RecordedEvent>, RunError> {
        let EventSinkInner::Durable(recorder) = &self.inner else { return Ok(Vec::new()) };
        let records = recorder.store().records(session, 1, u64::MAX)?;
        let first = records.first().map_or(1, |record| record.seq);
        if first != 1 {
            return Err(RunError::new(
                "run_pruned",
                format!("session '{session}' cannot be resumed: its first events were pruned"),
                "start a new run with `flyball run`",
            ));
        }
        let read = |record: flyball_store::EventRecord| {
            let broken = |what: String| {
                let place = format!("session '{session}', event {}", record.seq);
                RunError::new("store_corrupt", what, "run `flyball doctor`").at(place)
            };
            let mut event = Event::from_json(&record.text).map_err(|error| broken(error.message))?;
            event.at = record.at;
            let decision =
                serde_json::from_str(&record.decision_json).map_err(|error| broken(error.to_string()))?;
            Ok(RecordedEvent { event, decision })
        };
        records.into_iter().map(read).collect()
    }
}
