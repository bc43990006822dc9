//! Decisions a second through HTTP: many connections, each with a session of its own, each waiting for its answer.

use crate::Outcome;
use crate::client::Client;
use crate::clock::{per_second, permille, ratio};
use crate::lines::line;
use crate::rate;
use crate::server::Server;
use std::time::{Duration, Instant};

/// What a load gave.
pub(crate) struct Measured {
    /// Answers a second.
    pub(crate) rate: u64,
    /// The time of the middle one.
    pub(crate) p50: Duration,
    /// The time below which 99 of 100 are.
    pub(crate) p99: Duration,
}

impl Measured {
    /// In words.
    pub(crate) fn told(&self, what: &str) -> String {
        format!(
            "{what}: {} a second, p50 {} us, p99 {} us",
            self.rate,
            self.p50.as_micros(),
            self.p99.as_micros()
        )
    }
}

/// Puts a load on a server, from one thread.
pub(crate) fn load(server: &Server, connections: u64, seconds: u64, name: &str) -> Outcome<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (began, end) = (Instant::now(), Duration::from_secs(seconds));
    let mut times = runtime.block_on(async {
        let mut tasks = Vec::new();
        for number in 0..connections {
            let mut client = Client::connect(&server.address, &server.key).await?;
            let session = format!("{name}-{number}");
            tasks.push(async move {
                let (mut times, mut number) = (Vec::new(), 0);
                while began.elapsed() < end {
                    let asked = Instant::now();
                    let reply = client.post(&line(&session, number)).await?;
                    if reply.status != 200 {
                        return Err(format!("answered with {}", reply.status).into());
                    }
                    times.push(asked.elapsed());
                    number += 1;
                }
                Outcome::Ok(times)
            });
        }
        let set = tokio::task::LocalSet::new();
        let handles: Vec<_> = tasks.into_iter().map(|task| set.spawn_local(task)).collect();
        set.await;
        let mut times = Vec::new();
        for handle in handles {
            times.extend(handle.await??);
        }
        Outcome::Ok(times)
    })?;
    let rate = per_second(times.len() as u64, began.elapsed());
    Ok(Measured { rate, p50: permille(&mut times, 500), p99: permille(&mut times, 990) })
}

/// One load on any store.
pub(crate) fn once(flyball: &str, store: &str, connections: u64, seconds: u64) -> Outcome<Vec<String>> {
    let server = Server::flyball(flyball, store, &[])?;
    let name = format!("load-{}", std::process::id());
    let measured = load(&server, connections, seconds, &name)?;
    Ok(vec![measured.told(&format!("{connections} connections, durable decisions"))])
}

/// The bare server, the journal alone, and the server, in turn; the middle round counts.
pub(crate) fn rounds(
    flyball: &str,
    folder: &str,
    connections: u64,
    rounds: u64,
    seconds: u64,
) -> Outcome<Vec<String>> {
    let (mut lines, mut to_journal, mut to_hello) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds.max(1) {
        let hello = load(&Server::hello()?, connections, seconds, "hello")?;
        let alone = rate::run(&format!("sqlite:{folder}/alone-{round}.db"), connections, seconds)?.join(" ");
        let alone_rate: u64 = alone.split(' ').next().unwrap_or_default().parse()?;
        let store = format!("sqlite:{folder}/http-{round}.db");
        let ours = load(&Server::flyball(flyball, &store, &[])?, connections, seconds, "load")?;
        to_journal.push((ours.rate * 1_000).checked_div(alone_rate).unwrap_or(0));
        to_hello.push((ours.rate * 1_000).checked_div(hello.rate).unwrap_or(0));
        lines.push(hello.told(&format!("round {round}, a bare server that parses the body")));
        lines.push(format!("round {round}, the journal alone: {alone}"));
        lines.push(ours.told(&format!("round {round}, durable decisions over HTTP")));
    }
    lines.push(format!("HTTP / the journal alone = {}", middle(&mut to_journal)));
    lines.push(format!("HTTP / the bare server = {}", middle(&mut to_hello)));
    Ok(lines)
}

/// The middle one of ratios in thousandths, with two decimals.
pub(crate) fn middle(ratios: &mut [u64]) -> String {
    ratios.sort_unstable();
    ratio(ratios.get(ratios.len() / 2).copied().unwrap_or(0), 1_000)
}
