//! D2 on PostgreSQL, where the server is involved: the process crashes during a migration, or the server crashes
//! during a checkpoint.

use crate::audit::{Ack, audit};
use crate::harness::{StoreUnderTest, TortureOptions, TortureResult, TortureRng, TortureRow, sleep_ms};
use crate::kill::WriterClient;
use crate::postgres_server::{ScratchDatabase, SqlClient, kill_checkpointer};
use flyball_store::Failpoint;

/// Failpoints that the migration of a new store passes, and that of the previous schema.
const FRESH_MIGRATION_POINTS: u64 = 4;
const UPGRADE_MIGRATION_POINTS: u64 = 2;
/// Events per thread in a store before it is migrated.
const EVENTS_BEFORE_MIGRATION: u64 = 12;
/// Attempts to crash during a checkpoint, because some checkpoints finish too early.
const MAX_ATTEMPTS: u64 = 8;

/// Tables of another program; one has the name of a table that we share.
const FOREIGN_TABLES: &str = "CREATE TABLE events (id INTEGER PRIMARY KEY, what TEXT); \
    INSERT INTO events SELECT n, 'row ' || n FROM generate_series(1, 50) n; \
    CREATE TABLE session_state (session_id TEXT PRIMARY KEY, pending_confirmation INTEGER NOT NULL DEFAULT 0, \
    pending_plan TEXT, confirmation_question TEXT, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP); \
    INSERT INTO session_state VALUES ('theirs', 1, 'a plan', 'sure?', '2024-01-02 03:04:05')";
/// Reads their contents.
const READ_FOREIGN_TABLES: &str = "SELECT (SELECT string_agg(e::text, ' ' ORDER BY id) FROM events e) || \
    (SELECT string_agg(concat_ws('|', session_id, pending_confirmation, pending_plan, confirmation_question, \
    updated_at), ' ') FROM session_state WHERE session_id = 'theirs') || \
    (SELECT string_agg(column_name || data_type, ' ' ORDER BY ordinal_position) FROM information_schema.columns \
    WHERE table_schema = 'public' AND table_name = 'events')";
/// Downgrades a store from schema 2 to 1, by removing what the second migration adds.
const DOWNGRADE_SCHEMA: &str =
    "DROP TABLE flyball_notes; UPDATE flyball_meta SET value = '1' WHERE key = 'schema'";
/// Damage that a migration must never cause.
const DAMAGE_ROWS: &str = "UPDATE events SET what = 'ours' WHERE id = 7; \
    DELETE FROM flyball_events WHERE seq = 1 AND session LIKE '%-shared'";

/// One crash in the migration of a new store or of one with a history.
fn crash_in_migration(
    database: &ScratchDatabase,
    old: bool,
    hit: u64,
    harm: bool,
) -> TortureResult<Vec<String>> {
    let engine = StoreUnderTest::Postgres(database.url.clone());
    let sql = database.sql()?;
    sql.execute(FOREIGN_TABLES)?;
    let mut client = WriterClient::new(&engine, "m", "p");
    let mut acks: Vec<Ack> = Vec::new();
    let mut wrong = Vec::new();
    if old {
        let mut first = WriterClient::new(&engine, "m", "p");
        first.args = first.args.clone().with("limit", EVENTS_BEFORE_MIGRATION);
        let ended = first.start()?.wait();
        wrong.extend(ended.errors.iter().cloned());
        acks.extend(ended.acks());
        client.record_acks(&acks);
        sql.execute(DOWNGRADE_SCHEMA)?;
    }
    let theirs = sql.query_text(READ_FOREIGN_TABLES)?;
    let child_args = client.args.clone();
    client.args = child_args.clone().with("point", Failpoint::InMigration.as_str()).with("hit", hit);
    let ended = client.start()?.wait();
    if ended.ok {
        wrong.push("a writer was not killed".to_owned());
    }
    wrong.extend(ended.errors.iter().cloned());
    client.args = child_args;
    if harm {
        // Such a store cannot be used any further; it is only opened.
        sql.execute(DAMAGE_ROWS)?;
        drop(engine.open().map_err(|error| error.to_string())?);
    } else {
        wrong.extend(client.finish(&mut acks));
    }
    if sql.query_text(READ_FOREIGN_TABLES)? != theirs {
        wrong.push("the tables of the other program changed".to_owned());
    }
    let schema = sql.query_text("SELECT value FROM flyball_meta WHERE key = 'schema'")?;
    let store = engine.open().map_err(|error| error.to_string())?;
    if store.engine_version().map_err(|error| error.to_string())?.ends_with(&format!("schema {schema}")) {
        wrong.extend(audit(store.as_ref(), "m", &acks).failures);
    } else {
        wrong.push(format!("the store stayed at schema {schema}"));
    }
    Ok(wrong)
}

