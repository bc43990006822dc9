//! Leases and the outbox, on the store's own time.

use super::Fault;
use super::append;
use super::load::{all, head};
use super::rows::{self, ERRAND, read, stored};
use crate::journal::{Errand, ErrandState, Lease, Settled};
use crate::record::Head;
use rusqlite::{Connection, params};

type Outcome<T> = Result<T, Fault>;

/// The store's clock, in milliseconds since 1970.
pub(super) fn now(sql: &Connection) -> rusqlite::Result<u64> {
    let clock = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)";
    Ok(read(sql.prepare_cached(clock)?.query_row([], |row| row.get(0))?))
}

/// Takes a session.
pub(super) fn lease(sql: &Connection, session: &str, holder: &str, ttl_ms: u64) -> Outcome<Option<Lease>> {
    let now = now(sql)?;
    let no = match head(sql, session)? {
        Some((no, _)) => no,
        None => append::insert(sql, &Head { session: session.to_owned(), ..Head::default() }, 0, 0)?,
    };
    let query = "SELECT holder, lease_until, epoch FROM flyball_sessions WHERE no = ?1";
    let (present, until, epoch): (Option<String>, i64, i64) =
        sql.prepare_cached(query)?.query_row([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let live = read(until) > now;
    if live && present.as_deref() != Some(holder) {
        return Ok(None);
    }
    let epoch = if live { read(epoch) } else { read(epoch).wrapping_add(1) };
    let take = "UPDATE flyball_sessions SET holder = ?1, lease_until = ?2, epoch = ?3 WHERE no = ?4";
    sql.prepare_cached(take)?.execute(params![
        holder,
        stored(now.saturating_add(ttl_ms)),
        stored(epoch),
        no
    ])?;
    Ok(Some(Lease { session: session.to_owned(), holder: holder.to_owned(), epoch }))
}

/// The leases that have not expired.
pub(super) fn leases(sql: &Connection) -> Outcome<Vec<Lease>> {
    let query = "SELECT session, holder, epoch FROM flyball_sessions
                 WHERE holder IS NOT NULL AND lease_until > ?1 ORDER BY session";
    all(sql, query, [stored(now(sql)?)], |row| {
        Ok(Lease { session: row.get(0)?, holder: row.get(1)?, epoch: read(row.get(2)?) })
    })
}

/// Holds a lease for longer.
pub(super) fn renew(sql: &Connection, lease: &Lease, ttl_ms: u64) -> Outcome<bool> {
    let now = now(sql)?;
    let update = "UPDATE flyball_sessions SET lease_until = ?1
                  WHERE session = ?2 AND holder = ?3 AND epoch = ?4 AND lease_until > ?5";
    let until = stored(now.saturating_add(ttl_ms));
    let held = params![until, lease.session, lease.holder, stored(lease.epoch), stored(now)];
    Ok(sql.prepare_cached(update)?.execute(held)? == 1)
}

/// Gives a lease back.
pub(super) fn free(sql: &Connection, lease: &Lease) -> Outcome<()> {
    let update = "UPDATE flyball_sessions SET holder = NULL, lease_until = 0
                  WHERE session = ?1 AND holder = ?2 AND epoch = ?3";
    sql.prepare_cached(update)?.execute(params![lease.session, lease.holder, stored(lease.epoch)])?;
    Ok(())
}

/// Takes errands whose time has come.
pub(super) fn claim(sql: &Connection, limit: usize, hold_ms: u64) -> Outcome<Vec<Errand>> {
    let now = now(sql)?;
    let query = format!(
        "SELECT {ERRAND} FROM flyball_outbox WHERE state = 'waiting' AND due <= ?1 ORDER BY due, key LIMIT ?2"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let due = all(sql, &query, params![stored(now), limit], rows::errand)?;
    let hold = "UPDATE flyball_outbox SET due = ?1, attempts = attempts + 1 WHERE key = ?2";
    for errand in &due {
        sql.prepare_cached(hold)?.execute(params![stored(now.saturating_add(hold_ms)), errand.key])?;
    }
    Ok(due)
}

/// Says how an errand went.
pub(super) fn settle(sql: &Connection, key: &str, how: &Settled) -> Outcome<()> {
    let now = now(sql)?;
    let (state, due, error) = match how {
        Settled::Done => (ErrandState::Done, now, None),
        Settled::Again { error, after_ms } => {
            (ErrandState::Waiting, now.saturating_add(*after_ms), Some(error.as_str()))
        }
        Settled::Dead { error } => (ErrandState::Dead, now, Some(error.as_str())),
    };
    let update =
        "UPDATE flyball_outbox SET state = ?1, due = ?2, error = ?3 WHERE key = ?4 AND state <> 'done'";
    sql.prepare_cached(update)?.execute(params![state.as_str(), stored(due), error, key])?;
    Ok(())
}

/// Writes something that nobody reads: a commit shows whether the store still stores.
pub(super) fn touch(sql: &Connection) -> rusqlite::Result<()> {
    let touch = "INSERT INTO flyball_meta (key, value) VALUES ('touched', lower(hex(randomblob(8))))
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    sql.execute(touch, []).map(|_| ())
}
