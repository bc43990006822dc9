//! Storing units: one transaction for all of them, in two round trips.
//!
//! The first round locks the heads of all sessions, in their order, and finds out which units are stale. The second
//! carries everything else and the commit. It may, because no statement in it can quietly do less than it should: a
//! head that is not where it was makes its statement fail, and a transaction with a failed statement in it cannot
//! commit.

use super::link::Link;
use super::rows::{Fields, stored};
use super::trouble::{Fault, unknown};
use super::writes::{self, Write};
use crate::journal::{Appended, Result, Unit};
use crate::probe::Point;
use crate::record::Change;
use deadpool_postgres::ClientWrapper;
use futures_util::future::{join, join_all};
use std::cell::Cell;
use std::collections::BTreeMap;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

/// How often a transaction that lost a race is tried again.
const TRIES: u32 = 8;
/// Up to here the commit goes with the writes. A larger batch could hold a message that cannot be sent at all, and
/// then the commit must not go without it.
const TOGETHER_BYTES: usize = 16 * 1024 * 1024;

const LOCK: &str =
    "SELECT session, rev, epoch FROM flyball_sessions WHERE session = ANY($1) ORDER BY session FOR UPDATE";

/// Where a session stands before a change.
#[derive(Clone, Copy)]
struct Place {
    rev: u64,
    epoch: u64,
}

/// Stores units in one transaction.
pub(super) fn append(link: &Link, units: &[Unit]) -> Result<Vec<Appended>> {
    if units.iter().all(|unit| unit.changes.is_empty()) {
        return Ok(vec![Appended::Done; units.len()]);
    }
    let mut tries = 1;
    loop {
        let committing = Cell::new(false);
        match link.run(async |client| attempt(client, link, units, &committing).await) {
            Ok(answer) => return Ok(answer),
            Err(fault) if committing.get() && fault.lost() => return Err(unknown()),
            // A connection that had died before it was asked for anything: another one may live.
            Err(fault) if tries < TRIES && (fault.again() || closed(&fault)) => tries += 1,
            Err(fault) => return Err(fault.undone()),
        }
    }
}

fn closed(fault: &Fault) -> bool {
    matches!(fault, Fault::Sql(error) if error.is_closed())
}

async fn attempt(
    client: &ClientWrapper,
    link: &Link,
    units: &[Unit],
    committing: &Cell<bool>,
) -> std::result::Result<Vec<Appended>, Fault> {
    let mut places = lock(client, units).await?;
    link.probe.pass(Point::InTransaction);
    let answer: Vec<Appended> = units.iter().map(|unit| judge(unit, &mut places)).collect();
    let taken = units.iter().zip(&answer).filter(|(_, what)| **what == Appended::Done);
    let mut waves = waves(taken.flat_map(|(unit, _)| &unit.changes));
    let Some(last) = waves.pop() else {
        client.batch_execute("ROLLBACK").await?;
        return Ok(answer);
    };
    for wave in &waves {
        let writes = writes::of(wave);
        settle(send(client, &ready(client, &writes).await?).await)?;
    }
    let bytes: usize = last.iter().map(|change| writes::size(change)).sum();
    let writes = writes::of(&last);
    let ready = ready(client, &writes).await?;
    if bytes > TOGETHER_BYTES {
        settle(send(client, &ready).await)?;
        committing.set(true);
        client.batch_execute("COMMIT").await.map_err(at_commit)?;
    } else {
        committing.set(true);
        // The first poll of each sends it, in this order.
        let (results, commit) = join(send(client, &ready), client.batch_execute("COMMIT")).await;
        if let Err(fault) = settle(results) {
            // The server refused a statement, so it did not commit; or the line broke, and nobody knows.
            committing.set(matches!(&fault, Fault::Sql(error) if error.as_db_error().is_none()));
            return Err(fault);
        }
        commit.map_err(at_commit)?;
    }
    Ok(answer)
}

