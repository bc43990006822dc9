//! Read connection: a second connection for queries, so that a page that lists sessions does not wait for a commit,
//! nor a commit for a page. It sees every committed change.
//!
//! The writer reads with its own connection. This one is opened on first use.

use super::{BUSY_TIMEOUT, SqliteError, SqliteStore, to_store_error};
use crate::event_store::StoreResult;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Page cache limit in KiB.
const CACHE_KIB: u32 = 2_048;

/// The connection, once opened.
#[derive(Debug, Default)]
pub(super) struct ReadConnection(Mutex<Option<Connection>>);

impl SqliteStore {
    /// Reads committed data concurrently with the writer.
    pub(super) fn read_committed<T>(
        &self,
        work: impl FnOnce(&Connection) -> std::result::Result<T, SqliteError>,
    ) -> StoreResult<T> {
        // Do not read from a store whose disk failed. If a write is in progress, it has not failed yet.
        if let Ok(release) = self.writer.try_lock() {
            drop(release);
            drop(self.lock_writer()?);
        }
        self.identity.check()?;
        let mut reader = self.reader.0.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match reader.take() {
            Some(connection) => connection,
            None => open_query_only(&self.path).map_err(|error| to_store_error(&self.path, &error))?,
        };
        let connection = reader.insert(connection);
        work(connection).map_err(|fault| self.store_error(fault))
    }
}

/// Opens a connection next to the writer's.
pub(super) fn open_second_connection(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// Opens a connection that reads the database file without its log and without locks.
pub(super) fn open_without_wal(path: &Path) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            uri.push_str(&format!("%{byte:02x}"));
        }
    }
    uri.push_str("?immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags)
}

fn open_query_only(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open_second_connection(path)?;
    let pragmas = format!("PRAGMA query_only=ON; PRAGMA cache_size=-{CACHE_KIB}; PRAGMA temp_store=MEMORY;");
    connection.execute_batch(&pragmas)?;
    Ok(connection)
}
