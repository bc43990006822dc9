//! Shutdown: in-flight requests are drained, acknowledged events are stored, and it is fast.

use crate::event_client::{AcknowledgedEvent, EventClient, assert_all_stored, event, open_store};
use crate::server_harness::{TestServer, test_dir};
use crate::server_runs::{find_run, json_of, step_log, wait_until, workflows_dir};
use flyball_server::AuthRole;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Clients that keep sending during shutdown.
const CLIENTS: usize = 8;

fn send_signal(server: &TestServer, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(server.child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Waits for a server to exit; returns its exit code.
fn wait_for_exit(server: &mut TestServer, most: Duration) -> i32 {
    let began = Instant::now();
    loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            return status.code().expect("an exit code, not a signal");
        }
        assert!(began.elapsed() < most, "the server does not exit:\n{}", server.stderr.lock().unwrap());
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Sends events until the server is gone; returns the acknowledged events and the status of a refusal.
fn send_until_closed(
    base_url: &str,
    key: &str,
    session: &str,
    sent: &AtomicUsize,
) -> (Vec<AcknowledgedEvent>, Option<u16>) {
    let mut acknowledged = Vec::new();
    let Ok(mut client) = EventClient::connect(base_url, key) else { return (acknowledged, None) };
    for number in 0.. {
        let id = format!("e{number}");
        match client.post(&event(session, &id)) {
            Ok(reply) if reply.status == 200 => {
                acknowledged.push(AcknowledgedEvent {
                    session: session.to_owned(),
                    id,
                    decision: reply.body,
                });
                sent.fetch_add(1, Ordering::Relaxed);
            }
            Ok(reply) => {
                assert!(reply.body.contains("\"stopping\""), "{}", reply.body);
                return (acknowledged, Some(reply.status));
            }
            Err(_) => break,
        }
    }
    (acknowledged, None)
}

#[test]
fn server_under_load_shuts_down_without_losing_events() {
    let mut server = TestServer::start(&test_dir("stopping"), &["--no-socket"]);
    let key = server.create_key("bot", AuthRole::Agent);
    let sent = AtomicUsize::new(0);
    let base_url = server.base_url.clone();
    let seen: Vec<(Vec<AcknowledgedEvent>, Option<u16>)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (base_url, key, sent) = (&base_url, &key, &sent);
                scope.spawn(move || send_until_closed(base_url, key, &format!("s{client}"), sent))
            })
            .collect();
        wait_until("some events", || sent.load(Ordering::Relaxed) >= 200);
        send_signal(&server, Signal::TERM);
        assert_eq!(wait_for_exit(&mut server, Duration::from_secs(15)), 0);
        all.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(EventClient::connect(&base_url, &key).is_err(), "the port is closed");
    assert!(seen.iter().all(|(_, refused)| refused.is_none_or(|status| status == 503)));
    let acknowledged: Vec<AcknowledgedEvent> = seen.into_iter().flat_map(|(some, _)| some).collect();
    let stored = assert_all_stored(open_store(&server.store).as_ref(), &acknowledged);
    assert_eq!(stored, acknowledged.len() as u64, "every stored event was acknowledged, and vice versa");
}

#[test]
fn second_signal_exits_immediately() {
    let mut server = TestServer::start(&test_dir("at-once"), &["--no-socket"]);
    let key = server.create_key("bot", AuthRole::Agent);
    let mut slow = EventClient::connect(&server.base_url, &key).unwrap();
    // The server waits for a request whose body never arrives.
    slow.send(1_000, "{").unwrap();
    assert_eq!(server.request("GET", "/healthz", None, None).0, 200);
    send_signal(&server, Signal::TERM);
    wait_until("the port to close", || EventClient::connect(&server.base_url, &key).is_err());
    std::thread::park_timeout(Duration::from_secs(1));
    assert!(server.child.try_wait().unwrap().is_none(), "the server waits for the request in flight");
    send_signal(&server, Signal::TERM);
    // Much less than the grace period.
    assert_eq!(wait_for_exit(&mut server, Duration::from_secs(10)), 0);
}

#[test]
fn run_stops_with_its_server_and_continues_on_the_next() {
    let folder = test_dir("stopped-run");
    let flows = workflows_dir(&folder);
    let args = ["--no-socket", "--workflows", flows.to_str().unwrap()];
    let mut first = TestServer::start(&folder, &args);
    let person = first.create_key("anna", AuthRole::Operator);
    let start = json!({"workflow": "waits", "session": "w"}).to_string();
    json_of(first.request("POST", "/v1/runs", Some(&person), Some(&start)), 202);
    wait_until("the second step", || step_log(&flows).contains(&"begun".to_owned()));
    send_signal(&first, Signal::TERM);
    assert_eq!(wait_for_exit(&mut first, Duration::from_secs(20)), 0);
    assert!(!step_log(&flows).contains(&"second".to_owned()));
    std::fs::write(flows.join("go"), "").unwrap();
    let next = TestServer::start(&folder, &args);
    wait_until("the end", || find_run(&next, &person, "w")["last"]["exit"] == 0);
    assert_eq!(step_log(&flows), ["first", "begun", "begun", "second"]);
}
