//! Durable decisions per second: many clients, each with its own session, each waiting for its answer.

use crate::BenchResult;
use crate::event_lines::event;
use crate::stats::{per_second, percentile_permille};
use flyball::{PolicySource, Preset};
use flyball_store::{Recorder, RecorderOptions, StoreAddress, SubmitQueue, SubmitQueueOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A recorder for a store.
pub(crate) fn recorder(store: &str) -> BenchResult<Recorder> {
    let journal = StoreAddress::parse(store, Path::new("."))?.open()?;
    Ok(Recorder::new(journal, PolicySource::preset(Preset::Agent), RecorderOptions::default()))
}

/// One client and the latencies of its answers.
struct RateClient {
    session: String,
    number: u64,
    until: Instant,
    times: Vec<Duration>,
}

impl RateClient {
    fn new(client: u64, until: Instant) -> Self {
        RateClient {
            session: format!("client-{client}-{}", std::process::id()),
            number: 0,
            until,
            times: Vec::new(),
        }
    }

    /// The next event, unless time is up.
    fn next(&mut self) -> Option<(flyball_store::Submission, Instant)> {
        let event = event(&self.session, self.number).ok().filter(|_| Instant::now() < self.until)?;
        self.number += 1;
        Some((event, Instant::now()))
    }
}

/// Clients as async tasks, as in a server or an agent in async Rust.
pub(crate) fn tasks(store: &str, clients: u64, seconds: u64) -> BenchResult<Vec<String>> {
    let recorder = Arc::new(recorder(store)?);
    let (line, committers) = SubmitQueue::open(&recorder, SubmitQueueOptions::default());
    let line = Arc::new(line);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let all: Vec<_> = (0..clients)
        .map(|client| {
            let (line, mut client) = (Arc::clone(&line), RateClient::new(client, until));
            runtime.spawn(async move {
                while let Some((event, asked)) = client.next() {
                    if !matches!(line.submit_one(event.into()).await, Ok(Ok(_))) {
                        break;
                    }
                    client.times.push(asked.elapsed());
                }
                client.times
            })
        })
        .collect();
    let mut times = Vec::new();
    for client in all {
        times.extend(runtime.block_on(client)?);
    }
    let told = format_rate(times, clients, began.elapsed());
    drop(line);
    committers.join_timeout(Duration::from_secs(seconds));
    Ok(told)
}

/// Clients as blocking threads.
pub(crate) fn threads(store: &str, clients: u64, seconds: u64) -> BenchResult<Vec<String>> {
    let recorder = recorder(store)?;
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let times = std::thread::scope(|scope| {
        let all: Vec<_> = (0..clients)
            .map(|client| {
                let (recorder, mut client) = (&recorder, RateClient::new(client, until));
                scope.spawn(move || {
                    while let Some((event, asked)) = client.next() {
                        if recorder.submit(event).is_err() {
                            break;
                        }
                        client.times.push(asked.elapsed());
                    }
                    client.times
                })
            })
            .collect();
        all.into_iter().flat_map(|client| client.join().unwrap_or_default()).collect()
    });
    Ok(format_rate(times, clients, began.elapsed()))
}

fn format_rate(mut times: Vec<Duration>, clients: u64, took: Duration) -> Vec<String> {
    let (p50, p99) = (percentile_permille(&mut times, 500), percentile_permille(&mut times, 990));
    let most = times.last().copied().unwrap_or_default();
    vec![format!(
        "{} decisions/s by {clients} clients, p50 {} us, p99 {} us, longest {} us",
        per_second(times.len() as u64, took),
        p50.as_micros(),
        p99.as_micros(),
        most.as_micros()
    )]
}
