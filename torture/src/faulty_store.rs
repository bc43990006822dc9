//! A store wrapper that injects one fault, at the n-th call of one method.

use flyball_store::{
    AdminStore, AppendOutcome, AppendUnit, ConfirmationRow, DeliveryOutcome, EventRecord, EventRef,
    EventStore, KvEntry, KvStore, Lease, LoadedSession, OperatorRows, OutboxMessage, OutboxState,
    Precondition, PruneReport, SessionFilter, SessionRow, StoreError, StoreErrorKind, StoreResult,
    StoredAnswer, StreamCursor, StreamEntry, WriteGuard,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every fallible method.
pub(crate) const METHODS: [&str; 30] = [
    "write_lock",
    "load",
    "append",
    "find_by_id",
    "records",
    "operator_rows",
    "save_policy",
    "policy",
    "events_since",
    "event_refs_since",
    "lease",
    "renew_lease",
    "release_lease",
    "claim_outbox",
    "record_delivery",
    "now",
    "fsync",
    "list_sessions",
    "leases",
    "pending",
    "outbox_messages",
    "retry_outbox",
    "prune",
    "verify",
    "engine_version",
    "kv_put",
    "kv_get",
    "kv_list",
    "kv_take",
    "kv_delete_expired",
];

/// Kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// Nothing was done, and the error says so.
    Error,
    /// It was done; the reply was lost.
    DoneThenError,
    /// It was not done; the outcome is unknown.
    Timeout,
    /// Another process holds the store.
    Busy,
    /// The disk is full.
    Full,
    /// The sync failed; it may or may not be done.
    SyncFailed,
    /// The store became read-only.
    ReadOnly,
    /// The connection is lost; it may or may not be done.
    Lost,
}

impl InjectedFault {
    pub(crate) const ALL: [InjectedFault; 8] = [
        InjectedFault::Error,
        InjectedFault::DoneThenError,
        InjectedFault::Timeout,
        InjectedFault::Busy,
        InjectedFault::Full,
        InjectedFault::SyncFailed,
        InjectedFault::ReadOnly,
        InjectedFault::Lost,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            InjectedFault::Error => "error",
            InjectedFault::DoneThenError => "done+err",
            InjectedFault::Timeout => "timeout",
            InjectedFault::Busy => "busy",
            InjectedFault::Full => "full",
            InjectedFault::SyncFailed => "eio-sync",
            InjectedFault::ReadOnly => "readonly",
            InjectedFault::Lost => "lost",
        }
    }

    fn error(self) -> StoreError {
        let what = format!("injected fault: {}", self.name());
        match self {
            InjectedFault::Error => StoreError::new(StoreErrorKind::Io, what),
            InjectedFault::DoneThenError | InjectedFault::Timeout | InjectedFault::Lost => {
                StoreError::new(StoreErrorKind::OutcomeUnknown, what)
            }
            InjectedFault::Busy => StoreError::new(StoreErrorKind::Busy, what),
            InjectedFault::Full => StoreError::new(StoreErrorKind::DiskFull, what),
            InjectedFault::SyncFailed => StoreError::new(StoreErrorKind::Io, what).with_unknown_outcome(),
            InjectedFault::ReadOnly => StoreError::new(StoreErrorKind::ReadOnly, what),
        }
    }

    /// Whether the operation is done before the n-th failure.
    const fn is_done_before(self, strike: u64) -> bool {
        match self {
            InjectedFault::DoneThenError => true,
            InjectedFault::SyncFailed | InjectedFault::Lost => strike % 2 == 1,
            _ => false,
        }
    }
}

/// When to fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultPlan {
    pub(crate) method: &'static str,
    pub(crate) fault: InjectedFault,
    /// The first call that fails, counted from 1.
    pub(crate) first: u64,
    /// Number of consecutive calls that fail.
    pub(crate) burst: u64,
    /// Control: an append reports success without storing.
    pub(crate) lies: bool,
}

/// A wrapper around another store.
pub(crate) struct FaultyStore {
    inner: Arc<dyn AdminStore>,
    plan: FaultPlan,
    calls: AtomicU64,
    strikes: AtomicU64,
}

impl FaultyStore {
    pub(crate) fn new(inner: Arc<dyn AdminStore>, plan: FaultPlan) -> Self {
        FaultyStore { inner, plan, calls: AtomicU64::new(0), strikes: AtomicU64::new(0) }
    }

    /// Number of injected faults so far.
    pub(crate) fn strikes(&self) -> u64 {
        self.strikes.load(Ordering::Relaxed)
    }

    /// Whether this call of a method must fail.
    fn should_fail(&self, method: &str) -> bool {
        if method != self.plan.method {
            return false;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        (self.plan.first..self.plan.first + self.plan.burst).contains(&call)
    }

    fn call<'a, T>(
        &'a self,
        method: &str,
        work: impl FnOnce(&'a dyn AdminStore) -> StoreResult<T>,
    ) -> StoreResult<T> {
        if !self.should_fail(method) {
            return work(self.inner.as_ref());
        }
        let strike = self.strikes.fetch_add(1, Ordering::Relaxed) + self.plan.first;
        if self.plan.fault.is_done_before(strike) {
            work(self.inner.as_ref())?;
        }
        Err(self.plan.fault.error())
    }
}

impl EventStore for FaultyStore {
    fn address(&self) -> String {
        self.inner.address()
    }

    fn prefers_batching(&self) -> bool {
        self.inner.prefers_batching()
    }

