//! Output of a run, line by line and at its end, and its state afterwards.

use crate::command_harness::{CommandOutput, repo_root, run_flyball, test_dir};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Runs `flyball` with the machine's `PATH`, because the examples run real tests.
fn run_with_path(folder: &Path, args: &[&str]) -> CommandOutput {
    let names = ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];
    let env: Vec<(String, String)> =
        names.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect();
    let mut env: Vec<(&str, &str)> =
        env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    env.push(("USER", "anna"));
    run_flyball(folder, args, b"", &env)
}

fn json(folder: &Path, args: &[&str]) -> Value {
    let run = run_with_path(folder, &[args, &["--json"]].concat());
    serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{args:?}: {}{}", run.out, run.err))
}

fn example(name: &str) -> String {
    repo_root().join("examples").join(name).to_string_lossy().into_owned()
}

fn project_with_workflow(name: &str, workflow: &str) -> PathBuf {
    let folder = test_dir(name);
    std::fs::write(folder.join("workflow.yaml"), workflow).unwrap();
    folder
}

/// Checks that the parts occur in this order.
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at =
            rest.find(part).unwrap_or_else(|| panic!("{part:?} is not in the rest:\n{rest}\n\nof\n{text}"));
        rest = &rest[at + part.len()..];
    }
}

/// The last screen: everything after the last empty line.
fn final_screen(out: &str) -> &str {
    out.rsplit_once("\n\n").map_or(out, |(_, last)| last)
}

