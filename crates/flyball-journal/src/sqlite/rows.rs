//! Rows and what they mean. Every row is checked against its sum when it is read.

use super::Fault;
use crate::journal::{Errand, ErrandState, PendingRow};
use crate::record::{Chain, Glance, Head, Record};
use flyball::{Status, Verdict};
use rusqlite::Row;

/// What a head is made of, in the order that [`head`] reads it.
pub(super) const HEAD: &str = "no, session, rev, epoch, seq, chain, policy, snapshot, pending, started, updated, \
     status, warnings, blocks, halts, stopped_by, label, parent, sum";
/// What a record is made of, in the order that [`record`] reads it.
pub(super) const RECORD: &str = "seq, at, nonce, epoch, id, body, text, whole, decision, verdict, status, chain, sum, \
     prev, no";
/// What an errand is made of, in the order that [`errand`] reads it.
pub(super) const ERRAND: &str = "key, session, effect, sink, payload, state, attempts, due, error";
/// What a confirmation row is made of, in the order that [`pending`] reads it.
pub(super) const PENDING: &str = "session_id, pending_plan, confirmation_question, requester, digest, status, \
     created_at, expires_at, updated_at";

/// SQLite's integers are signed; ours are not. The bits are the same.
pub(super) const fn stored(number: u64) -> i64 {
    number.cast_signed()
}

/// The other way round.
pub(super) const fn read(number: i64) -> u64 {
    number.cast_unsigned()
}

fn damaged<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Damaged(what.into()))
}

fn number(row: &Row<'_>, at: usize) -> Result<u64, Fault> {
    Ok(read(row.get(at)?))
}

fn chain(row: &Row<'_>, at: usize) -> Result<Chain, Fault> {
    let bytes: Vec<u8> = row.get(at)?;
    bytes.try_into().or_else(|_| damaged("a chain hash has another length"))
}

/// The verdict that a word stands for.
pub(super) fn verdict(word: &str) -> Result<Verdict, Fault> {
    let all = [Verdict::Allow, Verdict::Warn, Verdict::Block, Verdict::Halt];
    all.into_iter()
        .find(|verdict| verdict.as_str() == word)
        .map_or_else(|| damaged("an unknown verdict is stored"), Ok)
}

/// The status that a word stands for.
pub(super) fn status(word: &str) -> Result<Status, Fault> {
    let all = [Status::Running, Status::AwaitingConfirmation, Status::Blocked, Status::Halted, Status::Ended];
    all.into_iter()
        .find(|status| status.as_str() == word)
        .map_or_else(|| damaged("an unknown status is stored"), Ok)
}

/// A head and the number that its rows are found by.
pub(super) fn head(row: &Row<'_>) -> Result<(i64, Head), Fault> {
    let no: i64 = row.get(0)?;
    let glance = Glance {
        status: status(&row.get::<_, String>(11)?)?,
        warnings: number(row, 12)?,
        blocks: number(row, 13)?,
        halts: number(row, 14)?,
        stopped_by: row.get(15)?,
        label: row.get(16)?,
        parent: row.get(17)?,
    };
    let head = Head {
        session: row.get(1)?,
        rev: number(row, 2)?,
        epoch: number(row, 3)?,
        seq: number(row, 4)?,
        chain: chain(row, 5)?,
        policy: row.get(6)?,
        snapshot: number(row, 7)?,
        pending: row.get::<_, Option<i64>>(8)?.map(read),
        started: number(row, 9)?,
        updated: number(row, 10)?,
        glance,
    };
    if head.sum() != number(row, 18)? {
        return damaged(format!("the head of session '{}' does not match its checksum", head.session));
    }
    Ok((no, head))
}

/// An event with its decision.
pub(super) fn record(row: &Row<'_>, session: &str) -> Result<Record, Fault> {
    let record = Record {
        seq: number(row, 0)?,
        at: row.get::<_, Option<i64>>(1)?.map(read),
        nonce: number(row, 2)?,
        epoch: number(row, 3)?,
        id: row.get(4)?,
        body: number(row, 5)?,
        text: row.get(6)?,
        whole: row.get(7)?,
        decision: row.get(8)?,
        verdict: verdict(&row.get::<_, String>(9)?)?,
        status: status(&row.get::<_, String>(10)?)?,
        chain: chain(row, 11)?,
    };
    if record.sum(session) != number(row, 12)? {
        return damaged(format!("event {} of session '{session}' does not match its checksum", record.seq));
    }
    Ok(record)
}

/// An errand.
pub(super) fn errand(row: &Row<'_>) -> Result<Errand, Fault> {
    let word: String = row.get(5)?;
    let Some(state) = ErrandState::from_word(&word) else {
        return damaged("an errand has an unknown state");
    };
    Ok(Errand {
        key: row.get(0)?,
        session: row.get(1)?,
        effect: row.get(2)?,
        sink: row.get(3)?,
        payload: row.get(4)?,
        state,
        attempts: row.get(6)?,
        due: number(row, 7)?,
        error: row.get(8)?,
    })
}

/// The confirmation row. Columns that somebody has emptied are read as empty: the sum will not match.
pub(super) fn pending(row: &Row<'_>) -> Result<PendingRow, Fault> {
    let text = |at: usize| -> rusqlite::Result<String> {
        Ok(row
            .get_ref(at)?
            .as_bytes_or_null()?
            .map_or_else(String::new, |bytes| String::from_utf8_lossy(bytes).into_owned()))
    };
    let maybe = |at: usize| -> rusqlite::Result<Option<String>> {
        Ok(row.get_ref(at)?.as_bytes_or_null()?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    };
    Ok(PendingRow {
        session_id: text(0)?,
        pending_plan: text(1)?,
        confirmation_question: text(2)?,
        requester: maybe(3)?,
        digest: text(4)?,
        status: text(5)?,
        created_at: text(6)?,
        expires_at: maybe(7)?,
        updated_at: text(8)?,
    })
}
