//! Backup of a store that is in use, and restore.

use super::create::{enable_wal, fsync_dir};
use super::row_cache::RowCache;
use super::write_lock::WriteLock;
use super::{
    BUSY_TIMEOUT, SqliteError, SqliteOptions, SqliteStore, reader, rows, schema, store_path, to_store_error,
    verify,
};
use crate::error::{StoreError, StoreErrorKind};
use crate::event_store::StoreResult;
use crate::failpoint::FailpointHook;
use crate::high_water_mark::HighWaterMarks;
use crate::store_info::BackupSummary;
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a restore waits for readers of the old store.
const READERS_TIMEOUT: Duration = Duration::from_millis(2_000);
/// Maximum number of replaced stores kept next to each other.
const MAX_REPLACED_STORES: u32 = 1_000;

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreSummary {
    /// Contents of the restored store.
    pub contents: BackupSummary,
    /// New path of the store that was replaced.
    pub replaced_store: Option<PathBuf>,
}

fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn remove_store_files(path: &Path) {
    for ending in ["-wal", "-shm", "-journal", ""] {
        // It may not exist.
        let _ = std::fs::remove_file(with_suffix(path, ending));
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    id(a).is_some_and(|a| Some(a) == id(b))
}

/// Copies an open store to a file.
pub(super) fn backup_to(store: &SqliteStore, to: &Path, replace: bool) -> StoreResult<BackupSummary> {
    store.identity.check()?;
    let exists = || {
        let what = format!("{}: the file already exists", to.display());
        StoreError::new(StoreErrorKind::PermissionDenied, what)
            .with_help("choose another file, or replace it with --force")
    };
    if is_same_file(to, &store.path) {
        let what = format!("{}: this is the store itself", to.display());
        return Err(StoreError::new(StoreErrorKind::PermissionDenied, what).with_help("choose another file"));
    }
    if !replace && to.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let temporary = with_suffix(to, "-new");
    let sql = reader::open_second_connection(&store.path).map_err(|error| store.sql_error(&error))?;
    let made = write_verified_copy(&sql, &temporary).and_then(|contents| {
        store.identity.check()?;
        let placed = if replace {
            std::fs::rename(&temporary, to)
        } else {
            std::fs::hard_link(&temporary, to).or_else(|error| match error.kind() {
                ErrorKind::AlreadyExists => Err(error),
                _ => std::fs::rename(&temporary, to),
            })
        };
        match placed {
            Ok(()) => Ok(contents),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists()),
            Err(error) => Err(store_path::io_error(to, &error)),
        }
    });
    remove_store_files(&temporary);
    fsync_dir(to);
    made
}

