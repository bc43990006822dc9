//! Memory with many sessions that live: each has a history of different tools and results, and all of them go on.

use crate::Outcome;
use crate::client::Client;
use crate::clock::per_second;
use crate::server::Server;
use std::time::Instant;

/// Connections that share the sessions.
const CONNECTIONS: u64 = 64;
/// Events of each session after its history, to see that all of them are alive.
const MORE: u64 = 4;
/// The tools that they use by turns.
const TOOLS: [&str; 7] = ["bash", "read", "edit", "search", "write", "fetch", "list"];

/// Event `number` of a session: a call, then its result, each with other arguments and another output.
fn line(session: u64, number: u64) -> String {
    let (call, at) = (number / 2, 1_763_200_000_000 + number * 2_000);
    let kind = usize::try_from((call + session) % 7).unwrap_or(0);
    let tool = TOOLS.get(kind).copied().unwrap_or("bash");
    let about = session * 31 + call * 7;
    if number.is_multiple_of(2) {
        return format!(
            r#"{{"type":"tool.requested","session":"agent-{session}","id":"e{number}","at":{at},"round":{call},"call":"c{call}","tool":"{tool}","args":{{"path":"src/part_{about}/file_{call}.rs","query":"fn handle_{about}","limit":{about}}},"usage":{{"tokens_in":{about},"tokens_out":120}}}}"#
        );
    }
    let output =
        format!("{about}: pub fn handle_{about}() -> Result<(), Error> {{ // line {call}\\n").repeat(6);
    format!(
        r#"{{"type":"tool.finished","session":"agent-{session}","id":"e{number}","at":{at},"call":"c{call}","ok":{},"duration_ms":{about},"output":"{output}"}}"#,
        call % 9 != 4
    )
}

/// Runs it.
pub(crate) fn run(flyball: &str, folder: &str, sessions: u64, events: u64) -> Outcome<Vec<String>> {
    let store = format!("sqlite:{folder}/sessions.db");
    let server = Server::flyball(flyball, &store, &["--hot-sessions", &sessions.to_string()])?;
    let mut lines = vec![format!("at the start: {} KiB", server.resident_kib())];
    let began = Instant::now();
    round(&server, sessions, 0, events)?;
    lines.push(format!(
        "{sessions} sessions with {events} events each: {} KiB, {} events a second",
        server.resident_kib(),
        per_second(sessions * events, began.elapsed())
    ));
    for more in 0..MORE {
        let began = Instant::now();
        round(&server, sessions, events + more, 1)?;
        let rate = per_second(sessions, began.elapsed());
        lines.push(format!("one more event each: {} KiB, {rate} events a second", server.resident_kib()));
    }
    Ok(lines)
}

/// Some events for every session, one after the other in each.
fn round(server: &Server, sessions: u64, first: u64, events: u64) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let set = tokio::task::LocalSet::new();
        let mut handles = Vec::new();
        for lane in 0..CONNECTIONS {
            let mut client = Client::connect(&server.address, &server.key).await?;
            handles.push(set.spawn_local(async move {
                for number in first..first + events {
                    for session in (lane..sessions).step_by(64) {
                        let status = client.post(&line(session, number)).await?.status;
                        if status != 200 {
                            return Err(format!("answered with {status}").into());
                        }
                    }
                }
                Outcome::Ok(())
            }));
        }
        set.await;
        for handle in handles {
            handle.await??;
        }
        Ok(())
    })
}
