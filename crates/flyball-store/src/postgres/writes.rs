//! Append statements: one per table, with one array parameter per column for all changes.

use super::rows::{bits, clock, stored};
use crate::event_store::{ConfirmationRow, OutboxMessage};
use crate::record::{ConfirmationChange, EventRecord, LabelChange, SessionChange, state_checksum};
use tokio_postgres::types::ToSql;

/// A statement and its parameters.
pub(super) struct WriteStatement<'a> {
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

/// Fails the transaction if fewer session rows were written than expected, by dividing by zero.
macro_rules! or_fail {
    () => {
        " RETURNING 1) SELECT 1 / (count(*) = cardinality($1))::integer FROM done"
    };
}

const UPDATE_SESSIONS: &str = concat!(
    "WITH done AS (UPDATE flyball_sessions s SET rev = n.rev, seq = n.seq, chain = n.chain, policy = n.policy, \
     snapshot = n.snapshot, pending = n.pending, started = n.started, updated = n.updated, status = n.status, \
     warnings = n.warnings, blocks = n.blocks, halts = n.halts, stopped_by = n.stopped_by, label = n.label, \
     parent = n.parent, sum = n.sum FROM ",
    heads!(),
    " WHERE s.session = n.session AND s.rev = n.rev - 1 AND s.epoch = n.epoch",
    or_fail!()
);
const INSERT_SESSIONS: &str = concat!(
    "WITH done AS (INSERT INTO flyball_sessions (session, rev, epoch, seq, chain, policy, snapshot, pending, \
     started, updated, status, warnings, blocks, halts, stopped_by, label, parent, sum) SELECT * FROM ",
    heads!(),
    " ON CONFLICT (session) DO NOTHING",
    or_fail!()
);
const INSERT_EVENTS: &str = "INSERT INTO flyball_events (session, seq, at, nonce, epoch, id, body, event, whole, decision, \
    verdict, status, chain, sum) SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], \
    $5::bigint[], $6::text[], $7::bigint[], $8::text[], $9::boolean[], $10::text[], $11::text[], $12::text[], \
    $13::bytea[], $14::bigint[])";
const INSERT_IDS: &str = "INSERT INTO flyball_ids (session, id, seq, body, verdict, status, sum) SELECT * FROM \
    unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[])";
const UPSERT_SNAPSHOTS: &str = "INSERT INTO flyball_snapshots (session, seq, state, sum) SELECT * FROM \
    unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[]) ON CONFLICT (session) DO UPDATE \
    SET seq = excluded.seq, state = excluded.state, sum = excluded.sum";
const QUARANTINE_CONFIRMATIONS: &str = "INSERT INTO flyball_set_aside (session_id, pending_confirmation, pending_plan, \
    confirmation_question, requester, digest, status, created_at, expires_at, updated_at, why) \
    SELECT p.session_id, p.pending_confirmation, p.pending_plan, p.confirmation_question, p.requester, p.digest, \
    p.status, p.created_at, p.expires_at, p.updated_at, n.why \
    FROM session_state p JOIN unnest($1::text[], $2::text[]) AS n(session, why) ON p.session_id = n.session";
const DELETE_CONFIRMATIONS: &str = "DELETE FROM session_state WHERE session_id = ANY($1::text[])";
const INSERT_CONFIRMATIONS: &str = "INSERT INTO session_state (session_id, pending_confirmation, pending_plan, \
    confirmation_question, requester, digest, status, created_at, expires_at, updated_at) \
    SELECT n.session, 1, n.plan, n.question, n.requester, n.digest, n.status, n.created::timestamp, \
    n.expires::timestamp, n.updated::timestamp FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], \
    $5::text[], $6::text[], $7::text[], $8::text[], $9::text[]) \
    AS n(session, plan, question, requester, digest, status, created, expires, updated)";
const DELETE_LABELS: &str = "DELETE FROM flyball_labels WHERE session = ANY($1::text[])";
const UPSERT_LABELS: &str = "INSERT INTO flyball_labels (session, label) SELECT * FROM unnest($1::text[], $2::text[]) \
    ON CONFLICT (session) DO UPDATE SET label = excluded.label";
const INSERT_OUTBOX: &str = concat!(
    "INSERT INTO flyball_outbox (key, session, effect, sink, payload, state, attempts, due, error, at) \
     SELECT n.key, n.session, n.effect, n.sink, n.payload, n.state, n.attempts, ",
    clock!(),
    ", n.error, n.at FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], \
     $7::integer[], $8::text[], $9::bigint[]) AS n(key, session, effect, sink, payload, state, attempts, error, at) \
     ON CONFLICT (key) DO NOTHING"
);

