//! The embedded engine: one SQLite file, the default.
//!
//! WAL with `synchronous=FULL`: what was committed survives a power loss. One connection writes, and processes that
//! share the file take turns (`turn.rs`), because many writers on one SQLite file starve each other.

mod append;
mod backup;
mod create;
mod desk;
mod identity;
mod keeper;
mod load;
mod log;
mod notes;
mod numbers;
mod private;
mod reader;
mod rows;
mod schema;
mod sweep;
mod transact;
mod turn;
mod verify;
mod work;

use crate::error::{StoreError, Trouble};
use crate::journal::{
    Answered, Appended, Cursor, Desk, Entry, Errand, ErrandState, Handles, Journal, Lease, PendingRow,
    Pruned, Result, Settled, Sighting, Turn, Unit,
};
use crate::marks::{Mark, Marks, Place};
use crate::probe::Probe;
use crate::record::{Head, Loaded, Record, Which};
use crate::shelf::{If, Note, Shelf};
use crate::store_info::{Backup, StoreIdentity};
pub use backup::{Restored, restore};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
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
    /// Where the high-water mark of the store is kept; without, a store that was removed is not missed.
    pub marks: Option<Marks>,
    /// Who is told of the places where a crash is interesting.
    pub probe: Probe,
}

/// A store in one SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    sync: Sync,
    probe: Probe,
    identity: identity::Identity,
    /// The mark outside of the store's files, if there is a place for it.
    keeper: Option<keeper::Keeper>,
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
    /// If it cannot be opened, is no database, was written by a newer Flyball, or is not the store that its mark says.
    /// Nothing is changed then.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self> {
        let version = rusqlite::version_number();
        if version < OLDEST.0 {
            let what = format!("this is SQLite {}; {} or newer is needed", rusqlite::version(), OLDEST.1);
            return Err(StoreError::new(Trouble::Version, what));
        }
        let place = options.marks.as_ref().and_then(|marks| marks.of(path, options.make_folder));
        let mark = place.as_ref().and_then(Place::read);
        let marked = place.as_ref().zip(mark.as_ref());
        if let Some((place, mark)) = marked.filter(|_| path.symlink_metadata().is_err()) {
            place.check_absent(mark, "the store that was here is gone")?;
        }
        let turns = turn::Turns::beside(path);
        let inode = match private::prepare(path, options.make_folder)? {
            Some(inode) => inode,
            None if options.existing => return Err(missing(path, "there is no store")),
            None => {
                create::store(path, &turns, &options.probe)?;
                private::prepare(path, false)?.ok_or_else(|| missing(path, "the store is gone again"))?
            }
        };
        create::drop_second_name(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|error| trouble(path, &error))?;
        let log = Arc::new(log::Log::beside(path));
        let mut opening = Opening { path, connection, options: &options, turns: &turns, marked };
        let id = opening.prepare(&log)?;
        let connection = opening.connection;
        Ok(Sqlite {
            path: path.to_path_buf(),
            sync: options.sync,
            identity: identity::Identity::of(path, id, inode)?,
            keeper: place.map(|place| keeper::Keeper::new(place, mark)),
            probe: options.probe,
            inner: Mutex::new(Inner { connection, apart: false, seen: None }),
            reader: reader::Reader::default(),
            log,
            turns,
            numbers: numbers::Numbers::default(),
        })
    }

    fn trouble(&self, error: &rusqlite::Error) -> StoreError {
        let error = trouble(&self.path, error);
        // SQLite does not know why its files have changed under it.
        let unreadable = [Trouble::Io, Trouble::Corrupt, Trouble::NotADatabase, Trouble::Missing];
        let why = if unreadable.contains(&error.trouble) { self.identity.explain() } else { None };
        why.unwrap_or(error)
    }

    fn fault(&self, fault: Fault) -> StoreError {
        match fault {
            Fault::Sql(error) => self.trouble(&error),
            Fault::Damaged(what) => {
                let damaged = || StoreError::corrupt(format!("{}: {what}", self.path.display()));
                self.identity.check().err().unwrap_or_else(damaged)
            }
        }
    }
}

