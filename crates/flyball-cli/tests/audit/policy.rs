//! The policy that fits: it is a policy, it still stops the loops, and it leaves alone what did no harm.

use crate::history::{History, flyball, folder, mixed, report};
use serde_json::json;
use std::fs;

#[test]
fn the_policy_that_is_written_still_stops_the_loops_and_spares_the_others() {
    let folder = mixed("fit");
    // A shell that is used for everything and once for waiting: its limit is raised, it does not become a poll.
    let mut shell = History::new("shell", 3);
    for at in 0..30 {
        shell.call("bash", &format!("step {at}"), &format!("done {at}"));
    }
    shell.same("bash", 8).call("bash", "again", "ready at last").work(3).save(&folder, "shell.jsonl");
    for at in 0..12 {
        History::new(&format!("plain-{at}"), 4).work(5 + at).save(&folder, &format!("plain-{at}.jsonl"));
    }
    let before = report(&folder, &[]);
    assert_eq!((&before["looped"], &before["doubtful"]), (&json!(2), &json!(2)));

    let ran = flyball(&folder, &["audit", "runs", "--write-policy", "fit.yaml"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("still stops 2 of the 2 runs that looped, and leaves 2 of 2 doubtful runs alone"),
        "{}",
        ran.out
    );
    let text = fs::read_to_string(folder.join("fit.yaml")).unwrap();
    assert!(
        text.contains("job_status:\n    # it waits for something") && text.contains("effect: poll"),
        "{text}"
    );
    assert!(text.contains("\"bash\":\n") && text.contains("repetition: {limit: "), "{text}");
    assert!(text.contains("tool_calls: ") && text.contains("cost_usd: "), "{text}");
    assert!(!text.contains("runs/"), "a policy may be shared: it names no file\n{text}");

    let check = flyball(&folder, &["check", "fit.yaml"], &[]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
    assert!(check.out.contains("no warnings"), "{}", check.out);

    let after = report(&folder, &["--policy", "fit.yaml"]);
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
fn rows_that_are_as_long_as_loops_change_nothing_and_that_is_said() {
    let folder = folder("inseparable");
    History::new("loop", 0).work(2).same("bash", 7).save(&folder, "loop.jsonl");
    let mut waits = History::new("waits", 0);
    waits.work(9).same("bash", 9).call("bash", "again", "ready").work(3).save(&folder, "waits.jsonl");
    let ran = flyball(&folder, &["audit", "runs", "--write-policy", "fit.yaml"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("1 kind of harmless rows are as long as loops"), "{}", ran.out);
    let text = fs::read_to_string(folder.join("fit.yaml")).unwrap();
    assert!(text.contains("#   repetition of bash: harmless rows went to 10, loops began at 7"), "{text}");
    assert!(!text.contains("tools:") && text.contains("# No budgets: "), "{text}");
    assert_eq!(report(&folder, &["--policy", "fit.yaml"])["looped"], 1);
}

#[test]
fn circles_that_were_left_are_made_room_for_and_circles_that_go_on_are_still_stopped() {
    let folder = folder("circles");
    let circle = |session: &str, passes: u64| {
        let mut history = History::new(session, 0);
        for _ in 0..passes {
            history.call("grep", "name", "a.rs:1").call("read_file", "a.rs", "text of a");
        }
        history
    };
    circle("left", 3).call("grep", "name", "a.rs:1").work(8).save(&folder, "left.jsonl");
    circle("stays", 9).save(&folder, "stays.jsonl");
    let before = report(&folder, &[]);
    assert_eq!((&before["looped"], &before["doubtful"]), (&json!(1), &json!(1)), "{before}");
    let ran = flyball(&folder, &["audit", "runs", "--write-policy", "fit.yaml"], &[]);
    assert!(
        ran.out.contains("still stops 1 of the 1 runs that looped, and leaves 1 of 1 doubtful run alone"),
        "{}",
        ran.out
    );
    let text = fs::read_to_string(folder.join("fit.yaml")).unwrap();
    assert!(text.contains("\nguards:\n") && text.contains("  cycle: {calls: {repeats: 4}}\n"), "{text}");
    let after = report(&folder, &["--policy", "fit.yaml"]);
    assert_eq!((&after["looped"], &after["doubtful"]), (&json!(1), &json!(0)), "{after}");
}

#[test]
fn a_file_that_is_there_is_not_written_over_without_force() {
    let folder = mixed("force");
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
fn names_of_tools_cannot_break_out_of_the_policy() {
    let folder = folder("names");
    for tool in ["on", "a: {b", "x\"y\n# z", "ключ", "- list"] {
        let mut waits = History::new(tool, 0);
        waits.same(tool, 9).call(tool, "again", "ready").work(3);
        waits.save(&folder, &format!("{}.jsonl", tool.len()));
    }
    let ran = flyball(&folder, &["audit", "runs", "--write-policy", "fit.yaml"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let check = flyball(&folder, &["check", "fit.yaml"], &[]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
    assert_eq!(report(&folder, &["--policy", "fit.yaml"])["doubtful"], 0);
}
