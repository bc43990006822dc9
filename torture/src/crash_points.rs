//! D2: the process crashes at each failpoint. Crashes in checkpoints and migrations of PostgreSQL are in
//! `crash_points_postgres.rs`.

use crate::audit::{Ack, audit};
use crate::child::{TortureChild, spawn_with_env};
use crate::crash_points_postgres;
use crate::disk_shim::DiskShim;
use crate::harness::{StoreUnderTest, TortureOptions, TortureResult, TortureRng, TortureRow, empty_dir};
use crate::kill::WriterClient;
use crate::outbox;
use crate::postgres_server::ScratchDatabase;
use flyball_store::Failpoint;

/// One failpoint: crashes there repeatedly on one store, resends and audits.
struct CrashScenario<'a> {
    engine: &'a StoreUnderTest,
    tag: String,
    crashes: u64,
    /// Crash at a random hit up to this one.
    hits: u64,
}

impl CrashScenario<'_> {
    /// Crashes at a failpoint of the recorder or the engine.
    fn crash_at(
        &self,
        point: &str,
        rng: &mut TortureRng,
        early: bool,
    ) -> TortureResult<(String, Vec<String>)> {
        self.crash_repeatedly(rng, early, |client, hit| {
            client.args = client.args.clone().with("point", point).with("hit", hit);
            client.start()
        })
    }

    /// Crashes while the write-ahead log is copied back into the file.
    fn crash_in_checkpoint(
        &self,
        disk: &DiskShim,
        rng: &mut TortureRng,
    ) -> TortureResult<(String, Vec<String>)> {
        self.crash_repeatedly(rng, false, |client, hit| {
            client.args = client.args.clone().with("checkpoint", 20);
            spawn_with_env(
                "writer",
                &client.next_args(),
                &disk.env_kill_at(&self.engine.folder(), "dbwrite", hit),
            )
        })
    }

    fn crash_repeatedly(
        &self,
        rng: &mut TortureRng,
        early: bool,
        start: impl Fn(&mut WriterClient, u64) -> TortureResult<TortureChild>,
    ) -> TortureResult<(String, Vec<String>)> {
        let mut client = WriterClient::new(self.engine, &self.tag, "p");
        if early {
            client.args = client.args.clone().with("early", "yes");
        }
        let mut acks: Vec<Ack> = Vec::new();
        let mut wrong = Vec::new();
        for _ in 0..self.crashes {
            let hit = rng.between(1, self.hits);
            let ended = start(&mut client, hit)?.wait();
            if ended.ok {
                wrong.push("a writer was not killed".to_owned());
            }
            wrong.extend(ended.errors.iter().cloned());
            client.record_acks(&ended.acks());
            acks.extend(ended.acks());
        }
        let mut last = WriterClient::new(self.engine, &self.tag, "p");
        last.next.clone_from(&client.next);
        wrong.extend(last.finish(&mut acks));
        let store = self.engine.open().map_err(|error| error.to_string())?;
        let found = audit(store.as_ref(), &self.tag, &acks);
        wrong.extend(found.failures);
        Ok((format!("{} crashes, {} acknowledged, {} stored", self.crashes, acks.len(), found.events), wrong))
    }
}

/// Crashes in migrations, each on a new file.
fn crash_in_migrations(
    options: &TortureOptions,
    crashes: u64,
    rng: &mut TortureRng,
) -> TortureResult<(String, Vec<String>)> {
    let mut wrong = Vec::new();
    let mut events = 0;
    for crash in 0..crashes {
        let engine = StoreUnderTest::Sqlite(
            empty_dir(&options.folder.join(format!("migration{crash}")))?.join("flyball.db"),
        );
        let scenario = CrashScenario { engine: &engine, tag: "m".to_owned(), crashes: 1, hits: 4 };
        let (_, more) = scenario.crash_at(Failpoint::InMigration.as_str(), rng, false)?;
        wrong.extend(more);
        events += 1;
    }
    Ok((format!("{events} crashes, each on a new file"), wrong))
}

