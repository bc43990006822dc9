//! In-flight sessions (folded but not known to be stored), the load estimate, and the commit lock.

use super::lock;
use crate::name_map::NameMap;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long to wait for a change before checking again.
const IN_FLIGHT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The in-flight sessions.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    sessions: Mutex<NameMap<()>>,
    changed: Condvar,
}

impl InFlight {
    /// Whether a session is in flight.
    pub(super) fn contains(&self, name: &str) -> bool {
        lock(&self.sessions).contains(name)
    }

    /// Marks a session as in flight.
    pub(super) fn insert(&self, name: &str) {
        lock(&self.sessions).insert(name.to_owned(), ());
    }

    /// Removes sessions that were stored or dropped.
    pub(super) fn remove(&self, names: &[String]) {
        let mut all = lock(&self.sessions);
        names.iter().for_each(|name| {
            all.remove(name);
        });
        drop(all);
        self.changed.notify_all();
    }

    /// All in-flight sessions.
    pub(super) fn sessions(&self) -> BTreeSet<String> {
        lock(&self.sessions).iter_unordered().map(|(name, ())| name.to_owned()).collect()
    }

    /// Waits for a change, with a timeout.
    pub(super) fn wait_for_change(&self) {
        let names = lock(&self.sessions);
        if names.len() > 0 {
            drop(
                self.changed
                    .wait_timeout(names, IN_FLIGHT_POLL_INTERVAL)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }
}

/// How long to wait for the commit lock before admitting newly arrived events.
const COMMIT_LOCK_TIMEOUT: Duration = Duration::from_micros(200);

/// Commits after which a process counts as long-lived.
const LONG_LIVED_COMMITS: usize = 256;

/// Batch size that is always allowed, here and in the submit queue.
pub(crate) const MIN_BATCH_EVENTS: usize = 16;

/// Number of events being decided, now and recently.
#[derive(Debug, Default)]
pub(super) struct LoadEstimate {
    commits: AtomicUsize,
    current: AtomicUsize,
    last: AtomicUsize,
    previous: AtomicUsize,
}

impl LoadEstimate {
    /// Adds arrived events.
    pub(super) fn add(&self, events: usize) {
        self.current.fetch_add(events, Ordering::Relaxed);
    }

    /// Removes answered events.
    pub(super) fn remove(&self, events: usize) {
        self.current.fetch_sub(events, Ordering::Relaxed);
    }

    /// Starts a commit.
    pub(super) fn begin_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        let about = self.current.load(Ordering::Relaxed);
        self.previous.store(self.last.swap(about, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether there were enough commits to expect many more.
    pub(super) fn is_long_lived(&self) -> bool {
        self.commits.load(Ordering::Relaxed) > LONG_LIVED_COMMITS
    }

    /// Maximum batch size: half of the load, so that the rest is folded meanwhile.
    pub(super) fn max_batch(&self) -> usize {
        self.half_of_peak().max(MIN_BATCH_EVENTS)
    }

    /// Expected size of the next batch.
    pub(super) fn expected_batch(&self) -> usize {
        self.half_of_peak() * 3 / 4
    }

    /// Half of the current or recent load: some submitters may be about to return.
    fn half_of_peak(&self) -> usize {
        let counts = [&self.current, &self.last, &self.previous].map(|count| count.load(Ordering::Relaxed));
        counts.into_iter().max().unwrap_or(0).div_ceil(2)
    }
}

/// Spins before sleeping: a commit often takes less time than waking up.
const SPIN_ATTEMPTS: u32 = 32;

/// Allows one commit at a time.
#[derive(Debug, Default)]
pub(super) struct CommitLock {
    locked: Mutex<bool>,
    released: Condvar,
}

impl CommitLock {
    /// Waits briefly for the lock; returns whether it was acquired.
    pub(super) fn try_acquire(&self) -> bool {
        for _ in 0..SPIN_ATTEMPTS {
            if !std::mem::replace(&mut lock(&self.locked), true) {
                return true;
            }
            std::thread::yield_now();
        }
        let mut taken = lock(&self.locked);
        if *taken {
            taken = self
                .released
                .wait_timeout(taken, COMMIT_LOCK_TIMEOUT)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        !std::mem::replace(&mut taken, true)
    }

    /// Releases the lock.
    pub(super) fn release(&self) {
        *lock(&self.locked) = false;
        self.released.notify_one();
    }
}
