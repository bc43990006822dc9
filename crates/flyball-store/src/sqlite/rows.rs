//! Row decoding. Every row is verified against its checksum when it is read.

use super::SqliteError;
use crate::event_store::{ConfirmationRow, OutboxMessage, OutboxState};
use crate::record::{ChainHash, EventRecord, SessionRow, SessionSummary};
use flyball::{SessionPhase, Verdict};
use rusqlite::Row;

/// The columns that [`head`] reads.
pub(super) const SESSION_COLUMNS: &str = "no, session, rev, epoch, seq, chain, policy, snapshot, pending, started, updated, \
     status, warnings, blocks, halts, stopped_by, label, parent, sum";
/// The columns that [`record`] reads.
pub(super) const EVENT_COLUMNS: &str = "seq, at, nonce, epoch, id, body, text, whole, decision, verdict, status, chain, sum, \
     prev, no";
/// The columns that [`outbox_message`] reads.
pub(super) const OUTBOX_COLUMNS: &str = "key, session, effect, sink, payload, state, attempts, due, error";
/// The columns that [`confirmation`] reads.
pub(super) const CONFIRMATION_COLUMNS: &str = "session_id, pending_plan, confirmation_question, requester, digest, status, \
     created_at, expires_at, updated_at";

/// SQLite integers are signed; ours are unsigned with the same bits.
pub(super) const fn to_i64(number: u64) -> i64 {
    number.cast_signed()
}

/// Reverses [`to_i64`].
pub(super) const fn to_u64(number: i64) -> u64 {
    number.cast_unsigned()
}

fn corrupt<T>(what: impl Into<String>) -> Result<T, SqliteError> {
    Err(SqliteError::Corrupt(what.into()))
}

fn u64_column(row: &Row<'_>, at: usize) -> Result<u64, SqliteError> {
    Ok(to_u64(row.get(at)?))
}

fn chain_column(row: &Row<'_>, at: usize) -> Result<ChainHash, SqliteError> {
    let bytes: Vec<u8> = row.get(at)?;
    bytes.try_into().or_else(|_| corrupt("a chain hash has the wrong length"))
}

/// Parses a stored verdict.
pub(super) fn parse_verdict(word: &str) -> Result<Verdict, SqliteError> {
    let all = [Verdict::Allow, Verdict::Warn, Verdict::Block, Verdict::Halt];
    all.into_iter()
        .find(|verdict| verdict.as_str() == word)
        .map_or_else(|| corrupt("unknown stored verdict"), Ok)
}

/// Parses a stored status.
pub(super) fn parse_status(word: &str) -> Result<SessionPhase, SqliteError> {
    let all = [
        SessionPhase::Running,
        SessionPhase::AwaitingConfirmation,
        SessionPhase::Blocked,
        SessionPhase::Halted,
        SessionPhase::Ended,
    ];
    all.into_iter()
        .find(|status| status.as_str() == word)
        .map_or_else(|| corrupt("unknown stored status"), Ok)
}

/// A head and the number that its rows are found by.
pub(super) fn head(row: &Row<'_>) -> Result<(i64, SessionRow), SqliteError> {
    let no: i64 = row.get(0)?;
    let summary = SessionSummary {
        status: parse_status(&row.get::<_, String>(11)?)?,
        warnings: u64_column(row, 12)?,
        blocks: u64_column(row, 13)?,
        halts: u64_column(row, 14)?,
        stopped_by: row.get(15)?,
        label: row.get(16)?,
        parent: row.get(17)?,
    };
    let head = SessionRow {
        session: row.get(1)?,
        rev: u64_column(row, 2)?,
        epoch: u64_column(row, 3)?,
        seq: u64_column(row, 4)?,
        chain: chain_column(row, 5)?,
        policy: row.get(6)?,
        snapshot_seq: u64_column(row, 7)?,
        pending: row.get::<_, Option<i64>>(8)?.map(to_u64),
        started: u64_column(row, 9)?,
        updated: u64_column(row, 10)?,
        summary,
    };
    if head.sum() != u64_column(row, 18)? {
        return corrupt(format!("the row of session '{}' does not match its checksum", head.session));
    }
    Ok((no, head))
}

/// Decodes an event with its decision.
pub(super) fn record(row: &Row<'_>, session: &str) -> Result<EventRecord, SqliteError> {
    let record = EventRecord {
        seq: u64_column(row, 0)?,
        at: row.get::<_, Option<i64>>(1)?.map(to_u64),
        nonce: u64_column(row, 2)?,
        epoch: u64_column(row, 3)?,
        id: row.get(4)?,
        body_hash: u64_column(row, 5)?,
        text: row.get(6)?,
        is_complete: row.get(7)?,
        decision_json: row.get(8)?,
        verdict: parse_verdict(&row.get::<_, String>(9)?)?,
        status: parse_status(&row.get::<_, String>(10)?)?,
        chain: chain_column(row, 11)?,
    };
    if record.sum(session) != u64_column(row, 12)? {
        return corrupt(format!("event {} of session '{session}' does not match its checksum", record.seq));
    }
    Ok(record)
}

/// Decodes an outbox message.
pub(super) fn outbox_message(row: &Row<'_>) -> Result<OutboxMessage, SqliteError> {
    let word: String = row.get(5)?;
    let Some(state) = OutboxState::parse(&word) else {
        return corrupt("an outbox message has an unknown state");
    };
    Ok(OutboxMessage {
        key: row.get(0)?,
        session: row.get(1)?,
        effect: row.get(2)?,
        sink: row.get(3)?,
        payload: row.get(4)?,
        state,
        attempts: row.get(6)?,
        due: u64_column(row, 7)?,
        error: row.get(8)?,
    })
}

/// Decodes a confirmation row. NULL columns are read as empty; the checksum will not match.
pub(super) fn confirmation(row: &Row<'_>) -> Result<ConfirmationRow, SqliteError> {
    let text = |at: usize| -> rusqlite::Result<String> {
        Ok(row
            .get_ref(at)?
            .as_bytes_or_null()?
            .map_or_else(String::new, |bytes| String::from_utf8_lossy(bytes).into_owned()))
    };
    let maybe = |at: usize| -> rusqlite::Result<Option<String>> {
        Ok(row.get_ref(at)?.as_bytes_or_null()?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    };
    Ok(ConfirmationRow {
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
