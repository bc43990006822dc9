//! What workers and subscribers need: leases, the outbox, and the order of all events.

use super::link::Link;
use super::load::limit;
use super::rows::{self, Fields, at_most, bits, clock, stored};
use super::trouble::Fault;
use crate::error::StoreError;
use crate::journal::{Cursor, Entry, Errand, Lease, Result, Settled, Sighting};
use crate::record::Head;

/// A new session starts with a head of its own. One that is held by somebody else is left alone; the holder of a
/// lease that lives gets the same epoch again.
const LEASE: &str = concat!(
    "INSERT INTO flyball_sessions AS s (session, rev, epoch, seq, chain, policy, snapshot, started, updated, status, \
     warnings, blocks, halts, sum, holder, lease_until) \
     VALUES ($1, 0, 1, 0, $2, $3, 0, 0, 0, $4, 0, 0, 0, $5, $6, ",
    clock!(),
    " + $7) ON CONFLICT (session) DO UPDATE SET \
     epoch = CASE WHEN s.holder = excluded.holder AND s.lease_until > ",
    clock!(),
    " THEN s.epoch ELSE s.epoch + 1 END, holder = excluded.holder, lease_until = ",
    clock!(),
    " + $7 WHERE s.holder IS NULL OR s.holder = excluded.holder OR s.lease_until <= ",
    clock!(),
    " RETURNING epoch"
);
const RENEW: &str = concat!(
    "UPDATE flyball_sessions SET lease_until = ",
    clock!(),
    " + $4 WHERE session = $1 AND holder = $2 AND epoch = $3 AND lease_until > ",
    clock!()
);
const LEASES: &str = concat!(
    "SELECT session, holder, epoch FROM flyball_sessions WHERE holder IS NOT NULL AND lease_until > ",
    clock!(),
    " ORDER BY session"
);
const FREE: &str = "UPDATE flyball_sessions SET holder = NULL, lease_until = 0 \
    WHERE session = $1 AND holder = $2 AND epoch = $3";
const CLAIM: &str = concat!(
    "WITH due AS MATERIALIZED (SELECT key FROM flyball_outbox WHERE state = 'waiting' AND due <= ",
    clock!(),
    " ORDER BY due, number LIMIT $1 FOR UPDATE SKIP LOCKED), \
     mine AS (UPDATE flyball_outbox o SET due = ",
    clock!(),
    " + $2, attempts = attempts + 1 FROM due WHERE o.key = due.key RETURNING o.number, ",
    rows::errand_columns!(),
    ") SELECT key, session, effect, sink, payload, state, attempts - 1 AS attempts, due, error FROM mine ORDER BY number"
);
const DONE: &str = "UPDATE flyball_outbox SET state = 'done', error = NULL \
    WHERE key = $1 AND state <> 'done'";
const AGAIN: &str = concat!(
    "UPDATE flyball_outbox SET error = $2, due = ",
    clock!(),
    " + $3 WHERE key = $1 AND state = 'waiting'"
);
const DEAD: &str = "UPDATE flyball_outbox SET state = 'dead', error = $2 \
    WHERE key = $1 AND state = 'waiting'";
/// Numbers are given when a transaction begins to write, not when it commits. So only events of transactions that
/// are older than all that still run are shown: none can come before them any more.
const SINCE: &str = concat!(
    "SELECT e.tx::text, e.pos, e.session, ",
    rows::record_columns!(),
    " FROM flyball_events e WHERE (e.tx, e.pos) > ($1::text::xid8, $2::bigint) \
     AND e.tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY e.tx, e.pos LIMIT $3"
);
const SIGHTINGS: &str = "SELECT e.tx::text, e.pos, e.session, e.seq FROM flyball_events e \
     WHERE (e.tx, e.pos) > ($1::text::xid8, $2::bigint) AND e.tx < pg_snapshot_xmin(pg_current_snapshot()) \
     ORDER BY e.tx, e.pos LIMIT $3";
const NEWEST: &str = "SELECT e.tx::text, e.pos FROM flyball_events e \
     WHERE e.tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY e.tx DESC, e.pos DESC LIMIT 1";
const NOW: &str = concat!("SELECT ", clock!());

/// Takes a session for a while.
pub(super) fn lease(link: &Link, session: &str, holder: &str, ttl_ms: u64) -> Result<Option<Lease>> {
    let head = Head { session: session.to_owned(), ..Head::default() };
    let epoch = link.write(async |client| {
        let statement = client.prepare_cached(LEASE).await?;
        let row = client
            .query_opt(
                &statement,
                &[
                    &stored(session),
                    &&head.chain[..],
                    &head.policy,
                    &head.glance.status.as_str(),
                    &bits(head.sum()),
                    &stored(holder),
                    &span(ttl_ms),
                ],
            )
            .await?;
        row.map(|row| Fields::new(&row).number()).transpose()
    })?;
    Ok(epoch.map(|epoch| Lease { session: session.to_owned(), holder: holder.to_owned(), epoch }))
}

