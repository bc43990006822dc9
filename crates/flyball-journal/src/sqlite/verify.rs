//! Reads the whole store and says what is damaged.

use super::Fault;
use super::load::{Numbers, all, find, load};
use super::rows::{self, RECORD};
use crate::record::Chain;
use rusqlite::{Connection, params};

/// Events between two reports of progress.
const STEP: u64 = 10_000;

/// Every row, its checksum and its chain.
pub(super) fn all_rows(
    sql: &Connection,
    numbers: &Numbers,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<String>, Fault> {
    let mut wrong = Vec::new();
    let mut seen = 0;
    let sessions = all(sql, "SELECT no, session FROM flyball_sessions ORDER BY no", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    for (no, session) in sessions {
        note(&mut wrong, load(sql, numbers, &session).map(|_| ()))?;
        note(&mut wrong, events(sql, no, &session, &mut seen, progress))?;
        note(&mut wrong, ids(sql, numbers, no, &session))?;
    }
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

fn events(
    sql: &Connection,
    no: i64,
    session: &str,
    seen: &mut u64,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Fault> {
    let query = format!("SELECT {RECORD} FROM flyball_events WHERE no = ?1 ORDER BY seq");
    let mut statement = sql.prepare_cached(&query)?;
    let mut found = statement.query([no])?;
    let mut before: Option<(u64, Chain)> = None;
    while let Some(row) = found.next()? {
        let record = rows::record(row, session)?;
        // What was pruned is at the front: the first event that is left has nothing to be compared with.
        let start = (record.seq == 1).then_some((0, [0; 16]));
        if let Some((seq, chain)) = before.or(start)
            && (record.seq != seq + 1 || record.chained(&chain) != record.chain)
        {
            return Err(Fault::Damaged(format!(
                "the chain of session '{session}' breaks at event {}",
                record.seq
            )));
        }
        before = Some((record.seq, record.chain));
        *seen += 1;
        if seen.is_multiple_of(STEP) {
            progress(*seen);
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
