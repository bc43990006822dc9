//! Reads the whole store and says what is damaged.

use super::Fault;
use super::load::{all, find, load};
use super::numbers::Numbers;
use super::rows::{self, RECORD};
use crate::record::Chain;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;

/// Events between two reports of progress.
const STEP: u64 = 10_000;

/// Every row, its checksum and its chain.
pub(super) fn all_rows(
    sql: &Connection,
    numbers: &Numbers,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<String>, Fault> {
    // How the pages hang together: entries that no query can see any more are found only like this.
    let mut wrong = all(sql, "PRAGMA integrity_check(20)", [], |row| Ok(row.get::<_, String>(0)?))?;
    wrong.retain(|line| line != "ok");
    let sessions = all(sql, "SELECT no, session FROM flyball_sessions ORDER BY no", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    for (no, session) in &sessions {
        note(&mut wrong, load(sql, numbers, session).map(|_| ()))?;
        note(&mut wrong, ids(sql, numbers, *no, session))?;
    }
    note(&mut wrong, events(sql, &sessions.into_iter().collect(), progress))?;
    Ok(wrong)
}

/// Damage is noted and reading goes on; anything else ends it.
fn note(wrong: &mut Vec<String>, outcome: Result<(), Fault>) -> Result<(), Fault> {
    match outcome {
        Err(Fault::Damaged(what)) => {
            wrong.push(what);
            Ok(())
        }
        other => other,
    }
}

/// All events in the order they were stored: each must follow on its session's event before it.
fn events(
    sql: &Connection,
    names: &BTreeMap<i64, String>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Fault> {
    let query = format!("SELECT {RECORD}, pos FROM flyball_events ORDER BY pos");
    let mut statement = sql.prepare_cached(&query)?;
    let mut found = statement.query([])?;
    let mut before: BTreeMap<i64, (u64, Chain, i64)> = BTreeMap::new();
    let mut seen = 0_u64;
    while let Some(row) = found.next()? {
        let (no, place): (i64, i64) = (row.get(14)?, row.get(15)?);
        // The last event of a session that was pruned may be left: it holds its place in the order.
        let Some(session) = names.get(&no) else { continue };
        let record = rows::record(row, session)?;
        // What was pruned is at the front: the first event that is left has nothing to be compared with.
        let start = (record.seq == 1).then_some((0, [0; 16], 0));
        if let Some((seq, chain, prev)) = before.get(&no).copied().or(start)
            && (record.seq != seq + 1
                || record.chained(&chain) != record.chain
                || row.get::<_, i64>(13)? != prev)
        {
            return Err(Fault::Damaged(format!(
                "the chain of session '{session}' breaks at event {}",
                record.seq
            )));
        }
        before.insert(no, (record.seq, record.chain, place));
        seen += 1;
        if seen.is_multiple_of(STEP) {
            progress(seen);
        }
    }
    Ok(())
}

fn ids(sql: &Connection, numbers: &Numbers, no: i64, session: &str) -> Result<(), Fault> {
    let listed = all(sql, "SELECT id, seq FROM flyball_ids WHERE no = ?1", params![no], |row| {
        Ok((row.get::<_, String>(0)?, rows::read(row.get(1)?)))
    })?;
    for (id, seq) in listed {
        match find(sql, numbers, session, &id)? {
            Some(found) if found.seq == seq => {}
            _ => return Err(Fault::Damaged(format!("an id of session '{session}' is not found again"))),
        }
    }
    Ok(())
}
