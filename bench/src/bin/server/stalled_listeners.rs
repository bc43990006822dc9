//! Stalled listeners that never read their stream: do they slow down others, and what do they cost?

use crate::BenchResult;
use crate::load::{median_ratio, run_load};
use crate::server_process::BenchServer;
use crate::stats::ratio;
use std::io::Write;
use std::net::TcpStream;

/// Connections of the load.
const CONNECTIONS: u64 = 64;
/// Warm-up in seconds.
const WARMUP_SECONDS: u64 = 4;

/// The load without and with stalled listeners, alternating; the median round counts.
pub(crate) fn run(
    flyball: &str,
    folder: &str,
    listeners: usize,
    rounds: u64,
    seconds: u64,
) -> BenchResult<Vec<String>> {
    let (mut lines, mut ratios) = (Vec::new(), Vec::new());
    for round in 0..rounds.max(1) {
        let server = BenchServer::flyball(flyball, &format!("sqlite:{folder}/free-{round}.db"), &[])?;
        run_load(&server, CONNECTIONS, WARMUP_SECONDS, "fill")?;
        let free = run_load(&server, CONNECTIONS, seconds, "load")?;
        let without = server.resident_kib();
        drop(server);
        let server = BenchServer::flyball(flyball, &format!("sqlite:{folder}/stalled-{round}.db"), &[])?;
        let held = (0..listeners)
            .map(|_| open_stalled_listener(&server))
            .collect::<BenchResult<Vec<TcpStream>>>()?;
        // Fill the socket buffers of the listeners, so that they stall.
        run_load(&server, CONNECTIONS, WARMUP_SECONDS, "fill")?;
        let stalled = run_load(&server, CONNECTIONS, seconds, "load")?;
        let with = server.resident_kib();
        drop(held);
        ratios.push((stalled.rate * 1_000).checked_div(free.rate).unwrap_or(0));
        lines.push(free.describe(&format!("round {round}, no listeners, {without} KiB")));
        lines.push(
            stalled.describe(&format!("round {round}, {listeners} listen and read nothing, {with} KiB")),
        );
        lines.push(format!("round {round}, memory with / without = {}", ratio(with, without)));
    }
    lines.push(format!("with listeners that read nothing / without = {}", median_ratio(&mut ratios)));
    Ok(lines)
}

/// Subscribes to everything and reads nothing.
fn open_stalled_listener(server: &BenchServer) -> BenchResult<TcpStream> {
    let mut stream = TcpStream::connect(&server.address)?;
    let (address, key) = (&server.address, &server.key);
    write!(
        stream,
        "GET /v1/live?after=0-0 HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\r\n"
    )?;
    Ok(stream)
}
