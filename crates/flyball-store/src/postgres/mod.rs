//! PostgreSQL engine (version 13 or later), for stores shared by several machines.
//!
//! Each append checks the revision of the session row in the statement itself, so the server rejects stale writers.
//! Callers are plain threads: each waits for its own reply, and the server groups their commits.

mod connection_config;
pub(crate) use connection_config::redacted_address;
mod admin;
mod append;
mod coordination;
mod kv;
mod load;
mod pg_error;
mod pool;
mod rows;
mod schema;
mod verify;
mod writes;

use crate::event_store::{
    AdminStore, AppendOutcome, AppendUnit, ConfirmationRow, DeliveryOutcome, EventRef, EventStore, Lease,
    OperatorRows, OutboxMessage, OutboxState, PruneReport, StoreResult, StoredAnswer, StreamCursor,
    StreamEntry, WriteGuard,
};
use crate::failpoint::FailpointHook;
use crate::kv_store::{KvEntry, KvStore, Precondition};
use crate::record::{EventRecord, LoadedSession, SessionFilter, SessionRow};
use pool::PostgresPool;

/// Default maximum number of connections.
const DEFAULT_CONNECTIONS: usize = 16;

/// Options for opening the store.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Maximum number of connections.
    pub connections: usize,
    /// Failpoint callback for crash tests.
    pub failpoints: FailpointHook,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        PostgresOptions { connections: DEFAULT_CONNECTIONS, failpoints: FailpointHook::default() }
    }
}

/// A store in PostgreSQL.
pub struct PostgresStore {
    pool: PostgresPool,
}

impl PostgresStore {
    /// Opens the store at `postgres://USER@HOST/DATABASE` and creates missing tables.
    ///
    /// # Errors
    /// If the address is invalid, the server cannot be reached, or a newer Flyball created the tables.
    pub fn open(address: &str) -> StoreResult<Self> {
        Self::open_with(address, PostgresOptions::default())
    }

    /// Like [`PostgresStore::open`], with options.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub fn open_with(address: &str, options: PostgresOptions) -> StoreResult<Self> {
        let pool = PostgresPool::new(address, options)?;
        schema::migrate(&pool)?;
        Ok(PostgresStore { pool })
    }
}

/// Describes why the connection to another machine is exposed to impersonation or eavesdropping, if it is.
pub(crate) fn transport_weakness(address: &str) -> Option<&'static str> {
    connection_config::parse(address).ok()?.transport_weakness()
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Postgres").field(&self.pool.shown()).finish()
    }
}

impl EventStore for PostgresStore {
    fn address(&self) -> String {
        self.pool.shown().to_owned()
    }

    /// The server groups commits, but one transaction for many events is still cheaper.
    fn prefers_batching(&self) -> bool {
        true
    }

    fn write_lock(&self) -> StoreResult<WriteGuard<'_>> {
        Ok(WriteGuard::noop())
    }

    fn load(&self, session: &str) -> StoreResult<Option<LoadedSession>> {
        load::load(&self.pool, session)
    }

    fn append(&self, units: &[AppendUnit]) -> StoreResult<Vec<AppendOutcome>> {
        append::append(&self.pool, units)
    }

    fn find_by_id(&self, session: &str, id: &str) -> StoreResult<Option<StoredAnswer>> {
        load::find_by_id(&self.pool, session, id)
    }

    fn records(&self, session: &str, from: u64, to: u64) -> StoreResult<Vec<EventRecord>> {
        load::records_between(&self.pool, session, from, to)
    }

    fn operator_rows(&self, session: &str) -> StoreResult<OperatorRows> {
        load::operator_rows(&self.pool, session)
    }

    fn save_policy(&self, digest: &str, text: &str) -> StoreResult<()> {
        load::save_policy(&self.pool, digest, text)
    }

    fn policy(&self, digest: &str) -> StoreResult<Option<String>> {
        load::policy(&self.pool, digest)
    }

    fn events_since(&self, after: StreamCursor, limit: usize) -> StoreResult<Vec<StreamEntry>> {
        coordination::events_since(&self.pool, after, limit)
    }

    fn event_refs_since(&self, after: StreamCursor, limit: usize) -> StoreResult<Vec<EventRef>> {
        coordination::event_refs_since(&self.pool, after, limit)
    }

    fn latest_cursor(&self) -> StoreResult<StreamCursor> {
        coordination::latest_cursor(&self.pool)
    }

    fn lease(&self, session: &str, holder: &str, ttl_ms: u64) -> StoreResult<Option<Lease>> {
        coordination::lease(&self.pool, session, holder, ttl_ms)
    }

    fn renew_lease(&self, lease: &Lease, ttl_ms: u64) -> StoreResult<bool> {
        coordination::renew_lease(&self.pool, lease, ttl_ms)
    }

    fn release_lease(&self, lease: &Lease) -> StoreResult<()> {
        coordination::release_lease(&self.pool, lease)
    }

    fn claim_outbox(&self, limit: usize, hold_ms: u64) -> StoreResult<Vec<OutboxMessage>> {
        coordination::claim_outbox(&self.pool, limit, hold_ms)
    }

    fn record_delivery(&self, key: &str, how: &DeliveryOutcome) -> StoreResult<()> {
        coordination::record_delivery(&self.pool, key, how)
    }

    fn now(&self) -> StoreResult<u64> {
        coordination::now(&self.pool)
    }
}

impl AdminStore for PostgresStore {
    fn leases(&self) -> StoreResult<Vec<Lease>> {
        coordination::leases(&self.pool)
    }

    fn list_sessions(&self, which: SessionFilter, limit: usize) -> StoreResult<Vec<SessionRow>> {
        admin::list_sessions(&self.pool, which, limit)
    }

    fn pending(&self, session: &str) -> StoreResult<Option<ConfirmationRow>> {
        admin::pending(&self.pool, session)
    }

    fn outbox_messages(&self, state: OutboxState, limit: usize) -> StoreResult<Vec<OutboxMessage>> {
        admin::outbox_messages(&self.pool, state, limit)
    }

    fn outbox_count(&self, state: OutboxState) -> StoreResult<u64> {
        admin::outbox_count(&self.pool, state)
    }

    fn retry_outbox(&self, key: &str) -> StoreResult<bool> {
        admin::retry_outbox(&self.pool, key)
    }

    fn prune(&self, before: u64, dry_run: bool) -> StoreResult<PruneReport> {
        admin::prune(&self.pool, before, dry_run)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<Vec<String>> {
        verify::verify(&self.pool, progress)
    }

    fn engine_version(&self) -> StoreResult<String> {
        self.pool.read(async |client| schema::engine_version(client).await)
    }
}

impl KvStore for PostgresStore {
    fn kv_put(&self, entry: &KvEntry, only_if: Precondition<'_>) -> StoreResult<bool> {
        kv::put(&self.pool, entry, only_if)
    }

    fn kv_get(&self, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>> {
        kv::get(&self.pool, namespace, key)
    }

    fn kv_list(&self, namespace: &str, after: &str, limit: usize) -> StoreResult<Vec<KvEntry>> {
        kv::list(&self.pool, namespace, after, limit)
    }

    fn kv_take(&self, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>> {
        kv::take(&self.pool, namespace, key)
    }

    fn kv_delete_expired(&self) -> StoreResult<u64> {
        kv::delete_expired(&self.pool)
    }
}
