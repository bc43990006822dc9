//! Recorder: evaluates every event with the governor and stores it exactly once.
//!
//! Commits are grouped. Events that arrive during a commit wait for the next one, and one of the waiting submitters
//! becomes the leader that commits for all: one disk sync for many events, and no dedicated thread.

mod change_builder;
mod commit;
mod fold;
mod in_flight;
mod outbox;
mod queue;
mod reconcile;
mod rehydrate;
mod seen_ids;
mod session_cache;
mod stored_policies;

use crate::error::{StoreError, StoreErrorKind};
use crate::event_store::{AdminStore, Lease};
use crate::failpoint::FailpointHook;
use crate::large_outputs::LargeOutputs;
use crate::submission::{BoxedSubmission, Submission};
pub(crate) use commit::BATCH_WINDOW;
use flyball::output::OutputLimits;
use flyball::policy::Policy;
use flyball::{Decision, EventKind, PolicySource, SessionState};
pub(crate) use in_flight::MIN_BATCH_EVENTS;
use in_flight::{CommitLock, InFlight, LoadEstimate};
use queue::{CommitQueue, CommitReply, Waiters};
use session_cache::SessionCache;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stored_policies::StoredPolicies;

/// Version of the governor's rules. A session decided under another version is snapshotted at its next event, because
/// its events no longer fold to the same state.
const RULES_GENERATION: u32 = 3;

/// Why an event got no decision. It was not counted.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordError {
    /// The event is invalid.
    Event(flyball::Error),
    /// It could not be recorded.
    Store(StoreError),
}

impl RecordError {
    /// The thread that was recording the event is gone; the outcome is unknown.
    pub(crate) fn writer_lost() -> Self {
        RecordError::Store(StoreError::new(
            StoreErrorKind::OutcomeUnknown,
            "the thread that recorded this event failed",
        ))
    }
}

impl From<flyball::Error> for RecordError {
    fn from(error: flyball::Error) -> Self {
        RecordError::Event(error)
    }
}

impl From<StoreError> for RecordError {
    fn from(error: StoreError) -> Self {
        RecordError::Store(error)
    }
}

/// Answer to an event.
pub type RecordResult = std::result::Result<Decision, RecordError>;

/// How to treat a session that is pinned to another policy than the recorder's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PolicyChangeMode {
    /// Stricter values apply immediately; looser ones need an operator. The change is an event of the session.
    #[default]
    TightenOnly,
    /// The recorder's policy applies immediately, because an operator accepted it.
    Accept,
}

/// Options of the recorder.
#[derive(Debug, Clone)]
pub struct RecorderOptions {
    /// How to treat sessions that are pinned to another policy.
    pub policy_changes: PolicyChangeMode,
    /// Number of events between snapshots; larger while the session stays in memory. Loading folds the events after
    /// the last snapshot again.
    pub snapshot_every: u64,
    /// Maximum number of sessions in memory.
    pub hot_sessions: usize,
    /// Whether the process serves many clients for a long time, so that the engine may sync in the background in the
    /// cheapest way. Assumed after a few hundred commits.
    pub long_lived: bool,
    /// Failpoint callback for crash tests.
    pub failpoints: FailpointHook,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        RecorderOptions {
            policy_changes: PolicyChangeMode::default(),
            snapshot_every: 32,
            hot_sessions: 1024,
            long_lived: false,
            failpoints: FailpointHook::default(),
        }
    }
}