    fn write_lock(&self) -> StoreResult<WriteGuard<'_>> {
        self.call("write_lock", |inner| inner.write_lock())
    }

    fn load(&self, session: &str) -> StoreResult<Option<LoadedSession>> {
        self.call("load", |inner| inner.load(session))
    }

    fn append(&self, units: &[AppendUnit]) -> StoreResult<Vec<AppendOutcome>> {
        if self.plan.lies && self.should_fail("append") {
            self.strikes.fetch_add(1, Ordering::Relaxed);
            return Ok(units.iter().map(|_| AppendOutcome::Done).collect());
        }
        self.call("append", |inner| inner.append(units))
    }

    fn find_by_id_in_snapshot(&self, session: &str, id: &str) -> StoreResult<Option<StoredAnswer>> {
        self.call("find_by_id", |inner| inner.find_by_id_in_snapshot(session, id))
    }

    fn find_by_id(&self, session: &str, id: &str) -> StoreResult<Option<StoredAnswer>> {
        self.call("find_by_id", |inner| inner.find_by_id(session, id))
    }

    fn records(&self, session: &str, from: u64, to: u64) -> StoreResult<Vec<EventRecord>> {
        self.call("records", |inner| inner.records(session, from, to))
    }

    fn operator_rows(&self, session: &str) -> StoreResult<OperatorRows> {
        self.call("operator_rows", |inner| inner.operator_rows(session))
    }

    fn save_policy(&self, digest: &str, text: &str) -> StoreResult<()> {
        self.call("save_policy", |inner| inner.save_policy(digest, text))
    }

    fn policy(&self, digest: &str) -> StoreResult<Option<String>> {
        self.call("policy", |inner| inner.policy(digest))
    }

    fn events_since(&self, after: StreamCursor, limit: usize) -> StoreResult<Vec<StreamEntry>> {
        self.call("events_since", |inner| inner.events_since(after, limit))
    }

    fn event_refs_since(&self, after: StreamCursor, limit: usize) -> StoreResult<Vec<EventRef>> {
        self.call("event_refs_since", |inner| inner.event_refs_since(after, limit))
    }

    fn lease(&self, session: &str, holder: &str, ttl_ms: u64) -> StoreResult<Option<Lease>> {
        self.call("lease", |inner| inner.lease(session, holder, ttl_ms))
    }

    fn renew_lease(&self, lease: &Lease, ttl_ms: u64) -> StoreResult<bool> {
        self.call("renew_lease", |inner| inner.renew_lease(lease, ttl_ms))
    }

    fn release_lease(&self, lease: &Lease) -> StoreResult<()> {
        self.call("release_lease", |inner| inner.release_lease(lease))
    }

    fn claim_outbox(&self, limit: usize, hold_ms: u64) -> StoreResult<Vec<OutboxMessage>> {
        self.call("claim_outbox", |inner| inner.claim_outbox(limit, hold_ms))
    }

    fn record_delivery(&self, key: &str, how: &DeliveryOutcome) -> StoreResult<()> {
        self.call("record_delivery", |inner| inner.record_delivery(key, how))
    }

    fn now(&self) -> StoreResult<u64> {
        self.call("now", |inner| inner.now())
    }

    fn fsync(&self) -> StoreResult<()> {
        self.call("fsync", |inner| inner.fsync())
    }
}

impl AdminStore for FaultyStore {
    fn list_sessions(&self, which: SessionFilter, limit: usize) -> StoreResult<Vec<SessionRow>> {
        self.call("list_sessions", |inner| inner.list_sessions(which, limit))
    }

    fn leases(&self) -> StoreResult<Vec<Lease>> {
        self.call("leases", |inner| inner.leases())
    }

    fn pending(&self, session: &str) -> StoreResult<Option<ConfirmationRow>> {
        self.call("pending", |inner| inner.pending(session))
    }

    fn outbox_messages(&self, state: OutboxState, limit: usize) -> StoreResult<Vec<OutboxMessage>> {
        self.call("outbox_messages", |inner| inner.outbox_messages(state, limit))
    }

    fn retry_outbox(&self, key: &str) -> StoreResult<bool> {
        self.call("retry_outbox", |inner| inner.retry_outbox(key))
    }

    fn prune(&self, before: u64, dry_run: bool) -> StoreResult<PruneReport> {
        self.call("prune", |inner| inner.prune(before, dry_run))
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<Vec<String>> {
        self.call("verify", |inner| inner.verify(progress))
    }

    fn engine_version(&self) -> StoreResult<String> {
        self.call("engine_version", |inner| inner.engine_version())
    }
}

impl KvStore for FaultyStore {
    fn kv_put(&self, entry: &KvEntry, only_if: Precondition<'_>) -> StoreResult<bool> {
        self.call("kv_put", |inner| inner.kv_put(entry, only_if))
    }

    fn kv_get(&self, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>> {
        self.call("kv_get", |inner| inner.kv_get(namespace, key))
    }

    fn kv_list(&self, namespace: &str, after: &str, limit: usize) -> StoreResult<Vec<KvEntry>> {
        self.call("kv_list", |inner| inner.kv_list(namespace, after, limit))
    }

    fn kv_take(&self, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>> {
        self.call("kv_take", |inner| inner.kv_take(namespace, key))
    }

    fn kv_delete_expired(&self) -> StoreResult<u64> {
        self.call("kv_delete_expired", |inner| inner.kv_delete_expired())
    }
}
