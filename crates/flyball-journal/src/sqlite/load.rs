//! Reading: sessions, ids, events. What is read is checked; a miss is believed only if its neighbours are whole.

use super::Fault;
use super::numbers::{Numbers, Place};
use super::rows::{self, HEAD, PENDING, RECORD, read, stored};
use crate::journal::{Answered, Cursor, Entry, Handles, PendingRow, Sighting};
use crate::record::{Head, Loaded, Record, state_sum};
use rusqlite::{Connection, OptionalExtension, Row, params};

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

/// The number under which a session's rows are found. A name that is not found is looked for in the second index too:
/// damage that hides it from one does not hide it from the other.
pub(super) fn number(sql: &Connection, session: &str) -> Outcome<Option<i64>> {
    let found = |query: &str| -> Outcome<Option<i64>> {
        Ok(sql.prepare_cached(query)?.query_row([session], |row| row.get(0)).optional()?)
    };
    // Named, because the planner would rather take the second one twice.
    let first =
        "SELECT no FROM flyball_sessions INDEXED BY sqlite_autoindex_flyball_sessions_1 WHERE session = ?1";
    let second = "SELECT no FROM flyball_sessions INDEXED BY flyball_sessions_again WHERE session = ?1";
    in_both(
        || found(first),
        || Ok(found(second)?.is_some()),
        || format!("session '{session}' is missing from an index"),
    )
}

/// What the first index has. What it has not, the second must not have either. Others write between two looks, so that
/// only what stays missing is damage.
fn in_both<T>(
    first: impl Fn() -> Outcome<Option<T>>,
    second: impl Fn() -> Outcome<bool>,
    what: impl FnOnce() -> String,
) -> Outcome<Option<T>> {
    let found = first()?;
    if found.is_some() || !second()? {
        return Ok(found);
    }
    let found = first()?;
    if found.is_some() || !second()? {
        return Ok(found);
    }
    damaged(what())
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
    let tail = back(sql, no, session, head.snapshot.saturating_add(1), head.seq)?;
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

/// The events of a session with numbers `from..=to`, oldest first: from the last one back, each leads to the one before
/// it. What was pruned is not there, and that is where it ends.
fn back(sql: &Connection, no: i64, session: &str, from: u64, to: u64) -> Outcome<Vec<Record>> {
    let ends = "SELECT last, seq, pruned FROM flyball_sessions WHERE no = ?1";
    let (mut place, seq, pruned): (i64, i64, i64) =
        sql.prepare_cached(ends)?.query_row([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let lowest = from.max(read(pruned).saturating_add(1));
    let query = format!("SELECT {RECORD} FROM flyball_events WHERE pos = ?1");
    let mut statement = sql.prepare_cached(&query)?;
    let mut found = Vec::new();
    let mut expected = read(seq);
    while expected >= lowest && expected > 0 {
        let mut rows = statement.query([place])?;
        let Some(row) = rows.next()? else {
            return damaged(format!("event {expected} of session '{session}' is not there"));
        };
        let record = rows::record(row, session)?;
        if row.get::<_, i64>(14)? != no || record.seq != expected {
            return damaged(format!("the events of session '{session}' do not lead to each other"));
        }
        place = row.get(13)?;
        if expected <= to {
            found.push(record);
        }
        expected -= 1;
    }
    found.reverse();
    Ok(found)
}

/// The events of a session with numbers `from..=to`.
pub(super) fn records(sql: &Connection, session: &str, from: u64, to: u64) -> Outcome<Vec<Record>> {
    match number(sql, session)? {
        Some(no) => back(sql, no, session, from, to),
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
    let covered = find_covered(sql, numbers, session, id)?;
    if covered.is_some() {
        return Ok(covered);
    }
    // Ids are entered with a snapshot; the events after it are few.
    let Some((no, head)) = head(sql, session)? else { return Ok(None) };
    let tail = back(sql, no, session, head.snapshot.saturating_add(1), head.seq)?;
    let found = tail.into_iter().find(|record| record.id.as_deref() == Some(id));
    Ok(found.map(|record| Answered {
        seq: record.seq,
        body: record.body,
        verdict: record.verdict,
        status: record.status,
        decision: Some(record.decision),
    }))
}

/// What an event id was answered with, among the events that the snapshot covers.
pub(super) fn find_covered(
    sql: &Connection,
    numbers: &Numbers,
    session: &str,
    id: &str,
) -> Outcome<Option<Answered>> {
    let Some(Place { no, .. }) = numbers.of(sql, session)? else { return Ok(None) };
    // Named, because the planner would rather take the second index twice.
    let first = "SELECT no, id, seq, body, verdict, status, sum, pos FROM flyball_ids
         INDEXED BY sqlite_autoindex_flyball_ids_1 WHERE no = ?1 AND id = ?2";
    let second = "SELECT 1 FROM flyball_ids INDEXED BY flyball_ids_again WHERE no = ?1 AND id = ?2";
    let found = in_both(
        || Ok(all(sql, first, params![no, id], |row| id_entry(row, session, no))?.pop()),
        || Ok(sql.prepare_cached(second)?.exists(params![no, id])?),
        || format!("an id of session '{session}' is missing from an index"),
    )?;
    let Some((place, found)) = found else { return Ok(None) };
    let query = format!("SELECT {RECORD} FROM flyball_events WHERE pos = ?1");
    let text = all(sql, &query, [place], |row| rows::record(row, session))?.pop();
    match text {
        Some(record) if record.seq == found.seq => {
            Ok(Some(Answered { decision: Some(record.decision), ..found }))
        }
        None if pruned(sql, no)? >= found.seq => Ok(Some(found)),
        _ => damaged(format!("event {} of session '{session}' is not there", found.seq)),
    }
}

/// The last event that was taken away by pruning.
fn pruned(sql: &Connection, no: i64) -> Outcome<u64> {
    let query = "SELECT pruned FROM flyball_sessions WHERE no = ?1";
    Ok(read(sql.prepare_cached(query)?.query_row([no], |row| row.get(0))?))
}

fn id_entry(row: &Row<'_>, session: &str, no: i64) -> Outcome<(i64, Answered)> {
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
    Ok((row.get(7)?, found))
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

/// The place of the newest event.
pub(super) fn newest(sql: &Connection) -> Outcome<Cursor> {
    let query = "SELECT coalesce(max(pos), 0) FROM flyball_events";
    let position = sql.prepare_cached(query)?.query_row([], |row| row.get(0))?;
    Ok(Cursor { transaction: 0, position: read(position) })
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
        let session: String = row.get(16)?;
        let cursor = Cursor { transaction: 0, position: read(row.get(15)?) };
        Ok(Entry { cursor, record: rows::record(row, &session)?, session })
    })
}

/// Which events of all sessions there are after a place.
pub(super) fn sightings(sql: &Connection, after: Cursor, limit: usize) -> Outcome<Vec<Sighting>> {
    let query = "SELECT e.pos, e.seq, s.session FROM flyball_events e JOIN flyball_sessions s ON s.no = e.no
         WHERE e.pos > ?1 ORDER BY e.pos LIMIT ?2";
    all(sql, query, params![stored(after.position), i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
        let cursor = Cursor { transaction: 0, position: read(row.get(0)?) };
        Ok(Sighting { cursor, seq: read(row.get(1)?), session: row.get(2)? })
    })
}
