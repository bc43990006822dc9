//! Ten times as many clients as there are places, none of which waits as it is told: are refusals quick, is memory flat,
//! is everything that was acknowledged there, and is it over when it is over?

use crate::Outcome;
use crate::client::Client;
use crate::clock::{per_second, permille, ratio};
use crate::lines::line;
use crate::load::load;
use crate::server::Server;
use flyball_journal::Address;
use std::path::Path;
use std::time::{Duration, Instant};

/// Places in the line of the server.
const QUEUE: u64 = 64;
/// Clients for each place.
const TIMES: u64 = 10;
/// Connections and seconds of the normal load before and after.
const NORMAL: [u64; 2] = [8, 3];
/// Events of each session before it begins: what a session itself takes in memory is not what overload takes.
const WARM: u64 = 320;
/// And one over the connection that presses later.
const BEFORE: u64 = WARM + 1;
/// How many of them are sent together.
const TOGETHER: usize = 32;
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// What one client saw.
#[derive(Default)]
struct Seen {
    session: String,
    taken: u64,
    /// Refusals that did not say when to come again.
    dumb: u64,
    refused: Vec<Duration>,
}

/// Runs it.
pub(crate) fn run(flyball: &str, folder: &str, seconds: u64) -> Outcome<Vec<String>> {
    let store = format!("sqlite:{folder}/overload.db");
    let server = Server::flyball(flyball, &store, &["--queue", &QUEUE.to_string()])?;
    let [few, short] = NORMAL;
    let before = load(&server, few, short, "before")?;
    warm(&server)?;
    let Flood { seen, memory, most, took } = flood(&server, Duration::from_secs(seconds))?;
    let mut after = Duration::ZERO;
    let calm = Instant::now();
    while calm.elapsed() < Duration::from_secs(10) {
        let now = load(&server, few, 1, &format!("after-{}", calm.elapsed().as_millis()))?;
        after = calm.elapsed();
        if now.p99 <= before.p99 * 2 {
            break;
        }
    }
    drop(server);
    let lost = lost(&store, &seen)?;
    let taken: u64 = seen.iter().map(|one| one.taken - BEFORE).sum();
    let mut refused: Vec<Duration> = seen.iter().flat_map(|one| one.refused.iter().copied()).collect();
    let dumb: u64 = seen.iter().map(|one| one.dumb).sum();
    let served = || seen.iter().map(|one| one.taken - BEFORE);
    let (least, best) = (served().min(), served().max());
    let (p50, p99) = (permille(&mut refused, 500), permille(&mut refused, 990));
    Ok(vec![
        format!("{} clients for {QUEUE} places, {} s", QUEUE * TIMES, took.as_secs()),
        format!(
            "taken: {taken}, {} a second; acknowledged and not in the store: {lost}",
            per_second(taken, took)
        ),
        format!(
            "refused: {}, p50 {} us, p99 {} us, longest {} us; without Retry-After: {dumb}",
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

/// All sessions at a pace that suits the server.
fn warm(server: &Server) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = Client::connect(&server.address, &server.key).await?;
        for number in 0..QUEUE * TIMES {
            let session = name(number);
            let lines: Vec<String> = (0..WARM).map(|event| line(&session, event)).collect();
            for lines in lines.chunks(TOGETHER) {
                let reply = client.post(&format!("[{}]", lines.join(","))).await?;
                if reply.status != 200 {
                    return Err(format!("answered with {}", reply.status).into());
                }
            }
        }
        Ok(())
    })
}

fn name(number: u64) -> String {
    format!("flood-{number}")
}

/// What came of everybody at once.
struct Flood {
    seen: Vec<Seen>,
    /// Memory with the same clients and sessions, one request at a time.
    memory: u64,
    /// The most memory while it lasted.
    most: u64,
    took: Duration,
}

/// Everybody one after the other, and then everybody at once.
fn flood(server: &Server, end: Duration) -> Outcome<Flood> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for number in 0..QUEUE * TIMES {
            let mut client = Client::connect(&server.address, &server.key).await?;
            let reply = client.post(&line(&name(number), WARM)).await?;
            if reply.status != 200 {
                return Err(format!("answered with {}", reply.status).into());
            }
            clients.push(client);
        }
        let memory = server.resident_kib();
        let (began, set) = (Instant::now(), tokio::task::LocalSet::new());
        let all = clients.into_iter().zip(0..);
        let handles: Vec<_> =
            all.map(|(client, number)| set.spawn_local(press(client, name(number), began, end))).collect();
        let mut most = 0;
        let watch = async {
            while began.elapsed() < end {
                most = most.max(server.resident_kib());
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::join!(set, watch);
        let took = began.elapsed();
        let mut seen = Vec::new();
        for handle in handles {
            seen.push(handle.await??);
        }
        Ok(Flood { seen, memory, most, took })
    })
}

/// One client that never waits: a refused event is sent again at once, with the same id.
async fn press(mut client: Client, session: String, began: Instant, end: Duration) -> Outcome<Seen> {
    let mut seen = Seen { session, taken: BEFORE, ..Seen::default() };
    while began.elapsed() < end {
        let asked = Instant::now();
        let reply = client.post(&line(&seen.session, seen.taken)).await?;
        match reply.status {
            200 => seen.taken += 1,
            429 => {
                seen.refused.push(asked.elapsed());
                seen.dumb += u64::from(!reply.retry_after);
            }
            other => return Err(format!("answered with {other}").into()),
        }
    }
    Ok(seen)
}

/// Events that were acknowledged and are not there.
fn lost(store: &str, seen: &[Seen]) -> Outcome<u64> {
    let desk = Address::read(store, Path::new("."))?.open()?;
    let mut lost = 0;
    for one in seen.iter().filter(|one| one.taken > 0) {
        let stored = desk.load(&one.session)?.map_or(0, |loaded| loaded.head.seq);
        lost += one.taken.abs_diff(stored);
    }
    Ok(lost)
}
