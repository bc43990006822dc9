//! Inspection and maintenance queries.

use super::SqliteError;
use super::load::query_all;
use super::rows::{self, OUTBOX_COLUMNS, SESSION_COLUMNS, to_i64};
use crate::event_store::{OutboxMessage, OutboxState, PruneReport};
use crate::record::{SessionFilter, SessionRow};
use rusqlite::{Connection, params};

type SqliteResult<T> = Result<T, SqliteError>;

fn to_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The heads of sessions, the one that changed last first.
pub(super) fn list_sessions(
    sql: &Connection,
    which: SessionFilter,
    limit: usize,
) -> SqliteResult<Vec<SessionRow>> {
    let wanted = match which {
        SessionFilter::All => "1",
        SessionFilter::Blocked => {
            "(status IN ('blocked', 'halted') OR status = 'ended' AND stopped_by IS NOT NULL)"
        }
        SessionFilter::Waiting => "status = 'awaiting_confirmation'",
        SessionFilter::Warned => "status = 'running' AND warnings + blocks > 0",
    };
    let query = format!(
        "SELECT {SESSION_COLUMNS} FROM flyball_sessions WHERE {wanted} ORDER BY updated DESC, no DESC LIMIT ?1"
    );
    query_all(sql, &query, [to_limit(limit)], |row| rows::head(row).map(|(_, head)| head))
}

/// Outbox messages in a state.
pub(super) fn outbox_messages(
    sql: &Connection,
    state: OutboxState,
    limit: usize,
) -> SqliteResult<Vec<OutboxMessage>> {
    let query =
        format!("SELECT {OUTBOX_COLUMNS} FROM flyball_outbox WHERE state = ?1 ORDER BY due, key LIMIT ?2");
    query_all(sql, &query, params![state.as_str(), to_limit(limit)], rows::outbox_message)
}

/// Number of outbox messages in a state.
pub(super) fn outbox_count(sql: &Connection, state: OutboxState) -> SqliteResult<u64> {
    let query = "SELECT count(*) FROM flyball_outbox WHERE state = ?1";
    Ok(rows::to_u64(sql.prepare_cached(query)?.query_row([state.as_str()], |row| row.get(0))?))
}

/// Schedules a dead outbox message for another attempt.
pub(super) fn retry_outbox(sql: &Connection, key: &str) -> SqliteResult<bool> {
    let update = "UPDATE flyball_outbox SET state = 'waiting', due = 0, attempts = 0
                  WHERE key = ?1 AND state = 'dead'";
    Ok(sql.execute(update, [key])? == 1)
}

/// Old ended sessions. Sessions that need a release are kept: pruning one would lift its halt.
const ENDED_SESSIONS: &str = "status = 'ended' AND stopped_by IS NULL AND updated < ?1";
/// Events that may be deleted: those that a snapshot covers. The newest event stays, because the next position
/// follows it.
const COVERED_EVENTS: &str = "pos < (SELECT max(pos) FROM flyball_events)
     AND seq <= coalesce((SELECT c.seq FROM temp.covered c WHERE c.no = flyball_events.no), 0)";

/// Deletes old data, or counts what would be deleted.
pub(super) fn prune(sql: &Connection, before: u64, dry_run: bool) -> SqliteResult<PruneReport> {
    let before = to_i64(before);
    select_covered(sql, before)?;
    let count = |query: &str, args: &[i64]| -> rusqlite::Result<u64> {
        sql.query_row(&format!("SELECT count(*) FROM {query}"), rusqlite::params_from_iter(args), |row| {
            row.get::<_, i64>(0).map(rows::to_u64)
        })
    };
    let found = PruneReport {
        sessions: count(&format!("flyball_sessions WHERE {ENDED_SESSIONS}"), &[before])?,
        events: count(&format!("flyball_events WHERE {COVERED_EVENTS}"), &[])?,
        outbox_messages: count("flyball_outbox WHERE state = 'done' AND due < ?1", &[before])?,
    };
    if dry_run {
        return Ok(found);
    }
    sql.execute_batch(&format!(
        "UPDATE flyball_sessions SET pruned = max(pruned, c.seq) FROM temp.covered c WHERE c.no = flyball_sessions.no;
         DELETE FROM flyball_events WHERE {COVERED_EVENTS};"
    ))?;
    let over = format!("(SELECT no FROM flyball_sessions WHERE {ENDED_SESSIONS})");
    let newest = "pos < (SELECT max(pos) FROM flyball_events)";
    sql.execute(&format!("DELETE FROM flyball_events WHERE no IN {over} AND {newest}"), [before])?;
    for table in ["flyball_ids", "flyball_snapshots"] {
        sql.execute(&format!("DELETE FROM {table} WHERE no IN {over}"), [before])?;
    }
    for (table, column) in [("flyball_labels", "session"), ("session_state", "session_id")] {
        let names = format!("(SELECT session FROM flyball_sessions WHERE {ENDED_SESSIONS})");
        sql.execute(&format!("DELETE FROM {table} WHERE {column} IN {names}"), [before])?;
    }
    sql.execute(&format!("DELETE FROM flyball_sessions WHERE {ENDED_SESSIONS}"), [before])?;
    sql.execute("DELETE FROM flyball_outbox WHERE state = 'done' AND due < ?1", [before])?;
    Ok(found)
}

/// For each live session, selects the events that its snapshot covers, from the first one up to the first recent one.
fn select_covered(sql: &Connection, before: i64) -> SqliteResult<()> {
    sql.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS covered (no INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
         DELETE FROM temp.covered;",
    )?;
    let fill = format!(
        "INSERT INTO temp.covered SELECT s.no, min(s.snapshot, coalesce(y.young - 1, s.snapshot))
         FROM flyball_sessions s LEFT JOIN (SELECT no, min(seq) AS young FROM flyball_events
             WHERE at IS NULL OR at >= ?1 GROUP BY no) y ON y.no = s.no
         WHERE s.snapshot > 0 AND NOT ({ENDED_SESSIONS})"
    );
    sql.execute(&fill, [before])?;
    Ok(())
}
