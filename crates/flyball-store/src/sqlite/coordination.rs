//! Leases and the outbox, based on the store's clock.

use super::SqliteError;
use super::append;
use super::load::{head, query_all};
use super::rows::{self, OUTBOX_COLUMNS, to_i64, to_u64};
use crate::event_store::{DeliveryOutcome, Lease, OutboxMessage, OutboxState};
use crate::record::SessionRow;
use rusqlite::{Connection, params};

type SqliteResult<T> = Result<T, SqliteError>;

/// The store's clock, in milliseconds since the Unix epoch.
pub(super) fn now(sql: &Connection) -> rusqlite::Result<u64> {
    let clock = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)";
    Ok(to_u64(sql.prepare_cached(clock)?.query_row([], |row| row.get(0))?))
}

/// Leases a session.
pub(super) fn acquire_lease(
    sql: &Connection,
    session: &str,
    holder: &str,
    ttl_ms: u64,
) -> SqliteResult<Option<Lease>> {
    let now = now(sql)?;
    let no = match head(sql, session)? {
        Some((no, _)) => no,
        None => append::insert_session(
            sql,
            &SessionRow { session: session.to_owned(), ..SessionRow::default() },
            0,
            0,
        )?,
    };
    let query = "SELECT holder, lease_until, epoch FROM flyball_sessions WHERE no = ?1";
    let (present, until, epoch): (Option<String>, i64, i64) =
        sql.prepare_cached(query)?.query_row([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let live = to_u64(until) > now;
    if live && present.as_deref() != Some(holder) {
        return Ok(None);
    }
    let epoch = if live { to_u64(epoch) } else { to_u64(epoch).wrapping_add(1) };
    let take = "UPDATE flyball_sessions SET holder = ?1, lease_until = ?2, epoch = ?3 WHERE no = ?4";
    sql.prepare_cached(take)?.execute(params![
        holder,
        to_i64(now.saturating_add(ttl_ms)),
        to_i64(epoch),
        no
    ])?;
    Ok(Some(Lease { session: session.to_owned(), holder: holder.to_owned(), epoch }))
}

/// The unexpired leases.
pub(super) fn leases(sql: &Connection) -> SqliteResult<Vec<Lease>> {
    let query = "SELECT session, holder, epoch FROM flyball_sessions
                 WHERE holder IS NOT NULL AND lease_until > ?1 ORDER BY session";
    query_all(sql, query, [to_i64(now(sql)?)], |row| {
        Ok(Lease { session: row.get(0)?, holder: row.get(1)?, epoch: to_u64(row.get(2)?) })
    })
}

/// Extends a lease.
pub(super) fn renew_lease(sql: &Connection, lease: &Lease, ttl_ms: u64) -> SqliteResult<bool> {
    let now = now(sql)?;
    let update = "UPDATE flyball_sessions SET lease_until = ?1
                  WHERE session = ?2 AND holder = ?3 AND epoch = ?4 AND lease_until > ?5";
    let until = to_i64(now.saturating_add(ttl_ms));
    let held = params![until, lease.session, lease.holder, to_i64(lease.epoch), to_i64(now)];
    Ok(sql.prepare_cached(update)?.execute(held)? == 1)
}

/// Releases a lease.
pub(super) fn release_lease(sql: &Connection, lease: &Lease) -> SqliteResult<()> {
    let update = "UPDATE flyball_sessions SET holder = NULL, lease_until = 0
                  WHERE session = ?1 AND holder = ?2 AND epoch = ?3";
    sql.prepare_cached(update)?.execute(params![lease.session, lease.holder, to_i64(lease.epoch)])?;
    Ok(())
}

/// Claims due outbox messages.
pub(super) fn claim_outbox(sql: &Connection, limit: usize, hold_ms: u64) -> SqliteResult<Vec<OutboxMessage>> {
    let now = now(sql)?;
    let query = format!(
        "SELECT {OUTBOX_COLUMNS} FROM flyball_outbox WHERE state = 'waiting' AND due <= ?1 ORDER BY due, key LIMIT ?2"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let due = query_all(sql, &query, params![to_i64(now), limit], rows::outbox_message)?;
    let hold = "UPDATE flyball_outbox SET due = ?1, attempts = attempts + 1 WHERE key = ?2";
    for message in &due {
        sql.prepare_cached(hold)?.execute(params![to_i64(now.saturating_add(hold_ms)), message.key])?;
    }
    Ok(due)
}

/// Records the outcome of a delivery.
pub(super) fn record_delivery(sql: &Connection, key: &str, how: &DeliveryOutcome) -> SqliteResult<()> {
    let now = now(sql)?;
    let (state, due, error) = match how {
        DeliveryOutcome::Delivered => (OutboxState::Done, now, None),
        DeliveryOutcome::Retry { error, after_ms } => {
            (OutboxState::Waiting, now.saturating_add(*after_ms), Some(error.as_str()))
        }
        DeliveryOutcome::Dead { error } => (OutboxState::Dead, now, Some(error.as_str())),
    };
    let update =
        "UPDATE flyball_outbox SET state = ?1, due = ?2, error = ?3 WHERE key = ?4 AND state <> 'done'";
    sql.prepare_cached(update)?.execute(params![state.as_str(), to_i64(due), error, key])?;
    Ok(())
}

/// Writes a throwaway value: a commit shows whether the store still works.
pub(super) fn write_probe(sql: &Connection) -> rusqlite::Result<()> {
    let touch = "INSERT INTO flyball_meta (key, value) VALUES ('touched', lower(hex(randomblob(8))))
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    sql.execute(touch, []).map(|_| ())
}
