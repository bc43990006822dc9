//! The tables, and how an older store becomes a newer one.
//!
//! Only tables that begin with `flyball_` are ours; `session_state` may be somebody else's, and is then only made
//! wider. A migration is never changed after a release: a new one is added below it.

use super::link::Link;
use super::trouble::Fault;
use crate::error::{StoreError, Trouble};
use crate::journal::Result;
use crate::probe::{Point, Probe};
use deadpool_postgres::ClientWrapper;

/// The oldest server that knows what we need: transaction numbers of 64 bits.
const OLDEST: i32 = 130_000;
/// The lock under which migrations run, one after the other: `flyball` as a number.
const LOCK: i64 = 0x66_6c79_6261_6c6c;

/// The migrations: the first leads to schema 1.
const MIGRATIONS: &[&str] = &[FIRST, NOTES];

/// The schema that this program writes.
pub(super) const SCHEMA: i64 = 2;

const FIRST: &str = r#"
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

const NOTES: &str = r#"
CREATE TABLE flyball_notes (
    shelf TEXT COLLATE "C" NOT NULL,
    key   TEXT COLLATE "C" NOT NULL,
    text  TEXT NOT NULL,
    until BIGINT,
    PRIMARY KEY (shelf, key)
);
"#;

/// The columns of `session_state` that we use, with the types that they must have.
const STATE_COLUMNS: &str = "SELECT session_id::text, pending_confirmation::integer, pending_plan::text, \
    confirmation_question::text, updated_at::timestamp, requester::text, digest::text, status::text, \
    created_at::timestamp, expires_at::timestamp FROM session_state LIMIT 0";

/// Whether the store is more than empty. Asked of the catalogue itself: `to_regclass` may answer from memory, and
/// somebody else may have made the table while we waited for the lock.
const THERE: &str = "SELECT count(*) > 0 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
    ON n.oid = c.relnamespace WHERE c.relname = 'flyball_meta' AND n.nspname = ANY(current_schemas(false))";

/// Brings the store to our schema; does nothing to one that is newer.
pub(super) fn migrate(link: &Link) -> Result<()> {
    link.run(async |client| {
        fit(client).await?;
        loop {
            let schema = version(client).await?;
            if schema == SCHEMA {
                return Ok(());
            }
            step(client, &link.probe).await?;
            link.probe.pass(Point::InMigration);
        }
    })
    .map_err(Fault::undone)
}

/// The server's own words for its version, and whether it may forget what it acknowledged.
pub(super) async fn engine(client: &ClientWrapper) -> std::result::Result<String, Fault> {
    let row = client
        .query_one("SELECT current_setting('server_version'), current_setting('fsync') = 'on'", &[])
        .await?;
    let (server, safe): (String, bool) = (row.try_get(0)?, row.try_get(1)?);
    let number = server.split(' ').next().unwrap_or_default();
    let warning = if safe { "" } else { ", fsync is off: a power loss may take what was acknowledged" };
    Ok(format!("PostgreSQL {number}, schema {}{warning}", version(client).await?))
}

async fn fit(client: &ClientWrapper) -> std::result::Result<(), Fault> {
    let ask = "SELECT current_setting('server_version_num')::integer, current_schema()::text";
    let row = client.query_one(ask, &[]).await?;
    let (number, schema): (i32, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    if number < OLDEST {
        let what = format!("the server is PostgreSQL {}; at least 13 is needed", number / 10_000);
        return Err(StoreError::new(Trouble::Version, what).into());
    }
    if schema.is_none() {
        let what = "the search path of this user names no schema that is there";
        return Err(StoreError::new(Trouble::Missing, what).into());
    }
    Ok(())
}

/// The schema that the store has; 0 if it is new. An error if we do not know it.
async fn version(client: &ClientWrapper) -> std::result::Result<i64, Fault> {
    let there = client.query_one(THERE, &[]).await?;
    if !there.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let row = client.query_opt("SELECT value FROM flyball_meta WHERE key = 'schema'", &[]).await?;
    let text: Option<String> = row.map(|row| row.try_get(0)).transpose()?;
    let schema = text.as_deref().and_then(|text| text.parse::<i64>().ok());
    match schema {
        Some(schema) if (1..=SCHEMA).contains(&schema) => Ok(schema),
        Some(schema) => {
            let what = format!("the store has schema {schema}, this Flyball knows up to {SCHEMA}");
            Err(StoreError::new(Trouble::Version, what).into())
        }
        None => Err(StoreError::corrupt("the table flyball_meta does not say which schema this is").into()),
    }
}

/// Runs the next migration, if nobody else has run it meanwhile.
async fn step(client: &ClientWrapper, probe: &Probe) -> std::result::Result<(), Fault> {
    client.batch_execute("BEGIN; SET LOCAL statement_timeout = 0").await?;
    client.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    let schema = version(client).await?;
    let next = usize::try_from(schema).ok().and_then(|done| MIGRATIONS.get(done));
    if let Some(migration) = next {
        client
            .batch_execute(
                "CREATE TABLE IF NOT EXISTS flyball_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
            )
            .await?;
        client.batch_execute(migration).await?;
        client.batch_execute(STATE_COLUMNS).await.map_err(not_ours)?;
        let put = "INSERT INTO flyball_meta (key, value) VALUES ('schema', $1) \
            ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        client.execute(put, &[&(schema + 1).to_string()]).await?;
        probe.pass(Point::InMigration);
    }
    client.batch_execute("COMMIT").await?;
    Ok(())
}

/// The table `session_state` is somebody's, and made so differently that we cannot share it.
fn not_ours(error: tokio_postgres::Error) -> Fault {
    match error.as_db_error() {
        Some(refused) => {
            let what = format!("there is a table session_state that is not like ours: {}", refused.message());
            StoreError::new(Trouble::NotADatabase, what).into()
        }
        None => error.into(),
    }
}
