//! Two servers on one PostgreSQL, as on two machines: no stickiness, one killed, one frozen, and nothing lost or doubled.

use crate::clients::{Acknowledged, Client, all_stored, desk, event};
use crate::database::Database;
use crate::kit::{Server, folder};
use crate::runs::{child_of, flows, json_of, run_of, steps, until};
use flyball_serve::{Keys, Role};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Clients at once, the sessions that they share, and the events of each client.
const CLIENTS: usize = 8;
const SESSIONS: usize = 4;
const EVENTS: usize = 120;

fn signal(server: &Server, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(server.child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Sends the events of one client, each until it is acknowledged: by whichever server answers.
fn press(client: usize, places: &Mutex<Vec<String>>, key: &str, sent: &AtomicUsize) -> Vec<Acknowledged> {
    let mut acknowledged = Vec::new();
    let (mut turn, mut open) = (client, None);
    let give_up = Instant::now() + Duration::from_secs(90);
    for number in 0..EVENTS {
        // The same session by several clients, through both servers.
        let session = format!("s{}", (client + number) % SESSIONS);
        let id = format!("c{client}-{number}");
        let text = event(&session, &id);
        loop {
            assert!(Instant::now() < give_up, "client {client} is never answered");
            let place = {
                let places = places.lock().unwrap();
                places.get(turn % places.len()).unwrap().clone()
            };
            let mut connection = match open.take() {
                Some(connection) => connection,
                None => match Client::connect(&place, key) {
                    Ok(connection) => connection,
                    Err(_) => {
                        turn += 1;
                        continue;
                    }
                },
            };
            match connection.post(&text) {
                Ok(reply) if reply.status == 200 => {
                    acknowledged.push(Acknowledged { session, id, decision: reply.body });
                    sent.fetch_add(1, Ordering::Relaxed);
                    // Now and then the balancer takes the other one.
                    if number % 5 == 4 {
                        turn += 1;
                    } else {
                        open = Some(connection);
                    }
                    break;
                }
                Ok(reply) => {
                    assert!(matches!(reply.status, 429 | 503 | 500), "{} {}", reply.status, reply.body);
                    turn += 1;
                }
                // Nobody knows whether it was taken: the other one is asked, with the same id.
                Err(_) => turn += 1,
            }
        }
    }
    acknowledged
}

#[test]
fn one_is_frozen_and_one_is_killed_and_no_event_is_lost_or_doubled() {
    let Some(database) = Database::new() else { return };
    let folder = folder("machines");
    let first = Server::on(&folder, &database.url, &["--no-socket"]);
    let second = Server::on(&folder, &database.url, &["--no-socket"]);
    let key = first.key("bot", Role::Agent);
    let places = Mutex::new(vec![first.place.clone(), second.place.clone()]);
    let sent = AtomicUsize::new(0);
    let all = CLIENTS * EVENTS;
    let acknowledged: Vec<Acknowledged> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (places, key, sent) = (&places, &key, &sent);
                scope.spawn(move || press(client, places, key, sent))
            })
            .collect();
        until("the first quarter", || sent.load(Ordering::Relaxed) >= all / 4);
        signal(&second, Signal::STOP);
        let at = sent.load(Ordering::Relaxed);
        until("the others go on", || sent.load(Ordering::Relaxed) >= at + all / 8);
        signal(&second, Signal::CONT);
        until("the second half", || sent.load(Ordering::Relaxed) >= all / 2);
        signal(&first, Signal::KILL);
        until("three quarters", || sent.load(Ordering::Relaxed) >= all * 3 / 4);
        // A new one comes in its place.
        let third = Server::on(&folder, &database.url, &["--no-socket"]);
        places.lock().unwrap().push(third.place.clone());
        let done = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        drop(third);
        done
    });
    assert_eq!(acknowledged.len(), all);
    let desk = desk(&database.url);
    assert_eq!(all_stored(desk.as_ref(), &acknowledged), all as u64, "each of them once");
    for session in 0..SESSIONS {
        let name = format!("s{session}");
        let seq = desk.load(&name).unwrap().unwrap().head.seq;
        let numbers: Vec<u64> =
            desk.records(&name, 1, seq).unwrap().iter().map(|record| record.seq).collect();
        assert_eq!(numbers, (1..=seq).collect::<Vec<_>>(), "no gap in {name}");
    }
}

