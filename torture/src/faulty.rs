//! A store that fails when it is told to: one fault, at the n-th call of one method.

use flyball_journal::{
    Answered, Appended, Cursor, Desk, Entry, Errand, ErrandState, Handles, Head, If, Journal, Lease, Loaded,
    Note, PendingRow, Pruned, Record, Result, Settled, Shelf, Sighting, StoreError, Trouble, Turn, Unit,
    Which,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every method that can fail.
pub(crate) const METHODS: [&str; 30] = [
    "turn",
    "load",
    "append",
    "find",
    "records",
    "handles",
    "keep_policy",
    "policy",
    "since",
    "sightings",
    "lease",
    "renew",
    "free",
    "claim",
    "settle",
    "now",
    "harden",
    "heads",
    "leases",
    "pending",
    "errands",
    "retry",
    "prune",
    "verify",
    "engine",
    "put",
    "note",
    "notes",
    "take",
    "sweep",
];

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing was done, and that is said.
    Error,
    /// It was done; the answer was lost.
    DoneThenError,
    /// It was not done; nobody knows.
    Timeout,
    /// Somebody else holds the store.
    Busy,
    /// The disk is full.
    Full,
    /// The disk failed while syncing; it was done or not.
    SyncFailed,
    /// It can no longer be written.
    ReadOnly,
    /// The connection is lost; it was done or not.
    Lost,
}

impl Fault {
    pub(crate) const ALL: [Fault; 8] = [
        Fault::Error,
        Fault::DoneThenError,
        Fault::Timeout,
        Fault::Busy,
        Fault::Full,
        Fault::SyncFailed,
        Fault::ReadOnly,
        Fault::Lost,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Fault::Error => "error",
            Fault::DoneThenError => "done+err",
            Fault::Timeout => "timeout",
            Fault::Busy => "busy",
            Fault::Full => "full",
            Fault::SyncFailed => "eio-sync",
            Fault::ReadOnly => "readonly",
            Fault::Lost => "lost",
        }
    }

    fn error(self) -> StoreError {
        let what = format!("a fault was put here: {}", self.name());
        match self {
            Fault::Error => StoreError::new(Trouble::Io, what),
            Fault::DoneThenError | Fault::Timeout | Fault::Lost => StoreError::new(Trouble::Unknown, what),
            Fault::Busy => StoreError::new(Trouble::Busy, what),
            Fault::Full => StoreError::new(Trouble::Full, what),
            Fault::SyncFailed => StoreError::new(Trouble::Io, what).unsure(),
            Fault::ReadOnly => StoreError::new(Trouble::ReadOnly, what),
        }
    }

    /// Whether the work is done before it fails, at the n-th strike.
    const fn done(self, strike: u64) -> bool {
        match self {
            Fault::DoneThenError => true,
            Fault::SyncFailed | Fault::Lost => strike % 2 == 1,
            _ => false,
        }
    }
}

/// When it fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) method: &'static str,
    pub(crate) fault: Fault,
    /// The first call that fails, counted from 1.
    pub(crate) first: u64,
    /// How many calls fail one after the other.
    pub(crate) burst: u64,
    /// Instead of failing, an append says that it is done and is not: for the control.
    pub(crate) lies: bool,
}

/// A store around another one.
pub(crate) struct Faulty {
    inner: Arc<dyn Desk>,
    plan: Plan,
    calls: AtomicU64,
    strikes: AtomicU64,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Desk>, plan: Plan) -> Self {
        Faulty { inner, plan, calls: AtomicU64::new(0), strikes: AtomicU64::new(0) }
    }

    /// How often it has failed.
    pub(crate) fn strikes(&self) -> u64 {
        self.strikes.load(Ordering::Relaxed)
    }

    /// Whether this call of a method is to fail.
    fn hit(&self, method: &str) -> bool {
        if method != self.plan.method {
            return false;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        (self.plan.first..self.plan.first + self.plan.burst).contains(&call)
    }

    fn run<'a, T>(&'a self, method: &str, work: impl FnOnce(&'a dyn Desk) -> Result<T>) -> Result<T> {
        if !self.hit(method) {
            return work(self.inner.as_ref());
        }
        let strike = self.strikes.fetch_add(1, Ordering::Relaxed) + self.plan.first;
        if self.plan.fault.done(strike) {
            work(self.inner.as_ref())?;
        }
        Err(self.plan.fault.error())
    }
}

impl Journal for Faulty {
    fn address(&self) -> String {
        self.inner.address()
    }

    fn has_one_writer(&self) -> bool {
        self.inner.has_one_writer()
    }

