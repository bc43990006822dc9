//! The embedded engine: one SQLite file, the default.
//!
//! WAL with `synchronous=FULL`: what was committed survives a power loss. One connection writes, and processes that
//! share the file take turns (`turn.rs`), because many writers on one SQLite file starve each other.

mod append;
mod desk;
mod load;
mod log;
mod notes;
mod numbers;
mod private;
mod reader;
mod rows;
mod schema;
mod sweep;
mod turn;
mod verify;
mod work;

use crate::error::{StoreError, Trouble};
use crate::journal::{
    Answered, Appended, Cursor, Desk, Entry, Errand, ErrandState, Handles, Journal, Lease, PendingRow,
    Pruned, Result, Settled, Sighting, Turn, Unit, Which,
};
use crate::probe::Probe;
use crate::record::{Head, Loaded, Record};
use crate::shelf::{If, Note, Shelf};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The oldest SQLite that may be trusted with a write-ahead log: before it, two connections could damage the file.
const OLDEST: (i32, &str) = (3_051_003, "3.51.3");
/// How long a writer waits for the file before it gives up.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most memory for pages of the file, in KiB: enough for the last page of each index of many sessions.
const CACHE_KIB: u32 = 16_384;

/// How hard the engine makes sure that a commit has reached the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sync {
    /// Every commit survives a power loss.
    #[default]
    Full,
    /// A power loss may take the last commits. For tests that must notice it.
    Normal,
    /// A power loss may take everything. For tests that must notice it.
    Off,
}

/// How the engine is opened.
#[derive(Debug, Clone, Default)]
pub struct SqliteOptions {
    /// How hard commits are synced.
    pub sync: Sync,
    /// Make the folder if it is not there, private to the user.
    pub make_folder: bool,
    /// The store must be there already; a file that holds nothing of ours is left as it is.
    pub existing: bool,
    /// Who is told of the places where a crash is interesting.
    pub probe: Probe,
}

/// A store in one SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    sync: Sync,
    probe: Probe,
    inner: Mutex<Inner>,
    reader: reader::Reader,
    log: Arc<log::Log>,
    turns: turn::Turns,
    numbers: numbers::Numbers,
}

#[derive(Debug)]
struct Inner {
    connection: Connection,
    /// Commits are synced by us and not by SQLite, so that the next writer need not wait for it.
    apart: bool,
    /// What others had written, by SQLite's count of it, when the log was last known to be on its way to the disk.
    seen: Option<i64>,
}

