//! Key-value entries shared by all processes of the store.

use super::SqliteError;
use super::coordination::now;
use super::rows::{to_i64, to_u64};
use crate::kv_store::{KvEntry, Precondition};
use rusqlite::{Connection, OptionalExtension, Row, params};

type SqliteResult<T> = Result<T, SqliteError>;

const COLUMNS: &str = "shelf, key, text, until";

fn parse_entry(row: &Row<'_>) -> rusqlite::Result<KvEntry> {
    let until: Option<i64> = row.get(3)?;
    Ok(KvEntry {
        namespace: row.get(0)?,
        key: row.get(1)?,
        value: row.get(2)?,
        expires_at: until.map(to_u64),
    })
}

/// Puts a note, if the condition holds.
pub(super) fn put(sql: &Connection, new: &KvEntry, only_if: Precondition<'_>) -> SqliteResult<bool> {
    let there = get(sql, &new.namespace, &new.key)?;
    let holds = match only_if {
        Precondition::Any => true,
        Precondition::Absent => there.is_none(),
        Precondition::Equals(text) => there.is_some_and(|there| there.value == text),
    };
    if holds {
        let write = "INSERT INTO flyball_notes (shelf, key, text, until) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (shelf, key) DO UPDATE SET text = excluded.text, until = excluded.until";
        let until = new.expires_at.map(to_i64);
        sql.prepare_cached(write)?.execute(params![new.namespace, new.key, new.value, until])?;
    }
    Ok(holds)
}

/// Reads an unexpired entry.
pub(super) fn get(sql: &Connection, namespace: &str, key: &str) -> SqliteResult<Option<KvEntry>> {
    let query = format!(
        "SELECT {COLUMNS} FROM flyball_notes WHERE shelf = ?1 AND key = ?2 AND (until IS NULL OR until > ?3)"
    );
    let now = to_i64(now(sql)?);
    Ok(sql.prepare_cached(&query)?.query_row(params![namespace, key, now], parse_entry).optional()?)
}

/// The notes of a namespace after a key.
pub(super) fn list(
    sql: &Connection,
    namespace: &str,
    after: &str,
    limit: usize,
) -> SqliteResult<Vec<KvEntry>> {
    let query = format!(
        "SELECT {COLUMNS} FROM flyball_notes WHERE shelf = ?1 AND key > ?2 AND (until IS NULL OR until > ?3)
         ORDER BY key LIMIT ?4"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = sql.prepare_cached(&query)?;
    let found = statement.query_map(params![namespace, after, to_i64(now(sql)?), limit], parse_entry)?;
    Ok(found.collect::<rusqlite::Result<Vec<KvEntry>>>()?)
}

/// Deletes and returns an entry.
pub(super) fn take(sql: &Connection, namespace: &str, key: &str) -> SqliteResult<Option<KvEntry>> {
    let found = get(sql, namespace, key)?;
    sql.prepare_cached("DELETE FROM flyball_notes WHERE shelf = ?1 AND key = ?2")?
        .execute(params![namespace, key])?;
    Ok(found)
}

/// Deletes expired entries.
pub(super) fn delete_expired(sql: &Connection) -> SqliteResult<u64> {
    let gone =
        sql.prepare_cached("DELETE FROM flyball_notes WHERE until <= ?1")?.execute([to_i64(now(sql)?)])?;
    Ok(gone as u64)
}