#[test]
fn completed_run_is_printed_step_by_step() {
    let dir = test_dir("runs-green");
    let run = run_with_path(&dir, &["run", &example("fix-until-green")]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    assert_in_order(
        &run.out,
        &[
            "session fix-until-green-1: make the tests of the invoice project pass\n",
            "  limits: 8 iterations per loop, 4 h active, 10 min per turn\n",
            "coder (turn 1/9)\n  says: I look at the code first.\n  calls read src/lib.rs\n",
            "  calls edit src/lib.rs new=cents.iter().sum() old=cents.iter().skip(1).sum()\n",
            "  success after ",
            "coder → verifier\nverifier (turn 1/9)\n  tests failed after ",
            "  block: completion blocked by tests (gate)\n",
            "  failing tests 2\nverifier → coder   Loop 1/8\ncoder (turn 2/9)\n",
            "  failing tests 2 → 1\nverifier → coder   Loop 2/8\n",
            "  tests passed after ",
            "  failing tests 2 → 1 → 0\nverifier → done\n\ndone fix-until-green-1\n  6 turns, 4 calls, ",
            "  Loop 2/8 (coder, verifier)\n  failing tests 2 → 1 → 0\n",
        ],
    );
    assert!(run.out.lines().all(|line| line.chars().count() < 260), "no output is dumped: {}", run.out);
    assert!(!run.out.contains("backtrace") && !run.out.contains('\x1b'), "{}", run.out);
    let drawn = run_with_path(&dir, &["graph", "fix-until-green-1"]).out;
    assert_in_order(&drawn, &["coder", "Loop 2/8", "failing tests 2 → 1 → 0", "● done", "1 visit"]);
    assert!(!drawn.contains("1 visits") && !drawn.contains("halted"), "{drawn}");
    let status = run_with_path(&dir, &["status", "fix-until-green-1"]).out;
    assert_in_order(&status, &["is ended", "Loop 2/8", "failing tests 2 → 1 → 0", "Next: flyball explain"]);
    let top = run_with_path(&dir, &["top", "--once"]).out;
    assert_in_order(&top, &["fix-until-green-1", "ended", "done", "Loop 2/8", "failing tests 2 → 1 → 0"]);
}

#[test]
fn final_screen_of_a_halt_shows_the_reason_and_how_to_continue() {
    let dir = test_dir("runs-stuck");
    let run = run_with_path(&dir, &["run", &example("fix-until-green/stuck")]);
    assert_eq!((run.code, run.err.as_str()), (3, ""), "{}", run.out);
    let name = "fix-until-green-stuck-1";
    let screen = final_screen(&run.out);
    assert!(screen.lines().count() <= 40, "{screen}");
    assert_in_order(
        screen,
        &[
            "halted fix-until-green-stuck-1\n  at event 37, in coder, after 5 turns, 3 calls",
            "'diff' did not change in 2 observations. (stall / stalled)",
            "The agent is active, but no progress signal has changed.",
            "loop.halted: stalled, cycle loop-",
            "(coder, verifier), Loop 2/8",
            "Evidence",
            "guard stall, counted 2, allowed 2",
            "event 23    diff after coder: contents ",
            "event 37    diff after coder: contents ",
            "still failing: tests::",
            "failing tests 3 → 3",
            "● coder",
            "Loop 2/8 · halted: stalled",
            "Suggested actions",
            "fix it manually or tell it what to do differently, then release the session",
            "(in .flyball/runs/fix-until-green-stuck-1/workspace): flyball release fix-until-green-stuck-1 --guard stall",
            "Next",
            "flyball release fix-until-green-stuck-1 --guard stall --why \"…\" && flyball resume fix-until-green-stuck-1",
            "flyball explain fix-until-green-stuck-1",
        ],
    );
    assert!(!screen.contains('{'), "no JSON: {screen}");
    let status = run_with_path(&dir, &["status", name]).out;
    assert_in_order(
        &status,
        &["Run\n  at coder, Loop 2/8\n", "Next: flyball release", "then: flyball resume"],
    );
    let drawn = run_with_path(&dir, &["graph", name]).out;
    assert_in_order(&drawn, &["● coder", "Loop 2/8 · halted: stalled", "failing tests 3 → 3"]);
    // Resumed without a release, it shows the same screen; after one it continues.
    let again = run_with_path(&dir, &["resume", name]);
    assert_eq!((again.code, final_screen(&again.out)), (3, screen));
    let released = run_with_path(&dir, &["release", name, "--guard", "stall", "--why", "looked at it"]);
    assert_in_order(&released.out, &["Released: stall", "Next: flyball resume fix-until-green-stuck-1"]);
    let on = run_with_path(&dir, &["resume", name]);
    assert_in_order(&on.out, &["resumed after 38 events, at coder, Loop 2/8\n", "coder → verifier\n"]);
    assert_eq!(on.code, 5, "{}", on.out);
    assert_in_order(
        final_screen(&on.out),
        &["blocked by a gate", "event 12    checks: tests failed (tests::", "--guard gate"],
    );
}

/// A loop without progress that prints different text each time.
const ENDLESS_WORKFLOW: &str = r#"
version: 1
name: round
policy: {budgets: {loop: {iterations: 3}}, guards: {stall: off, oscillation: off, cycle: off, gate: off}}
nodes:
  - {name: try, kind: command, run: "echo try $FLYBALL_VISIT", next: check}
  - {name: check, kind: command, run: "echo check $FLYBALL_VISIT; false", on_failure: try, on_success: done}
"#;

#[test]
fn exhausted_budget_is_shown_with_the_limit_to_raise() {
    let dir = project_with_workflow("runs-budget", ENDLESS_WORKFLOW);
    let run = run_with_path(&dir, &["run", "."]);
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    assert_in_order(&run.out, &["Loop 1/3", "Loop 2/3", "Loop 3/3", "halt: "]);
    let screen = final_screen(&run.out);
    let raise = "flyball release round-1 --guard budget --why \"…\" && flyball resume round-1 --set budgets.loop.iterations=6";
    assert_in_order(
        screen,
        &[
            "halted round-1",
            "A budget is used up",
            "Loop 3/3 · halted: budget_exceeded",
            "raise the budget if it was making progress: flyball release",
            raise,
        ],
    );
    // The limit is that of the run, regardless of the reader's policy.
    assert!(run_with_path(&dir, &["graph", "round-1"]).out.contains("Loop 3/3 · halted: budget_exceeded"));
    assert_eq!(json(&dir, &["graph", "round-1"])["session"]["loops"][0]["badge"], "Loop 3/3");
    // The suggested command lets it continue.
    assert_eq!(
        run_with_path(&dir, &["release", "round-1", "--guard", "budget", "--why", "nearly there"]).code,
        0
    );
    let on = run_with_path(&dir, &["resume", "round-1", "--set", "budgets.loop.iterations=6"]);
    assert_in_order(&on.out, &["resumed", "Loop 4/6", "Loop 6/6"]);
}

#[test]
fn question_is_shown_with_the_command_that_answers_it() {
    let workflow =
        "{version: 1, name: asks, nodes: [{name: ask, kind: human, ask: \"Which day?\", next: done}]}";
    let dir = project_with_workflow("runs-question", workflow);
    let run = run_with_path(&dir, &["run", "workflow.yaml"]);
    assert_eq!(run.code, 4, "{}{}", run.out, run.err);
    assert_in_order(
        final_screen(&run.out),
        &["waiting for a person asks-1\n  Which day?\n", "flyball send asks-1 \"…\""],
    );
    let status = run_with_path(&dir, &["status", "asks-1"]).out;
    assert_in_order(&status, &["Run\n  at ask\n  question: Which day?\n", "Next: flyball send asks-1 \"…\""]);
    assert_eq!(json(&dir, &["status", "asks-1"])["run"]["question"], "Which day?");
    assert_in_order(
        &run_with_path(&dir, &["top", "--once"]).out,
        &["asks-1", "awaiting answer", "Which day?"],
    );
    let sent = run_with_path(&dir, &["send", "asks-1", "Friday"]);
    assert_eq!(sent.code, 0, "{}{}", sent.out, sent.err);
    assert!(!sent.out.contains("Next: flyball resume"), "it continues by itself: {}", sent.out);
    assert_in_order(&sent.out, &["resumed after", "success after ", ": Friday", "done asks-1"]);
}

#[test]
fn branches_are_labeled_and_released_by_their_own_name() {
    let workflow = r#"
version: 1
name: both
policy: {guards: {visits: {limit: 2, mode: halt}}}
nodes:
  - {name: split, kind: command, run: "true", next: [left, right]}
  - {name: left, kind: command, run: "echo left", next: together}
  - {name: right, kind: command, run: "echo right; false", retry: {attempts: 5, initial: 1ms}, next: together}
  - {name: together, kind: join, next: done}
"#;
    let dir = project_with_workflow("runs-branches", workflow);
    let run = run_with_path(&dir, &["run", "workflow.yaml"]);
    assert!([3, 4].contains(&run.code), "{}{}", run.out, run.err);
    for part in ["[left.1] split → left\n", "[left.1]   success after ", "[right.1] right (turn 1/6)\n"] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    let screen = final_screen(&run.out);
    assert_in_order(
        screen,
        &["both-1/right.1", "flyball release both-1/right.1 --guard visits", "&& flyball resume both-1"],
    );
    let status = run_with_path(&dir, &["status", "both-1"]).out;
    assert_in_order(&status, &["Run\n", "child session both-1/right.1 is "]);
    let branch = run_with_path(&dir, &["status", "both-1/right.1"]).out;
    assert_in_order(
        &branch,
        &[
            "child of session both-1",
            "at right",
            "Next: flyball release both-1/right.1",
            "then: flyball resume both-1\n",
        ],
    );
    // The graph of the run includes its branches; that of a branch has only its own steps.
    assert_in_order(
        &run_with_path(&dir, &["graph", "both-1"]).out,
        &["left", "1 visit", "right", "right.1 "],
    );
    assert_in_order(&run_with_path(&dir, &["graph", "both-1/right.1"]).out, &["● right", "visits, "]);
    assert_in_order(&run_with_path(&dir, &["top", "--once"]).out, &["both-1 ", "└ right.1"]);
}

#[test]
fn failed_and_unstored_runs_are_reported_as_such() {
    let workflow = "{version: 1, name: fails, nodes: [{name: work, kind: command, run: \"echo one; echo two; false\", on_failure: failed, on_success: done}]}";
    let dir = project_with_workflow("runs-failed", workflow);
    let run = run_with_path(&dir, &["run", "workflow.yaml"]);
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    assert_in_order(
        &run.out,
        &[
            "failure after ",
            ": two (last of 2 lines)",
            "work → failed",
            "failed fails-1: it reached `failed`",
        ],
    );
    assert_in_order(&run_with_path(&dir, &["graph", "fails-1"]).out, &["work", "● failed", "1 visit"]);
    let dir = project_with_workflow("runs-nothing", ENDLESS_WORKFLOW);
    let run = run_with_path(&dir, &["run", "workflow.yaml", "--keep-nothing"]);
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    assert_in_order(
        final_screen(&run.out),
        &["halted round", "guard budget", "Loop 3/3 · halted: budget_exceeded", "was not stored"],
    );
    assert!(!dir.join(".flyball").exists());
}

#[test]
fn long_output_is_truncated() {
    let workflow = r#"
version: 1
name: loud
nodes:
  - {name: some, kind: command, run: "seq 1 5000", next: much}
  - {name: much, kind: command, run: "seq 1 300000", next: done}
"#;
    let dir = project_with_workflow("runs-loud", workflow);
    let run = run_with_path(&dir, &["run", "workflow.yaml"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    assert_in_order(
        &run.out,
        &[": 5000 (last of 5,000 lines)\n", ": Tool response too large (1988894 characters)."],
    );
    assert!(run.out.len() < 2_000 && run.out.lines().count() < 15, "{}", run.out);
}

#[test]
fn json_output_contains_only_objects() {
    let dir = project_with_workflow("runs-json", ENDLESS_WORKFLOW);
    let run = run_with_path(&dir, &["run", "workflow.yaml", "--json"]);
    assert_eq!((run.code, run.err.as_str()), (3, ""));
    let all: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (last, events) = all.split_last().expect("objects");
    assert!(events.iter().all(|one| one["event"]["type"].is_string() && one["decision"]["seq"].is_u64()));
    assert_eq!((&last["end"], &last["report"]["loops"][0]["badge"]), (&"halted".into(), &"Loop 3/3".into()));
    assert_eq!(last["detail"]["effects"][0]["haltReason"], "budget_exceeded");
}
