//! Transactions: one writer at a time across processes. Nothing is acknowledged before it is on disk, in files that a
//! later process will find.

use super::{SqliteError, SqliteStore, SqliteWriter, SyncMode, append, coordination, is_io};
use crate::event_store::{AppendOutcome, AppendUnit, StoreResult};
use crate::failpoint::Failpoint;
use rusqlite::Connection;
use std::sync::{MutexGuard, PoisonError};

impl SqliteStore {
    pub(super) fn lock_writer(&self) -> StoreResult<MutexGuard<'_, SqliteWriter>> {
        let inner = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.wal.check_not_failed()?;
        self.identity.check_not_lost()?;
        Ok(inner)
    }

    /// Reads with the writer's connection.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> std::result::Result<T, SqliteError>,
    ) -> StoreResult<T> {
        let inner = self.lock_writer()?;
        work(&inner.connection).map_err(|error| self.store_error(error))
    }

    /// Writes in one transaction, under the write lock.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Connection) -> std::result::Result<T, SqliteError>,
    ) -> StoreResult<T> {
        let (done, mark) = {
            let _guard = self.write_lock.acquire()?;
            let mut inner = self.lock_writer()?;
            self.transact(&mut inner, work)?
        };
        self.wal.sync_through(mark)?;
        Ok(done)
    }

    /// Writes in one transaction, and returns the log mark that must be on disk before the write is acknowledged.
    /// Unless syncs are separate, it already is.
    fn transact<T>(
        &self,
        inner: &mut SqliteWriter,
        work: impl FnOnce(&Connection) -> std::result::Result<T, SqliteError>,
    ) -> StoreResult<(T, u64)> {
        let immediate = rusqlite::TransactionBehavior::Immediate;
        let transaction =
            inner.connection.transaction_with_behavior(immediate).map_err(|error| self.sql_error(&error))?;
        let before = self.identity.before_commit()?;
        self.wal.take_frames();
        let done = work(&transaction).map_err(|fault| self.store_error(fault))?;
        let others = data_version(&transaction).map_err(|error| self.sql_error(&error))?;
        self.failpoints.reach(Failpoint::InTransaction);
        let committed = transaction.commit().map_err(|error| (is_io(&error), self.sql_error(&error)));
        match committed {
            Ok(()) => {
                self.identity.after_commit(before, self.wal.take_frames())?;
                // A sync covers everything written before it, by any process.
                inner.data_version = Some(others);
                Ok((
                    done,
                    if inner.separate_sync { self.wal.note_write() } else { self.wal.note_synced_write() },
                ))
            }
            Err((io, error)) => {
                inner.data_version = None;
                if io {
                    self.wal.mark_failed();
                }
                Err(error.with_unknown_outcome())
            }
        }
    }

    /// Separates syncs from commits: from now on a commit is not on disk until it is synced.
    fn separate_syncs(&self, inner: &mut SqliteWriter) -> StoreResult<()> {
        if !inner.separate_sync && self.sync == SyncMode::Full {
            let normal = inner.connection.execute_batch("PRAGMA synchronous=NORMAL");
            normal.map_err(|error| self.sql_error(&error))?;
            inner.separate_sync = true;
        }
        Ok(())
    }

    /// Appends units and syncs.
    pub(super) fn append_and_sync(&self, units: &[AppendUnit]) -> StoreResult<Vec<AppendOutcome>> {
        let (done, position) = self.write(|sql| append::append_units(sql, &self.row_cache, units))?;
        self.write_mark_if_due(units, position);
        Ok(done)
    }

    /// Appends units; calls `free` after the commit, when its sync starts.
    pub(super) fn append_then_sync(
        &self,
        units: &[AppendUnit],
        release: &mut dyn FnMut(),
    ) -> StoreResult<Vec<AppendOutcome>> {
        let ((done, position), mark) = {
            let _guard = self.write_lock.acquire()?;
            let mut inner = self.lock_writer()?;
            self.separate_syncs(&mut inner)?;
            self.transact(&mut inner, |sql| append::append_units(sql, &self.row_cache, units))?
        };
        self.wal.sync_through_pipelined(mark, release)?;
        self.write_mark_if_due(units, position);
        Ok(done)
    }

    /// Syncs data that was read, unless no other process has written since our last commit.
    pub(super) fn fsync_wal(&self) -> StoreResult<()> {
        if self.identity.needs_probe_commit()? {
            self.write(|sql| Ok(coordination::write_probe(sql)?))?;
        }
        if self.sync != SyncMode::Full {
            return Ok(());
        }
        let mark = {
            let mut inner = self.lock_writer()?;
            let others = Some(data_version(&inner.connection).map_err(|error| self.sql_error(&error))?);
            let known = inner.data_version == others;
            inner.data_version = others;
            if known { self.wal.last_write() } else { self.wal.note_write() }
        };
        self.wal.sync_through(mark)
    }

    /// Copies the whole log into the database file and empties it; only as far as concurrent users of the store
    /// allow.
    pub(super) fn truncate_wal(&self) -> StoreResult<()> {
        let _guard = self.write_lock.acquire()?;
        let inner = self.lock_writer()?;
        self.identity.before_commit()?;
        let sql = &inner.connection;
        let patience = |most| sql.busy_timeout(most).map_err(|error| self.sql_error(&error));
        patience(CHECKPOINT_TIMEOUT)?;
        let done = sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        patience(super::BUSY_TIMEOUT)?;
        done.map_err(|error| {
            if is_io(&error) {
                self.wal.mark_failed();
            }
            self.sql_error(&error)
        })
    }

    /// Ignores errors: a store works without a mark, and `flyball doctor` reports a missing one.
    fn write_mark_if_due(&self, units: &[AppendUnit], position: i64) {
        if let Some(mark_writer) = &self.mark_writer
            && mark_writer.is_due(units, position, &self.wal)
        {
            self.write_mark();
        }
    }

    /// Updates the mark.
    pub(super) fn write_mark(&self) {
        if let (Some(mark_writer), Ok(inner)) = (&self.mark_writer, self.lock_writer()) {
            mark_writer.write(&inner.connection, self.identity.id());
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if self.mark_writer.as_ref().is_some_and(super::mark_writer::MarkWriter::is_stale) {
            self.write_mark();
        }
    }
}

/// How long truncating the log waits for readers.
const CHECKPOINT_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(500);

/// A counter that changes whenever another connection has written.
fn data_version(sql: &Connection) -> rusqlite::Result<i64> {
    sql.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
