//! Schema and migrations.
//!
//! Only tables that begin with `flyball_` are ours. `session_state` may belong to another program; then we only add
//! columns. A migration is never changed after a release; a new one is added below it.

use super::pg_error::PostgresError;
use super::pool::PostgresPool;
use crate::error::{StoreError, StoreErrorKind};
use crate::event_store::StoreResult;
use crate::failpoint::{Failpoint, FailpointHook};
use deadpool_postgres::ClientWrapper;

/// Oldest supported server version: the first with 64-bit transaction ids.
const MIN_SERVER_VERSION: i32 = 130_000;
/// Advisory lock that serializes migrations: `flyball` as a number.
const MIGRATION_LOCK_ID: i64 = 0x66_6c79_6261_6c6c;

/// The migrations. The first one creates schema 1.
const MIGRATIONS: &[&str] = &[INITIAL_MIGRATION, KV_MIGRATION];

/// Schema version that this program writes.
pub(super) const CURRENT_SCHEMA: i64 = 2;

const INITIAL_MIGRATION: &str = r#"
CREATE TABLE flyball_policies (
    digest TEXT COLLATE "C" PRIMARY KEY,
    text   TEXT NOT NULL
);
CREATE TABLE flyball_sessions (
    session     TEXT COLLATE "C" PRIMARY KEY,
    rev         BIGINT NOT NULL,
    epoch       BIGINT NOT NULL,
    seq         BIGINT NOT NULL,
    chain       BYTEA  NOT NULL,
    policy      TEXT   NOT NULL,
    snapshot    BIGINT NOT NULL,
    pending     BIGINT,
    started     BIGINT NOT NULL,
    updated     BIGINT NOT NULL,
    status      TEXT   NOT NULL,
    warnings    BIGINT NOT NULL,
    blocks      BIGINT NOT NULL,
    halts       BIGINT NOT NULL,
    stopped_by  TEXT,
    label       TEXT,
    parent      TEXT,
    sum         BIGINT NOT NULL,
    holder      TEXT,
    lease_until BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE TABLE flyball_snapshots (
    session TEXT COLLATE "C" PRIMARY KEY,
    seq     BIGINT NOT NULL,
    state   BYTEA  NOT NULL,
    sum     BIGINT NOT NULL
);
CREATE TABLE flyball_events (
    session  TEXT COLLATE "C" NOT NULL,
    seq      BIGINT  NOT NULL,
    at       BIGINT,
    nonce    BIGINT  NOT NULL,
    epoch    BIGINT  NOT NULL,
    id       TEXT,
    body     BIGINT  NOT NULL,
    event    TEXT    NOT NULL,
    whole    BOOLEAN NOT NULL,
    decision TEXT    NOT NULL,
    verdict  TEXT    NOT NULL,
    status   TEXT    NOT NULL,
    chain    BYTEA   NOT NULL,
    sum      BIGINT  NOT NULL,
    tx       XID8    NOT NULL DEFAULT pg_current_xact_id(),
    pos      BIGSERIAL NOT NULL,
    PRIMARY KEY (session, seq)
);
CREATE INDEX flyball_events_order ON flyball_events (tx, pos);
CREATE TABLE flyball_ids (
    session TEXT COLLATE "C" NOT NULL,
    id      TEXT COLLATE "C" NOT NULL,
    seq     BIGINT NOT NULL,
    body    BIGINT NOT NULL,
    verdict TEXT   NOT NULL,
    status  TEXT   NOT NULL,
    sum     BIGINT NOT NULL,
    PRIMARY KEY (session, id)
);
CREATE TABLE flyball_outbox (
    key      TEXT COLLATE "C" PRIMARY KEY,
    session  TEXT COLLATE "C" NOT NULL,
    effect   TEXT    NOT NULL,
    sink     TEXT    NOT NULL,
    payload  TEXT    NOT NULL,
    state    TEXT    NOT NULL,
    attempts INTEGER NOT NULL,
    due      BIGINT  NOT NULL,
    error    TEXT,
    at       BIGINT  NOT NULL,
    number   BIGSERIAL NOT NULL
);
CREATE INDEX flyball_outbox_due ON flyball_outbox (due) WHERE state = 'waiting';
CREATE TABLE flyball_labels (
    session TEXT COLLATE "C" PRIMARY KEY,
    label   TEXT NOT NULL
);
CREATE TABLE flyball_set_aside (
    number                BIGSERIAL PRIMARY KEY,
    session_id            TEXT NOT NULL,
    pending_confirmation  INTEGER,
    pending_plan          TEXT,
    confirmation_question TEXT,
    requester             TEXT,
    digest                TEXT,
    status                TEXT,
    created_at            TIMESTAMP,
    expires_at            TIMESTAMP,
    updated_at            TIMESTAMP,
    why                   TEXT NOT NULL,
    set_aside_at          TIMESTAMP NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS session_state (
    session_id TEXT PRIMARY KEY,
    pending_confirmation INTEGER NOT NULL DEFAULT 0,
    pending_plan TEXT,
    confirmation_question TEXT,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);
ALTER TABLE session_state
    ADD COLUMN IF NOT EXISTS requester TEXT,
    ADD COLUMN IF NOT EXISTS digest TEXT,
    ADD COLUMN IF NOT EXISTS status TEXT,
    ADD COLUMN IF NOT EXISTS created_at TIMESTAMP,
    ADD COLUMN IF NOT EXISTS expires_at TIMESTAMP;
"#;

const KV_MIGRATION: &str = r#"
CREATE TABLE flyball_notes (
    shelf TEXT COLLATE "C" NOT NULL,
    key   TEXT COLLATE "C" NOT NULL,
    text  TEXT NOT NULL,
    until BIGINT,
    PRIMARY KEY (shelf, key)
);
"#;

/// The columns of `session_state` that we use, with their required types.
const CHECK_SESSION_STATE: &str = "SELECT session_id::text, pending_confirmation::integer, pending_plan::text, \
    confirmation_question::text, updated_at::timestamp, requester::text, digest::text, status::text, \
    created_at::timestamp, expires_at::timestamp FROM session_state LIMIT 0";

/// Whether the store has tables. Queries the catalog itself: `to_regclass` may use a cached result, and another
/// process may have created the table while we waited for the lock.
const META_TABLE_EXISTS: &str = "SELECT count(*) > 0 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
    ON n.oid = c.relnamespace WHERE c.relname = 'flyball_meta' AND n.nspname = ANY(current_schemas(false))";

/// Migrates the store to our schema; leaves a newer one unchanged.
pub(super) fn migrate(pool: &PostgresPool) -> StoreResult<()> {
    pool.run(async |client| {
        check_server(client).await?;
        loop {
            let schema = schema_version(client).await?;
            if schema == CURRENT_SCHEMA {
                return Ok(());
            }
            run_next_migration(client, &pool.failpoints).await?;
            pool.failpoints.reach(Failpoint::InMigration);
        }
    })
    .map_err(PostgresError::into_store_error)
}

/// Server version, with a warning if the server may lose acknowledged data.
pub(super) async fn engine_version(client: &ClientWrapper) -> std::result::Result<String, PostgresError> {
    let row = client
        .query_one("SELECT current_setting('server_version'), current_setting('fsync') = 'on'", &[])
        .await?;
    let (server, safe): (String, bool) = (row.try_get(0)?, row.try_get(1)?);
    let number = server.split(' ').next().unwrap_or_default();
    let warning = if safe { "" } else { ", fsync is off: a power loss may lose acknowledged events" };
    Ok(format!("PostgreSQL {number}, schema {}{warning}", schema_version(client).await?))
}

async fn check_server(client: &ClientWrapper) -> std::result::Result<(), PostgresError> {
    let ask = "SELECT current_setting('server_version_num')::integer, current_schema()::text";
    let row = client.query_one(ask, &[]).await?;
    let (number, schema): (i32, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    if number < MIN_SERVER_VERSION {
        let what = format!("the server is PostgreSQL {}; version 13 or later is required", number / 10_000);
        return Err(StoreError::new(StoreErrorKind::UnsupportedVersion, what).into());
    }
    if schema.is_none() {
        let what = "this user's search path names no existing schema";
        return Err(StoreError::new(StoreErrorKind::NotFound, what).into());
    }
    Ok(())
}

/// Schema version of the store; 0 if it is new. Fails if the version is unknown.
async fn schema_version(client: &ClientWrapper) -> std::result::Result<i64, PostgresError> {
    let there = client.query_one(META_TABLE_EXISTS, &[]).await?;
    if !there.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let row = client.query_opt("SELECT value FROM flyball_meta WHERE key = 'schema'", &[]).await?;
    let text: Option<String> = row.map(|row| row.try_get(0)).transpose()?;
    let schema = text.as_deref().and_then(|text| text.parse::<i64>().ok());
    match schema {
        Some(schema) if (1..=CURRENT_SCHEMA).contains(&schema) => Ok(schema),
        Some(schema) => {
            let what = format!("the store has schema {schema}; this Flyball supports up to {CURRENT_SCHEMA}");
            Err(StoreError::new(StoreErrorKind::UnsupportedVersion, what).into())
        }
        None => Err(StoreError::corrupt("the table flyball_meta does not contain the schema version").into()),
    }
}

/// Runs the next migration, unless another process already ran it.
async fn run_next_migration(
    client: &ClientWrapper,
    probe: &FailpointHook,
) -> std::result::Result<(), PostgresError> {
    client.batch_execute("BEGIN; SET LOCAL statement_timeout = 0").await?;
    client.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK_ID]).await?;
    let schema = schema_version(client).await?;
    let next = usize::try_from(schema).ok().and_then(|done| MIGRATIONS.get(done));
    if let Some(migration) = next {
        client
            .batch_execute(
                "CREATE TABLE IF NOT EXISTS flyball_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
            )
            .await?;
        client.batch_execute(migration).await?;
        client.batch_execute(CHECK_SESSION_STATE).await.map_err(incompatible_session_state)?;
        let put = "INSERT INTO flyball_meta (key, value) VALUES ('schema', $1) \
            ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        client.execute(put, &[&(schema + 1).to_string()]).await?;
        probe.reach(Failpoint::InMigration);
    }
    client.batch_execute("COMMIT").await?;
    Ok(())
}

/// The existing `session_state` table of another program is incompatible.
fn incompatible_session_state(error: tokio_postgres::Error) -> PostgresError {
    match error.as_db_error() {
        Some(refused) => {
            let what = format!("the existing table session_state is incompatible: {}", refused.message());
            StoreError::new(StoreErrorKind::NotADatabase, what).into()
        }
        None => error.into(),
    }
}
