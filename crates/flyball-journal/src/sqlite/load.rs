//! Reading: sessions, ids, events. What is read is checked; a miss is believed only if its neighbours are whole.

use super::Fault;
use super::rows::{self, HEAD, PENDING, RECORD, read, stored};
use crate::journal::{Answered, Cursor, Entry, Handles, PendingRow};
use crate::record::{Head, Loaded, Record, state_sum};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Outcome<T> = Result<T, Fault>;

fn damaged<T>(what: impl Into<String>) -> Outcome<T> {
    Err(Fault::Damaged(what.into()))
}

/// All rows of a query.
pub(super) fn all<T>(
    sql: &Connection,
    query: &str,
    args: impl rusqlite::Params,
    mut read: impl FnMut(&Row<'_>) -> Outcome<T>,
) -> Outcome<Vec<T>> {
    let mut statement = sql.prepare_cached(query)?;
    let mut found = statement.query(args)?;
    let mut list = Vec::new();
    while let Some(row) = found.next()? {
        list.push(read(row)?);
    }
    Ok(list)
}

/// The numbers of sessions that were looked up, so that a session at work is not looked up for every event. One that
/// was pruned and made anew has another number; its old one leads nowhere, and the fence of an append tells.
#[derive(Debug, Default)]
pub(super) struct Numbers(Mutex<BTreeMap<String, i64>>);

/// How many numbers are kept; then the list begins anew.
const NUMBERS: usize = 10_000;

impl Numbers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a session, looked up if need be.
    pub(super) fn of(&self, sql: &Connection, session: &str) -> Outcome<Option<i64>> {
        let known = self.all().get(session).copied();
        if known.is_some() { Ok(known) } else { self.look_up(sql, session) }
    }

    /// The number of a session as it is now.
    pub(super) fn look_up(&self, sql: &Connection, session: &str) -> Outcome<Option<i64>> {
        let found = number(sql, session)?;
        let mut all = self.all();
        match found {
            Some(no) => {
                if all.len() >= NUMBERS {
                    all.clear();
                }
                all.insert(session.to_owned(), no);
            }
            None => {
                all.remove(session);
            }
        }
        Ok(found)
    }

    /// What was known of a session is wrong.
    pub(super) fn forget(&self, session: &str) {
        self.all().remove(session);
    }
}

/// The number under which a session's rows are found.
///
/// A name that is not found could be one that was damaged on the disk. A damaged entry still stands where it stood,
/// beside the place where the name would be; so the entries on both sides are compared with the rows they lead to.
pub(super) fn number(sql: &Connection, session: &str) -> Outcome<Option<i64>> {
    let exact = "SELECT no FROM flyball_sessions WHERE session = ?1";
    let found: Option<i64> = sql.prepare_cached(exact)?.query_row([session], |row| row.get(0)).optional()?;
    if found.is_some() {
        return Ok(found);
    }
    for beside in [
        "SELECT session, no FROM flyball_sessions WHERE session < ?1 ORDER BY session DESC LIMIT 1",
        "SELECT session, no FROM flyball_sessions WHERE session > ?1 ORDER BY session ASC LIMIT 1",
    ] {
        let entry: Option<(String, i64)> = sql
            .prepare_cached(beside)?
            .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((name, no)) = entry else { continue };
        let row = "SELECT session FROM flyball_sessions WHERE no = ?1";
        let own: Option<String> = sql.prepare_cached(row)?.query_row([no], |row| row.get(0)).optional()?;
        if own.as_deref() != Some(name.as_str()) {
            return damaged("the list of sessions does not match the sessions");
        }
    }
    Ok(None)
}

/// A session's head, and the number of its rows.
pub(super) fn head(sql: &Connection, session: &str) -> Outcome<Option<(i64, Head)>> {
    let Some(no) = number(sql, session)? else { return Ok(None) };
    let query = format!("SELECT {HEAD} FROM flyball_sessions WHERE no = ?1");
    let found = all(sql, &query, [no], rows::head)?.pop();
    match found {
        Some((no, head)) if head.session == session => Ok(Some((no, head))),
        _ => damaged(format!("session '{session}' is listed, but its head is not there")),
    }
}

/// A session as it was stored last.
pub(super) fn load(sql: &Connection, numbers: &Numbers, session: &str) -> Outcome<Option<Loaded>> {
    numbers.look_up(sql, session)?;
    let Some((no, head)) = head(sql, session)? else { return Ok(None) };
    let state = snapshot(sql, no, &head)?;
    let tail = between(sql, no, session, head.snapshot.saturating_add(1), head.seq)?;
    check_tail(&head, &tail)?;
    Ok(Some(Loaded { head, state, tail }))
}

