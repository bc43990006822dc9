//! Looking around and cleaning up.

use super::Fault;
use super::load::all;
use super::rows::{self, ERRAND, HEAD, stored};
use crate::journal::{Errand, ErrandState, Pruned, Which};
use crate::record::Head;
use rusqlite::{Connection, params};

type Outcome<T> = Result<T, Fault>;

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The heads of sessions, the one that changed last first.
pub(super) fn heads(sql: &Connection, which: Which, limit: usize) -> Outcome<Vec<Head>> {
    let wanted = match which {
        Which::All => "1",
        Which::Blocked => "status IN ('blocked', 'halted')",
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

/// Lets a dead errand wait for its next try.
pub(super) fn retry(sql: &Connection, key: &str) -> Outcome<bool> {
    let update = "UPDATE flyball_outbox SET state = 'waiting', due = 0, attempts = 0
                  WHERE key = ?1 AND state = 'dead'";
    Ok(sql.execute(update, [key])? == 1)
}

/// Takes away what is old, or counts what would be taken.
pub(super) fn prune(sql: &Connection, before: u64, dry_run: bool) -> Outcome<Pruned> {
    let before = stored(before);
    let over = "SELECT no FROM flyball_sessions WHERE status = 'ended' AND updated < ?1";
    // The newest event stays: its number is where the next one is counted from.
    let covered = "SELECT e.pos FROM flyball_events e JOIN flyball_sessions s ON s.no = e.no
         WHERE e.seq <= s.snapshot AND e.at < ?1 AND NOT (s.status = 'ended' AND s.updated < ?1)
         AND e.pos < (SELECT max(pos) FROM flyball_events)";
    let performed = "SELECT key FROM flyball_outbox WHERE state = 'done' AND due < ?1";
    let count = |query: &str| -> rusqlite::Result<u64> {
        sql.query_row(&format!("SELECT count(*) FROM ({query})"), [before], |row| row.get::<_, i64>(0))
            .map(rows::read)
    };
    let found = Pruned { sessions: count(over)?, events: count(covered)?, errands: count(performed)? };
    if dry_run {
        return Ok(found);
    }
    sql.execute(&format!("DELETE FROM flyball_events WHERE pos IN ({covered})"), [before])?;
    let newest = "AND pos < (SELECT max(pos) FROM flyball_events)";
    sql.execute(&format!("DELETE FROM flyball_events WHERE no IN ({over}) {newest}"), [before])?;
    for table in ["flyball_ids", "flyball_snapshots"] {
        sql.execute(&format!("DELETE FROM {table} WHERE no IN ({over})"), [before])?;
    }
    for (table, column) in [("flyball_labels", "session"), ("session_state", "session_id")] {
        let names = "SELECT session FROM flyball_sessions WHERE status = 'ended' AND updated < ?1";
        sql.execute(&format!("DELETE FROM {table} WHERE {column} IN ({names})"), [before])?;
    }
    sql.execute("DELETE FROM flyball_sessions WHERE status = 'ended' AND updated < ?1", [before])?;
    sql.execute(&format!("DELETE FROM flyball_outbox WHERE key IN ({performed})"), [before])?;
    Ok(found)
}
