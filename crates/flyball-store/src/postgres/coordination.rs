//! Coordination of workers and subscribers: leases, the outbox, and the global event order.

use super::load::limit;
use super::pg_error::PostgresError;
use super::pool::PostgresPool;
use super::rows::{self, RowReader, at_most, bits, clock, stored};
use crate::error::StoreError;
use crate::event_store::{
    DeliveryOutcome, EventRef, Lease, OutboxMessage, StoreResult, StreamCursor, StreamEntry,
};
use crate::record::SessionRow;

/// Creates the row of a new session. A lease held by another worker is left alone; the holder of a live lease gets the
/// same epoch again.
const ACQUIRE_LEASE: &str = concat!(
    "INSERT INTO flyball_sessions AS s (session, rev, epoch, seq, chain, policy, snapshot, started, updated, status, \
     warnings, blocks, halts, sum, holder, lease_until) \
     VALUES ($1, 0, 1, 0, $2, $3, 0, 0, 0, $4, 0, 0, 0, $5, $6, ",
    clock!(),
    " + $7) ON CONFLICT (session) DO UPDATE SET \
     epoch = CASE WHEN s.holder = excluded.holder AND s.lease_until > ",
    clock!(),
    " THEN s.epoch ELSE s.epoch + 1 END, holder = excluded.holder, lease_until = ",
    clock!(),
    " + $7 WHERE s.holder IS NULL OR s.holder = excluded.holder OR s.lease_until <= ",
    clock!(),
    " RETURNING epoch"
);
const RENEW_LEASE: &str = concat!(
    "UPDATE flyball_sessions SET lease_until = ",
    clock!(),
    " + $4 WHERE session = $1 AND holder = $2 AND epoch = $3 AND lease_until > ",
    clock!()
);
const LIST_LEASES: &str = concat!(
    "SELECT session, holder, epoch FROM flyball_sessions WHERE holder IS NOT NULL AND lease_until > ",
    clock!(),
    " ORDER BY session"
);
const RELEASE_LEASE: &str = "UPDATE flyball_sessions SET holder = NULL, lease_until = 0 \
    WHERE session = $1 AND holder = $2 AND epoch = $3";
const CLAIM_OUTBOX: &str = concat!(
    "WITH due AS MATERIALIZED (SELECT key FROM flyball_outbox WHERE state = 'waiting' AND due <= ",
    clock!(),
    " ORDER BY due, number LIMIT $1 FOR UPDATE SKIP LOCKED), \
     mine AS (UPDATE flyball_outbox o SET due = ",
    clock!(),
    " + $2, attempts = attempts + 1 FROM due WHERE o.key = due.key RETURNING o.number, ",
    rows::outbox_columns!(),
    ") SELECT key, session, effect, sink, payload, state, attempts - 1 AS attempts, due, error FROM mine ORDER BY number"
);
const MARK_DELIVERED: &str = "UPDATE flyball_outbox SET state = 'done', error = NULL \
    WHERE key = $1 AND state <> 'done'";
const MARK_RETRY: &str = concat!(
    "UPDATE flyball_outbox SET error = $2, due = ",
    clock!(),
    " + $3 WHERE key = $1 AND state = 'waiting'"
);
const MARK_DEAD: &str = "UPDATE flyball_outbox SET state = 'dead', error = $2 \
    WHERE key = $1 AND state = 'waiting'";
/// Positions are assigned when a transaction first writes, not when it commits. So only events of transactions older
/// than every running one are returned: no later commit can insert an event before them.
const EVENTS_SINCE: &str = concat!(
    "SELECT e.tx::text, e.pos, e.session, ",
    rows::record_columns!(),
    " FROM flyball_events e WHERE (e.tx, e.pos) > ($1::text::xid8, $2::bigint) \
     AND e.tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY e.tx, e.pos LIMIT $3"
);
const EVENT_REFS_SINCE: &str = "SELECT e.tx::text, e.pos, e.session, e.seq FROM flyball_events e \
     WHERE (e.tx, e.pos) > ($1::text::xid8, $2::bigint) AND e.tx < pg_snapshot_xmin(pg_current_snapshot()) \
     ORDER BY e.tx, e.pos LIMIT $3";
const LATEST_CURSOR: &str = "SELECT e.tx::text, e.pos FROM flyball_events e \
     WHERE e.tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY e.tx DESC, e.pos DESC LIMIT 1";
const NOW: &str = concat!("SELECT ", clock!());

/// Leases a session.
pub(super) fn lease(
    pool: &PostgresPool,
    session: &str,
    holder: &str,
    ttl_ms: u64,
) -> StoreResult<Option<Lease>> {
    let head = SessionRow { session: session.to_owned(), ..SessionRow::default() };
    let epoch = pool.write(async |client| {
        let statement = client.prepare_cached(ACQUIRE_LEASE).await?;
        let row = client
            .query_opt(
                &statement,
                &[
                    &stored(session),
                    &&head.chain[..],
                    &head.policy,
                    &head.summary.status.as_str(),
                    &bits(head.sum()),
                    &stored(holder),
                    &to_interval_ms(ttl_ms),
                ],
            )
            .await?;
        row.map(|row| RowReader::new(&row).number()).transpose()
    })?;
    Ok(epoch.map(|epoch| Lease { session: session.to_owned(), holder: holder.to_owned(), epoch }))
}

