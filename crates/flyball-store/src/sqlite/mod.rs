//! SQLite engine: one embedded file; the default.
//!
//! WAL with `synchronous=FULL`: commits survive a power loss. One connection writes, and processes that share the
//! file queue for a fair lock (`write_lock.rs`), because many writers on one SQLite file starve each other.

mod admin;
mod append;
mod backup;
mod checkpoint;
mod coordination;
mod create;
mod identity;
mod kv;
mod load;
mod mark_writer;
mod reader;
mod row_cache;
mod rows;
mod schema;
mod store_path;
mod transaction;
mod verify;
mod wal;
mod write_lock;

use crate::error::{StoreError, StoreErrorKind};
use crate::event_store::{
    AdminStore, AppendOutcome, AppendUnit, ConfirmationRow, DeliveryOutcome, EventRef, EventStore, Lease,
    OperatorRows, OutboxMessage, OutboxState, PruneReport, StoreResult, StoredAnswer, StreamCursor,
    StreamEntry, WriteGuard,
};
use crate::failpoint::FailpointHook;
use crate::high_water_mark::{HighWaterMark, HighWaterMarkFile, HighWaterMarks};
use crate::kv_store::{KvEntry, KvStore, Precondition};
use crate::record::{EventRecord, LoadedSession, SessionFilter, SessionRow};
use crate::store_info::{BackupSummary, StoreIdentity};
pub use backup::{RestoreSummary, restore};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Oldest safe SQLite version: before it, two connections could corrupt a database with a write-ahead log.
const MIN_SQLITE_VERSION: (i32, &str) = (3_051_003, "3.51.3");
/// How long a writer waits for the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Page cache limit in KiB: enough for the last page of each index of many sessions.
const CACHE_KIB: u32 = 16_384;

/// Durability of commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Every commit survives a power loss.
    #[default]
    Full,
    /// A power loss may lose the last commits. For tests that must detect this.
    Normal,
    /// A power loss may lose everything. For tests that must detect this.
    Off,
}

/// Options for opening the store.
#[derive(Debug, Clone, Default)]
pub struct SqliteOptions {
    /// Durability of commits.
    pub sync: SyncMode,
    /// Create a missing directory, private to the user.
    pub create_dir: bool,
    /// Fail if the store does not exist; leave a file that is not a store unchanged.
    pub must_exist: bool,
    /// Location of the high-water marks. Without it, a removed store is not noticed.
    pub high_water_marks: Option<HighWaterMarks>,
    /// Failpoint callback for crash tests.
    pub failpoints: FailpointHook,
}

/// A store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    sync: SyncMode,
    failpoints: FailpointHook,
    identity: identity::OpenFileIdentity,
    /// Writer of the high-water mark, if there is a location for it.
    mark_writer: Option<mark_writer::MarkWriter>,
    writer: Mutex<SqliteWriter>,
    reader: reader::ReadConnection,
    wal: Arc<wal::WalSync>,
    write_lock: write_lock::WriteLock,
    row_cache: row_cache::RowCache,
}

#[derive(Debug)]
struct SqliteWriter {
    connection: Connection,
    /// Whether we sync commits instead of SQLite, so that the next writer does not have to wait for the sync.
    separate_sync: bool,
    /// SQLite's counter of other connections' writes, as of the last time that the log was known to be synced.
    data_version: Option<i64>,
}

