//! Loading a session: its row, snapshot and events from one consistent read, all verified.

use super::pg_error::PostgresError;
use super::pool::PostgresPool;
use super::rows::{self, RowReader, record_columns, shown, stored};
use crate::error::StoreError;
use crate::event_store::{OperatorRows, StoreResult, StoredAnswer};
use crate::record::{ChainHash, EventRecord, LoadedSession, SessionRow, state_checksum};
use deadpool_postgres::ClientWrapper;
use futures_util::future::join4;
use tokio_postgres::Row;

const HEAD: &str = concat!(
    "SELECT ",
    rows::head_columns!(),
    ", n.seq, n.state, n.sum FROM flyball_sessions s LEFT JOIN flyball_snapshots n ON n.session = s.session \
     WHERE s.session = $1"
);
const TAIL: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM flyball_events e WHERE e.session = $1 \
     AND e.seq > (SELECT s.snapshot FROM flyball_sessions s WHERE s.session = $1) ORDER BY e.seq"
);
const FIND: &str = concat!(
    "SELECT i.seq, i.body, i.verdict, i.status, i.sum, s.snapshot, e.session IS NOT NULL, ",
    record_columns!(),
    " FROM flyball_ids i LEFT JOIN flyball_events e ON e.session = i.session AND e.seq = i.seq \
     LEFT JOIN flyball_sessions s ON s.session = i.session WHERE i.session = $1 AND i.id = $2"
);
const RECORDS: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM flyball_events e WHERE e.session = $1 AND e.seq BETWEEN $2 AND $3 ORDER BY e.seq"
);
const OPERATOR_ROWS: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM flyball_labels l WHERE l.session = $1), p.session_id IS NOT NULL, ",
    rows::pending_columns!(),
    " FROM (VALUES (1)) AS one LEFT JOIN session_state p ON p.session_id = $1 AND p.pending_confirmation <> 0"
);

/// A session as it was stored last.
pub(super) fn load(pool: &PostgresPool, session: &str) -> StoreResult<Option<LoadedSession>> {
    pool.read(async |client| {
        let (head, tail) = query_head_and_tail(client, session).await?;
        let Some(row) = head else { return Ok(None) };
        let mut fields = RowReader::new(&row);
        let head = rows::head(&mut fields)?;
        let state = parse_snapshot(&head, &mut fields)?;
        let tail = records(session, &tail)?;
        check_tail(&head, &tail)?;
        Ok(Some(LoadedSession { head, state, tail }))
    })
}

/// The rows of a session, read consistently in one round trip.
async fn query_head_and_tail(
    client: &ClientWrapper,
    session: &str,
) -> std::result::Result<(Option<Row>, Vec<Row>), PostgresError> {
    let (head, tail) = (client.prepare_cached(HEAD).await?, client.prepare_cached(TAIL).await?);
    let name = stored(session);
    let (begun, head, tail, ended) = join4(
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        client.query_opt(&head, &[&name]),
        client.query(&tail, &[&name]),
        client.batch_execute("COMMIT"),
    )
    .await;
    begun?;
    let answer = (head?, tail?);
    ended?;
    Ok(answer)
}

/// The snapshot, if it is there and sound.
fn parse_snapshot(
    head: &SessionRow,
    fields: &mut RowReader<'_>,
) -> std::result::Result<Vec<u8>, PostgresError> {
    let seq = fields.optional_number()?;
    let state: Option<Vec<u8>> = fields.take()?;
    let sum = fields.optional_number()?;
    let damaged = |what: &str| {
        Err(StoreError::corrupt(format!("session '{}': its snapshot {what}", shown(&head.session))).into())
    };
    match (seq, state, sum) {
        (None, ..) if head.snapshot_seq == 0 => Ok(Vec::new()),
        (Some(seq), ..) if seq != head.snapshot_seq => damaged("is not the one that its session row names"),
        (Some(seq), Some(state), Some(sum)) if state_checksum(&head.session, seq, &state) == sum => Ok(state),
        (Some(_), ..) => damaged("does not match its checksum"),
        _ => damaged("is missing"),
    }
}

fn records(session: &str, rows: &[Row]) -> std::result::Result<Vec<EventRecord>, PostgresError> {
    rows.iter().map(|row| rows::record(session, &mut RowReader::new(row))).collect()
}

