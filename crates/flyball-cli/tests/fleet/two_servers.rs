//! Two servers on one PostgreSQL, as on two machines, without sticky sessions: one is killed, one is suspended, and
//! no event is lost or duplicated.

use crate::database::PostgresTestDatabase;
use crate::event_client::{AcknowledgedEvent, EventClient, assert_all_stored, event, open_store};
use crate::server_harness::{TestServer, test_dir};
use crate::server_runs::{child_of, find_run, json_of, step_log, wait_until, workflows_dir};
use flyball_server::{ApiKeyStore, AuthRole};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Number of clients, the sessions that they share, and the events of each client.
const CLIENTS: usize = 8;
const SESSIONS: usize = 4;
const EVENTS: usize = 120;

fn send_signal(server: &TestServer, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(server.child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Sends the events of one client, each until a server acknowledges it.
fn send_events(
    client: usize,
    base_urls: &Mutex<Vec<String>>,
    key: &str,
    sent: &AtomicUsize,
) -> Vec<AcknowledgedEvent> {
    let mut acknowledged = Vec::new();
    let (mut server, mut open) = (client, None);
    let give_up = Instant::now() + Duration::from_secs(90);
    for number in 0..EVENTS {
        // Several clients use the same session through both servers.
        let session = format!("s{}", (client + number) % SESSIONS);
        let id = format!("c{client}-{number}");
        let text = event(&session, &id);
        loop {
            assert!(Instant::now() < give_up, "client {client} timed out");
            let base_url = {
                let base_urls = base_urls.lock().unwrap();
                base_urls.get(server % base_urls.len()).unwrap().clone()
            };
            let mut connection = match open.take() {
                Some(connection) => connection,
                None => match EventClient::connect(&base_url, key) {
                    Ok(connection) => connection,
                    Err(_) => {
                        server += 1;
                        continue;
                    }
                },
            };
            match connection.post(&text) {
                Ok(reply) if reply.status == 200 => {
                    acknowledged.push(AcknowledgedEvent { session, id, decision: reply.body });
                    sent.fetch_add(1, Ordering::Relaxed);
                    // Switch servers now and then, like a load balancer.
                    if number % 5 == 4 {
                        server += 1;
                    } else {
                        open = Some(connection);
                    }
                    break;
                }
                Ok(reply) => {
                    assert!(matches!(reply.status, 429 | 503 | 500), "{} {}", reply.status, reply.body);
                    server += 1;
                }
                // It is unknown whether the event was accepted: retry on the other server with the same id.
                Err(_) => server += 1,
            }
        }
    }
    acknowledged
}

#[test]
fn no_event_is_lost_or_duplicated_when_servers_are_suspended_and_killed() {
    let Some(database) = PostgresTestDatabase::new() else { return };
    let folder = test_dir("machines");
    let first = TestServer::start_on(&folder, &database.url, &["--no-socket"]);
    let second = TestServer::start_on(&folder, &database.url, &["--no-socket"]);
    let key = first.create_key("bot", AuthRole::Agent);
    let base_urls = Mutex::new(vec![first.base_url.clone(), second.base_url.clone()]);
    let sent = AtomicUsize::new(0);
    let all = CLIENTS * EVENTS;
    let acknowledged: Vec<AcknowledgedEvent> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (base_urls, key, sent) = (&base_urls, &key, &sent);
                scope.spawn(move || send_events(client, base_urls, key, sent))
            })
            .collect();
        wait_until("the first quarter", || sent.load(Ordering::Relaxed) >= all / 4);
        send_signal(&second, Signal::STOP);
        let at = sent.load(Ordering::Relaxed);
        wait_until("progress on the other server", || sent.load(Ordering::Relaxed) >= at + all / 8);
        send_signal(&second, Signal::CONT);
        wait_until("the second half", || sent.load(Ordering::Relaxed) >= all / 2);
        send_signal(&first, Signal::KILL);
        wait_until("three quarters", || sent.load(Ordering::Relaxed) >= all * 3 / 4);
        // A new server replaces it.
        let third = TestServer::start_on(&folder, &database.url, &["--no-socket"]);
        base_urls.lock().unwrap().push(third.base_url.clone());
        let done = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        drop(third);
        done
    });
    assert_eq!(acknowledged.len(), all);
    let store = open_store(&database.url);
    assert_eq!(assert_all_stored(store.as_ref(), &acknowledged), all as u64, "each event exactly once");
    for session in 0..SESSIONS {
        let name = format!("s{session}");
        let seq = store.load(&name).unwrap().unwrap().head.seq;
        let numbers: Vec<u64> =
            store.records(&name, 1, seq).unwrap().iter().map(|record| record.seq).collect();
        assert_eq!(numbers, (1..=seq).collect::<Vec<_>>(), "no gap in {name}");
    }
}