/// An array parameter with one value per item.
fn column<'a, I, T>(items: &[I], value: impl Fn(&I) -> T) -> Box<dyn ToSql + Sync + 'a>
where
    T: ToSql + Sync + 'a,
{
    Box::new(items.iter().map(value).collect::<Vec<T>>())
}

/// The statements that store these changes. No session may occur twice.
pub(super) fn statements_for<'a>(changes: &[&'a SessionChange]) -> Vec<WriteStatement<'a>> {
    let (new, old): (Vec<&SessionChange>, Vec<&SessionChange>) =
        changes.iter().copied().partition(|change| change.new);
    let mut writes = Vec::new();
    let mut add = |sql, values: Vec<Box<dyn ToSql + Sync + 'a>>, wanted: bool| {
        if wanted {
            writes.push(WriteStatement { sql, values });
        }
    };
    add(UPDATE_SESSIONS, session_columns(&old), !old.is_empty());
    add(INSERT_SESSIONS, session_columns(&new), !new.is_empty());

    let events: Vec<(&'a str, &'a EventRecord)> = changes
        .iter()
        .flat_map(|change| change.records.iter().map(|record| (change.head.session.as_str(), record)))
        .collect();
    add(INSERT_EVENTS, event_columns(&events), !events.is_empty());
    let ids: Vec<(&'a str, &'a str, &'a EventRecord)> = events
        .iter()
        .filter_map(|(session, record)| record.id.as_deref().map(|id| (*session, id, *record)))
        .collect();
    add(INSERT_IDS, id_columns(&ids), !ids.is_empty());

    let snapshots: Vec<(&'a SessionChange, &'a [u8])> = changes
        .iter()
        .filter_map(|change| change.snapshot.as_deref().map(|state| (*change, state)))
        .collect();
    add(UPSERT_SNAPSHOTS, snapshot_columns(&snapshots), !snapshots.is_empty());
    add_operator_statements(changes, &mut add);
    writes
}

/// Adds the statements for confirmation rows, labels and outbox messages.
fn add_operator_statements<'a>(
    changes: &[&'a SessionChange],
    add: &mut impl FnMut(&'static str, Vec<Box<dyn ToSql + Sync + 'a>>, bool),
) {
    let mut aside: Vec<(&'a str, &'a str)> = Vec::new();
    let mut gone: Vec<&'a str> = Vec::new();
    let mut put: Vec<&'a ConfirmationRow> = Vec::new();
    let mut unlabelled: Vec<&'a str> = Vec::new();
    let mut labelled: Vec<(&'a str, &'a str)> = Vec::new();
    let mut messages: Vec<(&'a SessionChange, &'a OutboxMessage)> = Vec::new();
    for change in changes {
        let session = change.head.session.as_str();
        if change.row != ConfirmationChange::Keep {
            gone.push(session);
        }
        match &change.row {
            ConfirmationChange::Quarantine { reason: why } => aside.push((session, why)),
            ConfirmationChange::Put(row) => put.push(row),
            ConfirmationChange::Keep | ConfirmationChange::Clear => {}
        }
        match &change.label {
            LabelChange::Set(label) => labelled.push((session, label)),
            LabelChange::Clear => unlabelled.push(session),
            LabelChange::Keep => {}
        }
        messages.extend(change.outbox_messages.iter().map(|message| (*change, message)));
    }
    let pair = |pairs: &[(&'a str, &'a str)]| {
        vec![column(pairs, |(one, _)| stored(one)), column(pairs, |(_, two)| stored(two))]
    };
    add(QUARANTINE_CONFIRMATIONS, pair(&aside), !aside.is_empty());
    add(DELETE_CONFIRMATIONS, vec![column(&gone, |session| stored(session))], !gone.is_empty());
    add(INSERT_CONFIRMATIONS, confirmation_columns(&put), !put.is_empty());
    add(DELETE_LABELS, vec![column(&unlabelled, |session| stored(session))], !unlabelled.is_empty());
    add(UPSERT_LABELS, pair(&labelled), !labelled.is_empty());
    add(INSERT_OUTBOX, outbox_columns(&messages), !messages.is_empty());
}