/// Whether the events lead from the snapshot to the head, one by one.
fn check_tail(head: &SessionRow, tail: &[EventRecord]) -> std::result::Result<(), PostgresError> {
    let damaged =
        |what: String| Err(StoreError::corrupt(format!("session '{}': {what}", shown(&head.session))).into());
    let wanted = head.snapshot_seq.wrapping_add(1)..=head.seq;
    if !tail.iter().map(|record| record.seq).eq(wanted) {
        return damaged(format!("an event after {} is missing or unexpected", head.snapshot_seq));
    }
    // The event before the first one after a snapshot may be pruned, so only the rest of the chain can be checked.
    let mut before: Option<ChainHash> = (head.snapshot_seq == 0).then_some([0; 16]);
    for record in tail {
        if before.is_some_and(|before| record.chain_hash_after(&before) != record.chain) {
            return damaged(format!("event {} does not follow from the one before it", record.seq));
        }
        before = Some(record.chain);
    }
    if before.is_some_and(|last| last != head.chain) {
        return damaged("its last event is not the one that its session row names".to_owned());
    }
    Ok(())
}

/// The stored answer to an event id.
pub(super) fn find_by_id(pool: &PostgresPool, session: &str, id: &str) -> StoreResult<Option<StoredAnswer>> {
    pool.read(async |client| {
        let statement = client.prepare_cached(FIND).await?;
        let row = client.query_opt(&statement, &[&stored(session), &stored(id)]).await?;
        row.map(|row| answered(session, id, &row)).transpose()
    })
}

fn answered(session: &str, id: &str, row: &Row) -> std::result::Result<StoredAnswer, PostgresError> {
    let fields = &mut RowReader::new(row);
    let (seq, body) = (fields.number()?, fields.number()?);
    let (verdict, status) = (fields.verdict()?, fields.status()?);
    let damaged = |what: &str| {
        let what = format!("session '{}': the entry of id '{}' {what}", shown(session), shown(id));
        Err(StoreError::corrupt(what).into())
    };
    if fields.number()? != EventRecord::id_checksum(session, id, seq, body, verdict, status) {
        return damaged("does not match its checksum");
    }
    let Some(snapshot) = fields.optional_number()? else {
        return damaged("belongs to no session");
    };
    let decision = if fields.take()? {
        let record = rows::record(session, fields)?;
        if record.id.as_deref() != Some(id) || record.verdict != verdict || record.status != status {
            return damaged("names an event that is not its own");
        }
        Some(record.decision_json)
    } else if seq <= snapshot {
        None
    } else {
        return damaged("names an event that is missing");
    };
    Ok(StoredAnswer { seq, body_hash: body, verdict, status, decision_json: decision })
}

/// The events `from..=to` of a session.
pub(super) fn records_between(
    pool: &PostgresPool,
    session: &str,
    from: u64,
    to: u64,
) -> StoreResult<Vec<EventRecord>> {
    let (from, to) = (rows::at_most(from), rows::at_most(to));
    pool.read(async |client| {
        let statement = client.prepare_cached(RECORDS).await?;
        let rows = client.query(&statement, &[&stored(session), &from, &to]).await?;
        let all = records(session, &rows)?;
        for (one, next) in all.iter().zip(all.iter().skip(1)) {
            if next.seq == one.seq.wrapping_add(1) && next.chain_hash_after(&one.chain) != next.chain {
                let what = format!("session '{}': event {} does not follow", shown(session), next.seq);
                return Err(StoreError::corrupt(what).into());
            }
        }
        Ok(all)
    })
}

/// The rows of a session that a person may have taken away.
pub(super) fn operator_rows(pool: &PostgresPool, session: &str) -> StoreResult<OperatorRows> {
    pool.read(async |client| {
        let statement = client.prepare_cached(OPERATOR_ROWS).await?;
        let row = client.query_one(&statement, &[&stored(session)]).await?;
        let mut fields = RowReader::new(&row);
        let (label, there) = (fields.take()?, fields.take::<bool>()?);
        let pending = if there { Some(rows::pending(&mut fields)?.sum()) } else { None };
        Ok(OperatorRows { pending, label })
    })
}

/// Keeps the text of a policy; one that is kept already stays as it is.
pub(super) fn save_policy(pool: &PostgresPool, digest: &str, text: &str) -> StoreResult<()> {
    pool.write(async |client| {
        let put =
            "INSERT INTO flyball_policies (digest, text) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
        let statement = client.prepare_cached(put).await?;
        client.execute(&statement, &[&stored(digest), &stored(text)]).await?;
        Ok(())
    })
}

/// The text of a policy.
pub(super) fn policy(pool: &PostgresPool, digest: &str) -> StoreResult<Option<String>> {
    pool.read(async |client| {
        let statement = client.prepare_cached("SELECT text FROM flyball_policies WHERE digest = $1").await?;
        let row = client.query_opt(&statement, &[&stored(digest)]).await?;
        row.map(|row| RowReader::new(&row).text()).transpose()
    })
}

/// Converts a count for use in `LIMIT`.
pub(super) fn limit(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
