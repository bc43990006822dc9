//! Store traits: the interface between the recorder and a storage engine.
//!
//! An engine stores what it is given and rejects stale writes; it makes no decisions. Every engine passes the same
//! conformance suite (`tests/conformance.rs`).

use crate::error::{StoreError, StoreErrorKind};
use crate::kv_store::KvStore;
use crate::record::{EventRecord, LoadedSession, SessionChange, SessionFilter, SessionRow};
use crate::store_info::{BackupSummary, StoreIdentity};
use flyball::{SessionPhase, Verdict};
use std::path::Path;

/// Result of a store operation.
pub type StoreResult<T> = std::result::Result<T, StoreError>;

/// Changes that are committed together or not at all: a session, and the ancestors whose budget it uses.
#[derive(Debug, Clone, PartialEq)]
pub struct AppendUnit {
    /// The changes. The session that the events belong to comes first.
    pub changes: Vec<SessionChange>,
}

/// Outcome of storing a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOutcome {
    /// Committed; it survives a power loss.
    Done,
    /// The session changed since it was loaded: reload it.
    Stale,
    /// A newer worker holds the session's lease: stop.
    Fenced,
}

/// The stored answer to an event id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// Sequence number of the event.
    pub seq: u64,
    /// Fingerprint of the body that came with the id.
    pub body_hash: u64,
    /// The decision.
    pub verdict: Verdict,
    /// The session's phase after the event.
    pub status: SessionPhase,
    /// The full decision as JSON, unless it was pruned.
    pub decision_json: Option<String>,
}

/// Rows that an operator may delete directly: the pending plan, and the label that requests attention.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorRows {
    /// The checksum of the confirmation row as it is now, computed from its columns; `None` if there is no row.
    pub pending: Option<u64>,
    /// Whether the label exists.
    pub label: bool,
}

/// A position in the order of all events of the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamCursor {
    /// Transaction id, for engines whose commits do not follow the order of positions.
    pub transaction: u64,
    /// Position of the event in the whole store.
    pub position: u64,
}

/// One event of the whole store, for subscribers.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEntry {
    /// Its position; continue reading from here.
    pub cursor: StreamCursor,
    /// Its session.
    pub session: String,
    /// The event and its decision.
    pub record: EventRecord,
}

/// Reference to an event of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRef {
    /// Its position; continue reading from here.
    pub cursor: StreamCursor,
    /// Its session.
    pub session: String,
    /// Its sequence number in the session.
    pub seq: u64,
}

/// The right to work on a session for a limited time. Appends carry its epoch; the store rejects an older epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: String,
    /// Id of the holder.
    pub holder: String,
    /// Increases with every new holder.
    pub epoch: u64,
}

/// An effect in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct OutboxMessage {
    /// Idempotency key: session, event, effect and sink.
    pub key: String,
    /// The session.
    pub session: String,
    /// Name of the effect.
    pub effect: String,
    /// Sink of the policy that receives it.
    pub sink: String,
    /// Payload as JSON.
    pub payload: String,
    /// Delivery state.
    pub state: OutboxState,
    /// Earlier attempts. Counted on claim, so that a message that crashes its dispatcher also becomes dead.
    pub attempts: u32,
    /// When the next attempt is due, in milliseconds of store time.
    pub due: u64,
    /// Error of the last attempt.
    pub error: Option<String>,
}

/// Delivery state of an outbox message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutboxState {
    /// Waiting for its due time.
    Waiting,
    /// Delivered.
    Done,
    /// Failed permanently; an operator may retry it.
    Dead,
}

impl OutboxState {
    /// Name as it is stored and printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            OutboxState::Waiting => "waiting",
            OutboxState::Done => "done",
            OutboxState::Dead => "dead",
        }
    }

    /// Parses a stored name.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [OutboxState::Waiting, OutboxState::Done, OutboxState::Dead]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

