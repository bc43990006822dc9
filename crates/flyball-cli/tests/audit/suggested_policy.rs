//! The suggested policy: it is valid, it still stops the loops, and it leaves harmless runs alone.

use crate::audit_harness::{HistoryBuilder, audit_json, flyball, mixed_histories, test_dir};
use serde_json::json;
use std::fs;

#[test]
fn suggested_policy_stops_loops_and_spares_other_runs() {
    let folder = mixed_histories("fit");
    // A shell that is used for everything and once for polling: its limit is raised, but it does not become a poll
    // tool.
    let mut shell = HistoryBuilder::new("shell", 3);
    for at in 0..30 {
        shell.call("bash", &format!("step {at}"), &format!("done {at}"));
    }
    shell
        .repeated_call("bash", 8)
        .call("bash", "again", "ready at last")
        .useful_calls(3)
        .save(&folder, "shell.jsonl");
    for at in 0..12 {
        HistoryBuilder::new(&format!("plain-{at}"), 4)
            .useful_calls(5 + at)
            .save(&folder, &format!("plain-{at}.jsonl"));
    }
    let before = audit_json(&folder, &[]);
    assert_eq!((&before["looped"], &before["doubtful"]), (&json!(2), &json!(2)));

    let ran = flyball(&folder, &["audit", "runs", "--write-policy", "fit.yaml"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("still stops 2 of the 2 runs that looped and leaves 2 of 2 doubtful runs alone"),
        "{}",
        ran.out
    );
    let text = fs::read_to_string(folder.join("fit.yaml")).unwrap();
    assert!(text.contains("job_status:\n    # it polls") && text.contains("effect: poll"), "{text}");
    assert!(text.contains("\"bash\":\n") && text.contains("repetition: {limit: "), "{text}");
    assert!(text.contains("tool_calls: ") && text.contains("cost_usd: "), "{text}");
    assert!(!text.contains("runs/"), "a policy may be shared, so it names no file\n{text}");

    let check = flyball(&folder, &["check", "fit.yaml"], &[]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
    assert!(check.out.contains("no warnings"), "{}", check.out);

    let after = audit_json(&folder, &["--policy", "fit.yaml"]);
    assert_eq!((&after["looped"], &after["doubtful"]), (&json!(2), &json!(0)));
    let stopped = |found: &serde_json::Value| -> Vec<String> {
        let mut all: Vec<String> =
            found["worst"].as_array().unwrap().iter().map(|one| one["session"].to_string()).collect();
        all.sort();
        all
    };
    assert_eq!(stopped(&before), stopped(&after), "the same runs");
}

#[test]
fn inseparable_runs_leave_the_policy_unchanged_and_are_reported() {
    let folder = test_dir("inseparable");
    HistoryBuilder::new("loop", 0).useful_calls(2).repeated_call("bash", 7).save(&folder, "loop.jsonl");
    let mut waits = HistoryBuilder::new("waits", 0);
    waits
        .useful_calls(9)
        .repeated_call("bash", 9)
        .call("bash", "again", "ready")
        .useful_calls(3)
        .save(&folder, "waits.jsonl");
    let ran = flyball(&folder, &["audit", "runs", "--write-policy", "fit.yaml"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("harmless repetition as long as loops: 1 kind"), "{}", ran.out);
    let text = fs::read_to_string(folder.join("fit.yaml")).unwrap();
    assert!(
        text.contains("#   repetition of bash: harmless streaks reached 10, loops started at 7"),
        "{text}"
    );
    assert!(!text.contains("tools:") && text.contains("# No budgets: "), "{text}");
    assert_eq!(audit_json(&folder, &["--policy", "fit.yaml"])["looped"], 1);
}

#[test]
fn cycles_that_ended_are_allowed_and_endless_cycles_are_stopped() {
    let folder = test_dir("circles");
    let circle = |session: &str, passes: u64| {
        let mut history = HistoryBuilder::new(session, 0);
        for _ in 0..passes {
            history.call("grep", "name", "a.rs:1").call("read_file", "a.rs", "text of a");
        }
        history
    };
    circle("left", 3).call("grep", "name", "a.rs:1").useful_calls(8).save(&folder, "left.jsonl");
    circle("stays", 9).save(&folder, "stays.jsonl");
    let before = audit_json(&folder, &[]);
    assert_eq!((&before["looped"], &before["doubtful"]), (&json!(1), &json!(1)), "{before}");
    let ran = flyball(&folder, &["audit", "runs", "--write-policy", "fit.yaml"], &[]);
    assert!(
        ran.out.contains("still stops 1 of the 1 runs that looped and leaves 1 of 1 doubtful run alone"),
        "{}",
        ran.out
    );
    let text = fs::read_to_string(folder.join("fit.yaml")).unwrap();
    assert!(text.contains("\nguards:\n") && text.contains("  cycle: {calls: {repeats: 4}}\n"), "{text}");
    let after = audit_json(&folder, &["--policy", "fit.yaml"]);
    assert_eq!((&after["looped"], &after["doubtful"]), (&json!(1), &json!(0)), "{after}");
}

#[test]
fn existing_file_is_not_overwritten_without_force() {
    let folder = mixed_histories("force");
    fs::write(folder.join("fit.yaml"), "mine\n").unwrap();
    let ran = flyball(&folder, &["audit", "runs", "--write-policy", "fit.yaml"], &[]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("error[file_exists]: fit.yaml") && ran.err.contains("--force"), "{}", ran.err);
    assert_eq!(fs::read_to_string(folder.join("fit.yaml")).unwrap(), "mine\n");
    let ran = flyball(&folder, &["audit", "runs", "--write-policy", "fit.yaml", "--force"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(fs::read_to_string(folder.join("fit.yaml")).unwrap().contains("version: 1"));
    let ran = flyball(&folder, &["audit", "runs", "--write-policy", "no/such/folder.yaml"], &[]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("error[cannot_write]"), "{}", ran.err);
}

#[test]
fn tool_names_cannot_inject_into_the_policy() {
    let folder = test_dir("names");
    for tool in ["on", "a: {b", "x\"y\n# z", "ключ", "- list"] {
        let mut waits = HistoryBuilder::new(tool, 0);
        waits.repeated_call(tool, 9).call(tool, "again", "ready").useful_calls(3);
        waits.save(&folder, &format!("{}.jsonl", tool.len()));
    }
    let ran = flyball(&folder, &["audit", "runs", "--write-policy", "fit.yaml"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let check = flyball(&folder, &["check", "fit.yaml"], &[]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
    assert_eq!(audit_json(&folder, &["--policy", "fit.yaml"])["doubtful"], 0);
}