#[test]
fn a_key_made_through_one_works_on_the_other_until_it_is_taken_back() {
    let Some(database) = Database::new() else { return };
    let folder = folder("keys");
    let first = Server::on(&folder, &database.url, &["--no-socket"]);
    let second = Server::on(&folder, &database.url, &["--no-socket"]);
    let keys = Keys::new(desk(&database.url));
    let made = keys.create("bot", Role::Agent, None, None).unwrap();
    let asks = |server: &Server| server.ask("GET", "/v1/workflows", Some(&made.secret), None).0;
    assert_eq!((asks(&first), asks(&second)), (200, 200));
    assert!(keys.revoke(&made.id).unwrap().is_some());
    until("both know", || asks(&first) == 401 && asks(&second) == 401);
}

#[test]
fn a_run_of_a_server_that_dies_is_taken_up_by_another() {
    let Some(database) = Database::new() else { return };
    let folder = folder("taken-over");
    let flows = flows(&folder);
    let args = ["--no-socket", "--workflows", flows.to_str().unwrap(), "--workers", "1"];
    let mut first = Server::on(&folder, &database.url, &args);
    let person = first.key("anna", Role::Operator);
    let start = json!({"workflow": "waits", "session": "w"}).to_string();
    json_of(first.ask("POST", "/v1/runs", Some(&person), Some(&start)), 202);
    until("the second step", || steps(&flows).contains(&"begun".to_owned()));
    let second = Server::on(&folder, &database.url, &args);
    assert_eq!(run_of(&second, &person, "w")["work"], "running", "all servers know");
    // The whole machine, so to say: the server and what it has started.
    let run = child_of(first.child.id());
    first.child.kill().unwrap();
    kill_process(run, Signal::KILL).unwrap();
    until("the second step again", || steps(&flows).iter().filter(|step| *step == "begun").count() == 2);
    std::fs::write(flows.join("go"), "").unwrap();
    until("the end", || run_of(&second, &person, "w")["last"]["exit"] == 0);
    assert_eq!(steps(&flows), ["first", "begun", "begun", "second"]);
}

#[test]
fn a_run_of_a_server_that_is_frozen_runs_once() {
    let Some(database) = Database::new() else { return };
    let folder = folder("frozen-run");
    let flows = flows(&folder);
    let args = ["--no-socket", "--workflows", flows.to_str().unwrap(), "--workers", "1"];
    let first = Server::on(&folder, &database.url, &args);
    let person = first.key("anna", Role::Operator);
    let start = json!({"workflow": "waits", "session": "w"}).to_string();
    json_of(first.ask("POST", "/v1/runs", Some(&person), Some(&start)), 202);
    until("the second step", || steps(&flows).contains(&"begun".to_owned()));
    let second = Server::on(&folder, &database.url, &args);
    signal(&first, Signal::STOP);
    // The run itself lives on and holds its session. Whoever takes the order over has to wait for it.
    let desk = desk(&database.url);
    let epoch = || {
        let note = desk.note("orders", "w").unwrap().map(|note| note.text).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&note).unwrap_or_default()["epoch"].as_u64().unwrap_or(0)
    };
    until("the other has taken the order", || epoch() > 1);
    std::fs::write(flows.join("go"), "").unwrap();
    until("the end", || run_of(&second, &person, "w")["last"]["exit"] == 0);
    signal(&first, Signal::CONT);
    assert_eq!(steps(&flows), ["first", "begun", "second"]);
}
