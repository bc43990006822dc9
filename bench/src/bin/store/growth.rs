//! Cost of long runs: an event early and late, memory, and the first event after opening a full store.

use crate::BenchResult;
use crate::event_lines::event;
use crate::stats::ratio;
use crate::throughput::recorder;
use flyball::Verdict;
use flyball_store::{RecordResult, Recorder};
use std::time::Instant;

/// Sessions that share the events.
const SESSIONS: u64 = 64;
/// Events per commit.
const BATCH: u64 = 64;
/// Events before an early window, which start the sessions and create the tables.
const EARLY_WARMUP_EVENTS: u64 = 1_024;
/// Events over which a cost is averaged.
const WINDOW: u64 = 10_240;
/// Number of early and late windows, alternating. The median counts, because machines are noisy.
const WINDOWS: usize = 9;
/// Number of memory reports.
const MEMORY_REPORTS: u64 = 10;

/// A store that is being filled.
struct StoreFiller {
    recorder: Recorder,
    events: u64,
}

impl StoreFiller {
    fn open(store: &str) -> BenchResult<Self> {
        Ok(StoreFiller { recorder: recorder(store)?, events: 0 })
    }

    /// Stores events; returns nanoseconds per event.
    fn append(&mut self, events: u64) -> BenchResult<u64> {
        let began = Instant::now();
        let end = self.events + events;
        while self.events < end {
            let batch = (self.events..self.events + BATCH)
                .map(|at| event(&format!("s{}", at % SESSIONS), at / SESSIONS));
            let answers = self.recorder.submit_all(batch.collect::<BenchResult<Vec<_>>>()?);
            // A warned or stopped session gets longer answers, which cost more and cannot be compared.
            if let Some(other) = answers.into_iter().find(|answer| !is_allowed(answer)) {
                return Err(format!("event after {}: {other:?}", self.events).into());
            }
            self.events += BATCH;
        }
        Ok(u64::try_from(began.elapsed().as_nanos())? / events)
    }
}

/// Fills a store with memory reports in between, then compares it with new stores, alternating.
pub(crate) fn run(store: &str, events: u64) -> BenchResult<Vec<String>> {
    let mut lines = Vec::new();
    let mut full = StoreFiller::open(store)?;
    let mut memory = Vec::new();
    for _ in 0..MEMORY_REPORTS {
        full.append((events / MEMORY_REPORTS).next_multiple_of(BATCH))?;
        memory.push(resident_kib());
        lines.push(format!("{:>9} events: {} KiB in memory", full.events, resident_kib()));
    }
    let (first, last) = (memory.first().copied().unwrap_or(0), memory.last().copied().unwrap_or(0));
    lines.push(format!("memory late / early = {}", ratio(last, first)));
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for round in 0..WINDOWS {
        let mut begun = StoreFiller::open(&format!("{store}-begun-{round}"))?;
        begun.append(EARLY_WARMUP_EVENTS)?;
        early.push(begun.append(WINDOW)?);
        late.push(full.append(WINDOW)?);
    }
    lines.push(format!(
        "cost of an event after {EARLY_WARMUP_EVENTS}: {} ns; after {events}: {} ns",
        median(&mut early),
        median(&mut late)
    ));
    lines.push(format!("cost late / early = {}", ratio(median(&mut late), median(&mut early))));
    let next = full.events / SESSIONS;
    drop(full);
    let began = Instant::now();
    let again = recorder(store)?;
    let answer = again.submit(event("s0", next)?);
    let took = began.elapsed();
    if answer.is_err() {
        return Err("the first event after opening was refused".into());
    }
    lines.push(format!("opening {events} events and the first answer: {} us", took.as_micros()));
    Ok(lines)
}

/// Only stores events.
pub(crate) fn fill(store: &str, events: u64) -> BenchResult<Vec<String>> {
    let mut filling = StoreFiller::open(store)?;
    filling.append(events.next_multiple_of(BATCH))?;
    Ok(vec![format!("{} events", filling.events)])
}

fn is_allowed(answer: &RecordResult) -> bool {
    answer.as_ref().is_ok_and(|decision| decision.decision == Verdict::Allow)
}

fn median(costs: &mut [u64]) -> u64 {
    costs.sort_unstable();
    costs.get(costs.len() / 2).copied().unwrap_or(0)
}

/// Resident memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
