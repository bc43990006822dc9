//! On the way to the store: which sessions were folded but are not known to be stored, and whose turn it is to commit.

use super::lock;
use crate::lookup::Lookup;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long to wait for one to arrive before looking again.
const GLANCE: Duration = Duration::from_millis(20);

/// The sessions on their way.
#[derive(Debug, Default)]
pub(super) struct Flights {
    names: Mutex<Lookup<()>>,
    arrived: Condvar,
}

impl Flights {
    /// Whether a session is on its way.
    pub(super) fn has(&self, name: &str) -> bool {
        lock(&self.names).has(name)
    }

    /// A session sets out.
    pub(super) fn begin(&self, name: &str) {
        lock(&self.names).insert(name.to_owned(), ());
    }

    /// Sessions have arrived, or were forgotten.
    pub(super) fn end(&self, names: &[String]) {
        let mut all = lock(&self.names);
        names.iter().for_each(|name| {
            all.remove(name);
        });
        drop(all);
        self.arrived.notify_all();
    }

    /// All of them.
    pub(super) fn all(&self) -> BTreeSet<String> {
        lock(&self.names).in_no_order().map(|(name, ())| name.to_owned()).collect()
    }

    /// Waits until one arrives, or a moment.
    pub(super) fn wait(&self) {
        let names = lock(&self.names);
        if names.len() > 0 {
            drop(self.arrived.wait_timeout(names, GLANCE).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// How long to wait for the gate before those who came meanwhile are let in.
const MOMENT: Duration = Duration::from_micros(200);

/// Commits after which a process is one that lives long.
const LONG: usize = 256;

/// So many are let into a commit in any case, here and in a line.
pub(crate) const FEW: usize = 16;

/// How many there are who have an event decided upon, and how many there were lately.
#[derive(Debug, Default)]
pub(super) struct Turnout {
    commits: AtomicUsize,
    about: AtomicUsize,
    last: AtomicUsize,
    before: AtomicUsize,
}

impl Turnout {
    /// So many have come.
    pub(super) fn come(&self, events: usize) {
        self.about.fetch_add(events, Ordering::Relaxed);
    }

    /// So many have been told.
    pub(super) fn go(&self, events: usize) {
        self.about.fetch_sub(events, Ordering::Relaxed);
    }

    /// A commit begins.
    pub(super) fn note(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        let about = self.about.load(Ordering::Relaxed);
        self.before.store(self.last.swap(about, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether there were so many commits that there will be many more.
    pub(super) fn has_lasted(&self) -> bool {
        self.commits.load(Ordering::Relaxed) > LONG
    }

    /// How many are let into one commit: half of those who are about, so that the others are decided upon meanwhile.
    pub(super) fn most(&self) -> usize {
        self.half().max(FEW)
    }

    /// How many are likely to come to the next commit.
    pub(super) fn likely(&self) -> usize {
        self.half() * 3 / 4
    }

    /// Half of those who are about, or were a moment ago: some may be just coming back.
    fn half(&self) -> usize {
        let counts = [&self.about, &self.last, &self.before].map(|count| count.load(Ordering::Relaxed));
        counts.into_iter().max().unwrap_or(0).div_ceil(2)
    }
}

/// How often to look before going to sleep: a commit is often over in less time than waking up takes.
const TURNS: u32 = 32;

/// One commit at a time.
#[derive(Debug, Default)]
pub(super) struct Gate {
    taken: Mutex<bool>,
    freed: Condvar,
}

impl Gate {
    /// Waits a moment for the gate; says whether it is ours now.
    pub(super) fn enter(&self) -> bool {
        for _ in 0..TURNS {
            if !std::mem::replace(&mut lock(&self.taken), true) {
                return true;
            }
            std::thread::yield_now();
        }
        let mut taken = lock(&self.taken);
        if *taken {
            taken = self.freed.wait_timeout(taken, MOMENT).unwrap_or_else(PoisonError::into_inner).0;
        }
        !std::mem::replace(&mut taken, true)
    }

    /// The commit is over.
    pub(super) fn leave(&self) {
        *lock(&self.taken) = false;
        self.freed.notify_one();
    }
}
