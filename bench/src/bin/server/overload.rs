//! Overload: ten times as many clients as the queue has capacity, all ignoring `Retry-After`. Are rejections fast, is
//! memory flat, is every acknowledged event stored, and does the server recover?

use crate::BenchResult;
use crate::event_lines::line;
use crate::http_client::BenchHttpClient;
use crate::load::run_load;
use crate::server_process::BenchServer;
use crate::stats::{per_second, percentile_permille, ratio};
use flyball_store::StoreAddress;
use std::path::Path;
use std::time::{Duration, Instant};

/// Capacity of the server's queue.
const QUEUE_CAPACITY: u64 = 64;
/// Clients per unit of capacity.
const CLIENTS_PER_SLOT: u64 = 10;
/// Connections and seconds of the normal load before and after.
const NORMAL_LOAD: [u64; 2] = [8, 3];
/// Events of each session before the flood, so that session memory is not attributed to the overload.
const WARMUP_EVENTS: u64 = 320;
/// And one over the connection that is used for the flood.
const EVENTS_BEFORE_FLOOD: u64 = WARMUP_EVENTS + 1;
/// Events per request of the warm-up.
const WARMUP_BATCH: usize = 32;
/// How often memory is sampled.
const MEMORY_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Statistics of one client.
#[derive(Default)]
struct FloodClientStats {
    session: String,
    taken: u64,
    /// Rejections without `Retry-After`.
    refused_without_retry_after: u64,
    refused: Vec<Duration>,
}

/// Runs the benchmark.
pub(crate) fn run(flyball: &str, folder: &str, seconds: u64) -> BenchResult<Vec<String>> {
    let store = format!("sqlite:{folder}/overload.db");
    let server = BenchServer::flyball(flyball, &store, &["--queue", &QUEUE_CAPACITY.to_string()])?;
    let [few, short] = NORMAL_LOAD;
    let before = run_load(&server, few, short, "before")?;
    warm_up(&server)?;
    let FloodResult { seen, memory, most, took } = flood(&server, Duration::from_secs(seconds))?;
    let mut after = Duration::ZERO;
    let calm = Instant::now();
    while calm.elapsed() < Duration::from_secs(10) {
        let now = run_load(&server, few, 1, &format!("after-{}", calm.elapsed().as_millis()))?;
        after = calm.elapsed();
        if now.p99 <= before.p99 * 2 {
            break;
        }
    }
    drop(server);
    let lost = lost(&store, &seen)?;
    let taken: u64 = seen.iter().map(|one| one.taken - EVENTS_BEFORE_FLOOD).sum();
    let mut refused: Vec<Duration> = seen.iter().flat_map(|one| one.refused.iter().copied()).collect();
    let dumb: u64 = seen.iter().map(|one| one.refused_without_retry_after).sum();
    let served = || seen.iter().map(|one| one.taken - EVENTS_BEFORE_FLOOD);
    let (least, best) = (served().min(), served().max());
    let (p50, p99) = (percentile_permille(&mut refused, 500), percentile_permille(&mut refused, 990));
    Ok(vec![
        format!(
            "{} clients for a queue capacity of {QUEUE_CAPACITY}, {} s",
            QUEUE_CAPACITY * CLIENTS_PER_SLOT,
            took.as_secs()
        ),
        format!(
            "accepted: {taken}, {} per second; acknowledged but not stored: {lost}",
            per_second(taken, took)
        ),
        format!(
            "rejected: {}, p50 {} us, p99 {} us, longest {} us; without Retry-After: {dumb}",
            refused.len(),
            p50.as_micros(),
            p99.as_micros(),
            refused.last().copied().unwrap_or_default().as_micros()
        ),
        format!("memory: {memory} KiB before, at most {most} KiB, ratio {}", ratio(most, memory)),
        format!("least served / most served client: {}", ratio(least.unwrap_or(0), best.unwrap_or(0))),
        format!(
            "p99 of {few} clients before: {} us; normal again after {} ms",
            before.p99.as_micros(),
            after.as_millis()
        ),
    ])
}

/// Submits all sessions' events at the server's own pace.
fn warm_up(server: &BenchServer) -> BenchResult<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = BenchHttpClient::connect(&server.address, &server.key).await?;
        for number in 0..QUEUE_CAPACITY * CLIENTS_PER_SLOT {
            let session = session_name(number);
            let lines: Vec<String> = (0..WARMUP_EVENTS).map(|event| line(&session, event)).collect();
            for lines in lines.chunks(WARMUP_BATCH) {
                let reply = client.post(&format!("[{}]", lines.join(","))).await?;
                if reply.status != 200 {
                    return Err(format!("answered with {}", reply.status).into());
                }
            }
        }
        Ok(())
    })
}

fn session_name(number: u64) -> String {
    format!("flood-{number}")
}

/// Result of the flood.
struct FloodResult {
    seen: Vec<FloodClientStats>,
    /// Memory with the same clients and sessions, one request at a time.
    memory: u64,
    /// Peak memory.
    most: u64,
    took: Duration,
}

/// All clients one after the other, then all at once.
fn flood(server: &BenchServer, end: Duration) -> BenchResult<FloodResult> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for number in 0..QUEUE_CAPACITY * CLIENTS_PER_SLOT {
            let mut client = BenchHttpClient::connect(&server.address, &server.key).await?;
            let reply = client.post(&line(&session_name(number), WARMUP_EVENTS)).await?;
            if reply.status != 200 {
                return Err(format!("answered with {}", reply.status).into());
            }
            clients.push(client);
        }
        let memory = server.resident_kib();
        let (began, set) = (Instant::now(), tokio::task::LocalSet::new());
        let all = clients.into_iter().zip(0..);
        let handles: Vec<_> = all
            .map(|(client, number)| {
                set.spawn_local(send_without_waiting(client, session_name(number), began, end))
            })
            .collect();
        let mut most = 0;
        let watch = async {
            while began.elapsed() < end {
                most = most.max(server.resident_kib());
                tokio::time::sleep(MEMORY_POLL_INTERVAL).await;
            }
        };
        tokio::join!(set, watch);
        let took = began.elapsed();
        let mut seen = Vec::new();
        for handle in handles {
            seen.push(handle.await??);
        }
        Ok(FloodResult { seen, memory, most, took })
    })
}

/// One client that never backs off: resends a rejected event at once, with the same id.
async fn send_without_waiting(
    mut client: BenchHttpClient,
    session: String,
    began: Instant,
    end: Duration,
) -> BenchResult<FloodClientStats> {
    let mut seen = FloodClientStats { session, taken: EVENTS_BEFORE_FLOOD, ..FloodClientStats::default() };
    while began.elapsed() < end {
        let asked = Instant::now();
        let reply = client.post(&line(&seen.session, seen.taken)).await?;
        match reply.status {
            200 => seen.taken += 1,
            429 => {
                seen.refused.push(asked.elapsed());
                seen.refused_without_retry_after += u64::from(!reply.retry_after);
            }
            other => return Err(format!("answered with {other}").into()),
        }
    }
    Ok(seen)
}

/// Number of acknowledged events that are not stored.
fn lost(store: &str, seen: &[FloodClientStats]) -> BenchResult<u64> {
    let desk = StoreAddress::parse(store, Path::new("."))?.open()?;
    let mut lost = 0;
    for one in seen.iter().filter(|one| one.taken > 0) {
        let stored = desk.load(&one.session)?.map_or(0, |loaded| loaded.head.seq);
        lost += one.taken.abs_diff(stored);
    }
    Ok(lost)
}