impl SqliteStore {
    /// Opens the store and creates it if it is missing.
    ///
    /// # Errors
    /// If it cannot be opened, is not a database, was written by a newer Flyball, or is not the store that its mark
    /// names. Nothing is changed then.
    pub fn open(path: &Path, options: SqliteOptions) -> StoreResult<Self> {
        let version = rusqlite::version_number();
        if version < MIN_SQLITE_VERSION.0 {
            let what = format!(
                "this is SQLite {}; version {} or later is required",
                rusqlite::version(),
                MIN_SQLITE_VERSION.1
            );
            return Err(StoreError::new(StoreErrorKind::UnsupportedVersion, what));
        }
        let mark_file =
            options.high_water_marks.as_ref().and_then(|marks| marks.for_store(path, options.create_dir));
        let mark = mark_file.as_ref().and_then(HighWaterMarkFile::read);
        let marked = mark_file.as_ref().zip(mark.as_ref());
        if let Some((mark_file, mark)) = marked.filter(|_| path.symlink_metadata().is_err()) {
            mark_file.check_absent(mark, "the store was removed")?;
        }
        let write_lock = write_lock::WriteLock::for_database(path);
        let inode = match store_path::prepare(path, options.create_dir)? {
            Some(inode) => inode,
            None if options.must_exist => return Err(missing_store(path, "there is no store")),
            None => {
                create::create_store(path, &write_lock, &options.failpoints)?;
                store_path::prepare(path, false)?
                    .ok_or_else(|| missing_store(path, "the store was removed again"))?
            }
        };
        create::remove_leftover_link(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(path, flags).map_err(|error| to_store_error(path, &error))?;
        let log = Arc::new(wal::WalSync::for_database(path));
        let mut opening = StoreOpener {
            path,
            connection,
            options: &options,
            write_lock: &write_lock,
            high_water_mark: marked,
        };
        let id = opening.prepare(&log)?;
        let connection = opening.connection;
        Ok(SqliteStore {
            path: path.to_path_buf(),
            sync: options.sync,
            identity: identity::OpenFileIdentity::capture(path, id, inode)?,
            mark_writer: mark_file.map(|place| mark_writer::MarkWriter::new(place, mark)),
            failpoints: options.failpoints,
            writer: Mutex::new(SqliteWriter { connection, separate_sync: false, data_version: None }),
            reader: reader::ReadConnection::default(),
            wal: log,
            write_lock,
            row_cache: row_cache::RowCache::default(),
        })
    }

    fn sql_error(&self, error: &rusqlite::Error) -> StoreError {
        let error = to_store_error(&self.path, error);
        // SQLite cannot tell why its files changed.
        let unreadable = [
            StoreErrorKind::Io,
            StoreErrorKind::Corrupt,
            StoreErrorKind::NotADatabase,
            StoreErrorKind::NotFound,
        ];
        let why = if unreadable.contains(&error.kind) { self.identity.explain_failure() } else { None };
        why.unwrap_or(error)
    }

    fn store_error(&self, fault: SqliteError) -> StoreError {
        match fault {
            SqliteError::Sql(error) => self.sql_error(&error),
            SqliteError::Corrupt(what) => {
                let damaged = || StoreError::corrupt(format!("{}: {what}", self.path.display()));
                self.identity.check().err().unwrap_or_else(damaged)
            }
        }
    }
}

/// A store that is being opened.
struct StoreOpener<'a> {
    path: &'a Path,
    connection: Connection,
    options: &'a SqliteOptions,
    write_lock: &'a write_lock::WriteLock,
    high_water_mark: Option<(&'a HighWaterMarkFile, &'a HighWaterMark)>,
}

impl StoreOpener<'_> {
    /// Configures the connection and migrates the schema; returns the id of the store.
    fn prepare(&mut self, log: &Arc<wal::WalSync>) -> StoreResult<String> {
        let (path, connection, sync) = (self.path, &mut self.connection, self.options.sync);
        let wrong = |error: rusqlite::Error| to_store_error(path, &error);
        connection.busy_timeout(BUSY_TIMEOUT).map_err(wrong)?;
        connection.set_prepared_statement_cache_capacity(64);
        let no_checkpoint = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        connection.set_db_config(no_checkpoint, true).map_err(wrong)?;
        // Stable plans regardless of the bound values, so that no statement is prepared twice.
        let stable_plans = rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
        connection.set_db_config(stable_plans, true).map_err(wrong)?;
        // Read the schema first: a file that is not a database, or too new, stays unchanged.
        let known = schema::read_schema_info(connection).map_err(wrong)?;
        schema::check_supported(known.schema)?;
        if known.schema.is_none() {
            let what = match std::fs::metadata(path).map_or(0, |file| file.len()) {
                0 => "the file is empty: creating the store was interrupted",
                _ => "it is not a Flyball store",
            };
            if let Some((mark_file, mark)) = self.high_water_mark {
                mark_file.check_absent(mark, what)?;
            }
            if self.options.must_exist {
                return Err(missing_store(path, what));
            }
        } else if let Some((mark_file, mark)) = self.high_water_mark {
            let position = append::latest_position(connection).map_err(wrong)?;
            mark_file.check(mark, known.id.as_deref().unwrap_or_default(), rows::to_u64(position))?;
        }
        let pragmas = match sync {
            SyncMode::Full => "FULL",
            SyncMode::Normal => "NORMAL",
            SyncMode::Off => "OFF",
        };
        let pragmas = format!(
            "PRAGMA synchronous={pragmas}; PRAGMA cache_size=-{CACHE_KIB}; PRAGMA temp_store=MEMORY;"
        );
        connection.execute_batch(&pragmas).map_err(wrong)?;
        checkpoint::Checkpointer::install(
            connection,
            path.to_path_buf(),
            Arc::clone(log),
            sync == SyncMode::Full,
        )
        .map_err(wrong)?;
        match known {
            // A copy made by another tool may have no log.
            schema::SchemaInfo { schema: Some(schema::CURRENT_SCHEMA), id: Some(id) } if log.exists() => {
                Ok(id)
            }
            _ => self.migrate(),
        }
    }

    fn migrate(&mut self) -> StoreResult<String> {
        let wrong = |error: rusqlite::Error| to_store_error(self.path, &error);
        let _guard = self.write_lock.acquire()?;
        create::enable_wal(&self.connection, self.path)?;
        schema::migrate(&mut self.connection, &self.options.failpoints).map_err(wrong)?;
        let id = schema::store_id(&self.connection).map_err(wrong)?;
        id.ok_or_else(|| StoreError::corrupt(format!("{}: the store has no id", self.path.display())))
    }
}

