//! Verification: reads everything in one pass and one snapshot, and reports corruption.

use super::pg_error::PostgresError;
use super::pool::PostgresPool;
use super::rows::{self, RowReader, record_columns, shown};
use crate::error::StoreErrorKind;
use crate::event_store::StoreResult;
use crate::record::{ChainHash, EventRecord, SessionRow, state_checksum};
use deadpool_postgres::ClientWrapper;
use futures_util::TryStreamExt;
use std::pin::pin;
use tokio_postgres::{Row, RowStream};

const HEADS: &str = concat!(
    "SELECT ",
    rows::head_columns!(),
    ", n.seq, n.state, n.sum FROM flyball_sessions s LEFT JOIN flyball_snapshots n ON n.session = s.session \
     ORDER BY s.session"
);
const EVENTS: &str = concat!(
    "SELECT e.session, s.seq, s.snapshot, s.chain, ",
    record_columns!(),
    " FROM flyball_events e LEFT JOIN flyball_sessions s ON s.session = e.session ORDER BY e.session, e.seq"
);
/// Positions of the event's sequence number and hash in the columns of [`EVENTS`].
const SEQ_COLUMN: usize = 4;
const CHAIN_COLUMN: usize = 15;
const MISSING_LAST_EVENT: &str = "SELECT s.session, s.seq, s.snapshot FROM flyball_sessions s WHERE s.snapshot < s.seq \
    AND NOT EXISTS (SELECT 1 FROM flyball_events e WHERE e.session = s.session AND e.seq = s.seq) ORDER BY s.session";
const IDS: &str = "SELECT i.session, i.id, i.seq, i.body, i.verdict, i.status, i.sum, s.seq \
    FROM flyball_ids i LEFT JOIN flyball_sessions s ON s.session = i.session ORDER BY i.session, i.id";
const UNINDEXED_IDS: &str = "SELECT e.session, e.id, e.seq FROM flyball_events e WHERE e.id IS NOT NULL AND NOT EXISTS \
    (SELECT 1 FROM flyball_ids i WHERE i.session = e.session AND i.id = e.id AND i.seq = e.seq) \
    ORDER BY e.session, e.seq";
const CONFIRMATIONS: &str = concat!(
    "SELECT s.pending, ",
    rows::pending_columns!(),
    " FROM flyball_sessions s JOIN session_state p ON p.session_id = s.session \
     WHERE s.pending IS NOT NULL AND p.pending_confirmation <> 0 ORDER BY s.session"
);

/// How many events are read between two calls of `progress`.
const PROGRESS_INTERVAL: u64 = 1000;

/// Findings so far.
struct VerifyReport<'a> {
    lines: Vec<String>,
    events: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl VerifyReport<'_> {
    fn add(&mut self, session: &str, what: &str) {
        self.lines.push(format!("session '{}': {what}", shown(session)));
    }

    /// The decoded row; corruption is recorded as a finding.
    fn note_damage<T>(
        &mut self,
        read: std::result::Result<T, PostgresError>,
    ) -> std::result::Result<Option<T>, PostgresError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(PostgresError::Store(error)) if error.kind == StoreErrorKind::Corrupt => {
                self.lines.push(error.message);
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }
}

/// Reads everything and returns the findings.
pub(super) fn verify(pool: &PostgresPool, progress: &mut dyn FnMut(u64)) -> StoreResult<Vec<String>> {
    pool.run_dedicated(async |client| {
        let mut found = VerifyReport { lines: Vec::new(), events: 0, progress };
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        check_sessions(client, &mut found).await?;
        check_events(client, &mut found).await?;
        check_last_events(client, &mut found).await?;
        check_ids(client, &mut found).await?;
        check_confirmations(client, &mut found).await?;
        client.batch_execute("COMMIT").await?;
        (found.progress)(found.events);
        Ok(found.lines)
    })
    .map_err(PostgresError::into_store_error)
}

/// Streams rows, so that a large store does not have to fit into memory.
async fn stream_rows(client: &ClientWrapper, sql: &str) -> std::result::Result<RowStream, PostgresError> {
    Ok(client.query_raw(sql, std::iter::empty::<i64>()).await?)
}

async fn check_sessions(
    client: &ClientWrapper,
    found: &mut VerifyReport<'_>,
) -> std::result::Result<(), PostgresError> {
    let mut rows = pin!(stream_rows(client, HEADS).await?);
    while let Some(row) = rows.try_next().await? {
        let mut fields = RowReader::new(&row);
        let Some(head) = found.note_damage(rows::head(&mut fields))? else { continue };
        check_snapshot(&head, &mut fields, found)?;
    }
    Ok(())
}

fn check_snapshot(
    head: &SessionRow,
    fields: &mut RowReader<'_>,
    found: &mut VerifyReport<'_>,
) -> std::result::Result<(), PostgresError> {
    let seq = fields.optional_number()?;
    let (state, sum): (Option<&[u8]>, _) = (fields.take()?, fields.optional_number()?);
    match (seq, state, sum) {
        (None, ..) if head.snapshot_seq == 0 => {}
        (None, ..) => found.add(&head.session, "its snapshot is missing"),
        (Some(seq), ..) if seq != head.snapshot_seq => {
            found.add(&head.session, "its snapshot is not the one that its session row names");
        }
        (Some(seq), Some(state), Some(sum)) if state_checksum(&head.session, seq, state) == sum => {}
        _ => found.add(&head.session, "its snapshot does not match its checksum"),
    }
    Ok(())
}

