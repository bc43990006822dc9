//! D4: every method of a store under eight faults, two that the disk itself has, and those of a server
//! (`faults_server.rs`). Whatever fails, the client tries again with the same id; in the end the store holds what it
//! would hold without any fault.

use crate::audit::{Ack, audit};
use crate::child::start_under;
use crate::disk::Disk;
use crate::faults_server;
use crate::faulty::{Fault, Faulty, METHODS, Plan};
use crate::kill::Client;
use crate::kit::{Ask, Dice, Engine, Fallible, Row, fresh};
use crate::script::{ROUNDS, Stored, Told, play, stored};
use crate::server::Database;
use flyball_journal::{Desk, Memory, Probe, Sync};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// What the system says when the disk is full, and when it fails.
const FULL: u64 = 28;
const FAILED: u64 = 5;
/// How often the histories are lived through where answers take long.
const SHORT_ROUNDS: usize = 1;

/// Where a cell of the matrix is played.
enum Place {
    Memory,
    File,
    Server(Database),
}

impl Place {
    /// A database with the tables of a store. Whether it is synced is another suite's business.
    fn server(ask: &Ask, url: &str, name: &str) -> Fallible<Self> {
        let database = Database::make(url, &ask.tag(name))?;
        drop(Engine::Postgres(database.url.clone()).open().map_err(|error| error.to_string())?);
        database.do_not_wait_for_the_disk()?;
        Ok(Place::Server(database))
    }

    const fn name(&self) -> &'static str {
        match self {
            Place::Memory => "memory",
            Place::File => "sqlite",
            Place::Server(_) => "postgres",
        }
    }

    /// An empty store.
    fn open(&self, ask: &Ask) -> Fallible<Arc<dyn Desk>> {
        match self {
            Place::Memory => Ok(Arc::new(Memory::default())),
            Place::File => {
                let file = fresh(&ask.folder.join("faults"))?.join("flyball.db");
                // Whether it is synced is another suite's business.
                Engine::Sqlite(file).open_with(Sync::Off, Probe::default()).map_err(|error| error.to_string())
            }
            Place::Server(database) => {
                database.empty()?;
                Engine::Postgres(database.url.clone()).open().map_err(|error| error.to_string())
            }
        }
    }
}

/// The cells of a matrix, and what is found without any fault.
struct Matrix<'a> {
    ask: &'a Ask,
    /// What is wanted after the histories were lived through so many times.
    wanted: BTreeMap<usize, (Told, Stored)>,
    /// How often they are lived through, unless the method is one for old ids.
    rounds: usize,
    /// How often each cell is played.
    calls: usize,
    plans: Vec<Plan>,
}

/// What one play of a cell has shown: the number of strikes, and what is wrong.
type Shown = Fallible<(u64, Option<String>)>;

impl<'a> Matrix<'a> {
    fn new(ask: &'a Ask, place: &Place, rounds: usize, calls: u64) -> Fallible<Self> {
        let mut wanted = BTreeMap::new();
        for rounds in [rounds, ROUNDS] {
            let store = place.open(ask)?;
            let told = play(&store, rounds)?;
            wanted.insert(rounds, (told, stored(store.as_ref())?));
        }
        let mut dice = Dice::new(ask.seed);
        let mut plans = Vec::new();
        for method in METHODS {
            for fault in Fault::ALL {
                for call in 0..calls {
                    // The first call always, then some that come later.
                    let first = if call == 0 { 1 } else { dice.between(2, 4 << call) };
                    plans.push(Plan { method, fault, first, burst: dice.between(1, 3), lies: false });
                }
            }
        }
        Ok(Matrix { ask, rounds, wanted, calls: usize::try_from(calls).unwrap_or(1), plans })
    }

    /// Plays one cell.
    fn cell(&self, place: &Place, plan: Plan) -> Shown {
        let inner = place.open(self.ask)?;
        let faulty = Arc::new(Faulty::new(Arc::clone(&inner), plan));
        let store: Arc<dyn Desk> = Arc::clone(&faulty) as Arc<dyn Desk>;
        let rounds = if plan.method == "find" { ROUNDS } else { self.rounds };
        let wanted = self.wanted.get(&rounds).ok_or("there is nothing to compare with")?;
        let wrong = match play(&store, rounds) {
            Err(what) => Some(what),
            Ok(told) if told != wanted.0 => Some("the client was told something else".to_owned()),
            Ok(_) if stored(inner.as_ref())? != wanted.1 => Some("something else is stored".to_owned()),
            Ok(_) => None,
        };
        Ok((faulty.strikes(), wrong))
    }

