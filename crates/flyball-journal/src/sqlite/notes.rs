//! Notes that everybody on the store shares.

use super::Fault;
use super::rows::{read, stored};
use super::work::now;
use crate::shelf::{If, Note};
use rusqlite::{Connection, OptionalExtension, Row, params};

type Outcome<T> = Result<T, Fault>;

const COLUMNS: &str = "shelf, key, text, until";

fn note(row: &Row<'_>) -> rusqlite::Result<Note> {
    let until: Option<i64> = row.get(3)?;
    Ok(Note { shelf: row.get(0)?, key: row.get(1)?, text: row.get(2)?, until: until.map(read) })
}

/// Puts a note, if the condition holds.
pub(super) fn put(sql: &Connection, new: &Note, only_if: If<'_>) -> Outcome<bool> {
    let there = find(sql, &new.shelf, &new.key)?;
    let holds = match only_if {
        If::Any => true,
        If::New => there.is_none(),
        If::Was(text) => there.is_some_and(|there| there.text == text),
    };
    if holds {
        let write = "INSERT INTO flyball_notes (shelf, key, text, until) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (shelf, key) DO UPDATE SET text = excluded.text, until = excluded.until";
        let until = new.until.map(stored);
        sql.prepare_cached(write)?.execute(params![new.shelf, new.key, new.text, until])?;
    }
    Ok(holds)
}

/// A note that is not void.
pub(super) fn find(sql: &Connection, shelf: &str, key: &str) -> Outcome<Option<Note>> {
    let query = format!(
        "SELECT {COLUMNS} FROM flyball_notes WHERE shelf = ?1 AND key = ?2 AND (until IS NULL OR until > ?3)"
    );
    let now = stored(now(sql)?);
    Ok(sql.prepare_cached(&query)?.query_row(params![shelf, key, now], note).optional()?)
}

/// The notes of a shelf after a key.
pub(super) fn list(sql: &Connection, shelf: &str, after: &str, limit: usize) -> Outcome<Vec<Note>> {
    let query = format!(
        "SELECT {COLUMNS} FROM flyball_notes WHERE shelf = ?1 AND key > ?2 AND (until IS NULL OR until > ?3)
         ORDER BY key LIMIT ?4"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = sql.prepare_cached(&query)?;
    let found = statement.query_map(params![shelf, after, stored(now(sql)?), limit], note)?;
    Ok(found.collect::<rusqlite::Result<Vec<Note>>>()?)
}

/// Takes a note away.
pub(super) fn take(sql: &Connection, shelf: &str, key: &str) -> Outcome<Option<Note>> {
    let found = find(sql, shelf, key)?;
    sql.prepare_cached("DELETE FROM flyball_notes WHERE shelf = ?1 AND key = ?2")?
        .execute(params![shelf, key])?;
    Ok(found)
}

/// Throws away what is void.
pub(super) fn sweep(sql: &Connection) -> Outcome<u64> {
    let gone =
        sql.prepare_cached("DELETE FROM flyball_notes WHERE until <= ?1")?.execute([stored(now(sql)?)])?;
    Ok(gone as u64)
}