fn snapshot(sql: &Connection, no: i64, head: &Head) -> Outcome<Vec<u8>> {
    let query = "SELECT seq, state, sum FROM flyball_snapshots WHERE no = ?1";
    let found: Option<(i64, Vec<u8>, i64)> = sql
        .prepare_cached(query)?
        .query_row([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let session = &head.session;
    let Some((seq, state, sum)) = found else {
        // A session that was drawn on before its first event has a state after event 0; most have none.
        if head.snapshot == 0 {
            return Ok(Vec::new());
        }
        return damaged(format!("the snapshot of session '{session}' is not there"));
    };
    if read(seq) != head.snapshot || state_sum(session, head.snapshot, &state) != read(sum) {
        return damaged(format!("the snapshot of session '{session}' does not match its checksum"));
    }
    Ok(state)
}

/// The events after the snapshot must be all there, chained, up to the head.
fn check_tail(head: &Head, tail: &[Record]) -> Outcome<()> {
    let session = &head.session;
    if tail.len() as u64 != head.seq.saturating_sub(head.snapshot) {
        return damaged(format!("events of session '{session}' are missing"));
    }
    let mut before = (head.snapshot == 0).then_some([0; 16]);
    for record in tail {
        if before.is_some_and(|before| record.chained(&before) != record.chain) {
            return damaged(format!("the chain of session '{session}' breaks at event {}", record.seq));
        }
        before = Some(record.chain);
    }
    if tail.last().is_some_and(|last| last.chain != head.chain) {
        return damaged(format!("the chain of session '{session}' does not end at its head"));
    }
    Ok(())
}

fn between(sql: &Connection, no: i64, session: &str, from: u64, to: u64) -> Outcome<Vec<Record>> {
    let query =
        format!("SELECT {RECORD} FROM flyball_events WHERE no = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq");
    all(sql, &query, params![no, stored(from), stored(to.min(i64::MAX as u64))], |row| {
        rows::record(row, session)
    })
}

/// The events of a session with numbers `from..=to`.
pub(super) fn records(sql: &Connection, session: &str, from: u64, to: u64) -> Outcome<Vec<Record>> {
    match number(sql, session)? {
        Some(no) => between(sql, no, session, from, to),
        None => Ok(Vec::new()),
    }
}

/// What an event id was answered with.
pub(super) fn find(
    sql: &Connection,
    numbers: &Numbers,
    session: &str,
    id: &str,
) -> Outcome<Option<Answered>> {
    let Some(no) = numbers.of(sql, session)? else { return Ok(None) };
    // As with names: a damaged entry would stand right here, so the entries on both sides are checked before a miss
    // is believed. The first one is the id itself, if it is there.
    let before = "SELECT no, id, seq, body, verdict, status, sum FROM flyball_ids WHERE no = ?1 AND id <= ?2
                  ORDER BY id DESC LIMIT 1";
    let after = "SELECT no, id, seq, body, verdict, status, sum FROM flyball_ids WHERE no = ?1 AND id > ?2
                 ORDER BY id ASC LIMIT 1";
    let read_entry = |row: &Row<'_>| id_entry(row, session, no);
    if let Some((found, answered)) = all(sql, before, params![no, id], read_entry)?.pop()
        && found == id
    {
        let text = between(sql, no, session, answered.seq, answered.seq)?.pop();
        return Ok(Some(Answered { decision: text.map(|record| record.decision), ..answered }));
    }
    all(sql, after, params![no, id], read_entry)?;
    Ok(None)
}

fn id_entry(row: &Row<'_>, session: &str, no: i64) -> Outcome<(String, Answered)> {
    let id: String = row.get(1)?;
    let found = Answered {
        seq: read(row.get(2)?),
        body: read(row.get(3)?),
        verdict: rows::verdict(&row.get::<_, String>(4)?)?,
        status: rows::status(&row.get::<_, String>(5)?)?,
        decision: None,
    };
    let sum = Record::id_sum(session, &id, found.seq, found.body, found.verdict, found.status);
    if row.get::<_, i64>(0)? != no || sum != read(row.get(6)?) {
        return damaged(format!("an id of session '{session}' does not match its checksum"));
    }
    Ok((id, found))
}

/// The confirmation row of a session, if a plan waits.
pub(super) fn pending(sql: &Connection, session: &str) -> Outcome<Option<PendingRow>> {
    let query =
        format!("SELECT {PENDING} FROM session_state WHERE session_id = ?1 AND pending_confirmation <> 0");
    Ok(all(sql, &query, [session], rows::pending)?.pop())
}

/// The rows that a person may have taken away.
pub(super) fn handles(sql: &Connection, session: &str) -> Outcome<Handles> {
    let labelled = "SELECT count(*) FROM flyball_labels WHERE session = ?1";
    let labels: u32 = sql.prepare_cached(labelled)?.query_row([session], |row| row.get(0))?;
    Ok(Handles { pending: pending(sql, session)?.map(|row| row.sum()), label: labels > 0 })
}

/// The text of a policy.
pub(super) fn policy(sql: &Connection, digest: &str) -> Outcome<Option<String>> {
    let query = "SELECT text FROM flyball_policies WHERE digest = ?1";
    Ok(sql.prepare_cached(query)?.query_row([digest], |row| row.get(0)).optional()?)
}

/// The events of all sessions after a place. One writer at a time: the order of numbers is the order of commits.
pub(super) fn since(sql: &Connection, after: Cursor, limit: usize) -> Outcome<Vec<Entry>> {
    let columns: Vec<String> = RECORD.split(", ").map(|name| format!("e.{name}")).collect();
    let query = format!(
        "SELECT {}, e.pos, s.session FROM flyball_events e JOIN flyball_sessions s ON s.no = e.no
         WHERE e.pos > ?1 ORDER BY e.pos LIMIT ?2",
        columns.join(", ")
    );
    all(sql, &query, params![stored(after.position), i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
        let session: String = row.get(14)?;
        let cursor = Cursor { transaction: 0, position: read(row.get(13)?) };
        Ok(Entry { cursor, record: rows::record(row, &session)?, session })
    })
}
