//! The statements of an append: one for each table, with a column of values for all changes at once.

use super::rows::{bits, clock, stored};
use crate::journal::{Errand, PendingRow};
use crate::record::{Change, LabelChange, Record, RowChange, state_sum};
use tokio_postgres::types::ToSql;

/// A statement and its values.
pub(super) struct Write<'a> {
    pub(super) sql: &'static str,
    pub(super) values: Vec<Box<dyn ToSql + Sync + 'a>>,
}

macro_rules! heads {
    () => {
        "unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[], $7::bigint[], \
         $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], \
         $15::text[], $16::text[], $17::text[], $18::bigint[]) AS n(session, rev, epoch, seq, chain, policy, \
         snapshot, pending, started, updated, status, warnings, blocks, halts, stopped_by, label, parent, sum)"
    };
}

/// Fails the transaction if fewer heads were written than should be: 1 divided by 0.
macro_rules! or_fail {
    () => {
        " RETURNING 1) SELECT 1 / (count(*) = cardinality($1))::integer FROM done"
    };
}

const MOVE_HEADS: &str = concat!(
    "WITH done AS (UPDATE flyball_sessions s SET rev = n.rev, seq = n.seq, chain = n.chain, policy = n.policy, \
     snapshot = n.snapshot, pending = n.pending, started = n.started, updated = n.updated, status = n.status, \
     warnings = n.warnings, blocks = n.blocks, halts = n.halts, stopped_by = n.stopped_by, label = n.label, \
     parent = n.parent, sum = n.sum FROM ",
    heads!(),
    " WHERE s.session = n.session AND s.rev = n.rev - 1 AND s.epoch = n.epoch",
    or_fail!()
);
const NEW_HEADS: &str = concat!(
    "WITH done AS (INSERT INTO flyball_sessions (session, rev, epoch, seq, chain, policy, snapshot, pending, \
     started, updated, status, warnings, blocks, halts, stopped_by, label, parent, sum) SELECT * FROM ",
    heads!(),
    " ON CONFLICT (session) DO NOTHING",
    or_fail!()
);
const EVENTS: &str = "INSERT INTO flyball_events (session, seq, at, nonce, epoch, id, body, event, whole, decision, \
    verdict, status, chain, sum) SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], \
    $5::bigint[], $6::text[], $7::bigint[], $8::text[], $9::boolean[], $10::text[], $11::text[], $12::text[], \
    $13::bytea[], $14::bigint[])";
const IDS: &str = "INSERT INTO flyball_ids (session, id, seq, body, verdict, status, sum) SELECT * FROM \
    unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[])";
const SNAPSHOTS: &str = "INSERT INTO flyball_snapshots (session, seq, state, sum) SELECT * FROM \
    unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[]) ON CONFLICT (session) DO UPDATE \
    SET seq = excluded.seq, state = excluded.state, sum = excluded.sum";
const SET_ASIDE: &str = "INSERT INTO flyball_set_aside (session_id, pending_confirmation, pending_plan, \
    confirmation_question, requester, digest, status, created_at, expires_at, updated_at, why) \
    SELECT p.session_id, p.pending_confirmation, p.pending_plan, p.confirmation_question, p.requester, p.digest, \
    p.status, p.created_at, p.expires_at, p.updated_at, n.why \
    FROM session_state p JOIN unnest($1::text[], $2::text[]) AS n(session, why) ON p.session_id = n.session";
const NO_ROWS: &str = "DELETE FROM session_state WHERE session_id = ANY($1::text[])";
const ROWS: &str = "INSERT INTO session_state (session_id, pending_confirmation, pending_plan, \
    confirmation_question, requester, digest, status, created_at, expires_at, updated_at) \
    SELECT n.session, 1, n.plan, n.question, n.requester, n.digest, n.status, n.created::timestamp, \
    n.expires::timestamp, n.updated::timestamp FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], \
    $5::text[], $6::text[], $7::text[], $8::text[], $9::text[]) \
    AS n(session, plan, question, requester, digest, status, created, expires, updated)";
const NO_LABELS: &str = "DELETE FROM flyball_labels WHERE session = ANY($1::text[])";
const LABELS: &str = "INSERT INTO flyball_labels (session, label) SELECT * FROM unnest($1::text[], $2::text[]) \
    ON CONFLICT (session) DO UPDATE SET label = excluded.label";
