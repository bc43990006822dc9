//! Limits for each key: sessions and bytes a day, listeners, plans that await an answer, and reads at a time.
//!
//! They hold for keys of agents, and for agents on the socket; people are not limited. A server counts by itself and in
//! memory: a restart begins a new day, and an agent cannot restart the server. Invariant: what is refused here was not
//! stored and not counted.

use crate::office::Shared;
use crate::problem::Problem;
use crate::signals::Count;
use crate::who::{Principal, Role};
use axum::http::StatusCode;
use flyball::{Decision, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The window of what is counted a day.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How many names are counted; those that do nothing at the moment are forgotten first.
const NAMES: usize = 4_096;
/// How often the store is asked which plans of a key still await an answer.
const RECHECK: Duration = Duration::from_secs(1);
/// How many requests that read may wait for each one that reads.
const WAITING: usize = 4;

/// What one key may use; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLimits {
    /// Different sessions that it sends events to in 24 hours.
    pub sessions_per_day: usize,
    /// Live streams that it listens to at a time.
    pub listeners: usize,
    /// Plans that await an answer at a time.
    pub pending_plans: usize,
    /// Bytes of events that it sends in 24 hours.
    pub bytes_per_day: u64,
    /// Requests that read the store at a time.
    pub reads: usize,
}

impl Default for KeyLimits {
    fn default() -> Self {
        KeyLimits {
            sessions_per_day: 100_000,
            listeners: 256,
            pending_plans: 1_000,
            bytes_per_day: 8 * 1024 * 1024 * 1024,
            reads: 8,
        }
    }
}

/// Which limit, as an index of the refusals.
#[derive(Debug, Clone, Copy)]
enum Limit {
    Sessions,
    Listeners,
    Plans,
    Bytes,
    Reads,
}

/// The limits by name, in the order of [`Limit`].
const LIMITS: [&str; 5] = ["sessions", "listeners", "plans", "bytes", "reads"];

/// What one key has used.
#[derive(Debug)]
struct KeyUsage {
    since: Instant,
    /// Hashes of the sessions.
    sessions: BTreeSet<u64>,
    bytes: u64,
    /// Sessions with a plan that awaits an answer, as far as this server knows.
    plans: BTreeSet<String>,
    rechecked: Option<Instant>,
    listeners: usize,
    reads: Arc<Semaphore>,
    reads_waiting: Arc<Semaphore>,
}

/// What one key has used, to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyLine {
    pub(crate) name: String,
    pub(crate) sessions: usize,
    pub(crate) bytes: u64,
    pub(crate) plans: usize,
    pub(crate) listeners: usize,
    pub(crate) reads: usize,
}

/// What all keys have used.
#[derive(Debug)]
pub(crate) struct Usage {
    limits: KeyLimits,
    keys: Mutex<BTreeMap<String, KeyUsage>>,
    refused: [Count; LIMITS.len()],
    /// With a random key, so that names cannot be chosen to have the same hash.
    hasher: RandomState,
    /// Whether a key ever had a plan that awaits an answer: most never have, and need not be looked up.
    any_plans: AtomicBool,
}

impl Usage {
    /// With these limits.
    pub(crate) fn new(limits: KeyLimits) -> Self {
        Usage {
            limits,
            keys: Mutex::default(),
            refused: Default::default(),
            hasher: RandomState::new(),
            any_plans: AtomicBool::new(false),
        }
    }

    /// The limits.
    pub(crate) fn limits(&self) -> KeyLimits {
        self.limits
    }

