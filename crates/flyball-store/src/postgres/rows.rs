//! Row decoding, with checksum verification.
//!
//! 64-bit numbers are stored as `BIGINT` with the same bits. PostgreSQL text cannot contain NUL, which is allowed in
//! names and ids: it is escaped as two characters.

use super::pg_error::PostgresError;
use crate::error::StoreError;
use crate::event_store::{ConfirmationRow, OutboxMessage, OutboxState};
use crate::record::{ChainHash, EventRecord, SessionRow, SessionSummary};
use flyball::{SessionPhase, Verdict};
use std::borrow::Cow;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// The server clock, in milliseconds since the Unix epoch.
macro_rules! clock {
    () => {
        "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

/// The columns that [`head`] reads.
macro_rules! head_columns {
    () => {
        "s.session, s.rev, s.epoch, s.seq, s.chain, s.policy, s.snapshot, s.pending, s.started, s.updated, s.status, \
         s.warnings, s.blocks, s.halts, s.stopped_by, s.label, s.parent, s.sum"
    };
}

/// The columns that [`record`] reads.
macro_rules! record_columns {
    () => {
        "e.seq, e.at, e.nonce, e.epoch, e.id, e.body, e.event, e.whole, e.decision, e.verdict, e.status, e.chain, e.sum"
    };
}

/// The columns that [`pending`] reads. A row without a pending confirmation counts as absent.
macro_rules! pending_columns {
    () => {
        "p.session_id, coalesce(p.pending_plan, ''), coalesce(p.confirmation_question, ''), p.requester, \
         coalesce(p.digest, ''), coalesce(p.status, ''), \
         coalesce(to_char(p.created_at, 'YYYY-MM-DD HH24:MI:SS'), ''), \
         to_char(p.expires_at, 'YYYY-MM-DD HH24:MI:SS'), \
         coalesce(to_char(p.updated_at, 'YYYY-MM-DD HH24:MI:SS'), '')"
    };
}

/// The columns that [`outbox_message`] reads.
macro_rules! outbox_columns {
    () => {
        "o.key, o.session, o.effect, o.sink, o.payload, o.state, o.attempts, o.due, o.error"
    };
}

pub(super) use {clock, head_columns, outbox_columns, pending_columns, record_columns};

/// Result of decoding a row.
type RowResult<T> = std::result::Result<T, PostgresError>;

/// Converts to a signed number with the same bits.
pub(super) const fn bits(number: u64) -> i64 {
    number.cast_signed()
}

/// Converts for comparisons: saturates instead of becoming negative.
pub(super) fn at_most(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Escapes a text for storage.
pub(super) fn stored(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte < 2) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('\u{1}', "\u{1}1").replace('\0', "\u{1}0"))
}

/// Reverses [`stored`].
pub(super) fn decode_text(text: String) -> String {
    if text.contains('\u{1}') { text.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}") } else { text }
}

/// Reads the columns of a row one after the other.
pub(super) struct RowReader<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> RowReader<'a> {
    pub(super) fn new(row: &'a Row) -> Self {
        RowReader { row, next: 0 }
    }

    /// The next column.
    pub(super) fn take<T: FromSql<'a>>(&mut self) -> RowResult<T> {
        let value = self.row.try_get(self.next);
        self.next += 1;
        value.map_err(|error| StoreError::corrupt(format!("invalid column: {error}")).into())
    }

    pub(super) fn text(&mut self) -> RowResult<String> {
        self.take().map(decode_text)
    }

    pub(super) fn optional_text(&mut self) -> RowResult<Option<String>> {
        Ok(self.take::<Option<String>>()?.map(decode_text))
    }

    pub(super) fn number(&mut self) -> RowResult<u64> {
        self.take::<i64>().map(i64::cast_unsigned)
    }

    pub(super) fn optional_number(&mut self) -> RowResult<Option<u64>> {
        Ok(self.take::<Option<i64>>()?.map(i64::cast_unsigned))
    }

    fn chain(&mut self) -> RowResult<ChainHash> {
        let bytes: &[u8] = self.take()?;
        ChainHash::try_from(bytes)
            .map_err(|_| StoreError::corrupt("a chain hash has the wrong length").into())
    }

    pub(super) fn status(&mut self) -> RowResult<SessionPhase> {
        let word: &str = self.take()?;
        let all = [
            SessionPhase::Running,
            SessionPhase::AwaitingConfirmation,
            SessionPhase::Blocked,
            SessionPhase::Halted,
            SessionPhase::Ended,
        ];
        all.into_iter()
            .find(|status| status.as_str() == word)
            .ok_or_else(|| StoreError::corrupt("unknown stored status").into())
    }

    pub(super) fn verdict(&mut self) -> RowResult<Verdict> {
        let word: &str = self.take()?;
        [Verdict::Allow, Verdict::Warn, Verdict::Block, Verdict::Halt]
            .into_iter()
            .find(|verdict| verdict.as_str() == word)
            .ok_or_else(|| StoreError::corrupt("unknown stored verdict").into())
    }
}

