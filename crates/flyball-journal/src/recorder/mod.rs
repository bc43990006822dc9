//! The recorder: puts every event through the governor and into the journal, exactly once.
//!
//! Whoever comes while a commit is under way waits for the next one, and the first of those who wait commits for
//! all of them: one sync of the disk for many events, and no thread of its own.

mod batch;
mod cache;
mod draft;
mod errands;
mod flights;
mod fold;
mod inject;
mod queue;
mod revive;
mod seen;
mod stored_policies;

use crate::error::{StoreError, Trouble};
use crate::incoming::{Incoming, Parcel};
use crate::journal::{Desk, Lease};
use crate::outputs::Outputs;
use crate::probe::Probe;
pub(crate) use batch::GATHER;
use cache::Cache;
pub(crate) use flights::FEW;
use flights::{Flights, Gate, Turnout};
use flyball::output::OutputLimits;
use flyball::policy::Policy;
use flyball::{Decision, Kind, PolicySource, State};
use queue::{Heard, Party, Queue};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stored_policies::StoredPolicies;

/// The generation of the governor's rules. A session that was decided upon under another one is snapshotted at its
/// next event, because its events can no longer be worked out again to the same state.
const RULES: u32 = 3;

/// Why an event got no decision. Nothing of it was counted.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// The event itself is wrong.
    Event(flyball::Error),
    /// It could not be recorded.
    Store(StoreError),
}

impl Refusal {
    /// Whoever was to record the event is gone: nobody knows what became of it.
    pub(crate) fn lost() -> Self {
        Refusal::Store(StoreError::new(Trouble::Unknown, "the writer of this event was lost"))
    }
}

impl From<flyball::Error> for Refusal {
    fn from(error: flyball::Error) -> Self {
        Refusal::Event(error)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Refusal::Store(error)
    }
}

/// What an event is answered with.
pub type Answer = std::result::Result<Decision, Refusal>;

/// What becomes of a session that is pinned to another policy than the recorder's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PolicyChanges {
    /// What is stricter holds from now on; what is looser waits for a person. The change is an event of the session.
    #[default]
    TightenOnly,
    /// The recorder's policy holds from now on: a person wants it so.
    Accept,
}

/// How the recorder works.
#[derive(Debug, Clone)]
pub struct RecorderOptions {
    /// What becomes of sessions that are pinned to another policy.
    pub policy_changes: PolicyChanges,
    /// A snapshot of the state is stored after so many events, and less often while the session stays in memory; the
    /// events since then are folded again on loading.
    pub snapshot_every: u64,
    /// How many sessions are kept in memory.
    pub hot_sessions: usize,
    /// It serves many for long: the engine may sync what it commits by itself, in the way that costs the disk least.
    /// After some hundred commits that is taken for granted.
    pub lasting: bool,
    /// Who is told of the places where a crash is interesting.
    pub probe: Probe,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        RecorderOptions {
            policy_changes: PolicyChanges::default(),
            snapshot_every: 32,
            hot_sessions: 1024,
            lasting: false,
            probe: Probe::default(),
        }
    }
}

/// Decides and records.
pub struct Recorder {
    journal: Arc<dyn Desk>,
    source: PolicySource,
    /// The digest of the policy and the rules.
    digest: String,
    policy_kept: AtomicBool,
    options: RecorderOptions,
    queue: Mutex<Queue>,
    /// Whoever has passed it commits; for engines with one writer.
    gate: Gate,
    cache: Mutex<Cache>,
    flights: Flights,
    /// Somebody has waited while another one wrote: from then on a commit never waits for the disk before it lets the
    /// next one write.
    crowded: AtomicBool,
    turnout: Turnout,
    leases: Mutex<BTreeMap<String, u64>>,
    stored_policies: Mutex<StoredPolicies>,
    outputs: Outputs,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// A recorder over a journal, under a policy.
    #[must_use]
    pub fn new(journal: Arc<dyn Desk>, source: PolicySource, options: RecorderOptions) -> Self {
        let digest = digest(&source.to_json());
        let cache = Cache::new(source.clone());
        let outputs = Outputs::of_store(&journal);
        Recorder {
            journal,
            digest,
            policy_kept: AtomicBool::new(false),
            source,
            options,
            queue: Mutex::default(),
            gate: Gate::default(),
            cache: Mutex::new(cache),
            flights: Flights::default(),
            crowded: AtomicBool::new(false),
            turnout: Turnout::default(),
            leases: Mutex::default(),
            stored_policies: Mutex::default(),
            outputs,
        }
    }

    /// Where large outputs are.
    #[must_use]
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Stores a large output that an event brings. The governor sees its reference.
    fn store_output(&self, event: &mut Parcel) {
        let Kind::OutputReceived { text: Some(_), tool, .. } = &event.event.kind else { return };
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

    /// The journal behind it.
    #[must_use]
    pub fn journal(&self) -> &Arc<dyn Desk> {
        &self.journal
    }

    /// The policy that its sessions start from.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.source.base()
    }