/// Error of a command that requires an existing store.
fn missing_store(path: &Path, what: &str) -> StoreError {
    let help = "record something first: `flyball observe --store < events.jsonl`; or choose another store with --store";
    StoreError::new(StoreErrorKind::NotFound, format!("{}: {what}", path.display())).with_help(help)
}

/// Error inside the engine.
#[derive(Debug)]
enum SqliteError {
    /// An error of SQLite.
    Sql(rusqlite::Error),
    /// A row does not match its checksum, or is missing.
    Corrupt(String),
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            // A value of a type that we never store: it was modified.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => SqliteError::Corrupt(format!("invalid value: {error}")),
            other => SqliteError::Sql(other),
        }
    }
}

fn is_io(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

/// Converts an SQLite error.
fn to_store_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreErrorKind::NotADatabase,
        Some(ErrorCode::DatabaseCorrupt) => StoreErrorKind::Corrupt,
        Some(ErrorCode::DiskFull) => StoreErrorKind::DiskFull,
        Some(ErrorCode::ReadOnly) => StoreErrorKind::ReadOnly,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreErrorKind::Busy,
        Some(ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            StoreErrorKind::PermissionDenied
        }
        Some(ErrorCode::CannotOpen) => StoreErrorKind::NotFound,
        _ => StoreErrorKind::Io,
    };
    StoreError::new(kind, format!("{}: {error}", path.display()))
}

impl EventStore for SqliteStore {
    fn address(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }

    fn prefers_batching(&self) -> bool {
        true
    }

    fn write_lock(&self) -> StoreResult<WriteGuard<'_>> {
        Ok(WriteGuard::new(self.write_lock.acquire()?))
    }

    fn load(&self, session: &str) -> StoreResult<Option<LoadedSession>> {
        self.read(|sql| load::load(sql, &self.row_cache, session))
    }

    fn append(&self, units: &[AppendUnit]) -> StoreResult<Vec<AppendOutcome>> {
        self.append_and_sync(units).inspect_err(|_| self.row_cache.clear())
    }

    fn append_pipelined(
        &self,
        units: &[AppendUnit],
        release: &mut dyn FnMut(),
    ) -> StoreResult<Vec<AppendOutcome>> {
        self.append_then_sync(units, release).inspect_err(|_| self.row_cache.clear())
    }

    fn find_by_id(&self, session: &str, id: &str) -> StoreResult<Option<StoredAnswer>> {
        self.read(|sql| load::find_by_id(sql, &self.row_cache, session, id))
    }

    fn find_by_id_in_snapshot(&self, session: &str, id: &str) -> StoreResult<Option<StoredAnswer>> {
        self.read(|sql| load::find_by_id_in_snapshot(sql, &self.row_cache, session, id))
    }

    fn records(&self, session: &str, from: u64, to: u64) -> StoreResult<Vec<EventRecord>> {
        self.read_committed(|sql| load::records(sql, session, from, to))
    }

    fn operator_rows(&self, session: &str) -> StoreResult<OperatorRows> {
        self.read(|sql| load::operator_rows(sql, session))
    }

    fn save_policy(&self, digest: &str, text: &str) -> StoreResult<()> {
        let known = self.policy(digest)?.is_some();
        if known { Ok(()) } else { self.write(|sql| append::save_policy(sql, digest, text)) }
    }

    fn policy(&self, digest: &str) -> StoreResult<Option<String>> {
        self.read(|sql| load::load_policy(sql, digest))
    }

    fn events_since(&self, after: StreamCursor, limit: usize) -> StoreResult<Vec<StreamEntry>> {
        let found = self.read_committed(|sql| load::events_since(sql, after, limit))?;
        if !found.is_empty() {
            // Never publish an event that a power loss could still undo.
            self.fsync_wal()?;
        }
        Ok(found)
    }

    fn event_refs_since(&self, after: StreamCursor, limit: usize) -> StoreResult<Vec<EventRef>> {
        self.read_committed(|sql| load::event_refs_since(sql, after, limit))
    }

    fn latest_cursor(&self) -> StoreResult<StreamCursor> {
        self.read(load::latest_cursor)
    }

    fn lease(&self, session: &str, holder: &str, ttl_ms: u64) -> StoreResult<Option<Lease>> {
        self.write(|sql| coordination::acquire_lease(sql, session, holder, ttl_ms))
    }

    fn renew_lease(&self, lease: &Lease, ttl_ms: u64) -> StoreResult<bool> {
        self.write(|sql| coordination::renew_lease(sql, lease, ttl_ms))
    }

    fn release_lease(&self, lease: &Lease) -> StoreResult<()> {
        self.write(|sql| coordination::release_lease(sql, lease))
    }

    fn claim_outbox(&self, limit: usize, hold_ms: u64) -> StoreResult<Vec<OutboxMessage>> {
        self.write(|sql| coordination::claim_outbox(sql, limit, hold_ms))
    }

    fn record_delivery(&self, key: &str, how: &DeliveryOutcome) -> StoreResult<()> {
        self.write(|sql| coordination::record_delivery(sql, key, how))
    }

    fn now(&self) -> StoreResult<u64> {
        self.read(|sql| Ok(coordination::now(sql)?))
    }

    fn fsync(&self) -> StoreResult<()> {
        self.fsync_wal()
    }

    fn checkpoint(&self) -> StoreResult<()> {
        self.truncate_wal()
    }
}