/// A head, if it is sound.
pub(super) fn head(fields: &mut RowReader<'_>) -> RowResult<SessionRow> {
    let head = SessionRow {
        session: fields.text()?,
        rev: fields.number()?,
        epoch: fields.number()?,
        seq: fields.number()?,
        chain: fields.chain()?,
        policy: fields.text()?,
        snapshot_seq: fields.number()?,
        pending: fields.optional_number()?,
        started: fields.number()?,
        updated: fields.number()?,
        summary: SessionSummary {
            status: fields.status()?,
            warnings: fields.number()?,
            blocks: fields.number()?,
            halts: fields.number()?,
            stopped_by: fields.optional_text()?,
            label: fields.optional_text()?,
            parent: fields.optional_text()?,
        },
    };
    if fields.number()? != head.sum() {
        let what = format!("session '{}': its session row does not match its checksum", shown(&head.session));
        return Err(StoreError::corrupt(what).into());
    }
    Ok(head)
}

/// An event of a session, if it is sound.
pub(super) fn record(session: &str, fields: &mut RowReader<'_>) -> RowResult<EventRecord> {
    let record = EventRecord {
        seq: fields.number()?,
        at: fields.optional_number()?,
        nonce: fields.number()?,
        epoch: fields.number()?,
        id: fields.optional_text()?,
        body_hash: fields.number()?,
        text: fields.text()?,
        is_complete: fields.take()?,
        decision_json: fields.text()?,
        verdict: fields.verdict()?,
        status: fields.status()?,
        chain: fields.chain()?,
    };
    if fields.number()? != record.sum(session) {
        let what = format!("session '{}': event {} does not match its checksum", shown(session), record.seq);
        return Err(StoreError::corrupt(what).into());
    }
    Ok(record)
}

/// A confirmation row, as it is.
pub(super) fn pending(fields: &mut RowReader<'_>) -> RowResult<ConfirmationRow> {
    Ok(ConfirmationRow {
        session_id: fields.text()?,
        pending_plan: fields.text()?,
        confirmation_question: fields.text()?,
        requester: fields.optional_text()?,
        digest: fields.text()?,
        status: fields.text()?,
        created_at: fields.text()?,
        expires_at: fields.optional_text()?,
        updated_at: fields.text()?,
    })
}

/// An outbox message.
pub(super) fn outbox_message(fields: &mut RowReader<'_>) -> RowResult<OutboxMessage> {
    Ok(OutboxMessage {
        key: fields.text()?,
        session: fields.text()?,
        effect: fields.text()?,
        sink: fields.text()?,
        payload: fields.text()?,
        state: OutboxState::parse(fields.take()?)
            .ok_or_else(|| StoreError::corrupt("an outbox message has an unknown state"))?,
        attempts: fields.take::<i32>()?.cast_unsigned(),
        due: fields.number()?,
        error: fields.optional_text()?,
    })
}

/// A name for use in a message: short, without control characters.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect()
}