/// The suite.
pub(crate) fn run(options: &TortureOptions) -> TortureResult<Vec<TortureRow>> {
    let mut rng = TortureRng::new(options.seed);
    let crashes = options.pick(20, 3);
    let mut rows = Vec::new();
    for engine in options.engines("points")? {
        for point in [Failpoint::BeforeAppend, Failpoint::InTransaction, Failpoint::AfterCommit] {
            let tag = options.tag(&format!("p{}", point as u8));
            let scenario = CrashScenario { engine: &engine, tag, crashes, hits: 25 };
            let (seen, wrong) = scenario.crash_at(point.as_str(), &mut rng, false)?;
            rows.push(TortureRow::new(format!("{}, {}", engine.name(), point.as_str()), seen, wrong));
        }
        rows.extend(crash_in_deliveries(options, &engine, crashes, &mut rng)?);
    }
    let disk = DiskShim::build(&options.folder)?;
    let engine = StoreUnderTest::Sqlite(empty_dir(&options.folder.join("checkpoint"))?.join("flyball.db"));
    let scenario = CrashScenario { engine: &engine, tag: "c".to_owned(), crashes, hits: 60 };
    let (seen, wrong) = scenario.crash_in_checkpoint(&disk, &mut rng)?;
    rows.push(TortureRow::new("sqlite, in_checkpoint", seen, wrong));
    let (seen, wrong) = crash_in_migrations(options, crashes, &mut rng)?;
    rows.push(TortureRow::new("sqlite, in_migration", seen, wrong));
    if let Some(server) = &options.postgres {
        rows.extend(crash_points_postgres::rows(options, server, &mut rng)?);
    }
    rows.extend(control_rows(options, &mut rng)?);
    Ok(rows)
}

/// Crashes of the shipped dispatcher, on a separate store because it claims every due message.
fn crash_in_deliveries(
    options: &TortureOptions,
    engine: &StoreUnderTest,
    crashes: u64,
    rng: &mut TortureRng,
) -> TortureResult<Vec<TortureRow>> {
    let mut rows = Vec::new();
    for point in [Failpoint::BeforeEffect, Failpoint::InEffect, Failpoint::AfterEffect] {
        let name = point.as_str();
        let folder = empty_dir(&options.folder.join(format!("effects-{name}")))?;
        let database = match engine {
            StoreUnderTest::Sqlite(_) => None,
            StoreUnderTest::Postgres(server) => {
                Some(ScratchDatabase::create(server, &options.tag(&format!("e{}", point as u8)))?)
            }
        };
        let engine = match &database {
            Some(database) => StoreUnderTest::Postgres(database.url.clone()),
            None => StoreUnderTest::Sqlite(folder.join("flyball.db")),
        };
        let (seen, wrong) = outbox::crash_dispatcher_at(&engine, "e", &folder, (name, crashes), rng)?;
        rows.push(TortureRow::new(format!("{}, {name}", engine.name()), seen, wrong));
    }
    Ok(rows)
}

fn control_rows(options: &TortureOptions, rng: &mut TortureRng) -> TortureResult<Vec<TortureRow>> {
    let engine =
        StoreUnderTest::Sqlite(empty_dir(&options.folder.join("points-control"))?.join("flyball.db"));
    let scenario = CrashScenario { engine: &engine, tag: "x".to_owned(), crashes: 2, hits: 25 };
    let (seen, wrong) = scenario.crash_at(Failpoint::BeforeAppend.as_str(), rng, true)?;
    let first = TortureRow::control("sqlite, before_append, acknowledged before the append", seen, wrong);
    let folder = empty_dir(&options.folder.join("effects-control"))?;
    let (seen, wrong) = outbox::crash_premature_dispatcher(&engine, "xe", &folder, ("in_effect", 2), rng)?;
    Ok(vec![first, TortureRow::control("sqlite, in_effect, marked as done before the delivery", seen, wrong)])
}
