//! Limits per key: sessions and bytes per day, live streams, pending plans, and concurrent reads.
//!
//! They apply to agent and host keys and to agents on the socket; operators are not limited. Each server counts in
//! memory: a restart starts a new day, and an agent cannot restart the server. Invariant: a request refused here was
//! neither stored nor counted.

use crate::api_error::ApiError;
use crate::app_state::SharedState;
use crate::auth::{AuthRole, Principal};
use crate::telemetry::AtomicCounter;
use axum::http::StatusCode;
use flyball::{Decision, SessionPhase};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Window of the daily limits.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of tracked keys; inactive ones are dropped first.
const MAX_KEYS: usize = 4_096;
/// Minimum interval between store checks of a key's pending plans.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of reads that may wait per allowed concurrent read.
const MAX_WAITING_PER_READ: usize = 4;

/// Limits of one key; 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLimits {
    /// Distinct sessions that it sends events to in 24 hours.
    pub sessions_per_day: usize,
    /// Concurrent live streams.
    pub listeners: usize,
    /// Concurrent pending plans.
    pub pending_plans: usize,
    /// Bytes of events sent in 24 hours.
    pub bytes_per_day: u64,
    /// Concurrent reads of the store.
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

/// The limit that was exceeded, as an index into the refusals.
#[derive(Debug, Clone, Copy)]
enum KeyLimitKind {
    Sessions,
    Listeners,
    Plans,
    Bytes,
    Reads,
}

/// Names of the limits, in the order of [`KeyLimitKind`].
const LIMITS: [&str; 5] = ["sessions", "listeners", "plans", "bytes", "reads"];

/// Usage of one key.
#[derive(Debug)]
struct KeyUsage {
    since: Instant,
    /// Hashes of the sessions.
    sessions: BTreeSet<u64>,
    bytes: u64,
    /// Sessions with a pending plan, as far as this server knows.
    plans: BTreeSet<String>,
    rechecked: Option<Instant>,
    listeners: usize,
    reads: Arc<Semaphore>,
    reads_waiting: Arc<Semaphore>,
}

/// Usage of one key, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyUsageRow {
    pub(crate) name: String,
    pub(crate) sessions: usize,
    pub(crate) bytes: u64,
    pub(crate) plans: usize,
    pub(crate) listeners: usize,
    pub(crate) reads: usize,
}

/// Tracks the usage of all keys and enforces the limits.
#[derive(Debug)]
pub(crate) struct KeyLimiter {
    limits: KeyLimits,
    keys: Mutex<BTreeMap<String, KeyUsage>>,
    refusals: [AtomicCounter; LIMITS.len()],
    /// Randomly keyed, so that clients cannot choose names with colliding hashes.
    hasher: RandomState,
    /// Whether any key ever had a pending plan; most servers never do, and then no lookup is needed.
    any_plans: AtomicBool,
}

impl KeyLimiter {
    /// Creates a limiter with these limits.
    pub(crate) fn new(limits: KeyLimits) -> Self {
        KeyLimiter {
            limits,
            keys: Mutex::default(),
            refusals: Default::default(),
            hasher: RandomState::new(),
            any_plans: AtomicBool::new(false),
        }
    }

    /// The limits.
    pub(crate) fn limits(&self) -> KeyLimits {
        self.limits
    }

