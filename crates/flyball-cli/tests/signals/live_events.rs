//! Live events: each is delivered once and in order, regardless of the writer; a client can resume; and a client that
//! does not read affects no other.

use crate::server_harness::{TestServer, test_dir};
use crate::sse_client::{RECEIVE_TIMEOUT, SseClient, SseMessage};
use flyball_server::{ApiKeyStore, AuthRole};
use flyball_store::StoreAddress;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A numbered call, so that no guard trips.
pub(crate) fn tool_call(session: &str, number: u64) -> Value {
    json!({"type": "tool.requested", "session": session, "tool": "look", "args": {"page": number}})
}

/// Writes directly to the store, as another process.
fn observe(server: &TestServer, events: &[Value]) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["observe", "--store", &server.store])
        .current_dir(&server.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    for event in events {
        writeln!(pipe, "{event}").unwrap();
    }
    drop(pipe);
    assert!(child.wait().unwrap().success());
}

/// Checks that each event was received once, in stream order and, per session, in sequence order.
fn assert_each_once_in_order(received: &[SseMessage], sessions: &[&str], each: u64) {
    let places: Vec<_> = received.iter().map(SseMessage::position).collect();
    assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
    for session in sessions {
        let own = received
            .iter()
            .map(SseMessage::session_and_seq)
            .filter(|(name, _)| name == session)
            .map(|(_, seq)| seq);
        assert_eq!(own.collect::<Vec<_>>(), (1..=each).collect::<Vec<_>>(), "{session}");
    }
}

fn three_writers(first: &TestServer, second: &TestServer) {
    let agent = first.create_key_for_all("bot");
    let sse = SseClient::open(first, "/v1/live", &agent, None);
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=20).for_each(|n| drop(first.submit_event(&agent, &tool_call("one", n)))));
        scope.spawn(|| (1..=20).for_each(|n| drop(second.submit_event(&agent, &tool_call("two", n)))));
        scope.spawn(|| observe(first, &(1..=20).map(|n| tool_call("three", n)).collect::<Vec<_>>()));
    });
    let received = sse.next(60);
    assert_each_once_in_order(&received, &["one", "two", "three"], 20);
    sse.assert_quiet();
    let sample =
        received.iter().find(|received| received.session_and_seq() == ("two".to_owned(), 7)).unwrap();
    assert_eq!(sample.data["event"]["args"], json!({"page": 7}));
    assert_eq!(sample.data["decision"]["decision"], "allow");
    assert!(sample.data["at"].as_u64().unwrap() > 0);
    // A client can resume at any server.
    let (before, after) = received.split_at(31);
    let last = &before.last().unwrap().id;
    let again = SseClient::open(second, "/v1/live?after=0-0", &agent, Some(last));
    assert_eq!(again.next(29), after);
    again.assert_quiet();
    let all = SseClient::open(second, "/v1/live?after=0-0", &agent, None);
    assert_eq!(all.next(60), received);
}

#[test]
fn every_event_is_streamed_once_and_in_order() {
    let folder = test_dir("live-writers");
    let first = TestServer::start(&folder, &["--no-socket"]);
    let second = TestServer::start(&folder, &["--no-socket"]);
    three_writers(&first, &second);
}

#[test]
fn every_event_is_streamed_once_and_in_order_on_postgres() {
    let Ok(server) = std::env::var("FLYBALL_TEST_POSTGRES") else {
        println!("skipped: FLYBALL_TEST_POSTGRES names no server");
        return;
    };
    let psql = |command: &str| {
        let run = Command::new("psql").args([&server, "-qc", command]).output().expect("psql");
        assert!(run.status.success(), "{command}: {}", String::from_utf8_lossy(&run.stderr));
    };
    let database = format!("flyball_signals_{}", std::process::id());
    psql(&format!("CREATE DATABASE {database}"));
    let (before, after) = server.split_once("://").expect("an address");
    let host = after.split(['/', '?']).next().unwrap_or(after);
    let place = format!("{before}://{host}/{database}");
    let folder = test_dir("live-postgres");
    let first = TestServer::start_on(&folder, &place, &["--no-socket"]);
    let second = TestServer::start_on(&folder, &place, &["--no-socket"]);
    three_writers(&first, &second);
    drop((first, second));
    psql(&format!("DROP DATABASE {database} WITH (FORCE)"));
}

