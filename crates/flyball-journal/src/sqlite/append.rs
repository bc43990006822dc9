//! Writing: units of changes, each whole or not at all, fenced by revision and epoch in the statement itself.

use super::Fault;
use super::load;
use super::numbers::{NewId, Numbers, Place};
use super::rows::{self, stored};
use crate::journal::{Appended, Errand, PendingRow, Unit};
use crate::record::{Change, Head, LabelChange, Record, RowChange, state_sum};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

type Outcome<T> = Result<T, Fault>;

/// What is done for every event, prepared once for a whole append.
struct Pen<'a> {
    sql: &'a Connection,
    numbers: &'a Numbers,
    head: CachedStatement<'a>,
    event: CachedStatement<'a>,
}

impl<'a> Pen<'a> {
    fn new(sql: &'a Connection, numbers: &'a Numbers) -> Outcome<Self> {
        let head = "UPDATE flyball_sessions SET rev = ?1, seq = ?2, chain = ?3, snapshot = ?4, updated = ?5, sum = ?6,
             last = ?7 WHERE no = ?8 AND rev = ?9 AND epoch = ?10";
        let event =
            "INSERT INTO flyball_events (pos, prev, no, seq, at, nonce, epoch, id, body, text, whole, decision,
             verdict, status, chain, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
        Ok(Pen { sql, numbers, head: sql.prepare_cached(head)?, event: sql.prepare_cached(event)? })
    }
}

/// The position of the newest event.
pub(super) fn newest(sql: &Connection) -> rusqlite::Result<i64> {
    let newest = "SELECT coalesce(max(pos), 0) FROM flyball_events";
    sql.prepare_cached(newest)?.query_row([], |row| row.get(0))
}

/// Writes all units that are not stale; gives the position of the newest event after them.
pub(super) fn units(sql: &Connection, numbers: &Numbers, units: &[Unit]) -> Outcome<(Vec<Appended>, i64)> {
    let mut position = newest(sql)?;
    let mut pen = Pen::new(sql, numbers)?;
    let done = units.iter().map(|unit| write(&mut pen, unit, &mut position)).collect::<Outcome<_>>()?;
    Ok((done, position))
}

fn write(pen: &mut Pen<'_>, unit: &Unit, position: &mut i64) -> Outcome<Appended> {
    let (sql, numbers) = (pen.sql, pen.numbers);
    // With several sessions in one unit, a stale one must take the others back with it.
    let several = unit.changes.len() > 1;
    if several {
        sql.prepare_cached("SAVEPOINT unit")?.execute([])?;
    }
    let mut places = Vec::with_capacity(unit.changes.len());
    let mut end = *position;
    for change in &unit.changes {
        let first = end;
        end += i64::try_from(change.records.len()).unwrap_or(i64::MAX);
        match fence(pen, change, end)? {
            Ok(before) => places.push((before, first)),
            Err(refused) => {
                unit.changes.iter().for_each(|change| numbers.forget(&change.head.session));
                if several {
                    sql.prepare_cached("ROLLBACK TO unit")?.execute([])?;
                    sql.prepare_cached("RELEASE unit")?.execute([])?;
                }
                return Ok(refused);
            }
        }
    }
    for (change, (before, first)) in unit.changes.iter().zip(places) {
        rest(pen, change, &before, first)?;
    }
    *position = end;
    if several {
        sql.prepare_cached("RELEASE unit")?.execute([])?;
    }
    Ok(Appended::Done)
}

/// Moves the head, if it still stands where the writer saw it; the place of its last event will be `end`. Gives the
/// place before that.
fn fence(pen: &mut Pen<'_>, change: &Change, end: i64) -> Outcome<Result<Place, Appended>> {
    let (sql, numbers) = (pen.sql, pen.numbers);
    let head = &change.head;
    let expected = head.rev.wrapping_sub(1);
    let known = match numbers.of(sql, &head.session)? {
        Some(place) if place.rev != expected => numbers.look_up(sql, &head.session)?,
        other => other,
    };
    let Some(before) = known else {
        if !change.new {
            return Ok(Err(Appended::Stale));
        }
        let no = insert(sql, head, change.epoch, if change.records.is_empty() { 0 } else { end })?;
        return Ok(Ok(Place { no, rev: 0, last: 0 }));
    };
    if change.new {
        return Ok(Err(Appended::Stale));
    }
    let last = if change.records.is_empty() { before.last } else { end };
    if update(pen, change, &before, last)? {
        numbers.set(&head.session, Place { no: before.no, rev: head.rev, last });
        return Ok(Ok(before));
    }
    let epoch = "SELECT epoch FROM flyball_sessions WHERE no = ?1";
    let epoch: Option<i64> =
        sql.prepare_cached(epoch)?.query_row([before.no], |row| row.get(0)).optional()?;
    let fenced = epoch.is_some_and(|epoch| epoch != stored(change.epoch));
    Ok(Err(if fenced { Appended::Fenced } else { Appended::Stale }))
}

