//! D4: every store method under eight injected faults, two real disk faults, and server faults
//! (`faults_postgres.rs`). After a failure the client retries with the same id; in the end the store contains what it
//! would contain without faults.

use crate::audit::{Ack, audit};
use crate::child::spawn_with_env;
use crate::disk_shim::DiskShim;
use crate::faults_postgres;
use crate::faulty_store::{FaultPlan, FaultyStore, InjectedFault, METHODS};
use crate::harness::{StoreUnderTest, TortureOptions, TortureResult, TortureRng, TortureRow, empty_dir};
use crate::kill::WriterClient;
use crate::postgres_server::ScratchDatabase;
use crate::scenario::{ClientLog, ROUNDS, StoredEvents, run_scenario, stored_events};
use flyball_store::{AdminStore, FailpointHook, MemoryStore, SyncMode};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Error numbers of a full disk and of a failing one.
const ENOSPC: u64 = 28;
const EIO: u64 = 5;
/// Rounds of the histories where replies are slow.
const SHORT_ROUNDS: usize = 1;

/// Store on which a cell of the matrix runs.
enum MatrixTarget {
    Memory,
    File,
    Server(ScratchDatabase),
}

impl MatrixTarget {
    /// A database with the tables of a store, without syncs: durability is tested by another suite.
    fn server(options: &TortureOptions, url: &str, name: &str) -> TortureResult<Self> {
        let database = ScratchDatabase::create(url, &options.tag(name))?;
        drop(StoreUnderTest::Postgres(database.url.clone()).open().map_err(|error| error.to_string())?);
        database.disable_synchronous_commit()?;
        Ok(MatrixTarget::Server(database))
    }

    const fn name(&self) -> &'static str {
        match self {
            MatrixTarget::Memory => "memory",
            MatrixTarget::File => "sqlite",
            MatrixTarget::Server(_) => "postgres",
        }
    }

    /// An empty store.
    fn open(&self, options: &TortureOptions) -> TortureResult<Arc<dyn AdminStore>> {
        match self {
            MatrixTarget::Memory => Ok(Arc::new(MemoryStore::default())),
            MatrixTarget::File => {
                let file = empty_dir(&options.folder.join("faults"))?.join("flyball.db");
                // Without syncs: durability is tested by another suite.
                StoreUnderTest::Sqlite(file)
                    .open_with(SyncMode::Off, FailpointHook::default())
                    .map_err(|error| error.to_string())
            }
            MatrixTarget::Server(database) => {
                database.truncate()?;
                StoreUnderTest::Postgres(database.url.clone()).open().map_err(|error| error.to_string())
            }
        }
    }
}

/// A fault matrix and the expected results without faults.
struct FaultMatrix<'a> {
    options: &'a TortureOptions,
    /// Expected results by number of rounds.
    expected: BTreeMap<usize, (ClientLog, StoredEvents)>,
    /// Rounds, unless the method needs old ids.
    rounds: usize,
    /// Runs of each cell.
    calls: usize,
    plans: Vec<FaultPlan>,
}

/// Result of a cell: the number of injected faults, and a failure.
type CellResult = TortureResult<(u64, Option<String>)>;

impl<'a> FaultMatrix<'a> {
    fn new(
        options: &'a TortureOptions,
        target: &MatrixTarget,
        rounds: usize,
        calls: u64,
    ) -> TortureResult<Self> {
        let mut wanted = BTreeMap::new();
        for rounds in [rounds, ROUNDS] {
            let store = target.open(options)?;
            let log = run_scenario(&store, rounds)?;
            wanted.insert(rounds, (log, stored_events(store.as_ref())?));
        }
        let mut rng = TortureRng::new(options.seed);
        let mut plans = Vec::new();
        for method in METHODS {
            for fault in InjectedFault::ALL {
                for call in 0..calls {
                    // The first call always, then some later ones.
                    let first = if call == 0 { 1 } else { rng.between(2, 4 << call) };
                    plans.push(FaultPlan { method, fault, first, burst: rng.between(1, 3), lies: false });
                }
            }
        }
        Ok(FaultMatrix {
            options,
            rounds,
            expected: wanted,
            calls: usize::try_from(calls).unwrap_or(1),
            plans,
        })
    }

