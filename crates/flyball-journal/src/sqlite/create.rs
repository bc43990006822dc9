//! Making a new store: complete under a temporary name, then linked into place. A process that is killed on the way leaves
//! nothing under the store's own name.

use super::turn::Turns;
use super::{schema, trouble};
use crate::error::{StoreError, Trouble};
use crate::probe::{Point, Probe};
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The name of a store while it is made. Only the process that holds the write lock uses it.
fn temporary(path: &Path) -> PathBuf {
    named(path, "-new")
}

fn named(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Makes a store where there is no file. If another process is quicker, its store stays.
pub(super) fn store(path: &Path, turns: &Turns, probe: &Probe) -> Result<(), StoreError> {
    // One process at a time: what stands under the temporary name was left behind by one that was killed.
    let _turn = turns.take()?;
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let temporary = temporary(path);
    clean_up(path);
    let made = fill(&temporary, probe).and_then(|()| put_in_place(&temporary, path, probe));
    clean_up(path);
    made
}

/// A complete and empty store in a file of its own, on the disk.
fn fill(path: &Path, probe: &Probe) -> Result<(), StoreError> {
    let io = |error: std::io::Error| super::private::wrong(path, &error);
    let sql = |error: rusqlite::Error| trouble(path, &error);
    // Never through a link that was put there by somebody else.
    drop(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io)?);
    probe.pass(Point::InMigration);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(sql)?;
    // The file is of no use until it is complete and synced as a whole.
    connection.execute_batch("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;").map_err(sql)?;
    schema::create(&mut connection).map_err(sql)?;
    probe.pass(Point::InMigration);
    into_wal(&connection, path)?;
    connection.close().map_err(|(_, error)| sql(error))?;
    File::open(path).and_then(|file| file.sync_all()).map_err(io)?;
    probe.pass(Point::InMigration);
    Ok(())
}

/// Has the database use a write-ahead log from now on.
pub(super) fn into_wal(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let mode = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get::<_, String>(0));
    if mode.map_err(|error| trouble(path, &error))? == "wal" {
        return Ok(());
    }
    let what = format!("{}: a write-ahead log is not possible here", path.display());
    Err(StoreError::new(Trouble::Io, what))
}

/// Gives a finished store its name, unless something has it.
fn put_in_place(from: &Path, path: &Path, probe: &Probe) -> Result<(), StoreError> {
    match std::fs::hard_link(from, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Ok(()) => {}
        // A filesystem without hard links.
        Err(_) => std::fs::rename(from, path).map_err(|error| super::private::wrong(path, &error))?,
    }
    probe.pass(Point::InMigration);
    sync_folder(path);
    Ok(())
}

/// Syncs the folder of a file, so that its name survives a power loss. Some filesystems cannot, and need not.
pub(super) fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

/// Removes what the making of a store leaves behind.
fn clean_up(path: &Path) {
    let temporary = temporary(path);
    for ending in ["-wal", "-shm", "-journal", ""] {
        // What is not there need not be removed; what cannot be removed is in nobody's way.
        let _ = std::fs::remove_file(named(&temporary, ending));
    }
}

/// Removes the second name of a store whose maker was killed just before it did so itself.
pub(super) fn drop_second_name(path: &Path) {
    let (temporary, Ok(own)) = (temporary(path), std::fs::metadata(path)) else { return };
    if own.nlink() > 1
        && std::fs::metadata(&temporary)
            .is_ok_and(|other| (other.dev(), other.ino()) == (own.dev(), own.ino()))
    {
        let _ = std::fs::remove_file(temporary);
    }
}