impl AdminStore for SqliteStore {
    fn list_sessions(&self, which: SessionFilter, limit: usize) -> StoreResult<Vec<SessionRow>> {
        self.read_committed(|sql| admin::list_sessions(sql, which, limit))
    }

    fn leases(&self) -> StoreResult<Vec<Lease>> {
        self.read_committed(coordination::leases)
    }

    fn pending(&self, session: &str) -> StoreResult<Option<ConfirmationRow>> {
        self.read_committed(|sql| load::pending_confirmation(sql, session))
    }

    fn outbox_messages(&self, state: OutboxState, limit: usize) -> StoreResult<Vec<OutboxMessage>> {
        self.read_committed(|sql| admin::outbox_messages(sql, state, limit))
    }

    fn outbox_count(&self, state: OutboxState) -> StoreResult<u64> {
        self.read(|sql| admin::outbox_count(sql, state))
    }

    fn retry_outbox(&self, key: &str) -> StoreResult<bool> {
        self.write(|sql| admin::retry_outbox(sql, key))
    }

    fn prune(&self, before: u64, dry_run: bool) -> StoreResult<PruneReport> {
        self.write(|sql| admin::prune(sql, before, dry_run))
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<Vec<String>> {
        self.read(|sql| verify::verify_store(sql, &self.row_cache, progress))
    }

    fn engine_version(&self) -> StoreResult<String> {
        Ok(format!("SQLite {}, schema {}", rusqlite::version(), schema::CURRENT_SCHEMA))
    }

    fn identity(&self) -> StoreResult<Option<StoreIdentity>> {
        self.identity.check()?;
        self.write_mark();
        let mark = self.mark_writer.as_ref().map(mark_writer::MarkWriter::status);
        let problem = match &mark {
            None => Some("there is no home folder for it (HOME and XDG_STATE_HOME are not set)".to_owned()),
            Some(Err(error)) => Some(error.clone()),
            Some(Ok(_)) => None,
        };
        let mark = mark.and_then(std::result::Result::ok).flatten();
        Ok(Some(StoreIdentity { id: self.identity.id().to_owned(), high_water_mark: mark, problem }))
    }

    fn backup(&self, to: &Path, replace: bool) -> StoreResult<BackupSummary> {
        backup::backup_to(self, to, replace)
    }
}

impl KvStore for SqliteStore {
    fn kv_put(&self, entry: &KvEntry, only_if: Precondition<'_>) -> StoreResult<bool> {
        self.write(|sql| kv::put(sql, entry, only_if))
    }

    fn kv_get(&self, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>> {
        self.read_committed(|sql| kv::get(sql, namespace, key))
    }

    fn kv_list(&self, namespace: &str, after: &str, limit: usize) -> StoreResult<Vec<KvEntry>> {
        self.read_committed(|sql| kv::list(sql, namespace, after, limit))
    }

    fn kv_take(&self, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>> {
        self.write(|sql| kv::take(sql, namespace, key))
    }

    fn kv_delete_expired(&self) -> StoreResult<u64> {
        self.write(kv::delete_expired)
    }
}
