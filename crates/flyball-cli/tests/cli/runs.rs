//! What is told of a run, line by line and at its end, and what is known of it afterwards.

use crate::kit::{Run, flyball, folder, root};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Runs `flyball` where the programs of this machine are found: the examples run real tests.
fn at_work(folder: &Path, args: &[&str]) -> Run {
    let names = ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];
    let env: Vec<(String, String)> =
        names.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect();
    let mut env: Vec<(&str, &str)> =
        env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    env.push(("USER", "anna"));
    flyball(folder, args, b"", &env)
}

fn json(folder: &Path, args: &[&str]) -> Value {
    let run = at_work(folder, &[args, &["--json"]].concat());
    serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{args:?}: {}{}", run.out, run.err))
}

fn example(name: &str) -> String {
    root().join("examples").join(name).to_string_lossy().into_owned()
}

fn with(name: &str, workflow: &str) -> PathBuf {
    let folder = folder(name);
    std::fs::write(folder.join("workflow.yaml"), workflow).unwrap();
    folder
}

/// Parts of a text that must follow each other.
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest
            .find(part)
            .unwrap_or_else(|| panic!("{part:?} is not in what is left:\n{rest}\n\nof\n{text}"));
        rest = &rest[at + part.len()..];
    }
}

/// The last screen: everything after the last empty line.
fn last_screen(out: &str) -> &str {
    out.rsplit_once("\n\n").map_or(out, |(_, last)| last)
}

