//! Stopping: what was taken is answered, what was acknowledged is stored, and it does not take long.

use crate::clients::{Acknowledged, Client, all_stored, desk, event};
use crate::kit::{Server, folder};
use crate::runs::{flows, json_of, run_of, steps, until};
use flyball_serve::Role;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Clients that press on while the server stops.
const CLIENTS: usize = 8;

fn tell(server: &Server, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(server.child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Waits for the end of a server; gives its exit code.
fn ended(server: &mut Server, most: Duration) -> i32 {
    let began = Instant::now();
    loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            return status.code().expect("an exit code, not a signal");
        }
        assert!(began.elapsed() < most, "it does not end:\n{}", server.said.lock().unwrap());
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Sends events until the server is gone; gives what was acknowledged, and the status of a refusal.
fn press(place: &str, key: &str, session: &str, sent: &AtomicUsize) -> (Vec<Acknowledged>, Option<u16>) {
    let mut acknowledged = Vec::new();
    let Ok(mut client) = Client::connect(place, key) else { return (acknowledged, None) };
    for number in 0.. {
        let id = format!("e{number}");
        match client.post(&event(session, &id)) {
            Ok(reply) if reply.status == 200 => {
                acknowledged.push(Acknowledged { session: session.to_owned(), id, decision: reply.body });
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
fn a_server_under_load_stops_without_losing_anything() {
    let mut server = Server::start(&folder("stopping"), &["--no-socket"]);
    let key = server.key("bot", Role::Agent);
    let sent = AtomicUsize::new(0);
    let place = server.place.clone();
    let seen: Vec<(Vec<Acknowledged>, Option<u16>)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (place, key, sent) = (&place, &key, &sent);
                scope.spawn(move || press(place, key, &format!("s{client}"), sent))
            })
            .collect();
        until("some events", || sent.load(Ordering::Relaxed) >= 200);
        tell(&server, Signal::TERM);
        assert_eq!(ended(&mut server, Duration::from_secs(15)), 0);
        all.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(Client::connect(&place, &key).is_err(), "nobody listens any more");
    assert!(seen.iter().all(|(_, refused)| refused.is_none_or(|status| status == 503)));
    let acknowledged: Vec<Acknowledged> = seen.into_iter().flat_map(|(some, _)| some).collect();
    let stored = all_stored(desk(&server.store).as_ref(), &acknowledged);
    assert_eq!(stored, acknowledged.len() as u64, "what was stored was answered, and the other way round");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut server = Server::start(&folder("at-once"), &["--no-socket"]);
    let key = server.key("bot", Role::Agent);
    let mut slow = Client::connect(&server.place, &key).unwrap();
    // A request whose body never comes is waited for.
    slow.send(1_000, "{").unwrap();
    assert_eq!(server.ask("GET", "/healthz", None, None).0, 200);
    tell(&server, Signal::TERM);
    until("nobody listens", || Client::connect(&server.place, &key).is_err());
    std::thread::park_timeout(Duration::from_secs(1));
    assert!(server.child.try_wait().unwrap().is_none(), "it waits for the one who is inside");
    tell(&server, Signal::TERM);
    // Far less than it would have waited.
    assert_eq!(ended(&mut server, Duration::from_secs(10)), 0);
}

#[test]
fn a_run_stops_with_its_server_and_goes_on_with_the_next() {
    let folder = folder("stopped-run");
    let flows = flows(&folder);
    let args = ["--no-socket", "--workflows", flows.to_str().unwrap()];
    let mut first = Server::start(&folder, &args);
    let person = first.key("anna", Role::Operator);
    let start = json!({"workflow": "waits", "session": "w"}).to_string();
    json_of(first.ask("POST", "/v1/runs", Some(&person), Some(&start)), 202);
    until("the second step", || steps(&flows).contains(&"begun".to_owned()));
    tell(&first, Signal::TERM);
    assert_eq!(ended(&mut first, Duration::from_secs(20)), 0);
    assert!(!steps(&flows).contains(&"second".to_owned()));
    std::fs::write(flows.join("go"), "").unwrap();
    let next = Server::start(&folder, &args);
    until("the end", || run_of(&next, &person, "w")["last"]["exit"] == 0);
    assert_eq!(steps(&flows), ["first", "begun", "begun", "second"]);
}
