//! Upgrades: stores of older versions continue under the current one, and two versions can share a store.

use crate::command_harness::{CliStore, repo_root, run_flyball, test_dir};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn fixture(name: &str) -> String {
    std::fs::read_to_string(repo_root().join("fixtures/stores/v1").join(name)).unwrap()
}

/// A store as written by the first version.
fn v1_store(name: &str) -> CliStore {
    let store = CliStore::in_file(name);
    store.open_database().execute_batch(&fixture("store.sql")).unwrap();
    store
}

#[test]
fn v1_store_continues_unchanged() {
    let store = v1_store("upgrade-v1");
    let states = |store: &CliStore| -> Vec<(String, String, u64)> {
        let list = store.json(&["list"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let row =
            |head: &Value| (text(&head["session"]), text(&head["state"]), head["events"].as_u64().unwrap());
        list.as_array().unwrap().iter().map(row).collect()
    };
    let expected = [
        ("stopped", "halted", 3),
        ("halted", "halted", 11),
        ("long", "idle", 81),
        ("waiting", "awaiting_confirmation", 2),
        ("ended", "ended", 3),
    ];
    let expected = expected.map(|(name, state, events)| (name.to_owned(), state.to_owned(), events));
    assert_eq!(states(&store), expected);
    // Every id is known, and nothing is counted twice.
    let answers = store.observe(&fixture("events.jsonl"));
    for (answer, recorded) in answers.iter().zip(fixture("decisions.jsonl").lines()) {
        let recorded: Value = serde_json::from_str(recorded).unwrap();
        assert_eq!((&answer["session"], &answer["seq"]), (&recorded["session"], &recorded["seq"]));
    }
    assert_eq!(states(&store), expected);
    for (session, decision) in [("halted", "halt"), ("stopped", "halt"), ("long", "allow")] {
        let event = json!({"type": "tool.requested", "session": session, "at": 1_763_200_200_000_u64, "call": "new", "tool": "bash",
            "args": {"command": "make new"}});
        assert_eq!(store.event(&event.to_string())["decision"], decision, "{session}");
    }
    assert!(store.run(&["status", "waiting"]).out.contains("Delete task 7?"));
    let doctor = store.run(&["doctor"]);
    assert!(doctor.out.contains("ok     integrity") && doctor.out.contains(", id "), "{}", doctor.out);
}

#[test]
fn v1_store_survives_a_kill_during_migration() {
    for round in 0..20_u64 {
        let store = v1_store(&format!("upgrade-killed-{round}"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_flyball"))
            .args(["observe", "--store", "sqlite:events.db"])
            .current_dir(&store.folder)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::park_timeout(std::time::Duration::from_micros(round * 900));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(store.json(&["list"]).as_array().unwrap().len(), 5, "round {round}");
        let whole = store
            .open_database()
            .query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
            .unwrap();
        assert_eq!(whole, "ok", "round {round}");
    }
}

/// The binary of an older version, built by `cargo xtask test --long`.
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn older_program() -> Option<PathBuf> {
    let program = std::env::var_os("FLYBALL_OLDER_PROGRAM").map(PathBuf::from);
    if program.is_none() {
        println!("skipped: FLYBALL_OLDER_PROGRAM is not set to the binary of an older version");
    }
    program
}

fn run_hook(program: &Path, dir: &Path, call: u32, command: &str) -> String {
    let input = json!({"session_id": "s1", "cwd": dir, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_use_id": format!("t{call}"), "tool_input": {"command": command}});
    let mut child = Command::new(program)
        .args(["hook", "claude-code", "--event", "PreToolUse"])
        .current_dir(dir)
        .env_clear()
        .env("HOME", dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

#[test]
fn hooks_of_two_versions_work_on_one_store() {
    let Some(before) = older_program() else { return };
    let now = PathBuf::from(env!("CARGO_BIN_EXE_flyball"));
    for (name, programs) in [("old-first", [&before, &now]), ("new-first", [&now, &before])] {
        let dir = test_dir(&format!("upgrade-{name}"));
        // Enough calls for several snapshots of each version.
        for call in 0..120 {
            let program = programs[(call / 3 % 2) as usize];
            let said = run_hook(program, &dir, call, &format!("make part{call}"));
            assert_eq!(said, "", "{name}, call {call}");
        }
        let list = run_flyball(&dir, &["list", "--json"], b"", &[]);
        let list: Value = serde_json::from_str(&list.out).unwrap();
        assert_eq!(list[0]["events"], 120, "{name}: every call was counted once");
        // A loop is detected across both versions, and its halt is final for both.
        let mut said: Vec<String> = Vec::new();
        for call in 200..220 {
            said.push(run_hook(programs[(call % 2) as usize], &dir, call, "make all"));
        }
        assert!(said.iter().rev().take(2).all(|said| said.contains("halted")), "{name}: {said:?}");
        let doctor = run_flyball(&dir, &["doctor"], b"", &[]);
        assert!(doctor.out.contains("ok     integrity"), "{name}: {}", doctor.out);
    }
}

#[test]
fn an_older_version_refuses_a_newer_schema() {
    let Some(before) = older_program() else { return };
    let store = CliStore::in_file("upgrade-newer");
    store.event(r#"{"type":"user.message","session":"s","text":"x"}"#);
    store.open_database().execute("UPDATE flyball_meta SET value = '99' WHERE key = 'schema'", []).unwrap();
    let output = Command::new(before)
        .args(["list", "--store", "sqlite:events.db"])
        .current_dir(&store.folder)
        .env_clear()
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.starts_with("error[store_version]"), "{err}");
}
