//! Inspection and maintenance queries: lists, pending plans and pruning.

use super::load::limit;
use super::pg_error::{PostgresError, outcome_unknown};
use super::pool::PostgresPool;
use super::rows::{self, RowReader, at_most, clock, stored};
use crate::event_store::{ConfirmationRow, OutboxMessage, OutboxState, PruneReport, StoreResult};
use crate::record::{SessionFilter, SessionRow};
use deadpool_postgres::ClientWrapper;
use flyball::SessionPhase;

macro_rules! heads_where {
    ($condition:literal) => {
        concat!(
            "SELECT ",
            rows::head_columns!(),
            " FROM flyball_sessions s WHERE ",
            $condition,
            " ORDER BY s.updated DESC, s.session LIMIT $1"
        )
    };
}

const PENDING: &str = concat!(
    "SELECT ",
    rows::pending_columns!(),
    " FROM session_state p WHERE p.session_id = $1 AND p.pending_confirmation <> 0"
);
const OUTBOX: &str = concat!(
    "SELECT ",
    rows::outbox_columns!(),
    " FROM flyball_outbox o WHERE o.state = $1 ORDER BY o.number LIMIT $2"
);
const OUTBOX_COUNT: &str = "SELECT count(*) FROM flyball_outbox WHERE state = $1";
const RETRY: &str = concat!(
    "UPDATE flyball_outbox SET state = 'waiting', attempts = 0, due = ",
    clock!(),
    " WHERE key = $1 AND state = 'dead'"
);
/// Leased sessions are kept: their epoch must not restart while a worker holds the lease.
const SELECT_ENDED: &str = concat!(
    "SELECT session FROM flyball_sessions WHERE status = $1 AND stopped_by IS NULL AND updated < $2 AND lease_until <= ",
    clock!(),
    " ORDER BY session FOR UPDATE"
);
/// Deletes all rows of a session except undelivered outbox messages.
const DELETE_SESSIONS: [&str; 7] = [
    "DELETE FROM flyball_events WHERE session = ANY($1)",
    "DELETE FROM flyball_ids WHERE session = ANY($1)",
    "DELETE FROM flyball_snapshots WHERE session = ANY($1)",
    "DELETE FROM flyball_labels WHERE session = ANY($1)",
    "DELETE FROM session_state WHERE session_id = ANY($1)",
    "DELETE FROM flyball_outbox WHERE session = ANY($1) AND state <> 'waiting'",
    "DELETE FROM flyball_sessions WHERE session = ANY($1)",
];
/// Deletes only from the front, so that the remaining chain has no gap.
const DELETE_OLD_EVENTS: &str = "DELETE FROM flyball_events e USING flyball_sessions s \
    WHERE e.session = s.session AND e.seq <= s.snapshot AND e.at < $1 AND NOT EXISTS (SELECT 1 FROM flyball_events k \
    WHERE k.session = e.session AND k.seq < e.seq AND (k.at IS NULL OR k.at >= $1))";
const DELETE_OLD_OUTBOX: &str = "DELETE FROM flyball_outbox WHERE state = 'done' AND at < $1";

/// The heads of sessions, the one that changed last first.
pub(super) fn list_sessions(
    pool: &PostgresPool,
    which: SessionFilter,
    number: usize,
) -> StoreResult<Vec<SessionRow>> {
    let sql = match which {
        SessionFilter::All => heads_where!("true"),
        SessionFilter::Blocked => heads_where!(
            "(s.status IN ('blocked', 'halted') OR s.status = 'ended' AND s.stopped_by IS NOT NULL)"
        ),
        SessionFilter::Waiting => heads_where!("s.status = 'awaiting_confirmation'"),
        SessionFilter::Warned => heads_where!("s.status = 'running' AND s.warnings + s.blocks > 0"),
    };
    pool.read(async |client| {
        let statement = client.prepare_cached(sql).await?;
        let rows = client.query(&statement, &[&limit(number)]).await?;
        rows.iter().map(|row| rows::head(&mut RowReader::new(row))).collect()
    })
}

/// The plan that waits in a session.
pub(super) fn pending(pool: &PostgresPool, session: &str) -> StoreResult<Option<ConfirmationRow>> {
    pool.read(async |client| {
        let statement = client.prepare_cached(PENDING).await?;
        let row = client.query_opt(&statement, &[&stored(session)]).await?;
        row.map(|row| rows::pending(&mut RowReader::new(&row))).transpose()
    })
}

/// Outbox messages in a state, oldest first.
pub(super) fn outbox_messages(
    pool: &PostgresPool,
    state: OutboxState,
    number: usize,
) -> StoreResult<Vec<OutboxMessage>> {
    pool.read(async |client| {
        let statement = client.prepare_cached(OUTBOX).await?;
        let rows = client.query(&statement, &[&state.as_str(), &limit(number)]).await?;
        rows.iter().map(|row| rows::outbox_message(&mut RowReader::new(row))).collect()
    })
}

/// The number of outbox messages in a state.
pub(super) fn outbox_count(pool: &PostgresPool, state: OutboxState) -> StoreResult<u64> {
    pool.read(async |client| {
        let statement = client.prepare_cached(OUTBOX_COUNT).await?;
        RowReader::new(&client.query_one(&statement, &[&state.as_str()]).await?).number()
    })
}

/// Queues a dead outbox message again.
pub(super) fn retry_outbox(pool: &PostgresPool, key: &str) -> StoreResult<bool> {
    pool.write(async |client| {
        let statement = client.prepare_cached(RETRY).await?;
        Ok(client.execute(&statement, &[&stored(key)]).await? > 0)
    })
}

/// Deletes old data in one transaction.
pub(super) fn prune(pool: &PostgresPool, before: u64, dry_run: bool) -> StoreResult<PruneReport> {
    pool.run_dedicated(async |client| {
        client.batch_execute("BEGIN").await?;
        let pruned = prune_rows(client, at_most(before)).await?;
        if dry_run {
            client.batch_execute("ROLLBACK").await?;
        } else {
            client.batch_execute("COMMIT").await.map_err(|_| outcome_unknown())?;
        }
        Ok(pruned)
    })
    .map_err(PostgresError::into_store_error)
}

async fn prune_rows(client: &ClientWrapper, before: i64) -> std::result::Result<PruneReport, PostgresError> {
    let rows = client.query(SELECT_ENDED, &[&SessionPhase::Ended.as_str(), &before]).await?;
    let ended: Vec<&str> = rows.iter().map(|row| row.try_get(0)).collect::<std::result::Result<_, _>>()?;
    if !ended.is_empty() {
        for forget in DELETE_SESSIONS {
            client.execute(forget, &[&ended]).await?;
        }
    }
    Ok(PruneReport {
        sessions: u64::try_from(ended.len()).unwrap_or(u64::MAX),
        events: client.execute(DELETE_OLD_EVENTS, &[&before]).await?,
        outbox_messages: client.execute(DELETE_OLD_OUTBOX, &[&before]).await?,
    })
}
