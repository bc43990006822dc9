//! D4: every method of a store under eight faults, and two that the disk itself has. Whatever fails, the client tries
//! again with the same id; in the end the store holds what it would hold without any fault.

use crate::audit::{Ack, audit};
use crate::child::start_under;
use crate::disk::Disk;
use crate::faulty::{Fault, Faulty, METHODS, Plan};
use crate::kill::Client;
use crate::kit::{Ask, Dice, Engine, Fallible, Row, fresh};
use crate::script::{Stored, Told, play, stored};
use flyball_journal::{Desk, Memory, Probe, Sync};
use std::fmt::Write as _;
use std::sync::Arc;

/// What the system says when the disk is full, and when it fails.
const FULL: u64 = 28;
const FAILED: u64 = 5;

/// Where a cell of the matrix is played.
enum Place {
    Memory,
    File,
}

impl Place {
    const fn name(&self) -> &'static str {
        match self {
            Place::Memory => "memory",
            Place::File => "sqlite",
        }
    }

    fn open(&self, ask: &Ask) -> Fallible<Arc<dyn Desk>> {
        match self {
            Place::Memory => Ok(Arc::new(Memory::default())),
            Place::File => {
                let file = fresh(&ask.folder.join("faults"))?.join("flyball.db");
                // Whether it is synced is another suite's business.
                Engine::Sqlite(file).open_with(Sync::Off, Probe::default()).map_err(|error| error.to_string())
            }
        }
    }

    /// Plays one cell; the number of strikes, and what is wrong.
    fn cell(&self, ask: &Ask, plan: Plan, wanted: &(Told, Stored)) -> Fallible<(u64, Option<String>)> {
        let inner = self.open(ask)?;
        let faulty = Arc::new(Faulty::new(Arc::clone(&inner), plan));
        let store: Arc<dyn Desk> = Arc::clone(&faulty) as Arc<dyn Desk>;
        let told = play(&store);
        let wrong = match told {
            Err(what) => Some(what),
            Ok(told) if told != wanted.0 => Some("the client was told something else".to_owned()),
            Ok(_) if stored(inner.as_ref())? != wanted.1 => Some("something else is stored".to_owned()),
            Ok(_) => None,
        };
        Ok((faulty.strikes(), wrong))
    }
}

/// Without any fault.
fn reference(ask: &Ask, place: &Place) -> Fallible<(Told, Stored)> {
    let store = place.open(ask)?;
    let told = play(&store)?;
    Ok((told, stored(store.as_ref())?))
}

/// All cells; prints the matrix.
fn matrix(ask: &Ask, place: &Place, calls: u64) -> Fallible<Row> {
    let wanted = reference(ask, place)?;
    let mut dice = Dice::new(ask.seed);
    let mut wrong = Vec::new();
    let (mut cells, mut strikes) = (0_u64, 0);
    let mut table = format!("{:12}", place.name());
    for fault in Fault::ALL {
        let _ = write!(table, "{:>9}", fault.name());
    }
    for method in METHODS {
        let _ = write!(table, "\n{method:12}");
        for fault in Fault::ALL {
            let mut struck = 0;
            let mut red = false;
            for call in 0..calls {
                // The first call always, then some that come later.
                let first = if call == 0 { 1 } else { dice.between(2, 4 << call) };
                let plan = Plan { method, fault, first, burst: dice.between(1, 3), lies: false };
                let (hits, what) = place.cell(ask, plan, &wanted)?;
                struck += hits;
                if let Some(what) = what {
                    red = true;
                    wrong.push(format!("{} {plan:?}: {what}", place.name()));
                }
            }
            if struck == 0 {
                wrong.push(format!("{method} was never called"));
            }
            cells += 1;
            strikes += struck;
            let shown = if red { "RED".to_owned() } else { struck.to_string() };
            let _ = write!(table, "{shown:>9}");
        }
    }
    crate::say(&table);
    Ok(Row::new(
        format!("{}, every method", place.name()),
        format!("{cells} cells, {strikes} strikes"),
        wrong,
    ))
}

/// A store that says "done" and is not.
fn control(ask: &Ask) -> Fallible<Row> {
    let place = Place::Memory;
    let wanted = reference(ask, &place)?;
    let plan = Plan { method: "append", fault: Fault::Error, first: 9, burst: 1, lies: true };
    let (strikes, what) = place.cell(ask, plan, &wanted)?;
    Ok(Row::control(
        "memory, an append that is said to be done and is not",
        format!("{strikes} strikes"),
        what.into_iter().collect(),
    ))
}

/// The disk is full, or fails while syncing: the real thing, under a writer process.
fn real(ask: &Ask, disk: &Disk, kind: &str, error: u64, runs: u64) -> Fallible<(String, Vec<String>)> {
    let mut dice = Dice::new(ask.seed ^ error);
    let mut wrong = Vec::new();
    let (mut refused, mut acked, mut restarts) = (0, 0, 0_u64);
    for run in 0..runs {
        let folder = fresh(&ask.folder.join(format!("real-{kind}-{run}")))?;
        let engine = Engine::Sqlite(folder.join("flyball.db"));
        // The file is made before the disk fails.
        drop(engine.open().map_err(|error| error.to_string())?);
        let mut client = Client::new(&engine, "real", "w");
        let mut acks: Vec<Ack> = Vec::new();
        // A writer sends 12 events a thread; one that has to give up is started again, without the fault.
        let first = dice.between(1, if kind == "sync" { 12 } else { 160 });
        // A few failures are over before the recorder gives up; many reach the client.
        let count = if kind == "sync" { 1 } else { dice.between(1, 200) };
        let environment = disk.failing(&folder, kind, (first, count), error);
        let ended = start_under("writer", &client.turn().with("limit", 12), &environment)?.wait();
        refused += ended.lines.iter().filter(|line| line.starts_with("R ")).count();
        restarts += u64::from(!ended.ok);
        client.took(&ended.acks());
        acks.extend(ended.acks());
        wrong.extend(client.finish(&mut acks));
        acked += acks.len();
        let store = engine.open().map_err(|error| error.to_string())?;
        wrong.extend(audit(store.as_ref(), "real", &acks).wrong);
    }
    if refused == 0 {
        wrong.push("the fault never struck".to_owned());
    }
    Ok((format!("{runs} runs, {refused} refusals, {restarts} restarts, {acked} acknowledged"), wrong))
}

/// The suite.
pub(crate) fn run(ask: &Ask) -> Fallible<Vec<Row>> {
    let mut rows =
        vec![matrix(ask, &Place::Memory, ask.pick(6, 3))?, matrix(ask, &Place::File, ask.pick(4, 1))?];
    let disk = Disk::build(&ask.folder)?;
    for (kind, error, name) in [("write", FULL, "ENOSPC on a write"), ("sync", FAILED, "EIO on a sync")] {
        let (seen, wrong) = real(ask, &disk, kind, error, ask.pick(40, 8))?;
        rows.push(Row::new(format!("sqlite, {name}"), seen, wrong));
    }
    rows.push(control(ask)?);
    Ok(rows)
}