    fn turn(&self) -> Result<Turn<'_>> {
        self.run("turn", |inner| inner.turn())
    }

    fn load(&self, session: &str) -> Result<Option<Loaded>> {
        self.run("load", |inner| inner.load(session))
    }

    fn append(&self, units: &[Unit]) -> Result<Vec<Appended>> {
        if self.plan.lies && self.hit("append") {
            self.strikes.fetch_add(1, Ordering::Relaxed);
            return Ok(units.iter().map(|_| Appended::Done).collect());
        }
        self.run("append", |inner| inner.append(units))
    }

    fn find_covered(&self, session: &str, id: &str) -> Result<Option<Answered>> {
        self.run("find", |inner| inner.find_covered(session, id))
    }

    fn find(&self, session: &str, id: &str) -> Result<Option<Answered>> {
        self.run("find", |inner| inner.find(session, id))
    }

    fn records(&self, session: &str, from: u64, to: u64) -> Result<Vec<Record>> {
        self.run("records", |inner| inner.records(session, from, to))
    }

    fn handles(&self, session: &str) -> Result<Handles> {
        self.run("handles", |inner| inner.handles(session))
    }

    fn keep_policy(&self, digest: &str, text: &str) -> Result<()> {
        self.run("keep_policy", |inner| inner.keep_policy(digest, text))
    }

    fn policy(&self, digest: &str) -> Result<Option<String>> {
        self.run("policy", |inner| inner.policy(digest))
    }

    fn since(&self, after: Cursor, limit: usize) -> Result<Vec<Entry>> {
        self.run("since", |inner| inner.since(after, limit))
    }

    fn sightings(&self, after: Cursor, limit: usize) -> Result<Vec<Sighting>> {
        self.run("sightings", |inner| inner.sightings(after, limit))
    }

    fn lease(&self, session: &str, holder: &str, ttl_ms: u64) -> Result<Option<Lease>> {
        self.run("lease", |inner| inner.lease(session, holder, ttl_ms))
    }

    fn renew(&self, lease: &Lease, ttl_ms: u64) -> Result<bool> {
        self.run("renew", |inner| inner.renew(lease, ttl_ms))
    }

    fn free(&self, lease: &Lease) -> Result<()> {
        self.run("free", |inner| inner.free(lease))
    }

    fn claim(&self, limit: usize, hold_ms: u64) -> Result<Vec<Errand>> {
        self.run("claim", |inner| inner.claim(limit, hold_ms))
    }

    fn settle(&self, key: &str, how: &Settled) -> Result<()> {
        self.run("settle", |inner| inner.settle(key, how))
    }

    fn now(&self) -> Result<u64> {
        self.run("now", |inner| inner.now())
    }

    fn harden(&self) -> Result<()> {
        self.run("harden", |inner| inner.harden())
    }
}

impl Desk for Faulty {
    fn heads(&self, which: Which, limit: usize) -> Result<Vec<Head>> {
        self.run("heads", |inner| inner.heads(which, limit))
    }

    fn leases(&self) -> Result<Vec<Lease>> {
        self.run("leases", |inner| inner.leases())
    }

    fn pending(&self, session: &str) -> Result<Option<PendingRow>> {
        self.run("pending", |inner| inner.pending(session))
    }

    fn errands(&self, state: ErrandState, limit: usize) -> Result<Vec<Errand>> {
        self.run("errands", |inner| inner.errands(state, limit))
    }

    fn retry(&self, key: &str) -> Result<bool> {
        self.run("retry", |inner| inner.retry(key))
    }

    fn prune(&self, before: u64, dry_run: bool) -> Result<Pruned> {
        self.run("prune", |inner| inner.prune(before, dry_run))
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<String>> {
        self.run("verify", |inner| inner.verify(progress))
    }

    fn engine(&self) -> Result<String> {
        self.run("engine", |inner| inner.engine())
    }
}

impl Shelf for Faulty {
    fn put(&self, note: &Note, only_if: If<'_>) -> Result<bool> {
        self.run("put", |inner| inner.put(note, only_if))
    }

    fn note(&self, shelf: &str, key: &str) -> Result<Option<Note>> {
        self.run("note", |inner| inner.note(shelf, key))
    }

    fn notes(&self, shelf: &str, after: &str, limit: usize) -> Result<Vec<Note>> {
        self.run("notes", |inner| inner.notes(shelf, after, limit))
    }

    fn take(&self, shelf: &str, key: &str) -> Result<Option<Note>> {
        self.run("take", |inner| inner.take(shelf, key))
    }

    fn sweep(&self) -> Result<u64> {
        self.run("sweep", |inner| inner.sweep())
    }
}
