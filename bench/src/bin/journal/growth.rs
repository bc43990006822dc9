//! What a long life costs: an event early and late, memory, and the first event after opening a full store.

use crate::Outcome;
use crate::clock::ratio;
use crate::lines::event;
use crate::rate::recorder;
use flyball::Verdict;
use flyball_journal::{Answer, Recorder};
use std::time::Instant;

/// Sessions that share the events.
const SESSIONS: u64 = 64;
/// Events in a commit.
const BATCH: u64 = 64;
/// Events before an early window: the sessions begin, and the tables are made.
const BEFORE: u64 = 1_024;
/// Events over which a cost is averaged.
const WINDOW: u64 = 10_240;
/// Early and late windows, in turns; the middle one of each counts, because machines are noisy.
const WINDOWS: usize = 9;
/// Lines about memory on the way.
const SHOWN: u64 = 10;

/// A store that is being filled.
struct Filling {
    recorder: Recorder,
    events: u64,
}

impl Filling {
    fn open(store: &str) -> Outcome<Self> {
        Ok(Filling { recorder: recorder(store)?, events: 0 })
    }

    /// Stores so many more events; gives the nanoseconds for one.
    fn go_on(&mut self, events: u64) -> Outcome<u64> {
        let began = Instant::now();
        let end = self.events + events;
        while self.events < end {
            let batch = (self.events..self.events + BATCH)
                .map(|at| event(&format!("s{}", at % SESSIONS), at / SESSIONS));
            let answers = self.recorder.submit_all(batch.collect::<Outcome<Vec<_>>>()?);
            // A session that is warned or stopped gets longer answers, which cost more: nothing could be compared.
            if let Some(other) = answers.into_iter().find(|answer| !is_allowed(answer)) {
                return Err(format!("event after {}: {other:?}", self.events).into());
            }
            self.events += BATCH;
        }
        Ok(u64::try_from(began.elapsed().as_nanos())? / events)
    }
}

/// Fills a store and looks at it on the way; then compares it, in turns, with stores that have just begun.
pub(crate) fn run(store: &str, events: u64) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    let mut full = Filling::open(store)?;
    let mut memory = Vec::new();
    for _ in 0..SHOWN {
        full.go_on((events / SHOWN).next_multiple_of(BATCH))?;
        memory.push(resident_kib());
        lines.push(format!("{:>9} events: {} KiB in memory", full.events, resident_kib()));
    }
    let (first, last) = (memory.first().copied().unwrap_or(0), memory.last().copied().unwrap_or(0));
    lines.push(format!("memory late / early = {}", ratio(last, first)));
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for round in 0..WINDOWS {
        let mut begun = Filling::open(&format!("{store}-begun-{round}"))?;
        begun.go_on(BEFORE)?;
        early.push(begun.go_on(WINDOW)?);
        late.push(full.go_on(WINDOW)?);
    }
    lines.push(format!(
        "cost of an event after {BEFORE}: {} ns; after {events}: {} ns",
        middle(&mut early),
        middle(&mut late)
    ));
    lines.push(format!("cost late / early = {}", ratio(middle(&mut late), middle(&mut early))));
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

/// Stores events, and nothing else.
pub(crate) fn fill(store: &str, events: u64) -> Outcome<Vec<String>> {
    let mut filling = Filling::open(store)?;
    filling.go_on(events.next_multiple_of(BATCH))?;
    Ok(vec![format!("{} events", filling.events)])
}

fn is_allowed(answer: &Answer) -> bool {
    answer.as_ref().is_ok_and(|decision| decision.decision == Verdict::Allow)
}

fn middle(costs: &mut [u64]) -> u64 {
    costs.sort_unstable();
    costs.get(costs.len() / 2).copied().unwrap_or(0)
}

/// Memory of this process, from the system's own count.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
