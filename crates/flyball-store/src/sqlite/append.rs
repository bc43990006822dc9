//! Append: stores each unit completely or not at all, with revision and epoch checked in the statement itself.

use super::SqliteError;
use super::load;
use super::row_cache::{RowCache, RowLocation, UnindexedId};
use super::rows::{self, to_i64};
use crate::event_store::{AppendOutcome, AppendUnit, ConfirmationRow, OutboxMessage};
use crate::record::{
    ConfirmationChange, EventRecord, LabelChange, SessionChange, SessionRow, state_checksum,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

type SqliteResult<T> = Result<T, SqliteError>;

/// Per-event statements, prepared once per append.
struct PreparedStatements<'a> {
    sql: &'a Connection,
    numbers: &'a RowCache,
    update_head: CachedStatement<'a>,
    insert_event: CachedStatement<'a>,
}

impl<'a> PreparedStatements<'a> {
    fn new(sql: &'a Connection, row_cache: &'a RowCache) -> SqliteResult<Self> {
        let head = "UPDATE flyball_sessions SET rev = ?1, seq = ?2, chain = ?3, snapshot = ?4, updated = ?5, sum = ?6,
             last = ?7 WHERE no = ?8 AND rev = ?9 AND epoch = ?10";
        let event =
            "INSERT INTO flyball_events (pos, prev, no, seq, at, nonce, epoch, id, body, text, whole, decision,
             verdict, status, chain, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
        Ok(PreparedStatements {
            sql,
            numbers: row_cache,
            update_head: sql.prepare_cached(head)?,
            insert_event: sql.prepare_cached(event)?,
        })
    }
}

/// Position of the newest event.
pub(super) fn latest_position(sql: &Connection) -> rusqlite::Result<i64> {
    let newest = "SELECT coalesce(max(pos), 0) FROM flyball_events";
    sql.prepare_cached(newest)?.query_row([], |row| row.get(0))
}

/// Writes all units that are not stale; returns the position of the newest event.
pub(super) fn append_units(
    sql: &Connection,
    row_cache: &RowCache,
    units: &[AppendUnit],
) -> SqliteResult<(Vec<AppendOutcome>, i64)> {
    let mut position = latest_position(sql)?;
    let mut statements = PreparedStatements::new(sql, row_cache)?;
    let done = units
        .iter()
        .map(|unit| append_unit(&mut statements, unit, &mut position))
        .collect::<SqliteResult<_>>()?;
    Ok((done, position))
}

fn append_unit(
    statements: &mut PreparedStatements<'_>,
    unit: &AppendUnit,
    position: &mut i64,
) -> SqliteResult<AppendOutcome> {
    let (sql, row_cache) = (statements.sql, statements.numbers);
    // If a unit has several sessions, a stale one must roll back the others.
    let several = unit.changes.len() > 1;
    if several {
        sql.prepare_cached("SAVEPOINT unit")?.execute([])?;
    }
    let mut places = Vec::with_capacity(unit.changes.len());
    let mut end = *position;
    for change in &unit.changes {
        let first = end;
        end += i64::try_from(change.records.len()).unwrap_or(i64::MAX);
        match move_head(statements, change, end)? {
            Ok(before) => places.push((before, first)),
            Err(refused) => {
                unit.changes.iter().for_each(|change| row_cache.remove(&change.head.session));
                if several {
                    sql.prepare_cached("ROLLBACK TO unit")?.execute([])?;
                    sql.prepare_cached("RELEASE unit")?.execute([])?;
                }
                return Ok(refused);
            }
        }
    }
    for (change, (before, first)) in unit.changes.iter().zip(places) {
        write_dependents(statements, change, &before, first)?;
    }
    *position = end;
    if several {
        sql.prepare_cached("RELEASE unit")?.execute([])?;
    }
    Ok(AppendOutcome::Done)
}