/// The unexpired leases.
pub(super) fn leases(pool: &PostgresPool) -> StoreResult<Vec<Lease>> {
    pool.read(async |client| {
        let statement = client.prepare_cached(LIST_LEASES).await?;
        let rows = client.query(&statement, &[]).await?;
        let lease = |row| {
            let mut fields = RowReader::new(row);
            Ok(Lease { session: fields.text()?, holder: fields.text()?, epoch: fields.number()? })
        };
        rows.iter().map(lease).collect()
    })
}

/// Holds a lease for longer.
pub(super) fn renew_lease(pool: &PostgresPool, lease: &Lease, ttl_ms: u64) -> StoreResult<bool> {
    pool.write(async |client| {
        let statement = client.prepare_cached(RENEW_LEASE).await?;
        let (session, holder) = (stored(&lease.session), stored(&lease.holder));
        let held = client
            .execute(&statement, &[&session, &holder, &bits(lease.epoch), &to_interval_ms(ttl_ms)])
            .await?;
        Ok(held > 0)
    })
}

/// Gives a lease back.
pub(super) fn release_lease(pool: &PostgresPool, lease: &Lease) -> StoreResult<()> {
    pool.write(async |client| {
        let statement = client.prepare_cached(RELEASE_LEASE).await?;
        let (session, holder) = (stored(&lease.session), stored(&lease.holder));
        client.execute(&statement, &[&session, &holder, &bits(lease.epoch)]).await?;
        Ok(())
    })
}

/// Claims due outbox messages.
pub(super) fn claim_outbox(
    pool: &PostgresPool,
    number: usize,
    hold_ms: u64,
) -> StoreResult<Vec<OutboxMessage>> {
    pool.write(async |client| {
        let statement = client.prepare_cached(CLAIM_OUTBOX).await?;
        let rows = client.query(&statement, &[&limit(number), &to_interval_ms(hold_ms)]).await?;
        rows.iter().map(|row| rows::outbox_message(&mut RowReader::new(row))).collect()
    })
}

/// Records the outcome of a delivery.
pub(super) fn record_delivery(pool: &PostgresPool, key: &str, how: &DeliveryOutcome) -> StoreResult<()> {
    pool.write(async |client| {
        let key = stored(key);
        match how {
            DeliveryOutcome::Delivered => {
                let statement = client.prepare_cached(MARK_DELIVERED).await?;
                client.execute(&statement, &[&key]).await?
            }
            DeliveryOutcome::Retry { error, after_ms } => {
                let statement = client.prepare_cached(MARK_RETRY).await?;
                client.execute(&statement, &[&key, &stored(error), &to_interval_ms(*after_ms)]).await?
            }
            DeliveryOutcome::Dead { error } => {
                let statement = client.prepare_cached(MARK_DEAD).await?;
                client.execute(&statement, &[&key, &stored(error)]).await?
            }
        };
        Ok(())
    })
}

/// Events of all sessions after a position.
pub(super) fn events_since(
    pool: &PostgresPool,
    after: StreamCursor,
    number: usize,
) -> StoreResult<Vec<StreamEntry>> {
    read_stream(pool, EVENTS_SINCE, (after, number), |cursor, session, fields| {
        let record = rows::record(&session, fields)?;
        Ok(StreamEntry { cursor, session, record })
    })
}

/// References to the events of all sessions after a position.
pub(super) fn event_refs_since(
    pool: &PostgresPool,
    after: StreamCursor,
    number: usize,
) -> StoreResult<Vec<EventRef>> {
    read_stream(pool, EVENT_REFS_SINCE, (after, number), |cursor, session, fields| {
        Ok(EventRef { cursor, session, seq: fields.number()? })
    })
}

/// Runs a query for events after a position, with a limit.
fn read_stream<T>(
    pool: &PostgresPool,
    statement: &str,
    (after, number): (StreamCursor, usize),
    read: impl Fn(StreamCursor, String, &mut RowReader<'_>) -> std::result::Result<T, PostgresError>,
) -> StoreResult<Vec<T>> {
    pool.read(async |client| {
        let statement = client.prepare_cached(statement).await?;
        let transaction = after.transaction.to_string();
        let rows =
            client.query(&statement, &[&transaction, &at_most(after.position), &limit(number)]).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut fields = RowReader::new(row);
            let cursor = parse_cursor(&mut fields)?;
            let session = fields.text()?;
            found.push(read(cursor, session, &mut fields)?);
        }
        Ok(found)
    })
}

/// Position of the newest stable event: no running transaction can still commit before it.
pub(super) fn latest_cursor(pool: &PostgresPool) -> StoreResult<StreamCursor> {
    pool.read(async |client| {
        let statement = client.prepare_cached(LATEST_CURSOR).await?;
        match client.query_opt(&statement, &[]).await? {
            Some(row) => parse_cursor(&mut RowReader::new(&row)),
            None => Ok(StreamCursor::default()),
        }
    })
}

fn parse_cursor(fields: &mut RowReader<'_>) -> std::result::Result<StreamCursor, PostgresError> {
    let transaction = fields.text()?.parse();
    let transaction = transaction.map_err(|_| StoreError::corrupt("invalid transaction id"))?;
    Ok(StreamCursor { transaction, position: fields.number()? })
}

/// The store's clock.
pub(super) fn now(pool: &PostgresPool) -> StoreResult<u64> {
    pool.read(async |client| {
        let statement = client.prepare_cached(NOW).await?;
        RowReader::new(&client.query_one(&statement, &[]).await?).number()
    })
}

/// A span of time that can be added to the clock without running over.
fn to_interval_ms(ms: u64) -> i64 {
    at_most(ms).min(i64::MAX / 4)
}
