//! Notes that everybody on the store shares.

use super::link::Link;
use super::load::limit;
use super::rows::{clock, stored, unstored};
use super::trouble::Fault;
use crate::journal::Result;
use crate::shelf::{If, Note};
use tokio_postgres::Row;

macro_rules! live {
    () => {
        concat!("(n.until IS NULL OR n.until > ", clock!(), ")")
    };
}

const PUT: &str = "INSERT INTO flyball_notes AS n (shelf, key, text, until) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (shelf, key) DO UPDATE SET text = excluded.text, until = excluded.until";
/// What is void is as good as nothing.
const PUT_NEW: &str = concat!(
    "INSERT INTO flyball_notes AS n (shelf, key, text, until) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (shelf, key) DO UPDATE SET text = excluded.text, until = excluded.until WHERE NOT ",
    live!()
);
const SWAP: &str = concat!(
    "UPDATE flyball_notes n SET text = $3, until = $4 WHERE n.shelf = $1 AND n.key = $2 AND n.text = $5 AND ",
    live!()
);
const FIND: &str = concat!(
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
const SWEEP: &str = concat!("DELETE FROM flyball_notes WHERE until <= ", clock!());

fn note(row: &Row) -> std::result::Result<Note, Fault> {
    let until: Option<i64> = row.try_get(3)?;
    Ok(Note {
        shelf: unstored(row.try_get(0)?),
        key: unstored(row.try_get(1)?),
        text: unstored(row.try_get(2)?),
        until: until.and_then(|until| u64::try_from(until).ok()),
    })
}

/// Puts a note, if the condition holds.
pub(super) fn put(link: &Link, new: &Note, only_if: If<'_>) -> Result<bool> {
    let until = new.until.map(|until| i64::try_from(until).unwrap_or(i64::MAX));
    let (shelf, key, text) = (stored(&new.shelf), stored(&new.key), stored(&new.text));
    link.write(async |client| {
        let changed = match only_if {
            If::Any => client.execute(PUT, &[&shelf, &key, &text, &until]).await?,
            If::New => client.execute(PUT_NEW, &[&shelf, &key, &text, &until]).await?,
            If::Was(was) => client.execute(SWAP, &[&shelf, &key, &text, &until, &stored(was)]).await?,
        };
        Ok(changed == 1)
    })
}

/// A note that is not void.
pub(super) fn find(link: &Link, shelf: &str, key: &str) -> Result<Option<Note>> {
    link.read(async |client| {
        let statement = client.prepare_cached(FIND).await?;
        let row = client.query_opt(&statement, &[&stored(shelf), &stored(key)]).await?;
        row.as_ref().map(note).transpose()
    })
}

/// The notes of a shelf after a key.
pub(super) fn list(link: &Link, shelf: &str, after: &str, number: usize) -> Result<Vec<Note>> {
    link.read(async |client| {
        let statement = client.prepare_cached(LIST).await?;
        let rows = client.query(&statement, &[&stored(shelf), &stored(after), &limit(number)]).await?;
        rows.iter().map(note).collect()
    })
}

/// Takes a note away.
pub(super) fn take(link: &Link, shelf: &str, key: &str) -> Result<Option<Note>> {
    link.write(async |client| {
        let row = client.query_opt(TAKE, &[&stored(shelf), &stored(key)]).await?;
        row.as_ref().map(note).transpose()
    })
}

/// Throws away what is void.
pub(super) fn sweep(link: &Link) -> Result<u64> {
    link.write(async |client| Ok(client.execute(SWEEP, &[]).await?))
}
