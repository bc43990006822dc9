//! Where the events of a run go: into the journal, or, for a run that keeps nothing, through the governor alone.

use crate::fail::Failure;
use flyball::policy::Policy;
use flyball::{Decision, Event, PolicySource, Report, Session, Sessions};
use flyball_journal::{Door, Incoming, Recorder, mark_suspension};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time of day in milliseconds since 1970; given from outside, so that tests can turn it.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// One event with its decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// The event, as it is stored.
    pub event: Event,
    /// What was decided.
    pub decision: Decision,
}

/// Where events go.
pub struct Book {
    inner: Inner,
    clock: Clock,
    door: Door,
    /// Nanoseconds that the governor and the journal have taken.
    spent: AtomicU64,
}

enum Inner {
    Kept(Box<Recorder>),
    Bare { sessions: Mutex<Sessions>, policy: Arc<Policy> },
}

impl Book {
    /// A book in which everything is kept.
    ///
    /// # Errors
    /// If the policy's patterns for secrets cannot be used.
    pub fn kept(recorder: Recorder, clock: Clock) -> Result<Self, Failure> {
        let door = Door::new(&recorder.policy().journal)?;
        Ok(Book { inner: Inner::Kept(Box::new(recorder)), clock, door, spent: AtomicU64::new(0) })
    }

    /// A book that keeps nothing.
    #[must_use]
    pub fn bare(source: PolicySource, clock: Clock) -> Self {
        let policy = Arc::clone(source.base());
        let sessions = Mutex::new(Sessions::new(source));
        Book {
            inner: Inner::Bare { sessions, policy },
            clock,
            door: Door::default(),
            spent: AtomicU64::new(0),
        }
    }

    /// The policy that its sessions start from.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        match &self.inner {
            Inner::Kept(recorder) => recorder.policy(),
            Inner::Bare { policy, .. } => policy,
        }
    }

    /// The recorder behind it, if it keeps anything.
    #[must_use]
    pub fn recorder(&self) -> Option<&Recorder> {
        match &self.inner {
            Inner::Kept(recorder) => Some(recorder),
            Inner::Bare { .. } => None,
        }
    }

    /// The time of day.
    #[must_use]
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// How long a session may work, before its next event, until a budget of time is used up.
    ///
    /// # Errors
    /// If the session cannot be read.
    pub(super) fn time_left(&self, session: &str, node: &str) -> Result<Option<Duration>, Failure> {
        let now = self.now();
        let left = match &self.inner {
            Inner::Kept(recorder) => {
                let found = recorder.session(session)?;
                found.and_then(|(state, policy)| state.time_left_ms(&policy, Some(node), now))
            }
            Inner::Bare { sessions, .. } => {
                let sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
                let found = sessions.get(session);
                found.and_then(|found| found.state().time_left_ms(found.policy(), Some(node), now))
            }
        };
        // An amount may be used up to the last millisecond; only one more is over it.
        Ok(left.map(|ms| Duration::from_millis(ms.saturating_add(1))))
    }

    /// How long the governor and the journal have taken so far.
    #[must_use]
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed))
    }

    /// Decides upon events, in order; with a journal, they are stored together when this returns.
    pub(super) fn submit(&self, events: Vec<Event>) -> Result<Vec<Past>, Failure> {
        let began = Instant::now();
        let done = self.decide(events);
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.spent.fetch_add(nanos, Ordering::Relaxed);
        done
    }

    fn decide(&self, mut events: Vec<Event>) -> Result<Vec<Past>, Failure> {
        for event in events.iter_mut().filter(|event| event.at.is_none()) {
            event.at = Some((self.clock)());
            mark_suspension(event);
        }
        match &self.inner {
            Inner::Kept(recorder) => {
                let incoming: Vec<Incoming> =
                    events.into_iter().map(|event| self.clean(event)).collect::<Result<_, _>>()?;
                let events: Vec<Event> = incoming.iter().map(|incoming| incoming.event.clone()).collect();
                let answers = recorder.submit_all(incoming);
                let past =
                    |(event, answer): (Event, flyball_journal::Answer)| Ok(Past { event, decision: answer? });
                events.into_iter().zip(answers).map(past).collect()
            }
            Inner::Bare { sessions, .. } => {
                let mut sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
                let past = |event: Event| {
                    let decision = sessions.step(&event)?;
                    Ok(Past { event, decision })
                };
                events.into_iter().map(past).collect()
            }
        }
    }

    /// What is stored is what the run goes on with: after a restart there is nothing else.
    fn clean(&self, event: Event) -> Result<Incoming, Failure> {
        let text = event.to_json().to_string();
        let clean = self.door.clean(&text);
        if clean == text {
            return Ok(Incoming { event, text });
        }
        Ok(Incoming::read(clean.into_owned(), event.at)?)
    }

    /// How a session stands; nothing if it is not known.
    pub(super) fn report(&self, session: &str) -> Result<Option<Report>, Failure> {
        match &self.inner {
            Inner::Kept(recorder) => {
                Ok(recorder.session(session)?.map(|(state, policy)| state.report(&policy)))
            }
            Inner::Bare { sessions, .. } => {
                let sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(sessions.get(session).map(|known| known.state().report(known.policy())))
            }
        }
    }

    /// A session as it is stored, to look ahead with; nothing if there is nothing to gain or it cannot be told alone.
    pub(super) fn ahead(&self, session: &str) -> Result<Option<Sessions>, Failure> {
        let Inner::Kept(recorder) = &self.inner else { return Ok(None) };
        let Some((state, policy)) = recorder.session(session)? else { return Ok(None) };
        if state.parent().is_some() {
            return Ok(None);
        }
        let mut sessions = Sessions::new(recorder.source().clone());
        sessions.insert(session, Session::under(Arc::new(policy), state));
        Ok(Some(sessions))
    }

    /// Everything that is stored of a session.
    pub(super) fn history(&self, session: &str) -> Result<Vec<Past>, Failure> {
        let Inner::Kept(recorder) = &self.inner else { return Ok(Vec::new()) };
        let records = recorder.journal().records(session, 1, u64::MAX)?;
        let first = records.first().map_or(1, |record| record.seq);
        if first != 1 {
            return Err(Failure::new(
                "run_pruned",
                format!("the first events of session '{session}' were pruned, so that it cannot be taken up"),
                "start it anew with `flyball run`",
            ));
        }
        let read = |record: flyball_journal::Record| {
            let broken = |what: String| {
                let place = format!("session '{session}', event {}", record.seq);
                Failure::new("store_corrupt", what, "look at it with `flyball doctor`").at(place)
            };
            let mut event = Event::from_json(&record.text).map_err(|error| broken(error.what))?;
            event.at = record.at;
            let decision =
                serde_json::from_str(&record.decision).map_err(|error| broken(error.to_string()))?;
            Ok(Past { event, decision })
        };
        records.into_iter().map(read).collect()
    }
}