#[test]
fn key_created_on_one_server_works_on_the_other_until_revoked() {
    let Some(database) = PostgresTestDatabase::new() else { return };
    let folder = test_dir("keys");
    let first = TestServer::start_on(&folder, &database.url, &["--no-socket"]);
    let second = TestServer::start_on(&folder, &database.url, &["--no-socket"]);
    let keys = ApiKeyStore::new(open_store(&database.url));
    let made = keys.create("bot", AuthRole::Agent, None, None).unwrap();
    let asks = |server: &TestServer| server.request("GET", "/v1/workflows", Some(&made.secret), None).0;
    assert_eq!((asks(&first), asks(&second)), (200, 200));
    assert!(keys.revoke(&made.id).unwrap().is_some());
    wait_until("both servers to reject it", || asks(&first) == 401 && asks(&second) == 401);
}

#[test]
fn run_of_a_dead_server_is_resumed_by_another() {
    let Some(database) = PostgresTestDatabase::new() else { return };
    let folder = test_dir("taken-over");
    let flows = workflows_dir(&folder);
    let args = ["--no-socket", "--workflows", flows.to_str().unwrap(), "--workers", "1"];
    let mut first = TestServer::start_on(&folder, &database.url, &args);
    let person = first.create_key("anna", AuthRole::Operator);
    let start = json!({"workflow": "waits", "session": "w"}).to_string();
    json_of(first.request("POST", "/v1/runs", Some(&person), Some(&start)), 202);
    wait_until("the second step", || step_log(&flows).contains(&"begun".to_owned()));
    let second = TestServer::start_on(&folder, &database.url, &args);
    assert_eq!(find_run(&second, &person, "w")["work"], "running", "all servers know the state");
    // Simulate the loss of the machine: the server and its child process.
    let run = child_of(first.child.id());
    first.child.kill().unwrap();
    kill_process(run, Signal::KILL).unwrap();
    wait_until("the second step again", || {
        step_log(&flows).iter().filter(|step| *step == "begun").count() == 2
    });
    std::fs::write(flows.join("go"), "").unwrap();
    wait_until("the end", || find_run(&second, &person, "w")["last"]["exit"] == 0);
    assert_eq!(step_log(&flows), ["first", "begun", "begun", "second"]);
}

#[test]
fn run_of_a_suspended_server_runs_once() {
    let Some(database) = PostgresTestDatabase::new() else { return };
    let folder = test_dir("frozen-run");
    let flows = workflows_dir(&folder);
    let args = ["--no-socket", "--workflows", flows.to_str().unwrap(), "--workers", "1"];
    let first = TestServer::start_on(&folder, &database.url, &args);
    let person = first.create_key("anna", AuthRole::Operator);
    let start = json!({"workflow": "waits", "session": "w"}).to_string();
    json_of(first.request("POST", "/v1/runs", Some(&person), Some(&start)), 202);
    wait_until("the second step", || step_log(&flows).contains(&"begun".to_owned()));
    let second = TestServer::start_on(&folder, &database.url, &args);
    send_signal(&first, Signal::STOP);
    // The run itself is alive and holds its session. The worker that takes over the job has to wait for it.
    let store = open_store(&database.url);
    let epoch = || {
        let note = store.kv_get("orders", "w").unwrap().map(|note| note.value).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&note).unwrap_or_default()["epoch"].as_u64().unwrap_or(0)
    };
    wait_until("the other server to lease the job", || epoch() > 1);
    std::fs::write(flows.join("go"), "").unwrap();
    wait_until("the end", || find_run(&second, &person, "w")["last"]["exit"] == 0);
    send_signal(&first, Signal::CONT);
    assert_eq!(step_log(&flows), ["first", "begun", "second"]);
}
