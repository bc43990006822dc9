//! Large outputs of tools: saved, paged, searchable, and isolated between sessions.

use crate::harness::{ToolHarness, folder};
use flyball::output::OutputLimits;
use flyball_runner::tools::ToolboxOptions;
use flyball_store::{OutputOptions, SessionOutputs};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A workspace whose large outputs go to `base` for a session.
fn harness(
    outside: &Path,
    base: &Path,
    session: &str,
    options: OutputOptions,
) -> (ToolHarness, Arc<SessionOutputs>) {
    let outputs = Arc::new(SessionOutputs::open(base, session, options).expect("outputs"));
    let options = ToolboxOptions { outputs: Some(Arc::clone(&outputs)), ..ToolboxOptions::default() };
    (ToolHarness::in_folder(outside.to_owned(), options), outputs)
}

fn path_in(text: &str) -> PathBuf {
    let line = text.lines().next().expect("a line");
    PathBuf::from(line.rsplit_once("saved to: ").expect("a path").1)
}

#[test]
fn large_output_is_saved_paged_and_searchable() {
    let outside = folder("large");
    let (place, _) = harness(&outside, &outside.join("base"), "s", OutputOptions::default());
    let output = place.call("shell", &json!({"command": "seq 1 60000; echo needle; seq 60002 70000"}));
    assert!(output.ok);
    assert!(output.text.starts_with("Tool response too large ("), "{}", output.text);
    assert_eq!(output.log.len(), 1);
    assert!(output.log[0].starts_with("large response from shell ("), "{:?}", output.log);
    let path = path_in(&output.text);
    let page = place.call_ok("read", &json!({"path": path, "offset": 60_000, "limit": 3}));
    assert_eq!(page, "60000\nneedle\n60002\n[lines 60000-60002 of 70000; continue with offset 60003]");
    let found = place.call_ok("search", &json!({"pattern": "needle", "path": path}));
    assert_eq!(found, format!("{}:60001: needle", path.display()));
    // Reading a large output never produces another large output.
    let all = place.call("read", &json!({"path": path, "limit": 1_000_000}));
    assert!(all.ok && all.log.is_empty() && all.text.contains("continue with offset"), "{:?}", all.log);
}

#[test]
fn large_error_is_saved() {
    let outside = folder("error");
    let options = OutputOptions {
        limits: OutputLimits { threshold_chars: Some(300), preview_chars: 50 },
        ..OutputOptions::default()
    };
    let (place, _) = harness(&outside, &outside.join("base"), "s", options);
    place.put("a.txt", "");
    let missing = format!("{}.txt", "x/".repeat(200));
    let output = place.call("read", &json!({"path": missing}));
    assert_eq!((output.ok, output.code), (false, Some("not_found")));
    let error = output.error.expect("an error");
    assert!(error.starts_with("Tool response too large ("), "{error}");
    let saved = std::fs::read_to_string(path_in(&error)).expect("the file");
    assert!(saved.contains(&missing) && saved.ends_with("[not_found]"), "{saved}");
    assert_eq!(output.log.len(), 1);
}

#[test]
fn session_cannot_read_another_sessions_files() {
    // The base is inside the workspace, where every session's tools could reach it.
    let outside = folder("others");
    let base = outside.join("work/.flyball/outputs");
    let (one, first) = harness(&outside, &base, "one", OutputOptions::default());
    let (two, _) = harness(&outside, &base, "two", OutputOptions::default());
    let path = path_in(&one.call_ok("shell", &json!({"command": "seq 1 60000"})));
    assert!(path.starts_with(first.session_dir()));
    one.call_ok("read", &json!({"path": path}));
    let relative = path.strip_prefix(&two.work).expect("inside").to_owned();
    for path in [path, relative] {
        two.call_err("read", &json!({"path": path}), "outside_workspace");
        two.call_err("write", &json!({"path": path, "content": "x"}), "outside_workspace");
        two.call_err("search", &json!({"path": path, "pattern": "1"}), "outside_workspace");
    }
    let search = two.call_ok("search", &json!({"pattern": "59999", "path": ".flyball"}));
    assert_eq!(search, "[no match in 0 files]");
}

#[test]
fn file_is_removed_when_the_session_ends() {
    let outside = folder("end");
    let (place, outputs) = harness(&outside, &outside.join("base"), "s", OutputOptions::default());
    let path = path_in(&place.call_ok("shell", &json!({"command": "seq 1 60000"})));
    outputs.end_session().expect("it ends");
    place.call_err("read", &json!({"path": path}), "not_found");
}

#[test]
fn large_output_is_unchanged_without_a_store() {
    let place = ToolHarness::new("whole");
    let text = place.call_ok("shell", &json!({"command": "seq 1 60000"}));
    assert_eq!(text.lines().count(), 60_000);
}
