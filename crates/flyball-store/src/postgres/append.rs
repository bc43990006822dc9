//! Append: stores units in one transaction with two round trips.
//!
//! The first round trip locks the rows of all sessions, in sorted order, and determines which units are stale. The
//! second carries all writes and the commit. This is safe because no write can silently do less than intended: a
//! session row with an unexpected revision makes its statement fail, and a transaction with a failed statement cannot
//! commit.

use super::pg_error::{PostgresError, outcome_unknown};
use super::pool::PostgresPool;
use super::rows::{RowReader, stored};
use super::writes::{self, WriteStatement};
use crate::event_store::{AppendOutcome, AppendUnit, StoreResult};
use crate::failpoint::Failpoint;
use crate::record::SessionChange;
use deadpool_postgres::ClientWrapper;
use futures_util::future::{join, join_all};
use std::cell::Cell;
use std::collections::BTreeMap;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

/// Maximum attempts for a transaction that loses a race.
const MAX_ATTEMPTS: u32 = 8;
/// Up to this size the commit is pipelined with the writes. A larger batch could contain a message that cannot be
/// sent at all, and the commit must not be sent without it.
const MAX_PIPELINED_COMMIT_BYTES: usize = 16 * 1024 * 1024;

const LOCK_SESSIONS: &str =
    "SELECT session, rev, epoch FROM flyball_sessions WHERE session = ANY($1) ORDER BY session FOR UPDATE";

/// Version of a session before a change.
#[derive(Clone, Copy)]
struct SessionVersion {
    rev: u64,
    epoch: u64,
}

/// Stores units in one transaction.
pub(super) fn append(pool: &PostgresPool, units: &[AppendUnit]) -> StoreResult<Vec<AppendOutcome>> {
    if units.iter().all(|unit| unit.changes.is_empty()) {
        return Ok(vec![AppendOutcome::Done; units.len()]);
    }
    let mut tries = 1;
    loop {
        let committing = Cell::new(false);
        match pool.run(async |client| attempt(client, pool, units, &committing).await) {
            Ok(answer) => return Ok(answer),
            Err(error) if committing.get() && error.is_connection_lost() => return Err(outcome_unknown()),
            // This connection was already dead before it was used; another one may work.
            Err(error) if tries < MAX_ATTEMPTS && (error.is_retryable() || is_closed(&error)) => tries += 1,
            Err(error) => return Err(error.into_store_error()),
        }
    }
}

fn is_closed(fault: &PostgresError) -> bool {
    matches!(fault, PostgresError::Sql(error) if error.is_closed())
}

async fn attempt(
    client: &ClientWrapper,
    pool: &PostgresPool,
    units: &[AppendUnit],
    committing: &Cell<bool>,
) -> std::result::Result<Vec<AppendOutcome>, PostgresError> {
    let mut places = begin_and_lock(client, units).await?;
    pool.failpoints.reach(Failpoint::InTransaction);
    let answer: Vec<AppendOutcome> = units.iter().map(|unit| check_unit(unit, &mut places)).collect();
    let taken = units.iter().zip(&answer).filter(|(_, what)| **what == AppendOutcome::Done);
    let mut waves = waves(taken.flat_map(|(unit, _)| &unit.changes));
    let Some(last) = waves.pop() else {
        client.batch_execute("ROLLBACK").await?;
        return Ok(answer);
    };
    for wave in &waves {
        let writes = writes::statements_for(wave);
        first_error(execute_writes(client, &prepare_writes(client, &writes).await?).await)?;
    }
    let bytes: usize = last.iter().map(|change| writes::estimated_bytes(change)).sum();
    let writes = writes::statements_for(&last);
    let ready = prepare_writes(client, &writes).await?;
    if bytes > MAX_PIPELINED_COMMIT_BYTES {
        first_error(execute_writes(client, &ready).await)?;
        committing.set(true);
        client.batch_execute("COMMIT").await.map_err(commit_error)?;
    } else {
        committing.set(true);
        // The first poll of each future sends it, in this order.
        let (results, commit) = join(execute_writes(client, &ready), client.batch_execute("COMMIT")).await;
        if let Err(fault) = first_error(results) {
            // If the server rejected a statement, it did not commit. If the connection broke, the outcome is unknown.
            committing.set(matches!(&fault, PostgresError::Sql(error) if error.as_db_error().is_none()));
            return Err(fault);
        }
        commit.map_err(commit_error)?;
    }
    Ok(answer)
}