/// Moves a head; says whether it stood where it must. What seldom changes is written only if it has changed.
fn update(pen: &mut Pen<'_>, change: &Change, before: &Place, last: i64) -> Outcome<bool> {
    let Change { head, epoch, seldom, .. } = change;
    let moved = pen.head.execute(params![
        stored(head.rev),
        stored(head.seq),
        head.chain,
        stored(head.snapshot),
        stored(head.updated),
        stored(head.sum()),
        last,
        before.no,
        stored(head.rev.wrapping_sub(1)),
        stored(*epoch),
    ])?;
    if moved == 1 && *seldom {
        let glance = &head.glance;
        pen.sql.prepare_cached(
            "UPDATE flyball_sessions SET policy = ?1, pending = ?2, started = ?3, status = ?4, warnings = ?5,
             blocks = ?6, halts = ?7, stopped_by = ?8, label = ?9, parent = ?10 WHERE no = ?11",
        )?
        .execute(params![
            head.policy,
            head.pending.map(stored),
            stored(head.started),
            glance.status.as_str(),
            stored(glance.warnings),
            stored(glance.blocks),
            stored(glance.halts),
            glance.stopped_by,
            glance.label,
            glance.parent,
            before.no,
        ])?;
    }
    Ok(moved == 1)
}

/// A session that is not in the store yet.
pub(super) fn insert(sql: &Connection, head: &Head, epoch: u64, last: i64) -> Outcome<i64> {
    let insert =
        "INSERT INTO flyball_sessions (session, rev, epoch, seq, chain, policy, snapshot, pending, started,
         updated, status, warnings, blocks, halts, stopped_by, label, parent, sum, last)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
    let glance = &head.glance;
    sql.prepare_cached(insert)?.execute(params![
        head.session,
        stored(head.rev),
        stored(epoch),
        stored(head.seq),
        head.chain,
        head.policy,
        stored(head.snapshot),
        head.pending.map(stored),
        stored(head.started),
        stored(head.updated),
        glance.status.as_str(),
        stored(glance.warnings),
        stored(glance.blocks),
        stored(glance.halts),
        glance.stopped_by,
        glance.label,
        glance.parent,
        stored(head.sum()),
        last,
    ])?;
    Ok(sql.last_insert_rowid())
}

/// Everything that hangs on the head.
fn rest(pen: &mut Pen<'_>, change: &Change, before: &Place, first: i64) -> Outcome<()> {
    let (sql, head, no) = (pen.sql, &change.head, before.no);
    let (mut place, mut last) = (first, before.last);
    let mut new = Vec::with_capacity(change.records.len());
    for entry in &change.records {
        place += 1;
        record(&mut pen.event, no, (place, last), &head.session, entry)?;
        last = place;
        new.extend(new_id(entry, place));
    }
    if change.snapshot.is_none() {
        pen.numbers.went_on(&head.session, before, head.rev, new);
    } else if let Some(mut all) = pen.numbers.snapshotted(&head.session, before, head.rev) {
        all.append(&mut new);
        enter(sql, no, &head.session, &all)?;
    } else {
        let all = read_back(sql, no, last)?;
        enter(sql, no, &head.session, &all)?;
    }
    if let Some(state) = &change.snapshot {
        let put = "INSERT INTO flyball_snapshots (no, seq, state, sum) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (no) DO UPDATE SET seq = excluded.seq, state = excluded.state, sum = excluded.sum";
        let sum = state_sum(&head.session, head.snapshot, state);
        sql.prepare_cached(put)?.execute(params![no, stored(head.snapshot), state, stored(sum)])?;
    }
    row(sql, &head.session, &change.row)?;
    label(sql, &head.session, &change.label)?;
    for entry in &change.errands {
        errand(sql, entry)?;
    }
    Ok(())
}

