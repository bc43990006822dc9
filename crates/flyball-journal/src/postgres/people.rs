//! What a person at the desk needs: lists, the plan that waits, and cleaning up.

use super::link::Link;
use super::load::limit;
use super::rows::{self, Fields, at_most, clock, stored};
use super::trouble::{Fault, unknown};
use crate::journal::{Errand, ErrandState, PendingRow, Pruned, Result};
use crate::record::{Head, Which};
use deadpool_postgres::ClientWrapper;
use flyball::Status;

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
const ERRANDS: &str = concat!(
    "SELECT ",
    rows::errand_columns!(),
    " FROM flyball_outbox o WHERE o.state = $1 ORDER BY o.number LIMIT $2"
);
const ERRAND_COUNT: &str = "SELECT count(*) FROM flyball_outbox WHERE state = $1";
const RETRY: &str = concat!(
    "UPDATE flyball_outbox SET state = 'waiting', attempts = 0, due = ",
    clock!(),
    " WHERE key = $1 AND state = 'dead'"
);
/// Sessions with a lease are left: their epoch must not start again under a worker's feet.
const ENDED: &str = concat!(
    "SELECT session FROM flyball_sessions WHERE status = $1 AND stopped_by IS NULL AND updated < $2 AND lease_until <= ",
    clock!(),
    " ORDER BY session FOR UPDATE"
);
/// Everything of a session, but errands that were not performed yet.
const FORGET: [&str; 7] = [
    "DELETE FROM flyball_events WHERE session = ANY($1)",
    "DELETE FROM flyball_ids WHERE session = ANY($1)",
    "DELETE FROM flyball_snapshots WHERE session = ANY($1)",
    "DELETE FROM flyball_labels WHERE session = ANY($1)",
    "DELETE FROM session_state WHERE session_id = ANY($1)",
    "DELETE FROM flyball_outbox WHERE session = ANY($1) AND state <> 'waiting'",
    "DELETE FROM flyball_sessions WHERE session = ANY($1)",
];
/// Only from the front: what is left of the chain must stay without a gap.
const OLD_EVENTS: &str = "DELETE FROM flyball_events e USING flyball_sessions s \
    WHERE e.session = s.session AND e.seq <= s.snapshot AND e.at < $1 AND NOT EXISTS (SELECT 1 FROM flyball_events k \
    WHERE k.session = e.session AND k.seq < e.seq AND (k.at IS NULL OR k.at >= $1))";
const OLD_ERRANDS: &str = "DELETE FROM flyball_outbox WHERE state = 'done' AND at < $1";

/// The heads of sessions, the one that changed last first.
pub(super) fn heads(link: &Link, which: Which, number: usize) -> Result<Vec<Head>> {
    let sql = match which {
        Which::All => heads_where!("true"),
        Which::Blocked => heads_where!(
            "(s.status IN ('blocked', 'halted') OR s.status = 'ended' AND s.stopped_by IS NOT NULL)"
        ),
        Which::Waiting => heads_where!("s.status = 'awaiting_confirmation'"),
        Which::Struggling => heads_where!("s.status = 'running' AND s.warnings + s.blocks > 0"),
    };
    link.read(async |client| {
        let statement = client.prepare_cached(sql).await?;
        let rows = client.query(&statement, &[&limit(number)]).await?;
        rows.iter().map(|row| rows::head(&mut Fields::new(row))).collect()
    })
}

/// The plan that waits in a session.
pub(super) fn pending(link: &Link, session: &str) -> Result<Option<PendingRow>> {
    link.read(async |client| {
        let statement = client.prepare_cached(PENDING).await?;
        let row = client.query_opt(&statement, &[&stored(session)]).await?;
        row.map(|row| rows::pending(&mut Fields::new(&row))).transpose()
    })
}

/// Errands in a state, oldest first.
pub(super) fn errands(link: &Link, state: ErrandState, number: usize) -> Result<Vec<Errand>> {
    link.read(async |client| {
        let statement = client.prepare_cached(ERRANDS).await?;
        let rows = client.query(&statement, &[&state.as_str(), &limit(number)]).await?;
        rows.iter().map(|row| rows::errand(&mut Fields::new(row))).collect()
    })
}

/// How many errands are in a state.
pub(super) fn errand_count(link: &Link, state: ErrandState) -> Result<u64> {
    link.read(async |client| {
        let statement = client.prepare_cached(ERRAND_COUNT).await?;
        Fields::new(&client.query_one(&statement, &[&state.as_str()]).await?).number()
    })
}

/// Lets a dead errand wait again.
pub(super) fn retry(link: &Link, key: &str) -> Result<bool> {
    link.write(async |client| {
        let statement = client.prepare_cached(RETRY).await?;
        Ok(client.execute(&statement, &[&stored(key)]).await? > 0)
    })
}

/// Takes away what is old, in one transaction.
pub(super) fn prune(link: &Link, before: u64, dry_run: bool) -> Result<Pruned> {
    link.run_apart(async |client| {
        client.batch_execute("BEGIN").await?;
        let pruned = sweep(client, at_most(before)).await?;
        if dry_run {
            client.batch_execute("ROLLBACK").await?;
        } else {
            client.batch_execute("COMMIT").await.map_err(|_| unknown())?;
        }
        Ok(pruned)
    })
    .map_err(Fault::undone)
}

async fn sweep(client: &ClientWrapper, before: i64) -> std::result::Result<Pruned, Fault> {
    let rows = client.query(ENDED, &[&Status::Ended.as_str(), &before]).await?;
    let ended: Vec<&str> = rows.iter().map(|row| row.try_get(0)).collect::<std::result::Result<_, _>>()?;
    if !ended.is_empty() {
        for forget in FORGET {
            client.execute(forget, &[&ended]).await?;
        }
    }
    Ok(Pruned {
        sessions: u64::try_from(ended.len()).unwrap_or(u64::MAX),
        events: client.execute(OLD_EVENTS, &[&before]).await?,
        errands: client.execute(OLD_ERRANDS, &[&before]).await?,
    })
}
