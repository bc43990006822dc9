//! Durable decisions a second: many clients, each with a session of its own, each waiting for its answer.

use crate::Outcome;
use crate::clock::{per_second, permille};
use crate::lines::event;
use flyball::{PolicySource, Preset};
use flyball_journal::{Address, Recorder, RecorderOptions};
use std::path::Path;
use std::time::{Duration, Instant};

/// A recorder over a store.
pub(crate) fn recorder(store: &str) -> Outcome<Recorder> {
    let journal = Address::read(store, Path::new("."))?.open()?;
    Ok(Recorder::new(journal, PolicySource::preset(Preset::Agent), RecorderOptions::default()))
}

/// Runs it.
pub(crate) fn run(store: &str, clients: u64, seconds: u64) -> Outcome<Vec<String>> {
    let recorder = recorder(store)?;
    let (began, end) = (Instant::now(), Duration::from_secs(seconds));
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..clients)
            .map(|client| {
                let recorder = &recorder;
                scope.spawn(move || {
                    let session = format!("client-{client}-{}", std::process::id());
                    let mut times = Vec::new();
                    let mut number = 0;
                    while began.elapsed() < end {
                        let Ok(event) = event(&session, number) else { break };
                        let asked = Instant::now();
                        if recorder.submit(event).is_err() {
                            break;
                        }
                        times.push(asked.elapsed());
                        number += 1;
                    }
                    times
                })
            })
            .collect();
        all.into_iter().flat_map(|client| client.join().unwrap_or_default()).collect()
    });
    let took = began.elapsed();
    let (p50, p99) = (permille(&mut times, 500), permille(&mut times, 990));
    let most = times.last().copied().unwrap_or_default();
    Ok(vec![format!(
        "{} decisions/s by {clients} clients, p50 {} us, p99 {} us, longest {} us",
        per_second(times.len() as u64, took),
        p50.as_micros(),
        p99.as_micros(),
        most.as_micros()
    )])
}