/// The leases that have not expired.
pub(super) fn leases(link: &Link) -> Result<Vec<Lease>> {
    link.read(async |client| {
        let statement = client.prepare_cached(LEASES).await?;
        let rows = client.query(&statement, &[]).await?;
        let lease = |row| {
            let mut fields = Fields::new(row);
            Ok(Lease { session: fields.text()?, holder: fields.text()?, epoch: fields.number()? })
        };
        rows.iter().map(lease).collect()
    })
}

/// Holds a lease for longer.
pub(super) fn renew(link: &Link, lease: &Lease, ttl_ms: u64) -> Result<bool> {
    link.write(async |client| {
        let statement = client.prepare_cached(RENEW).await?;
        let (session, holder) = (stored(&lease.session), stored(&lease.holder));
        let held =
            client.execute(&statement, &[&session, &holder, &bits(lease.epoch), &span(ttl_ms)]).await?;
        Ok(held > 0)
    })
}

/// Gives a lease back.
pub(super) fn free(link: &Link, lease: &Lease) -> Result<()> {
    link.write(async |client| {
        let statement = client.prepare_cached(FREE).await?;
        let (session, holder) = (stored(&lease.session), stored(&lease.holder));
        client.execute(&statement, &[&session, &holder, &bits(lease.epoch)]).await?;
        Ok(())
    })
}

/// Takes errands whose time has come.
pub(super) fn claim(link: &Link, number: usize, hold_ms: u64) -> Result<Vec<Errand>> {
    link.write(async |client| {
        let statement = client.prepare_cached(CLAIM).await?;
        let rows = client.query(&statement, &[&limit(number), &span(hold_ms)]).await?;
        rows.iter().map(|row| rows::errand(&mut Fields::new(row))).collect()
    })
}

/// Says how an errand went.
pub(super) fn settle(link: &Link, key: &str, how: &Settled) -> Result<()> {
    link.write(async |client| {
        let key = stored(key);
        match how {
            Settled::Done => {
                let statement = client.prepare_cached(DONE).await?;
                client.execute(&statement, &[&key]).await?
            }
            Settled::Again { error, after_ms } => {
                let statement = client.prepare_cached(AGAIN).await?;
                client.execute(&statement, &[&key, &stored(error), &span(*after_ms)]).await?
            }
            Settled::Dead { error } => {
                let statement = client.prepare_cached(DEAD).await?;
                client.execute(&statement, &[&key, &stored(error)]).await?
            }
        };
        Ok(())
    })
}

/// The events of all sessions after a place.
pub(super) fn since(link: &Link, after: Cursor, number: usize) -> Result<Vec<Entry>> {
    later(link, SINCE, (after, number), |cursor, session, fields| {
        let record = rows::record(&session, fields)?;
        Ok(Entry { cursor, session, record })
    })
}

/// Which events of all sessions there are after a place.
pub(super) fn sightings(link: &Link, after: Cursor, number: usize) -> Result<Vec<Sighting>> {
    later(link, SIGHTINGS, (after, number), |cursor, session, fields| {
        Ok(Sighting { cursor, session, seq: fields.number()? })
    })
}

/// What a statement finds of the events after a place, at most so many.
fn later<T>(
    link: &Link,
    statement: &str,
    (after, number): (Cursor, usize),
    read: impl Fn(Cursor, String, &mut Fields<'_>) -> std::result::Result<T, Fault>,
) -> Result<Vec<T>> {
    link.read(async |client| {
        let statement = client.prepare_cached(statement).await?;
        let transaction = after.transaction.to_string();
        let rows =
            client.query(&statement, &[&transaction, &at_most(after.position), &limit(number)]).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut fields = Fields::new(row);
            let cursor = cursor(&mut fields)?;
            let session = fields.text()?;
            found.push(read(cursor, session, &mut fields)?);
        }
        Ok(found)
    })
}

/// The place of the newest event that is settled: no transaction that is under way can still come before it.
pub(super) fn newest(link: &Link) -> Result<Cursor> {
    link.read(async |client| {
        let statement = client.prepare_cached(NEWEST).await?;
        match client.query_opt(&statement, &[]).await? {
            Some(row) => cursor(&mut Fields::new(&row)),
            None => Ok(Cursor::default()),
        }
    })
}

fn cursor(fields: &mut Fields<'_>) -> std::result::Result<Cursor, Fault> {
    let transaction = fields.text()?.parse();
    let transaction =
        transaction.map_err(|_| StoreError::corrupt("the number of a transaction cannot be read"))?;
    Ok(Cursor { transaction, position: fields.number()? })
}

/// The store's clock.
pub(super) fn now(link: &Link) -> Result<u64> {
    link.read(async |client| {
        let statement = client.prepare_cached(NOW).await?;
        Fields::new(&client.query_one(&statement, &[]).await?).number()
    })
}

/// A span of time that can be added to the clock without running over.
fn span(ms: u64) -> i64 {
    at_most(ms).min(i64::MAX / 4)
}
