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

/// The bare server, the journal alone (each client a thread, and each a task), and the server, in turn; the middle round
/// counts.
pub(crate) fn rounds(
    flyball: &str,
    folder: &str,
    connections: u64,
    rounds: u64,
    seconds: u64,
) -> Outcome<Vec<String>> {
    let (mut lines, mut to_threads, mut to_tasks, mut to_hello) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds.max(1) {
        let hello = load(&Server::hello()?, connections, seconds, "hello")?;
        let threads = rate::threads(&format!("sqlite:{folder}/threads-{round}.db"), connections, seconds)?;
        let tasks = rate::tasks(&format!("sqlite:{folder}/tasks-{round}.db"), connections, seconds)?;
        let store = format!("sqlite:{folder}/http-{round}.db");
        let ours = load(&Server::flyball(flyball, &store, &[])?, connections, seconds, "load")?;
        to_threads.push(thousandths(ours.rate, rate_of(&threads)?));
        to_tasks.push(thousandths(ours.rate, rate_of(&tasks)?));
        to_hello.push(thousandths(ours.rate, hello.rate));
        lines.push(hello.told(&format!("round {round}, a bare server that parses the body")));
        lines.push(format!("round {round}, the journal alone, threads: {}", threads.join(" ")));
        lines.push(format!("round {round}, the journal alone, tasks: {}", tasks.join(" ")));
        lines.push(ours.told(&format!("round {round}, durable decisions over HTTP")));
    }
    lines.push(format!("HTTP / the journal alone, threads = {}", middle(&mut to_threads)));
    lines.push(format!("HTTP / the journal alone, tasks = {}", middle(&mut to_tasks)));
    lines.push(format!("HTTP / the bare server = {}", middle(&mut to_hello)));
    Ok(lines)
}

/// The rate that lines begin with.
fn rate_of(said: &[String]) -> Outcome<u64> {
    Ok(said.first().and_then(|line| line.split(' ').next()).unwrap_or_default().parse()?)
}

fn thousandths(own: u64, other: u64) -> u64 {
    (own * 1_000).checked_div(other).unwrap_or(0)
}

/// The middle one of ratios in thousandths, with two decimals.
pub(crate) fn middle(ratios: &mut [u64]) -> String {
    ratios.sort_unstable();
    ratio(ratios.get(ratios.len() / 2).copied().unwrap_or(0), 1_000)
}
