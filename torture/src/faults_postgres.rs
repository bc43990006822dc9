//! D4 on a real PostgreSQL server: it terminates connections, cancels statements, runs out of space, becomes
//! read-only or holds locks, or the connection is cut at a commit, under a writer process. Acknowledged events must
//! be stored.

use crate::audit::{Ack, audit};
use crate::cuttable_proxy::CuttableProxy;
use crate::harness::{StoreUnderTest, TortureOptions, TortureResult, TortureRng, TortureRow, sleep_ms};
use crate::kill::WriterClient;
use crate::postgres_server::{ScratchDatabase, SqlClient};

/// Our active connections.
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
/// All our connections.
const TERMINATE_ALL: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE datname = current_database() AND application_name = 'flyball'";
/// How long a server state lasts, in milliseconds.
const FAULT_DURATION_MS: u64 = 60;

/// Attempts for a short-lived condition.
const MAX_ATTEMPTS: u32 = 500;

/// A fault of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerFault {
    /// It terminates active connections.
    ConnectionsTerminated,
    /// It cancels statements, as after its own timeout.
    StatementsCancelled,
    /// The connection is cut before the commit reaches the server.
    CutBefore,
    /// The connection is cut after the commit.
    CutAfter,
    /// It reports a full disk.
    DiskFull,
    /// It is read-only.
    ReadOnly,
    /// Another client has locked the sessions.
    Locked,
}

impl ServerFault {
    const ALL: [ServerFault; 7] = [
        ServerFault::ConnectionsTerminated,
        ServerFault::StatementsCancelled,
        ServerFault::CutBefore,
        ServerFault::CutAfter,
        ServerFault::DiskFull,
        ServerFault::ReadOnly,
        ServerFault::Locked,
    ];

    const fn name(self) -> &'static str {
        match self {
            ServerFault::ConnectionsTerminated => "connections terminated",
            ServerFault::StatementsCancelled => "statements canceled",
            ServerFault::CutBefore => "connection cut before the commit",
            ServerFault::CutAfter => "connection cut after the commit",
            ServerFault::DiskFull => "no space (53100)",
            ServerFault::ReadOnly => "read-only for a while",
            ServerFault::Locked => "sessions locked by another client",
        }
    }

    /// Injects the fault once; returns the number of affected operations, as far as the server reports it.
    fn inject(self, sql: &SqlClient, line: &CuttableProxy) -> TortureResult<u64> {
        let lasting = |begin: &str, end: &str| {
            sql.execute(begin)?;
            sleep_ms(FAULT_DURATION_MS);
            sql.execute(end).map(|()| 1)
        };
        match self {
            ServerFault::ConnectionsTerminated => {
                retry_until_hit(|| sql.query_count(at_work!("pg_terminate_backend")))
            }
            ServerFault::StatementsCancelled => {
                retry_until_hit(|| sql.query_count(at_work!("pg_cancel_backend")))
            }
            ServerFault::CutBefore | ServerFault::CutAfter => {
                let before = line.cuts();
                line.cut_at_commit(self == ServerFault::CutBefore);
                sleep_ms(FAULT_DURATION_MS);
                Ok(line.cuts() - before)
            }
            ServerFault::DiskFull => lasting("INSERT INTO is_full VALUES (1)", "DELETE FROM is_full"),
            ServerFault::ReadOnly => {
                // Affects only new connections; ours already existed.
                let set = |on: &str| {
                    sql.execute(&format!(
                        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = {on}', \
                         current_database()); END $$"
                    ))?;
                    sql.query_count(TERMINATE_ALL)
                };
                let struck = set("on")?;
                sleep_ms(FAULT_DURATION_MS);
                set("off")?;
                Ok(struck)
            }
            ServerFault::Locked => lasting("BEGIN; LOCK TABLE flyball_sessions", "COMMIT"),
        }
    }
}