/// The previously read event.
struct PreviousEvent {
    session: String,
    seq: u64,
    chain: ChainHash,
}

async fn check_events(
    client: &ClientWrapper,
    found: &mut VerifyReport<'_>,
) -> std::result::Result<(), PostgresError> {
    let mut rows = pin!(stream_rows(client, EVENTS).await?);
    let mut last: Option<PreviousEvent> = None;
    while let Some(row) = rows.try_next().await? {
        found.events += 1;
        if found.events.is_multiple_of(PROGRESS_INTERVAL) {
            (found.progress)(found.events);
        }
        let mut fields = RowReader::new(&row);
        let session = fields.text()?;
        let (seq, snapshot) = (fields.optional_number()?, fields.optional_number()?);
        let chain: Option<&[u8]> = fields.take()?;
        let before = last.take_if(|last| last.session == session);
        let Some(record) = found.note_damage(rows::record(&session, &mut fields))? else {
            // The events after a corrupt one are still checked against each other.
            last = damaged_event(&row, session);
            continue;
        };
        match (seq, snapshot) {
            (Some(seq), Some(snapshot)) => {
                if let Some(what) = check_link(&record, before.as_ref(), snapshot) {
                    found.add(&session, &what);
                }
                if record.seq > seq || (record.seq == seq && chain != Some(&record.chain[..])) {
                    found.add(
                        &session,
                        &format!("event {} is not the one that its session row names", record.seq),
                    );
                }
            }
            _ => found.add(&session, &format!("event {} belongs to no session", record.seq)),
        }
        last = Some(PreviousEvent { session, seq: record.seq, chain: record.chain });
    }
    Ok(())
}

/// Sequence number and hash of an event with a wrong checksum: enough to check the next one.
fn damaged_event(row: &Row, session: String) -> Option<PreviousEvent> {
    let seq: i64 = row.try_get(SEQ_COLUMN).ok()?;
    let chain: &[u8] = row.try_get(CHAIN_COLUMN).ok()?;
    Some(PreviousEvent { session, seq: seq.cast_unsigned(), chain: ChainHash::try_from(chain).ok()? })
}

/// Checks the link between an event and the one before it.
fn check_link(record: &EventRecord, before: Option<&PreviousEvent>, snapshot: u64) -> Option<String> {
    let seq = record.seq;
    match before {
        Some(before) if before.seq.wrapping_add(1) != seq => {
            Some(format!("events are missing between {} and {seq}", before.seq))
        }
        Some(before) if record.chain_hash_after(&before.chain) != record.chain => {
            Some(format!("event {seq} does not follow from the one before it"))
        }
        None if seq == 1 && record.chain_hash_after(&[0; 16]) != record.chain => {
            Some("event 1 does not start the chain".to_owned())
        }
        // Events that a snapshot covers may have been pruned from the front.
        None if seq > snapshot.saturating_add(1) => Some(format!("the events before {seq} are missing")),
        _ => None,
    }
}

/// Reports sessions whose last event is missing.
async fn check_last_events(
    client: &ClientWrapper,
    found: &mut VerifyReport<'_>,
) -> std::result::Result<(), PostgresError> {
    let mut rows = pin!(stream_rows(client, MISSING_LAST_EVENT).await?);
    while let Some(row) = rows.try_next().await? {
        let mut fields = RowReader::new(&row);
        let (session, seq) = (fields.text()?, fields.number()?);
        found.add(&session, &format!("its last event {seq} is missing"));
    }
    Ok(())
}

async fn check_ids(
    client: &ClientWrapper,
    found: &mut VerifyReport<'_>,
) -> std::result::Result<(), PostgresError> {
    let mut rows = pin!(stream_rows(client, IDS).await?);
    while let Some(row) = rows.try_next().await? {
        let mut fields = RowReader::new(&row);
        let (session, id) = (fields.text()?, fields.text()?);
        let (seq, body) = (fields.number()?, fields.number()?);
        let Some(verdict) = found.note_damage(fields.verdict())? else { continue };
        let Some(status) = found.note_damage(fields.status())? else { continue };
        let sum = fields.number()?;
        let head = fields.optional_number()?;
        if sum != EventRecord::id_checksum(&session, &id, seq, body, verdict, status) {
            found.add(&session, &format!("the entry of id '{}' does not match its checksum", shown(&id)));
        } else if head.is_none_or(|head| seq > head) {
            found.add(&session, &format!("the entry of id '{}' refers to no event", shown(&id)));
        }
    }
    let mut rows = pin!(stream_rows(client, UNINDEXED_IDS).await?);
    while let Some(row) = rows.try_next().await? {
        let mut fields = RowReader::new(&row);
        let (session, id, seq) = (fields.text()?, fields.text()?, fields.number()?);
        found.add(&session, &format!("id '{}' of event {seq} has no entry", shown(&id)));
    }
    Ok(())
}

/// Reports confirmation rows that differ from what was stored. A missing row was deleted by an operator.
async fn check_confirmations(
    client: &ClientWrapper,
    found: &mut VerifyReport<'_>,
) -> std::result::Result<(), PostgresError> {
    let mut rows = pin!(stream_rows(client, CONFIRMATIONS).await?);
    while let Some(row) = rows.try_next().await? {
        let mut fields = RowReader::new(&row);
        let wanted = fields.number()?;
        let there = rows::pending(&mut fields)?;
        if there.sum() != wanted | 1 {
            found.add(&there.session_id, "its confirmation row does not match its checksum");
        }
    }
    Ok(())
}
