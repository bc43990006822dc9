//! D3: power loss. A writer's real file operations are recorded; at chosen moments everything that was not synced may
//! vanish, and the store must still contain the acknowledged events. It does with FULL; with NORMAL and OFF it must
//! not, otherwise this suite detects nothing.

use crate::audit::audit;
use crate::child::spawn_with_env;
use crate::disk_shim::DiskShim;
use crate::file_trace::FileTrace;
use crate::harness::{
    StoreUnderTest, TortureOptions, TortureResult, TortureRng, TortureRow, empty_dir, event, recorder,
    sync_name,
};
use crate::kill::WriterClient;
use flyball_store::{FailpointHook, SyncMode};
use std::path::{Path, PathBuf};

/// Power losses per trace.
const LOSSES_PER_TRACE: u64 = 25;
/// Consecutive writers; all but the last are killed just before a sync.
const GENERATIONS: u64 = 4;
/// Prefix of the writers' sessions.
const SESSION_PREFIX: &str = "power";

/// Runs writers on a new store and returns their file operations.
fn record_trace(
    disk: &DiskShim,
    folder: &Path,
    sync: SyncMode,
    rng: &mut TortureRng,
) -> TortureResult<FileTrace> {
    let store = empty_dir(&folder.join("store"))?;
    let trace = folder.join("trace");
    if trace.exists() {
        std::fs::remove_file(&trace).map_err(|error| error.to_string())?;
    }
    let engine = StoreUnderTest::Sqlite(store.join("flyball.db"));
    let mut client = WriterClient::new(&engine, SESSION_PREFIX, "w");
    client.next = vec![1; 2];
    client.args = client.args.clone().with("sync", sync_name(sync)).with("checkpoint", 25);
    for generation in 1..=GENERATIONS {
        let mut environment = disk.env_trace(&store, &trace);
        let mut child_args = client.next_args().with("limit", 20);
        if generation < GENERATIONS && sync == SyncMode::Full {
            // The next writer finds the commit in the page cache.
            environment.push(("TORTURE_KILL", format!("walsync:{}", rng.between(6, 30))));
            child_args = child_args.with("limit", 1000);
        }
        let ended = spawn_with_env("writer", &child_args, &environment)?.wait();
        if !ended.errors.is_empty() {
            return Err(ended.errors.join("; "));
        }
        client.record_acks(&ended.acks());
    }
    FileTrace::read(&trace)
}

/// Opens and audits the files that a power loss left.
fn check_remains(folder: &Path, trace: &FileTrace, moment: usize) -> Vec<String> {
    let engine = StoreUnderTest::Sqlite(folder.join("flyball.db"));
    let acks = trace.acks(moment);
    let store = match engine.open() {
        Ok(store) => store,
        Err(error) => return vec![format!("it cannot be opened: {error}")],
    };
    let mut wrong = audit(store.as_ref(), SESSION_PREFIX, &acks).failures;
    // The store must also accept new events.
    match event("afterwards", "z", 1).map(|event| recorder(store, FailpointHook::default()).submit(event)) {
        Ok(Ok(_)) => {}
        Ok(Err(refusal)) => wrong.push(format!("afterwards: {refusal:?}")),
        Err(what) => wrong.push(what),
    }
    wrong
}

/// Simulates power losses.
fn lose_power(
    options: &TortureOptions,
    disk: &DiskShim,
    sync: SyncMode,
    count: u64,
) -> TortureResult<(String, Vec<String>)> {
    let mut rng = TortureRng::new(options.seed ^ sync as u64);
    let folder = empty_dir(&options.folder.join(format!("power-{}", sync_name(sync))))?;
    let (mut syncs, mut commits, mut acked, mut red) = (0, 0, 0, 0_u64);
    let mut wrong = Vec::new();
    let mut trace = FileTrace::default();
    for loss in 0..count {
        if loss % LOSSES_PER_TRACE == 0 {
            trace = record_trace(disk, &folder, sync, &mut rng)?;
            let counted = trace.counts();
            (syncs, commits) = (syncs + counted.0, commits + counted.1);
            acked += trace.acks(usize::MAX).len();
        }
        let tender =
            if rng.percent(30) { trace.moments_after_first_acks() } else { trace.moments_after_acks() };
        let moment = match tender.get(rng.index(tender.len())) {
            Some(moment) if rng.percent(70) => *moment,
            _ => rng.index(trace.0.len()) + 1,
        };
        let left: PathBuf = empty_dir(&folder.join("left"))?;
        trace.write_remains(moment, &mut rng, &left)?;
        let found = check_remains(&left, &trace, moment);
        red += u64::from(!found.is_empty());
        wrong.extend(found.into_iter().map(|what| format!("loss {loss} before operation {moment}: {what}")));
    }
    let seen =
        format!("{count} losses, {red} of them red; {acked} acknowledged, {commits} commits, {syncs} syncs");
    Ok((seen, wrong))
}

/// The suite.
pub(crate) fn run(options: &TortureOptions) -> TortureResult<Vec<TortureRow>> {
    let disk = DiskShim::build(&options.folder)?;
    let (seen, wrong) = lose_power(options, &disk, SyncMode::Full, options.pick(100, 30))?;
    let mut rows = vec![TortureRow::new("sqlite, synchronous=FULL", seen, wrong)];
    for sync in [SyncMode::Normal, SyncMode::Off] {
        let (seen, wrong) = lose_power(options, &disk, sync, options.pick(100, 15))?;
        let what = format!("sqlite, synchronous={}", sync_name(sync).to_uppercase());
        rows.push(TortureRow::control(what, seen, wrong));
    }
    Ok(rows)
}