    /// How many requests each limit has refused.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        LIMITS.into_iter().zip(self.refused.iter().map(Count::get))
    }

    /// Counts bytes of events that a key sends. Gives whether it has as many plans that await an answer as it may have.
    ///
    /// # Errors
    /// If it has sent too many today.
    pub(crate) fn add_bytes(&self, principal: &Principal, bytes: usize) -> Result<bool, Problem> {
        if !is_limited(principal) {
            return Ok(false);
        }
        let (most, plans) = (self.limits.bytes_per_day, self.limits.pending_plans);
        let added = self.with(&principal.name, |usage| {
            let sum = usage.bytes.saturating_add(bytes as u64);
            if most > 0 && sum > most {
                return Err(left_of_day(usage));
            }
            usage.bytes = sum;
            Ok(plans > 0 && usage.plans.len() >= plans)
        });
        added.map_err(|wait| self.refuse(Limit::Bytes, &format!("{most} bytes of events in 24 hours"), wait))
    }

    /// Counts a session that a key sends events to.
    ///
    /// # Errors
    /// If it is one too many today.
    pub(crate) fn add_session(&self, principal: &Principal, session: &str) -> Result<(), Problem> {
        let most = self.limits.sessions_per_day;
        if !is_limited(principal) || most == 0 {
            return Ok(());
        }
        let hash = self.hasher.hash_one(session);
        let added = self.with(&principal.name, |usage| {
            if usage.sessions.len() >= most && !usage.sessions.contains(&hash) {
                return Err(left_of_day(usage));
            }
            usage.sessions.insert(hash);
            Ok(())
        });
        added.map_err(|wait| self.refuse(Limit::Sessions, &format!("{most} sessions in 24 hours"), wait))
    }

    /// Counts a plan that a key asks for in a session, before it is decided upon, so that many at once count as well.
    ///
    /// # Errors
    /// If too many of its plans await an answer.
    pub(crate) fn add_plan(&self, principal: &Principal, session: &str) -> Result<(), Problem> {
        let most = self.limits.pending_plans;
        if !is_limited(principal) || most == 0 {
            return Ok(());
        }
        self.any_plans.store(true, Ordering::Relaxed);
        let room = self.with(&principal.name, |usage| {
            if usage.plans.len() >= most && !usage.plans.contains(session) {
                return false;
            }
            usage.plans.insert(session.to_owned());
            true
        });
        if room {
            return Ok(());
        }
        let what = format!("{most} plans that await an answer");
        Err(self.refuse(Limit::Plans, &what, Duration::from_secs(60)))
    }

    /// Asks the store which plans of a key still await an answer, if it has too many: people may have answered
    /// elsewhere.
    pub(crate) async fn recheck_plans(&self, office: &Shared, principal: &Principal) {
        let Some(sessions) = self.full_plans(principal) else { return };
        let answered = office.look(move |office| {
            let waits = |session: &String| {
                match office.desk().load(session) {
                    Ok(loaded) => {
                        loaded.is_some_and(|loaded| loaded.head.glance.status == Status::AwaitingConfirmation)
                    }
                    // Nobody knows, so it counts.
                    Err(_) => true,
                }
            };
            Ok::<_, Problem>(sessions.into_iter().filter(|session| !waits(session)).collect::<Vec<_>>())
        });
        if let Ok(answered) = answered.await {
            self.with(&principal.name, |usage| {
                usage.plans.retain(|session| !answered.contains(session));
            });
        }
    }

    /// The plans of a key that has too many, unless the store was asked about them a moment ago.
    fn full_plans(&self, principal: &Principal) -> Option<Vec<String>> {
        let most = self.limits.pending_plans;
        self.with(&principal.name, |usage| {
            let due = usage.rechecked.is_none_or(|at| at.elapsed() >= RECHECK);
            if usage.plans.len() < most || !due {
                return None;
            }
            usage.rechecked = Some(Instant::now());
            Some(usage.plans.iter().cloned().collect())
        })
    }

    /// Notes from a decision on an agent's event whether a plan awaits an answer in the session.
    pub(crate) fn decided(&self, principal: &Principal, decision: &Decision) {
        if !is_limited(principal) {
            return;
        }
        if decision.state == Status::AwaitingConfirmation {
            self.any_plans.store(true, Ordering::Relaxed);
            self.with(&principal.name, |usage| usage.plans.insert(decision.session.clone()));
        } else if self.any_plans.load(Ordering::Relaxed) {
            self.with(&principal.name, |usage| usage.plans.remove(&decision.session));
        }
    }

    /// Notes that a person has acted in a session, whoever asked there.
    pub(crate) fn acted(&self, decision: &Decision) {
        if decision.state != Status::AwaitingConfirmation {
            self.lock().values_mut().for_each(|usage| {
                usage.plans.remove(&decision.session);
            });
        }
    }

    /// Counts a listener for as long as the answer is kept.
    ///
    /// # Errors
    /// If it is one too many.
    pub(crate) fn listen(self: &Arc<Self>, principal: &Principal) -> Result<Option<Listening>, Problem> {
        let most = self.limits.listeners;
        if !is_limited(principal) || most == 0 {
            return Ok(None);
        }
        let room = self.with(&principal.name, |usage| {
            let room = usage.listeners < most;
            usage.listeners += usize::from(room);
            room
        });
        if !room {
            return Err(self.refuse(Limit::Listeners, &format!("{most} listeners"), Duration::from_secs(10)));
        }
        Ok(Some(Listening { usage: Arc::clone(self), name: principal.name.clone() }))
    }

    /// Counts a request that reads the store for as long as the answer is kept. A few requests wait for their turn.
    ///
    /// # Errors
    /// If too many requests of the key wait.
    pub(crate) async fn read(&self, principal: &Principal) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        let Some((reads, waiting)) = self.read_slots(principal) else { return Ok(None) };
        let Ok(_waits) = waiting.try_acquire_owned() else {
            let what = format!("{} reads at a time", self.limits.reads);
            return Err(self.refuse(Limit::Reads, &what, Duration::from_secs(1)));
        };
        Ok(reads.acquire_owned().await.ok())
    }

    fn read_slots(&self, principal: &Principal) -> Option<(Arc<Semaphore>, Arc<Semaphore>)> {
        if !is_limited(principal) || self.limits.reads == 0 {
            return None;
        }
        Some(self.with(&principal.name, |usage| (Arc::clone(&usage.reads), Arc::clone(&usage.reads_waiting))))
    }

    /// The reads of a key: a stream waits for its turn with every portion. `None` if there is no limit.
    pub(crate) fn reads(&self, principal: &Principal) -> Option<Arc<Semaphore>> {
        self.read_slots(principal).map(|(reads, _)| reads)
    }

    /// What each key has used, the ones that have sent the most first.
    pub(crate) fn lines(&self) -> Vec<KeyLine> {
        let keys = self.lock();
        let line = |(name, usage): (&String, &KeyUsage)| KeyLine {
            name: name.clone(),
            sessions: usage.sessions.len(),
            bytes: usage.bytes,
            plans: usage.plans.len(),
            listeners: usage.listeners,
            reads: self.limits.reads.saturating_sub(usage.reads.available_permits()),
        };
        let mut lines: Vec<KeyLine> = keys.iter().map(line).collect();
        lines.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        lines
    }

    /// Works with what a key has used.
    fn with<T>(&self, name: &str, work: impl FnOnce(&mut KeyUsage) -> T) -> T {
        let mut keys = self.lock();
        if let Some(usage) = keys.get_mut(name) {
            usage.begin_day_if_due();
            return work(usage);
        }
        if keys.len() >= NAMES {
            keys.retain(|_, usage| usage.listeners > 0 || !usage.plans.is_empty());
        }
        work(keys.entry(name.to_owned()).or_insert_with(|| KeyUsage::new(self.limits.reads)))
    }

    fn refuse(&self, limit: Limit, of: &str, wait: Duration) -> Problem {
        let code = match limit {
            Limit::Sessions => "key_limit_sessions",
            Limit::Listeners => "key_limit_listeners",
            Limit::Plans => "key_limit_plans",
            Limit::Bytes => "key_limit_bytes",
            Limit::Reads => "key_limit_reads",
        };
        if let Some(count) = self.refused.get(limit as usize) {
            count.add(1);
        }
        let what = format!("this key may use {of}, and has used them up");
        let advice = "wait as long as Retry-After says; the server's --key-* options set the limits";
        let status = StatusCode::TOO_MANY_REQUESTS;
        let mut problem = Problem::new(status, code, what, advice);
        problem.retry_after = wait.as_secs().max(1);
        problem
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, KeyUsage>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyUsage {
    fn new(reads: usize) -> Self {
        KeyUsage {
            since: Instant::now(),
            sessions: BTreeSet::new(),
            bytes: 0,
            plans: BTreeSet::new(),
            rechecked: None,
            listeners: 0,
            reads: Arc::new(Semaphore::new(reads)),
            reads_waiting: Arc::new(Semaphore::new(reads.saturating_mul(WAITING))),
        }
    }

    fn begin_day_if_due(&mut self) {
        if self.since.elapsed() >= DAY {
            (self.since, self.bytes) = (Instant::now(), 0);
            self.sessions.clear();
        }
    }
}

/// A listener that is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    usage: Arc<Usage>,
    name: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(usage) = self.usage.lock().get_mut(&self.name) {
            usage.listeners = usage.listeners.saturating_sub(1);
        }
    }
}

/// Whether the limits hold for them: people are not limited.
fn is_limited(principal: &Principal) -> bool {
    principal.role < Role::Operator
}

fn left_of_day(usage: &KeyUsage) -> Duration {
    DAY.saturating_sub(usage.since.elapsed())
}
