//! D4 on PostgreSQL, for real: the server ends connections, cancels statements, has no space, may not write, keeps
//! everybody waiting, or the line is cut at a commit, under a writer process. What was acknowledged must be there.

use crate::audit::{Ack, audit};
use crate::kill::Client;
use crate::kit::{Ask, Dice, Engine, Fallible, Row, pause};
use crate::line::Line;
use crate::server::{Database, Sql};

/// Our connections that are at work.
macro_rules! at_work {
    ($what:literal) => {
        concat!(
            "SELECT count(",
            $what,
            "(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'flyball' \
             AND state <> 'idle'"
        )
    };
}
/// All of our connections.
const END_ALL: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE datname = current_database() AND application_name = 'flyball'";
/// How long a state of the server lasts, in milliseconds.
const LASTS_MS: u64 = 60;

/// How often something that is over in no time is tried.
const TRIES: u32 = 500;

/// What the server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strike {
    /// It ends the connections that are at work.
    Ended,
    /// It gives statements up, as after its own limit of time.
    Cancelled,
    /// The line is cut before the commit reaches the server.
    CutBefore,
    /// The line is cut when the commit was made.
    CutAfter,
    /// It says that there is no space.
    Full,
    /// It only lets read.
    ReadOnly,
    /// Somebody else has locked the sessions.
    Locked,
}

impl Strike {
    const ALL: [Strike; 7] = [
        Strike::Ended,
        Strike::Cancelled,
        Strike::CutBefore,
        Strike::CutAfter,
        Strike::Full,
        Strike::ReadOnly,
        Strike::Locked,
    ];

    const fn name(self) -> &'static str {
        match self {
            Strike::Ended => "connections ended by the server",
            Strike::Cancelled => "statements given up by the server",
            Strike::CutBefore => "the line cut before the commit",
            Strike::CutAfter => "the line cut after the commit",
            Strike::Full => "no space (53100)",
            Strike::ReadOnly => "read-only for a while",
            Strike::Locked => "sessions locked by somebody else",
        }
    }

    /// Strikes once; how many pieces of work were struck, as far as the server tells.
    fn strike(self, sql: &Sql, line: &Line) -> Fallible<u64> {
        let lasting = |begin: &str, end: &str| {
            sql.run(begin)?;
            pause(LASTS_MS);
            sql.run(end).map(|()| 1)
        };
        match self {
            Strike::Ended => until_hit(|| sql.count(at_work!("pg_terminate_backend"))),
            Strike::Cancelled => until_hit(|| sql.count(at_work!("pg_cancel_backend"))),
            Strike::CutBefore | Strike::CutAfter => {
                let before = line.cuts();
                line.cut_at_commit(self == Strike::CutBefore);
                pause(LASTS_MS);
                Ok(line.cuts() - before)
            }
            Strike::Full => lasting("INSERT INTO is_full VALUES (1)", "DELETE FROM is_full"),
            Strike::ReadOnly => {
                // It counts for new connections; ours was there before.
                let set = |on: &str| {
                    sql.run(&format!(
                        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = {on}', \
                         current_database()); END $$"
                    ))?;
                    sql.count(END_ALL)
                };
                let struck = set("on")?;
                pause(LASTS_MS);
                set("off")?;
                Ok(struck)
            }
            Strike::Locked => lasting("BEGIN; LOCK TABLE flyball_sessions", "COMMIT"),
        }
    }
}

/// Tries until somebody was at work.
fn until_hit(mut hit: impl FnMut() -> Fallible<u64>) -> Fallible<u64> {
    for _ in 0..TRIES {
        let struck = hit()?;
        if struck > 0 {
            return Ok(struck);
        }
    }
    Ok(0)
}

/// A database with tables, and a server that can be told that it is full.
fn prepared(ask: &Ask, server: &str, name: &str) -> Fallible<Database> {
    let database = Database::make(server, &ask.tag(name))?;
    drop(Engine::Postgres(database.url.clone()).open().map_err(|error| error.to_string())?);
    database.sql()?.run(
        "CREATE TABLE is_full (yes INTEGER); \
         CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF EXISTS (SELECT FROM is_full) THEN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END IF; \
         RETURN NULL; END $$; \
         CREATE TRIGGER no_space BEFORE INSERT ON flyball_events FOR EACH STATEMENT EXECUTE FUNCTION no_space()",
    )?;
    Ok(database)
}

/// Writes while the server strikes so many times, goes on for a little unless it is broken for good, and looks.
fn play(
    ask: &Ask,
    database: &Database,
    (strikes, broken): (u64, bool),
    mut strike: impl FnMut(&Sql, &Line) -> Fallible<u64>,
) -> Fallible<(String, Vec<String>)> {
    let mut dice = Dice::new(ask.seed);
    let sql = database.sql()?;
    let line = Line::to(&database.url)?;
    let mut client = Client::new(&Engine::Postgres(line.url.clone()), "real", "w");
    let writer = client.start()?;
    let mut struck = 0;
    // It is at work before each strike.
    let events = || sql.count("SELECT count(*) FROM flyball_events");
    for _ in 0..strikes {
        let seen = events()?;
        for _ in 0..TRIES {
            if events()? > seen {
                break;
            }
            pause(2);
        }
        pause(dice.between(1, 15));
        struck += strike(&sql, &line)?;
    }
    let ended = writer.kill();
    let refused = ended.lines.iter().filter(|line| line.starts_with("R ")).count();
    let mut acks: Vec<Ack> = ended.acks();
    client.took(&acks);
    let mut wrong = ended.errors;
    if !broken {
        wrong.extend(client.finish(&mut acks));
    }
    let store = Engine::Postgres(database.url.clone()).open().map_err(|error| error.to_string())?;
    wrong.extend(audit(store.as_ref(), "real", &acks).wrong);
    if struck == 0 {
        wrong.push("the fault never struck".to_owned());
    }
    Ok((format!("{strikes} strikes, {struck} hit, {refused} refusals, {} acknowledged", acks.len()), wrong))
}

/// Every strike, and a server that keeps less than it says.
pub(crate) fn rows(ask: &Ask, server: &str) -> Fallible<Vec<Row>> {
    let mut rows = Vec::new();
    for (number, kind) in Strike::ALL.into_iter().enumerate() {
        let database = prepared(ask, server, &format!("real{number}"))?;
        let (seen, wrong) =
            play(ask, &database, (ask.pick(60, 6), false), |sql, line| kind.strike(sql, line))?;
        rows.push(Row::new(format!("postgres, {}", kind.name()), seen, wrong));
    }
    let database = prepared(ask, server, "realx")?;
    database.sql()?.run(
        "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RETURN CASE WHEN new.seq % 3 = 2 THEN NULL ELSE new END; END $$; \
         CREATE TRIGGER forget BEFORE INSERT ON flyball_events FOR EACH ROW EXECUTE FUNCTION forget()",
    )?;
    let (seen, wrong) = play(ask, &database, (2, true), |_, _| Ok(1))?;
    rows.push(Row::control("postgres, a server that drops some rows", seen, wrong));
    Ok(rows)
}