/// Updates the session row, if its revision is the one that the writer saw, and sets the position of its last event
/// to `end`. Returns the previous position.
fn move_head(
    statements: &mut PreparedStatements<'_>,
    change: &SessionChange,
    end: i64,
) -> SqliteResult<Result<RowLocation, AppendOutcome>> {
    let (sql, row_cache) = (statements.sql, statements.numbers);
    let head = &change.head;
    let expected = head.rev.wrapping_sub(1);
    let known = match row_cache.get_or_look_up(sql, &head.session)? {
        Some(place) if place.rev != expected => row_cache.look_up(sql, &head.session)?,
        other => other,
    };
    let Some(before) = known else {
        if !change.new {
            return Ok(Err(AppendOutcome::Stale));
        }
        let no = insert_session(sql, head, change.epoch, if change.records.is_empty() { 0 } else { end })?;
        return Ok(Ok(RowLocation { session_no: no, rev: 0, last_position: 0 }));
    };
    if change.new {
        return Ok(Err(AppendOutcome::Stale));
    }
    let last = if change.records.is_empty() { before.last_position } else { end };
    if update_head(statements, change, &before, last)? {
        row_cache.set(
            &head.session,
            RowLocation { session_no: before.session_no, rev: head.rev, last_position: last },
        );
        return Ok(Ok(before));
    }
    let epoch = "SELECT epoch FROM flyball_sessions WHERE no = ?1";
    let epoch: Option<i64> =
        sql.prepare_cached(epoch)?.query_row([before.session_no], |row| row.get(0)).optional()?;
    let fenced = epoch.is_some_and(|epoch| epoch != to_i64(change.epoch));
    Ok(Err(if fenced { AppendOutcome::Fenced } else { AppendOutcome::Stale }))
}

/// Updates a session row; returns whether its revision matched. Rarely changing columns are written only if they
/// changed.
fn update_head(
    statements: &mut PreparedStatements<'_>,
    change: &SessionChange,
    before: &RowLocation,
    last: i64,
) -> SqliteResult<bool> {
    let SessionChange { head, epoch, metadata_changed: seldom, .. } = change;
    let moved = statements.update_head.execute(params![
        to_i64(head.rev),
        to_i64(head.seq),
        head.chain,
        to_i64(head.snapshot_seq),
        to_i64(head.updated),
        to_i64(head.sum()),
        last,
        before.session_no,
        to_i64(head.rev.wrapping_sub(1)),
        to_i64(*epoch),
    ])?;
    if moved == 1 && *seldom {
        let summary = &head.summary;
        statements.sql.prepare_cached(
            "UPDATE flyball_sessions SET policy = ?1, pending = ?2, started = ?3, status = ?4, warnings = ?5,
             blocks = ?6, halts = ?7, stopped_by = ?8, label = ?9, parent = ?10 WHERE no = ?11",
        )?
        .execute(params![
            head.policy,
            head.pending.map(to_i64),
            to_i64(head.started),
            summary.status.as_str(),
            to_i64(summary.warnings),
            to_i64(summary.blocks),
            to_i64(summary.halts),
            summary.stopped_by,
            summary.label,
            summary.parent,
            before.session_no,
        ])?;
    }
    Ok(moved == 1)
}

/// A session that is not in the store yet.
pub(super) fn insert_session(
    sql: &Connection,
    head: &SessionRow,
    epoch: u64,
    last: i64,
) -> SqliteResult<i64> {
    let insert =
        "INSERT INTO flyball_sessions (session, rev, epoch, seq, chain, policy, snapshot, pending, started,
         updated, status, warnings, blocks, halts, stopped_by, label, parent, sum, last)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
    let summary = &head.summary;
    sql.prepare_cached(insert)?.execute(params![
        head.session,
        to_i64(head.rev),
        to_i64(epoch),
        to_i64(head.seq),
        head.chain,
        head.policy,
        to_i64(head.snapshot_seq),
        head.pending.map(to_i64),
        to_i64(head.started),
        to_i64(head.updated),
        summary.status.as_str(),
        to_i64(summary.warnings),
        to_i64(summary.blocks),
        to_i64(summary.halts),
        summary.stopped_by,
        summary.label,
        summary.parent,
        to_i64(head.sum()),
        last,
    ])?;
    Ok(sql.last_insert_rowid())
}