/// Begins, and locks the heads of all sessions in their order, so that no two transactions wait for each other.
async fn lock(client: &ClientWrapper, units: &[Unit]) -> std::result::Result<BTreeMap<String, Place>, Fault> {
    let mut names: Vec<_> =
        units.iter().flat_map(|unit| &unit.changes).map(|change| stored(&change.head.session)).collect();
    names.sort_unstable();
    names.dedup();
    let statement = client.prepare_cached(LOCK).await?;
    let (begun, rows) = join(client.batch_execute("BEGIN"), client.query(&statement, &[&names])).await;
    begun?;
    let mut places = BTreeMap::new();
    for row in rows? {
        let mut fields = Fields::new(&row);
        let session = fields.text()?;
        places.insert(session, Place { rev: fields.number()?, epoch: fields.number()? });
    }
    Ok(places)
}

/// What becomes of a unit, if it is stored after those before it.
fn judge(unit: &Unit, places: &mut BTreeMap<String, Place>) -> Appended {
    let mut moved: BTreeMap<&str, Place> = BTreeMap::new();
    let mut answer = Appended::Done;
    for change in &unit.changes {
        let session = change.head.session.as_str();
        let here = moved.get(session).or_else(|| places.get(session));
        match here {
            Some(place) if place.epoch != change.epoch => return Appended::Fenced,
            Some(place) if change.new || change.head.rev != place.rev.wrapping_add(1) => {
                answer = Appended::Stale;
            }
            None if !change.new || change.head.rev != 1 => answer = Appended::Stale,
            _ => {}
        }
        moved.insert(session, Place { rev: change.head.rev, epoch: change.epoch });
    }
    if answer == Appended::Done {
        places.extend(moved.into_iter().map(|(session, place)| (session.to_owned(), place)));
    }
    answer
}

/// The changes in waves, in each of which no session comes twice; a session's changes stay in their order.
fn waves<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<Vec<&'a Change>> {
    let mut waves: Vec<Vec<&Change>> = Vec::new();
    let mut turn: BTreeMap<&str, usize> = BTreeMap::new();
    for change in changes {
        let number = turn.entry(&change.head.session).or_default();
        if waves.len() == *number {
            waves.push(Vec::new());
        }
        if let Some(wave) = waves.get_mut(*number) {
            wave.push(change);
        }
        *number += 1;
    }
    for wave in &mut waves {
        wave.sort_unstable_by(|a, b| a.head.session.cmp(&b.head.session));
    }
    waves
}

/// A statement that the server knows, and its values.
type Ready<'a> = (Statement, Vec<&'a (dyn ToSql + Sync)>);
type Sent = Vec<std::result::Result<u64, tokio_postgres::Error>>;

/// Makes the statements known to the server; those that it knows cost nothing.
async fn ready<'a>(
    client: &ClientWrapper,
    writes: &'a [Write<'_>],
) -> std::result::Result<Vec<Ready<'a>>, Fault> {
    let mut ready = Vec::with_capacity(writes.len());
    for write in writes {
        let values = write.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        ready.push((client.prepare_cached(write.sql).await?, values));
    }
    Ok(ready)
}

/// Sends writes one behind the other, without waiting for answers in between, and waits for all of them.
async fn send(client: &ClientWrapper, ready: &[Ready<'_>]) -> Sent {
    join_all(ready.iter().map(|(statement, values)| client.execute(statement, values))).await
}

/// What an error in answer to the commit means: only a lost race is certain not to have happened.
fn at_commit(error: tokio_postgres::Error) -> Fault {
    let fault = Fault::Sql(error);
    if fault.again() { fault } else { unknown().into() }
}

/// The first thing that went wrong. A word of the server counts more than a broken line: it is certain.
fn settle(results: Sent) -> std::result::Result<(), Fault> {
    let mut errors: Vec<_> = results.into_iter().filter_map(std::result::Result::err).collect();
    let said = errors.iter().position(|error| error.as_db_error().is_some()).unwrap_or_default();
    if errors.is_empty() {
        return Ok(());
    }
    let error = errors.swap_remove(said);
    match error.code().map(|code| code.code()) {
        Some("22012") => {
            Err(Fault::Again("a session was made by somebody else at the same moment".to_owned()))
        }
        _ => Err(error.into()),
    }
}
