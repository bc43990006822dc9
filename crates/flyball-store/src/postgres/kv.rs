//! Key-value entries shared by all processes of the store.

use super::load::limit;
use super::pg_error::PostgresError;
use super::pool::PostgresPool;
use super::rows::{clock, decode_text, stored};
use crate::event_store::StoreResult;
use crate::kv_store::{KvEntry, Precondition};
use tokio_postgres::Row;

macro_rules! live {
    () => {
        concat!("(n.until IS NULL OR n.until > ", clock!(), ")")
    };
}

const PUT: &str = "INSERT INTO flyball_notes AS n (shelf, key, text, until) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (shelf, key) DO UPDATE SET text = excluded.text, until = excluded.until";
/// An expired entry counts as absent.
const PUT_IF_ABSENT: &str = concat!(
    "INSERT INTO flyball_notes AS n (shelf, key, text, until) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (shelf, key) DO UPDATE SET text = excluded.text, until = excluded.until WHERE NOT ",
    live!()
);
const PUT_IF_EQUALS: &str = concat!(
    "UPDATE flyball_notes n SET text = $3, until = $4 WHERE n.shelf = $1 AND n.key = $2 AND n.text = $5 AND ",
    live!()
);
const GET: &str = concat!(
    "SELECT n.shelf, n.key, n.text, n.until FROM flyball_notes n WHERE n.shelf = $1 AND n.key = $2 AND ",
    live!()
);
const LIST: &str = concat!(
    "SELECT n.shelf, n.key, n.text, n.until FROM flyball_notes n WHERE n.shelf = $1 AND n.key > $2 AND ",
    live!(),
    " ORDER BY n.key LIMIT $3"
);
const TAKE: &str = concat!(
    "DELETE FROM flyball_notes n WHERE n.shelf = $1 AND n.key = $2 AND ",
    live!(),
    " RETURNING n.shelf, n.key, n.text, n.until"
);
const DELETE_EXPIRED: &str = concat!("DELETE FROM flyball_notes WHERE until <= ", clock!());

fn parse_entry(row: &Row) -> std::result::Result<KvEntry, PostgresError> {
    let until: Option<i64> = row.try_get(3)?;
    Ok(KvEntry {
        namespace: decode_text(row.try_get(0)?),
        key: decode_text(row.try_get(1)?),
        value: decode_text(row.try_get(2)?),
        expires_at: until.and_then(|until| u64::try_from(until).ok()),
    })
}

/// Puts a note, if the condition holds.
pub(super) fn put(pool: &PostgresPool, new: &KvEntry, only_if: Precondition<'_>) -> StoreResult<bool> {
    let until = new.expires_at.map(|until| i64::try_from(until).unwrap_or(i64::MAX));
    let (namespace, key, text) = (stored(&new.namespace), stored(&new.key), stored(&new.value));
    pool.write(async |client| {
        let changed = match only_if {
            Precondition::Any => client.execute(PUT, &[&namespace, &key, &text, &until]).await?,
            Precondition::Absent => client.execute(PUT_IF_ABSENT, &[&namespace, &key, &text, &until]).await?,
            Precondition::Equals(was) => {
                client.execute(PUT_IF_EQUALS, &[&namespace, &key, &text, &until, &stored(was)]).await?
            }
        };
        Ok(changed == 1)
    })
}

/// A note that is not void.
pub(super) fn get(pool: &PostgresPool, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>> {
    pool.read(async |client| {
        let statement = client.prepare_cached(GET).await?;
        let row = client.query_opt(&statement, &[&stored(namespace), &stored(key)]).await?;
        row.as_ref().map(parse_entry).transpose()
    })
}

/// The notes of a namespace after a key.
pub(super) fn list(
    pool: &PostgresPool,
    namespace: &str,
    after: &str,
    number: usize,
) -> StoreResult<Vec<KvEntry>> {
    pool.read(async |client| {
        let statement = client.prepare_cached(LIST).await?;
        let rows = client.query(&statement, &[&stored(namespace), &stored(after), &limit(number)]).await?;
        rows.iter().map(parse_entry).collect()
    })
}

/// Takes a note away.
pub(super) fn take(pool: &PostgresPool, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>> {
    pool.write(async |client| {
        let row = client.query_opt(TAKE, &[&stored(namespace), &stored(key)]).await?;
        row.as_ref().map(parse_entry).transpose()
    })
}

/// Deletes expired entries.
pub(super) fn delete_expired(pool: &PostgresPool) -> StoreResult<u64> {
    pool.write(async |client| Ok(client.execute(DELETE_EXPIRED, &[]).await?))
}