/// Writes the rows that depend on the session row.
fn write_dependents(
    statements: &mut PreparedStatements<'_>,
    change: &SessionChange,
    before: &RowLocation,
    first: i64,
) -> SqliteResult<()> {
    let (sql, head, no) = (statements.sql, &change.head, before.session_no);
    let (mut place, mut last) = (first, before.last_position);
    let mut new = Vec::with_capacity(change.records.len());
    for entry in &change.records {
        place += 1;
        insert_event(&mut statements.insert_event, no, (place, last), &head.session, entry)?;
        last = place;
        new.extend(unindexed_id(entry, place));
    }
    if change.snapshot.is_none() {
        statements.numbers.add_tail_ids(&head.session, before, head.rev, new);
    } else if let Some(mut all) = statements.numbers.take_tail_ids(&head.session, before, head.rev) {
        all.append(&mut new);
        index_ids(sql, no, &head.session, &all)?;
    } else {
        let all = read_tail_ids(sql, no, last)?;
        index_ids(sql, no, &head.session, &all)?;
    }
    if let Some(state) = &change.snapshot {
        let put = "INSERT INTO flyball_snapshots (no, seq, state, sum) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (no) DO UPDATE SET seq = excluded.seq, state = excluded.state, sum = excluded.sum";
        let sum = state_checksum(&head.session, head.snapshot_seq, state);
        sql.prepare_cached(put)?.execute(params![no, to_i64(head.snapshot_seq), state, to_i64(sum)])?;
    }
    change_confirmation(sql, &head.session, &change.row)?;
    change_label(sql, &head.session, &change.label)?;
    for entry in &change.outbox_messages {
        insert_outbox(sql, entry)?;
    }
    Ok(())
}

fn insert_event(
    event: &mut CachedStatement<'_>,
    no: i64,
    place: (i64, i64),
    session: &str,
    record: &EventRecord,
) -> SqliteResult<()> {
    event.execute(params![
        place.0,
        place.1,
        no,
        to_i64(record.seq),
        record.at.map(to_i64),
        to_i64(record.nonce),
        to_i64(record.epoch),
        record.id,
        to_i64(record.body_hash),
        record.text,
        record.is_complete,
        record.decision_json,
        record.verdict.as_str(),
        record.status.as_str(),
        record.chain,
        to_i64(record.sum(session)),
    ])?;
    Ok(())
}

fn unindexed_id(record: &EventRecord, place: i64) -> Option<UnindexedId> {
    let id = record.id.clone()?;
    let EventRecord { seq, body_hash: body, verdict, status, .. } = *record;
    Some(UnindexedId { id, seq, position: place, body_hash: body, verdict, status })
}

/// Ids of the events since the last snapshot, newest first.
fn read_tail_ids(sql: &Connection, no: i64, last: i64) -> SqliteResult<Vec<UnindexedId>> {
    let before = "SELECT seq FROM flyball_snapshots WHERE no = ?1";
    let before: Option<i64> = sql.prepare_cached(before)?.query_row([no], |row| row.get(0)).optional()?;
    let mut place = last;
    let mut event = sql.prepare_cached(
        "SELECT prev, seq, id, body, verdict, status FROM flyball_events WHERE pos = ?1 AND no = ?2",
    )?;
    let mut found = Vec::new();
    while place != 0 {
        let mut rows = event.query(params![place, no])?;
        let Some(row) = rows.next()? else { break };
        let seq: i64 = row.get(1)?;
        if before.is_some_and(|before| seq <= before) {
            break;
        }
        if let Some(id) = row.get::<_, Option<String>>(2)? {
            let verdict = rows::parse_verdict(row.get_ref(4)?.as_str().unwrap_or_default())?;
            let status = rows::parse_status(row.get_ref(5)?.as_str().unwrap_or_default())?;
            let (seq, body) = (rows::to_u64(seq), rows::to_u64(row.get(3)?));
            found.push(UnindexedId { id, seq, position: place, body_hash: body, verdict, status });
        }
        place = row.get(0)?;
    }
    Ok(found)
}

