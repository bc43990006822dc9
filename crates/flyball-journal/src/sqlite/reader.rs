//! A second connection for those who only look: a page that lists sessions does not wait for a commit, and no commit waits
//! for a page. What was committed is seen at once.
//!
//! The writer reads what it needs with its own connection; this one is opened when somebody looks for the first time.

use super::{Fault, PATIENCE, Sqlite, trouble};
use crate::journal::Result;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The most memory for its pages, in KiB.
const CACHE_KIB: u32 = 2_048;

/// The connection, once somebody has looked.
#[derive(Debug, Default)]
pub(super) struct Reader(Mutex<Option<Connection>>);

impl Sqlite {
    /// Looks at what is committed, beside whoever writes.
    pub(super) fn look<T>(
        &self,
        work: impl FnOnce(&Connection) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        // A store whose disk has failed is not looked at either. If somebody is writing, it has not failed yet.
        if let Ok(free) = self.inner.try_lock() {
            drop(free);
            drop(self.inner()?);
        }
        self.identity.check()?;
        let mut reader = self.reader.0.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match reader.take() {
            Some(connection) => connection,
            None => open(&self.path).map_err(|error| trouble(&self.path, &error))?,
        };
        let connection = reader.insert(connection);
        work(connection).map_err(|fault| self.fault(fault))
    }
}

/// A connection beside the writer's.
pub(super) fn beside(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// A connection that reads the database file as it is, without its log and without locks.
pub(super) fn past_the_log(path: &Path) -> rusqlite::Result<Connection> {
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

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = beside(path)?;
    let pragmas = format!("PRAGMA query_only=ON; PRAGMA cache_size=-{CACHE_KIB}; PRAGMA temp_store=MEMORY;");
    connection.execute_batch(&pragmas)?;
    Ok(connection)
}