/// Decides and records events.
pub struct Recorder {
    store: Arc<dyn AdminStore>,
    policy_source: PolicySource,
    /// Digest of the policy and the rules.
    policy_digest: String,
    policy_saved: AtomicBool,
    options: RecorderOptions,
    queue: Mutex<CommitQueue>,
    /// Held by the committing thread, in engines with one writer.
    commit_lock: CommitLock,
    cache: Mutex<SessionCache>,
    in_flight: InFlight,
    /// Set once a thread has waited for another's write. From then on a commit lets the next one write before it
    /// waits for the disk.
    contended: AtomicBool,
    load: LoadEstimate,
    leases: Mutex<BTreeMap<String, u64>>,
    stored_policies: Mutex<StoredPolicies>,
    outputs: LargeOutputs,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Creates a recorder for a store and a policy.
    #[must_use]
    pub fn new(store: Arc<dyn AdminStore>, policy_source: PolicySource, options: RecorderOptions) -> Self {
        let policy_digest = policy_digest_of(&policy_source.to_json());
        let cache = SessionCache::new(policy_source.clone());
        let outputs = LargeOutputs::for_store(&store);
        Recorder {
            store,
            policy_digest,
            policy_saved: AtomicBool::new(false),
            policy_source,
            options,
            queue: Mutex::default(),
            commit_lock: CommitLock::default(),
            cache: Mutex::new(cache),
            in_flight: InFlight::default(),
            contended: AtomicBool::new(false),
            load: LoadEstimate::default(),
            leases: Mutex::default(),
            stored_policies: Mutex::default(),
            outputs,
        }
    }

    /// The large outputs of its sessions.
    #[must_use]
    pub fn outputs(&self) -> &LargeOutputs {
        &self.outputs
    }

    /// Stores the large output of an event. The governor sees its reference.
    fn store_output(&self, event: &mut BoxedSubmission) {
        let EventKind::OutputReceived { text: Some(_), tool, .. } = &event.event.kind else { return };
        let limits = |policy: &Policy| {
            let guards = policy.guards_for_output(tool.as_deref(), event.event.node.as_deref());
            OutputLimits::from(&guards.large_response)
        };
        let name = &event.event.session;
        let hot = lock(&self.cache).sessions.get(name).map(|session| limits(session.policy()));
        let limits = hot.unwrap_or_else(|| match self.session(name) {
            Ok(Some((_, policy))) => limits(&policy),
            _ => limits(self.policy()),
        });
        self.outputs.store_event(event, &limits);
    }

