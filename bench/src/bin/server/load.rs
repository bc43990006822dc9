//! Decisions per second over HTTP: many connections, each with its own session, each waiting for its answer.

use crate::BenchResult;
use crate::event_lines::line;
use crate::http_client::BenchHttpClient;
use crate::server_process::BenchServer;
use crate::stats::{per_second, percentile_permille, ratio};
use crate::throughput;
use std::time::{Duration, Instant};

/// Result of a load.
pub(crate) struct HttpLoadResult {
    /// Answers per second.
    pub(crate) rate: u64,
    /// Median latency.
    pub(crate) p50: Duration,
    /// 99th percentile latency.
    pub(crate) p99: Duration,
}

impl HttpLoadResult {
    /// Formats the result.
    pub(crate) fn describe(&self, what: &str) -> String {
        format!(
            "{what}: {} a second, p50 {} us, p99 {} us",
            self.rate,
            self.p50.as_micros(),
            self.p99.as_micros()
        )
    }
}

/// Loads a server from one thread.
pub(crate) fn run_load(
    server: &BenchServer,
    connections: u64,
    seconds: u64,
    name: &str,
) -> BenchResult<HttpLoadResult> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (began, end) = (Instant::now(), Duration::from_secs(seconds));
    let mut times = runtime.block_on(async {
        let mut tasks = Vec::new();
        for number in 0..connections {
            let mut client = BenchHttpClient::connect(&server.address, &server.key).await?;
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
                BenchResult::Ok(times)
            });
        }
        let set = tokio::task::LocalSet::new();
        let handles: Vec<_> = tasks.into_iter().map(|task| set.spawn_local(task)).collect();
        set.await;
        let mut times = Vec::new();
        for handle in handles {
            times.extend(handle.await??);
        }
        BenchResult::Ok(times)
    })?;
    let rate = per_second(times.len() as u64, began.elapsed());
    Ok(HttpLoadResult {
        rate,
        p50: percentile_permille(&mut times, 500),
        p99: percentile_permille(&mut times, 990),
    })
}

/// One load on any store.
pub(crate) fn bench_load(
    flyball: &str,
    store: &str,
    connections: u64,
    seconds: u64,
) -> BenchResult<Vec<String>> {
    let server = BenchServer::flyball(flyball, store, &[])?;
    let name = format!("load-{}", std::process::id());
    let measured = run_load(&server, connections, seconds, &name)?;
    Ok(vec![measured.describe(&format!("{connections} connections, durable decisions"))])
}

/// The baseline server, the store alone (with threads, then with tasks), and the server, alternating; the median
/// round counts.
pub(crate) fn bench_rounds(
    flyball: &str,
    folder: &str,
    connections: u64,
    rounds: u64,
    seconds: u64,
) -> BenchResult<Vec<String>> {
    let (mut lines, mut to_threads, mut to_tasks, mut to_hello) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds.max(1) {
        let hello = run_load(&BenchServer::hello()?, connections, seconds, "hello")?;
        let threads =
            throughput::threads(&format!("sqlite:{folder}/threads-{round}.db"), connections, seconds)?;
        let tasks = throughput::tasks(&format!("sqlite:{folder}/tasks-{round}.db"), connections, seconds)?;
        let store = format!("sqlite:{folder}/http-{round}.db");
        let ours = run_load(&BenchServer::flyball(flyball, &store, &[])?, connections, seconds, "load")?;
        to_threads.push(thousandths(ours.rate, rate_of(&threads)?));
        to_tasks.push(thousandths(ours.rate, rate_of(&tasks)?));
        to_hello.push(thousandths(ours.rate, hello.rate));
        lines.push(hello.describe(&format!("round {round}, a bare server that parses the body")));
        lines.push(format!("round {round}, the journal alone, threads: {}", threads.join(" ")));
        lines.push(format!("round {round}, the journal alone, tasks: {}", tasks.join(" ")));
        lines.push(ours.describe(&format!("round {round}, durable decisions over HTTP")));
    }
    lines.push(format!("HTTP / the journal alone, threads = {}", median_ratio(&mut to_threads)));
    lines.push(format!("HTTP / the journal alone, tasks = {}", median_ratio(&mut to_tasks)));
    lines.push(format!("HTTP / the bare server = {}", median_ratio(&mut to_hello)));
    Ok(lines)
}

/// The rate at the start of the output.
fn rate_of(said: &[String]) -> BenchResult<u64> {
    Ok(said.first().and_then(|line| line.split(' ').next()).unwrap_or_default().parse()?)
}

fn thousandths(own: u64, other: u64) -> u64 {
    (own * 1_000).checked_div(other).unwrap_or(0)
}

/// Median of ratios in thousandths, with two decimals.
pub(crate) fn median_ratio(ratios: &mut [u64]) -> String {
    ratios.sort_unstable();
    ratio(ratios.get(ratios.len() / 2).copied().unwrap_or(0), 1_000)
}
