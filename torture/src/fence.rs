//! E3: 64 workers on many sessions, some frozen for longer than their leases. Whoever wakes up too late is refused by
//! the store, every number of a session is given once, and epochs never go back.

use crate::audit::history;
use crate::child::{Running, start};
use crate::fence_worker::{LEASE_MS, WORKERS};
use crate::kit::{Ask, Dice, Engine, Fallible, Row, Words, pause};
use flyball_journal::{Desk, Which};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Processes.
const PROCESSES: u64 = 8;

/// What the workers said.
#[derive(Debug, Default)]
struct Said {
    /// Who was given a session under an epoch.
    granted: BTreeMap<(String, u64), String>,
    /// Number and epoch by session and id.
    acked: BTreeMap<(String, String), (u64, u64)>,
    refused: u64,
    busy: u64,
    wrong: Vec<String>,
}

impl Said {
    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        match words.as_slice() {
            ["G", session, _, worker] => {
                let key = ((*session).to_owned(), number(2));
                let before = self.granted.insert(key, (*worker).to_owned());
                if before.is_some_and(|before| before != *worker) {
                    self.wrong.push(format!("{session}: epoch {} was given to two workers", number(2)));
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

    /// Compares with what is stored.
    fn check(&mut self, store: &dyn Desk, tag: &str) -> Fallible<u64> {
        let heads = store.heads(Which::All, usize::MAX).map_err(|error| error.to_string())?;
        let mut events = 0;
        for head in heads.into_iter().filter(|head| head.session.starts_with(tag)) {
            let name = &head.session;
            let records = store.records(name, 1, head.seq.max(1)).map_err(|error| error.to_string())?;
            events += records.len() as u64;
            self.wrong.extend(history(name, head.seq, &records));
            let mut epoch = 0;
            for record in records {
                if record.epoch < epoch {
                    self.wrong
                        .push(format!("{name}: event {} goes back to epoch {}", record.seq, record.epoch));
                }
                epoch = record.epoch;
                let id = record.id.unwrap_or_default();
                let worker = id.split('.').next().unwrap_or_default();
                if self.granted.get(&(name.clone(), epoch)).is_some_and(|holder| holder != worker) {
                    self.wrong.push(format!(
                        "{name}: event {} of {worker} under another's epoch {epoch}",
                        record.seq
                    ));
                }
                match self.acked.remove(&(name.clone(), id.clone())) {
                    Some((seq, under)) if seq != record.seq || under != epoch => {
                        self.wrong.push(format!(
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
        self.wrong.extend(lost);
        self.wrong.truncate(8);
        Ok(events)
    }
}

/// Freezes processes at random until the time is over.
fn freeze(processes: &[Running], dice: &mut Dice, end: Instant) -> u64 {
    let mut frozen = 0;
    while Instant::now() < end {
        pause(dice.between(20, 150));
        let Some(process) = processes.get(dice.place(processes.len())) else { continue };
        process.signal("-STOP");
        pause(dice.between(LEASE_MS + 50, LEASE_MS * 2));
        process.signal("-CONT");
        frozen += 1;
    }
    frozen
}

fn play(
    engine: &Engine,
    tag: &str,
    (sessions, seconds): (u64, u64),
    seed: u64,
    stubborn: bool,
) -> Fallible<(String, Vec<String>)> {
    // The tables are there before eight processes want to make them.
    let store = engine.open().map_err(|error| error.to_string())?;
    let words = Words::default()
        .with("engine", engine.url())
        .with("tag", tag)
        .with("sessions", sessions)
        .with("millis", seconds * 1000)
        .with("seed", seed);
    let words = if stubborn { words.with("stubborn", "yes") } else { words };
    let end = Instant::now() + Duration::from_secs(seconds);
    let processes: Vec<Running> = (0..PROCESSES)
        .map(|process| start("worker", &words.clone().with("process", process)))
        .collect::<Fallible<_>>()?;
    let frozen = freeze(&processes, &mut Dice::new(seed), end);
    let mut said = Said::default();
    for process in processes {
        let ended = process.wait();
        ended.lines.iter().for_each(|line| said.take(line));
        said.wrong.extend(ended.errors);
    }
    let leases = said.granted.len();
    let events = said.check(store.as_ref(), tag)?;
    if said.refused == 0 {
        said.wrong.push("nobody was ever refused: nothing was tested".to_owned());
    }
    let seen = format!(
        "{} workers, {sessions} sessions, {seconds} s, {frozen} freezes, {leases} leases, {events} events, {} stale refused, {} busy",
        PROCESSES * WORKERS,
        said.refused,
        said.busy
    );
    Ok((seen, said.wrong))
}

/// The suite.
pub(crate) fn run(ask: &Ask) -> Fallible<Vec<Row>> {
    let mut rows = Vec::new();
    let size = (ask.pick(1000, 200), ask.pick(60, 10));
    for engine in ask.engines("fence")? {
        let (seen, wrong) = play(&engine, &ask.tag("f"), size, ask.seed, false)?;
        rows.push(Row::new(engine.name(), seen, wrong));
    }
    for engine in ask.engines("fence-control")? {
        let (seen, wrong) = play(&engine, &ask.tag("fc"), (20, 6), ask.seed, true)?;
        let what = format!("{}, a worker that takes the present epoch", engine.name());
        rows.push(Row::control(what, seen, wrong));
    }
    Ok(rows)
}