fn record(
    event: &mut CachedStatement<'_>,
    no: i64,
    place: (i64, i64),
    session: &str,
    record: &Record,
) -> Outcome<()> {
    event.execute(params![
        place.0,
        place.1,
        no,
        stored(record.seq),
        record.at.map(stored),
        stored(record.nonce),
        stored(record.epoch),
        record.id,
        stored(record.body),
        record.text,
        record.whole,
        record.decision,
        record.verdict.as_str(),
        record.status.as_str(),
        record.chain,
        stored(record.sum(session)),
    ])?;
    Ok(())
}

fn new_id(record: &Record, place: i64) -> Option<NewId> {
    let id = record.id.clone()?;
    let Record { seq, body, verdict, status, .. } = *record;
    Some(NewId { id, seq, place, body, verdict, status })
}

/// The ids of the events since the last snapshot, from the last one back.
fn read_back(sql: &Connection, no: i64, last: i64) -> Outcome<Vec<NewId>> {
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
            let verdict = rows::verdict(row.get_ref(4)?.as_str().unwrap_or_default())?;
            let status = rows::status(row.get_ref(5)?.as_str().unwrap_or_default())?;
            let (seq, body) = (rows::read(seq), rows::read(row.get(3)?));
            found.push(NewId { id, seq, place, body, verdict, status });
        }
        place = row.get(0)?;
    }
    Ok(found)
}

/// Enters ids under which events are found again.
fn enter(sql: &Connection, no: i64, session: &str, ids: &[NewId]) -> Outcome<()> {
    let mut enter = sql.prepare_cached(
        "INSERT INTO flyball_ids (no, id, seq, pos, body, verdict, status, sum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for NewId { id, seq, place, body, verdict, status } in ids {
        let sum = Record::id_sum(session, id, *seq, *body, *verdict, *status);
        let (verdict, status) = (verdict.as_str(), status.as_str());
        enter.execute(params![no, id, stored(*seq), place, stored(*body), verdict, status, stored(sum)])?;
    }
    Ok(())
}

fn row(sql: &Connection, session: &str, change: &RowChange) -> Outcome<()> {
    let clear = "DELETE FROM session_state WHERE session_id = ?1";
    match change {
        RowChange::Keep => {}
        RowChange::Put(row) => put(sql, row)?,
        RowChange::Clear => {
            sql.prepare_cached(clear)?.execute([session])?;
        }
        RowChange::SetAside { why } => {
            let kept = load::pending(sql, session)?;
            let kept = serde_json::to_string(&kept).unwrap_or_default();
            let keep = "INSERT INTO flyball_set_aside (session, kept, why, at)
                        VALUES (?1, ?2, ?3, CURRENT_TIMESTAMP)";
            sql.prepare_cached(keep)?.execute(params![session, kept, why])?;
            sql.prepare_cached(clear)?.execute([session])?;
        }
    }
    Ok(())
}

fn put(sql: &Connection, row: &PendingRow) -> Outcome<()> {
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

fn label(sql: &Connection, session: &str, change: &LabelChange) -> Outcome<()> {
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

fn errand(sql: &Connection, errand: &Errand) -> Outcome<()> {
    let put = "INSERT INTO flyball_outbox (key, session, effect, sink, payload, state, attempts, due, error)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, NULL) ON CONFLICT (key) DO NOTHING";
    let now = super::work::now(sql)?;
    sql.prepare_cached(put)?.execute(params![
        errand.key,
        errand.session,
        errand.effect,
        errand.sink,
        errand.payload,
        errand.state.as_str(),
        stored(now),
    ])?;
    Ok(())
}

/// Keeps the text of a policy.
pub(super) fn policy(sql: &Connection, digest: &str, text: &str) -> Outcome<()> {
    let there = "SELECT 1 FROM flyball_policies WHERE digest = ?1";
    let known: Option<u32> = sql.query_row(there, [digest], |row| row.get(0)).optional()?;
    if known.is_none() {
        sql.execute("INSERT INTO flyball_policies (digest, text) VALUES (?1, ?2)", [digest, text])?;
    }
    Ok(())
}