impl Sqlite {
    /// Opens the store, and makes it if it is not there.
    ///
    /// # Errors
    /// If it cannot be opened, is no database, or was written by a newer Flyball. Nothing is changed then.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self> {
        let version = rusqlite::version_number();
        if version < OLDEST.0 {
            let what = format!("this is SQLite {}; {} or newer is needed", rusqlite::version(), OLDEST.1);
            return Err(StoreError::new(Trouble::Version, what));
        }
        private::prepare(path, options.make_folder)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|error| trouble(path, &error))?;
        let turns = turn::Turns::beside(path);
        let store = Sqlite {
            path: path.to_path_buf(),
            sync: options.sync,
            probe: options.probe,
            inner: Mutex::new(Inner { connection, apart: false, seen: None }),
            reader: reader::Reader::default(),
            log: Arc::new(log::Log::beside(path)),
            turns,
            numbers: numbers::Numbers::default(),
        };
        store.prepare(options.sync, options.existing)?;
        Ok(store)
    }

    fn prepare(&self, sync: Sync, existing: bool) -> Result<()> {
        let mut inner = self.inner()?;
        let connection = &mut inner.connection;
        let wrong = |error: rusqlite::Error| trouble(&self.path, &error);
        connection.busy_timeout(PATIENCE).map_err(wrong)?;
        connection.set_prepared_statement_cache_capacity(64);
        let no_checkpoint = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        connection.set_db_config(no_checkpoint, true).map_err(wrong)?;
        // The same plan for the same statement, whatever is bound to it: nothing is prepared twice.
        let stable_plans = rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
        connection.set_db_config(stable_plans, true).map_err(wrong)?;
        // Reading the schema first: a file that is no database, or too new, is left exactly as it is.
        let known = schema::version(connection).map_err(|error| self.trouble(&error))?;
        schema::acceptable(known)?;
        if existing && known.is_none() {
            let what = format!("{}: there is nothing of Flyball in it", self.path.display());
            return Err(StoreError::new(Trouble::Missing, what));
        }
        let helped = sync == Sync::Full;
        let sync = match sync {
            Sync::Full => "FULL",
            Sync::Normal => "NORMAL",
            Sync::Off => "OFF",
        };
        let pragmas =
            format!("PRAGMA synchronous={sync}; PRAGMA cache_size=-{CACHE_KIB}; PRAGMA temp_store=MEMORY;");
        connection.execute_batch(&pragmas).map_err(wrong)?;
        sweep::Sweep::watch(connection, self.path.clone(), Arc::clone(&self.log), helped).map_err(wrong)?;
        if known == Some(schema::NEWEST) {
            return Ok(());
        }
        let _turn = self.turns.take()?;
        let mode: String =
            connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0)).map_err(wrong)?;
        if mode != "wal" {
            let what = format!("{}: a write-ahead log is not possible here", self.path.display());
            return Err(StoreError::new(Trouble::Io, what));
        }
        schema::migrate(connection, &self.probe).map_err(wrong)
    }

    fn inner(&self) -> Result<MutexGuard<'_, Inner>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.log.whole()?;
        Ok(inner)
    }

    /// Reads with the connection.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> std::result::Result<T, Fault>) -> Result<T> {
        let inner = self.inner()?;
        work(&inner.connection).map_err(|fault| self.fault(fault))
    }

    /// Writes in one transaction of its own, in turn.
    fn write<T>(&self, work: impl FnOnce(&Connection) -> std::result::Result<T, Fault>) -> Result<T> {
        let (done, mark) = {
            let _turn = self.turns.take()?;
            let mut inner = self.inner()?;
            self.transact(&mut inner, work)?
        };
        self.log.reach(mark)?;
        Ok(done)
    }

    /// Writes in one transaction, and says which mark of the log must be on the disk before anybody is told. Until the
    /// syncs are apart, it is there already.
    fn transact<T>(
        &self,
        inner: &mut Inner,
        work: impl FnOnce(&Connection) -> std::result::Result<T, Fault>,
    ) -> Result<(T, u64)> {
        let immediate = rusqlite::TransactionBehavior::Immediate;
        let transaction =
            inner.connection.transaction_with_behavior(immediate).map_err(|error| self.trouble(&error))?;
        let done = work(&transaction).map_err(|fault| self.fault(fault))?;
        let others = others(&transaction).map_err(|error| self.trouble(&error))?;
        self.probe.pass(crate::probe::Point::InTransaction);
        let committed = transaction.commit().map_err(|error| (is_io(&error), self.trouble(&error)));
        match committed {
            // A sync covers everything that was written before it, by whomever.
            Ok(()) => {
                inner.seen = Some(others);
                Ok((done, if inner.apart { self.log.written() } else { self.log.synced() }))
            }
            Err((io, error)) => {
                inner.seen = None;
                if io {
                    self.log.fail();
                }
                Err(error.unsure())
            }
        }
    }

    /// From now on syncs are apart from commits: a commit does not reach the disk by itself any more.
    fn part(&self, inner: &mut Inner) -> Result<()> {
        if !inner.apart && self.sync == Sync::Full {
            let normal = inner.connection.execute_batch("PRAGMA synchronous=NORMAL");
            normal.map_err(|error| self.trouble(&error))?;
            inner.apart = true;
        }
        Ok(())
    }

    /// Appends; calls `free` after the commit, when its sync begins.
    fn append_apart(&self, units: &[Unit], free: &mut dyn FnMut()) -> Result<Vec<Appended>> {
        let (done, mark) = {
            let _turn = self.turns.take()?;
            let mut inner = self.inner()?;
            self.part(&mut inner)?;
            self.transact(&mut inner, |sql| append::units(sql, &self.numbers, units))?
        };
        self.log.reach_in_line(mark, free)?;
        Ok(done)
    }

    /// Syncs what was read, unless nobody else has written since a commit of our own.
    fn harden_log(&self) -> Result<()> {
        if self.sync != Sync::Full {
            return Ok(());
        }
        let mark = {
            let mut inner = self.inner()?;
            let others = Some(others(&inner.connection).map_err(|error| self.trouble(&error))?);
            let known = inner.seen == others;
            inner.seen = others;
            if known { self.log.mark() } else { self.log.written() }
        };
        self.log.reach(mark)
    }

    fn trouble(&self, error: &rusqlite::Error) -> StoreError {
        trouble(&self.path, error)
    }

    fn fault(&self, fault: Fault) -> StoreError {
        match fault {
            Fault::Sql(error) => self.trouble(&error),
            Fault::Damaged(what) => StoreError::corrupt(format!("{}: {what}", self.path.display())),
        }
    }
}

