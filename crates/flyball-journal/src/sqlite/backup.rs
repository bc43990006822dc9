//! Copies of a store: a backup while it is in use, and bringing one back.

use super::create::{into_wal, sync_folder};
use super::numbers::Numbers;
use super::turn::Turns;
use super::{Fault, PATIENCE, Sqlite, SqliteOptions, private, reader, rows, schema, trouble, verify};
use crate::error::{StoreError, Trouble};
use crate::journal::Result;
use crate::marks::Marks;
use crate::probe::Probe;
use crate::store_info::Backup;
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the readers of a store that is to be replaced are waited for.
const READERS: Duration = Duration::from_millis(2_000);
/// How many replaced stores may lie beside one another.
const MOST_ASIDE: u32 = 1_000;

/// A store that was brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What is in it.
    pub contents: Backup,
    /// Where the store that was there before is now.
    pub aside: Option<PathBuf>,
}

fn named(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn remove(path: &Path) {
    for ending in ["-wal", "-shm", "-journal", ""] {
        // What is not there need not be removed.
        let _ = std::fs::remove_file(named(path, ending));
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    id(a).is_some_and(|a| Some(a) == id(b))
}

/// Copies an open store to a file.
pub(super) fn copy(store: &Sqlite, to: &Path, replace: bool) -> Result<Backup> {
    store.identity.check()?;
    let exists = || {
        let what = format!("{}: there is a file of this name", to.display());
        StoreError::new(Trouble::Forbidden, what).with_help("name another file, or replace it with --force")
    };
    if is_same(to, &store.path) {
        let what = format!("{}: this is the store itself", to.display());
        return Err(StoreError::new(Trouble::Forbidden, what).with_help("name another file"));
    }
    if !replace && to.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let temporary = named(to, "-new");
    let sql = reader::beside(&store.path).map_err(|error| store.trouble(&error))?;
    let made = stage(&sql, &temporary).and_then(|contents| {
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
            Err(error) => Err(private::wrong(to, &error)),
        }
    });
    remove(&temporary);
    sync_folder(to);
    made
}

/// Writes what a connection sees to a new file, as a store that is complete by itself, and reads all of it once.
fn stage(sql: &Connection, to: &Path) -> Result<Backup> {
    remove(to);
    let io = |error: std::io::Error| private::wrong(to, &error);
    drop(OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(io)?);
    let name = to
        .to_str()
        .ok_or_else(|| StoreError::new(Trouble::Io, format!("{}: the name is not UTF-8", to.display())))?;
    sql.execute("VACUUM INTO ?1", [name]).map_err(|error| trouble(to, &error))?;
    let wrong = |error: rusqlite::Error| trouble(to, &error);
    let mut copy = open(to, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(wrong)?;
    into_wal(&copy, to)?;
    let known = schema::known(&copy).map_err(wrong)?;
    schema::acceptable(known.schema)?;
    if known.schema.is_none() {
        let what = format!("{}: there is nothing of Flyball in it", to.display());
        return Err(StoreError::new(Trouble::NotADatabase, what));
    }
    schema::migrate(&mut copy, &Probe::default()).map_err(wrong)?;
    let damaged = verify::all_rows(&copy, &Numbers::default(), &mut |_| ()).map_err(|fault| match fault {
        Fault::Sql(error) => trouble(to, &error),
        Fault::Damaged(what) => StoreError::corrupt(format!("{}: {what}", to.display())),
    })?;
    if let Some(first) = damaged.first() {
        return Err(StoreError::corrupt(format!("{}: {first}", to.display())));
    }
    let count = |table: &str| {
        let query = format!("SELECT count(*) FROM {table}");
        copy.query_row(&query, [], |row| row.get::<_, i64>(0)).map(rows::read).map_err(wrong)
    };
    let (sessions, events) = (count("flyball_sessions")?, count("flyball_events")?);
    copy.close().map_err(|(_, error)| trouble(to, &error))?;
    let file = File::open(to).map_err(io)?;
    file.sync_all().map_err(io)?;
    Ok(Backup { sessions, events, bytes: file.metadata().map_err(io)?.len() })
}

fn open(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// Puts a copy in the place of a store. The store that is there now is kept beside it. Processes that have it open notice
/// at their next event, and refuse everything until they are started again.
///
/// # Errors
/// If the copy is damaged or of a newer version, or the store is in use in this moment. Nothing is changed then.
pub fn restore(path: &Path, from: &Path, own_folder: bool, marks: Option<&Marks>) -> Result<Restored> {
    if !from.is_file() {
        let what = format!("{}: there is no such file", from.display());
        return Err(
            StoreError::new(Trouble::Missing, what).with_help("name a file that `flyball backup` wrote")
        );
    }
    if is_same(from, path) {
        let what = format!("{}: this is the store itself", from.display());
        return Err(StoreError::new(Trouble::Forbidden, what).with_help("name the copy of it"));
    }
    let there = private::prepare(path, own_folder)?.is_some();
    let temporary = named(path, "-restored");
    let contents = read_copy(from, &temporary).inspect_err(|_| remove(&temporary))?;
    let placed = put_in_place(path, &temporary, there);
    remove(&temporary);
    let aside = placed?;
    // The person who does this accepts an older store; the mark is that of the new one from now on.
    if let Some(place) = marks.and_then(|marks| marks.of(path, own_folder)) {
        let _ = place.forget();
    }
    let options =
        SqliteOptions { make_folder: own_folder, marks: marks.cloned(), ..SqliteOptions::default() };
    Sqlite::open(path, options)?.write_mark();
    Ok(Restored { contents, aside })
}

/// The copy as a store of the present version, in a file of its own. The copy itself is left as it is.
fn read_copy(from: &Path, temporary: &Path) -> Result<Backup> {
    let wrong = |error: rusqlite::Error| trouble(from, &error);
    // A copy of the files of a store that was in use has a log.
    let sql = if named(from, "-wal").metadata().is_ok_and(|log| log.len() > 0) {
        open(from, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(wrong)?
    } else {
        reader::past_the_log(from).map_err(wrong)?
    };
    let known = schema::known(&sql).map_err(wrong)?;
    schema::acceptable(known.schema)?;
    if known.schema.is_none() {
        let what = format!("{}: there is nothing of Flyball in it", from.display());
        return Err(
            StoreError::new(Trouble::NotADatabase, what).with_help("name a file that `flyball backup` wrote")
        );
    }
    stage(&sql, temporary)
}

/// Swaps the files; gives the place of the store that was there.
fn put_in_place(path: &Path, temporary: &Path, there: bool) -> Result<Option<PathBuf>> {
    let io = |error: std::io::Error| private::wrong(path, &error);
    let turns = Turns::beside(path);
    let _turn = turns.take()?;
    let aside = there.then(|| free_name(path));
    if let Some(aside) = &aside {
        match close_log(path) {
            Ok(()) => {
                // The database file is complete by itself, and keeps its name until the last moment.
                if std::fs::hard_link(path, aside).is_err() {
                    std::fs::rename(path, aside).map_err(io)?;
                }
            }
            Err(error) if error.trouble == Trouble::Busy => return Err(error),
            Err(_) => {
                // It cannot be read: everything of it is kept as it is.
                for ending in ["-wal", ""] {
                    match std::fs::rename(named(path, ending), named(aside, ending)) {
                        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
                        _ => {}
                    }
                }
            }
        }
    }
    // Whoever has the old store open keeps its old log; a new store begins with a new one.
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(named(path, ending));
    }
    std::fs::rename(temporary, path).map_err(io)?;
    sync_folder(path);
    Ok(aside)
}

/// Copies the log of a store into its file.
fn close_log(path: &Path) -> Result<()> {
    let wrong = |error: rusqlite::Error| trouble(path, &error);
    let sql = reader::beside(path).map_err(wrong)?;
    sql.busy_timeout(READERS).map_err(wrong)?;
    let busy: i64 = sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(wrong)?;
    if busy == 0 {
        return Ok(());
    }
    let what = format!("{}: another process is using the store", path.display());
    Err(StoreError::new(Trouble::Busy, what).with_help("stop it, then run `flyball restore` again"))
}

fn free_name(path: &Path) -> PathBuf {
    let name = |number: u32| named(path, &format!(".before-restore-{number}"));
    (1..MOST_ASIDE)
        .map(name)
        .find(|name| name.symlink_metadata().is_err())
        .unwrap_or_else(|| name(MOST_ASIDE))
}
