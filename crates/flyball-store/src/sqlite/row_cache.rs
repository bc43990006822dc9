//! Row cache: row locations of active sessions and their unindexed ids, which a writer would otherwise look up for
//! every event.

use super::SqliteError;
use super::load::session_number;
use super::rows::to_u64;
use crate::name_map::NameMap;
use flyball::{SessionPhase, Verdict};
use rusqlite::Connection;
use std::sync::{Mutex, MutexGuard, PoisonError};

type SqliteResult<T> = Result<T, SqliteError>;

/// Location of a session's rows, as of one revision.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowLocation {
    /// Row number of the session.
    pub(super) session_no: i64,
    /// Revision that `last_position` belongs to.
    pub(super) rev: u64,
    /// Position of its last event.
    pub(super) last_position: i64,
}

/// Row locations of active sessions. A session that was pruned and created again has another row number; the old one
/// matches nothing, and the revision check of an append detects that.
#[derive(Debug, Default)]
pub(super) struct RowCache(Mutex<RowCacheState>);

#[derive(Debug, Default)]
struct RowCacheState {
    locations: NameMap<RowLocation>,
    tails: NameMap<TailIds>,
    /// Total number of cached ids.
    id_count: usize,
}

/// All ids of a session's events since its last snapshot, as of one revision.
#[derive(Debug, Default)]
struct TailIds {
    session_no: i64,
    rev: u64,
    ids: Vec<UnindexedId>,
}

/// An id that the next snapshot will index.
#[derive(Debug)]
pub(super) struct UnindexedId {
    pub(super) id: String,
    pub(super) seq: u64,
    /// Position of its event.
    pub(super) position: i64,
    pub(super) body_hash: u64,
    pub(super) verdict: Verdict,
    pub(super) status: SessionPhase,
}

/// Maximum number of locations; the cache is cleared beyond that.
const MAX_LOCATIONS: usize = 10_000;
/// Maximum number of ids; beyond that they are read from the events.
const MAX_IDS: usize = 100_000;

impl RowCache {
    fn lock(&self) -> MutexGuard<'_, RowCacheState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Location of a session, looked up if it is not cached.
    pub(super) fn get_or_look_up(
        &self,
        sql: &Connection,
        session: &str,
    ) -> SqliteResult<Option<RowLocation>> {
        let known = self.lock().locations.get(session).copied();
        if known.is_some() { Ok(known) } else { self.look_up(sql, session) }
    }

    /// Looks up the current location of a session.
    pub(super) fn look_up(&self, sql: &Connection, session: &str) -> SqliteResult<Option<RowLocation>> {
        let Some(no) = session_number(sql, session)? else {
            self.remove(session);
            return Ok(None);
        };
        let ends = "SELECT rev, last FROM flyball_sessions WHERE no = ?1";
        let place = sql.prepare_cached(ends)?.query_row([no], |row| {
            Ok(RowLocation { session_no: no, rev: to_u64(row.get(0)?), last_position: row.get(1)? })
        })?;
        self.set(session, place);
        Ok(Some(place))
    }

    /// Records a new location.
    pub(super) fn set(&self, session: &str, place: RowLocation) {
        let mut all = self.lock();
        if let Some(known) = all.locations.get_mut(session) {
            *known = place;
            return;
        }
        if all.locations.len() >= MAX_LOCATIONS {
            *all = RowCacheState::default();
        }
        all.locations.insert(session.to_owned(), place);
    }

    /// Removes a session whose location is wrong.
    pub(super) fn remove(&self, session: &str) {
        let mut all = self.lock();
        all.locations.remove(session);
        if let Some(tail) = all.tails.remove(session) {
            all.id_count = all.id_count.saturating_sub(tail.ids.len());
        }
    }

    /// Clears the cache after a transaction that was not committed.
    pub(super) fn clear(&self) {
        *self.lock() = RowCacheState::default();
    }

    /// Adds ids of a change to revision `to` without a snapshot.
    pub(super) fn add_tail_ids(&self, session: &str, from: &RowLocation, to: u64, ids: Vec<UnindexedId>) {
        let mut all = self.lock();
        let RowCacheState { tails, id_count: kept, .. } = &mut *all;
        if let Some(tail) = tails.get_mut(session)
            && (tail.session_no, tail.rev) == (from.session_no, from.rev)
            && kept.saturating_add(ids.len()) <= MAX_IDS
        {
            // The common case.
            *kept += ids.len();
            tail.ids.extend(ids);
            tail.rev = to;
            return;
        }
        let mut tail = all.remove_tail(session, from).unwrap_or_default();
        // A tail must start at the snapshot.
        if tail.is_complete(from) && all.id_count.saturating_add(tail.ids.len() + ids.len()) <= MAX_IDS {
            tail.ids.extend(ids);
            all.insert_tail(session, TailIds { session_no: from.session_no, rev: to, ids: tail.ids });
        }
    }

    /// Takes all ids since the last snapshot, for a change to revision `to` with a snapshot; `None` if they are not
    /// cached.
    pub(super) fn take_tail_ids(
        &self,
        session: &str,
        from: &RowLocation,
        to: u64,
    ) -> Option<Vec<UnindexedId>> {
        let mut all = self.lock();
        let tail = all.remove_tail(session, from).unwrap_or_default();
        let whole = tail.is_complete(from);
        all.insert_tail(session, TailIds { session_no: from.session_no, rev: to, ids: Vec::new() });
        whole.then_some(tail.ids)
    }
}

impl TailIds {
    /// Whether it has all ids since the last snapshot. A new session has none.
    fn is_complete(&self, from: &RowLocation) -> bool {
        from.rev == 0 || (self.session_no == from.session_no && self.rev == from.rev)
    }
}

impl RowCacheState {
    /// Removes the tail of a session, if it belongs to this location.
    fn remove_tail(&mut self, session: &str, from: &RowLocation) -> Option<TailIds> {
        let tail = self.tails.remove(session)?;
        self.id_count = self.id_count.saturating_sub(tail.ids.len());
        (tail.session_no == from.session_no && tail.rev == from.rev).then_some(tail)
    }

    fn insert_tail(&mut self, session: &str, tail: TailIds) {
        self.id_count += tail.ids.len();
        self.tails.insert(session.to_owned(), tail);
    }
}
