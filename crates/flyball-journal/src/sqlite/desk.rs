//! Looking around and cleaning up.

use super::Fault;
use super::load::all;
use super::rows::{self, ERRAND, HEAD, stored};
use crate::journal::{Errand, ErrandState, Pruned};
use crate::record::{Head, Which};
use rusqlite::{Connection, params};

type Outcome<T> = Result<T, Fault>;

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The heads of sessions, the one that changed last first.
pub(super) fn heads(sql: &Connection, which: Which, limit: usize) -> Outcome<Vec<Head>> {
    let wanted = match which {
        Which::All => "1",
        Which::Blocked => "(status IN ('blocked', 'halted') OR status = 'ended' AND stopped_by IS NOT NULL)",
        Which::Waiting => "status = 'awaiting_confirmation'",
        Which::Struggling => "status = 'running' AND warnings + blocks > 0",
    };
    let query =
        format!("SELECT {HEAD} FROM flyball_sessions WHERE {wanted} ORDER BY updated DESC, no DESC LIMIT ?1");
    all(sql, &query, [most(limit)], |row| rows::head(row).map(|(_, head)| head))
}

/// Errands in a state.
pub(super) fn errands(sql: &Connection, state: ErrandState, limit: usize) -> Outcome<Vec<Errand>> {
    let query = format!("SELECT {ERRAND} FROM flyball_outbox WHERE state = ?1 ORDER BY due, key LIMIT ?2");
    all(sql, &query, params![state.as_str(), most(limit)], rows::errand)
}

/// How many errands are in a state.
pub(super) fn errand_count(sql: &Connection, state: ErrandState) -> Outcome<u64> {
    let query = "SELECT count(*) FROM flyball_outbox WHERE state = ?1";
    Ok(rows::read(sql.prepare_cached(query)?.query_row([state.as_str()], |row| row.get(0))?))
}

/// Lets a dead errand wait for its next try.
pub(super) fn retry(sql: &Connection, key: &str) -> Outcome<bool> {
    let update = "UPDATE flyball_outbox SET state = 'waiting', due = 0, attempts = 0
                  WHERE key = ?1 AND state = 'dead'";
    Ok(sql.execute(update, [key])? == 1)
}

/// The sessions that are over and old. One that still waits for a release stays: pruning it would lift its halt.
const OVER: &str = "status = 'ended' AND stopped_by IS NULL AND updated < ?1";
/// The events that may go: those that are covered. The newest one stays; its number is where the next is counted from.
const OLD: &str = "pos < (SELECT max(pos) FROM flyball_events)
     AND seq <= coalesce((SELECT c.seq FROM temp.covered c WHERE c.no = flyball_events.no), 0)";

/// Takes away what is old, or counts what would be taken.
pub(super) fn prune(sql: &Connection, before: u64, dry_run: bool) -> Outcome<Pruned> {
    let before = stored(before);
    cover(sql, before)?;
    let count = |query: &str, args: &[i64]| -> rusqlite::Result<u64> {
        sql.query_row(&format!("SELECT count(*) FROM {query}"), rusqlite::params_from_iter(args), |row| {
            row.get::<_, i64>(0).map(rows::read)
        })
    };
    let found = Pruned {
        sessions: count(&format!("flyball_sessions WHERE {OVER}"), &[before])?,
        events: count(&format!("flyball_events WHERE {OLD}"), &[])?,
        errands: count("flyball_outbox WHERE state = 'done' AND due < ?1", &[before])?,
    };
    if dry_run {
        return Ok(found);
    }
    sql.execute_batch(&format!(
        "UPDATE flyball_sessions SET pruned = max(pruned, c.seq) FROM temp.covered c WHERE c.no = flyball_sessions.no;
         DELETE FROM flyball_events WHERE {OLD};"
    ))?;
    let over = format!("(SELECT no FROM flyball_sessions WHERE {OVER})");
    let newest = "pos < (SELECT max(pos) FROM flyball_events)";
    sql.execute(&format!("DELETE FROM flyball_events WHERE no IN {over} AND {newest}"), [before])?;
    for table in ["flyball_ids", "flyball_snapshots"] {
        sql.execute(&format!("DELETE FROM {table} WHERE no IN {over}"), [before])?;
    }
    for (table, column) in [("flyball_labels", "session"), ("session_state", "session_id")] {
        let names = format!("(SELECT session FROM flyball_sessions WHERE {OVER})");
        sql.execute(&format!("DELETE FROM {table} WHERE {column} IN {names}"), [before])?;
    }
    sql.execute(&format!("DELETE FROM flyball_sessions WHERE {OVER}"), [before])?;
    sql.execute("DELETE FROM flyball_outbox WHERE state = 'done' AND due < ?1", [before])?;
    Ok(found)
}

/// Of each session that lives, the events that its snapshot covers, from the first one up to the first that is young.
fn cover(sql: &Connection, before: i64) -> Outcome<()> {
    sql.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS covered (no INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
         DELETE FROM temp.covered;",
    )?;
    let fill = format!(
        "INSERT INTO temp.covered SELECT s.no, min(s.snapshot, coalesce(y.young - 1, s.snapshot))
         FROM flyball_sessions s LEFT JOIN (SELECT no, min(seq) AS young FROM flyball_events
             WHERE at IS NULL OR at >= ?1 GROUP BY no) y ON y.no = s.no
         WHERE s.snapshot > 0 AND NOT ({OVER})"
    );
    sql.execute(&fill, [before])?;
    Ok(())
}
