//! A run that a budget interrupted continues after a release: nothing is lost, and the interrupted step is not a
//! failure.

use crate::command_harness::{CommandOutput, run_flyball, test_dir};
use flyball_store::StoreAddress;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn run_with_path(folder: &Path, args: &[&str]) -> CommandOutput {
    let path = std::env::var("PATH").unwrap_or_default();
    run_flyball(folder, args, b"", &[("PATH", &path), ("USER", "anna")])
}

fn project_with_workflow(name: &str, workflow: &str) -> PathBuf {
    let folder = test_dir(name);
    std::fs::write(folder.join("workflow.yaml"), workflow).unwrap();
    folder
}

/// The stored events of a session.
fn events(folder: &Path, session: &str) -> Vec<Value> {
    let admin_store = StoreAddress::find_project(folder).open_existing().expect("the store");
    let records = admin_store.records(session, 1, u64::MAX >> 1).expect("its events");
    records.iter().map(|record| serde_json::from_str(&record.text).unwrap()).collect()
}

fn event_types(folder: &Path, session: &str) -> Vec<String> {
    events(folder, session).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

fn line_count(folder: &Path, file: &str) -> usize {
    std::fs::read_to_string(folder.join(file)).unwrap_or_default().lines().count()
}

/// A shell command that appends a line to a file, and sleeps for a minute on its first call.
fn slow_first_call(file: &str) -> String {
    format!("echo x >> {file}; if [ $(wc -l < {file}) -lt 2 ]; then sleep 60; fi; echo finished")
}

fn two_step_workflow(policy: &str, more: &str) -> String {
    format!(
        "version: 1\nname: cut\npolicy: {policy}\nnodes:\n  - {{name: work, kind: command, run: \"{}\", on_success: after, on_failure: mend{more}}}\n  - {{name: after, kind: command, run: 'echo x >> after', next: done}}\n  - {{name: mend, kind: command, run: 'echo x >> mended', next: failed}}\n",
        slow_first_call("work")
    )
}

const RELEASE_ARGS: [&str; 6] = ["release", "cut-1", "--guard", "budget", "--why", "it is worth it"];

fn run_until_interrupted(folder: &Path, reason: &str) -> CommandOutput {
    let run = run_with_path(folder, &["run", "workflow.yaml"]);
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    assert!(run.out.contains(reason), "{}", run.out);
    run
}

#[test]
fn step_interrupted_by_the_runtime_budget_reruns_after_a_release() {
    let dir = project_with_workflow(
        "budget-runtime",
        &two_step_workflow("{budgets: {session: {runtime: 1s}}}", ""),
    );
    run_until_interrupted(&dir, "max_runtime");
    // Without a release it stays halted, however often it is resumed.
    assert_eq!(run_with_path(&dir, &["resume", "cut-1"]).code, 3);
    assert_eq!(line_count(&dir, "work"), 1);
    let released = run_with_path(&dir, &RELEASE_ARGS);
    assert_eq!(released.code, 0, "{}{}", released.out, released.err);
    assert!(
        released.out.contains("Released: budget, granted 10m0s more runtime to the session: 10m"),
        "{}",
        released.out
    );
    let resumed = run_with_path(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!((line_count(&dir, "work"), line_count(&dir, "after"), line_count(&dir, "mended")), (2, 1, 0));
    let all = event_types(&dir, "cut-1");
    let wanted = ["turn.started", "turn.interrupted", "human.released", "turn.resumed", "turn.finished"];
    assert_eq!(all.iter().filter(|name| wanted.contains(&name.as_str())).take(5).collect::<Vec<_>>(), wanted);
    let finished = events(&dir, "cut-1").into_iter().find(|event| event["type"] == "turn.finished").unwrap();
    assert_eq!((&finished["outcome"], &finished["output"]), (&"success".into(), &"finished".into()));
}

#[test]
fn step_interrupted_by_a_budget_is_skipped_if_the_workflow_says_so() {
    let dir = project_with_workflow(
        "budget-skip",
        &two_step_workflow("{budgets: {session: {runtime: 1s}}}", ", on_interrupt: skip"),
    );
    run_until_interrupted(&dir, "max_runtime");
    assert_eq!(run_with_path(&dir, &RELEASE_ARGS).code, 0);
    let resumed = run_with_path(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!((line_count(&dir, "work"), line_count(&dir, "after"), line_count(&dir, "mended")), (1, 1, 0));
    let finished = events(&dir, "cut-1").into_iter().find(|event| event["type"] == "turn.finished").unwrap();
    assert_eq!(finished["outcome"], "skipped");
}

#[test]
fn timed_out_turn_gets_its_full_time_again() {
    let dir =
        project_with_workflow("budget-turn", &two_step_workflow("{budgets: {turn: {timeout: 1s}}}", ""));
    run_until_interrupted(&dir, "turn_timeout");
    let released = run_with_path(&dir, &RELEASE_ARGS);
    assert!(released.out.contains("granted 1s more time to a turn of node 'work'"), "{}", released.out);
    let resumed = run_with_path(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!((line_count(&dir, "work"), line_count(&dir, "mended")), (2, 0));
}

#[test]
fn node_timeout_is_a_failure_not_a_budget() {
    let dir = project_with_workflow("budget-own", &two_step_workflow("{preset: workflow}", ", deadline: 1s"));
    let run = run_with_path(&dir, &["run", "workflow.yaml"]);
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    assert_eq!((line_count(&dir, "work"), line_count(&dir, "mended")), (1, 1));
}

#[test]
fn repeated_step_of_a_killed_run_does_not_run_a_third_time() {
    let slow = "echo x >> work; sleep 60";
    let workflow = |more: &str| {
        format!(
            "version: 1\nname: cut\npolicy: {{budgets: {{session: {{runtime: 1s}}}}}}\nnodes:\n  - {{name: work, kind: command, run: '{slow}', next: done{more}}}\n"
        )
    };
    for (name, more, code, ran) in
        [("budget-killed", "", 4, 2), ("budget-killed-skip", ", on_interrupt: skip", 0, 1)]
    {
        let dir = project_with_workflow(name, &workflow(more));
        run_until_interrupted(&dir, "max_runtime");
        assert_eq!(run_with_path(&dir, &RELEASE_ARGS).code, 0);
        if more.is_empty() {
            resume_and_kill_when(&dir, || line_count(&dir, "work") == 2);
        }
        let resumed = run_with_path(&dir, &["resume", "cut-1"]);
        assert_eq!(resumed.code, code, "{name}: {}{}", resumed.out, resumed.err);
        assert_eq!(line_count(&dir, "work"), ran, "{name}");
    }
}

/// Resumes the run in a process that is killed as soon as a condition holds.
fn resume_and_kill_when(folder: &Path, is_so: impl Fn() -> bool) {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["resume", "cut-1"])
        .current_dir(folder)
        .env_clear()
        .envs([("PATH", path.as_str()), ("USER", "anna")])
        .env("XDG_STATE_HOME", crate::command_harness::state_dir(folder))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "timed out waiting for the condition");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

const AGENT_WORKFLOW: &str = r#"version: 1
name: cut
policy: POLICY
providers:
  main:
    kind: script
    price: {input_per_million_usd: 1.0, output_per_million_usd: 1.0}
    nodes: {coder: {replies: REPLIES}}
tools:
  job: {description: A job., argv: [sh, job.sh], risk: safe}
nodes:
  - {name: coder, kind: agent, provider: main, tools: [job, read], completion: TASK_COMPLETE, prompt: Do it., on_success: done, on_failure: failed}
"#;

fn agent_project(name: &str, policy: &str, replies: &str, job: &str) -> PathBuf {
    let dir =
        project_with_workflow(name, &AGENT_WORKFLOW.replace("POLICY", policy).replace("REPLIES", replies));
    std::fs::write(dir.join("job.sh"), job).unwrap();
    dir
}

const JOB_THEN_DONE_REPLIES: &str = "[{text: I start it., calls: [{tool: job}]}, 'Done. TASK_COMPLETE']";

#[test]
fn tool_call_interrupted_by_the_runtime_is_repeated_in_the_same_conversation() {
    let dir = agent_project(
        "budget-tool",
        "{budgets: {session: {runtime: 1s}}}",
        JOB_THEN_DONE_REPLIES,
        &slow_first_call("job"),
    );
    run_until_interrupted(&dir, "max_runtime");
    assert_eq!(run_with_path(&dir, &RELEASE_ARGS).code, 0);
    let resumed = run_with_path(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(line_count(&dir, "job"), 2);
    let all = events(&dir, "cut-1");
    let count = |name: &str| all.iter().filter(|event| event["type"] == name).count();
    assert_eq!((count("turn.started"), count("assistant.message"), count("tool.requested")), (1, 2, 2));
    let finished: Vec<&Value> = all.iter().filter(|event| event["type"] == "tool.finished").collect();
    assert_eq!(finished.len(), 1, "the interrupted call is not a result");
    assert_eq!(finished[0]["ok"], true);
}

#[test]
fn model_reply_interrupted_by_the_runtime_is_requested_again() {
    let slow = "[{text: 'Done. TASK_COMPLETE', wait: 3s}]";
    let dir = agent_project("budget-model", "{budgets: {session: {runtime: 1s}}}", slow, "");
    run_until_interrupted(&dir, "max_runtime");
    assert_eq!(run_with_path(&dir, &RELEASE_ARGS).code, 0);
    let resumed = run_with_path(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    let all = event_types(&dir, "cut-1");
    assert_eq!(all.iter().filter(|name| *name == "assistant.message").count(), 1, "{all:?}");
    assert!(all.iter().any(|name| name == "turn.interrupted"), "{all:?}");
}

#[test]
fn gate_interrupted_by_the_runtime_reruns_and_is_not_a_failure() {
    let gate = slow_first_call("gate");
    let workflow = format!(
        "version: 1\nname: cut\npolicy: {{budgets: {{session: {{runtime: 1s}}}}}}\ngates: {{detect: false, rerun: false, gates: [{{name: tests, argv: [sh, -c, \"{gate}\"]}}]}}\nnodes:\n  - {{name: verify, kind: gate, on_success: done, on_failure: failed}}\n"
    );
    let dir = project_with_workflow("budget-gate", &workflow);
    run_until_interrupted(&dir, "max_runtime");
    assert_eq!(run_with_path(&dir, &RELEASE_ARGS).code, 0);
    let resumed = run_with_path(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(event_types(&dir, "cut-1").iter().filter(|name| *name == "gate.checked").count(), 1);
    assert_eq!(line_count(&dir, "gate"), 2);
}

/// Counted budgets: each run is interrupted, and finishes after one default release.
#[test]
fn every_other_budget_lets_a_run_continue_after_one_default_release() {
    let used = "usage: {tokens_in: 5000, tokens_out: 5000}";
    let expensive = format!(
        "[{{text: a, calls: [{{tool: job}}], {used}}}, {{text: b, calls: [{{tool: job}}]}}, 'Done. TASK_COMPLETE']"
    );
    let calls = "[{text: a, calls: [{tool: job}]}, {text: b, calls: [{tool: read, args: {path: job.sh}}]}, 'Done. TASK_COMPLETE']";
    let job = "echo x >> job; echo ok";
    for (name, policy, replies, reason) in [
        ("tokens", "{budgets: {session: {tokens: 100}}}", expensive.as_str(), "max_tokens"),
        ("turn-tokens", "{budgets: {turn: {tokens: 100}}}", expensive.as_str(), "max_tokens"),
        ("cost", "{budgets: {session: {cost_usd: 0.001}}}", expensive.as_str(), "max_cost"),
        ("iterations", "{budgets: {session: {iterations: 1}}}", calls, "max_iterations"),
        ("calls", "{budgets: {session: {tool_calls: 1}}}", calls, "max_steps"),
    ] {
        let dir = agent_project(&format!("budget-{name}"), policy, replies, job);
        run_until_interrupted(&dir, reason);
        let released = run_with_path(&dir, &RELEASE_ARGS);
        assert_eq!(released.code, 0, "{name}: {}{}", released.out, released.err);
        assert!(
            released.out.contains("granted ") && released.out.contains(" in total, "),
            "{}",
            released.out
        );
        let resumed = run_with_path(&dir, &["resume", "cut-1"]);
        assert_eq!(resumed.code, 0, "{name}: {}{}", resumed.out, resumed.err);
    }
}

#[test]
fn budgets_of_turns_nodes_and_loops_continue_after_one_default_release() {
    let workflow = |policy: &str| {
        format!(
            "version: 1\nname: cut\npolicy: {policy}\nnodes:\n  - {{name: work, kind: command, run: 'echo x >> work; echo $(wc -l < work)', next: look}}\n  - {{name: look, kind: command, run: 'test $(wc -l < work) -ge 3', on_success: done, on_failure: work}}\n"
        )
    };
    for (name, policy, reason, unit) in [
        ("turns", "{budgets: {session: {turns: 4}}}", "max_turns", "3 more turns to the session"),
        ("node", "{nodes: {work: {turns: 2}}}", "node_budget", "3 more turns to node 'work'"),
        ("loop", "{budgets: {loop: {iterations: 1}}}", "max_cycle_iterations", "3 more iterations to loop-"),
    ] {
        let dir = project_with_workflow(&format!("budget-{name}"), &workflow(policy));
        run_until_interrupted(&dir, reason);
        let released = run_with_path(&dir, &RELEASE_ARGS);
        assert!(released.out.contains(unit), "{name}: {}{}", released.out, released.err);
        let resumed = run_with_path(&dir, &["resume", "cut-1"]);
        assert_eq!(resumed.code, 0, "{name}: {}{}", resumed.out, resumed.err);
        assert_eq!(line_count(&dir, "work"), 3, "{name}");
    }
}

#[test]
fn final_screen_of_a_budget_halt_shows_the_commands_to_continue() {
    let dir =
        project_with_workflow("budget-screen", &two_step_workflow("{budgets: {session: {runtime: 1s}}}", ""));
    let run = run_until_interrupted(&dir, "max_runtime");
    assert!(
        run.out.contains("flyball release cut-1 --guard budget --why \"…\" && flyball resume cut-1"),
        "{}",
        run.out
    );
    assert!(run.out.contains("# raise the budget by one step and continue"), "{}", run.out);
}

#[test]
fn two_stores_in_one_folder_have_separate_workspaces() {
    let dir = test_dir("two-stores");
    std::fs::create_dir(dir.join("project")).unwrap();
    std::fs::write(dir.join("project/marks"), "").unwrap();
    let workflow = "version: 1\nname: mark\nworkspace: {copy: project}\nnodes:\n  - {name: work, kind: command, run: 'echo x >> marks; test $(wc -l < marks) -eq 1', on_success: done, on_failure: failed}\n";
    std::fs::write(dir.join("workflow.yaml"), workflow).unwrap();
    for store in ["sqlite:a.db", "sqlite:b.db", "sqlite:", "memory:"] {
        let run = run_with_path(&dir, &["run", "workflow.yaml", "--session", "same", "--store", store]);
        assert_eq!(run.code, 0, "{store}: {}{}", run.out, run.err);
    }
    for workspace in ["a.db.files/runs/same", "b.db.files/runs/same", ".flyball/runs/same"] {
        let marks = dir.join(workspace).join("workspace/marks");
        assert_eq!(std::fs::read_to_string(&marks).unwrap(), "x\n", "{workspace}");
    }
    // Names that only differ in characters that a directory name cannot have.
    for session in ["a/b", "a_b", "a b"] {
        let run = run_with_path(&dir, &["run", "workflow.yaml", "--session", session]);
        assert_eq!(run.code, 0, "{session}: {}{}", run.out, run.err);
    }
}

#[test]
fn run_with_the_old_folder_layout_keeps_its_workspace() {
    let dir = test_dir("old-workspace");
    std::fs::create_dir(dir.join("project")).unwrap();
    std::fs::write(dir.join("project/marks"), "").unwrap();
    let workflow = "version: 1\nname: mark\nworkspace: {copy: project}\nnodes:\n  - {name: ask, kind: human, ask: 'How?', next: work}\n  - {name: work, kind: command, run: 'cat marks; grep -q old marks', on_success: done, on_failure: failed}\n";
    std::fs::write(dir.join("workflow.yaml"), workflow).unwrap();
    let store = ["--store", "sqlite:a.db"];
    let run = run_with_path(&dir, &[&["run", "workflow.yaml", "--session", "s"], &store[..]].concat());
    assert_eq!(run.code, 4, "{}{}", run.out, run.err);
    std::fs::create_dir_all(dir.join("runs")).unwrap();
    std::fs::rename(dir.join("a.db.files/runs/s"), dir.join("runs/s")).unwrap();
    std::fs::write(dir.join("runs/s/workspace/marks"), "old\n").unwrap();
    let run = run_with_path(&dir, &[&["send", "s", "so"], &store[..]].concat());
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(dir.join("a.db.files/runs/s/workspace/marks").exists() && !dir.join("runs/s").exists());
}
