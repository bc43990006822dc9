//! The tables, and how an older file is brought up to date. Other people's tables are left alone.

use crate::error::{StoreError, Trouble};
use crate::probe::{Point, Probe};
use rusqlite::{Connection, TransactionBehavior};

/// The schema that this version writes.
pub(super) const NEWEST: u32 = 3;

/// Each step leads from one schema to the next, in a transaction of its own.
const STEPS: [fn(&Connection) -> rusqlite::Result<()>; NEWEST as usize] =
    [journal_tables, confirmation_row, notes];

/// What the file says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Its schema; `None` if it holds nothing of ours.
    pub(super) schema: Option<u32>,
    /// The random id of the store; stores of older versions have none yet.
    pub(super) id: Option<String>,
}

/// Reads the schema and the id.
pub(super) fn known(sql: &Connection) -> rusqlite::Result<Known> {
    let mut known = Known::default();
    let mut read = match sql.prepare("SELECT key, value FROM flyball_meta WHERE key IN ('schema', 'store')") {
        Ok(read) => read,
        Err(error) if is_no_table(&error) => return Ok(known),
        Err(error) => return Err(error),
    };
    let mut rows = read.query([])?;
    while let Some(row) = rows.next()? {
        let value: String = row.get(1)?;
        match row.get_ref(0)?.as_str().unwrap_or_default() {
            "schema" => known.schema = Some(value.parse().unwrap_or(0)),
            _ => known.id = Some(value),
        }
    }
    Ok(known)
}

/// The id alone.
pub(super) fn store_id(sql: &Connection) -> rusqlite::Result<Option<String>> {
    sql.query_row("SELECT value FROM flyball_meta WHERE key = 'store'", [], |row| row.get(0))
}

fn is_no_table(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(code, Some(text))
        if code.code == rusqlite::ErrorCode::Unknown && text.starts_with("no such table"))
}

/// Gives the store its id, unless it has one.
pub(super) fn give_id(sql: &Connection) -> rusqlite::Result<()> {
    let give = "INSERT INTO flyball_meta (key, value) VALUES ('store', lower(hex(randomblob(16))))
                ON CONFLICT (key) DO NOTHING";
    sql.execute(give, []).map(|_| ())
}

/// Makes all tables in a new file, at once.
pub(super) fn create(sql: &mut Connection) -> rusqlite::Result<()> {
    let whole = sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in STEPS {
        step(&whole)?;
    }
    write_version(&whole, NEWEST)?;
    give_id(&whole)?;
    whole.commit()
}

fn write_version(sql: &Connection, version: u32) -> rusqlite::Result<()> {
    let write = "INSERT INTO flyball_meta (key, value) VALUES ('schema', ?1)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    sql.execute(write, [version]).map(|_| ())
}

/// Refuses a file that a newer Flyball has written.
pub(super) fn acceptable(known: Option<u32>) -> Result<(), StoreError> {
    match known {
        Some(version) if version > NEWEST => {
            let what = format!("the store has schema {version}; this Flyball knows schemas up to {NEWEST}");
            Err(StoreError::new(Trouble::Version, what))
        }
        _ => Ok(()),
    }
}

/// Brings the file up to date.
pub(super) fn migrate(sql: &mut Connection, probe: &Probe) -> rusqlite::Result<()> {
    loop {
        let step = sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read again inside the transaction: another process may have been quicker.
        let version = known(&step)?.schema.unwrap_or(0);
        let Some(work) = STEPS.get(version as usize) else {
            give_id(&step)?;
            return step.commit();
        };
        work(&step)?;
        write_version(&step, version + 1)?;
        probe.pass(Point::InMigration);
        step.commit()?;
        probe.pass(Point::InMigration);
    }
}

