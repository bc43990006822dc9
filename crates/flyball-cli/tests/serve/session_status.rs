//! Every view shows the same session status, and "running" only for active sessions.

use crate::server_harness::{TestServer, test_dir};
use flyball_server::AuthRole;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);

fn flyball_command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(args).current_dir(folder).env_remove("FLYBALL_STORE").stdin(Stdio::null());
    command
}

fn json_of(folder: &Path, args: &[&str]) -> String {
    let output = flyball_command(folder, args).arg("--json").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The status of a session in every view: one session and lists, on the command line and over HTTP.
fn status_in_every_view(server: &TestServer, key: &str, session: &str) -> Vec<(&'static str, Value)> {
    let store = ["--store", server.store.as_str()];
    let read = |args: &[&str]| json_of(&server.folder, &[args, &store].concat());
    let in_list = |list: &Value| {
        let found = list.as_array().unwrap().iter().find(|one| one["session"] == session);
        found.map_or(Value::Null, |one| one["state"].clone())
    };
    let parsed = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let top: Vec<Value> = read(&["top"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    vec![
        ("status SESSION", parsed(read(&["status", session]))["state"].clone()),
        ("status", in_list(&parsed(read(&["status"]))["sessions"])),
        ("list", in_list(&parsed(read(&["list"])))),
        ("top", in_list(&Value::Array(top))),
        (
            "GET session",
            server.request_json("GET", &format!("/v1/sessions/{session}"), key, None).1["state"].clone(),
        ),
        ("GET sessions", in_list(&server.request_json("GET", "/v1/sessions", key, None).1["sessions"])),
    ]
}

#[track_caller]
fn assert_every_view_shows(server: &TestServer, key: &str, session: &str, wanted: &str) {
    for (view, status) in status_in_every_view(server, key, session) {
        assert_eq!(status, wanted, "{session} in {view}");
    }
}

#[test]
fn a_killed_run_is_lost_in_every_view_at_once() {
    let folder = test_dir("lost");
    let server = TestServer::start(&folder, &[]);
    let key = server.create_key("anna", AuthRole::Operator);
    let workflow =
        r#"{version: 1, name: slow, nodes: [{name: work, kind: command, run: "sleep 600", next: done}]}"#;
    std::fs::write(folder.join("slow.yaml"), workflow).unwrap();
    let mut run = flyball_command(&folder, &["run", "slow.yaml", "--store", &server.store])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while server.request("GET", "/v1/sessions/slow-1", Some(&key), None).0 != 200 {
        assert!(began.elapsed() < TIMEOUT, "the run did not start");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert_every_view_shows(&server, &key, "slow-1", "running");
    run.kill().unwrap();
    run.wait().unwrap();
    assert_every_view_shows(&server, &key, "slow-1", "lost");
    let filtered = server.request_json("GET", "/v1/sessions?state=lost", &key, None).1;
    assert_eq!(filtered["sessions"][0]["session"], "slow-1");
    assert_eq!(server.request_json("GET", "/v1/sessions?state=running", &key, None).1["sessions"], json!([]));
}

#[test]
fn quiet_session_is_idle_and_a_question_is_waiting_in_every_view() {
    let folder = test_dir("idle");
    let server = TestServer::start(&folder, &[]);
    let key = server.create_key("anna", AuthRole::Operator);
    server.submit_event(&key, &json!({"type": "user.message", "session": "busy", "text": "hello"}));
    let (_, busy) = server.request_json("GET", "/v1/sessions/busy", &key, None);
    let old = busy["updated"].as_u64().unwrap() - 780_500;
    server
        .submit_event(&key, &json!({"type": "user.message", "session": "quiet", "text": "hello", "at": old}));
    server.submit_event(
        &key,
        &json!({"type": "question.asked", "session": "asks", "text": "Which day?", "at": old}),
    );
    assert_every_view_shows(&server, &key, "quiet", "idle");
    assert_every_view_shows(&server, &key, "busy", "running");
    assert_every_view_shows(&server, &key, "asks", "awaiting_answer");
    let read = |args: &[&str]| {
        let output =
            flyball_command(&folder, &[args, &["--store", &server.store]].concat()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(read(&["list"]).contains("idle 13 min"), "{}", read(&["list"]));
    assert!(read(&["status", "quiet"]).contains("quiet is idle 13 min"), "{}", read(&["status", "quiet"]));
    let waiting = read(&["list", "--waiting"]);
    assert!(waiting.contains("Which day?") && !waiting.contains("quiet"), "{waiting}");
    assert!(read(&["status"]).contains("asks: Which day?"), "{}", read(&["status"]));
    let (_, inbox) = server.request_json("GET", "/v1/inbox", &key, None);
    assert_eq!((&inbox["count"], &inbox["waiting"][0]["question"]), (&json!(1), &json!("Which day?")));
}
