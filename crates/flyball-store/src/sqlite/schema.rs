//! Schema and migrations. Tables of other programs are not touched.

use crate::error::{StoreError, StoreErrorKind};
use crate::failpoint::{Failpoint, FailpointHook};
use rusqlite::{Connection, TransactionBehavior};

/// Schema version that this program writes.
pub(super) const CURRENT_SCHEMA: u32 = 3;

/// Each step leads from one schema to the next, in a separate transaction.
const MIGRATIONS: [fn(&Connection) -> rusqlite::Result<()>; CURRENT_SCHEMA as usize] =
    [create_event_tables, create_session_state, create_kv_table];

/// Schema version and store id of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SchemaInfo {
    /// Schema version; `None` if the file is not a store.
    pub(super) schema: Option<u32>,
    /// Random id of the store. Stores of older versions have none yet.
    pub(super) id: Option<String>,
}

/// Reads the schema and the id.
pub(super) fn read_schema_info(sql: &Connection) -> rusqlite::Result<SchemaInfo> {
    let mut known = SchemaInfo::default();
    let mut read = match sql.prepare("SELECT key, value FROM flyball_meta WHERE key IN ('schema', 'store')") {
        Ok(read) => read,
        Err(error) if is_missing_table(&error) => return Ok(known),
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

/// Reads only the id.
pub(super) fn store_id(sql: &Connection) -> rusqlite::Result<Option<String>> {
    sql.query_row("SELECT value FROM flyball_meta WHERE key = 'store'", [], |row| row.get(0))
}

fn is_missing_table(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(code, Some(text))
        if code.code == rusqlite::ErrorCode::Unknown && text.starts_with("no such table"))
}

/// Assigns an id to the store, unless it has one.
pub(super) fn assign_store_id(sql: &Connection) -> rusqlite::Result<()> {
    let give = "INSERT INTO flyball_meta (key, value) VALUES ('store', lower(hex(randomblob(16))))
                ON CONFLICT (key) DO NOTHING";
    sql.execute(give, []).map(|_| ())
}

/// Creates all tables in a new file.
pub(super) fn create_tables(sql: &mut Connection) -> rusqlite::Result<()> {
    let whole = sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in MIGRATIONS {
        step(&whole)?;
    }
    write_schema_version(&whole, CURRENT_SCHEMA)?;
    assign_store_id(&whole)?;
    whole.commit()
}

fn write_schema_version(sql: &Connection, version: u32) -> rusqlite::Result<()> {
    let write = "INSERT INTO flyball_meta (key, value) VALUES ('schema', ?1)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    sql.execute(write, [version]).map(|_| ())
}

/// Rejects a file that a newer Flyball has written.
pub(super) fn check_supported(known: Option<u32>) -> Result<(), StoreError> {
    match known {
        Some(version) if version > CURRENT_SCHEMA => {
            let what =
                format!("the store has schema {version}; this Flyball supports up to {CURRENT_SCHEMA}");
            Err(StoreError::new(StoreErrorKind::UnsupportedVersion, what))
        }
        _ => Ok(()),
    }
}

/// Migrates the file to the current schema.
pub(super) fn migrate(sql: &mut Connection, probe: &FailpointHook) -> rusqlite::Result<()> {
    loop {
        let step = sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read again inside the transaction: another process may have migrated it.
        let version = read_schema_info(&step)?.schema.unwrap_or(0);
        let Some(work) = MIGRATIONS.get(version as usize) else {
            assign_store_id(&step)?;
            return step.commit();
        };
        work(&step)?;
        write_schema_version(&step, version + 1)?;
        probe.reach(Failpoint::InMigration);
        step.commit()?;
        probe.reach(Failpoint::InMigration);
    }
}

/// The layout keeps the data of one commit together. Events of all sessions are stored in sequence, each with the
/// position of its session's previous event. Ids are indexed in batches of sixteen or more, with a snapshot.
///
/// Names and ids have two indexes each. If corruption hides an entry from the first one, the second one reveals it.
fn create_event_tables(sql: &Connection) -> rusqlite::Result<()> {
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

/// The `session_state` table of the original system, with additional columns. An existing table gets the missing
/// columns; rows of other programs stay unchanged.
fn create_session_state(sql: &Connection) -> rusqlite::Result<()> {
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

/// Key-value entries shared by all processes of the store.
fn create_kv_table(sql: &Connection) -> rusqlite::Result<()> {
    sql.execute_batch(
        "CREATE TABLE flyball_notes (
             shelf TEXT NOT NULL, key TEXT NOT NULL, text TEXT NOT NULL, until INTEGER,
             PRIMARY KEY (shelf, key)) WITHOUT ROWID;",
    )
}
