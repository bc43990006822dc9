//! D2: the process ends at each named place. In checkpoints and migrations PostgreSQL has a part of its own
//! (`points_server.rs`).

use crate::audit::{Ack, audit};
use crate::child::{Running, start_under};
use crate::disk::Disk;
use crate::errands;
use crate::kill::Client;
use crate::kit::{Ask, Dice, Engine, Fallible, Row, fresh};
use crate::points_server;
use crate::server::Database;
use flyball_journal::Point;

/// One place: crash there again and again on one store, send again, and look.
struct Place<'a> {
    engine: &'a Engine,
    tag: String,
    crashes: u64,
    /// The passes among which one is chosen.
    hits: u64,
}

impl Place<'_> {
    /// Crashes at a place of the recorder or the engine.
    fn at(&self, point: &str, dice: &mut Dice, early: bool) -> Fallible<(String, Vec<String>)> {
        self.repeat(dice, early, |client, hit| {
            client.words = client.words.clone().with("point", point).with("hit", hit);
            client.start()
        })
    }

    /// Crashes while the write-ahead log is copied back into the file.
    fn in_checkpoint(&self, disk: &Disk, dice: &mut Dice) -> Fallible<(String, Vec<String>)> {
        self.repeat(dice, false, |client, hit| {
            client.words = client.words.clone().with("checkpoint", 20);
            start_under("writer", &client.turn(), &disk.kill_at(&self.engine.folder(), "dbwrite", hit))
        })
    }

    fn repeat(
        &self,
        dice: &mut Dice,
        early: bool,
        start: impl Fn(&mut Client, u64) -> Fallible<Running>,
    ) -> Fallible<(String, Vec<String>)> {
        let mut client = Client::new(self.engine, &self.tag, "p");
        if early {
            client.words = client.words.clone().with("early", "yes");
        }
        let mut acks: Vec<Ack> = Vec::new();
        let mut wrong = Vec::new();
        for _ in 0..self.crashes {
            let hit = dice.between(1, self.hits);
            let ended = start(&mut client, hit)?.wait();
            if ended.ok {
                wrong.push("a writer was not ended".to_owned());
            }
            wrong.extend(ended.errors.iter().cloned());
            client.took(&ended.acks());
            acks.extend(ended.acks());
        }
        let mut last = Client::new(self.engine, &self.tag, "p");
        last.next.clone_from(&client.next);
        wrong.extend(last.finish(&mut acks));
        let store = self.engine.open().map_err(|error| error.to_string())?;
        let found = audit(store.as_ref(), &self.tag, &acks);
        wrong.extend(found.wrong);
        Ok((format!("{} crashes, {} acknowledged, {} stored", self.crashes, acks.len(), found.events), wrong))
    }
}

/// Every crash of a migration is on a new file.
fn in_migration(ask: &Ask, crashes: u64, dice: &mut Dice) -> Fallible<(String, Vec<String>)> {
    let mut wrong = Vec::new();
    let mut events = 0;
    for crash in 0..crashes {
        let engine = Engine::Sqlite(fresh(&ask.folder.join(format!("migration{crash}")))?.join("flyball.db"));
        let place = Place { engine: &engine, tag: "m".to_owned(), crashes: 1, hits: 4 };
        let (_, more) = place.at(Point::InMigration.as_str(), dice, false)?;
        wrong.extend(more);
        events += 1;
    }
    Ok((format!("{events} crashes, each on a new file"), wrong))
}

/// The suite.
pub(crate) fn run(ask: &Ask) -> Fallible<Vec<Row>> {
    let mut dice = Dice::new(ask.seed);
    let crashes = ask.pick(20, 3);
    let mut rows = Vec::new();
    for engine in ask.engines("points")? {
        for point in [Point::BeforeAppend, Point::InTransaction, Point::AfterCommit] {
            let tag = ask.tag(&format!("p{}", point as u8));
            let place = Place { engine: &engine, tag, crashes, hits: 25 };
            let (seen, wrong) = place.at(point.as_str(), &mut dice, false)?;
            rows.push(Row::new(format!("{}, {}", engine.name(), point.as_str()), seen, wrong));
        }
        rows.extend(effects(ask, &engine, crashes, &mut dice)?);
    }
    let disk = Disk::build(&ask.folder)?;
    let engine = Engine::Sqlite(fresh(&ask.folder.join("checkpoint"))?.join("flyball.db"));
    let place = Place { engine: &engine, tag: "c".to_owned(), crashes, hits: 60 };
    let (seen, wrong) = place.in_checkpoint(&disk, &mut dice)?;
    rows.push(Row::new("sqlite, in_checkpoint", seen, wrong));
    let (seen, wrong) = in_migration(ask, crashes, &mut dice)?;
    rows.push(Row::new("sqlite, in_migration", seen, wrong));
    if let Some(server) = &ask.postgres {
        rows.extend(points_server::rows(ask, server, &mut dice)?);
    }
    rows.extend(controls(ask, &mut dice)?);
    Ok(rows)
}

/// Crashes of the courier that ships, in a store of its own: it takes whatever waits.
fn effects(ask: &Ask, engine: &Engine, crashes: u64, dice: &mut Dice) -> Fallible<Vec<Row>> {
    let mut rows = Vec::new();
    for point in [Point::BeforeEffect, Point::InEffect, Point::AfterEffect] {
        let name = point.as_str();
        let folder = fresh(&ask.folder.join(format!("effects-{name}")))?;
        let database = match engine {
            Engine::Sqlite(_) => None,
            Engine::Postgres(server) => Some(Database::make(server, &ask.tag(&format!("e{}", point as u8)))?),
        };
        let engine = match &database {
            Some(database) => Engine::Postgres(database.url.clone()),
            None => Engine::Sqlite(folder.join("flyball.db")),
        };
        let (seen, wrong) = errands::crash_at(&engine, "e", &folder, (name, crashes), dice)?;
        rows.push(Row::new(format!("{}, {name}", engine.name()), seen, wrong));
    }
    Ok(rows)
}

fn controls(ask: &Ask, dice: &mut Dice) -> Fallible<Vec<Row>> {
    let engine = Engine::Sqlite(fresh(&ask.folder.join("points-control"))?.join("flyball.db"));
    let place = Place { engine: &engine, tag: "x".to_owned(), crashes: 2, hits: 25 };
    let (seen, wrong) = place.at(Point::BeforeAppend.as_str(), dice, true)?;
    let first = Row::control("sqlite, before_append, acknowledged before it is sent", seen, wrong);
    let folder = fresh(&ask.folder.join("effects-control"))?;
    let (seen, wrong) = errands::crash_hasty(&engine, "xe", &folder, ("in_effect", 2), dice)?;
    Ok(vec![first, Row::control("sqlite, in_effect, marked as done before it is performed", seen, wrong)])
}
