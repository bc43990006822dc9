//! The plainest program that makes a row durable: what the disk and SQLite cost by themselves.

use crate::Outcome;
use crate::clock::per_second;
use crate::lines::line;
use rusqlite::Connection;
use std::time::{Duration, Instant};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS bare (no INTEGER PRIMARY KEY, text TEXT NOT NULL)";

fn open(file: &str) -> rusqlite::Result<Connection> {
    let sql = Connection::open(file)?;
    let mode = "PRAGMA journal_mode=WAL";
    sql.query_row(mode, [], |row| row.get::<_, String>(0))?;
    sql.execute_batch("PRAGMA synchronous=FULL; PRAGMA busy_timeout=30000;")?;
    sql.execute_batch(TABLE)?;
    Ok(sql)
}

/// Rows a second, `batch` of them in a commit, by one writer; the same texts as the journal stores.
pub(crate) fn rate(file: &str, batch: u64, seconds: u64) -> Outcome<Vec<String>> {
    let sql = open(file)?;
    let (began, end) = (Instant::now(), Duration::from_secs(seconds));
    let mut rows = 0;
    while began.elapsed() < end {
        sql.execute_batch("BEGIN IMMEDIATE")?;
        for _ in 0..batch {
            let mut insert = sql.prepare_cached("INSERT INTO bare (text) VALUES (?1)")?;
            insert.execute([line("bare", rows)])?;
            rows += 1;
        }
        sql.execute_batch("COMMIT")?;
    }
    Ok(vec![format!("{} rows/s in commits of {batch}", per_second(rows, began.elapsed()))])
}

/// Opens the file, commits one row, prints a line.
pub(crate) fn one(file: &str) -> Outcome<Vec<String>> {
    let sql = open(file)?;
    let mut text = String::new();
    std::io::stdin().read_line(&mut text)?;
    sql.execute("INSERT INTO bare (text) VALUES (?1)", [text.trim_end()])?;
    Ok(vec![format!("stored {}", sql.last_insert_rowid())])
}