/// Begins a transaction and locks the rows of all sessions in sorted order, which prevents deadlocks.
async fn begin_and_lock(
    client: &ClientWrapper,
    units: &[AppendUnit],
) -> std::result::Result<BTreeMap<String, SessionVersion>, PostgresError> {
    let mut names: Vec<_> =
        units.iter().flat_map(|unit| &unit.changes).map(|change| stored(&change.head.session)).collect();
    names.sort_unstable();
    names.dedup();
    let statement = client.prepare_cached(LOCK_SESSIONS).await?;
    let (begun, rows) = join(client.batch_execute("BEGIN"), client.query(&statement, &[&names])).await;
    begun?;
    let mut places = BTreeMap::new();
    for row in rows? {
        let mut fields = RowReader::new(&row);
        let session = fields.text()?;
        places.insert(session, SessionVersion { rev: fields.number()?, epoch: fields.number()? });
    }
    Ok(places)
}

/// Outcome of a unit, given the units before it.
fn check_unit(unit: &AppendUnit, places: &mut BTreeMap<String, SessionVersion>) -> AppendOutcome {
    let mut moved: BTreeMap<&str, SessionVersion> = BTreeMap::new();
    let mut answer = AppendOutcome::Done;
    for change in &unit.changes {
        let session = change.head.session.as_str();
        let here = moved.get(session).or_else(|| places.get(session));
        match here {
            Some(place) if place.epoch != change.epoch => return AppendOutcome::Fenced,
            Some(place) if change.new || change.head.rev != place.rev.wrapping_add(1) => {
                answer = AppendOutcome::Stale;
            }
            None if !change.new || change.head.rev != 1 => answer = AppendOutcome::Stale,
            _ => {}
        }
        moved.insert(session, SessionVersion { rev: change.head.rev, epoch: change.epoch });
    }
    if answer == AppendOutcome::Done {
        places.extend(moved.into_iter().map(|(session, place)| (session.to_owned(), place)));
    }
    answer
}

/// Splits changes into waves in which each session occurs at most once; the order per session is kept.
fn waves<'a>(changes: impl Iterator<Item = &'a SessionChange>) -> Vec<Vec<&'a SessionChange>> {
    let mut waves: Vec<Vec<&SessionChange>> = Vec::new();
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

/// A prepared statement and its parameters.
type PreparedWrite<'a> = (Statement, Vec<&'a (dyn ToSql + Sync)>);
type WriteResults = Vec<std::result::Result<u64, tokio_postgres::Error>>;

/// Prepares the statements; cached ones cost nothing.
async fn prepare_writes<'a>(
    client: &ClientWrapper,
    writes: &'a [WriteStatement<'_>],
) -> std::result::Result<Vec<PreparedWrite<'a>>, PostgresError> {
    let mut ready = Vec::with_capacity(writes.len());
    for write in writes {
        let values = write.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        ready.push((client.prepare_cached(write.sql).await?, values));
    }
    Ok(ready)
}

/// Pipelines the writes and waits for all results.
async fn execute_writes(client: &ClientWrapper, ready: &[PreparedWrite<'_>]) -> WriteResults {
    join_all(ready.iter().map(|(statement, values)| client.execute(statement, values))).await
}

/// Interprets an error of the commit: only a serialization failure or a deadlock certainly did not commit.
fn commit_error(error: tokio_postgres::Error) -> PostgresError {
    let fault = PostgresError::Sql(error);
    if fault.is_retryable() { fault } else { outcome_unknown().into() }
}

/// The most significant error. A reply of the server outranks a broken connection, because it is certain.
fn first_error(results: WriteResults) -> std::result::Result<(), PostgresError> {
    let mut errors: Vec<_> = results.into_iter().filter_map(std::result::Result::err).collect();
    let said = errors.iter().position(|error| error.as_db_error().is_some()).unwrap_or_default();
    if errors.is_empty() {
        return Ok(());
    }
    let error = errors.swap_remove(said);
    match error.code().map(|code| code.code()) {
        Some("22012") => {
            Err(PostgresError::Again("another writer created the same session concurrently".to_owned()))
        }
        _ => Err(error.into()),
    }
}