/// A store that is being opened.
struct Opening<'a> {
    path: &'a Path,
    connection: Connection,
    options: &'a SqliteOptions,
    turns: &'a turn::Turns,
    marked: Option<(&'a Place, &'a Mark)>,
}

impl Opening<'_> {
    /// Makes the connection ready and the schema new; gives the id of the store.
    fn prepare(&mut self, log: &Arc<log::Log>) -> Result<String> {
        let (path, connection, sync) = (self.path, &mut self.connection, self.options.sync);
        let wrong = |error: rusqlite::Error| trouble(path, &error);
        connection.busy_timeout(PATIENCE).map_err(wrong)?;
        connection.set_prepared_statement_cache_capacity(64);
        let no_checkpoint = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        connection.set_db_config(no_checkpoint, true).map_err(wrong)?;
        // The same plan for the same statement, whatever is bound to it: nothing is prepared twice.
        let stable_plans = rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
        connection.set_db_config(stable_plans, true).map_err(wrong)?;
        // Reading the schema first: a file that is no database, or too new, is left exactly as it is.
        let known = schema::known(connection).map_err(wrong)?;
        schema::acceptable(known.schema)?;
        if known.schema.is_none() {
            let what = match std::fs::metadata(path).map_or(0, |file| file.len()) {
                0 => "the file is empty: making the store was interrupted",
                _ => "there is nothing of Flyball in it",
            };
            if let Some((place, mark)) = self.marked {
                place.check_absent(mark, what)?;
            }
            if self.options.existing {
                return Err(missing(path, what));
            }
        } else if let Some((place, mark)) = self.marked {
            let position = append::newest(connection).map_err(wrong)?;
            place.check(mark, known.id.as_deref().unwrap_or_default(), rows::read(position))?;
        }
        let pragmas = match sync {
            Sync::Full => "FULL",
            Sync::Normal => "NORMAL",
            Sync::Off => "OFF",
        };
        let pragmas = format!(
            "PRAGMA synchronous={pragmas}; PRAGMA cache_size=-{CACHE_KIB}; PRAGMA temp_store=MEMORY;"
        );
        connection.execute_batch(&pragmas).map_err(wrong)?;
        sweep::Sweep::watch(connection, path.to_path_buf(), Arc::clone(log), sync == Sync::Full)
            .map_err(wrong)?;
        match known {
            // A copy that another tool has made may not have a log.
            schema::Known { schema: Some(schema::NEWEST), id: Some(id) } if log.is_there() => Ok(id),
            _ => self.migrate(),
        }
    }

    fn migrate(&mut self) -> Result<String> {
        let wrong = |error: rusqlite::Error| trouble(self.path, &error);
        let _turn = self.turns.take()?;
        create::into_wal(&self.connection, self.path)?;
        schema::migrate(&mut self.connection, &self.options.probe).map_err(wrong)?;
        let id = schema::store_id(&self.connection).map_err(wrong)?;
        id.ok_or_else(|| StoreError::corrupt(format!("{}: the store has no id", self.path.display())))
    }
}

/// There is no store, for a command that does not make one.
fn missing(path: &Path, what: &str) -> StoreError {
    let help = "record something first: `flyball observe --store < events.jsonl`; or name another store with --store";
    StoreError::new(Trouble::Missing, format!("{}: {what}", path.display())).with_help(help)
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
        self.append_now(units).inspect_err(|_| self.numbers.clear())
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

    fn checkpoint(&self) -> Result<()> {
        self.empty_log()
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

    fn identity(&self) -> Result<Option<StoreIdentity>> {
        self.identity.check()?;
        self.write_mark();
        let mark = self.keeper.as_ref().map(keeper::Keeper::status);
        let problem = match &mark {
            None => Some("there is no home folder for it (HOME and XDG_STATE_HOME are not set)".to_owned()),
            Some(Err(error)) => Some(error.clone()),
            Some(Ok(_)) => None,
        };
        let mark = mark.and_then(std::result::Result::ok).flatten();
        Ok(Some(StoreIdentity { id: self.identity.id().to_owned(), mark, problem }))
    }

    fn backup(&self, to: &Path, replace: bool) -> Result<Backup> {
        backup::copy(self, to, replace)
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
