//! Reads of sessions, ids and events, all verified. A missing row counts as absent only if a second index agrees.

use super::SqliteError;
use super::row_cache::{RowCache, RowLocation};
use super::rows::{self, CONFIRMATION_COLUMNS, EVENT_COLUMNS, SESSION_COLUMNS, to_i64, to_u64};
use crate::event_store::{ConfirmationRow, EventRef, OperatorRows, StoredAnswer, StreamCursor, StreamEntry};
use crate::record::{EventRecord, LoadedSession, SessionRow, state_checksum};
use rusqlite::{Connection, OptionalExtension, Row, params};

type SqliteResult<T> = Result<T, SqliteError>;

fn corrupt<T>(what: impl Into<String>) -> SqliteResult<T> {
    Err(SqliteError::Corrupt(what.into()))
}

/// All rows of a query.
pub(super) fn query_all<T>(
    sql: &Connection,
    query: &str,
    args: impl rusqlite::Params,
    mut read: impl FnMut(&Row<'_>) -> SqliteResult<T>,
) -> SqliteResult<Vec<T>> {
    let mut statement = sql.prepare_cached(query)?;
    let mut found = statement.query(args)?;
    let mut list = Vec::new();
    while let Some(row) = found.next()? {
        list.push(read(row)?);
    }
    Ok(list)
}

/// Row number of a session. A name that is not found is also looked up in the second index: corruption that hides it
/// from one does not hide it from the other.
pub(super) fn session_number(sql: &Connection, session: &str) -> SqliteResult<Option<i64>> {
    let found = |query: &str| -> SqliteResult<Option<i64>> {
        Ok(sql.prepare_cached(query)?.query_row([session], |row| row.get(0)).optional()?)
    };
    // The index is named, because the planner would use the second one for both queries.
    let first =
        "SELECT no FROM flyball_sessions INDEXED BY sqlite_autoindex_flyball_sessions_1 WHERE session = ?1";
    let second = "SELECT no FROM flyball_sessions INDEXED BY flyball_sessions_again WHERE session = ?1";
    find_in_both_indexes(
        || found(first),
        || Ok(found(second)?.is_some()),
        || format!("session '{session}' is missing from an index"),
    )
}

/// Looks up the first index, and checks a miss against the second one. Other processes write in between, so only a
/// repeated mismatch counts as corruption.
fn find_in_both_indexes<T>(
    first: impl Fn() -> SqliteResult<Option<T>>,
    second: impl Fn() -> SqliteResult<bool>,
    what: impl FnOnce() -> String,
) -> SqliteResult<Option<T>> {
    let found = first()?;
    if found.is_some() || !second()? {
        return Ok(found);
    }
    let found = first()?;
    if found.is_some() || !second()? {
        return Ok(found);
    }
    corrupt(what())
}

/// A session's head, and the number of its rows.
pub(super) fn head(sql: &Connection, session: &str) -> SqliteResult<Option<(i64, SessionRow)>> {
    let Some(no) = session_number(sql, session)? else { return Ok(None) };
    let query = format!("SELECT {SESSION_COLUMNS} FROM flyball_sessions WHERE no = ?1");
    let found = query_all(sql, &query, [no], rows::head)?.pop();
    match found {
        Some((no, head)) if head.session == session => Ok(Some((no, head))),
        _ => corrupt(format!("session '{session}' is indexed, but its row is missing")),
    }
}

/// A session as it was stored last.
pub(super) fn load(
    sql: &Connection,
    row_cache: &RowCache,
    session: &str,
) -> SqliteResult<Option<LoadedSession>> {
    row_cache.look_up(sql, session)?;
    let Some((no, head)) = head(sql, session)? else { return Ok(None) };
    let state = load_snapshot(sql, no, &head)?;
    let tail = read_back(sql, no, session, head.snapshot_seq.saturating_add(1), head.seq)?;
    check_tail(&head, &tail)?;
    Ok(Some(LoadedSession { head, state, tail }))
}

fn load_snapshot(sql: &Connection, no: i64, head: &SessionRow) -> SqliteResult<Vec<u8>> {
    let query = "SELECT seq, state, sum FROM flyball_snapshots WHERE no = ?1";
    let found: Option<(i64, Vec<u8>, i64)> = sql
        .prepare_cached(query)?
        .query_row([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let session = &head.session;
    let Some((seq, state, sum)) = found else {
        // A session that was charged before its first event has a state after event 0; most have none.
        if head.snapshot_seq == 0 {
            return Ok(Vec::new());
        }
        return corrupt(format!("the snapshot of session '{session}' is missing"));
    };
    if to_u64(seq) != head.snapshot_seq || state_checksum(session, head.snapshot_seq, &state) != to_u64(sum) {
        return corrupt(format!("the snapshot of session '{session}' does not match its checksum"));
    }
    Ok(state)
}

/// The events after the snapshot must be all there, chained, up to the head.
fn check_tail(head: &SessionRow, tail: &[EventRecord]) -> SqliteResult<()> {
    let session = &head.session;
    if tail.len() as u64 != head.seq.saturating_sub(head.snapshot_seq) {
        return corrupt(format!("events of session '{session}' are missing"));
    }
    let mut before = (head.snapshot_seq == 0).then_some([0; 16]);
    for record in tail {
        if before.is_some_and(|before| record.chain_hash_after(&before) != record.chain) {
            return corrupt(format!("the chain of session '{session}' breaks at event {}", record.seq));
        }
        before = Some(record.chain);
    }
    if tail.last().is_some_and(|last| last.chain != head.chain) {
        return corrupt(format!("the chain of session '{session}' does not end at its session row"));
    }
    Ok(())
}

/// Reads the events `from..=to` of a session, oldest first. Follows the links backward from the last event, and stops
/// at the first pruned one.
fn read_back(sql: &Connection, no: i64, session: &str, from: u64, to: u64) -> SqliteResult<Vec<EventRecord>> {
    let ends = "SELECT last, seq, pruned FROM flyball_sessions WHERE no = ?1";
    let (mut place, seq, pruned): (i64, i64, i64) =
        sql.prepare_cached(ends)?.query_row([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let lowest = from.max(to_u64(pruned).saturating_add(1));
    let query = format!("SELECT {EVENT_COLUMNS} FROM flyball_events WHERE pos = ?1");
    let mut statement = sql.prepare_cached(&query)?;
    let mut found = Vec::new();
    let mut expected = to_u64(seq);
    while expected >= lowest && expected > 0 {
        let mut rows = statement.query([place])?;
        let Some(row) = rows.next()? else {
            return corrupt(format!("event {expected} of session '{session}' is missing"));
        };
        let record = rows::record(row, session)?;
        if row.get::<_, i64>(14)? != no || record.seq != expected {
            return corrupt(format!("the events of session '{session}' do not lead to each other"));
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
pub(super) fn records(sql: &Connection, session: &str, from: u64, to: u64) -> SqliteResult<Vec<EventRecord>> {
    match session_number(sql, session)? {
        Some(no) => read_back(sql, no, session, from, to),
        None => Ok(Vec::new()),
    }
}

/// Finds the stored answer to an event id.
pub(super) fn find_by_id(
    sql: &Connection,
    row_cache: &RowCache,
    session: &str,
    id: &str,
) -> SqliteResult<Option<StoredAnswer>> {
    let covered = find_by_id_in_snapshot(sql, row_cache, session, id)?;
    if covered.is_some() {
        return Ok(covered);
    }
    // Ids are indexed with a snapshot; only a few events come after it.
    let Some((no, head)) = head(sql, session)? else { return Ok(None) };
    let tail = read_back(sql, no, session, head.snapshot_seq.saturating_add(1), head.seq)?;
    let found = tail.into_iter().find(|record| record.id.as_deref() == Some(id));
    Ok(found.map(|record| StoredAnswer {
        seq: record.seq,
        body_hash: record.body_hash,
        verdict: record.verdict,
        status: record.status,
        decision_json: Some(record.decision_json),
    }))
}

/// Finds the stored answer to an event id, among the events that the snapshot covers.
pub(super) fn find_by_id_in_snapshot(
    sql: &Connection,
    row_cache: &RowCache,
    session: &str,
    id: &str,
) -> SqliteResult<Option<StoredAnswer>> {
    let Some(RowLocation { session_no: no, .. }) = row_cache.get_or_look_up(sql, session)? else {
        return Ok(None);
    };
    // The index is named, because the planner would use the second one for both queries.
    let first = "SELECT no, id, seq, body, verdict, status, sum, pos FROM flyball_ids
         INDEXED BY sqlite_autoindex_flyball_ids_1 WHERE no = ?1 AND id = ?2";
    let second = "SELECT 1 FROM flyball_ids INDEXED BY flyball_ids_again WHERE no = ?1 AND id = ?2";
    let found = find_in_both_indexes(
        || Ok(query_all(sql, first, params![no, id], |row| parse_id_row(row, session, no))?.pop()),
        || Ok(sql.prepare_cached(second)?.exists(params![no, id])?),
        || format!("an id of session '{session}' is missing from an index"),
    )?;
    let Some((place, found)) = found else { return Ok(None) };
    let query = format!("SELECT {EVENT_COLUMNS} FROM flyball_events WHERE pos = ?1");
    let text = query_all(sql, &query, [place], |row| rows::record(row, session))?.pop();
    match text {
        Some(record) if record.seq == found.seq => {
            Ok(Some(StoredAnswer { decision_json: Some(record.decision_json), ..found }))
        }
        None if pruned_through(sql, no)? >= found.seq => Ok(Some(found)),
        _ => corrupt(format!("event {} of session '{session}' is missing", found.seq)),
    }
}

/// Last event that was pruned.
fn pruned_through(sql: &Connection, no: i64) -> SqliteResult<u64> {
    let query = "SELECT pruned FROM flyball_sessions WHERE no = ?1";
    Ok(to_u64(sql.prepare_cached(query)?.query_row([no], |row| row.get(0))?))
}

fn parse_id_row(row: &Row<'_>, session: &str, no: i64) -> SqliteResult<(i64, StoredAnswer)> {
    let id: String = row.get(1)?;
    let found = StoredAnswer {
        seq: to_u64(row.get(2)?),
        body_hash: to_u64(row.get(3)?),
        verdict: rows::parse_verdict(&row.get::<_, String>(4)?)?,
        status: rows::parse_status(&row.get::<_, String>(5)?)?,
        decision_json: None,
    };
    let sum = EventRecord::id_checksum(session, &id, found.seq, found.body_hash, found.verdict, found.status);
    if row.get::<_, i64>(0)? != no || sum != to_u64(row.get(6)?) {
        return corrupt(format!("an id of session '{session}' does not match its checksum"));
    }
    Ok((row.get(7)?, found))
}

/// The confirmation row of a session, if a plan is pending.
pub(super) fn pending_confirmation(sql: &Connection, session: &str) -> SqliteResult<Option<ConfirmationRow>> {
    let query = format!(
        "SELECT {CONFIRMATION_COLUMNS} FROM session_state WHERE session_id = ?1 AND pending_confirmation <> 0"
    );
    Ok(query_all(sql, &query, [session], rows::confirmation)?.pop())
}

/// The rows that a person may have taken away.
pub(super) fn operator_rows(sql: &Connection, session: &str) -> SqliteResult<OperatorRows> {
    let labelled = "SELECT count(*) FROM flyball_labels WHERE session = ?1";
    let labels: u32 = sql.prepare_cached(labelled)?.query_row([session], |row| row.get(0))?;
    Ok(OperatorRows { pending: pending_confirmation(sql, session)?.map(|row| row.sum()), label: labels > 0 })
}

/// The text of a policy.
pub(super) fn load_policy(sql: &Connection, digest: &str) -> SqliteResult<Option<String>> {
    let query = "SELECT text FROM flyball_policies WHERE digest = ?1";
    Ok(sql.prepare_cached(query)?.query_row([digest], |row| row.get(0)).optional()?)
}

/// Position of the newest event.
pub(super) fn latest_cursor(sql: &Connection) -> SqliteResult<StreamCursor> {
    let query = "SELECT coalesce(max(pos), 0) FROM flyball_events";
    let position = sql.prepare_cached(query)?.query_row([], |row| row.get(0))?;
    Ok(StreamCursor { transaction: 0, position: to_u64(position) })
}

/// Events of all sessions after a position. With one writer at a time, positions follow the commit order.
pub(super) fn events_since(
    sql: &Connection,
    after: StreamCursor,
    limit: usize,
) -> SqliteResult<Vec<StreamEntry>> {
    let columns: Vec<String> = EVENT_COLUMNS.split(", ").map(|name| format!("e.{name}")).collect();
    let query = format!(
        "SELECT {}, e.pos, s.session FROM flyball_events e JOIN flyball_sessions s ON s.no = e.no
         WHERE e.pos > ?1 ORDER BY e.pos LIMIT ?2",
        columns.join(", ")
    );
    query_all(sql, &query, params![to_i64(after.position), i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
        let session: String = row.get(16)?;
        let cursor = StreamCursor { transaction: 0, position: to_u64(row.get(15)?) };
        Ok(StreamEntry { cursor, record: rows::record(row, &session)?, session })
    })
}

/// References to the events of all sessions after a position.
pub(super) fn event_refs_since(
    sql: &Connection,
    after: StreamCursor,
    limit: usize,
) -> SqliteResult<Vec<EventRef>> {
    let query = "SELECT e.pos, e.seq, s.session FROM flyball_events e JOIN flyball_sessions s ON s.no = e.no
         WHERE e.pos > ?1 ORDER BY e.pos LIMIT ?2";
    query_all(sql, query, params![to_i64(after.position), i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
        let cursor = StreamCursor { transaction: 0, position: to_u64(row.get(0)?) };
        Ok(EventRef { cursor, seq: to_u64(row.get(1)?), session: row.get(2)? })
    })
}
