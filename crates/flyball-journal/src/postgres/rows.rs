//! Rows into what they stand for, each checked against its checksum on the way.
//!
//! Numbers of 64 bits are stored as `BIGINT` with the same bits. A text of PostgreSQL cannot hold the character 0,
//! which is allowed in names and ids: it is written as two characters and read back as one.

use super::trouble::Fault;
use crate::error::StoreError;
use crate::journal::{Errand, ErrandState, PendingRow};
use crate::record::{Chain, Glance, Head, Record};
use flyball::{Status, Verdict};
use std::borrow::Cow;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// The store's clock, in milliseconds since 1970.
macro_rules! clock {
    () => {
        "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

/// The columns of a head, as [`head`] reads them.
macro_rules! head_columns {
    () => {
        "s.session, s.rev, s.epoch, s.seq, s.chain, s.policy, s.snapshot, s.pending, s.started, s.updated, s.status, \
         s.warnings, s.blocks, s.halts, s.stopped_by, s.label, s.parent, s.sum"
    };
}

/// The columns of an event, as [`record`] reads them.
macro_rules! record_columns {
    () => {
        "e.seq, e.at, e.nonce, e.epoch, e.id, e.body, e.event, e.whole, e.decision, e.verdict, e.status, e.chain, e.sum"
    };
}

/// The columns of a confirmation row, as [`pending`] reads them. A row that says that nothing waits is no row.
macro_rules! pending_columns {
    () => {
        "p.session_id, coalesce(p.pending_plan, ''), coalesce(p.confirmation_question, ''), p.requester, \
         coalesce(p.digest, ''), coalesce(p.status, ''), \
         coalesce(to_char(p.created_at, 'YYYY-MM-DD HH24:MI:SS'), ''), \
         to_char(p.expires_at, 'YYYY-MM-DD HH24:MI:SS'), \
         coalesce(to_char(p.updated_at, 'YYYY-MM-DD HH24:MI:SS'), '')"
    };
}

/// The columns of an errand, as [`errand`] reads them.
macro_rules! errand_columns {
    () => {
        "o.key, o.session, o.effect, o.sink, o.payload, o.state, o.attempts, o.due, o.error"
    };
}

pub(super) use {clock, errand_columns, head_columns, pending_columns, record_columns};

/// What reading a row comes to.
type Read<T> = std::result::Result<T, Fault>;

/// A number with the same bits.
pub(super) const fn bits(number: u64) -> i64 {
    number.cast_signed()
}

/// For comparing: the largest number that the store can hold, instead of a negative one.
pub(super) fn at_most(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A text as it is stored.
pub(super) fn stored(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte < 2) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('\u{1}', "\u{1}1").replace('\0', "\u{1}0"))
}

/// A text as it was before it was stored.
pub(super) fn unstored(text: String) -> String {
    if text.contains('\u{1}') { text.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}") } else { text }
}

/// Reads the columns of a row one after the other.
pub(super) struct Fields<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(row: &'a Row) -> Self {
        Fields { row, next: 0 }
    }

    /// The next column.
    pub(super) fn take<T: FromSql<'a>>(&mut self) -> Read<T> {
        let value = self.row.try_get(self.next);
        self.next += 1;
        value.map_err(|error| StoreError::corrupt(format!("a column cannot be read: {error}")).into())
    }

    pub(super) fn text(&mut self) -> Read<String> {
        self.take().map(unstored)
    }

    pub(super) fn maybe_text(&mut self) -> Read<Option<String>> {
        Ok(self.take::<Option<String>>()?.map(unstored))
    }

    pub(super) fn number(&mut self) -> Read<u64> {
        self.take::<i64>().map(i64::cast_unsigned)
    }

    pub(super) fn maybe_number(&mut self) -> Read<Option<u64>> {
        Ok(self.take::<Option<i64>>()?.map(i64::cast_unsigned))
    }

    fn chain(&mut self) -> Read<Chain> {
        let bytes: &[u8] = self.take()?;
        Chain::try_from(bytes).map_err(|_| StoreError::corrupt("a chain hash has a wrong length").into())
    }

    pub(super) fn status(&mut self) -> Read<Status> {
        let word: &str = self.take()?;
        let all =
            [Status::Running, Status::AwaitingConfirmation, Status::Blocked, Status::Halted, Status::Ended];
        all.into_iter()
            .find(|status| status.as_str() == word)
            .ok_or_else(|| StoreError::corrupt("a status is stored that does not exist").into())
    }

    pub(super) fn verdict(&mut self) -> Read<Verdict> {
        let word: &str = self.take()?;
        [Verdict::Allow, Verdict::Warn, Verdict::Block, Verdict::Halt]
            .into_iter()
            .find(|verdict| verdict.as_str() == word)
            .ok_or_else(|| StoreError::corrupt("a verdict is stored that does not exist").into())
    }
}

/// A head, if it is sound.
pub(super) fn head(fields: &mut Fields<'_>) -> Read<Head> {
    let head = Head {
        session: fields.text()?,
        rev: fields.number()?,
        epoch: fields.number()?,
        seq: fields.number()?,
        chain: fields.chain()?,
        policy: fields.text()?,
        snapshot: fields.number()?,
        pending: fields.maybe_number()?,
        started: fields.number()?,
        updated: fields.number()?,
        glance: Glance {
            status: fields.status()?,
            warnings: fields.number()?,
            blocks: fields.number()?,
            halts: fields.number()?,
            stopped_by: fields.maybe_text()?,
            label: fields.maybe_text()?,
            parent: fields.maybe_text()?,
        },
    };
    if fields.number()? != head.sum() {
        let what = format!("session '{}': its head does not match its checksum", shown(&head.session));
        return Err(StoreError::corrupt(what).into());
    }
    Ok(head)
}

/// An event of a session, if it is sound.
pub(super) fn record(session: &str, fields: &mut Fields<'_>) -> Read<Record> {
    let record = Record {
        seq: fields.number()?,
        at: fields.maybe_number()?,
        nonce: fields.number()?,
        epoch: fields.number()?,
        id: fields.maybe_text()?,
        body: fields.number()?,
        text: fields.text()?,
        whole: fields.take()?,
        decision: fields.text()?,
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
pub(super) fn pending(fields: &mut Fields<'_>) -> Read<PendingRow> {
    Ok(PendingRow {
        session_id: fields.text()?,
        pending_plan: fields.text()?,
        confirmation_question: fields.text()?,
        requester: fields.maybe_text()?,
        digest: fields.text()?,
        status: fields.text()?,
        created_at: fields.text()?,
        expires_at: fields.maybe_text()?,
        updated_at: fields.text()?,
    })
}

/// An errand.
pub(super) fn errand(fields: &mut Fields<'_>) -> Read<Errand> {
    Ok(Errand {
        key: fields.text()?,
        session: fields.text()?,
        effect: fields.text()?,
        sink: fields.text()?,
        payload: fields.text()?,
        state: ErrandState::from_word(fields.take()?)
            .ok_or_else(|| StoreError::corrupt("an errand is in a state that does not exist"))?,
        attempts: fields.take::<i32>()?.cast_unsigned(),
        due: fields.number()?,
        error: fields.maybe_text()?,
    })
}

/// A name in a message: short, and without characters that move the cursor.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect()
}