    /// Runs one cell.
    fn run_cell(&self, target: &MatrixTarget, plan: FaultPlan) -> CellResult {
        let inner = target.open(self.options)?;
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&inner), plan));
        let store: Arc<dyn AdminStore> = Arc::clone(&faulty) as Arc<dyn AdminStore>;
        let rounds = if plan.method == "find_by_id" { ROUNDS } else { self.rounds };
        let wanted = self.expected.get(&rounds).ok_or("there is nothing to compare with")?;
        let wrong = match run_scenario(&store, rounds) {
            Err(what) => Some(what),
            Ok(log) if log != wanted.0 => Some("the client got different answers".to_owned()),
            Ok(_) if stored_events(inner.as_ref())? != wanted.1 => {
                Some("the stored events differ".to_owned())
            }
            Ok(_) => None,
        };
        Ok((faulty.strikes(), wrong))
    }

    /// Runs all cells, in parallel if there are several targets.
    fn run_cells(&self, targets: &[MatrixTarget]) -> Vec<CellResult> {
        let part = |first: usize| {
            let mine = self.plans.iter().enumerate().skip(first).step_by(targets.len());
            let played = |(at, plan): (usize, &FaultPlan)| {
                (at, targets.get(first).map_or(Ok((0, None)), |target| self.run_cell(target, *plan)))
            };
            mine.map(played).collect::<Vec<_>>()
        };
        let mut all: Vec<(usize, CellResult)> = std::thread::scope(|scope| {
            let part = &part;
            let threads: Vec<_> = (0..targets.len()).map(|first| scope.spawn(move || part(first))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
        });
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, shown)| shown).collect()
    }

    /// Runs all cells and prints the matrix.
    fn run_and_report(&self, targets: &[MatrixTarget]) -> TortureResult<TortureRow> {
        let name = targets.first().map_or("", MatrixTarget::name);
        let mut wrong = Vec::new();
        let (mut cells, mut strikes) = (0_u64, 0);
        let mut table = format!("{name:18}");
        for fault in InjectedFault::ALL {
            let _ = write!(table, "{:>9}", fault.name());
        }
        let mut shown = self.run_cells(targets).into_iter();
        for plans in self.plans.chunks(self.calls) {
            let Some(FaultPlan { method, fault, .. }) = plans.first() else { continue };
            if *fault == InjectedFault::ALL[0] {
                let _ = write!(table, "\n{method:18}");
            }
            let (mut struck, mut red) = (0, false);
            for plan in plans {
                let (hits, what) = shown.next().ok_or("a cell was not run")??;
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
        crate::print_line(&table);
        Ok(TortureRow::new(
            format!("{name}, every method"),
            format!("{cells} cells, {strikes} faults"),
            wrong,
        ))
    }

    /// Control: a store that reports success without storing.
    fn control_row(&self, target: &MatrixTarget) -> TortureResult<TortureRow> {
        let plan =
            FaultPlan { method: "append", fault: InjectedFault::Error, first: 9, burst: 1, lies: true };
        let (strikes, what) = self.run_cell(target, plan)?;
        Ok(TortureRow::control(
            format!("{}, an append reported but not done", target.name()),
            format!("{strikes} faults"),
            what.into_iter().collect(),
        ))
    }
}

/// A full disk, or one that fails on sync, under a writer process.
fn disk_faults(
    options: &TortureOptions,
    disk: &DiskShim,
    kind: &str,
    error: u64,
    runs: u64,
) -> TortureResult<(String, Vec<String>)> {
    let mut rng = TortureRng::new(options.seed ^ error);
    let mut wrong = Vec::new();
    let (mut refused, mut acked, mut restarts) = (0, 0, 0_u64);
    for run in 0..runs {
        let folder = empty_dir(&options.folder.join(format!("real-{kind}-{run}")))?;
        let engine = StoreUnderTest::Sqlite(folder.join("flyball.db"));
        // Create the file before the disk fails.
        drop(engine.open().map_err(|error| error.to_string())?);
        let mut client = WriterClient::new(&engine, "real", "w");
        let mut acks: Vec<Ack> = Vec::new();
        // A writer sends 12 events per thread; one that gives up is restarted without the fault.
        let first = rng.between(1, if kind == "sync" { 12 } else { 160 });
        // The recorder survives a few failures; many reach the client.
        let count = if kind == "sync" { 1 } else { rng.between(1, 200) };
        let environment = disk.env_fail(&folder, kind, (first, count), error);
        let ended = spawn_with_env("writer", &client.next_args().with("limit", 12), &environment)?.wait();
        refused += ended.lines.iter().filter(|line| line.starts_with("R ")).count();
        restarts += u64::from(!ended.ok);
        client.record_acks(&ended.acks());
        acks.extend(ended.acks());
        wrong.extend(client.finish(&mut acks));
        acked += acks.len();
        let store = engine.open().map_err(|error| error.to_string())?;
        wrong.extend(audit(store.as_ref(), "real", &acks).failures);
    }
    if refused == 0 {
        wrong.push("the fault never occurred".to_owned());
    }
    Ok((format!("{runs} runs, {refused} refusals, {restarts} restarts, {acked} acknowledged"), wrong))
}

/// The matrix of a server: replies are slow, so several databases are used in parallel, and the short form runs the
/// histories once.
fn postgres_matrix(options: &TortureOptions, url: &str) -> TortureResult<Vec<TortureRow>> {
    let rounds = if options.long { ROUNDS } else { SHORT_ROUNDS };
    let targets: Vec<MatrixTarget> = ["faultsa", "faultsb", "faultsc", "faultsd"]
        .into_iter()
        .map(|name| MatrixTarget::server(options, url, name))
        .collect::<TortureResult<_>>()?;
    let first = targets.first().ok_or("no database")?;
    let matrix = FaultMatrix::new(options, first, rounds, 1)?;
    let mut rows = vec![matrix.run_and_report(&targets)?, matrix.control_row(first)?];
    drop(targets);
    rows.extend(faults_postgres::rows(options, url)?);
    Ok(rows)
}

/// The suite.
pub(crate) fn run(options: &TortureOptions) -> TortureResult<Vec<TortureRow>> {
    let memory = FaultMatrix::new(options, &MatrixTarget::Memory, ROUNDS, options.pick(6, 3))?;
    let file = FaultMatrix::new(options, &MatrixTarget::File, ROUNDS, options.pick(4, 1))?;
    let mut rows =
        vec![memory.run_and_report(&[MatrixTarget::Memory])?, file.run_and_report(&[MatrixTarget::File])?];
    let disk = DiskShim::build(&options.folder)?;
    for (kind, error, name) in [("write", ENOSPC, "ENOSPC on a write"), ("sync", EIO, "EIO on a sync")] {
        let (seen, wrong) = disk_faults(options, &disk, kind, error, options.pick(40, 8))?;
        rows.push(TortureRow::new(format!("sqlite, {name}"), seen, wrong));
    }
    rows.push(memory.control_row(&MatrixTarget::Memory)?);
    if let Some(url) = &options.postgres {
        rows.extend(postgres_matrix(options, url)?);
    }
    Ok(rows)
}