/// Outcome of a delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// It was performed.
    Delivered,
    /// It failed; try again after so many milliseconds of store time.
    Retry {
        /// The last error.
        error: String,
        /// Delay in milliseconds of store time.
        after_ms: u64,
    },
    /// Failed permanently.
    Dead {
        /// Error text.
        error: String,
    },
}

/// Marker for values whose drop releases the write lock.
trait DropGuard {}
impl<T> DropGuard for T {}

/// Holds the write lock while it lives, in engines that allow one writer at a time.
#[must_use = "the write lock is released when this is dropped"]
pub struct WriteGuard<'a> {
    #[allow(dead_code, reason = "held until drop, never read")]
    guard: Option<Box<dyn DropGuard + 'a>>,
}

impl<'a> WriteGuard<'a> {
    /// A guard for engines without a write lock.
    pub const fn noop() -> Self {
        WriteGuard { guard: None }
    }

    /// A guard that holds the lock until `held` is dropped.
    pub fn new<T: 'a>(held: T) -> Self {
        WriteGuard { guard: Some(Box::new(held)) }
    }
}

/// Event store: the operations that the recorder and the workers need.
pub trait EventStore: Send + Sync {
    /// Address without credentials: `sqlite:PATH`, `postgres://HOST/DATABASE`, `memory:`.
    fn address(&self) -> String;

    /// Whether commits are serialized anyway, so that batching events pays off.
    fn prefers_batching(&self) -> bool {
        false
    }

    /// Waits for the write lock, in engines that allow one writer at a time. Fair and starvation-free.
    ///
    /// # Errors
    /// If the lock is not acquired in time.
    fn write_lock(&self) -> StoreResult<WriteGuard<'_>>;

    /// Loads the last stored version of a session: its row, its snapshot and the events after it. `None` if there is
    /// no such session.
    ///
    /// # Errors
    /// If it cannot be read, or its rows are corrupt.
    fn load(&self, session: &str) -> StoreResult<Option<LoadedSession>>;

    /// Stores units in one transaction. Each unit is stored completely if none of its sessions changed since it was
    /// loaded, otherwise not at all. A stale unit does not affect the others.
    ///
    /// # Errors
    /// If nothing was stored, or with [`crate::StoreErrorKind::OutcomeUnknown`] if that is not known.
    fn append(&self, units: &[AppendUnit]) -> StoreResult<Vec<AppendOutcome>>;

    /// Like [`EventStore::append`], for one of several writers in this process. Calls `free` as soon as the next
    /// writer may start, possibly long before the data is on disk. Returns only when it is.
    ///
    /// # Errors
    /// As [`EventStore::append`].
    fn append_pipelined(
        &self,
        units: &[AppendUnit],
        release: &mut dyn FnMut(),
    ) -> StoreResult<Vec<AppendOutcome>> {
        let done = self.append(units);
        release();
        done
    }

    /// Finds the stored answer to an event id, no matter how old.
    ///
    /// # Errors
    /// If it cannot be read, or related rows are corrupt.
    fn find_by_id(&self, session: &str, id: &str) -> StoreResult<Option<StoredAnswer>>;

    /// Like [`EventStore::find_by_id`], restricted to events that the last snapshot covers. The recorder knows the
    /// ids of later events from the loaded session.
    ///
    /// # Errors
    /// As [`EventStore::find_by_id`].
    fn find_by_id_in_snapshot(&self, session: &str, id: &str) -> StoreResult<Option<StoredAnswer>> {
        self.find_by_id(session, id)
    }

    /// The events `from..=to` of a session, oldest first, without pruned ones.
    ///
    /// # Errors
    /// If they cannot be read, or are corrupt.
    fn records(&self, session: &str, from: u64, to: u64) -> StoreResult<Vec<EventRecord>>;

    /// The rows of a session that an operator may have deleted.
    ///
    /// # Errors
    /// If they cannot be read.
    fn operator_rows(&self, session: &str) -> StoreResult<OperatorRows>;

