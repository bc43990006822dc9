//! Verification: reads the whole store and reports corruption.

use super::SqliteError;
use super::load::{find_by_id, load, query_all};
use super::row_cache::RowCache;
use super::rows::{self, EVENT_COLUMNS};
use crate::record::ChainHash;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;

/// Events between two progress reports.
const PROGRESS_INTERVAL: u64 = 10_000;

/// Verifies every row, its checksum and its chain.
pub(super) fn verify_store(
    sql: &Connection,
    row_cache: &RowCache,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<String>, SqliteError> {
    // Check the page structure, because queries cannot see unreachable entries.
    let mut wrong = query_all(sql, "PRAGMA integrity_check(20)", [], |row| Ok(row.get::<_, String>(0)?))?;
    wrong.retain(|line| line != "ok");
    let sessions = query_all(sql, "SELECT no, session FROM flyball_sessions ORDER BY no", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    for (no, session) in &sessions {
        note_damage(&mut wrong, load(sql, row_cache, session).map(|_| ()))?;
        note_damage(&mut wrong, check_ids(sql, row_cache, *no, session))?;
    }
    note_damage(&mut wrong, check_events(sql, &sessions.into_iter().collect(), progress))?;
    Ok(wrong)
}

/// Records corruption as a finding; any other error aborts.
fn note_damage(wrong: &mut Vec<String>, outcome: Result<(), SqliteError>) -> Result<(), SqliteError> {
    match outcome {
        Err(SqliteError::Corrupt(what)) => {
            wrong.push(what);
            Ok(())
        }
        other => other,
    }
}

/// Checks all events in storage order: each must follow its session's previous event.
fn check_events(
    sql: &Connection,
    names: &BTreeMap<i64, String>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), SqliteError> {
    let query = format!("SELECT {EVENT_COLUMNS}, pos FROM flyball_events ORDER BY pos");
    let mut statement = sql.prepare_cached(&query)?;
    let mut found = statement.query([])?;
    let mut before: BTreeMap<i64, (u64, ChainHash, i64)> = BTreeMap::new();
    let mut seen = 0_u64;
    while let Some(row) = found.next()? {
        let (no, place): (i64, i64) = (row.get(14)?, row.get(15)?);
        // The last event of a pruned session may remain, because it keeps the position counter.
        let Some(session) = names.get(&no) else { continue };
        let record = rows::record(row, session)?;
        // Pruned events are at the front, so the first remaining event has no predecessor to compare with.
        let start = (record.seq == 1).then_some((0, [0; 16], 0));
        if let Some((seq, chain, prev)) = before.get(&no).copied().or(start)
            && (record.seq != seq + 1
                || record.chain_hash_after(&chain) != record.chain
                || row.get::<_, i64>(13)? != prev)
        {
            return Err(SqliteError::Corrupt(format!(
                "the chain of session '{session}' breaks at event {}",
                record.seq
            )));
        }
        before.insert(no, (record.seq, record.chain, place));
        seen += 1;
        if seen.is_multiple_of(PROGRESS_INTERVAL) {
            progress(seen);
        }
    }
    Ok(())
}

fn check_ids(sql: &Connection, row_cache: &RowCache, no: i64, session: &str) -> Result<(), SqliteError> {
    let listed = query_all(sql, "SELECT id, seq FROM flyball_ids WHERE no = ?1", params![no], |row| {
        Ok((row.get::<_, String>(0)?, rows::to_u64(row.get(1)?)))
    })?;
    for (id, seq) in listed {
        match find_by_id(sql, row_cache, session, &id)? {
            Some(found) if found.seq == seq => {}
            _ => {
                return Err(SqliteError::Corrupt(format!("an id of session '{session}' cannot be found")));
            }
        }
    }
    Ok(())
}
