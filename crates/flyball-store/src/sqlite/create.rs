//! Creation of a store: built completely under a temporary name, then linked into place. A process that is killed
//! midway leaves nothing under the store's name.

use super::write_lock::WriteLock;
use super::{schema, to_store_error};
use crate::error::{StoreError, StoreErrorKind};
use crate::failpoint::{Failpoint, FailpointHook};
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name of a store under construction. Only the process that holds the write lock uses it.
fn temporary_path(path: &Path) -> PathBuf {
    with_suffix(path, "-new")
}

fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Creates a store if there is no file. If another process is faster, its store is kept.
pub(super) fn create_store(
    path: &Path,
    write_lock: &WriteLock,
    probe: &FailpointHook,
) -> Result<(), StoreError> {
    // The write lock excludes other processes, so an existing temporary file is a leftover of one that was killed.
    let _guard = write_lock.acquire()?;
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let temporary = temporary_path(path);
    remove_temporary(path);
    let made = create_empty(&temporary, probe).and_then(|()| link_into_place(&temporary, path, probe));
    remove_temporary(path);
    made
}

/// Creates a complete, empty and synced store file.
fn create_empty(path: &Path, probe: &FailpointHook) -> Result<(), StoreError> {
    let io = |error: std::io::Error| super::store_path::io_error(path, &error);
    let sql = |error: rusqlite::Error| to_store_error(path, &error);
    // Never write through a link that another user may have placed there.
    drop(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io)?);
    probe.reach(Failpoint::InMigration);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(sql)?;
    // The file is unused until it is complete, so one sync at the end is enough.
    connection.execute_batch("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;").map_err(sql)?;
    schema::create_tables(&mut connection).map_err(sql)?;
    probe.reach(Failpoint::InMigration);
    enable_wal(&connection, path)?;
    connection.close().map_err(|(_, error)| sql(error))?;
    File::open(path).and_then(|file| file.sync_all()).map_err(io)?;
    probe.reach(Failpoint::InMigration);
    Ok(())
}

/// Switches the database to a write-ahead log.
pub(super) fn enable_wal(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let mode = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get::<_, String>(0));
    if mode.map_err(|error| to_store_error(path, &error))? == "wal" {
        return Ok(());
    }
    let what = format!("{}: this file system does not support a write-ahead log", path.display());
    Err(StoreError::new(StoreErrorKind::Io, what))
}

/// Renames a finished store into place, unless the name is taken.
fn link_into_place(from: &Path, path: &Path, probe: &FailpointHook) -> Result<(), StoreError> {
    match std::fs::hard_link(from, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Ok(()) => {}
        // A file system without hard links.
        Err(_) => std::fs::rename(from, path).map_err(|error| super::store_path::io_error(path, &error))?,
    }
    probe.reach(Failpoint::InMigration);
    fsync_dir(path);
    Ok(())
}

/// Syncs the directory of a file, so that its name survives a power loss. Not supported, nor needed, on some file
/// systems.
pub(super) fn fsync_dir(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

/// Removes leftovers of creating a store.
fn remove_temporary(path: &Path) {
    let temporary = temporary_path(path);
    for ending in ["-wal", "-shm", "-journal", ""] {
        // The file may not exist, and a leftover does no harm.
        let _ = std::fs::remove_file(with_suffix(&temporary, ending));
    }
}

/// Removes the temporary link of a store whose creator was killed before it could do so.
pub(super) fn remove_leftover_link(path: &Path) {
    let (temporary, Ok(own)) = (temporary_path(path), std::fs::metadata(path)) else { return };
    if own.nlink() > 1
        && std::fs::metadata(&temporary)
            .is_ok_and(|other| (other.dev(), other.ino()) == (own.dev(), own.ino()))
    {
        let _ = std::fs::remove_file(temporary);
    }
}