/// Writes the store of a connection to a new self-contained file, and verifies it by reading all of it.
fn write_verified_copy(sql: &Connection, to: &Path) -> StoreResult<BackupSummary> {
    remove_store_files(to);
    let io = |error: std::io::Error| store_path::io_error(to, &error);
    drop(OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(io)?);
    let name = to.to_str().ok_or_else(|| {
        StoreError::new(StoreErrorKind::Io, format!("{}: the name is not UTF-8", to.display()))
    })?;
    sql.execute("VACUUM INTO ?1", [name]).map_err(|error| to_store_error(to, &error))?;
    let wrong = |error: rusqlite::Error| to_store_error(to, &error);
    let mut copy = open(to, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(wrong)?;
    enable_wal(&copy, to)?;
    let known = schema::read_schema_info(&copy).map_err(wrong)?;
    schema::check_supported(known.schema)?;
    if known.schema.is_none() {
        let what = format!("{}: it is not a Flyball store", to.display());
        return Err(StoreError::new(StoreErrorKind::NotADatabase, what));
    }
    schema::migrate(&mut copy, &FailpointHook::default()).map_err(wrong)?;
    let damaged =
        verify::verify_store(&copy, &RowCache::default(), &mut |_| ()).map_err(|fault| match fault {
            SqliteError::Sql(error) => to_store_error(to, &error),
            SqliteError::Corrupt(what) => StoreError::corrupt(format!("{}: {what}", to.display())),
        })?;
    if let Some(first) = damaged.first() {
        return Err(StoreError::corrupt(format!("{}: {first}", to.display())));
    }
    let count = |table: &str| {
        let query = format!("SELECT count(*) FROM {table}");
        copy.query_row(&query, [], |row| row.get::<_, i64>(0)).map(rows::to_u64).map_err(wrong)
    };
    let (sessions, events) = (count("flyball_sessions")?, count("flyball_events")?);
    copy.close().map_err(|(_, error)| to_store_error(to, &error))?;
    let file = File::open(to).map_err(io)?;
    file.sync_all().map_err(io)?;
    Ok(BackupSummary { sessions, events, bytes: file.metadata().map_err(io)?.len() })
}

fn open(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Replaces a store with a backup and keeps the old store next to it. Processes that have the old store open notice
/// at their next event, and reject everything until they are restarted.
///
/// # Errors
/// If the backup is corrupt or of a newer version, or the store is being used right now. Nothing is changed then.
pub fn restore(
    path: &Path,
    from: &Path,
    own_folder: bool,
    marks: Option<&HighWaterMarks>,
) -> StoreResult<RestoreSummary> {
    if !from.is_file() {
        let what = format!("{}: no such file", from.display());
        return Err(StoreError::new(StoreErrorKind::NotFound, what)
            .with_help("use a file written by `flyball backup`"));
    }
    if is_same_file(from, path) {
        let what = format!("{}: this is the store itself", from.display());
        return Err(StoreError::new(StoreErrorKind::PermissionDenied, what).with_help("use the backup file"));
    }
    let there = store_path::prepare(path, own_folder)?.is_some();
    let temporary = with_suffix(path, "-restored");
    let contents = stage_copy(from, &temporary).inspect_err(|_| remove_store_files(&temporary))?;
    let placed = swap_files(path, &temporary, there);
    remove_store_files(&temporary);
    let aside = placed?;
    // The operator accepts an older store, so the mark must match the restored one.
    if let Some(mark_file) = marks.and_then(|marks| marks.for_store(path, own_folder)) {
        let _ = mark_file.remove();
    }
    let options = SqliteOptions {
        create_dir: own_folder,
        high_water_marks: marks.cloned(),
        ..SqliteOptions::default()
    };
    SqliteStore::open(path, options)?.write_mark();
    Ok(RestoreSummary { contents, replaced_store: aside })
}

/// Stages the backup as a store of the current version in a temporary file. The backup itself is unchanged.
fn stage_copy(from: &Path, temporary: &Path) -> StoreResult<BackupSummary> {
    let wrong = |error: rusqlite::Error| to_store_error(from, &error);
    // A plain copy of the files of a store in use includes a write-ahead log.
    let sql = if with_suffix(from, "-wal").metadata().is_ok_and(|log| log.len() > 0) {
        open(from, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(wrong)?
    } else {
        reader::open_without_wal(from).map_err(wrong)?
    };
    let known = schema::read_schema_info(&sql).map_err(wrong)?;
    schema::check_supported(known.schema)?;
    if known.schema.is_none() {
        let what = format!("{}: it is not a Flyball store", from.display());
        return Err(StoreError::new(StoreErrorKind::NotADatabase, what)
            .with_help("use a file written by `flyball backup`"));
    }
    write_verified_copy(&sql, temporary)
}

/// Swaps the files; returns the new path of the old store.
fn swap_files(path: &Path, temporary: &Path, there: bool) -> StoreResult<Option<PathBuf>> {
    let io = |error: std::io::Error| store_path::io_error(path, &error);
    let write_lock = WriteLock::for_database(path);
    let _guard = write_lock.acquire()?;
    let aside = there.then(|| unused_name(path));
    if let Some(aside) = &aside {
        match truncate_wal(path) {
            Ok(()) => {
                // The database file is self-contained, and keeps its name until the last moment.
                if std::fs::hard_link(path, aside).is_err() {
                    std::fs::rename(path, aside).map_err(io)?;
                }
            }
            Err(error) if error.kind == StoreErrorKind::Busy => return Err(error),
            Err(_) => {
                // It cannot be read: keep all its files unchanged.
                for ending in ["-wal", ""] {
                    match std::fs::rename(with_suffix(path, ending), with_suffix(aside, ending)) {
                        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
                        _ => {}
                    }
                }
            }
        }
    }
    // Processes that have the old store open keep its old log; the new store must start without one.
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(with_suffix(path, ending));
    }
    std::fs::rename(temporary, path).map_err(io)?;
    fsync_dir(path);
    Ok(aside)
}

/// Checkpoints a store's log into its file and empties it.
fn truncate_wal(path: &Path) -> StoreResult<()> {
    let wrong = |error: rusqlite::Error| to_store_error(path, &error);
    let sql = reader::open_second_connection(path).map_err(wrong)?;
    sql.busy_timeout(READERS_TIMEOUT).map_err(wrong)?;
    let busy: i64 = sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(wrong)?;
    if busy == 0 {
        return Ok(());
    }
    let what = format!("{}: another process is using the store", path.display());
    Err(StoreError::new(StoreErrorKind::Busy, what).with_help("stop it, then run `flyball restore` again"))
}

fn unused_name(path: &Path) -> PathBuf {
    let name = |number: u32| with_suffix(path, &format!(".before-restore-{number}"));
    (1..MAX_REPLACED_STORES)
        .map(name)
        .find(|name| name.symlink_metadata().is_err())
        .unwrap_or_else(|| name(MAX_REPLACED_STORES))
}
