//! Reads everything, in one pass and as of one moment, and says what is damaged.

use super::link::Link;
use super::rows::{self, Fields, record_columns, shown};
use super::trouble::Fault;
use crate::error::Trouble;
use crate::journal::Result;
use crate::record::{Chain, Head, Record, state_sum};
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
/// Where the event's own number and hash stand among the columns of [`EVENTS`].
const SEQ: usize = 4;
const CHAIN: usize = 15;
const SHORT: &str = "SELECT s.session, s.seq, s.snapshot FROM flyball_sessions s WHERE s.snapshot < s.seq \
    AND NOT EXISTS (SELECT 1 FROM flyball_events e WHERE e.session = s.session AND e.seq = s.seq) ORDER BY s.session";
const IDS: &str = "SELECT i.session, i.id, i.seq, i.body, i.verdict, i.status, i.sum, s.seq \
    FROM flyball_ids i LEFT JOIN flyball_sessions s ON s.session = i.session ORDER BY i.session, i.id";
const LOST_IDS: &str = "SELECT e.session, e.id, e.seq FROM flyball_events e WHERE e.id IS NOT NULL AND NOT EXISTS \
    (SELECT 1 FROM flyball_ids i WHERE i.session = e.session AND i.id = e.id AND i.seq = e.seq) \
    ORDER BY e.session, e.seq";
const ROWS: &str = concat!(
    "SELECT s.pending, ",
    rows::pending_columns!(),
    " FROM flyball_sessions s JOIN session_state p ON p.session_id = s.session \
     WHERE s.pending IS NOT NULL AND p.pending_confirmation <> 0 ORDER BY s.session"
);

/// How many events are read between two calls of `progress`.
const STEP: u64 = 1000;

/// What was found so far.
struct Findings<'a> {
    lines: Vec<String>,
    events: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl Findings<'_> {
    fn add(&mut self, session: &str, what: &str) {
        self.lines.push(format!("session '{}': {what}", shown(session)));
    }

    /// What a row came to; a damaged one is written down.
    fn check<T>(&mut self, read: std::result::Result<T, Fault>) -> std::result::Result<Option<T>, Fault> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(Fault::Store(error)) if error.trouble == Trouble::Corrupt => {
                self.lines.push(error.what);
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }
}

/// Reads everything and returns what is damaged.
pub(super) fn verify(link: &Link, progress: &mut dyn FnMut(u64)) -> Result<Vec<String>> {
    link.run_apart(async |client| {
        let mut found = Findings { lines: Vec::new(), events: 0, progress };
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        heads(client, &mut found).await?;
        events(client, &mut found).await?;
        short(client, &mut found).await?;
        ids(client, &mut found).await?;
        rows_of_people(client, &mut found).await?;
        client.batch_execute("COMMIT").await?;
        (found.progress)(found.events);
        Ok(found.lines)
    })
    .map_err(Fault::undone)
}

/// Rows as they come, so that a large store need not fit into memory.
async fn stream(client: &ClientWrapper, sql: &str) -> std::result::Result<RowStream, Fault> {
    Ok(client.query_raw(sql, std::iter::empty::<i64>()).await?)
}

async fn heads(client: &ClientWrapper, found: &mut Findings<'_>) -> std::result::Result<(), Fault> {
    let mut rows = pin!(stream(client, HEADS).await?);
    while let Some(row) = rows.try_next().await? {
        let mut fields = Fields::new(&row);
        let Some(head) = found.check(rows::head(&mut fields))? else { continue };
        snapshot(&head, &mut fields, found)?;
    }
    Ok(())
}

fn snapshot(
    head: &Head,
    fields: &mut Fields<'_>,
    found: &mut Findings<'_>,
) -> std::result::Result<(), Fault> {
    let seq = fields.maybe_number()?;
    let (state, sum): (Option<&[u8]>, _) = (fields.take()?, fields.maybe_number()?);
    match (seq, state, sum) {
        (None, ..) if head.snapshot == 0 => {}
        (None, ..) => found.add(&head.session, "its snapshot is missing"),
        (Some(seq), ..) if seq != head.snapshot => {
            found.add(&head.session, "its snapshot is not the one that its head names");
        }
        (Some(seq), Some(state), Some(sum)) if state_sum(&head.session, seq, state) == sum => {}
        _ => found.add(&head.session, "its snapshot does not match its checksum"),
    }
    Ok(())
}

/// The last event that was read.
struct Last {
    session: String,
    seq: u64,
    chain: Chain,
}

