//! Durable decisions a second: many clients, each with a session of its own, each waiting for its answer.

use crate::Outcome;
use crate::clock::{per_second, permille};
use crate::lines::event;
use flyball::{PolicySource, Preset};
use flyball_journal::{Address, Line, LineOptions, Recorder, RecorderOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A recorder over a store.
pub(crate) fn recorder(store: &str) -> Outcome<Recorder> {
    let journal = Address::read(store, Path::new("."))?.open()?;
    Ok(Recorder::new(journal, PolicySource::preset(Preset::Agent), RecorderOptions::default()))
}

/// What one client does and how long each of its answers took.
struct Client {
    session: String,
    number: u64,
    until: Instant,
    times: Vec<Duration>,
}

impl Client {
    fn new(client: u64, until: Instant) -> Self {
        Client {
            session: format!("client-{client}-{}", std::process::id()),
            number: 0,
            until,
            times: Vec::new(),
        }
    }

    /// The next event, unless it is time to stop.
    fn next(&mut self) -> Option<(flyball_journal::Incoming, Instant)> {
        let event = event(&self.session, self.number).ok().filter(|_| Instant::now() < self.until)?;
        self.number += 1;
        Some((event, Instant::now()))
    }
}

/// Each client is a task that waits without a thread, as in a server or an agent that is written with async Rust.
pub(crate) fn tasks(store: &str, clients: u64, seconds: u64) -> Outcome<Vec<String>> {
    let recorder = Arc::new(recorder(store)?);
    let (line, committers) = Line::open(&recorder, LineOptions::default());
    let line = Arc::new(line);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let all: Vec<_> = (0..clients)
        .map(|client| {
            let (line, mut client) = (Arc::clone(&line), Client::new(client, until));
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
    let told = told(times, clients, began.elapsed());
    drop(line);
    committers.finish(Duration::from_secs(seconds));
    Ok(told)
}

/// Each client is a thread that blocks.
pub(crate) fn threads(store: &str, clients: u64, seconds: u64) -> Outcome<Vec<String>> {
    let recorder = recorder(store)?;
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let times = std::thread::scope(|scope| {
        let all: Vec<_> = (0..clients)
            .map(|client| {
                let (recorder, mut client) = (&recorder, Client::new(client, until));
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
    Ok(told(times, clients, began.elapsed()))
}

fn told(mut times: Vec<Duration>, clients: u64, took: Duration) -> Vec<String> {
    let (p50, p99) = (permille(&mut times, 500), permille(&mut times, 990));
    let most = times.last().copied().unwrap_or_default();
    vec![format!(
        "{} decisions/s by {clients} clients, p50 {} us, p99 {} us, longest {} us",
        per_second(times.len() as u64, took),
        p50.as_micros(),
        p99.as_micros(),
        most.as_micros()
    )]
}