    /// Stores a policy's text under its digest, so that sessions can be recomputed under it.
    ///
    /// # Errors
    /// If it cannot be written.
    fn save_policy(&self, digest: &str, text: &str) -> StoreResult<()>;

    /// The text of a policy.
    ///
    /// # Errors
    /// If it cannot be read.
    fn policy(&self, digest: &str) -> StoreResult<Option<String>>;

    /// Up to `limit` events of all sessions after a position, in an order that never skips an event.
    ///
    /// # Errors
    /// If they cannot be read.
    fn events_since(&self, after: StreamCursor, limit: usize) -> StoreResult<Vec<StreamEntry>>;

    /// Like [`EventStore::events_since`], but returns only references, for callers that cache most events. The events
    /// are committed; a power loss may still undo the last ones.
    ///
    /// # Errors
    /// As [`EventStore::events_since`].
    fn event_refs_since(&self, after: StreamCursor, limit: usize) -> StoreResult<Vec<EventRef>> {
        let entries = self.events_since(after, limit)?.into_iter();
        Ok(entries
            .map(|StreamEntry { cursor, session, record }| EventRef { cursor, session, seq: record.seq })
            .collect())
    }

    /// The position of the newest event that [`EventStore::events_since`] returns. Reading from here yields only
    /// events stored later. Engines override this with a query that does not read every event.
    ///
    /// # Errors
    /// If it cannot be read.
    fn latest_cursor(&self) -> StoreResult<StreamCursor> {
        let mut newest = StreamCursor::default();
        while let Some(last) = self.events_since(newest, 1_000)?.last() {
            newest = last.cursor;
        }
        Ok(newest)
    }

    /// Leases a session for `ttl_ms` of store time; creates it if needed. `None` if another worker holds it.
    ///
    /// # Errors
    /// If it cannot be written.
    fn lease(&self, session: &str, holder: &str, ttl_ms: u64) -> StoreResult<Option<Lease>>;

    /// Extends a lease to `ttl_ms` from now. `false` if it was lost.
    ///
    /// # Errors
    /// If it cannot be written.
    fn renew_lease(&self, lease: &Lease, ttl_ms: u64) -> StoreResult<bool>;

    /// Releases a lease, if it is still held.
    ///
    /// # Errors
    /// If it cannot be written.
    fn release_lease(&self, lease: &Lease) -> StoreResult<()>;

    /// Claims due outbox messages. No other dispatcher gets them for `hold_ms` of store time.
    ///
    /// # Errors
    /// If it cannot be written.
    fn claim_outbox(&self, limit: usize, hold_ms: u64) -> StoreResult<Vec<OutboxMessage>>;

    /// Records the outcome of a delivery. Recording twice is harmless; a delivered message stays delivered.
    ///
    /// # Errors
    /// If it cannot be written.
    fn record_delivery(&self, key: &str, how: &DeliveryOutcome) -> StoreResult<()>;

    /// The store's clock, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// If it cannot be read.
    fn now(&self) -> StoreResult<u64>;

    /// Makes sure that data that was read is on disk before it is acknowledged. A writer that crashed between write
    /// and sync leaves a commit that is readable but that a power loss would undo.
    ///
    /// # Errors
    /// If the sync fails.
    fn fsync(&self) -> StoreResult<()> {
        Ok(())
    }

    /// Moves everything into the main file of the store, in engines that have one, so that a plain copy of it is a
    /// backup. Called by a process that exits; others may continue to use the store.
    ///
    /// # Errors
    /// If it cannot be written.
    fn checkpoint(&self) -> StoreResult<()> {
        Ok(())
    }
}

/// Counts of deleted rows, or of rows that a dry run would delete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct PruneReport {
    /// Ended sessions, with all their rows.
    pub sessions: u64,
    /// Old events of live sessions. Their counters and ids are kept.
    pub events: u64,
    /// Delivered outbox messages.
    pub outbox_messages: u64,
}