/// The layout keeps what one commit touches together: events of all sessions stand one behind the other, each with the
/// place of its session's event before it, and ids are entered sixteen or more at a time, with a snapshot.
///
/// Names and ids are kept in two indexes each. If damage hides one of them from the first, the second one tells.
fn journal_tables(sql: &Connection) -> rusqlite::Result<()> {
    sql.execute_batch(
        "CREATE TABLE flyball_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
         CREATE TABLE flyball_policies (digest TEXT PRIMARY KEY, text TEXT NOT NULL);
         CREATE TABLE flyball_sessions (
             no INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL UNIQUE, rev INTEGER NOT NULL,
             epoch INTEGER NOT NULL, seq INTEGER NOT NULL, chain BLOB NOT NULL, policy TEXT NOT NULL,
             snapshot INTEGER NOT NULL, pending INTEGER, started INTEGER NOT NULL, updated INTEGER NOT NULL,
             status TEXT NOT NULL, warnings INTEGER NOT NULL, blocks INTEGER NOT NULL, halts INTEGER NOT NULL,
             stopped_by TEXT, label TEXT, parent TEXT, sum INTEGER NOT NULL, last INTEGER NOT NULL DEFAULT 0,
             pruned INTEGER NOT NULL DEFAULT 0, holder TEXT, lease_until INTEGER NOT NULL DEFAULT 0);
         CREATE UNIQUE INDEX flyball_sessions_again ON flyball_sessions (session DESC);
         CREATE TABLE flyball_snapshots (
             no INTEGER PRIMARY KEY, seq INTEGER NOT NULL, state BLOB NOT NULL, sum INTEGER NOT NULL);
         CREATE TABLE flyball_events (
             pos INTEGER PRIMARY KEY, prev INTEGER NOT NULL, no INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER,
             nonce INTEGER NOT NULL, epoch INTEGER NOT NULL, id TEXT, body INTEGER NOT NULL, whole INTEGER NOT NULL,
             verdict TEXT NOT NULL, status TEXT NOT NULL, chain BLOB NOT NULL, sum INTEGER NOT NULL,
             decision TEXT NOT NULL, text TEXT NOT NULL);
         CREATE TABLE flyball_ids (
             no INTEGER NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL, pos INTEGER NOT NULL, body INTEGER NOT NULL,
             verdict TEXT NOT NULL, status TEXT NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (no, id)) WITHOUT ROWID;
         CREATE UNIQUE INDEX flyball_ids_again ON flyball_ids (no, id DESC);
         CREATE TABLE flyball_outbox (
             key TEXT PRIMARY KEY, session TEXT NOT NULL, effect TEXT NOT NULL, sink TEXT NOT NULL,
             payload TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, due INTEGER NOT NULL, error TEXT);
         CREATE INDEX flyball_outbox_by_state ON flyball_outbox (state, due);
         CREATE TABLE flyball_labels (session TEXT PRIMARY KEY, label TEXT NOT NULL, since TIMESTAMP NOT NULL);
         CREATE TABLE flyball_set_aside (
             no INTEGER PRIMARY KEY, session TEXT NOT NULL, kept TEXT NOT NULL, why TEXT NOT NULL,
             at TIMESTAMP NOT NULL);",
    )
}

/// Seed 001's table, with our columns beside its own. One that is there already gets the missing columns; rows that
/// are not ours stay as they are.
fn confirmation_row(sql: &Connection) -> rusqlite::Result<()> {
    sql.execute_batch(
        "CREATE TABLE IF NOT EXISTS session_state (
             session_id TEXT PRIMARY KEY,
             pending_confirmation INTEGER NOT NULL DEFAULT 0,
             pending_plan TEXT,
             confirmation_question TEXT,
             updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
    )?;
    let mut there: Vec<String> = Vec::new();
    sql.pragma(None, "table_info", "session_state", |row| {
        there.push(row.get::<_, String>("name")?);
        Ok(())
    })?;
    let columns = [
        ("requester", "TEXT"),
        ("digest", "TEXT"),
        ("status", "TEXT"),
        ("created_at", "TIMESTAMP"),
        ("expires_at", "TIMESTAMP"),
    ];
    for (name, kind) in columns {
        if !there.iter().any(|column| column == name) {
            sql.execute_batch(&format!("ALTER TABLE session_state ADD COLUMN {name} {kind}"))?;
        }
    }
    Ok(())
}

/// Small notes that everybody on the store shares.
fn notes(sql: &Connection) -> rusqlite::Result<()> {
    sql.execute_batch(
        "CREATE TABLE flyball_notes (
             shelf TEXT NOT NULL, key TEXT NOT NULL, text TEXT NOT NULL, until INTEGER,
             PRIMARY KEY (shelf, key)) WITHOUT ROWID;",
    )
}
