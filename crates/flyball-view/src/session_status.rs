//! The status of a session as people see it: the stored state, and what time and leases add to it.
//!
//! A stored session is `running` until an event says otherwise, even if its process died a month ago. So `running` is
//! shown only while a process holds the session's lease or while events arrive.

use crate::run_status::unanswered_question;
use flyball::SessionPhase;
use flyball::limits::TREE_DEPTH;
use flyball_store::{AdminStore, HolderIsGone, SessionFilter, SessionRow, StoreError};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A session without a lease is idle when its last event is this old.
pub const IDLE_AFTER_MS: u64 = 60_000;

/// The current activity of a session. Computed on demand, never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// A process holds it, or an event arrived within the last minute.
    Running,
    /// No event for a minute or more.
    Idle,
    /// The process that ran it is gone.
    Lost,
    /// A plan is awaiting approval.
    AwaitingConfirmation,
    /// A question to a person has not been answered.
    AwaitingAnswer,
    /// It needs a release.
    Blocked,
    /// It is stopped until a release.
    Halted,
    /// It is over.
    Ended,
}

impl SessionStatus {
    /// Every status, in display order.
    pub const ALL: [SessionStatus; 8] = [
        SessionStatus::Running,
        SessionStatus::Idle,
        SessionStatus::Lost,
        SessionStatus::AwaitingConfirmation,
        SessionStatus::AwaitingAnswer,
        SessionStatus::Blocked,
        SessionStatus::Halted,
        SessionStatus::Ended,
    ];

    /// The name used in JSON and filters.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SessionStatus::Running => "running",
            SessionStatus::Idle => "idle",
            SessionStatus::Lost => "lost",
            SessionStatus::AwaitingConfirmation => "awaiting_confirmation",
            SessionStatus::AwaitingAnswer => "awaiting_answer",
            SessionStatus::Blocked => "blocked",
            SessionStatus::Halted => "halted",
            SessionStatus::Ended => "ended",
        }
    }
}

/// A session's status and its details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionActivity {
    /// The current status.
    pub status: SessionStatus,
    /// It has ended while it was halted or blocked: it needs a release before it can be resumed.
    pub is_held: bool,
    /// How long it has been idle, if it is.
    pub idle_ms: Option<u64>,
    /// The question that has not been answered, if there is one.
    pub question: Option<String>,
}

impl SessionActivity {
    fn of(status: SessionStatus) -> Self {
        SessionActivity { status, is_held: false, idle_ms: None, question: None }
    }

    /// Whether the session is waiting for a person: an approval, an answer or a release.
    #[must_use]
    pub const fn needs_person(&self) -> bool {
        self.is_held
            || matches!(
                self.status,
                SessionStatus::AwaitingConfirmation
                    | SessionStatus::AwaitingAnswer
                    | SessionStatus::Blocked
                    | SessionStatus::Halted
            )
    }

    /// As the store has it, without time and leases; for sessions that are known to wait for a person.
    pub(crate) fn from_stored(head: &SessionRow) -> Self {
        let status = match head.summary.status {
            SessionPhase::Running => SessionStatus::Running,
            SessionPhase::AwaitingConfirmation => SessionStatus::AwaitingConfirmation,
            SessionPhase::Blocked => SessionStatus::Blocked,
            SessionPhase::Halted => SessionStatus::Halted,
            SessionPhase::Ended => SessionStatus::Ended,
        };
        let is_held = status == SessionStatus::Ended && head.summary.is_held();
        SessionActivity { is_held, ..SessionActivity::of(status) }
    }

    /// The status for a table or a label: `running`, `idle 13 min`, `lost`.
    #[must_use]
    pub fn label(&self) -> String {
        match (self.idle_ms, self.status) {
            (Some(ms), status) => format!("{} {}", status.as_str(), crate::formatting::coarse_duration(ms)),
            (None, SessionStatus::AwaitingConfirmation) => "awaiting approval".to_owned(),
            (None, SessionStatus::Ended) if self.is_held => "ended, still held".to_owned(),
            (None, SessionStatus::AwaitingAnswer) => "awaiting answer".to_owned(),
            (None, status) => status.as_str().to_owned(),
        }
    }
}

