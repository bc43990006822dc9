//! Cut off after each single event, an example comes to the same end by the same decisions: a store with the first events
//! of a finished run, and a workspace as it was then, are taken up again.
//!
//! A call of a tool that was under way is tried both ways: as if it had done nothing yet, and as if it had done
//! everything but say so. Every few events, or after all of them with `FLYBALL_KILLS`.

use crate::cases::{Case, Stage};
use crate::kit::{Place, decisions, root};
use flyball::PolicySource;
use flyball_journal::{Address, Cursor, Incoming, Recorder, RecorderOptions};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Without `FLYBALL_KILLS`, the cut is made after every so many events, and after every request to edit or write.
const STRIDE: usize = 9;

/// The events of a finished run, in the order in which they were stored, and the policy that they were decided under.
struct Finished {
    events: Vec<(String, Option<u64>)>,
    policy: String,
}

fn finished(place: &Place, session: &str) -> Finished {
    let address = Address::read("sqlite:.flyball/flyball.db", &place.folder).expect("an address");
    let desk = address.open_existing().expect("the store");
    let entries = desk.since(Cursor::default(), 10_000).expect("the events");
    let head = desk.load(session).expect("the session").expect("the session").head;
    let policy = desk.policy(&head.policy).expect("the policy").expect("the policy");
    Finished {
        events: entries.into_iter().map(|entry| (entry.record.text, entry.record.at)).collect(),
        policy,
    }
}

/// A place where the first events of a run are stored.
fn stored(case: &Case, finished: &Finished, count: usize, name: &str) -> Place {
    let place = Place::new(name);
    std::fs::create_dir_all(place.folder.join(".flyball")).unwrap();
    let address = Address::read("sqlite:.flyball/flyball.db", &place.folder).unwrap();
    let source = PolicySource::from_json(&finished.policy).unwrap();
    let recorder = Recorder::new(address.open().unwrap(), source, RecorderOptions::default());
    for (text, at) in finished.events.iter().take(count) {
        recorder.submit(Incoming::read(text.clone(), *at).unwrap()).unwrap();
    }
    let workspace = place.folder.join(".flyball/runs").join(case.session).join("workspace");
    copy(&root().join("examples").join(case.file).join("project"), &workspace);
    place
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let path = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &path)
        } else {
            _ = std::fs::copy(entry.path(), path).unwrap()
        }
    }
}

/// Does to a workspace what the calls of tools among these events did; the last one, if it was under way, if wanted.
fn work(workspace: &Path, events: &[(String, Option<u64>)], last_too: bool) -> bool {
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
                    perform(workspace, &event);
                }
                asked.insert(call, event);
            }
            "tool.finished" if event["ok"] == true => perform(workspace, &asked[&call]),
            _ => {}
        }
    }
    under_way
}

fn perform(workspace: &Path, event: &Value) {
    let text = |key: &str| event["args"][key].as_str().unwrap_or_default();
    let path = workspace.join(text("path"));
    if event["tool"] == "edit" {
        let before = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, before.replacen(text("old"), text("new"), 1)).unwrap();
    } else if event["tool"] == "write" {
        std::fs::write(&path, text("content")).unwrap();
    }
}

fn check(name: &str) {
    let case = Case::named(name);
    let [(Stage::Run, code)] = case.stages else { panic!("{name}: one run and no person") };
    let plain = Place::new(&format!("cuts-{name}-plain"));
    case.play(&plain);
    let finished = finished(&plain, case.session);
    let shown = |place: &Place| {
        let sessions = place.sessions(case.session);
        sessions.iter().map(|(name, entries)| (name.clone(), decisions(entries))).collect::<BTreeMap<_, _>>()
    };
    let (expected, files) = (shown(&plain), plain.files(case.session));
    let all = std::env::var_os("FLYBALL_KILLS").is_some();
    for count in 1..=finished.events.len() {
        let events = &finished.events[..count];
        let writes = events.last().is_some_and(|(text, _)| {
            text.contains("\"tool.requested\"") && (text.contains("\"edit\"") || text.contains("\"write\""))
        });
        if !all && !writes && count % STRIDE != 0 {
            continue;
        }
        for last_too in [false, true] {
            let place = stored(&case, &finished, count, &format!("cuts-{name}-{count}-{last_too}"));
            let workspace = place.folder.join(".flyball/runs").join(case.session).join("workspace");
            let under_way = work(&workspace, events, last_too);
            if !under_way && last_too {
                continue;
            }
            let what = format!("{name}, cut off after {count} events, the last one done: {last_too}");
            let ran = place.run(&["resume", case.session, "--json"]);
            assert_eq!(ran.code, *code, "{what}: {}{}", ran.out, ran.err);
            assert_eq!(place.files(case.session), files, "{what}");
            assert_eq!(shown(&place), expected, "{what}");
            let _ = std::fs::remove_dir_all(&place.folder);
        }
    }
    let _ = std::fs::remove_dir_all(&plain.folder);
}

#[test]
fn ralph_is_taken_up_after_each_event() {
    check("ralph");
}

#[test]
fn coder_verifier_is_taken_up_after_each_event() {
    check("coder-verifier");
}

#[test]
fn planner_reviewer_is_taken_up_after_each_event() {
    check("planner-reviewer");
}

#[test]
fn docs_writer_is_taken_up_after_each_event() {
    check("docs-writer");
}