/// Retries until an active connection was hit.
fn retry_until_hit(mut hit: impl FnMut() -> TortureResult<u64>) -> TortureResult<u64> {
    for _ in 0..MAX_ATTEMPTS {
        let struck = hit()?;
        if struck > 0 {
            return Ok(struck);
        }
    }
    Ok(0)
}

/// A database with tables, and a switch that makes the server report a full disk.
fn prepare_database(options: &TortureOptions, server: &str, name: &str) -> TortureResult<ScratchDatabase> {
    let database = ScratchDatabase::create(server, &options.tag(name))?;
    drop(StoreUnderTest::Postgres(database.url.clone()).open().map_err(|error| error.to_string())?);
    database.sql()?.execute(
        "CREATE TABLE is_full (yes INTEGER); \
         CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF EXISTS (SELECT FROM is_full) THEN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END IF; \
         RETURN NULL; END $$; \
         CREATE TRIGGER no_space BEFORE INSERT ON flyball_events FOR EACH STATEMENT EXECUTE FUNCTION no_space()",
    )?;
    Ok(database)
}

/// Writes while the fault is injected repeatedly, continues for a while unless the damage is permanent, and audits.
fn run_with_fault(
    options: &TortureOptions,
    database: &ScratchDatabase,
    (strikes, broken): (u64, bool),
    mut strike: impl FnMut(&SqlClient, &CuttableProxy) -> TortureResult<u64>,
) -> TortureResult<(String, Vec<String>)> {
    let mut rng = TortureRng::new(options.seed);
    let sql = database.sql()?;
    let line = CuttableProxy::connect_to(&database.url)?;
    let mut client = WriterClient::new(&StoreUnderTest::Postgres(line.url.clone()), "real", "w");
    let writer = client.start()?;
    let mut struck = 0;
    // Wait for activity before each fault.
    let events = || sql.query_count("SELECT count(*) FROM flyball_events");
    for _ in 0..strikes {
        let seen = events()?;
        for _ in 0..MAX_ATTEMPTS {
            if events()? > seen {
                break;
            }
            sleep_ms(2);
        }
        sleep_ms(rng.between(1, 15));
        struck += strike(&sql, &line)?;
    }
    let ended = writer.kill();
    let refused = ended.lines.iter().filter(|line| line.starts_with("R ")).count();
    let mut acks: Vec<Ack> = ended.acks();
    client.record_acks(&acks);
    let mut wrong = ended.errors;
    if !broken {
        wrong.extend(client.finish(&mut acks));
    }
    let store = StoreUnderTest::Postgres(database.url.clone()).open().map_err(|error| error.to_string())?;
    wrong.extend(audit(store.as_ref(), "real", &acks).failures);
    if struck == 0 {
        wrong.push("the fault never occurred".to_owned());
    }
    Ok((format!("{strikes} strikes, {struck} hit, {refused} refusals, {} acknowledged", acks.len()), wrong))
}

/// A row for every fault, and a control with a server that drops rows.
pub(crate) fn rows(options: &TortureOptions, server: &str) -> TortureResult<Vec<TortureRow>> {
    let mut rows = Vec::new();
    for (number, kind) in ServerFault::ALL.into_iter().enumerate() {
        let database = prepare_database(options, server, &format!("real{number}"))?;
        let (seen, wrong) = run_with_fault(options, &database, (options.pick(60, 6), false), |sql, line| {
            kind.inject(sql, line)
        })?;
        rows.push(TortureRow::new(format!("postgres, {}", kind.name()), seen, wrong));
    }
    let database = prepare_database(options, server, "realx")?;
    database.sql()?.execute(
        "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RETURN CASE WHEN new.seq % 3 = 2 THEN NULL ELSE new END; END $$; \
         CREATE TRIGGER forget BEFORE INSERT ON flyball_events FOR EACH ROW EXECUTE FUNCTION forget()",
    )?;
    let (seen, wrong) = run_with_fault(options, &database, (2, true), |_, _| Ok(1))?;
    rows.push(TortureRow::control("postgres, a server that drops some rows", seen, wrong));
    Ok(rows)
}
