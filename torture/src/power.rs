//! D3: the power fails. A writer's real file operations are written down; at chosen moments everything that was not
//! synced may vanish, and the store must still hold what had been acknowledged. With FULL it does; with NORMAL and
//! OFF it must not, else this suite sees nothing.

use crate::audit::audit;
use crate::child::start_under;
use crate::disk::Disk;
use crate::kill::Client;
use crate::kit::{Ask, Dice, Engine, Fallible, Row, event, fresh, recorder, sync_word};
use crate::trace::Trace;
use flyball_journal::{Probe, Sync};
use std::path::{Path, PathBuf};

/// Losses that are tried on one trace.
const PER_TRACE: u64 = 25;
/// Writers one after the other, all but the last of them ended just before they sync.
const GENERATIONS: u64 = 4;
/// The writers' sessions begin with this.
const TAG: &str = "power";

/// Runs writers on a new store and returns what they did to its files.
fn record(disk: &Disk, folder: &Path, sync: Sync, dice: &mut Dice) -> Fallible<Trace> {
    let store = fresh(&folder.join("store"))?;
    let trace = folder.join("trace");
    if trace.exists() {
        std::fs::remove_file(&trace).map_err(|error| error.to_string())?;
    }
    let engine = Engine::Sqlite(store.join("flyball.db"));
    let mut client = Client::new(&engine, TAG, "w");
    client.next = vec![1; 2];
    client.words = client.words.clone().with("sync", sync_word(sync)).with("checkpoint", 25);
    for generation in 1..=GENERATIONS {
        let mut environment = disk.traced(&store, &trace);
        let mut words = client.turn().with("limit", 20);
        if generation < GENERATIONS && sync == Sync::Full {
            // The commit is in the system's memory when the next writer finds it there.
            environment.push(("TORTURE_KILL", format!("walsync:{}", dice.between(6, 30))));
            words = words.with("limit", 1000);
        }
        let ended = start_under("writer", &words, &environment)?.wait();
        if !ended.errors.is_empty() {
            return Err(ended.errors.join("; "));
        }
        client.took(&ended.acks());
    }
    Trace::read(&trace)
}

/// Opens what a loss has left.
fn look(folder: &Path, trace: &Trace, moment: usize) -> Vec<String> {
    let engine = Engine::Sqlite(folder.join("flyball.db"));
    let acks = trace.acks(moment);
    let store = match engine.open() {
        Ok(store) => store,
        Err(error) => return vec![format!("it does not open: {error}")],
    };
    let mut wrong = audit(store.as_ref(), TAG, &acks).wrong;
    // And it can be worked with.
    match event("afterwards", "z", 1).map(|event| recorder(store, Probe::default()).submit(event)) {
        Ok(Ok(_)) => {}
        Ok(Err(refusal)) => wrong.push(format!("afterwards: {refusal:?}")),
        Err(what) => wrong.push(what),
    }
    wrong
}

/// Loses power so many times.
fn losses(ask: &Ask, disk: &Disk, sync: Sync, count: u64) -> Fallible<(String, Vec<String>)> {
    let mut dice = Dice::new(ask.seed ^ sync as u64);
    let folder = fresh(&ask.folder.join(format!("power-{}", sync_word(sync))))?;
    let (mut syncs, mut commits, mut acked, mut red) = (0, 0, 0, 0_u64);
    let mut wrong = Vec::new();
    let mut trace = Trace::default();
    for loss in 0..count {
        if loss % PER_TRACE == 0 {
            trace = record(disk, &folder, sync, &mut dice)?;
            let counted = trace.counts();
            (syncs, commits) = (syncs + counted.0, commits + counted.1);
            acked += trace.acks(usize::MAX).len();
        }
        let tender = if dice.percent(30) { trace.first_words() } else { trace.tender() };
        let moment = match tender.get(dice.place(tender.len())) {
            Some(moment) if dice.percent(70) => *moment,
            _ => dice.place(trace.0.len()) + 1,
        };
        let left: PathBuf = fresh(&folder.join("left"))?;
        trace.crash(moment, &mut dice, &left)?;
        let found = look(&left, &trace, moment);
        red += u64::from(!found.is_empty());
        wrong.extend(found.into_iter().map(|what| format!("loss {loss} before operation {moment}: {what}")));
    }
    let seen =
        format!("{count} losses, {red} of them red; {acked} acknowledged, {commits} commits, {syncs} syncs");
    Ok((seen, wrong))
}

/// The suite.
pub(crate) fn run(ask: &Ask) -> Fallible<Vec<Row>> {
    let disk = Disk::build(&ask.folder)?;
    let (seen, wrong) = losses(ask, &disk, Sync::Full, ask.pick(100, 30))?;
    let mut rows = vec![Row::new("sqlite, synchronous=FULL", seen, wrong)];
    for sync in [Sync::Normal, Sync::Off] {
        let (seen, wrong) = losses(ask, &disk, sync, ask.pick(100, 15))?;
        let what = format!("sqlite, synchronous={}", sync_word(sync).to_uppercase());
        rows.push(Row::control(what, seen, wrong));
    }
    Ok(rows)
}
