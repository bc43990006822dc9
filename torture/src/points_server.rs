//! D2 on PostgreSQL, where the server has a part in it: the process ends in the midst of a migration, or the server itself
//! ends in the midst of a checkpoint.

use crate::audit::{Ack, audit};
use crate::kill::Client;
use crate::kit::{Ask, Dice, Engine, Fallible, Row, pause};
use crate::server::{Database, Sql, kill_checkpointer};
use flyball_journal::Point;

/// Places of a migration that a new store passes, and one of the schema before ours.
const NEW_PLACES: u64 = 4;
const OLD_PLACES: u64 = 2;
/// Events of each thread in a store before it is migrated.
const BEFORE: u64 = 12;
/// How often a crash in a checkpoint is tried for: some checkpoints are over too soon.
const TRIES: u64 = 8;

/// Somebody else's tables; one has the name of one that we share.
const THEIRS: &str = "CREATE TABLE events (id INTEGER PRIMARY KEY, what TEXT); \
    INSERT INTO events SELECT n, 'row ' || n FROM generate_series(1, 50) n; \
    CREATE TABLE session_state (session_id TEXT PRIMARY KEY, pending_confirmation INTEGER NOT NULL DEFAULT 0, \
    pending_plan TEXT, confirmation_question TEXT, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP); \
    INSERT INTO session_state VALUES ('theirs', 1, 'a plan', 'sure?', '2024-01-02 03:04:05')";
/// What is in them.
const LOOK: &str = "SELECT (SELECT string_agg(e::text, ' ' ORDER BY id) FROM events e) || \
    (SELECT string_agg(concat_ws('|', session_id, pending_confirmation, pending_plan, confirmation_question, \
    updated_at), ' ') FROM session_state WHERE session_id = 'theirs') || \
    (SELECT string_agg(column_name || data_type, ' ' ORDER BY ordinal_position) FROM information_schema.columns \
    WHERE table_schema = 'public' AND table_name = 'events')";
/// Makes a store of schema 2 into one of schema 1: what the second migration adds is taken away.
const STEP_BACK: &str = "DROP TABLE flyball_notes; UPDATE flyball_meta SET value = '1' WHERE key = 'schema'";
/// What a migration must never do.
const HARM: &str = "UPDATE events SET what = 'ours' WHERE id = 7; \
    DELETE FROM flyball_events WHERE seq = 1 AND session LIKE '%-shared'";

/// One crash in a migration, of a new store or of one with a history.
fn migrate(database: &Database, old: bool, hit: u64, harm: bool) -> Fallible<Vec<String>> {
    let engine = Engine::Postgres(database.url.clone());
    let sql = database.sql()?;
    sql.run(THEIRS)?;
    let mut client = Client::new(&engine, "m", "p");
    let mut acks: Vec<Ack> = Vec::new();
    let mut wrong = Vec::new();
    if old {
        let mut first = Client::new(&engine, "m", "p");
        first.words = first.words.clone().with("limit", BEFORE);
        let ended = first.start()?.wait();
        wrong.extend(ended.errors.iter().cloned());
        acks.extend(ended.acks());
        client.took(&acks);
        sql.run(STEP_BACK)?;
    }
    let theirs = sql.ask(LOOK)?;
    let words = client.words.clone();
    client.words = words.clone().with("point", Point::InMigration.as_str()).with("hit", hit);
    let ended = client.start()?.wait();
    if ended.ok {
        wrong.push("a writer was not ended".to_owned());
    }
    wrong.extend(ended.errors.iter().cloned());
    client.words = words;
    if harm {
        // Nobody could go on with such a store: it is only opened.
        sql.run(HARM)?;
        drop(engine.open().map_err(|error| error.to_string())?);
    } else {
        wrong.extend(client.finish(&mut acks));
    }
    if sql.ask(LOOK)? != theirs {
        wrong.push("somebody else's tables are not as they were".to_owned());
    }
    let schema = sql.ask("SELECT value FROM flyball_meta WHERE key = 'schema'")?;
    let store = engine.open().map_err(|error| error.to_string())?;
    if store.engine().map_err(|error| error.to_string())?.ends_with(&format!("schema {schema}")) {
        wrong.extend(audit(store.as_ref(), "m", &acks).wrong);
    } else {
        wrong.push(format!("the store stayed at schema {schema}"));
    }
    Ok(wrong)
}