/// What can go wrong inside the engine.
#[derive(Debug)]
enum Fault {
    /// SQLite said no.
    Sql(rusqlite::Error),
    /// A row does not match its checksum, or is not where it must be.
    Damaged(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            // A value of another type than we store: somebody or something changed it.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => Fault::Damaged(format!("a value cannot be read: {error}")),
            other => Fault::Sql(other),
        }
    }
}

/// A number that changes whenever somebody else has written.
fn others(sql: &Connection) -> rusqlite::Result<i64> {
    sql.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

fn is_io(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

/// SQLite's complaint in our words.
fn trouble(path: &Path, error: &rusqlite::Error) -> StoreError {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Trouble::NotADatabase,
        Some(ErrorCode::DatabaseCorrupt) => Trouble::Corrupt,
        Some(ErrorCode::DiskFull) => Trouble::Full,
        Some(ErrorCode::ReadOnly) => Trouble::ReadOnly,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::Busy,
        Some(ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => Trouble::Forbidden,
        Some(ErrorCode::CannotOpen) => Trouble::Missing,
        _ => Trouble::Io,
    };
    StoreError::new(kind, format!("{}: {error}", path.display()))
}

impl Journal for Sqlite {
    fn address(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }

    fn has_one_writer(&self) -> bool {
        true
    }

    fn turn(&self) -> Result<Turn<'_>> {
        Ok(Turn::holding(self.turns.take()?))
    }

    fn load(&self, session: &str) -> Result<Option<Loaded>> {
        self.read(|sql| load::load(sql, &self.numbers, session))
    }

    fn append(&self, units: &[Unit]) -> Result<Vec<Appended>> {
        self.write(|sql| append::units(sql, &self.numbers, units)).inspect_err(|_| self.numbers.clear())
    }

    fn append_in_line(&self, units: &[Unit], free: &mut dyn FnMut()) -> Result<Vec<Appended>> {
        self.append_apart(units, free).inspect_err(|_| self.numbers.clear())
    }

    fn find(&self, session: &str, id: &str) -> Result<Option<Answered>> {
        self.read(|sql| load::find(sql, &self.numbers, session, id))
    }

    fn find_covered(&self, session: &str, id: &str) -> Result<Option<Answered>> {
        self.read(|sql| load::find_covered(sql, &self.numbers, session, id))
    }

    fn records(&self, session: &str, from: u64, to: u64) -> Result<Vec<Record>> {
        self.look(|sql| load::records(sql, session, from, to))
    }

    fn handles(&self, session: &str) -> Result<Handles> {
        self.read(|sql| load::handles(sql, session))
    }

    fn keep_policy(&self, digest: &str, text: &str) -> Result<()> {
        let known = self.policy(digest)?.is_some();
        if known { Ok(()) } else { self.write(|sql| append::policy(sql, digest, text)) }
    }

    fn policy(&self, digest: &str) -> Result<Option<String>> {
        self.read(|sql| load::policy(sql, digest))
    }

    fn since(&self, after: Cursor, limit: usize) -> Result<Vec<Entry>> {
        let found = self.look(|sql| load::since(sql, after, limit))?;
        if !found.is_empty() {
            // Nobody is told of an event that a power loss could still take back.
            self.harden_log()?;
        }
        Ok(found)
    }

    fn sightings(&self, after: Cursor, limit: usize) -> Result<Vec<Sighting>> {
        self.look(|sql| load::sightings(sql, after, limit))
    }

    fn newest(&self) -> Result<Cursor> {
        self.read(load::newest)
    }

    fn lease(&self, session: &str, holder: &str, ttl_ms: u64) -> Result<Option<Lease>> {
        self.write(|sql| work::lease(sql, session, holder, ttl_ms))
    }

    fn renew(&self, lease: &Lease, ttl_ms: u64) -> Result<bool> {
        self.write(|sql| work::renew(sql, lease, ttl_ms))
    }

    fn free(&self, lease: &Lease) -> Result<()> {
        self.write(|sql| work::free(sql, lease))
    }

    fn claim(&self, limit: usize, hold_ms: u64) -> Result<Vec<Errand>> {
        self.write(|sql| work::claim(sql, limit, hold_ms))
    }

    fn settle(&self, key: &str, how: &Settled) -> Result<()> {
        self.write(|sql| work::settle(sql, key, how))
    }

    fn now(&self) -> Result<u64> {
        self.read(|sql| Ok(work::now(sql)?))
    }

    fn harden(&self) -> Result<()> {
        self.harden_log()
    }
}

impl Desk for Sqlite {
    fn heads(&self, which: Which, limit: usize) -> Result<Vec<Head>> {
        self.look(|sql| desk::heads(sql, which, limit))
    }

    fn leases(&self) -> Result<Vec<Lease>> {
        self.look(work::leases)
    }

    fn pending(&self, session: &str) -> Result<Option<PendingRow>> {
        self.look(|sql| load::pending(sql, session))
    }

    fn errands(&self, state: ErrandState, limit: usize) -> Result<Vec<Errand>> {
        self.look(|sql| desk::errands(sql, state, limit))
    }

    fn errand_count(&self, state: ErrandState) -> Result<u64> {
        self.read(|sql| desk::errand_count(sql, state))
    }

    fn retry(&self, key: &str) -> Result<bool> {
        self.write(|sql| desk::retry(sql, key))
    }

    fn prune(&self, before: u64, dry_run: bool) -> Result<Pruned> {
        self.write(|sql| desk::prune(sql, before, dry_run))
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<String>> {
        self.read(|sql| verify::all_rows(sql, &self.numbers, progress))
    }

    fn engine(&self) -> Result<String> {
        Ok(format!("SQLite {}, schema {}", rusqlite::version(), schema::NEWEST))
    }
}

impl Shelf for Sqlite {
    fn put(&self, note: &Note, only_if: If<'_>) -> Result<bool> {
        self.write(|sql| notes::put(sql, note, only_if))
    }

    fn note(&self, shelf: &str, key: &str) -> Result<Option<Note>> {
        self.look(|sql| notes::find(sql, shelf, key))
    }

    fn notes(&self, shelf: &str, after: &str, limit: usize) -> Result<Vec<Note>> {
        self.look(|sql| notes::list(sql, shelf, after, limit))
    }

    fn take(&self, shelf: &str, key: &str) -> Result<Option<Note>> {
        self.write(|sql| notes::take(sql, shelf, key))
    }

    fn sweep(&self) -> Result<u64> {
        self.write(notes::sweep)
    }
}
