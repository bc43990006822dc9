//! E3: 64 workers on many sessions, some frozen for longer than their leases. The store rejects workers that wake up
//! too late, every sequence number of a session is assigned once, and epochs never decrease.

use crate::audit::check_history;
use crate::child::{TortureChild, spawn};
use crate::fence_worker::{LEASE_MS, WORKERS};
use crate::harness::{
    ChildArgs, StoreUnderTest, TortureOptions, TortureResult, TortureRng, TortureRow, sleep_ms,
};
use flyball_store::{AdminStore, SessionFilter};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Processes.
const PROCESSES: u64 = 8;

/// Output of the workers.
#[derive(Debug, Default)]
struct FenceReport {
    /// Worker by session and epoch.
    granted: BTreeMap<(String, u64), String>,
    /// Sequence number and epoch by session and id.
    acked: BTreeMap<(String, String), (u64, u64)>,
    refused: u64,
    busy: u64,
    failures: Vec<String>,
}

impl FenceReport {
    fn add_line(&mut self, line: &str) {
        let child_args: Vec<&str> = line.split(' ').collect();
        let number =
            |place: usize| child_args.get(place).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        match child_args.as_slice() {
            ["G", session, _, worker] => {
                let key = ((*session).to_owned(), number(2));
                let before = self.granted.insert(key, (*worker).to_owned());
                if before.is_some_and(|before| before != *worker) {
                    self.failures.push(format!("{session}: epoch {} was granted to two workers", number(2)));
                }
            }
            ["A", session, id, _, _] => {
                let key = ((*session).to_owned(), (*id).to_owned());
                self.acked.insert(key, (number(3), number(4)));
            }
            ["L", ..] => self.refused += 1,
            ["B", ..] => self.busy += 1,
            _ => {}
        }
    }

    /// Compares the output with the stored events.
    fn check(&mut self, store: &dyn AdminStore, tag: &str) -> TortureResult<u64> {
        let heads = store.list_sessions(SessionFilter::All, usize::MAX).map_err(|error| error.to_string())?;
        let mut events = 0;
        for head in heads.into_iter().filter(|head| head.session.starts_with(tag)) {
            let name = &head.session;
            let records = store.records(name, 1, head.seq.max(1)).map_err(|error| error.to_string())?;
            events += records.len() as u64;
            self.failures.extend(check_history(name, head.seq, &records));
            let mut epoch = 0;
            for record in records {
                if record.epoch < epoch {
                    self.failures
                        .push(format!("{name}: event {} has the older epoch {}", record.seq, record.epoch));
                }
                epoch = record.epoch;
                let id = record.id.unwrap_or_default();
                let worker = id.split('.').next().unwrap_or_default();
                if self.granted.get(&(name.clone(), epoch)).is_some_and(|holder| holder != worker) {
                    self.failures.push(format!(
                        "{name}: event {} of {worker} under the epoch {epoch} of another worker",
                        record.seq
                    ));
                }
                match self.acked.remove(&(name.clone(), id.clone())) {
                    Some((seq, under)) if seq != record.seq || under != epoch => {
                        self.failures.push(format!(
                            "{name}: {id} was acknowledged as {seq} under epoch {under}, stored as {} under {epoch}",
                            record.seq
                        ));
                    }
                    _ => {}
                }
            }
        }
        let lost =
            self.acked.keys().next().map(|(session, id)| format!("{session}: acknowledged {id} is lost"));
        self.failures.extend(lost);
        self.failures.truncate(8);
        Ok(events)
    }
}

/// Freezes random processes until the time is over.
fn freeze_at_random(processes: &[TortureChild], rng: &mut TortureRng, end: Instant) -> u64 {
    let mut frozen = 0;
    while Instant::now() < end {
        sleep_ms(rng.between(20, 150));
        let Some(process) = processes.get(rng.index(processes.len())) else { continue };
        process.signal("-STOP");
        sleep_ms(rng.between(LEASE_MS + 50, LEASE_MS * 2));
        process.signal("-CONT");
        frozen += 1;
    }
    frozen
}

fn run_workers(
    engine: &StoreUnderTest,
    tag: &str,
    (sessions, seconds): (u64, u64),
    seed: u64,
    stubborn: bool,
) -> TortureResult<(String, Vec<String>)> {
    // Create the tables before eight processes try to.
    let store = engine.open().map_err(|error| error.to_string())?;
    let child_args = ChildArgs::default()
        .with("engine", engine.url())
        .with("tag", tag)
        .with("sessions", sessions)
        .with("millis", seconds * 1000)
        .with("seed", seed);
    let child_args = if stubborn { child_args.with("stubborn", "yes") } else { child_args };
    let end = Instant::now() + Duration::from_secs(seconds);
    let processes: Vec<TortureChild> = (0..PROCESSES)
        .map(|process| spawn("worker", &child_args.clone().with("process", process)))
        .collect::<TortureResult<_>>()?;
    let frozen = freeze_at_random(&processes, &mut TortureRng::new(seed), end);
    let mut said = FenceReport::default();
    for process in processes {
        let ended = process.wait();
        ended.lines.iter().for_each(|line| said.add_line(line));
        said.failures.extend(ended.errors);
    }
    let leases = said.granted.len();
    let events = said.check(store.as_ref(), tag)?;
    if said.refused == 0 {
        said.failures.push("no stale append was rejected: nothing was tested".to_owned());
    }
    let seen = format!(
        "{} workers, {sessions} sessions, {seconds} s, {frozen} freezes, {leases} leases, {events} events, {} stale rejected, {} busy",
        PROCESSES * WORKERS,
        said.refused,
        said.busy
    );
    Ok((seen, said.failures))
}

/// The suite.
pub(crate) fn run(options: &TortureOptions) -> TortureResult<Vec<TortureRow>> {
    let mut rows = Vec::new();
    let size = (options.pick(1000, 200), options.pick(60, 10));
    for engine in options.engines("fence")? {
        let (seen, wrong) = run_workers(&engine, &options.tag("f"), size, options.seed, false)?;
        rows.push(TortureRow::new(engine.name(), seen, wrong));
    }
    for engine in options.engines("fence-control")? {
        let (seen, wrong) = run_workers(&engine, &options.tag("fc"), (20, 6), options.seed, true)?;
        let what = format!("{}, a worker that uses the current epoch", engine.name());
        rows.push(TortureRow::control(what, seen, wrong));
    }
    Ok(rows)
}