    /// The underlying store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn AdminStore> {
        &self.store
    }

    /// The policy for new sessions.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.policy_source.base()
    }

    /// Digest of its policy, as stored with every session that it decides.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.policy_digest
    }

    /// The policy source of its sessions.
    #[must_use]
    pub fn policy_source(&self) -> &PolicySource {
        &self.policy_source
    }

    /// Decides an event. When this returns a decision, both are on disk.
    ///
    /// # Errors
    /// If the event is invalid or could not be recorded; it was not counted then.
    pub fn submit(&self, event: Submission) -> RecordResult {
        let (waiters, places, leads) = self.enqueue([BoxedSubmission::from(event)]);
        self.wait_for_answer(&waiters, places.start, leads).0
    }

    /// Decides several events, in order, in one commit.
    pub fn submit_all(&self, events: Vec<Submission>) -> Vec<RecordResult> {
        let events = events.into_iter().map(BoxedSubmission::from).collect();
        self.submit_and_return(events).into_iter().map(|(answer, _)| answer).collect()
    }

    /// Like [`Recorder::submit_all`], and returns the events to the caller.
    pub fn submit_and_return(
        &self,
        events: Vec<BoxedSubmission>,
    ) -> Vec<(RecordResult, Option<BoxedSubmission>)> {
        let (mut rest, mut answers) = (events, Vec::new());
        while let Some(at) = output_of_a_new_session(&rest) {
            let later = rest.split_off(at);
            answers.extend(self.submit_together(std::mem::replace(&mut rest, later)));
        }
        answers.extend(self.submit_together(rest));
        answers
    }

    fn submit_together(&self, events: Vec<BoxedSubmission>) -> Vec<(RecordResult, Option<BoxedSubmission>)> {
        if events.is_empty() {
            return Vec::new();
        }
        let (party, places, mut leads) = self.enqueue(events);
        places.map(|place| self.wait_for_answer(&party, place, std::mem::take(&mut leads))).collect()
    }

    fn enqueue(
        &self,
        events: impl IntoIterator<Item = BoxedSubmission>,
    ) -> (Arc<Waiters>, Range<usize>, bool) {
        let stored = |mut event: BoxedSubmission| {
            self.store_output(&mut event);
            event
        };
        let events: Vec<BoxedSubmission> = events.into_iter().map(stored).collect();
        let mut queue = lock(&self.queue);
        let joined = queue.enqueue(events);
        // Before the events can be dequeued, so that the count never becomes negative.
        self.load.add(joined.1.len());
        joined
    }

    /// Waits for the answer to an event; commits first if this thread becomes the leader.
    fn wait_for_answer(
        &self,
        party: &Waiters,
        place: usize,
        leads: bool,
    ) -> (RecordResult, Option<BoxedSubmission>) {
        if leads {
            self.commit_batch();
        }
        loop {
            match party.wait(place) {
                CommitReply::Served(answer, event) => {
                    self.remove_session_outputs(&answer, event.as_ref());
                    return (answer, event);
                }
                CommitReply::BecomeLeader => self.commit_batch(),
            }
        }
    }

    /// Removes the large outputs of a session that just ended. Orphan cleanup handles failures.
    fn remove_session_outputs(&self, answer: &RecordResult, event: Option<&BoxedSubmission>) {
        if let (Ok(_), Some(event)) = (answer, event)
            && matches!(event.event.kind, EventKind::SessionEnded { .. })
        {
            let _ = self.outputs.end_session(&event.event.session);
        }
    }

    /// Decides and commits for all waiters, and delivers their answers.
    fn commit_batch(&self) {
        let served = self.fold_and_commit().deliver();
        self.load.remove(served);
    }

    /// A session's stored state and policy.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn session(&self, name: &str) -> std::result::Result<Option<(SessionState, Policy)>, RecordError> {
        let mut cache = self.lock_when_idle(name);
        cache.remove(name);
        self.ensure_loaded(&mut cache, name)?;
        let found = cache.sessions.get(name);
        Ok(found.map(|session| (session.state().clone(), session.policy().clone())))
    }

    /// The cache, locked at a time when the session is not in flight.
    fn lock_when_idle(&self, name: &str) -> MutexGuard<'_, SessionCache> {
        loop {
            let cache = lock(&self.cache);
            if !self.in_flight.contains(name) {
                return cache;
            }
            drop(cache);
            self.in_flight.wait_for_change();
        }
    }

    /// Uses a lease for a session from now on: appends carry its epoch and fail once it is lost.
    pub fn hold_lease(&self, lease: &Lease) {
        let mut cache = self.lock_when_idle(&lease.session);
        lock(&self.leases).insert(lease.session.clone(), lease.epoch);
        cache.remove(&lease.session);
    }

    /// Stops using a lease for a session.
    pub fn drop_lease(&self, session: &str) {
        lock(&self.leases).remove(session);
    }
}

/// Index of the first output whose session starts earlier in the same events. The output is stored under the limits
/// of its session's policy, so the session has to start first.
fn output_of_a_new_session(events: &[BoxedSubmission]) -> Option<usize> {
    let mut begun = BTreeSet::new();
    events.iter().position(|event| match &event.event.kind {
        EventKind::SessionStarted { .. } => {
            begun.insert(event.event.session.as_str());
            false
        }
        EventKind::OutputReceived { text: Some(_), .. } => begun.contains(event.event.session.as_str()),
        _ => false,
    })
}

/// Digest of a policy under the current rules.
fn policy_digest_of(policy: &str) -> String {
    let digest = blake3::hash(format!("{RULES_GENERATION}\n{policy}").as_bytes()).to_hex();
    digest.as_str().get(..32).unwrap_or_default().to_owned()
}
