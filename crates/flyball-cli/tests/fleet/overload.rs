//! More clients than queue capacity: refusals have a `Retry-After`, and no acknowledged event is lost.

use crate::event_client::{AcknowledgedEvent, EventClient, assert_all_stored, event, open_store};
use crate::server_harness::{TestServer, test_dir};
use flyball_server::AuthRole;
use std::time::{Duration, Instant};

/// Queue capacity, and number of clients.
const QUEUE: &str = "4";
const CLIENTS: usize = 40;

/// Resident memory of a process, in KiB.
fn resident_kib(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A client that ignores `Retry-After`; returns the acknowledged events and the number of refusals.
fn send_without_backoff(
    base_url: &str,
    key: &str,
    session: &str,
    end: Instant,
) -> (Vec<AcknowledgedEvent>, usize) {
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    let mut client = EventClient::connect(base_url, key).unwrap();
    while Instant::now() < end {
        let id = format!("e{}", acknowledged.len());
        let reply = client.post(&event(session, &id)).unwrap();
        if reply.status == 200 {
            acknowledged.push(AcknowledgedEvent { session: session.to_owned(), id, decision: reply.body });
        } else {
            assert_eq!((reply.status, reply.retry_after.as_deref()), (429, Some("1")), "{}", reply.body);
            assert!(reply.body.contains("\"overloaded\""), "{}", reply.body);
            refused += 1;
        }
    }
    (acknowledged, refused)
}

#[test]
fn tenfold_overload_is_rejected_with_retry_after() {
    let server = TestServer::start(&test_dir("overload"), &["--no-socket", "--queue", QUEUE]);
    let key = server.create_key("bot", AuthRole::Agent);
    let warm = Instant::now() + Duration::from_millis(500);
    send_without_backoff(&server.base_url, &key, "warm", warm);
    let memory = resident_kib(server.child.id());
    let end = Instant::now() + Duration::from_secs(3);
    let seen: Vec<(Vec<AcknowledgedEvent>, usize)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (base_url, key) = (&server.base_url, &key);
                scope.spawn(move || send_without_backoff(base_url, key, &format!("s{client}"), end))
            })
            .collect();
        all.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let refused: usize = seen.iter().map(|(_, refused)| refused).sum();
    let acknowledged: Vec<AcknowledgedEvent> = seen.into_iter().flat_map(|(some, _)| some).collect();
    assert!(refused > 0, "{CLIENTS} clients exceed a queue of {QUEUE}");
    assert!(acknowledged.len() > CLIENTS, "events are still accepted");
    // In a debug build with few sessions, the state of each session is most of the growth.
    let now = resident_kib(server.child.id());
    assert!(now < memory * 3 / 2 + 16 * 1024, "memory grew from {memory} to {now} KiB");
    assert_eq!(
        assert_all_stored(open_store(&server.store).as_ref(), &acknowledged),
        acknowledged.len() as u64
    );
    let calm = EventClient::connect(&server.base_url, &key).unwrap().post(&event("calm", "e")).unwrap();
    assert_eq!(calm.status, 200, "{}", calm.body);
}
