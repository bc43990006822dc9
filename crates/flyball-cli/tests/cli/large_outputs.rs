//! Large outputs through the pipe: stored privately, read in slices, removed with their session.

use crate::command_harness::{CliStore, CommandOutput, run_flyball, test_dir};
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn large_text() -> String {
    (0..30_000).map(|n| format!("line {n} of the log, with an ä\n")).collect()
}

fn output_event(session: &str, text: &str) -> String {
    json!({"type": "output.received", "session": session, "call": "c1", "tool": "bash", "text": text})
        .to_string()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Runs `flyball` with a separate temporary directory.
fn run(folder: &Path, args: &[&str], input: &str) -> CommandOutput {
    let temporary = folder.join("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    run_flyball(folder, args, input.as_bytes(), &[("TMPDIR", temporary.to_str().unwrap())])
}

#[test]
fn large_output_is_stored_and_readable_in_slices() {
    let store = CliStore::in_file("outputs");
    let text = large_text();
    let decision = store.event(&output_event("s", &text));
    let output = &decision["output"];
    let reference = output["ref"].as_str().unwrap_or_else(|| panic!("{decision}"));
    assert_eq!(output["bytes"], text.len());
    assert_eq!(output["preview"], text.chars().take(1_000).collect::<String>());
    let shown = output["text"].as_str().unwrap();
    assert!(
        shown.starts_with(&format!(
            "Tool response too large ({} characters). Full output saved to: {reference}\n",
            text.chars().count()
        )),
        "{shown:.300}"
    );
    assert!(shown.contains(&format!("flyball output {reference} --offset 0")), "{shown}");
    assert!(decision.to_string().len() < 6_000, "the decision does not carry the output");
    let small = store.event(&output_event("s", &"x".repeat(200_000)));
    assert_eq!(small.get("output"), None, "{small}");

    // The same output of the same session has the same reference; another session has another one.
    assert_eq!(store.event(&output_event("s", &text))["output"]["ref"], reference);
    assert_ne!(store.event(&output_event("t", &text))["output"]["ref"], reference);

    let (mut whole, mut offset) = (String::new(), 0);
    loop {
        let slice = store.json(&["output", reference, "--offset", &offset.to_string(), "--limit", "150000"]);
        whole.push_str(slice["text"].as_str().unwrap());
        match slice["next"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(whole, text);
    let found = store.json(&["output", reference, "--search", "line 29999 "]);
    assert_eq!(found["matches"][0]["line"], 30_000);
    let plain = store.run(&["output", reference, "--offset", "5", "--limit", "3"]);
    assert_eq!((plain.code, plain.out.as_str()), (0, "0 o\n"));
    assert!(plain.err.contains("for the rest use --offset 8"), "{}", plain.err);
    assert_eq!(store.run(&["output", reference, "--limit", "0"]).out, text);
}

#[test]
fn output_files_are_private_and_removed_with_their_session() {
    let store = CliStore::in_file("outputs-private");
    let decision = store.event(&output_event("../../evil", &large_text()));
    let reference = decision["output"]["ref"].as_str().unwrap().to_owned();
    let other =
        store.event(&output_event("other", &large_text()))["output"]["ref"].as_str().unwrap().to_owned();
    let path = PathBuf::from(store.run(&["output", &reference, "--path"]).out.trim());
    assert!(path.starts_with(&store.folder), "{}", path.display());
    let shown: Value =
        serde_json::from_str(&store.run(&["output", &reference, "--path", "--json"]).out).unwrap();
    assert_eq!(shown["path"], path.to_str().unwrap());
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    store.event(&json!({"type": "session.ended", "session": "../../evil"}).to_string());
    assert!(!path.exists() && !path.parent().unwrap().exists());
    let gone = store.run(&["output", &reference]);
    assert_eq!(gone.code, 1);
    assert!(gone.err.contains("error[output_unknown]"), "{}", gone.err);
    assert_eq!(store.run(&["output", &other, "--limit", "1"]).code, 0, "another session keeps its own");
    let wrong = store.run(&["output", "../../etc/passwd"]);
    assert!(wrong.code == 1 && wrong.err.contains("is not an output reference"), "{}", wrong.err);
}

#[test]
fn orphaned_outputs_are_removed_after_a_day() {
    let store = CliStore::in_file("outputs-orphans");
    let reference = |session: &str| {
        store.event(&output_event(session, &large_text()))["output"]["ref"].as_str().unwrap().to_owned()
    };
    let (old, young) = (reference("old"), reference("young"));
    let path = PathBuf::from(store.run(&["output", &old, "--path"]).out.trim());
    let day_ago = File::open(&path).unwrap().metadata().unwrap().modified().unwrap()
        - Duration::from_secs(25 * 60 * 60);
    for file in files(path.parent().unwrap()).into_iter().chain([path.parent().unwrap().to_owned()]) {
        File::open(&file).unwrap().set_modified(day_ago).unwrap();
    }
    store.event(r#"{"type":"compaction","session":"x"}"#);
    assert!(!path.exists(), "files older than a day are removed");
    assert_eq!(store.run(&["output", &young, "--limit", "1"]).code, 0);
}

#[test]
fn without_a_store_references_match_and_files_end_with_the_process() {
    let dir = test_dir("outputs-memory");
    let input = format!("{}\n", output_event("s", &large_text()));
    let first = run(&dir, &["observe"], &input);
    let kept = CliStore::in_file("outputs-kept").event(&output_event("s", &large_text()));
    let decision: Value = serde_json::from_str(&first.out).unwrap();
    assert_eq!(decision["output"], kept["output"], "the decision does not depend on the store");
    assert_eq!(files(&dir.join("tmp")), Vec::<PathBuf>::new(), "nothing is left behind");
}

#[test]
fn output_that_cannot_be_stored_is_truncated_with_a_note() {
    let dir = test_dir("outputs-refused");
    // Put a file where the directory would be.
    std::fs::create_dir_all(dir.join("a.db.files")).unwrap();
    std::fs::write(dir.join("a.db.files/outputs"), "").unwrap();
    let run =
        run(&dir, &["observe", "--store", "sqlite:a.db"], &format!("{}\n", output_event("s", &large_text())));
    let decision: Value = serde_json::from_str(&run.out).unwrap();
    let output = &decision["output"];
    assert_eq!((&decision["decision"], &output["ref"]), (&json!("allow"), &Value::Null), "{decision:.300}");
    let text = output["text"].as_str().unwrap();
    assert!(text.contains("[TRUNCATED: Response was "), "{:.200}", text);
    assert!(text.chars().count() <= 200_000);
}

#[test]
fn threshold_follows_the_policy_also_per_tool_and_session() {
    let dir = test_dir("outputs-threshold");
    let sends = |policy: &str, env: &[(&str, &str)], fields: Value| {
        std::fs::write(dir.join("policy.yaml"), policy).unwrap();
        let mut event = json!({"type": "output.received", "session": "s", "text": "x".repeat(2_000)});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let mut all = vec![("TMPDIR", dir.to_str().unwrap())];
        all.extend_from_slice(env);
        let run =
            run_flyball(&dir, &["observe", "--policy", "policy.yaml"], format!("{event}\n").as_bytes(), &all);
        let decision: Value = serde_json::from_str(&run.out).unwrap();
        decision["output"]["preview"].as_str().map(str::len)
    };
    let none = json!({});
    assert_eq!(sends("preset: agent", &[], none.clone()), None);
    assert_eq!(sends("resilience: {large_response_threshold: 1000}", &[], none.clone()), Some(1_000));
    assert_eq!(sends("guards: {large_response: {threshold: 1999, preview: 7}}", &[], none.clone()), Some(7));
    assert_eq!(sends("guards: {large_response: off}", &[], none.clone()), None);
    assert_eq!(sends("preset: agent", &[("DEX_LARGE_RESPONSE_THRESHOLD", "500")], none.clone()), Some(500));
    let tool = "tools: {bash: {large_response: {threshold: 100, preview: 9}}}";
    assert_eq!(sends(tool, &[], none), None);
    assert_eq!(sends(tool, &[], json!({"tool": "bash"})), Some(9));
    assert_eq!(
        sends("nodes: {n: {large_response: {threshold: 100, preview: 8}}}", &[], json!({"node": "n"})),
        Some(8)
    );
}

#[test]
fn redelivered_output_is_counted_once() {
    let store = CliStore::in_file("outputs-again");
    let mut event: Value = serde_json::from_str(&output_event("s", &large_text())).unwrap();
    event["id"] = json!("o1");
    let first = store.event(&event.to_string());
    assert_eq!(store.event(&event.to_string()), first);
    event["text"] = json!("small");
    assert_eq!(store.event(&event.to_string())["error"]["code"], "event_conflict");
    assert_eq!(store.json(&["metrics"])["large_responses"], 1);
}

#[test]
fn secrets_are_redacted_before_an_output_is_stored() {
    let store = CliStore::in_file("outputs-secrets");
    let secret = "AKIAIOSFODNN7EXAMPLE";
    let text = format!("{}\naws_access_key_id={secret}\n", large_text());
    let decision = store.event(&output_event("s", &text));
    let reference = decision["output"]["ref"].as_str().unwrap();
    let whole = store.run(&["output", reference, "--limit", "0"]).out;
    assert!(!whole.contains(secret), "the secret is in the file");
}
