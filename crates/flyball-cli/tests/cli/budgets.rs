//! A run that a budget has cut continues after a release: nothing is lost, and the interrupted step is no failure.

use crate::kit::{Run, flyball, folder};
use flyball_journal::Address;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn at_work(folder: &Path, args: &[&str]) -> Run {
    let path = std::env::var("PATH").unwrap_or_default();
    flyball(folder, args, b"", &[("PATH", &path), ("USER", "anna")])
}

fn with(name: &str, workflow: &str) -> PathBuf {
    let folder = folder(name);
    std::fs::write(folder.join("workflow.yaml"), workflow).unwrap();
    folder
}

/// The stored events of a session.
fn events(folder: &Path, session: &str) -> Vec<Value> {
    let desk = Address::project(folder).open_existing().expect("the store");
    let records = desk.records(session, 1, u64::MAX >> 1).expect("its events");
    records.iter().map(|record| serde_json::from_str(&record.text).unwrap()).collect()
}

fn types(folder: &Path, session: &str) -> Vec<String> {
    events(folder, session).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

fn lines(folder: &Path, file: &str) -> usize {
    std::fs::read_to_string(folder.join(file)).unwrap_or_default().lines().count()
}

/// A shell line that writes a line into a file, and sleeps for a minute unless it was called before.
fn slow_at_first(file: &str) -> String {
    format!("echo x >> {file}; if [ $(wc -l < {file}) -lt 2 ]; then sleep 60; fi; echo finished")
}

fn two_steps(policy: &str, more: &str) -> String {
    format!(
        "version: 1\nname: cut\npolicy: {policy}\nnodes:\n  - {{name: work, kind: command, run: \"{}\", on_success: after, on_failure: mend{more}}}\n  - {{name: after, kind: command, run: 'echo x >> after', next: done}}\n  - {{name: mend, kind: command, run: 'echo x >> mended', next: failed}}\n",
        slow_at_first("work")
    )
}

const RELEASE: [&str; 6] = ["release", "cut-1", "--guard", "budget", "--why", "it is worth it"];

fn cut(folder: &Path, reason: &str) -> Run {
    let run = at_work(folder, &["run", "workflow.yaml"]);
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    assert!(run.out.contains(reason), "{}", run.out);
    run
}

#[test]
fn a_step_that_the_runtime_cuts_is_repeated_after_a_default_release() {
    let dir = with("budget-runtime", &two_steps("{budgets: {session: {runtime: 1s}}}", ""));
    cut(&dir, "max_runtime");
    // Without a release it stays where it is, however often it is taken up.
    assert_eq!(at_work(&dir, &["resume", "cut-1"]).code, 3);
    assert_eq!(lines(&dir, "work"), 1);
    let released = at_work(&dir, &RELEASE);
    assert_eq!(released.code, 0, "{}{}", released.out, released.err);
    assert!(
        released.out.contains("Released: budget, granted 10m0s more runtime to the session: 10m"),
        "{}",
        released.out
    );
    let resumed = at_work(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!((lines(&dir, "work"), lines(&dir, "after"), lines(&dir, "mended")), (2, 1, 0));
    let all = types(&dir, "cut-1");
    let wanted = ["turn.started", "turn.interrupted", "human.released", "turn.resumed", "turn.finished"];
    assert_eq!(all.iter().filter(|name| wanted.contains(&name.as_str())).take(5).collect::<Vec<_>>(), wanted);
    let finished = events(&dir, "cut-1").into_iter().find(|event| event["type"] == "turn.finished").unwrap();
    assert_eq!((&finished["outcome"], &finished["output"]), (&"success".into(), &"finished".into()));
}

#[test]
fn a_step_that_a_budget_cuts_is_skipped_if_the_workflow_says_so() {
    let dir = with("budget-skip", &two_steps("{budgets: {session: {runtime: 1s}}}", ", on_interrupt: skip"));
    cut(&dir, "max_runtime");
    assert_eq!(at_work(&dir, &RELEASE).code, 0);
    let resumed = at_work(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!((lines(&dir, "work"), lines(&dir, "after"), lines(&dir, "mended")), (1, 1, 0));
    let finished = events(&dir, "cut-1").into_iter().find(|event| event["type"] == "turn.finished").unwrap();
    assert_eq!(finished["outcome"], "skipped");
}

#[test]
fn a_turn_that_its_timeout_cuts_gets_its_time_again() {
    let dir = with("budget-turn", &two_steps("{budgets: {turn: {timeout: 1s}}}", ""));
    cut(&dir, "turn_timeout");
    let released = at_work(&dir, &RELEASE);
    assert!(released.out.contains("granted 1s more time to a turn of node 'work'"), "{}", released.out);
    let resumed = at_work(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!((lines(&dir, "work"), lines(&dir, "mended")), (2, 0));
}

#[test]
fn a_deadline_of_the_node_itself_is_a_failure_and_no_budget() {
    let dir = with("budget-own", &two_steps("{preset: workflow}", ", deadline: 1s"));
    let run = at_work(&dir, &["run", "workflow.yaml"]);
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    assert_eq!((lines(&dir, "work"), lines(&dir, "mended")), (1, 1));
}

#[test]
fn the_repeated_step_of_a_killed_run_is_not_run_a_third_time_unasked() {
    let slow = "echo x >> work; sleep 60";
    let workflow = |more: &str| {
        format!(
            "version: 1\nname: cut\npolicy: {{budgets: {{session: {{runtime: 1s}}}}}}\nnodes:\n  - {{name: work, kind: command, run: '{slow}', next: done{more}}}\n"
        )
    };
    for (name, more, code, ran) in
        [("budget-killed", "", 4, 2), ("budget-killed-skip", ", on_interrupt: skip", 0, 1)]
    {
        let dir = with(name, &workflow(more));
        cut(&dir, "max_runtime");
        assert_eq!(at_work(&dir, &RELEASE).code, 0);
        if more.is_empty() {
            kill_when(&dir, || lines(&dir, "work") == 2);
        }
        let resumed = at_work(&dir, &["resume", "cut-1"]);
        assert_eq!(resumed.code, code, "{name}: {}{}", resumed.out, resumed.err);
        assert_eq!(lines(&dir, "work"), ran, "{name}");
    }
}

/// Takes the run up in a process that is killed as soon as something is so.
fn kill_when(folder: &Path, is_so: impl Fn() -> bool) {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["resume", "cut-1"])
        .current_dir(folder)
        .env_clear()
        .envs([("PATH", path.as_str()), ("USER", "anna")])
        .env("XDG_STATE_HOME", crate::kit::state(folder))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "it did not come to that");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

const AGENT: &str = r#"version: 1
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

fn agent(name: &str, policy: &str, replies: &str, job: &str) -> PathBuf {
    let dir = with(name, &AGENT.replace("POLICY", policy).replace("REPLIES", replies));
    std::fs::write(dir.join("job.sh"), job).unwrap();
    dir
}

const JOB_AND_DONE: &str = "[{text: I start it., calls: [{tool: job}]}, 'Done. TASK_COMPLETE']";

#[test]
fn a_tool_call_that_the_runtime_cuts_is_made_again_and_the_conversation_is_kept() {
    let dir =
        agent("budget-tool", "{budgets: {session: {runtime: 1s}}}", JOB_AND_DONE, &slow_at_first("job"));
    cut(&dir, "max_runtime");
    assert_eq!(at_work(&dir, &RELEASE).code, 0);
    let resumed = at_work(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(lines(&dir, "job"), 2);
    let all = events(&dir, "cut-1");
    let count = |name: &str| all.iter().filter(|event| event["type"] == name).count();
    assert_eq!((count("turn.started"), count("assistant.message"), count("tool.requested")), (1, 2, 2));
    let finished: Vec<&Value> = all.iter().filter(|event| event["type"] == "tool.finished").collect();
    assert_eq!(finished.len(), 1, "the call that was cut is no result");
    assert_eq!(finished[0]["ok"], true);
}

#[test]
fn an_answer_of_the_model_that_the_runtime_cuts_is_asked_for_again() {
    let slow = "[{text: 'Done. TASK_COMPLETE', wait: 3s}]";
    let dir = agent("budget-model", "{budgets: {session: {runtime: 1s}}}", slow, "");
    cut(&dir, "max_runtime");
    assert_eq!(at_work(&dir, &RELEASE).code, 0);
    let resumed = at_work(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    let all = types(&dir, "cut-1");
    assert_eq!(all.iter().filter(|name| *name == "assistant.message").count(), 1, "{all:?}");
    assert!(all.iter().any(|name| name == "turn.interrupted"), "{all:?}");
}

#[test]
fn a_gate_that_the_runtime_cuts_is_run_again_and_blames_nobody() {
    let gate = slow_at_first("gate");
    let workflow = format!(
        "version: 1\nname: cut\npolicy: {{budgets: {{session: {{runtime: 1s}}}}}}\ngates: {{detect: false, rerun: false, gates: [{{name: tests, argv: [sh, -c, \"{gate}\"]}}]}}\nnodes:\n  - {{name: verify, kind: gate, on_success: done, on_failure: failed}}\n"
    );
    let dir = with("budget-gate", &workflow);
    cut(&dir, "max_runtime");
    assert_eq!(at_work(&dir, &RELEASE).code, 0);
    let resumed = at_work(&dir, &["resume", "cut-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(types(&dir, "cut-1").iter().filter(|name| *name == "gate.checked").count(), 1);
    assert_eq!(lines(&dir, "gate"), 2);
}

/// Budgets that are counted: each run is cut, and comes to its end with one default release.
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
        let dir = agent(&format!("budget-{name}"), policy, replies, job);
        cut(&dir, reason);
        let released = at_work(&dir, &RELEASE);
        assert_eq!(released.code, 0, "{name}: {}{}", released.out, released.err);
        assert!(released.out.contains("granted ") && released.out.contains(" in all, "), "{}", released.out);
        let resumed = at_work(&dir, &["resume", "cut-1"]);
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
        let dir = with(&format!("budget-{name}"), &workflow(policy));
        cut(&dir, reason);
        let released = at_work(&dir, &RELEASE);
        assert!(released.out.contains(unit), "{name}: {}{}", released.out, released.err);
        let resumed = at_work(&dir, &["resume", "cut-1"]);
        assert_eq!(resumed.code, 0, "{name}: {}{}", resumed.out, resumed.err);
        assert_eq!(lines(&dir, "work"), 3, "{name}");
    }
}

#[test]
fn the_last_screen_of_a_budget_names_the_commands_that_continue() {
    let dir = with("budget-screen", &two_steps("{budgets: {session: {runtime: 1s}}}", ""));
    let run = cut(&dir, "max_runtime");
    assert!(
        run.out.contains("flyball release cut-1 --guard budget --why \"…\" && flyball resume cut-1"),
        "{}",
        run.out
    );
    assert!(run.out.contains("# raise the budget by a step, and continue"), "{}", run.out);
}

#[test]
fn two_stores_in_one_folder_have_a_workspace_each() {
    let dir = folder("two-stores");
    std::fs::create_dir(dir.join("project")).unwrap();
    std::fs::write(dir.join("project/marks"), "").unwrap();
    let workflow = "version: 1\nname: mark\nworkspace: {copy: project}\nnodes:\n  - {name: work, kind: command, run: 'echo x >> marks; test $(wc -l < marks) -eq 1', on_success: done, on_failure: failed}\n";
    std::fs::write(dir.join("workflow.yaml"), workflow).unwrap();
    for store in ["sqlite:a.db", "sqlite:b.db", "sqlite:", "memory:"] {
        let run = at_work(&dir, &["run", "workflow.yaml", "--session", "same", "--store", store]);
        assert_eq!(run.code, 0, "{store}: {}{}", run.out, run.err);
    }
    for workspace in ["a.db.files/runs/same", "b.db.files/runs/same", ".flyball/runs/same"] {
        let marks = dir.join(workspace).join("workspace/marks");
        assert_eq!(std::fs::read_to_string(&marks).unwrap(), "x\n", "{workspace}");
    }
    // Names that only differ in what a folder's name cannot have.
    for session in ["a/b", "a_b", "a b"] {
        let run = at_work(&dir, &["run", "workflow.yaml", "--session", session]);
        assert_eq!(run.code, 0, "{session}: {}{}", run.out, run.err);
    }
}

#[test]
fn a_run_from_before_stores_had_folders_of_their_own_keeps_its_workspace() {
    let dir = folder("old-workspace");
    std::fs::create_dir(dir.join("project")).unwrap();
    std::fs::write(dir.join("project/marks"), "").unwrap();
    let workflow = "version: 1\nname: mark\nworkspace: {copy: project}\nnodes:\n  - {name: ask, kind: human, ask: 'How?', next: work}\n  - {name: work, kind: command, run: 'cat marks; grep -q old marks', on_success: done, on_failure: failed}\n";
    std::fs::write(dir.join("workflow.yaml"), workflow).unwrap();
    let store = ["--store", "sqlite:a.db"];
    let run = at_work(&dir, &[&["run", "workflow.yaml", "--session", "s"], &store[..]].concat());
    assert_eq!(run.code, 4, "{}{}", run.out, run.err);
    std::fs::create_dir_all(dir.join("runs")).unwrap();
    std::fs::rename(dir.join("a.db.files/runs/s"), dir.join("runs/s")).unwrap();
    std::fs::write(dir.join("runs/s/workspace/marks"), "old\n").unwrap();
    let run = at_work(&dir, &[&["send", "s", "so"], &store[..]].concat());
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(dir.join("a.db.files/runs/s/workspace/marks").exists() && !dir.join("runs/s").exists());
}