#[test]
fn stream_is_filtered_by_query_and_permission() {
    let server = TestServer::start(&test_dir("live-filter"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    let keys = ApiKeyStore::new(StoreAddress::parse(&server.store, &server.folder).unwrap().open().unwrap());
    let own = keys.create("mine", AuthRole::Agent, Some("team-a/".to_owned()), None).unwrap().secret;
    for session in ["team-a/1", "team-b/1", "team-a/2"] {
        server.submit_event(&agent, &tool_call(session, 1));
    }
    let names = |sse: &SseClient, count| {
        sse.next(count).iter().map(|received| received.session_and_seq().0).collect::<Vec<_>>()
    };
    let mine = SseClient::open(&server, "/v1/live?after=0-0", &own, None);
    assert_eq!(names(&mine, 2), ["team-a/1", "team-a/2"]);
    let one = SseClient::open(&server, "/v1/live?after=0-0&session=team-b/1", &agent, None);
    assert_eq!(names(&one, 1), ["team-b/1"]);
    let two = SseClient::open(&server, "/v1/sessions/team-a%2F2/live?after=0-0", &own, None);
    assert_eq!(names(&two, 1), ["team-a/2"]);
    for sse in [&mine, &one, &two] {
        sse.assert_quiet();
    }
    // Later events arrive on the same connection.
    server.submit_event(&agent, &tool_call("team-a/2", 2));
    assert_eq!((names(&mine, 1), names(&two, 1)), (vec!["team-a/2".to_owned()], vec!["team-a/2".to_owned()]));
    one.assert_quiet();
    assert_eq!(server.request("GET", "/v1/live", None, None).0, 401);
    for path in ["/v1/sessions/team-b%2F1/live", "/v1/live?session=team-b/1"] {
        let (status, body) = server.request("GET", path, Some(&own), None);
        assert_eq!((status, body.contains("not_your_session")), (403, true), "{body}");
    }
    for place in ["x", "1", "1-", "-1-2", "1-x", "9999999999999999999999-1"] {
        let (status, body) = server.request("GET", &format!("/v1/live?after={place}"), Some(&agent), None);
        assert_eq!((status, body.contains("bad_cursor")), (422, true), "{body}");
    }
}

fn resident_kib(server: &TestServer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn hundred_stalled_readers_do_not_slow_the_server() {
    let server = TestServer::start(&test_dir("live-stalled"), &["--no-socket", "--log", "off"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    let host = server.base_url.strip_prefix("http://").unwrap().to_owned();
    let stalled: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(&host).unwrap();
            let head =
                format!("GET /v1/live HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {agent}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let listening = || {
        let (_, text) = server.request("GET", "/metrics", Some(&agent), None);
        text.lines().any(|line| line == "flyball_live_listeners 100")
    };
    let began = Instant::now();
    while !listening() {
        assert!(began.elapsed() < RECEIVE_TIMEOUT, "the clients were not accepted");
    }
    let sse = SseClient::open(&server, "/v1/live", &agent, None);
    let before = resident_kib(&server);
    // 12 MB in total for each of them, more than the system buffers.
    let page = "a page of a book ".repeat(900);
    let book: Vec<&str> = vec![&page; 8];
    for number in 0..100 {
        let args = json!({"number": number, "book": book});
        server.submit_event(
            &agent,
            &json!({"type": "tool.requested", "session": "s", "tool": "put", "args": args}),
        );
    }
    let received = sse.next(100);
    assert_eq!(
        received.iter().map(|received| received.session_and_seq().1).collect::<BTreeSet<_>>().len(),
        100
    );
    let grown = resident_kib(&server).saturating_sub(before);
    assert!(grown < 300 * 1024, "{grown} KiB for a hundred clients that do not read");
    drop(stalled);
}

#[test]
fn the_stream_ends_when_the_server_stops() {
    let mut server = TestServer::start(&test_dir("live-end"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    let sse = SseClient::open(&server, "/v1/live", &agent, None);
    server.submit_event(&agent, &tool_call("s", 1));
    assert_eq!(sse.next(1).len(), 1);
    let began = Instant::now();
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    sse.assert_ended();
    assert!(server.child.wait().unwrap().success());
    assert!(began.elapsed().as_secs() < 15, "the server waited for a client that does not read");
}
