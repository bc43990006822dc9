//! Whether the server is there, whether it can do its work, and what it writes about it.

use crate::ear::PATIENCE;
use crate::kit::{Server, folder};
use crate::live::call;
use flyball_serve::Role;
use serde_json::{Value, json};
use std::time::Instant;

#[test]
fn ready_means_that_the_store_takes_a_note_and_gives_it_back() {
    let server = Server::start(&folder("ready"), &["--no-socket"]);
    assert_eq!(server.ask("GET", "/readyz", None, None), (200, "ready\n".to_owned()));
    let file = server.folder.join("flyball.db");
    let other = rusqlite::Connection::open(&file).unwrap();
    let kept: i64 = other
        .query_row("SELECT count(*) FROM flyball_notes WHERE shelf = 'ready'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 1, "it was written");
    // Somebody holds the store and does not let go.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    let (status, body) = loop {
        let answer = server.ask("GET", "/readyz", None, None);
        if answer.0 != 200 || began.elapsed() > PATIENCE {
            break answer;
        }
    };
    assert_eq!(status, 503);
    assert!(["not ready: store_slow\n", "not ready: store_busy\n"].contains(&body.as_str()), "{body}");
    other.execute_batch("ROLLBACK").unwrap();
    let began = Instant::now();
    while server.ask("GET", "/readyz", None, None).0 != 200 {
        assert!(began.elapsed() < PATIENCE, "it does not recover");
    }
    assert_eq!(server.ask("GET", "/healthz", None, None).0, 200);
}

#[test]
fn a_server_whose_store_was_deleted_is_not_ready_and_refuses_events() {
    for attack in ["database", "log", "everything"] {
        let server = Server::start(&folder(&format!("deleted-{attack}")), &["--no-socket"]);
        let agent = server.key("bot", Role::Agent);
        let person = server.key("anna", Role::Operator);
        server.event(&agent, &call("s", 1));
        for ending in ["", "-wal", "-shm"] {
            if attack == "everything" || (attack == "database") == ending.is_empty() && ending != "-shm" {
                std::fs::remove_file(server.folder.join(format!("flyball.db{ending}"))).unwrap();
            }
        }
        let event = call("s", 2).to_string();
        let (status, body) = server.ask("POST", "/v1/events", Some(&agent), Some(&event));
        assert!(status == 503 && body.contains("\"store_replaced\""), "{attack}: {status} {body}");
        let began = Instant::now();
        while server.ask("GET", "/readyz", None, None) != (503, "not ready: store_replaced\n".to_owned()) {
            assert!(began.elapsed() < PATIENCE, "{attack}: it is still ready");
        }
        assert_eq!(
            server.ask("GET", "/v1/sessions", Some(&person), None).0,
            503,
            "{attack}: nothing stale is shown"
        );
    }
}

#[test]
fn a_server_that_was_stopped_leaves_everything_in_one_file() {
    let mut server = Server::start(&folder("stopped"), &["--no-socket"]);
    let agent = server.key("bot", Role::Agent);
    (0..20).for_each(|number| drop(server.event(&agent, &call("s", number))));
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
    std::fs::copy(server.folder.join("flyball.db"), server.folder.join("plain.db")).unwrap();
    let copy = rusqlite::Connection::open(server.folder.join("plain.db")).unwrap();
    let events: i64 = copy.query_row("SELECT count(*) FROM flyball_events", [], |row| row.get(0)).unwrap();
    assert_eq!(events, 20);
}

fn lines(server: &Server) -> Vec<Value> {
    let said = server.said.lock().unwrap().clone();
    said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn a_request_and_a_trip_are_a_line_each_and_keys_are_in_none() {
    let mut server = Server::start(&folder("log"), &["--no-socket"]);
    let agent = server.key("bot of team a", Role::Agent);
    let same =
        json!({"type": "tool.requested", "session": "s/1", "tool": "ls", "args": {"secret-like": "x"}});
    (0..6).for_each(|_| drop(server.event(&agent, &same)));
    server.ask("GET", "/v1/sessions/private-name/live?after=nonsense", Some(&agent), None);
    server.ask("GET", "/v1/sessions/private-name", Some(&agent), None);
    server.ask("GET", "/v1/workflows", Some(&agent), None);
    server.ask("GET", "/nowhere/at/all?link=word-of-a-login", None, None);
    server.until("the last line", |said| said.contains("key_missing").then_some(()));
    let lines = lines(&server);
    let is_event = |line: &Value| line["what"] == "request" && line["route"] == "/v1/events";
    let slow = |line: &Value| line["micros"].as_u64().unwrap() >= 1_000_000;
    assert!(
        lines.iter().filter(|line| is_event(line)).all(slow),
        "events that are taken at once have no line"
    );
    let first = lines.iter().find(|line| line["what"] == "request" && line["status"] == 200);
    let first = first.unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!((&first["method"], &first["route"]), (&json!("GET"), &json!("/v1/workflows")));
    assert_eq!((&first["by"], &first["level"]), (&json!("bot of team a"), &json!("info")));
    assert!(first["at"].as_u64().unwrap() > 0 && first["micros"].as_u64().unwrap() > 0);
    let trip = lines.iter().find(|line| line["what"] == "trip" && line["severity"] == "block").unwrap();
    assert_eq!((&trip["session"], &trip["guard"]), (&json!("s/1"), &json!("repetition")));
    assert_eq!((&trip["reason"], &trip["limit"]), (&json!("repetition_loop"), &json!(5)));
    let bad = lines.iter().find(|line| line["code"] == "bad_cursor").unwrap();
    assert_eq!((&bad["route"], &bad["status"]), (&json!("/v1/sessions/{session}/live"), &json!(422)));
    assert!(lines.iter().any(|line| line["route"] == "other" && line["status"] == 401));
    let said = server.said.lock().unwrap().clone();
    for secret in [agent.as_str(), "secret-like", "private-name", "word-of-a-login"] {
        assert!(!said.contains(secret), "{secret} is in\n{said}");
    }
}

#[test]
fn as_text_it_is_what_a_person_should_know_and_off_is_silence() {
    for style in ["text", "off"] {
        let mut server = Server::start(&folder(&format!("log-{style}")), &["--no-socket", "--log", style]);
        let agent = server.key("bot", Role::Agent);
        server.event(&agent, &call("s", 1));
        let same = json!({"type": "tool.requested", "session": "s", "tool": "ls", "args": {}});
        (0..6).for_each(|_| drop(server.event(&agent, &same)));
        if style == "text" {
            server.until("the trip", |said| {
                said.contains("block in s: repetition, repetition_loop").then_some(())
            });
        }
        let pid = rustix::process::Pid::from_child(&server.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(server.child.wait().unwrap().success());
        let said = server.said.lock().unwrap().clone();
        assert!(!said.contains("/v1/events"), "requests that went well are nobody's concern:\n{said}");
        assert_eq!(said.contains("repetition"), style == "text", "{said}");
    }
}