    /// Plays all cells, beside each other if there are several places.
    fn play(&self, places: &[Place]) -> Vec<Shown> {
        let part = |first: usize| {
            let mine = self.plans.iter().enumerate().skip(first).step_by(places.len());
            let played = |(at, plan): (usize, &Plan)| {
                (at, places.get(first).map_or(Ok((0, None)), |place| self.cell(place, *plan)))
            };
            mine.map(played).collect::<Vec<_>>()
        };
        let mut all: Vec<(usize, Shown)> = std::thread::scope(|scope| {
            let part = &part;
            let threads: Vec<_> = (0..places.len()).map(|first| scope.spawn(move || part(first))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
        });
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, shown)| shown).collect()
    }

    /// Plays all cells and prints the matrix.
    fn row(&self, places: &[Place]) -> Fallible<Row> {
        let name = places.first().map_or("", Place::name);
        let mut wrong = Vec::new();
        let (mut cells, mut strikes) = (0_u64, 0);
        let mut table = format!("{name:12}");
        for fault in Fault::ALL {
            let _ = write!(table, "{:>9}", fault.name());
        }
        let mut shown = self.play(places).into_iter();
        for plans in self.plans.chunks(self.calls) {
            let Some(Plan { method, fault, .. }) = plans.first() else { continue };
            if *fault == Fault::ALL[0] {
                let _ = write!(table, "\n{method:12}");
            }
            let (mut struck, mut red) = (0, false);
            for plan in plans {
                let (hits, what) = shown.next().ok_or("a cell was not played")??;
                struck += hits;
                red |= what.is_some();
                wrong.extend(what.map(|what| format!("{name} {plan:?}: {what}")));
            }
            if struck == 0 {
                wrong.push(format!("{method} was never called"));
            }
            cells += 1;
            strikes += struck;
            let shown = if red { "RED".to_owned() } else { struck.to_string() };
            let _ = write!(table, "{shown:>9}");
        }
        crate::say(&table);
        Ok(Row::new(format!("{name}, every method"), format!("{cells} cells, {strikes} strikes"), wrong))
    }

    /// A store that says "done" and is not.
    fn control(&self, place: &Place) -> Fallible<Row> {
        let plan = Plan { method: "append", fault: Fault::Error, first: 9, burst: 1, lies: true };
        let (strikes, what) = self.cell(place, plan)?;
        Ok(Row::control(
            format!("{}, an append that is said to be done and is not", place.name()),
            format!("{strikes} strikes"),
            what.into_iter().collect(),
        ))
    }
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

/// The matrix of a server: its answers are waited for, so several databases are used beside each other, and in the short
/// form the histories are lived through once.
fn server(ask: &Ask, url: &str) -> Fallible<Vec<Row>> {
    let rounds = if ask.long { ROUNDS } else { SHORT_ROUNDS };
    let places: Vec<Place> = ["faultsa", "faultsb", "faultsc", "faultsd"]
        .into_iter()
        .map(|name| Place::server(ask, url, name))
        .collect::<Fallible<_>>()?;
    let first = places.first().ok_or("no database")?;
    let matrix = Matrix::new(ask, first, rounds, 1)?;
    let mut rows = vec![matrix.row(&places)?, matrix.control(first)?];
    drop(places);
    rows.extend(faults_server::rows(ask, url)?);
    Ok(rows)
}

/// The suite.
pub(crate) fn run(ask: &Ask) -> Fallible<Vec<Row>> {
    let memory = Matrix::new(ask, &Place::Memory, ROUNDS, ask.pick(6, 3))?;
    let file = Matrix::new(ask, &Place::File, ROUNDS, ask.pick(4, 1))?;
    let mut rows = vec![memory.row(&[Place::Memory])?, file.row(&[Place::File])?];
    let disk = Disk::build(&ask.folder)?;
    for (kind, error, name) in [("write", FULL, "ENOSPC on a write"), ("sync", FAILED, "EIO on a sync")] {
        let (seen, wrong) = real(ask, &disk, kind, error, ask.pick(40, 8))?;
        rows.push(Row::new(format!("sqlite, {name}"), seen, wrong));
    }
    rows.push(memory.control(&Place::Memory)?);
    if let Some(url) = &ask.postgres {
        rows.extend(server(ask, url)?);
    }
    Ok(rows)
}