    /// The digest of its policy, as it is noted with every session that it decides upon.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Where its sessions get their policy.
    #[must_use]
    pub fn source(&self) -> &PolicySource {
        &self.source
    }

    /// Decides upon an event. When this returns a decision, both are on the disk.
    ///
    /// # Errors
    /// If the event is wrong or could not be recorded; it was not counted then.
    pub fn submit(&self, event: Incoming) -> Answer {
        let (party, places, leads) = self.join([Parcel::from(event)]);
        self.served(&party, places.start, leads).0
    }

    /// Decides upon several events, in order, in one commit.
    pub fn submit_all(&self, events: Vec<Incoming>) -> Vec<Answer> {
        let events = events.into_iter().map(Parcel::from).collect();
        self.submit_and_return(events).into_iter().map(|(answer, _)| answer).collect()
    }

    /// As [`Recorder::submit_all`], and gives the events back: somebody may still have a use for them.
    pub fn submit_and_return(&self, events: Vec<Parcel>) -> Vec<(Answer, Option<Parcel>)> {
        let (mut rest, mut answers) = (events, Vec::new());
        while let Some(at) = output_of_a_new_session(&rest) {
            let later = rest.split_off(at);
            answers.extend(self.submit_together(std::mem::replace(&mut rest, later)));
        }
        answers.extend(self.submit_together(rest));
        answers
    }

    fn submit_together(&self, events: Vec<Parcel>) -> Vec<(Answer, Option<Parcel>)> {
        if events.is_empty() {
            return Vec::new();
        }
        let (party, places, mut leads) = self.join(events);
        places.map(|place| self.served(&party, place, std::mem::take(&mut leads))).collect()
    }

    fn join(&self, events: impl IntoIterator<Item = Parcel>) -> (Arc<Party>, Range<usize>, bool) {
        let stored = |mut event: Parcel| {
            self.store_output(&mut event);
            event
        };
        let events: Vec<Parcel> = events.into_iter().map(stored).collect();
        let mut queue = lock(&self.queue);
        let joined = queue.join(events);
        // Before anybody can let them in: nobody goes who has not come.
        self.turnout.come(joined.1.len());
        joined
    }

    /// The answer to an event in its place, and the event; whoever leads commits first.
    fn served(&self, party: &Party, place: usize, leads: bool) -> (Answer, Option<Parcel>) {
        if leads {
            self.lead();
        }
        loop {
            match party.wait(place) {
                Heard::Served(answer, event) => {
                    self.end_outputs(&answer, event.as_ref());
                    return (answer, event);
                }
                Heard::Lead => self.lead(),
            }
        }
    }

    /// Removes the large outputs of a session that has just ended. What cannot be removed is swept later.
    fn end_outputs(&self, answer: &Answer, event: Option<&Parcel>) {
        if let (Ok(_), Some(event)) = (answer, event)
            && matches!(event.event.kind, Kind::SessionEnded { .. })
        {
            let _ = self.outputs.end_session(&event.event.session);
        }
    }

    /// Decides and commits for those who wait, and tells them.
    fn lead(&self) {
        let served = self.commit().tell();
        self.turnout.go(served);
    }

    /// A session's state and policy as they are stored now.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn session(&self, name: &str) -> std::result::Result<Option<(State, Policy)>, Refusal> {
        let mut cache = self.quiet(name);
        cache.forget(name);
        self.ensure(&mut cache, name)?;
        let found = cache.sessions.get(name);
        Ok(found.map(|session| (session.state().clone(), session.policy().clone())))
    }

    /// The cache, at a time when nothing of a session is on its way to the store.
    fn quiet(&self, name: &str) -> MutexGuard<'_, Cache> {
        loop {
            let cache = lock(&self.cache);
            if !self.flights.has(name) {
                return cache;
            }
            drop(cache);
            self.flights.wait();
        }
    }

    /// Works on a session under a lease from now on: appends carry its epoch, and are refused once it is lost.
    pub fn hold(&self, lease: &Lease) {
        let mut cache = self.quiet(&lease.session);
        lock(&self.leases).insert(lease.session.clone(), lease.epoch);
        cache.forget(&lease.session);
    }

    /// Works on a session without a lease again.
    pub fn let_go(&self, session: &str) {
        lock(&self.leases).remove(session);
    }
}

/// The place of the first output whose session begins before it among these events. It is stored under the limits of its
/// session's policy, so the session has to begin first.
fn output_of_a_new_session(events: &[Parcel]) -> Option<usize> {
    let mut begun = BTreeSet::new();
    events.iter().position(|event| match &event.event.kind {
        Kind::SessionStarted { .. } => {
            begun.insert(event.event.session.as_str());
            false
        }
        Kind::OutputReceived { text: Some(_), .. } => begun.contains(event.event.session.as_str()),
        _ => false,
    })
}

/// The digest of a policy under the present rules.
fn digest(policy: &str) -> String {
    let digest = blake3::hash(format!("{RULES}\n{policy}").as_bytes()).to_hex();
    digest.as_str().get(..32).unwrap_or_default().to_owned()
}