/// The confirmation row of a session: the original `session_state` columns and additional ones.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ConfirmationRow {
    /// The session.
    pub session_id: String,
    /// The plan as JSON: `[{"tool":…,"args":…}]`.
    pub pending_plan: String,
    /// The question shown to the approver.
    pub confirmation_question: String,
    /// Who requested the plan; only they may approve it.
    pub requester: Option<String>,
    /// Digest that an approval is bound to.
    pub digest: String,
    /// `awaiting`.
    pub status: String,
    /// When approval was requested: `2025-10-11 12:40:00`, UTC.
    pub created_at: String,
    /// When the request expires.
    pub expires_at: Option<String>,
    /// When the row was written.
    pub updated_at: String,
}

/// Admin store: the additional operations for inspection and maintenance.
pub trait AdminStore: EventStore + KvStore {
    /// Session rows, most recently changed first.
    ///
    /// # Errors
    /// If they cannot be read, or are damaged.
    fn list_sessions(&self, which: SessionFilter, limit: usize) -> StoreResult<Vec<SessionRow>>;

    /// The unexpired leases.
    ///
    /// # Errors
    /// If they cannot be read.
    fn leases(&self) -> StoreResult<Vec<Lease>>;

    /// The pending plan of a session, as stored.
    ///
    /// # Errors
    /// If it cannot be read.
    fn pending(&self, session: &str) -> StoreResult<Option<ConfirmationRow>>;

    /// Outbox messages in a state, oldest first.
    ///
    /// # Errors
    /// If they cannot be read.
    fn outbox_messages(&self, state: OutboxState, limit: usize) -> StoreResult<Vec<OutboxMessage>>;

    /// Number of outbox messages in a state.
    ///
    /// # Errors
    /// If they cannot be counted.
    fn outbox_count(&self, state: OutboxState) -> StoreResult<u64> {
        Ok(self.outbox_messages(state, usize::MAX)?.len() as u64)
    }

    /// Schedules a dead outbox message for another attempt. `false` if there is no such dead message.
    ///
    /// # Errors
    /// If it cannot be written.
    fn retry_outbox(&self, key: &str) -> StoreResult<bool>;

    /// Deletes data older than `before` (event time, in milliseconds): ended sessions, events that a snapshot covers,
    /// delivered outbox messages. Counters of live sessions are always kept.
    ///
    /// # Errors
    /// If it cannot be written; nothing is deleted then.
    fn prune(&self, before: u64, dry_run: bool) -> StoreResult<PruneReport>;

    /// Reads everything and returns one line per corruption; empty if there is none. Calls `progress` with the number
    /// of events read so far.
    ///
    /// # Errors
    /// If it cannot be read at all.
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<Vec<String>>;

    /// Engine and version for display: `SQLite 3.54.1, schema 2`.
    ///
    /// # Errors
    /// If it cannot be read.
    fn engine_version(&self) -> StoreResult<String>;

    /// Identity of this store; `None` for engines that are not file-based. Updates the high-water mark.
    ///
    /// # Errors
    /// If the store is not the one that was opened.
    fn identity(&self) -> StoreResult<Option<StoreIdentity>> {
        Ok(None)
    }

    /// Writes a consistent copy of the store to a file while other writers continue, and verifies it. Replaces an
    /// existing file only with `replace`.
    ///
    /// # Errors
    /// If it cannot be written, or this engine has other tools for it.
    fn backup(&self, to: &Path, replace: bool) -> StoreResult<BackupSummary> {
        let _ = (to, replace);
        let what = format!("{}: this store has no file to copy", self.address());
        let help = "for PostgreSQL use its own tools: `pg_dump --format=custom --file=FILE DATABASE` and `pg_restore`";
        Err(StoreError::new(StoreErrorKind::BadAddress, what).with_help(help))
    }
}
