//! Where the rows of sessions at work are, and which of their ids are not entered yet: what a writer would otherwise
//! look up again for every event.

use super::Fault;
use super::load::number;
use super::rows::read;
use crate::lookup::Lookup;
use flyball::{Status, Verdict};
use rusqlite::Connection;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Outcome<T> = Result<T, Fault>;

/// Where a session's rows are, as of one of its revisions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The number under which they are found.
    pub(super) no: i64,
    /// The revision that `last` belongs to.
    pub(super) rev: u64,
    /// The place of its last event.
    pub(super) last: i64,
}

/// The places of sessions at work, so that they are not looked up for every event. One that was pruned and made anew
/// has another number; its old one leads nowhere, and the fence of an append tells.
#[derive(Debug, Default)]
pub(super) struct Numbers(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    places: Lookup<Place>,
    tails: Lookup<Tail>,
    /// Ids in all tails.
    kept: usize,
}

/// The ids of a session's events since its last snapshot, all of them, as of one of its revisions.
#[derive(Debug, Default)]
struct Tail {
    no: i64,
    rev: u64,
    ids: Vec<NewId>,
}

/// An id that is entered with the next snapshot.
#[derive(Debug)]
pub(super) struct NewId {
    pub(super) id: String,
    pub(super) seq: u64,
    /// The place of its event.
    pub(super) place: i64,
    pub(super) body: u64,
    pub(super) verdict: Verdict,
    pub(super) status: Status,
}

/// How many places are kept; then the list begins anew.
const NUMBERS: usize = 10_000;
/// How many ids are kept; then they are read back from the events instead.
const IDS: usize = 100_000;

impl Numbers {
    fn all(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a session, looked up if need be.
    pub(super) fn of(&self, sql: &Connection, session: &str) -> Outcome<Option<Place>> {
        let known = self.all().places.get(session).copied();
        if known.is_some() { Ok(known) } else { self.look_up(sql, session) }
    }

    /// The place of a session as it is now.
    pub(super) fn look_up(&self, sql: &Connection, session: &str) -> Outcome<Option<Place>> {
        let Some(no) = number(sql, session)? else {
            self.forget(session);
            return Ok(None);
        };
        let ends = "SELECT rev, last FROM flyball_sessions WHERE no = ?1";
        let place = sql
            .prepare_cached(ends)?
            .query_row([no], |row| Ok(Place { no, rev: read(row.get(0)?), last: row.get(1)? }))?;
        self.set(session, place);
        Ok(Some(place))
    }

    /// A session has moved.
    pub(super) fn set(&self, session: &str, place: Place) {
        let mut all = self.all();
        if let Some(known) = all.places.get_mut(session) {
            *known = place;
            return;
        }
        if all.places.len() >= NUMBERS {
            *all = Known::default();
        }
        all.places.insert(session.to_owned(), place);
    }

    /// What was known of a session is wrong.
    pub(super) fn forget(&self, session: &str) {
        let mut all = self.all();
        all.places.remove(session);
        if let Some(tail) = all.tails.remove(session) {
            all.kept = all.kept.saturating_sub(tail.ids.len());
        }
    }

    /// What was known may all be wrong: a transaction was not committed.
    pub(super) fn clear(&self) {
        *self.all() = Known::default();
    }

    /// A session went on from a place to the revision `to`, without a snapshot; these ids came with it.
    pub(super) fn went_on(&self, session: &str, from: &Place, to: u64, ids: Vec<NewId>) {
        let mut all = self.all();
        let Known { tails, kept, .. } = &mut *all;
        if let Some(tail) = tails.get_mut(session)
            && (tail.no, tail.rev) == (from.no, from.rev)
            && kept.saturating_add(ids.len()) <= IDS
        {
            // As almost always.
            *kept += ids.len();
            tail.ids.extend(ids);
            tail.rev = to;
            return;
        }
        let mut tail = all.take_tail(session, from).unwrap_or_default();
        // A tail without its beginning is none.
        if tail.is_whole(from) && all.kept.saturating_add(tail.ids.len() + ids.len()) <= IDS {
            tail.ids.extend(ids);
            all.put_tail(session, Tail { no: from.no, rev: to, ids: tail.ids });
        }
    }

    /// A session goes on from a place to the revision `to`, with a snapshot: all ids since the one before, if they are
    /// known.
    pub(super) fn snapshotted(&self, session: &str, from: &Place, to: u64) -> Option<Vec<NewId>> {
        let mut all = self.all();
        let tail = all.take_tail(session, from).unwrap_or_default();
        let whole = tail.is_whole(from);
        all.put_tail(session, Tail { no: from.no, rev: to, ids: Vec::new() });
        whole.then_some(tail.ids)
    }
}

impl Tail {
    /// Whether it holds all ids since the last snapshot: of a session at its beginning there are none.
    fn is_whole(&self, from: &Place) -> bool {
        from.rev == 0 || (self.no == from.no && self.rev == from.rev)
    }
}

impl Known {
    /// The tail of a session, if it belongs to this place.
    fn take_tail(&mut self, session: &str, from: &Place) -> Option<Tail> {
        let tail = self.tails.remove(session)?;
        self.kept = self.kept.saturating_sub(tail.ids.len());
        (tail.no == from.no && tail.rev == from.rev).then_some(tail)
    }

    fn put_tail(&mut self, session: &str, tail: Tail) {
        self.kept += tail.ids.len();
        self.tails.insert(session.to_owned(), tail);
    }
}