    /// Number of refused requests per limit.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        LIMITS.into_iter().zip(self.refusals.iter().map(AtomicCounter::get))
    }

    /// Counts bytes of events that a key sends. Returns whether the key has reached its limit of pending plans.
    ///
    /// # Errors
    /// If the daily limit is exceeded.
    pub(crate) fn add_bytes(&self, principal: &Principal, bytes: usize) -> Result<bool, ApiError> {
        if !is_limited(principal) {
            return Ok(false);
        }
        let (most, plans) = (self.limits.bytes_per_day, self.limits.pending_plans);
        let added = self.with_usage(&principal.name, |usage| {
            let sum = usage.bytes.saturating_add(bytes as u64);
            if most > 0 && sum > most {
                return Err(time_left_today(usage));
            }
            usage.bytes = sum;
            Ok(plans > 0 && usage.plans.len() >= plans)
        });
        added.map_err(|wait| {
            self.limit_exceeded(KeyLimitKind::Bytes, &format!("{most} bytes of events in 24 hours"), wait)
        })
    }

    /// Counts a session that a key sends events to.
    ///
    /// # Errors
    /// If the daily limit is exceeded.
    pub(crate) fn add_session(&self, principal: &Principal, session: &str) -> Result<(), ApiError> {
        let most = self.limits.sessions_per_day;
        if !is_limited(principal) || most == 0 {
            return Ok(());
        }
        let hash = self.hasher.hash_one(session);
        let added = self.with_usage(&principal.name, |usage| {
            if usage.sessions.len() >= most && !usage.sessions.contains(&hash) {
                return Err(time_left_today(usage));
            }
            usage.sessions.insert(hash);
            Ok(())
        });
        added.map_err(|wait| {
            self.limit_exceeded(KeyLimitKind::Sessions, &format!("{most} sessions in 24 hours"), wait)
        })
    }

    /// Counts a plan before it is evaluated, so that concurrent requests count as well.
    ///
    /// # Errors
    /// If the key has too many pending plans.
    pub(crate) fn add_plan(&self, principal: &Principal, session: &str) -> Result<(), ApiError> {
        let most = self.limits.pending_plans;
        if !is_limited(principal) || most == 0 {
            return Ok(());
        }
        self.any_plans.store(true, Ordering::Relaxed);
        let allowed = self.with_usage(&principal.name, |usage| {
            if usage.plans.len() >= most && !usage.plans.contains(session) {
                return false;
            }
            usage.plans.insert(session.to_owned());
            true
        });
        if allowed {
            return Ok(());
        }
        let message = format!("{most} pending plans");
        Err(self.limit_exceeded(KeyLimitKind::Plans, &message, Duration::from_secs(60)))
    }

    /// Asks the store which plans of a key are still pending if the key is at its limit: they may have been answered
    /// through another process.
    pub(crate) async fn recheck_plans(&self, app: &SharedState, principal: &Principal) {
        let Some(sessions) = self.full_plans(principal) else { return };
        let answered = app.run_blocking(move |app| {
            let waits = |session: &String| {
                match app.store().load(session) {
                    Ok(loaded) => loaded.is_some_and(|loaded| {
                        loaded.head.summary.status == SessionPhase::AwaitingConfirmation
                    }),
                    // Unknown, so it still counts as pending.
                    Err(_) => true,
                }
            };
            Ok::<_, ApiError>(sessions.into_iter().filter(|session| !waits(session)).collect::<Vec<_>>())
        });
        if let Ok(answered) = answered.await {
            self.with_usage(&principal.name, |usage| {
                usage.plans.retain(|session| !answered.contains(session));
            });
        }
    }

    /// The pending plans of a key at its limit, unless they were checked recently.
    fn full_plans(&self, principal: &Principal) -> Option<Vec<String>> {
        let most = self.limits.pending_plans;
        self.with_usage(&principal.name, |usage| {
            let due = usage.rechecked.is_none_or(|at| at.elapsed() >= RECHECK_INTERVAL);
            if usage.plans.len() < most || !due {
                return None;
            }
            usage.rechecked = Some(Instant::now());
            Some(usage.plans.iter().cloned().collect())
        })
    }

    /// Updates a key's pending plans from the decision on its event.
    pub(crate) fn record_decision(&self, principal: &Principal, decision: &Decision) {
        if !is_limited(principal) {
            return;
        }
        if decision.state == SessionPhase::AwaitingConfirmation {
            self.any_plans.store(true, Ordering::Relaxed);
            self.with_usage(&principal.name, |usage| usage.plans.insert(decision.session.clone()));
        } else if self.any_plans.load(Ordering::Relaxed) {
            self.with_usage(&principal.name, |usage| usage.plans.remove(&decision.session));
        }
    }

    /// Removes a session's pending plan for all keys after an operator action.
    pub(crate) fn record_action(&self, decision: &Decision) {
        if decision.state != SessionPhase::AwaitingConfirmation {
            self.lock().values_mut().for_each(|usage| {
                usage.plans.remove(&decision.session);
            });
        }
    }

    /// Counts a live stream until the returned guard is dropped.
    ///
    /// # Errors
    /// If the key has too many live streams.
    pub(crate) fn add_listener(
        self: &Arc<Self>,
        principal: &Principal,
    ) -> Result<Option<ListenerGuard>, ApiError> {
        let most = self.limits.listeners;
        if !is_limited(principal) || most == 0 {
            return Ok(None);
        }
        let allowed = self.with_usage(&principal.name, |usage| {
            let allowed = usage.listeners < most;
            usage.listeners += usize::from(allowed);
            allowed
        });
        if !allowed {
            return Err(self.limit_exceeded(
                KeyLimitKind::Listeners,
                &format!("{most} live streams"),
                Duration::from_secs(10),
            ));
        }
        Ok(Some(ListenerGuard { usage: Arc::clone(self), name: principal.name.clone() }))
    }

    /// Counts a read until the returned permit is dropped. A few requests may wait for a permit.
    ///
    /// # Errors
    /// If too many reads of the key are waiting.
    pub(crate) async fn acquire_read(
        &self,
        principal: &Principal,
    ) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        let Some((reads, waiting)) = self.read_slots(principal) else { return Ok(None) };
        let Ok(_waits) = waiting.try_acquire_owned() else {
            let message = format!("{} concurrent reads", self.limits.reads);
            return Err(self.limit_exceeded(KeyLimitKind::Reads, &message, Duration::from_secs(1)));
        };
        Ok(reads.acquire_owned().await.ok())
    }

    fn read_slots(&self, principal: &Principal) -> Option<(Arc<Semaphore>, Arc<Semaphore>)> {
        if !is_limited(principal) || self.limits.reads == 0 {
            return None;
        }
        Some(self.with_usage(&principal.name, |usage| {
            (Arc::clone(&usage.reads), Arc::clone(&usage.reads_waiting))
        }))
    }

    /// The read semaphore of a key, which a stream acquires for each chunk. `None` without a limit.
    pub(crate) fn reads(&self, principal: &Principal) -> Option<Arc<Semaphore>> {
        self.read_slots(principal).map(|(reads, _)| reads)
    }

    /// Usage of each key, most bytes first.
    pub(crate) fn usage_rows(&self) -> Vec<KeyUsageRow> {
        let keys = self.lock();
        let row = |(name, usage): (&String, &KeyUsage)| KeyUsageRow {
            name: name.clone(),
            sessions: usage.sessions.len(),
            bytes: usage.bytes,
            plans: usage.plans.len(),
            listeners: usage.listeners,
            reads: self.limits.reads.saturating_sub(usage.reads.available_permits()),
        };
        let mut rows: Vec<KeyUsageRow> = keys.iter().map(row).collect();
        rows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        rows
    }

    /// Runs `work` on the usage of a key.
    fn with_usage<T>(&self, name: &str, work: impl FnOnce(&mut KeyUsage) -> T) -> T {
        let mut keys = self.lock();
        if let Some(usage) = keys.get_mut(name) {
            usage.begin_day_if_due();
            return work(usage);
        }
        if keys.len() >= MAX_KEYS {
            keys.retain(|_, usage| usage.listeners > 0 || !usage.plans.is_empty());
        }
        work(keys.entry(name.to_owned()).or_insert_with(|| KeyUsage::new(self.limits.reads)))
    }

    fn limit_exceeded(&self, limit: KeyLimitKind, of: &str, wait: Duration) -> ApiError {
        let code = match limit {
            KeyLimitKind::Sessions => "key_limit_sessions",
            KeyLimitKind::Listeners => "key_limit_listeners",
            KeyLimitKind::Plans => "key_limit_plans",
            KeyLimitKind::Bytes => "key_limit_bytes",
            KeyLimitKind::Reads => "key_limit_reads",
        };
        if let Some(count) = self.refusals.get(limit as usize) {
            count.add(1);
        }
        let message = format!("this key has reached its limit of {of}");
        let help = "wait for the time in Retry-After; the server's --key-* options set the limits";
        let status = StatusCode::TOO_MANY_REQUESTS;
        let mut problem = ApiError::new(status, code, message, help);
        problem.retry_after_s = wait.as_secs().max(1);
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
            reads_waiting: Arc::new(Semaphore::new(reads.saturating_mul(MAX_WAITING_PER_READ))),
        }
    }

    fn begin_day_if_due(&mut self) {
        if self.since.elapsed() >= DAY {
            (self.since, self.bytes) = (Instant::now(), 0);
            self.sessions.clear();
        }
    }
}

/// A live stream that is counted until the guard is dropped.
#[derive(Debug)]
pub(crate) struct ListenerGuard {
    usage: Arc<KeyLimiter>,
    name: String,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        if let Some(usage) = self.usage.lock().get_mut(&self.name) {
            usage.listeners = usage.listeners.saturating_sub(1);
        }
    }
}

/// Whether the limits apply: operators and admins are not limited.
fn is_limited(principal: &Principal) -> bool {
    principal.role < AuthRole::Operator
}

fn time_left_today(usage: &KeyUsage) -> Duration {
    DAY.saturating_sub(usage.since.elapsed())
}
