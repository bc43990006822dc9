//! Commands whose reader leaves early, as in `flyball list | head -1`: they end without a message, like other tools.

use crate::command_harness::{CliStore, run_flyball, state_dir};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The exit code that a shell shows for a process that a closed pipe has ended.
const CLOSED_PIPE: i32 = 128 + 13;

const WORKFLOW: &str =
    r#"{version: 1, name: asks, nodes: [{name: ask, kind: human, ask: "Which day?", next: done}]}"#;

/// At least one command line for every command that prints to stdout on its own.
const COMMANDS: &[&[&str]] = &[
    &["run", "workflow.yaml"],
    &["run", "workflow.yaml", "--json"],
    &["resume", "asks-1"],
    &["replay", "events.jsonl"],
    &["replay", "events.jsonl", "--json"],
    &["audit", "events.jsonl"],
    &["audit", "events.jsonl", "--json"],
    &["observe"],
    &["tell", "progress", "signal=tests", "failing=a", "--session", "loops", "--json"],
    &["hook", "claude-code", "install", "--dry-run"],
    &["init", "--force"],
    &["check", "workflow.yaml"],
    &["check", "workflow.yaml", "--json"],
    &["config"],
    &["config", "--json"],
    &["policy", "accept", "loops", "--why", "because"],
    &["trust", "strict.yaml", "--dry-run"],
    &["graph", "workflow.yaml"],
    &["explain", "loops"],
    &["explain", "loops", "--json"],
    &["status"],
    &["status", "loops"],
    &["top", "--once"],
    &["top", "--json"],
    &["list"],
    &["list", "--json"],
    &["release", "loops", "--why", "because"],
    &["approve", "plan"],
    &["deny", "plan"],
    &["stop", "loops", "--why", "because"],
    &["send", "loops", "hello"],
    &["unlabel", "labelled", "--why", "because"],
    &["prune", "--dry-run"],
    &["backup", "copy.db", "--force"],
    &["restore", "copy.db"],
    &["doctor"],
    &["activity"],
    &["activity", "--json"],
    &["activity", "--follow"],
    &["metrics"],
    &["metrics", "--json"],
    &["outbox"],
    &["output", "REF"],
    &["token", "create", "ci", "--role", "agent"],
    &["token", "list"],
    &["schema", "policy"],
    &["schema", "workflow"],
    &["schema", "openapi"],
    &["completions", "bash"],
    &["man"],
    &["man", "--out", "pages"],
];

/// Servers: stdout carries a protocol, or nothing.
const SERVERS: [&str; 3] = ["serve", "proxy", "mcp"];

/// A project in which every command has something to print, and the reference of a stored output.
fn project(name: &str) -> (CliStore, String) {
    let store = CliStore::project_store(name);
    let mut events = vec![json!({"type": "session.started", "session": "loops"})];
    for n in 1..=9 {
        let call = format!("c{n}");
        events.push(json!({"type": "tool.requested", "session": "loops", "call": call, "tool": "bash", "args": {"command": "ls"}}));
        events.push(
            json!({"type": "tool.finished", "session": "loops", "call": call, "ok": true, "output": "a b"}),
        );
    }
    let events: Vec<String> = events.iter().map(ToString::to_string).collect();
    store.observe(&events.join("\n"));
    std::fs::write(store.folder.join("events.jsonl"), events.join("\n")).unwrap();
    std::fs::write(store.folder.join("workflow.yaml"), WORKFLOW).unwrap();
    std::fs::write(store.folder.join("strict.yaml"), "guards: {repetition: {limit: 3}}\n").unwrap();
    let plan = json!([{"tool": "delete_task", "args": {"id": 7}}]);
    store.event(
        &json!({"type": "confirmation.requested", "session": "plan", "plan": plan, "question": "Delete?"})
            .to_string(),
    );
    let mut labelled = vec![
        json!({"type": "session.started", "session": "labelled", "policy": {"preset": "simple", "guards": {"visits": {"limit": 2}}}}),
    ];
    for _ in 0..4 {
        labelled.push(json!({"type": "turn.started", "session": "labelled", "node": "test"}));
        labelled.push(json!({"type": "turn.finished", "session": "labelled", "node": "test"}));
    }
    let labelled: Vec<String> = labelled.iter().map(ToString::to_string).collect();
    store.observe(&labelled.join("\n"));
    let large = "word ".repeat(60_000);
    let decision = store.event(
        &json!({"type": "output.received", "session": "loops", "call": "c1", "tool": "bash", "text": large})
            .to_string(),
    );
    let reference = decision["output"]["ref"].as_str().unwrap().to_owned();
    for args in [&["run", "workflow.yaml"][..], &["backup", "copy.db"]] {
        let run = run_flyball(&store.folder, args, b"", &[("USER", "anna")]);
        assert!([0, 4].contains(&run.code), "{args:?}: {}{}", run.out, run.err);
    }
    (store, reference)
}