/// Computes the status of a store's sessions at one point in time.
pub struct ActivityReader<'a> {
    store: &'a dyn AdminStore,
    now: u64,
    /// Holders of live leases, by session.
    holders: BTreeMap<String, String>,
    holder_is_gone: HolderIsGone,
    /// Heads of parents, as far as they were needed.
    parents: RefCell<BTreeMap<String, Option<SessionRow>>>,
}

/// The process behind a session.
enum SessionProcess {
    /// A live process.
    Alive,
    /// A process that is gone.
    Gone,
    /// A run that is over.
    RunEnded,
    /// Another program that sends events.
    Client,
}

impl<'a> ActivityReader<'a> {
    /// Reads the clock and the leases of a store.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn new(store: &'a dyn AdminStore, holder_is_gone: HolderIsGone) -> Result<Self, StoreError> {
        let holders = store.leases()?.into_iter().map(|lease| (lease.session, lease.holder)).collect();
        let now = store.now()?;
        Ok(ActivityReader { store, now, holders, holder_is_gone, parents: RefCell::default() })
    }

    /// The store's time at which the leases were read.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The current activity of a session.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn activity(&self, head: &SessionRow) -> Result<SessionActivity, StoreError> {
        match head.summary.status {
            SessionPhase::Running => self.running(head),
            _ => Ok(SessionActivity::from_stored(head)),
        }
    }

    /// Sessions awaiting a person's answer, newest first; at most `limit` sessions are examined.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn awaiting_answer(&self, limit: usize) -> Result<Vec<SessionRow>, StoreError> {
        let mut asking = Vec::new();
        for head in self.store.list_sessions(SessionFilter::All, limit)? {
            if self.activity(&head)?.status == SessionStatus::AwaitingAnswer {
                asking.push(head);
            }
        }
        Ok(asking)
    }

    /// A session that no event has ended, halted or blocked.
    fn running(&self, head: &SessionRow) -> Result<SessionActivity, StoreError> {
        let runner = self.process(head)?;
        if !matches!(runner, SessionProcess::RunEnded)
            && let Some(question) = unanswered_question(self.store, &head.session, head.seq)?
        {
            let status = SessionStatus::AwaitingAnswer;
            return Ok(SessionActivity { question: Some(question), ..SessionActivity::of(status) });
        }
        let idle_ms = self.now.saturating_sub(head.updated);
        Ok(match runner {
            SessionProcess::RunEnded => SessionActivity::of(SessionStatus::Ended),
            SessionProcess::Gone => SessionActivity::of(SessionStatus::Lost),
            SessionProcess::Client if idle_ms >= IDLE_AFTER_MS => {
                SessionActivity { idle_ms: Some(idle_ms), ..SessionActivity::of(SessionStatus::Idle) }
            }
            SessionProcess::Alive | SessionProcess::Client => SessionActivity::of(SessionStatus::Running),
        })
    }

    /// The process that runs a session: the holder of its lease, or of a parent session's lease.
    fn process(&self, head: &SessionRow) -> Result<SessionProcess, StoreError> {
        let mut at = head.clone();
        for _ in 0..=TREE_DEPTH {
            if let Some(holder) = self.holders.get(&at.session) {
                let gone = (self.holder_is_gone)(&at.session, holder);
                return Ok(if gone { SessionProcess::Gone } else { SessionProcess::Alive });
            }
            if at.epoch > 0 {
                return Ok(SessionProcess::Gone);
            }
            let Some(parent) = &at.summary.parent else { break };
            let Some(parent) = self.parent(parent)? else { break };
            if parent.summary.status == SessionPhase::Ended {
                return Ok(SessionProcess::RunEnded);
            }
            at = parent;
        }
        Ok(SessionProcess::Client)
    }

    fn parent(&self, name: &str) -> Result<Option<SessionRow>, StoreError> {
        if let Some(known) = self.parents.borrow().get(name) {
            return Ok(known.clone());
        }
        let head = self.store.load(name)?.map(|loaded| loaded.head);
        self.parents.borrow_mut().insert(name.to_owned(), head.clone());
        Ok(head)
    }
}

#[cfg(test)]
#[path = "session_status_tests.rs"]
mod tests;