/// Inserts ids into the index that finds their events.
fn index_ids(sql: &Connection, no: i64, session: &str, ids: &[UnindexedId]) -> SqliteResult<()> {
    let mut enter = sql.prepare_cached(
        "INSERT INTO flyball_ids (no, id, seq, pos, body, verdict, status, sum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for UnindexedId { id, seq, position: place, body_hash: body, verdict, status } in ids {
        let sum = EventRecord::id_checksum(session, id, *seq, *body, *verdict, *status);
        let (verdict, status) = (verdict.as_str(), status.as_str());
        enter.execute(params![no, id, to_i64(*seq), place, to_i64(*body), verdict, status, to_i64(sum)])?;
    }
    Ok(())
}

fn change_confirmation(sql: &Connection, session: &str, change: &ConfirmationChange) -> SqliteResult<()> {
    let clear = "DELETE FROM session_state WHERE session_id = ?1";
    match change {
        ConfirmationChange::Keep => {}
        ConfirmationChange::Put(row) => upsert_confirmation(sql, row)?,
        ConfirmationChange::Clear => {
            sql.prepare_cached(clear)?.execute([session])?;
        }
        ConfirmationChange::Quarantine { reason: why } => {
            let kept = load::pending_confirmation(sql, session)?;
            let kept = serde_json::to_string(&kept).unwrap_or_default();
            let keep = "INSERT INTO flyball_set_aside (session, kept, why, at)
                        VALUES (?1, ?2, ?3, CURRENT_TIMESTAMP)";
            sql.prepare_cached(keep)?.execute(params![session, kept, why])?;
            sql.prepare_cached(clear)?.execute([session])?;
        }
    }
    Ok(())
}

fn upsert_confirmation(sql: &Connection, row: &ConfirmationRow) -> SqliteResult<()> {
    let put = "INSERT INTO session_state (session_id, pending_confirmation, pending_plan, confirmation_question,
         requester, digest, status, created_at, expires_at, updated_at) VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (session_id) DO UPDATE SET pending_confirmation = 1, pending_plan = excluded.pending_plan,
         confirmation_question = excluded.confirmation_question, requester = excluded.requester,
         digest = excluded.digest, status = excluded.status, created_at = excluded.created_at,
         expires_at = excluded.expires_at, updated_at = excluded.updated_at";
    sql.prepare_cached(put)?.execute(params![
        row.session_id,
        row.pending_plan,
        row.confirmation_question,
        row.requester,
        row.digest,
        row.status,
        row.created_at,
        row.expires_at,
        row.updated_at,
    ])?;
    Ok(())
}

fn change_label(sql: &Connection, session: &str, change: &LabelChange) -> SqliteResult<()> {
    match change {
        LabelChange::Keep => {}
        LabelChange::Set(label) => {
            let put = "INSERT INTO flyball_labels (session, label, since) VALUES (?1, ?2, CURRENT_TIMESTAMP)
                       ON CONFLICT (session) DO UPDATE SET label = excluded.label";
            sql.prepare_cached(put)?.execute([session, label])?;
        }
        LabelChange::Clear => {
            sql.prepare_cached("DELETE FROM flyball_labels WHERE session = ?1")?.execute([session])?;
        }
    }
    Ok(())
}

fn insert_outbox(sql: &Connection, message: &OutboxMessage) -> SqliteResult<()> {
    let put = "INSERT INTO flyball_outbox (key, session, effect, sink, payload, state, attempts, due, error)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, NULL) ON CONFLICT (key) DO NOTHING";
    let now = super::coordination::now(sql)?;
    sql.prepare_cached(put)?.execute(params![
        message.key,
        message.session,
        message.effect,
        message.sink,
        message.payload,
        message.state.as_str(),
        to_i64(now),
    ])?;
    Ok(())
}

/// Stores a policy text.
pub(super) fn save_policy(sql: &Connection, digest: &str, text: &str) -> SqliteResult<()> {
    let there = "SELECT 1 FROM flyball_policies WHERE digest = ?1";
    let known: Option<u32> = sql.query_row(there, [digest], |row| row.get(0)).optional()?;
    if known.is_none() {
        sql.execute("INSERT INTO flyball_policies (digest, text) VALUES (?1, ?2)", [digest, text])?;
    }
    Ok(())
}
