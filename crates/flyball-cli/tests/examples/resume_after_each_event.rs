//! Interrupted after any event, an example reaches the same result with the same decisions: a store with the first
//! events of a finished run, and the workspace as it was at that point, are resumed.
//!
//! A tool call in progress is tested both ways: as if it had done nothing yet, and as if it had done everything except
//! report its result. The interruption is tested after every few events, or after every event with `FLYBALL_KILLS`.

use crate::example_cases::{ExampleCase, ExampleStage};
use crate::example_harness::{ExampleDir, comparable_decisions, repo_root};
use flyball::PolicySource;
use flyball_store::{Recorder, RecorderOptions, StoreAddress, StreamCursor, Submission};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Without `FLYBALL_KILLS`, runs are interrupted after this many events, and after every request to edit or write.
const CUT_STRIDE: usize = 9;

/// The events of a finished run in storage order, and the policy they were evaluated under.
struct FinishedRun {
    events: Vec<(String, Option<u64>)>,
    policy: String,
}

fn read_finished_run(dir: &ExampleDir, session: &str) -> FinishedRun {
    let address = StoreAddress::parse("sqlite:.flyball/flyball.db", &dir.folder).expect("an address");
    let store = address.open_existing().expect("the store");
    let entries = store.events_since(StreamCursor::default(), 10_000).expect("the events");
    let head = store.load(session).expect("the session").expect("the session").head;
    let policy = store.policy(&head.policy).expect("the policy").expect("the policy");
    FinishedRun {
        events: entries.into_iter().map(|entry| (entry.record.text, entry.record.at)).collect(),
        policy,
    }
}

/// A folder in which the first events of a run are stored.
fn store_first_events(case: &ExampleCase, finished: &FinishedRun, count: usize, name: &str) -> ExampleDir {
    let dir = ExampleDir::new(name);
    std::fs::create_dir_all(dir.folder.join(".flyball")).unwrap();
    let address = StoreAddress::parse("sqlite:.flyball/flyball.db", &dir.folder).unwrap();
    let source = PolicySource::from_json(&finished.policy).unwrap();
    let recorder = Recorder::new(address.open().unwrap(), source, RecorderOptions::default());
    for (text, at) in finished.events.iter().take(count) {
        recorder.submit(Submission::parse(text.clone(), *at).unwrap()).unwrap();
    }
    let workspace = dir.folder.join(".flyball/runs").join(case.session).join("workspace");
    copy_dir(&repo_root().join("examples").join(case.file).join("project"), &workspace);
    dir
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let path = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &path)
        } else {
            _ = std::fs::copy(entry.path(), path).unwrap()
        }
    }
}

/// Applies the tool calls among these events to a workspace; with `last_too`, also the last one if it was in progress.
fn replay_tool_calls(workspace: &Path, events: &[(String, Option<u64>)], last_too: bool) -> bool {
    let mut asked: BTreeMap<String, Value> = BTreeMap::new();
    let mut under_way = false;
    for (at, (text, _)) in events.iter().enumerate() {
        let event: Value = serde_json::from_str(text).unwrap();
        let call = event["call"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap() {
            "tool.requested" => {
                under_way =
                    at + 1 == events.len() && ["edit", "write"].iter().any(|tool| event["tool"] == *tool);
                if under_way && last_too {
                    apply_tool_call(workspace, &event);
                }
                asked.insert(call, event);
            }
            "tool.finished" if event["ok"] == true => apply_tool_call(workspace, &asked[&call]),
            _ => {}
        }
    }
    under_way
}

fn apply_tool_call(workspace: &Path, event: &Value) {
    let text = |key: &str| event["args"][key].as_str().unwrap_or_default();
    let path = workspace.join(text("path"));
    if event["tool"] == "edit" {
        let before = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, before.replacen(text("old"), text("new"), 1)).unwrap();
    } else if event["tool"] == "write" {
        std::fs::write(&path, text("content")).unwrap();
    }
}

fn check_every_cut(name: &str) {
    let case = ExampleCase::by_name(name);
    let [(ExampleStage::Run, code)] = case.stages else {
        panic!(
            "{name}: expected a single run without \
         operator commands"
        )
    };
    let plain = ExampleDir::new(&format!("cuts-{name}-plain"));
    case.run_all_stages(&plain);
    let finished = read_finished_run(&plain, case.session);
    let shown = |dir: &ExampleDir| {
        let sessions = dir.sessions(case.session);
        sessions
            .iter()
            .map(|(name, entries)| (name.clone(), comparable_decisions(entries)))
            .collect::<BTreeMap<_, _>>()
    };
    let (expected, files) = (shown(&plain), plain.files(case.session));
    let all = std::env::var_os("FLYBALL_KILLS").is_some();
    for count in 1..=finished.events.len() {
        let events = &finished.events[..count];
        let writes = events.last().is_some_and(|(text, _)| {
            text.contains("\"tool.requested\"") && (text.contains("\"edit\"") || text.contains("\"write\""))
        });
        if !all && !writes && count % CUT_STRIDE != 0 {
            continue;
        }
        for last_too in [false, true] {
            let dir = store_first_events(&case, &finished, count, &format!("cuts-{name}-{count}-{last_too}"));
            let workspace = dir.folder.join(".flyball/runs").join(case.session).join("workspace");
            let under_way = replay_tool_calls(&workspace, events, last_too);
            if !under_way && last_too {
                continue;
            }
            let what = format!("{name}, interrupted after {count} events, the last one applied: {last_too}");
            let ran = dir.run(&["resume", case.session, "--json"]);
            assert_eq!(ran.code, *code, "{what}: {}{}", ran.out, ran.err);
            assert_eq!(dir.files(case.session), files, "{what}");
            assert_eq!(shown(&dir), expected, "{what}");
            let _ = std::fs::remove_dir_all(&dir.folder);
        }
    }
    let _ = std::fs::remove_dir_all(&plain.folder);
}

#[test]
fn ralph_resumes_after_each_event() {
    check_every_cut("ralph");
}

#[test]
fn coder_verifier_resumes_after_each_event() {
    check_every_cut("coder-verifier");
}

#[test]
fn planner_reviewer_resumes_after_each_event() {
    check_every_cut("planner-reviewer");
}

#[test]
fn docs_writer_resumes_after_each_event() {
    check_every_cut("docs-writer");
}
