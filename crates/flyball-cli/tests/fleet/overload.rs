//! More clients than places: refusals say when to come again, and nothing that was acknowledged is lost.

use crate::clients::{Acknowledged, Client, all_stored, desk, event};
use crate::kit::{Server, folder};
use flyball_serve::Role;
use std::time::{Duration, Instant};

/// Places in the line, and clients for them.
const QUEUE: &str = "4";
const CLIENTS: usize = 40;

/// Memory of a process, in KiB.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A client that never waits as it is told; gives what was acknowledged, and how many refusals it saw.
fn press(place: &str, key: &str, session: &str, end: Instant) -> (Vec<Acknowledged>, usize) {
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    let mut client = Client::connect(place, key).unwrap();
    while Instant::now() < end {
        let id = format!("e{}", acknowledged.len());
        let reply = client.post(&event(session, &id)).unwrap();
        if reply.status == 200 {
            acknowledged.push(Acknowledged { session: session.to_owned(), id, decision: reply.body });
        } else {
            assert_eq!((reply.status, reply.retry_after.as_deref()), (429, Some("1")), "{}", reply.body);
            assert!(reply.body.contains("\"overloaded\""), "{}", reply.body);
            refused += 1;
        }
    }
    (acknowledged, refused)
}

#[test]
fn ten_times_too_many_are_refused_honestly() {
    let server = Server::start(&folder("overload"), &["--no-socket", "--queue", QUEUE]);
    let key = server.key("bot", Role::Agent);
    let warm = Instant::now() + Duration::from_millis(500);
    press(&server.place, &key, "warm", warm);
    let memory = resident(server.child.id());
    let end = Instant::now() + Duration::from_secs(3);
    let seen: Vec<(Vec<Acknowledged>, usize)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (place, key) = (&server.place, &key);
                scope.spawn(move || press(place, key, &format!("s{client}"), end))
            })
            .collect();
        all.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let refused: usize = seen.iter().map(|(_, refused)| refused).sum();
    let acknowledged: Vec<Acknowledged> = seen.into_iter().flat_map(|(some, _)| some).collect();
    assert!(refused > 0, "there were {CLIENTS} for {QUEUE} places");
    assert!(acknowledged.len() > CLIENTS, "the work goes on meanwhile");
    // A debug build with few sessions: what each of them keeps is most of the growth.
    let now = resident(server.child.id());
    assert!(now < memory * 3 / 2 + 16 * 1024, "memory grew from {memory} to {now} KiB");
    assert_eq!(all_stored(desk(&server.store).as_ref(), &acknowledged), acknowledged.len() as u64);
    let calm = Client::connect(&server.place, &key).unwrap().post(&event("calm", "e")).unwrap();
    assert_eq!(calm.status, 200, "{}", calm.body);
}