#[test]
fn a_run_that_comes_to_its_end_is_told_step_by_step() {
    let dir = folder("runs-green");
    let run = at_work(&dir, &["run", &example("fix-until-green")]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    in_order(
        &run.out,
        &[
            "session fix-until-green-1: make the tests of the invoice project pass\n",
            "  limits: 8 iterations of a loop, 4 hours at work, 10 minutes a turn\n",
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
    let drawn = at_work(&dir, &["graph", "fix-until-green-1"]).out;
    in_order(&drawn, &["coder", "Loop 2/8", "failing tests 2 → 1 → 0", "● done", "1 visit"]);
    assert!(!drawn.contains("1 visits") && !drawn.contains("halted"), "{drawn}");
    let status = at_work(&dir, &["status", "fix-until-green-1"]).out;
    in_order(&status, &["is ended", "Loop 2/8", "failing tests 2 → 1 → 0", "Next: flyball explain"]);
    let top = at_work(&dir, &["top", "--once"]).out;
    in_order(&top, &["fix-until-green-1", "ended", "done", "Loop 2/8", "failing tests 2 → 1 → 0"]);
}

#[test]
fn the_last_screen_of_a_halt_says_what_why_and_how_to_go_on() {
    let dir = folder("runs-stuck");
    let run = at_work(&dir, &["run", &example("fix-until-green/stuck")]);
    assert_eq!((run.code, run.err.as_str()), (3, ""), "{}", run.out);
    let name = "fix-until-green-stuck-1";
    let screen = last_screen(&run.out);
    assert!(screen.lines().count() <= 40, "{screen}");
    in_order(
        screen,
        &[
            "halted fix-until-green-stuck-1\n  at event 37, in coder, after 5 turns, 3 calls",
            "'diff' did not change in 2 observations. (stall / stalled)",
            "Work is done, but none of the signs of progress has moved.",
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
            "What helps",
            "fix it manually or tell it what to do differently, then release the session",
            "(in .flyball/runs/fix-until-green-stuck-1/workspace): flyball release fix-until-green-stuck-1 --guard stall",
            "Next",
            "flyball release fix-until-green-stuck-1 --guard stall --why \"…\" && flyball resume fix-until-green-stuck-1",
            "flyball explain fix-until-green-stuck-1",
        ],
    );
    assert!(!screen.contains('{'), "no JSON: {screen}");
    let status = at_work(&dir, &["status", name]).out;
    in_order(
        &status,
        &["Where the run stands\n  at coder, Loop 2/8\n", "Next: flyball release", "then: flyball resume"],
    );
    let drawn = at_work(&dir, &["graph", name]).out;
    in_order(&drawn, &["● coder", "Loop 2/8 · halted: stalled", "failing tests 3 → 3"]);
    // Whoever resumes it without a release sees the same screen again; after one it goes on.
    let again = at_work(&dir, &["resume", name]);
    assert_eq!((again.code, last_screen(&again.out)), (3, screen));
    let released = at_work(&dir, &["release", name, "--guard", "stall", "--why", "looked at it"]);
    in_order(&released.out, &["Released: stall", "Next: flyball resume fix-until-green-stuck-1"]);
    let on = at_work(&dir, &["resume", name]);
    in_order(&on.out, &["taken up again after 38 events, at coder, Loop 2/8\n", "coder → verifier\n"]);
    assert_eq!(on.code, 5, "{}", on.out);
    in_order(
        last_screen(&on.out),
        &["blocked by a gate", "event 12    checks: tests failed (tests::", "--guard gate"],
    );
}

/// A loop that gets nowhere and says so in other words each time.
const ROUND_AND_ROUND: &str = r#"
version: 1
name: round
policy: {budgets: {loop: {iterations: 3}}, guards: {stall: off, oscillation: off, cycle: off, gate: off}}
nodes:
  - {name: try, kind: command, run: "echo try $FLYBALL_VISIT", next: check}
  - {name: check, kind: command, run: "echo check $FLYBALL_VISIT; false", on_failure: try, on_success: done}
"#;

#[test]
fn a_used_up_budget_is_told_with_the_value_to_raise() {
    let dir = with("runs-budget", ROUND_AND_ROUND);
    let run = at_work(&dir, &["run", "."]);
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    in_order(&run.out, &["Loop 1/3", "Loop 2/3", "Loop 3/3", "halt: "]);
    let screen = last_screen(&run.out);
    let raise = "flyball release round-1 --guard budget --why \"…\" && flyball resume round-1 --set budgets.loop.iterations=6";
    in_order(
        screen,
        &[
            "halted round-1",
            "A budget is used up",
            "Loop 3/3 · halted: budget_exceeded",
            "raise the budget if it was making progress: flyball release",
            raise,
        ],
    );
    // The limit is the run's own, whatever the policy of the one who looks.
    assert!(at_work(&dir, &["graph", "round-1"]).out.contains("Loop 3/3 · halted: budget_exceeded"));
    assert_eq!(json(&dir, &["graph", "round-1"])["session"]["loops"][0]["badge"], "Loop 3/3");
    // What the screen says to type is what lets it go on.
    assert_eq!(at_work(&dir, &["release", "round-1", "--guard", "budget", "--why", "nearly there"]).code, 0);
    let on = at_work(&dir, &["resume", "round-1", "--set", "budgets.loop.iterations=6"]);
    in_order(&on.out, &["taken up again", "Loop 4/6", "Loop 6/6"]);
}

#[test]
fn a_question_is_told_with_the_command_that_answers_it() {
    let workflow =
        "{version: 1, name: asks, nodes: [{name: ask, kind: human, ask: \"Which day?\", next: done}]}";
    let dir = with("runs-question", workflow);
    let run = at_work(&dir, &["run", "workflow.yaml"]);
    assert_eq!(run.code, 4, "{}{}", run.out, run.err);
    in_order(
        last_screen(&run.out),
        &["waits for a person asks-1\n  Which day?\n", "flyball send asks-1 \"…\""],
    );
    let status = at_work(&dir, &["status", "asks-1"]).out;
    in_order(
        &status,
        &["Where the run stands\n  at ask\n  it asks: Which day?\n", "Next: flyball send asks-1 \"…\""],
    );
    assert_eq!(json(&dir, &["status", "asks-1"])["run"]["question"], "Which day?");
    in_order(&at_work(&dir, &["top", "--once"]).out, &["asks-1", "awaiting answer", "Which day?"]);
    let sent = at_work(&dir, &["send", "asks-1", "Friday"]);
    assert_eq!(sent.code, 0, "{}{}", sent.out, sent.err);
    assert!(!sent.out.contains("Next: flyball resume"), "it goes on by itself: {}", sent.out);
    in_order(&sent.out, &["taken up again", "success after ", ": Friday", "done asks-1"]);
}

#[test]
fn branches_are_marked_and_a_branch_that_stops_is_released_by_its_own_name() {
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
    let dir = with("runs-branches", workflow);
    let run = at_work(&dir, &["run", "workflow.yaml"]);
    assert!([3, 4].contains(&run.code), "{}{}", run.out, run.err);
    for part in ["[left.1] split → left\n", "[left.1]   success after ", "[right.1] right (turn 1/6)\n"] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    let screen = last_screen(&run.out);
    in_order(
        screen,
        &["both-1/right.1", "flyball release both-1/right.1 --guard visits", "&& flyball resume both-1"],
    );
    let status = at_work(&dir, &["status", "both-1"]).out;
    in_order(&status, &["Where the run stands", "below it both-1/right.1 is "]);
    let branch = at_work(&dir, &["status", "both-1/right.1"]).out;
    in_order(
        &branch,
        &[
            "below session both-1",
            "at right",
            "Next: flyball release both-1/right.1",
            "then: flyball resume both-1\n",
        ],
    );
    // The graph of the run has what its branches did; that of the branch has its own.
    in_order(&at_work(&dir, &["graph", "both-1"]).out, &["left", "1 visit", "right", "right.1 "]);
    in_order(&at_work(&dir, &["graph", "both-1/right.1"]).out, &["● right", "visits, "]);
    in_order(&at_work(&dir, &["top", "--once"]).out, &["both-1 ", "└ right.1"]);
}

#[test]
fn a_run_that_fails_or_keeps_nothing_says_so() {
    let workflow = "{version: 1, name: fails, nodes: [{name: work, kind: command, run: \"echo one; echo two; false\", on_failure: failed, on_success: done}]}";
    let dir = with("runs-failed", workflow);
    let run = at_work(&dir, &["run", "workflow.yaml"]);
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    in_order(
        &run.out,
        &[
            "failure after ",
            ": two (the last of 2 lines)",
            "work → failed",
            "failed fails-1: it came to `failed`",
        ],
    );
    in_order(&at_work(&dir, &["graph", "fails-1"]).out, &["work", "● failed", "1 visit"]);
    let dir = with("runs-nothing", ROUND_AND_ROUND);
    let run = at_work(&dir, &["run", "workflow.yaml", "--keep-nothing"]);
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    in_order(
        last_screen(&run.out),
        &["halted round", "guard budget", "Loop 3/3 · halted: budget_exceeded", "nothing was kept"],
    );
    assert!(!dir.join(".flyball").exists());
}

#[test]
fn a_long_output_is_never_dumped() {
    let workflow = r#"
version: 1
name: loud
nodes:
  - {name: some, kind: command, run: "seq 1 5000", next: much}
  - {name: much, kind: command, run: "seq 1 300000", next: done}
"#;
    let dir = with("runs-loud", workflow);
    let run = at_work(&dir, &["run", "workflow.yaml"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    in_order(
        &run.out,
        &[": 5000 (the last of 5000 lines)\n", ": Tool response too large (1988894 characters)."],
    );
    assert!(run.out.len() < 2_000 && run.out.lines().count() < 15, "{}", run.out);
}

#[test]
fn as_json_nothing_but_objects_is_printed() {
    let dir = with("runs-json", ROUND_AND_ROUND);
    let run = at_work(&dir, &["run", "workflow.yaml", "--json"]);
    assert_eq!((run.code, run.err.as_str()), (3, ""));
    let all: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (last, events) = all.split_last().expect("objects");
    assert!(events.iter().all(|one| one["event"]["type"].is_string() && one["decision"]["seq"].is_u64()));
    assert_eq!((&last["end"], &last["report"]["loops"][0]["badge"]), (&"halted".into(), &"Loop 3/3".into()));
    assert_eq!(last["detail"]["effects"][0]["haltReason"], "budget_exceeded");
}
