//! Memory with many live sessions: each has a history of different tools and results, and all of them continue.

use crate::BenchResult;
use crate::http_client::BenchHttpClient;
use crate::server_process::BenchServer;
use crate::stats::per_second;
use std::time::Instant;

/// Connections that share the sessions.
const CONNECTIONS: u64 = 64;
/// Events of each session after its history, to show that all of them are live.
const EXTRA_EVENTS: u64 = 4;
/// The tools that they use in turn.
const TOOLS: [&str; 7] = ["bash", "read", "edit", "search", "write", "fetch", "list"];

/// Event `number` of a session: a call, then its result, each with different arguments and output.
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

/// Runs the benchmark.
pub(crate) fn run(flyball: &str, folder: &str, sessions: u64, events: u64) -> BenchResult<Vec<String>> {
    let store = format!("sqlite:{folder}/sessions.db");
    let server = BenchServer::flyball(flyball, &store, &["--hot-sessions", &sessions.to_string()])?;
    let mut lines = vec![format!("at the start: {} KiB", server.resident_kib())];
    let began = Instant::now();
    send_events(&server, sessions, 0, events)?;
    lines.push(format!(
        "{sessions} sessions with {events} events each: {} KiB, {} events per second",
        server.resident_kib(),
        per_second(sessions * events, began.elapsed())
    ));
    for more in 0..EXTRA_EVENTS {
        let began = Instant::now();
        send_events(&server, sessions, events + more, 1)?;
        let rate = per_second(sessions, began.elapsed());
        lines.push(format!("one more event each: {} KiB, {rate} events per second", server.resident_kib()));
    }
    Ok(lines)
}

/// Sends events for every session, in order within each.
fn send_events(server: &BenchServer, sessions: u64, first: u64, events: u64) -> BenchResult<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let set = tokio::task::LocalSet::new();
        let mut handles = Vec::new();
        for lane in 0..CONNECTIONS {
            let mut client = BenchHttpClient::connect(&server.address, &server.key).await?;
            handles.push(set.spawn_local(async move {
                for number in first..first + events {
                    for session in (lane..sessions).step_by(64) {
                        let status = client.post(&line(session, number)).await?.status;
                        if status != 200 {
                            return Err(format!("answered with {status}").into());
                        }
                    }
                }
                BenchResult::Ok(())
            }));
        }
        set.await;
        for handle in handles {
            handle.await??;
        }
        Ok(())
    })
}
