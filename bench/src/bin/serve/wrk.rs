//! The same load made by somebody else's program: wrk, on the server and on the bare one, in turn.

use crate::Outcome;
use crate::server::Server;
use std::process::Command;

/// What each connection sends.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/serve/post.lua");

/// What wrk has seen.
struct Seen {
    rate: u64,
    p99: String,
    refused: String,
}

/// Measures both in turn.
pub(crate) fn rounds(
    flyball: &str,
    folder: &str,
    connections: &str,
    rounds: usize,
    seconds: &str,
) -> Outcome<Vec<String>> {
    let (mut ours, mut bare, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=rounds {
        let server = Server::flyball(flyball, &format!("sqlite:{folder}/wrk-{round}.db"), &[])?;
        let seen = load(&server, connections, seconds)?;
        drop(server);
        let hello = load(&Server::hello()?, connections, seconds)?;
        lines.push(format!(
            "wrk, round {round}: {} durable decisions/s, p99 {}, not answered with 200: {}; axum hello {}/s, p99 {}",
            seen.rate, seen.p99, seen.refused, hello.rate, hello.p99
        ));
        ours.push(seen.rate);
        bare.push(hello.rate);
    }
    let (ours, bare) = (middle(ours), middle(bare));
    lines.push(format!("wrk: durable over HTTP / axum hello = {}%", ours * 100 / bare.max(1)));
    Ok(lines)
}

fn load(server: &Server, connections: &str, seconds: &str) -> Outcome<Seen> {
    let url = format!("http://{}", server.address);
    let mut command = Command::new("wrk");
    command.args(["--latency", "-t2", "-c", connections, "-d", &format!("{seconds}s"), "-s", SCRIPT, &url]);
    if !server.key.is_empty() {
        command.args(["--", &server.key]);
    }
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let after = |mark: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(mark));
        line.map(|rest| rest.trim().to_owned())
    };
    let rate = after("Requests/sec:").ok_or("wrk has counted nothing")?.parse::<f64>()?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count that is never below zero"
    )]
    let rate = rate as u64;
    let none = || "0".to_owned();
    let (p99, refused) =
        (after("99%").unwrap_or_default(), after("Non-2xx or 3xx responses:").unwrap_or_else(none));
    Ok(Seen { rate, p99, refused })
}

fn middle(mut list: Vec<u64>) -> u64 {
    list.sort_unstable();
    list.get(list.len() / 2).copied().unwrap_or(0)
}