async fn events(client: &ClientWrapper, found: &mut Findings<'_>) -> std::result::Result<(), Fault> {
    let mut rows = pin!(stream(client, EVENTS).await?);
    let mut last: Option<Last> = None;
    while let Some(row) = rows.try_next().await? {
        found.events += 1;
        if found.events.is_multiple_of(STEP) {
            (found.progress)(found.events);
        }
        let mut fields = Fields::new(&row);
        let session = fields.text()?;
        let (seq, snapshot) = (fields.maybe_number()?, fields.maybe_number()?);
        let chain: Option<&[u8]> = fields.take()?;
        let before = last.take_if(|last| last.session == session);
        let Some(record) = found.check(rows::record(&session, &mut fields))? else {
            // The events after a damaged one are still held against each other.
            last = damaged(&row, session);
            continue;
        };
        match (seq, snapshot) {
            (Some(seq), Some(snapshot)) => {
                if let Some(what) = link(&record, before.as_ref(), snapshot) {
                    found.add(&session, &what);
                }
                if record.seq > seq || (record.seq == seq && chain != Some(&record.chain[..])) {
                    found.add(&session, &format!("event {} is not the one that its head names", record.seq));
                }
            }
            _ => found.add(&session, &format!("event {} belongs to no session", record.seq)),
        }
        last = Some(Last { session, seq: record.seq, chain: record.chain });
    }
    Ok(())
}

/// Where an event stands that does not match its checksum: number and hash are all that the next one needs.
fn damaged(row: &Row, session: String) -> Option<Last> {
    let seq: i64 = row.try_get(SEQ).ok()?;
    let chain: &[u8] = row.try_get(CHAIN).ok()?;
    Some(Last { session, seq: seq.cast_unsigned(), chain: Chain::try_from(chain).ok()? })
}

/// What is wrong between an event and the one before it.
fn link(record: &Record, before: Option<&Last>, snapshot: u64) -> Option<String> {
    let seq = record.seq;
    match before {
        Some(before) if before.seq.wrapping_add(1) != seq => {
            Some(format!("events are missing between {} and {seq}", before.seq))
        }
        Some(before) if record.chained(&before.chain) != record.chain => {
            Some(format!("event {seq} does not follow from the one before it"))
        }
        None if seq == 1 && record.chained(&[0; 16]) != record.chain => {
            Some("event 1 does not begin the chain".to_owned())
        }
        // What a snapshot covers may have been pruned, from the front.
        None if seq > snapshot.saturating_add(1) => Some(format!("the events before {seq} are missing")),
        _ => None,
    }
}

/// Sessions whose last event is missing.
async fn short(client: &ClientWrapper, found: &mut Findings<'_>) -> std::result::Result<(), Fault> {
    let mut rows = pin!(stream(client, SHORT).await?);
    while let Some(row) = rows.try_next().await? {
        let mut fields = Fields::new(&row);
        let (session, seq) = (fields.text()?, fields.number()?);
        found.add(&session, &format!("its last event {seq} is missing"));
    }
    Ok(())
}

async fn ids(client: &ClientWrapper, found: &mut Findings<'_>) -> std::result::Result<(), Fault> {
    let mut rows = pin!(stream(client, IDS).await?);
    while let Some(row) = rows.try_next().await? {
        let mut fields = Fields::new(&row);
        let (session, id) = (fields.text()?, fields.text()?);
        let (seq, body) = (fields.number()?, fields.number()?);
        let Some(verdict) = found.check(fields.verdict())? else { continue };
        let Some(status) = found.check(fields.status())? else { continue };
        let sum = fields.number()?;
        let head = fields.maybe_number()?;
        if sum != Record::id_sum(&session, &id, seq, body, verdict, status) {
            found.add(&session, &format!("the entry of id '{}' does not match its checksum", shown(&id)));
        } else if head.is_none_or(|head| seq > head) {
            found.add(&session, &format!("the entry of id '{}' names no event", shown(&id)));
        }
    }
    let mut rows = pin!(stream(client, LOST_IDS).await?);
    while let Some(row) = rows.try_next().await? {
        let mut fields = Fields::new(&row);
        let (session, id, seq) = (fields.text()?, fields.text()?, fields.number()?);
        found.add(&session, &format!("id '{}' of event {seq} has no entry", shown(&id)));
    }
    Ok(())
}

/// Confirmation rows that are there but are not what was stored. One that is gone was taken away by a person.
async fn rows_of_people(client: &ClientWrapper, found: &mut Findings<'_>) -> std::result::Result<(), Fault> {
    let mut rows = pin!(stream(client, ROWS).await?);
    while let Some(row) = rows.try_next().await? {
        let mut fields = Fields::new(&row);
        let wanted = fields.number()?;
        let there = rows::pending(&mut fields)?;
        if there.sum() != wanted | 1 {
            found.add(&there.session_id, "its confirmation row does not match its checksum");
        }
    }
    Ok(())
}