fn session_columns<'a>(changes: &[&'a SessionChange]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    let all = changes;
    vec![
        column(all, |c| stored(&c.head.session)),
        column(all, |c| bits(c.head.rev)),
        column(all, |c| bits(c.epoch)),
        column(all, |c| bits(c.head.seq)),
        column(all, |c| &c.head.chain[..]),
        column(all, |c| stored(&c.head.policy)),
        column(all, |c| bits(c.head.snapshot_seq)),
        column(all, |c| c.head.pending.map(bits)),
        column(all, |c| bits(c.head.started)),
        column(all, |c| bits(c.head.updated)),
        column(all, |c| c.head.summary.status.as_str()),
        column(all, |c| bits(c.head.summary.warnings)),
        column(all, |c| bits(c.head.summary.blocks)),
        column(all, |c| bits(c.head.summary.halts)),
        column(all, |c| c.head.summary.stopped_by.as_deref().map(stored)),
        column(all, |c| c.head.summary.label.as_deref().map(stored)),
        column(all, |c| c.head.summary.parent.as_deref().map(stored)),
        column(all, |c| bits(c.head.sum())),
    ]
}

fn event_columns<'a>(events: &[(&'a str, &'a EventRecord)]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    vec![
        column(events, |(session, _)| stored(session)),
        column(events, |(_, e)| bits(e.seq)),
        column(events, |(_, e)| e.at.map(bits)),
        column(events, |(_, e)| bits(e.nonce)),
        column(events, |(_, e)| bits(e.epoch)),
        column(events, |(_, e)| e.id.as_deref().map(stored)),
        column(events, |(_, e)| bits(e.body_hash)),
        column(events, |(_, e)| stored(&e.text)),
        column(events, |(_, e)| e.is_complete),
        column(events, |(_, e)| stored(&e.decision_json)),
        column(events, |(_, e)| e.verdict.as_str()),
        column(events, |(_, e)| e.status.as_str()),
        column(events, |(_, e)| &e.chain[..]),
        column(events, |(session, e)| bits(e.sum(session))),
    ]
}

fn id_columns<'a>(ids: &[(&'a str, &'a str, &'a EventRecord)]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    vec![
        column(ids, |(session, ..)| stored(session)),
        column(ids, |(_, id, _)| stored(id)),
        column(ids, |(.., e)| bits(e.seq)),
        column(ids, |(.., e)| bits(e.body_hash)),
        column(ids, |(.., e)| e.verdict.as_str()),
        column(ids, |(.., e)| e.status.as_str()),
        column(ids, |(session, id, e)| {
            bits(EventRecord::id_checksum(session, id, e.seq, e.body_hash, e.verdict, e.status))
        }),
    ]
}

fn snapshot_columns<'a>(snapshots: &[(&'a SessionChange, &'a [u8])]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    vec![
        column(snapshots, |(c, _)| stored(&c.head.session)),
        column(snapshots, |(c, _)| bits(c.head.snapshot_seq)),
        column(snapshots, |(_, state)| *state),
        column(snapshots, |(c, state)| bits(state_checksum(&c.head.session, c.head.snapshot_seq, state))),
    ]
}

fn confirmation_columns<'a>(rows: &[&'a ConfirmationRow]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
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

fn outbox_columns<'a>(
    messages: &[(&'a SessionChange, &'a OutboxMessage)],
) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    vec![
        column(messages, |(_, e)| stored(&e.key)),
        column(messages, |(_, e)| stored(&e.session)),
        column(messages, |(_, e)| stored(&e.effect)),
        column(messages, |(_, e)| stored(&e.sink)),
        column(messages, |(_, e)| stored(&e.payload)),
        column(messages, |(_, e)| e.state.as_str()),
        column(messages, |(_, e)| e.attempts.cast_signed()),
        column(messages, |(_, e)| e.error.as_deref().map(stored)),
        column(messages, |(c, _)| bits(c.head.updated)),
    ]
}

/// Approximate number of bytes that a change sends.
pub(super) fn estimated_bytes(change: &SessionChange) -> usize {
    let records: usize = change.records.iter().map(|e| e.text.len() + e.decision_json.len() + 1024).sum();
    let messages: usize = change.outbox_messages.iter().map(|e| e.payload.len() + 1024).sum();
    let row = if let ConfirmationChange::Put(row) = &change.row {
        row.pending_plan.len() + row.confirmation_question.len()
    } else {
        0
    };
    records + messages + row + change.snapshot.as_ref().map_or(0, Vec::len) + 4096
}
