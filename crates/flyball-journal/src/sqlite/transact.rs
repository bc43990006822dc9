//! Transactions: one writer at a time, in turn with other processes, and nothing is acknowledged before it is on the disk,
//! in files that a later process will find.

use super::{Fault, Inner, Sqlite, Sync, append, is_io, work};
use crate::journal::{Appended, Result, Unit};
use crate::probe::Point;
use rusqlite::Connection;
use std::sync::{MutexGuard, PoisonError};

impl Sqlite {
    pub(super) fn inner(&self) -> Result<MutexGuard<'_, Inner>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.log.whole()?;
        self.identity.intact()?;
        Ok(inner)
    }

    /// Reads with the connection.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        let inner = self.inner()?;
        work(&inner.connection).map_err(|fault| self.fault(fault))
    }

    /// Writes in one transaction of its own, in turn.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Connection) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
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
        let before = self.identity.before()?;
        self.log.take_frames();
        let done = work(&transaction).map_err(|fault| self.fault(fault))?;
        let others = others(&transaction).map_err(|error| self.trouble(&error))?;
        self.probe.pass(Point::InTransaction);
        let committed = transaction.commit().map_err(|error| (is_io(&error), self.trouble(&error)));
        match committed {
            Ok(()) => {
                self.identity.after(before, self.log.take_frames())?;
                // A sync covers everything that was written before it, by whomever.
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

    /// Appends.
    pub(super) fn append_now(&self, units: &[Unit]) -> Result<Vec<Appended>> {
        let (done, position) = self.write(|sql| append::units(sql, &self.numbers, units))?;
        self.keep_mark(units, position);
        Ok(done)
    }

    /// Appends; calls `free` after the commit, when its sync begins.
    pub(super) fn append_apart(&self, units: &[Unit], free: &mut dyn FnMut()) -> Result<Vec<Appended>> {
        let ((done, position), mark) = {
            let _turn = self.turns.take()?;
            let mut inner = self.inner()?;
            self.part(&mut inner)?;
            self.transact(&mut inner, |sql| append::units(sql, &self.numbers, units))?
        };
        self.log.reach_in_line(mark, free)?;
        self.keep_mark(units, position);
        Ok(done)
    }

    /// Syncs what was read, unless nobody else has written since a commit of our own.
    pub(super) fn harden_log(&self) -> Result<()> {
        if self.identity.is_uncertain()? {
            self.write(|sql| Ok(work::touch(sql)?))?;
        }
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

    /// Copies the whole log into the database file and empties it. If others use the store at the moment, as much as
    /// they allow.
    pub(super) fn empty_log(&self) -> Result<()> {
        let _turn = self.turns.take()?;
        let inner = self.inner()?;
        self.identity.before()?;
        let sql = &inner.connection;
        let patience = |most| sql.busy_timeout(most).map_err(|error| self.trouble(&error));
        patience(CHECKPOINT_PATIENCE)?;
        let done = sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        patience(super::PATIENCE)?;
        done.map_err(|error| {
            if is_io(&error) {
                self.log.fail();
            }
            self.trouble(&error)
        })
    }

    /// Errors are not returned: a store without a mark works, and `flyball doctor` says that it has none.
    fn keep_mark(&self, units: &[Unit], position: i64) {
        if let Some(keeper) = &self.keeper
            && keeper.is_due(units, position, &self.log)
        {
            self.write_mark();
        }
    }

    /// Brings the mark up to date.
    pub(super) fn write_mark(&self) {
        if let (Some(keeper), Ok(inner)) = (&self.keeper, self.inner()) {
            keeper.write(&inner.connection, self.identity.id());
        }
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if self.keeper.as_ref().is_some_and(super::keeper::Keeper::is_behind) {
            self.write_mark();
        }
    }
}

/// How long emptying the log waits for readers.
const CHECKPOINT_PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);

/// A number that changes whenever somebody else has written.
fn others(sql: &Connection) -> rusqlite::Result<i64> {
    sql.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