const ERRANDS: &str = concat!(
    "INSERT INTO flyball_outbox (key, session, effect, sink, payload, state, attempts, due, error, at) \
     SELECT n.key, n.session, n.effect, n.sink, n.payload, n.state, n.attempts, ",
    clock!(),
    ", n.error, n.at FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], \
     $7::integer[], $8::text[], $9::bigint[]) AS n(key, session, effect, sink, payload, state, attempts, error, at) \
     ON CONFLICT (key) DO NOTHING"
);

/// One column: a value for each item.
fn column<'a, I, T>(items: &[I], value: impl Fn(&I) -> T) -> Box<dyn ToSql + Sync + 'a>
where
    T: ToSql + Sync + 'a,
{
    Box::new(items.iter().map(value).collect::<Vec<T>>())
}

/// The statements that store these changes; no session comes twice among them.
pub(super) fn of<'a>(changes: &[&'a Change]) -> Vec<Write<'a>> {
    let (new, old): (Vec<&Change>, Vec<&Change>) = changes.iter().copied().partition(|change| change.new);
    let mut writes = Vec::new();
    let mut add = |sql, values: Vec<Box<dyn ToSql + Sync + 'a>>, wanted: bool| {
        if wanted {
            writes.push(Write { sql, values });
        }
    };
    add(MOVE_HEADS, heads(&old), !old.is_empty());
    add(NEW_HEADS, heads(&new), !new.is_empty());

    let events: Vec<(&'a str, &'a Record)> = changes
        .iter()
        .flat_map(|change| change.records.iter().map(|record| (change.head.session.as_str(), record)))
        .collect();
    add(EVENTS, event_columns(&events), !events.is_empty());
    let ids: Vec<(&'a str, &'a str, &'a Record)> = events
        .iter()
        .filter_map(|(session, record)| record.id.as_deref().map(|id| (*session, id, *record)))
        .collect();
    add(IDS, id_columns(&ids), !ids.is_empty());

    let snapshots: Vec<(&'a Change, &'a [u8])> = changes
        .iter()
        .filter_map(|change| change.snapshot.as_deref().map(|state| (*change, state)))
        .collect();
    add(SNAPSHOTS, snapshot_columns(&snapshots), !snapshots.is_empty());
    people(changes, &mut add);
    writes
}

/// What a person sees: the confirmation rows, the labels, and the errands.
fn people<'a>(
    changes: &[&'a Change],
    add: &mut impl FnMut(&'static str, Vec<Box<dyn ToSql + Sync + 'a>>, bool),
) {
    let mut aside: Vec<(&'a str, &'a str)> = Vec::new();
    let mut gone: Vec<&'a str> = Vec::new();
    let mut put: Vec<&'a PendingRow> = Vec::new();
    let mut unlabelled: Vec<&'a str> = Vec::new();
    let mut labelled: Vec<(&'a str, &'a str)> = Vec::new();
    let mut errands: Vec<(&'a Change, &'a Errand)> = Vec::new();
    for change in changes {
        let session = change.head.session.as_str();
        if change.row != RowChange::Keep {
            gone.push(session);
        }
        match &change.row {
            RowChange::SetAside { why } => aside.push((session, why)),
            RowChange::Put(row) => put.push(row),
            RowChange::Keep | RowChange::Clear => {}
        }
        match &change.label {
            LabelChange::Set(label) => labelled.push((session, label)),
            LabelChange::Clear => unlabelled.push(session),
            LabelChange::Keep => {}
        }
        errands.extend(change.errands.iter().map(|errand| (*change, errand)));
    }
    let pair = |pairs: &[(&'a str, &'a str)]| {
        vec![column(pairs, |(one, _)| stored(one)), column(pairs, |(_, two)| stored(two))]
    };
    add(SET_ASIDE, pair(&aside), !aside.is_empty());
    add(NO_ROWS, vec![column(&gone, |session| stored(session))], !gone.is_empty());
    add(ROWS, pending_columns(&put), !put.is_empty());
    add(NO_LABELS, vec![column(&unlabelled, |session| stored(session))], !unlabelled.is_empty());
    add(LABELS, pair(&labelled), !labelled.is_empty());
    add(ERRANDS, errand_columns(&errands), !errands.is_empty());
}