/// Crashes in migrations, each in a new database; half of them have a history.
fn in_migration(ask: &Ask, url: &str, dice: &mut Dice) -> Fallible<Vec<Row>> {
    let crashes = ask.pick(20, 4);
    let mut wrong = Vec::new();
    for crash in 0..crashes {
        let database = Database::make(url, &ask.tag(&format!("migration{crash}")))?;
        let old = crash % 2 == 1;
        let hit = dice.between(1, if old { OLD_PLACES } else { NEW_PLACES });
        wrong.extend(migrate(&database, old, hit, false)?);
    }
    let seen = format!("{crashes} crashes, each in a new database, {} with a history", crashes / 2);
    let good = Row::new("postgres, in_migration", seen, wrong);
    let database = Database::make(url, &ask.tag("migrationx"))?;
    let wrong = migrate(&database, true, 1, true)?;
    Ok(vec![good, Row::control("postgres, in_migration, a row of each side is lost", "1 crash", wrong)])
}

/// Ends the server in a checkpoint so many times, while a writer works.
fn in_checkpoint(ask: &Ask, url: &str, hurry: bool) -> Fallible<(String, Vec<String>)> {
    let mut dice = Dice::new(ask.seed);
    let crashes = if hurry { 2 } else { ask.pick(20, 3) };
    let database = Database::make(url, &ask.tag("checkpoint"))?;
    let engine = Engine::Postgres(database.url.clone());
    drop(engine.open().map_err(|error| error.to_string())?);
    if hurry {
        database.do_not_wait_for_the_disk()?;
    }
    let mut client = Client::new(&engine, "c", "p");
    let writer = client.start()?;
    let (mut ended, mut amid) = (0, 0);
    while amid < crashes && ended < crashes * TRIES {
        pause(dice.between(150, 300));
        ended += 1;
        amid += u64::from(crash(&database, dice.between(0, 6))?);
    }
    let said = writer.kill();
    let refused = said.lines.iter().filter(|line| line.starts_with("R ")).count();
    let mut acks: Vec<Ack> = said.acks();
    client.took(&acks);
    let mut wrong = said.errors;
    drop(database.sql()?);
    wrong.extend(client.finish(&mut acks));
    let store = engine.open().map_err(|error| error.to_string())?;
    wrong.extend(audit(store.as_ref(), "c", &acks).wrong);
    if amid == 0 {
        wrong.push("the server was never ended in a checkpoint".to_owned());
    }
    let seen = format!(
        "{ended} ends of the server, {amid} in a checkpoint, {refused} refusals, {} acknowledged",
        acks.len()
    );
    Ok((seen, wrong))
}

/// Begins a checkpoint and ends the server a moment later; whether that was in its midst.
fn crash(database: &Database, after_ms: u64) -> Fallible<bool> {
    let (one, other): (Sql, Sql) = (database.sql()?, database.sql()?);
    let amid = std::thread::scope(|scope| {
        let checkpoint = scope.spawn(move || one.run("CHECKPOINT"));
        pause(after_ms);
        let killed = kill_checkpointer(&other);
        let done = checkpoint.join().unwrap_or_else(|_| Err("a thread has panicked".to_owned()));
        killed.map(|()| done.is_err())
    })?;
    // It has recovered before anybody goes on.
    drop(database.sql()?);
    Ok(amid)
}

/// The rows of both places, each with its control.
pub(crate) fn rows(ask: &Ask, url: &str, dice: &mut Dice) -> Fallible<Vec<Row>> {
    let mut rows = in_migration(ask, url, dice)?;
    let (seen, wrong) = in_checkpoint(ask, url, false)?;
    rows.push(Row::new("postgres, in_checkpoint, the server ends by kill -9", seen, wrong));
    let (seen, wrong) = in_checkpoint(ask, url, true)?;
    rows.push(Row::control("postgres, in_checkpoint, commits that do not wait for the disk", seen, wrong));
    Ok(rows)
}