/// Crashes in migrations, each in a new database; half of them have a history.
fn crash_in_migrations(
    options: &TortureOptions,
    url: &str,
    rng: &mut TortureRng,
) -> TortureResult<Vec<TortureRow>> {
    let crashes = options.pick(20, 4);
    let mut wrong = Vec::new();
    for crash in 0..crashes {
        let database = ScratchDatabase::create(url, &options.tag(&format!("migration{crash}")))?;
        let old = crash % 2 == 1;
        let hit = rng.between(1, if old { UPGRADE_MIGRATION_POINTS } else { FRESH_MIGRATION_POINTS });
        wrong.extend(crash_in_migration(&database, old, hit, false)?);
    }
    let seen = format!("{crashes} crashes, each in a new database, {} with a history", crashes / 2);
    let good = TortureRow::new("postgres, in_migration", seen, wrong);
    let database = ScratchDatabase::create(url, &options.tag("migrationx"))?;
    let wrong = crash_in_migration(&database, true, 1, true)?;
    Ok(vec![
        good,
        TortureRow::control("postgres, in_migration, a row of each side is lost", "1 crash", wrong),
    ])
}

/// Crashes the server during checkpoints while a writer is active.
fn crash_in_checkpoints(
    options: &TortureOptions,
    url: &str,
    hurry: bool,
) -> TortureResult<(String, Vec<String>)> {
    let mut rng = TortureRng::new(options.seed);
    let crashes = if hurry { 2 } else { options.pick(20, 3) };
    let database = ScratchDatabase::create(url, &options.tag("checkpoint"))?;
    let engine = StoreUnderTest::Postgres(database.url.clone());
    drop(engine.open().map_err(|error| error.to_string())?);
    if hurry {
        database.disable_synchronous_commit()?;
    }
    let mut client = WriterClient::new(&engine, "c", "p");
    let writer = client.start()?;
    let (mut ended, mut amid) = (0, 0);
    while amid < crashes && ended < crashes * MAX_ATTEMPTS {
        sleep_ms(rng.between(150, 300));
        ended += 1;
        amid += u64::from(crash_in_one_checkpoint(&database, rng.between(0, 6))?);
    }
    let said = writer.kill();
    let refused = said.lines.iter().filter(|line| line.starts_with("R ")).count();
    let mut acks: Vec<Ack> = said.acks();
    client.record_acks(&acks);
    let mut wrong = said.errors;
    drop(database.sql()?);
    wrong.extend(client.finish(&mut acks));
    let store = engine.open().map_err(|error| error.to_string())?;
    wrong.extend(audit(store.as_ref(), "c", &acks).failures);
    if amid == 0 {
        wrong.push("the server never crashed during a checkpoint".to_owned());
    }
    let seen = format!(
        "{ended} server crashes, {amid} during a checkpoint, {refused} refusals, {} acknowledged",
        acks.len()
    );
    Ok((seen, wrong))
}

/// Starts a checkpoint and kills the server shortly after; returns whether the checkpoint was still running.
fn crash_in_one_checkpoint(database: &ScratchDatabase, after_ms: u64) -> TortureResult<bool> {
    let (one, other): (SqlClient, SqlClient) = (database.sql()?, database.sql()?);
    let amid = std::thread::scope(|scope| {
        let checkpoint = scope.spawn(move || one.execute("CHECKPOINT"));
        sleep_ms(after_ms);
        let killed = kill_checkpointer(&other);
        let done = checkpoint.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()));
        killed.map(|()| done.is_err())
    })?;
    // Wait until the server has recovered.
    drop(database.sql()?);
    Ok(amid)
}

/// The rows of both crash points, each with its control.
pub(crate) fn rows(
    options: &TortureOptions,
    url: &str,
    rng: &mut TortureRng,
) -> TortureResult<Vec<TortureRow>> {
    let mut rows = crash_in_migrations(options, url, rng)?;
    let (seen, wrong) = crash_in_checkpoints(options, url, false)?;
    rows.push(TortureRow::new("postgres, in_checkpoint, the server is killed with SIGKILL", seen, wrong));
    let (seen, wrong) = crash_in_checkpoints(options, url, true)?;
    rows.push(TortureRow::control("postgres, in_checkpoint, asynchronous commits", seen, wrong));
    Ok(rows)
}
