//! Liveness, readiness, and the log.

use crate::live_events::tool_call;
use crate::server_harness::{TestServer, test_dir};
use crate::sse_client::RECEIVE_TIMEOUT;
use flyball_server::AuthRole;
use serde_json::{Value, json};
use std::time::Instant;

#[test]
fn ready_requires_a_store_round_trip() {
    let server = TestServer::start(&test_dir("ready"), &["--no-socket"]);
    assert_eq!(server.request("GET", "/readyz", None, None), (200, "ready\n".to_owned()));
    let file = server.folder.join("flyball.db");
    let other = rusqlite::Connection::open(&file).unwrap();
    let kept: i64 = other
        .query_row("SELECT count(*) FROM flyball_notes WHERE shelf = 'ready'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 1, "the readiness probe was written");
    // Another process holds the write lock.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    let (status, body) = loop {
        let answer = server.request("GET", "/readyz", None, None);
        if answer.0 != 200 || began.elapsed() > RECEIVE_TIMEOUT {
            break answer;
        }
    };
    assert_eq!(status, 503);
    assert!(["not ready: store_timeout\n", "not ready: store_busy\n"].contains(&body.as_str()), "{body}");
    other.execute_batch("ROLLBACK").unwrap();
    let began = Instant::now();
    while server.request("GET", "/readyz", None, None).0 != 200 {
        assert!(began.elapsed() < RECEIVE_TIMEOUT, "the server does not recover");
    }
    assert_eq!(server.request("GET", "/healthz", None, None).0, 200);
}

#[test]
fn server_with_a_deleted_store_is_not_ready_and_rejects_events() {
    for attack in ["database", "log", "everything"] {
        let server = TestServer::start(&test_dir(&format!("deleted-{attack}")), &["--no-socket"]);
        let agent = server.create_key("bot", AuthRole::Agent);
        let person = server.create_key("anna", AuthRole::Operator);
        server.submit_event(&agent, &tool_call("s", 1));
        for ending in ["", "-wal", "-shm"] {
            if attack == "everything" || (attack == "database") == ending.is_empty() && ending != "-shm" {
                std::fs::remove_file(server.folder.join(format!("flyball.db{ending}"))).unwrap();
            }
        }
        let event = tool_call("s", 2).to_string();
        let (status, body) = server.request("POST", "/v1/events", Some(&agent), Some(&event));
        assert!(status == 503 && body.contains("\"store_replaced\""), "{attack}: {status} {body}");
        let began = Instant::now();
        while server.request("GET", "/readyz", None, None) != (503, "not ready: store_replaced\n".to_owned())
        {
            assert!(began.elapsed() < RECEIVE_TIMEOUT, "{attack}: the server is still ready");
        }
        assert_eq!(
            server.request("GET", "/v1/sessions", Some(&person), None).0,
            503,
            "{attack}: stale data is shown"
        );
    }
}

#[test]
fn stopped_server_leaves_a_single_store_file() {
    let mut server = TestServer::start(&test_dir("stopped"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    (0..20).for_each(|number| drop(server.submit_event(&agent, &tool_call("s", number))));
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
    std::fs::copy(server.folder.join("flyball.db"), server.folder.join("plain.db")).unwrap();
    let copy = rusqlite::Connection::open(server.folder.join("plain.db")).unwrap();
    let events: i64 = copy.query_row("SELECT count(*) FROM flyball_events", [], |row| row.get(0)).unwrap();
    assert_eq!(events, 20);
}

fn log_lines(server: &TestServer) -> Vec<Value> {
    let said = server.stderr.lock().unwrap().clone();
    said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn requests_and_trips_are_logged_without_keys() {
    let mut server = TestServer::start(&test_dir("log"), &["--no-socket"]);
    let agent = server.create_key("bot of team a", AuthRole::Agent);
    let same =
        json!({"type": "tool.requested", "session": "s/1", "tool": "ls", "args": {"secret-like": "x"}});
    (0..6).for_each(|_| drop(server.submit_event(&agent, &same)));
    server.request("GET", "/v1/sessions/private-name/live?after=nonsense", Some(&agent), None);
    server.request("GET", "/v1/sessions/private-name", Some(&agent), None);
    server.request("GET", "/v1/workflows", Some(&agent), None);
    server.request("GET", "/nowhere/at/all?link=word-of-a-login", None, None);
    server.wait_for_output("the last line", |said| said.contains("key_missing").then_some(()));
    let lines = log_lines(&server);
    let is_event = |line: &Value| line["what"] == "request" && line["route"] == "/v1/events";
    let slow = |line: &Value| line["micros"].as_u64().unwrap() >= 1_000_000;
    assert!(lines.iter().filter(|line| is_event(line)).all(slow), "accepted events are not logged");
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
    let said = server.stderr.lock().unwrap().clone();
    for secret in [agent.as_str(), "secret-like", "private-name", "word-of-a-login"] {
        assert!(!said.contains(secret), "{secret} is in\n{said}");
    }
}

#[test]
fn text_log_shows_problems_and_off_is_silent() {
    for style in ["text", "off"] {
        let mut server =
            TestServer::start(&test_dir(&format!("log-{style}")), &["--no-socket", "--log", style]);
        let agent = server.create_key("bot", AuthRole::Agent);
        server.submit_event(&agent, &tool_call("s", 1));
        let same = json!({"type": "tool.requested", "session": "s", "tool": "ls", "args": {}});
        (0..6).for_each(|_| drop(server.submit_event(&agent, &same)));
        if style == "text" {
            server.wait_for_output("the trip", |said| {
                said.contains("block in s: repetition, repetition_loop").then_some(())
            });
        }
        let pid = rustix::process::Pid::from_child(&server.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(server.child.wait().unwrap().success());
        let said = server.stderr.lock().unwrap().clone();
        assert!(!said.contains("/v1/events"), "successful requests are not logged:\n{said}");
        assert_eq!(said.contains("repetition"), style == "text", "{said}");
    }
}
