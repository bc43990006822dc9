//! Live events: each once and in order, whoever writes; resumed where one was; and nobody suffers from who reads nothing.

use crate::ear::{Ear, Heard, PATIENCE};
use crate::kit::{Server, folder};
use flyball_journal::Address;
use flyball_serve::{Keys, Role};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A call with its number, so that no guard minds.
pub(crate) fn call(session: &str, number: u64) -> Value {
    json!({"type": "tool.requested", "session": session, "tool": "look", "args": {"page": number}})
}

/// Writes past any server, as another process on the store.
fn observe(server: &Server, events: &[Value]) {
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

/// Each once, in the order of places, and of each session in the order of its numbers.
fn check(heard: &[Heard], sessions: &[&str], each: u64) {
    let places: Vec<_> = heard.iter().map(Heard::place).collect();
    assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
    for session in sessions {
        let own = heard.iter().map(Heard::name).filter(|(name, _)| name == session).map(|(_, seq)| seq);
        assert_eq!(own.collect::<Vec<_>>(), (1..=each).collect::<Vec<_>>(), "{session}");
    }
}

fn three_writers(first: &Server, second: &Server) {
    let agent = first.key_for_all("bot");
    let ear = Ear::open(first, "/v1/live", &agent, None);
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=20).for_each(|n| drop(first.event(&agent, &call("one", n)))));
        scope.spawn(|| (1..=20).for_each(|n| drop(second.event(&agent, &call("two", n)))));
        scope.spawn(|| observe(first, &(1..=20).map(|n| call("three", n)).collect::<Vec<_>>()));
    });
    let heard = ear.next(60);
    check(&heard, &["one", "two", "three"], 20);
    ear.quiet();
    let sample = heard.iter().find(|heard| heard.name() == ("two".to_owned(), 7)).unwrap();
    assert_eq!(sample.data["event"]["args"], json!({"page": 7}));
    assert_eq!(sample.data["decision"]["decision"], "allow");
    assert!(sample.data["at"].as_u64().unwrap() > 0);
    // Whoever comes back goes on where they were, at any server.
    let (before, after) = heard.split_at(31);
    let last = &before.last().unwrap().id;
    let again = Ear::open(second, "/v1/live?after=0-0", &agent, Some(last));
    assert_eq!(again.next(29), after);
    again.quiet();
    let all = Ear::open(second, "/v1/live?after=0-0", &agent, None);
    assert_eq!(all.next(60), heard);
}

#[test]
fn every_event_comes_once_and_in_order_whoever_writes_it() {
    let folder = folder("live-writers");
    let first = Server::start(&folder, &["--no-socket"]);
    let second = Server::start(&folder, &["--no-socket"]);
    three_writers(&first, &second);
}

#[test]
fn so_it_is_on_postgres() {
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
    let folder = folder("live-postgres");
    let first = Server::on(&folder, &place, &["--no-socket"]);
    let second = Server::on(&folder, &place, &["--no-socket"]);
    three_writers(&first, &second);
    drop((first, second));
    psql(&format!("DROP DATABASE {database} WITH (FORCE)"));
}

#[test]
fn one_hears_what_one_asked_for_and_may_hear() {
    let server = Server::start(&folder("live-filter"), &["--no-socket"]);
    let agent = server.key("bot", Role::Agent);
    let keys = Keys::new(Address::read(&server.store, &server.folder).unwrap().open().unwrap());
    let own = keys.create("mine", Role::Agent, Some("team-a/".to_owned()), None).unwrap().secret;
    for session in ["team-a/1", "team-b/1", "team-a/2"] {
        server.event(&agent, &call(session, 1));
    }
    let names = |ear: &Ear, count| ear.next(count).iter().map(|heard| heard.name().0).collect::<Vec<_>>();
    let mine = Ear::open(&server, "/v1/live?after=0-0", &own, None);
    assert_eq!(names(&mine, 2), ["team-a/1", "team-a/2"]);
    let one = Ear::open(&server, "/v1/live?after=0-0&session=team-b/1", &agent, None);
    assert_eq!(names(&one, 1), ["team-b/1"]);
    let two = Ear::open(&server, "/v1/sessions/team-a%2F2/live?after=0-0", &own, None);
    assert_eq!(names(&two, 1), ["team-a/2"]);
    for ear in [&mine, &one, &two] {
        ear.quiet();
    }
    // What comes from now on comes without asking again.
    server.event(&agent, &call("team-a/2", 2));
    assert_eq!((names(&mine, 1), names(&two, 1)), (vec!["team-a/2".to_owned()], vec!["team-a/2".to_owned()]));
    one.quiet();
    assert_eq!(server.ask("GET", "/v1/live", None, None).0, 401);
    for path in ["/v1/sessions/team-b%2F1/live", "/v1/live?session=team-b/1"] {
        let (status, body) = server.ask("GET", path, Some(&own), None);
        assert_eq!((status, body.contains("not_your_session")), (403, true), "{body}");
    }
    for place in ["x", "1", "1-", "-1-2", "1-x", "9999999999999999999999-1"] {
        let (status, body) = server.ask("GET", &format!("/v1/live?after={place}"), Some(&agent), None);
        assert_eq!((status, body.contains("bad_cursor")), (422, true), "{body}");
    }
}

fn resident_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_hundred_who_read_nothing_slow_nobody_and_cost_little() {
    let server = Server::start(&folder("live-stalled"), &["--no-socket", "--log", "off"]);
    let agent = server.key("bot", Role::Agent);
    let host = server.place.strip_prefix("http://").unwrap().to_owned();
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
        let (_, text) = server.ask("GET", "/metrics", Some(&agent), None);
        text.lines().any(|line| line == "flyball_live_listeners 100")
    };
    let began = Instant::now();
    while !listening() {
        assert!(began.elapsed() < PATIENCE, "they were not let in");
    }
    let ear = Ear::open(&server, "/v1/live", &agent, None);
    let before = resident_kib(&server);
    // In all 12 MB for each of them: more than any buffer of the system takes.
    let page = "a page of a book ".repeat(900);
    let book: Vec<&str> = vec![&page; 8];
    for number in 0..100 {
        let args = json!({"number": number, "book": book});
        server.event(&agent, &json!({"type": "tool.requested", "session": "s", "tool": "put", "args": args}));
    }
    let heard = ear.next(100);
    assert_eq!(heard.iter().map(|heard| heard.name().1).collect::<BTreeSet<_>>().len(), 100);
    let grown = resident_kib(&server).saturating_sub(before);
    assert!(grown < 300 * 1024, "{grown} KiB for a hundred who read nothing");
    drop(stalled);
}

#[test]
fn the_stream_ends_when_the_server_stops() {
    let mut server = Server::start(&folder("live-end"), &["--no-socket"]);
    let agent = server.key("bot", Role::Agent);
    let ear = Ear::open(&server, "/v1/live", &agent, None);
    server.event(&agent, &call("s", 1));
    assert_eq!(ear.next(1).len(), 1);
    let began = Instant::now();
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    ear.ends();
    assert!(server.child.wait().unwrap().success());
    assert!(began.elapsed().as_secs() < 15, "it waited for somebody who listens");
}
