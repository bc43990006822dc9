//! What a long life costs: an event early and late, memory, and the first event after opening a full store.

use crate::Outcome;
use crate::clock::ratio;
use crate::lines::event;
use crate::rate::recorder;
use std::time::Instant;

/// Sessions that share the events.
const SESSIONS: u64 = 64;
/// Events in a commit.
const BATCH: u64 = 64;
/// Events before the first window: the sessions begin, and the tables are made.
const BEFORE: u64 = 1_024;
/// Events over which a cost is averaged.
const WINDOW: u64 = 10_240;
/// Windows that are compared at each end; the middle one of them counts, because machines are noisy.
const ENDS: usize = 5;
/// Lines about the way between.
const SHOWN: usize = 10;

/// Fills a store and looks at it on the way.
pub(crate) fn run(store: &str, events: u64) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    let recorder_now = recorder(store)?;
    let mut windows: Vec<(u64, u64)> = Vec::new();
    let mut memory = Vec::new();
    let mut began = Instant::now();
    for first in (0..events).step_by(BATCH as usize) {
        let batch = (first..first + BATCH).map(|at| event(&format!("s{}", at % SESSIONS), at / SESSIONS));
        let answers = recorder_now.submit_all(batch.collect::<Outcome<Vec<_>>>()?);
        if let Some(refused) = answers.into_iter().find_map(Result::err) {
            return Err(format!("event after {first}: {refused:?}").into());
        }
        let done = first + BATCH;
        if done == BEFORE {
            began = Instant::now();
        } else if done > BEFORE && (done - BEFORE).is_multiple_of(WINDOW) {
            let nanos = u64::try_from(began.elapsed().as_nanos())? / WINDOW;
            windows.push((done, nanos));
            memory.push(resident_kib());
            began = Instant::now();
        }
    }
    drop(recorder_now);
    if windows.len() < 2 * ENDS {
        return Err("too few events for a comparison".into());
    }
    for ((done, nanos), kib) in windows.iter().zip(&memory).step_by(windows.len().div_ceil(SHOWN)) {
        lines.push(format!("{done:>9} events: {nanos:>7} ns an event, {kib} KiB in memory"));
    }
    let middle = |ends: &[(u64, u64)]| -> u64 {
        let mut costs: Vec<u64> = ends.iter().map(|(_, nanos)| *nanos).collect();
        costs.sort_unstable();
        costs.get(costs.len() / 2).copied().unwrap_or(0)
    };
    let (early, _) = windows.split_at(ENDS);
    let (_, late) = windows.split_at(windows.len() - ENDS);
    lines.push(format!("cost late / early = {}", ratio(middle(late), middle(early))));
    let (first, last) = (memory.first().copied().unwrap_or(0), memory.last().copied().unwrap_or(0));
    lines.push(format!("memory late / early = {}", ratio(last, first)));
    let began = Instant::now();
    let again = recorder(store)?;
    let answer = again.submit(event("s0", events / SESSIONS)?);
    let took = began.elapsed();
    if answer.is_err() {
        return Err("the first event after opening was refused".into());
    }
    lines.push(format!("opening {events} events and the first answer: {} us", took.as_micros()));
    Ok(lines)
}

/// Memory of this process, from the system's own count.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
