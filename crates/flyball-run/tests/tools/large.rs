//! Large outputs of tools: saved, read page by page, searched, and never those of another session.

use crate::kit::{Place, folder};
use flyball::output::OutputLimits;
use flyball_journal::{OutputOptions, SessionOutputs};
use flyball_run::tools::ToolboxOptions;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place whose large outputs go to `base`, in the name of a session.
fn place(outside: &Path, base: &Path, session: &str, options: OutputOptions) -> (Place, Arc<SessionOutputs>) {
    let outputs = Arc::new(SessionOutputs::open(base, session, options).expect("outputs"));
    let options = ToolboxOptions { outputs: Some(Arc::clone(&outputs)), ..ToolboxOptions::default() };
    (Place::in_folder(outside.to_owned(), options), outputs)
}

fn path_in(text: &str) -> PathBuf {
    let line = text.lines().next().expect("a line");
    PathBuf::from(line.rsplit_once("saved to: ").expect("a path").1)
}

#[test]
fn a_large_output_is_saved_and_can_be_paged_and_searched() {
    let outside = folder("large");
    let (place, _) = place(&outside, &outside.join("base"), "s", OutputOptions::default());
    let output = place.call("shell", &json!({"command": "seq 1 60000; echo needle; seq 60002 70000"}));
    assert!(output.ok);
    assert!(output.text.starts_with("Tool response too large ("), "{}", output.text);
    assert_eq!(output.log.len(), 1);
    assert!(output.log[0].starts_with("large response from shell ("), "{:?}", output.log);
    let path = path_in(&output.text);
    let page = place.fine("read", &json!({"path": path, "offset": 60_000, "limit": 3}));
    assert_eq!(page, "60000\nneedle\n60002\n[lines 60000-60002 of 70000; read on with offset 60003]");
    let found = place.fine("search", &json!({"pattern": "needle", "path": path}));
    assert_eq!(found, format!("{}:60001: needle", path.display()));
    // Reading a large output is never a large output itself.
    let all = place.call("read", &json!({"path": path, "limit": 1_000_000}));
    assert!(all.ok && all.log.is_empty() && all.text.contains("read on with offset"), "{:?}", all.log);
}

#[test]
fn also_a_large_error_is_saved() {
    let outside = folder("error");
    let options = OutputOptions {
        limits: OutputLimits { threshold: Some(300), preview: 50 },
        ..OutputOptions::default()
    };
    let (place, _) = place(&outside, &outside.join("base"), "s", options);
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
fn one_session_never_reads_the_files_of_another() {
    // The base lies inside the workspace, where every session's tools could reach it.
    let outside = folder("others");
    let base = outside.join("work/.flyball/outputs");
    let (one, first) = place(&outside, &base, "one", OutputOptions::default());
    let (two, _) = place(&outside, &base, "two", OutputOptions::default());
    let path = path_in(&one.fine("shell", &json!({"command": "seq 1 60000"})));
    assert!(path.starts_with(first.folder()));
    one.fine("read", &json!({"path": path}));
    let relative = path.strip_prefix(&two.work).expect("inside").to_owned();
    for path in [path, relative] {
        two.fails("read", &json!({"path": path}), "outside_workspace");
        two.fails("write", &json!({"path": path, "content": "x"}), "outside_workspace");
        two.fails("search", &json!({"path": path, "pattern": "1"}), "outside_workspace");
    }
    let search = two.fine("search", &json!({"pattern": "59999", "path": ".flyball"}));
    assert_eq!(search, "[no match in 0 files]");
}

#[test]
fn after_the_end_of_the_session_its_file_is_gone() {
    let outside = folder("end");
    let (place, outputs) = place(&outside, &outside.join("base"), "s", OutputOptions::default());
    let path = path_in(&place.fine("shell", &json!({"command": "seq 1 60000"})));
    outputs.end_session().expect("it ends");
    place.fails("read", &json!({"path": path}), "not_found");
}

#[test]
fn without_a_place_for_it_a_large_output_stays_whole() {
    let place = Place::new("whole");
    let text = place.fine("shell", &json!({"command": "seq 1 60000"}));
    assert_eq!(text.lines().count(), 60_000);
}