fn heads<'a>(changes: &[&'a Change]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    let all = changes;
    vec![
        column(all, |c| stored(&c.head.session)),
        column(all, |c| bits(c.head.rev)),
        column(all, |c| bits(c.epoch)),
        column(all, |c| bits(c.head.seq)),
        column(all, |c| &c.head.chain[..]),
        column(all, |c| stored(&c.head.policy)),
        column(all, |c| bits(c.head.snapshot)),
        column(all, |c| c.head.pending.map(bits)),
        column(all, |c| bits(c.head.started)),
        column(all, |c| bits(c.head.updated)),
        column(all, |c| c.head.glance.status.as_str()),
        column(all, |c| bits(c.head.glance.warnings)),
        column(all, |c| bits(c.head.glance.blocks)),
        column(all, |c| bits(c.head.glance.halts)),
        column(all, |c| c.head.glance.stopped_by.as_deref().map(stored)),
        column(all, |c| c.head.glance.label.as_deref().map(stored)),
        column(all, |c| c.head.glance.parent.as_deref().map(stored)),
        column(all, |c| bits(c.head.sum())),
    ]
}

fn event_columns<'a>(events: &[(&'a str, &'a Record)]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    vec![
        column(events, |(session, _)| stored(session)),
        column(events, |(_, e)| bits(e.seq)),
        column(events, |(_, e)| e.at.map(bits)),
        column(events, |(_, e)| bits(e.nonce)),
        column(events, |(_, e)| bits(e.epoch)),
        column(events, |(_, e)| e.id.as_deref().map(stored)),
        column(events, |(_, e)| bits(e.body)),
        column(events, |(_, e)| stored(&e.text)),
        column(events, |(_, e)| e.whole),
        column(events, |(_, e)| stored(&e.decision)),
        column(events, |(_, e)| e.verdict.as_str()),
        column(events, |(_, e)| e.status.as_str()),
        column(events, |(_, e)| &e.chain[..]),
        column(events, |(session, e)| bits(e.sum(session))),
    ]
}

fn id_columns<'a>(ids: &[(&'a str, &'a str, &'a Record)]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    vec![
        column(ids, |(session, ..)| stored(session)),
        column(ids, |(_, id, _)| stored(id)),
        column(ids, |(.., e)| bits(e.seq)),
        column(ids, |(.., e)| bits(e.body)),
        column(ids, |(.., e)| e.verdict.as_str()),
        column(ids, |(.., e)| e.status.as_str()),
        column(ids, |(session, id, e)| bits(Record::id_sum(session, id, e.seq, e.body, e.verdict, e.status))),
    ]
}

fn snapshot_columns<'a>(snapshots: &[(&'a Change, &'a [u8])]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    vec![
        column(snapshots, |(c, _)| stored(&c.head.session)),
        column(snapshots, |(c, _)| bits(c.head.snapshot)),
        column(snapshots, |(_, state)| *state),
        column(snapshots, |(c, state)| bits(state_sum(&c.head.session, c.head.snapshot, state))),
    ]
}

fn pending_columns<'a>(rows: &[&'a PendingRow]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    vec![
        column(rows, |row| stored(&row.session_id)),
        column(rows, |row| stored(&row.pending_plan)),
        column(rows, |row| stored(&row.confirmation_question)),
        column(rows, |row| row.requester.as_deref().map(stored)),
        column(rows, |row| stored(&row.digest)),
        column(rows, |row| stored(&row.status)),
        column(rows, |row| row.created_at.as_str()),
        column(rows, |row| row.expires_at.as_deref()),
        column(rows, |row| row.updated_at.as_str()),
    ]
}

fn errand_columns<'a>(errands: &[(&'a Change, &'a Errand)]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    vec![
        column(errands, |(_, e)| stored(&e.key)),
        column(errands, |(_, e)| stored(&e.session)),
        column(errands, |(_, e)| stored(&e.effect)),
        column(errands, |(_, e)| stored(&e.sink)),
        column(errands, |(_, e)| stored(&e.payload)),
        column(errands, |(_, e)| e.state.as_str()),
        column(errands, |(_, e)| e.attempts.cast_signed()),
        column(errands, |(_, e)| e.error.as_deref().map(stored)),
        column(errands, |(c, _)| bits(c.head.updated)),
    ]
}

/// About how many bytes a change sends.
pub(super) fn size(change: &Change) -> usize {
    let records: usize = change.records.iter().map(|e| e.text.len() + e.decision.len() + 1024).sum();
    let errands: usize = change.errands.iter().map(|e| e.payload.len() + 1024).sum();
    let row = if let RowChange::Put(row) = &change.row {
        row.pending_plan.len() + row.confirmation_question.len()
    } else {
        0
    };
    records + errands + row + change.snapshot.as_ref().map_or(0, Vec::len) + 4096
}
