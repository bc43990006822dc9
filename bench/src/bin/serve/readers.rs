//! Listeners that never read what they asked for: do they slow anybody down, and what do they cost?

use crate::Outcome;
use crate::clock::ratio;
use crate::load::{load, middle};
use crate::server::Server;
use std::io::Write;
use std::net::TcpStream;

/// Connections of the load.
const CONNECTIONS: u64 = 64;
/// Seconds before it is measured.
const FILL: u64 = 4;

/// The load without and with such listeners, in turn; the middle round counts.
pub(crate) fn run(
    flyball: &str,
    folder: &str,
    listeners: usize,
    rounds: u64,
    seconds: u64,
) -> Outcome<Vec<String>> {
    let (mut lines, mut ratios) = (Vec::new(), Vec::new());
    for round in 0..rounds.max(1) {
        let server = Server::flyball(flyball, &format!("sqlite:{folder}/free-{round}.db"), &[])?;
        load(&server, CONNECTIONS, FILL, "fill")?;
        let free = load(&server, CONNECTIONS, seconds, "load")?;
        let without = server.resident_kib();
        drop(server);
        let server = Server::flyball(flyball, &format!("sqlite:{folder}/stalled-{round}.db"), &[])?;
        let held = (0..listeners).map(|_| listen(&server)).collect::<Outcome<Vec<TcpStream>>>()?;
        // What the system itself holds for a listener is soon full; from then on they stand still.
        load(&server, CONNECTIONS, FILL, "fill")?;
        let stalled = load(&server, CONNECTIONS, seconds, "load")?;
        let with = server.resident_kib();
        drop(held);
        ratios.push((stalled.rate * 1_000).checked_div(free.rate).unwrap_or(0));
        lines.push(free.told(&format!("round {round}, nobody listens, {without} KiB")));
        lines.push(stalled.told(&format!("round {round}, {listeners} listen and read nothing, {with} KiB")));
        lines.push(format!("round {round}, memory with / without = {}", ratio(with, without)));
    }
    lines.push(format!("with listeners that read nothing / without = {}", middle(&mut ratios)));
    Ok(lines)
}

/// Asks for everything, and reads nothing of it.
fn listen(server: &Server) -> Outcome<TcpStream> {
    let mut stream = TcpStream::connect(&server.address)?;
    let (address, key) = (&server.address, &server.key);
    write!(
        stream,
        "GET /v1/live?after=0-0 HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\r\n"
    )?;
    Ok(stream)
}
