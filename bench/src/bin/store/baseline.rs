//! Baseline: the simplest program that commits a row durably, to measure the cost of the disk and SQLite alone.

use crate::BenchResult;
use crate::event_lines::line;
use crate::stats::per_second;
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

/// Rows per second of one writer in commits of `batch` rows, with the same texts as the event store.
pub(crate) fn rate(file: &str, batch: u64, seconds: u64) -> BenchResult<Vec<String>> {
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
pub(crate) fn commit_one_row(file: &str) -> BenchResult<Vec<String>> {
    let sql = open(file)?;
    let mut text = String::new();
    std::io::stdin().read_line(&mut text)?;
    sql.execute("INSERT INTO bare (text) VALUES (?1)", [text.trim_end()])?;
    Ok(vec![format!("stored {}", sql.last_insert_rowid())])
}
