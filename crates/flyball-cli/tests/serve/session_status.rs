//! Every view agrees on what a session is doing, and "running" is shown only for what runs.

use crate::kit::{Server, folder};
use flyball_serve::Role;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);

fn flyball(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(args).current_dir(folder).env_remove("FLYBALL_STORE").stdin(Stdio::null());
    command
}

fn json_of(folder: &Path, args: &[&str]) -> String {
    let output = flyball(folder, args).arg("--json").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The status of a session in every view: one session and lists, on the command line and over HTTP.
fn views(server: &Server, key: &str, session: &str) -> Vec<(&'static str, Value)> {
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
        ("GET session", server.json("GET", &format!("/v1/sessions/{session}"), key, None).1["state"].clone()),
        ("GET sessions", in_list(&server.json("GET", "/v1/sessions", key, None).1["sessions"])),
    ]
}

#[track_caller]
fn all_show(server: &Server, key: &str, session: &str, wanted: &str) {
    for (view, status) in views(server, key, session) {
        assert_eq!(status, wanted, "{session} in {view}");
    }
}

#[test]
fn a_killed_run_is_lost_in_every_view_at_once() {
    let folder = folder("lost");
    let server = Server::start(&folder, &[]);
    let key = server.key("anna", Role::Operator);
    let workflow =
        r#"{version: 1, name: slow, nodes: [{name: work, kind: command, run: "sleep 600", next: done}]}"#;
    std::fs::write(folder.join("slow.yaml"), workflow).unwrap();
    let mut run = flyball(&folder, &["run", "slow.yaml", "--store", &server.store])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while server.ask("GET", "/v1/sessions/slow-1", Some(&key), None).0 != 200 {
        assert!(began.elapsed() < TIMEOUT, "the run did not start");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    all_show(&server, &key, "slow-1", "running");
    run.kill().unwrap();
    run.wait().unwrap();
    all_show(&server, &key, "slow-1", "lost");
    let filtered = server.json("GET", "/v1/sessions?state=lost", &key, None).1;
    assert_eq!(filtered["sessions"][0]["session"], "slow-1");
    assert_eq!(server.json("GET", "/v1/sessions?state=running", &key, None).1["sessions"], json!([]));
}

#[test]
fn a_session_without_events_is_idle_and_a_question_waits_in_every_view() {
    let folder = folder("idle");
    let server = Server::start(&folder, &[]);
    let key = server.key("anna", Role::Operator);
    server.event(&key, &json!({"type": "user.message", "session": "busy", "text": "hello"}));
    let (_, busy) = server.json("GET", "/v1/sessions/busy", &key, None);
    let old = busy["updated"].as_u64().unwrap() - 780_500;
    server.event(&key, &json!({"type": "user.message", "session": "quiet", "text": "hello", "at": old}));
    server
        .event(&key, &json!({"type": "question.asked", "session": "asks", "text": "Which day?", "at": old}));
    all_show(&server, &key, "quiet", "idle");
    all_show(&server, &key, "busy", "running");
    all_show(&server, &key, "asks", "awaiting_answer");
    let read = |args: &[&str]| {
        let output = flyball(&folder, &[args, &["--store", &server.store]].concat()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(read(&["list"]).contains("idle 13m"), "{}", read(&["list"]));
    assert!(read(&["status", "quiet"]).contains("quiet is idle 13m"), "{}", read(&["status", "quiet"]));
    let waiting = read(&["list", "--waiting"]);
    assert!(waiting.contains("Which day?") && !waiting.contains("quiet"), "{waiting}");
    assert!(read(&["status"]).contains("asks: Which day?"), "{}", read(&["status"]));
    let (_, inbox) = server.json("GET", "/v1/inbox", &key, None);
    assert_eq!((&inbox["count"], &inbox["waiting"][0]["question"]), (&json!(1), &json!("Which day?")));
}