fn start(folder: &Path, args: &[&str], stdout: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(args).current_dir(folder).env_clear().env("USER", "anna").stderr(Stdio::piped());
    command.env("XDG_STATE_HOME", state_dir(folder)).env("PATH", std::env::var_os("PATH").unwrap());
    let mut child = command.stdin(Stdio::piped()).stdout(stdout).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Commands that do not read it may have ended already.
    let _ = stdin.write_all(br#"{"type":"session.started","session":"x"}"#);
    child
}

fn wait(mut child: Child, args: &[&str]) -> (Option<i32>, String) {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{args:?} goes on although its reader has gone");
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    let run = child.wait_with_output().unwrap();
    (run.status.code(), String::from_utf8(run.stderr).unwrap())
}

#[test]
fn every_command_ends_quietly_if_its_reader_has_gone() {
    let (store, reference) = project("closed-pipes");
    let mut wrong = Vec::new();
    for args in COMMANDS {
        let args: Vec<&str> = args.iter().map(|arg| if *arg == "REF" { &reference } else { *arg }).collect();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, err) = wait(start(&store.folder, &args, writer.into()), &args);
        if code != Some(CLOSED_PIPE) || err.contains("error") || err.contains("panicked") {
            wrong.push(format!("{args:?}: exit {code:?} {err}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn list_of_commands_with_a_closed_pipe_is_complete() {
    let store = CliStore::project_store("closed-pipes-complete");
    let help = run_flyball(&store.folder, &["help"], b"", &[]).out;
    let rows = help.lines().take_while(|line| *line != "Options:").filter_map(|line| line.strip_prefix("  "));
    let listed: BTreeSet<&str> = rows.filter_map(|row| row.split(' ').next()).collect();
    let covered: BTreeSet<&str> = COMMANDS.iter().map(|args| args[0]).chain(SERVERS).collect();
    assert_eq!(listed, covered);
}

#[test]
fn first_line_is_delivered_before_the_reader_leaves() {
    let (store, _) = project("closed-pipes-head");
    for args in [&["schema", "policy"][..], &["list"], &["activity", "--follow"], &["audit", "events.jsonl"]]
    {
        let mut child = start(&store.folder, args, Stdio::piped());
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        reader.read_line(&mut first).unwrap();
        drop(reader);
        assert!(!first.trim().is_empty(), "{args:?}");
        let (code, err) = wait(child, args);
        // A short output may fit into the pipe before the reader leaves.
        assert!(code == Some(CLOSED_PIPE) || code == Some(0) || code == Some(3), "{args:?}: {code:?} {err}");
        assert_eq!(err, "", "{args:?}");
    }
}

#[test]
fn help_ends_quietly_if_its_reader_has_gone() {
    let store = CliStore::project_store("closed-pipes-help");
    for args in [&["--help"][..], &["help", "serve"], &["list", "--help"], &["--version"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, err) = wait(start(&store.folder, args, writer.into()), args);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}");
    }
}
