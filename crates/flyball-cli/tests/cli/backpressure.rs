//! Backpressure through the pipe and in a run: the feedback for a blocked completion.

use crate::command_harness::{CliStore, CommandOutput, run_flyball, test_dir};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn blocking_event(decision: &Value) -> &Value {
    let effects = decision["effects"].as_array().unwrap_or_else(|| panic!("{decision}"));
    effects.iter().find(|effect| effect["effect"] == "completion.blocked").unwrap_or(&Value::Null)
}

fn observe(folder: &Path, policy: &str, events: &[Value]) -> Vec<Value> {
    std::fs::write(folder.join("policy.yaml"), policy).unwrap();
    let input: String = events.iter().map(|event| format!("{event}\n")).collect();
    let run = run_flyball(folder, &["observe", "--policy", "policy.yaml"], input.as_bytes(), &[]);
    run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const CARGO_OUTPUT: &str = "\nrunning 2 tests\ntest tests::adds ... FAILED\ntest tests::divides ... ok\n\nfailures:\n\n---- tests::adds stdout ----\n\nthread 'tests::adds' panicked at src/lib.rs:28:9:\nassertion `left == right` failed\n  left: 4\n right: 5\n\n\nfailures:\n    tests::adds\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n";

#[test]
fn raw_tool_output_is_parsed_and_returns_a_blocking_event() {
    let store = CliStore::in_file("raw-checks");
    let event = json!({"type": "gate.checked", "session": "s", "id": "g1", "request": "TASK_COMPLETE", "checks": [
        {"name": "build", "kind": "cargo-build", "output": "", "exit_code": 0},
        {"name": "tests", "kind": "cargo-test", "output": CARGO_OUTPUT},
        {"name": "lint", "kind": "eslint", "output": "[]"},
    ]});
    let decision = store.event(&event.to_string());
    let event_blocked = blocking_event(&decision);
    assert_eq!(decision["decision"], "block");
    assert_eq!(event_blocked["original_request"], "TASK_COMPLETE");
    assert_eq!(
        (&event_blocked["blocked_by"], &event_blocked["summary"]),
        (&json!("tests"), &json!("tests failed"))
    );
    let detail = event_blocked["details"][0].as_str().unwrap();
    assert!(detail.starts_with("tests::adds: ") && detail.ends_with("(src/lib.rs:28)"), "{detail}");
    assert_eq!(event_blocked["suggestions"].as_array().unwrap().len(), 3);
    assert_eq!(event_blocked["gate_result"]["lint"]["passed"], true);
    let text = event_blocked["text"].as_str().unwrap();
    assert!(text.starts_with("## Completion Blocked: tests failed\n\nYour `TASK_COMPLETE` request was blocked.\n\n### Issues Found\n- "), "{text}");
    assert!(
        text.ends_with("### Gate Status\n[ ] tests: failed\n[x] lint: passed\n[x] build: passed\n"),
        "{text}"
    );
    // Another process gives the same answer to the same event; another body is a conflict.
    assert_eq!(store.event(&event.to_string()), decision);
    let mut other = event.clone();
    other["checks"][1]["output"] = json!("test result: ok. 1 passed; 0 failed;");
    assert_eq!(store.event(&other.to_string())["error"]["code"], "event_conflict");
}

#[test]
fn unknown_check_kind_is_rejected_and_loses_nothing() {
    let store = CliStore::in_file("raw-unknown");
    let wrong = json!({"type": "gate.checked", "session": "s", "checks": [{"name": "t", "kind": "pytset", "output": ""}]});
    let answer = store.event(&wrong.to_string());
    assert_eq!(answer["error"]["code"], "unknown_check_kind");
    assert!(answer["error"]["advice"].as_str().unwrap().starts_with("did you mean `pytest`?"), "{answer}");
    let right = json!({"type": "gate.checked", "session": "s", "checks": [{"name": "t", "kind": "pytest", "output": "3 passed in 0.1s"}]});
    let answer = store.event(&right.to_string());
    assert_eq!((&answer["seq"], &answer["decision"]), (&json!(1), &json!("allow")), "{answer}");
}

#[test]
fn dependents_of_a_failed_check_are_skipped() {
    let dir = test_dir("gate-dependencies");
    let event = json!({"type": "gate.checked", "checks": [
        {"name": "lint", "passed": false, "details": ["l"]}, {"name": "build", "passed": false, "details": ["b"]}]});
    let with = observe(&dir, "resilience: {gate_dependencies: ['lint:build']}", std::slice::from_ref(&event));
    let event_blocked = blocking_event(&with[0]);
    assert_eq!((&event_blocked["blocked_by"], &event_blocked["details"]), (&json!("build"), &json!(["b"])));
    assert_eq!(event_blocked["gate_result"]["lint"]["skip_reason"], "skipped: build failed");
    assert!(event_blocked["text"].as_str().unwrap().contains("[~] lint: skipped"));
    let without = observe(&dir, "preset: agent", &[event]);
    assert_eq!(blocking_event(&without[0])["details"], json!(["b", "lint: l"]));
    let circle = "guards: {gate: {dependencies: ['lint:build', 'build:lint']}}";
    std::fs::write(dir.join("circle.yaml"), circle).unwrap();
    let check = run_flyball(&dir, &["check", "circle.yaml"], b"", &[]);
    assert_eq!(check.code, 1, "{}{}", check.out, check.err);
    assert!(check.err.contains("depend on each other"), "{}", check.err);
}

#[test]
fn a_garbled_completion_request_is_a_validation_failure() {
    let dir = test_dir("bad-completion");
    let garbled = json!({"type": "completion.requested", "request": "TASK_COMPLETE{\"skip_tests\": tru"});
    let all = observe(&dir, "preset: agent", &[garbled.clone(), garbled.clone(), garbled]);
    let decisions: Vec<&str> = all.iter().map(|answer| answer["decision"].as_str().unwrap()).collect();
    assert_eq!(decisions, ["block", "block", "halt"]);
    assert_eq!(all[0]["trips"][0]["scope"]["kind"], "bad_completion");
    assert!(
        all[0]["feedback"].as_str().unwrap().starts_with("Failed to parse your response: "),
        "{}",
        all[0]
    );
    assert_eq!(all[2]["trips"][0]["reason"], "validation_failure");
}

fn run_with_path(folder: &Path, args: &[&str]) -> CommandOutput {
    let path = std::env::var("PATH").unwrap_or_default();
    run_flyball(folder, args, b"", &[("PATH", &path), ("USER", "anna")])
}

fn agent_workflow(name: &str, policy: &str, gates: &str, replies: &str, node: &str) -> PathBuf {
    let dir = test_dir(name);
    let workflow = format!(
        "version: 1\nname: agent\npolicy: {policy}\nproviders: {{main: {{kind: script, nodes: {{coder: {{replies: {replies}}}}}}}}}\ngates: {gates}\nnodes:\n  - {{name: coder, kind: agent, provider: main, tools: [read], prompt: Do it., on_success: done, on_failure: failed{node}}}\n"
    );
    std::fs::write(dir.join("workflow.yaml"), workflow).unwrap();
    dir
}

fn json_lines(run: &CommandOutput) -> Vec<Value> {
    run.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn garbled_completion_signal_never_ends_a_run_successfully() {
    let garbled = "['TASK_COMPLETE{\"skip_tests\": tru', 'TASK_COMPLETE and then some', 'TASK_COMPLETED']";
    for (name, node) in [("bad-signal-bare", ""), ("bad-signal", ", completion: TASK_COMPLETE")] {
        let dir = agent_workflow(name, "{preset: workflow}", "{detect: false}", garbled, node);
        let run = run_with_path(&dir, &["run", "workflow.yaml", "--json"]);
        assert_eq!(run.code, 3, "{}{}", run.out, run.err);
        assert!(run.out.contains("bad_completion") && run.out.contains("validation_failure"), "{}", run.out);
    }
    let mended = "['TASK_COMPLETE garbage', 'I see. TASK_COMPLETE']";
    let dir = agent_workflow(
        "bad-signal-mended",
        "{preset: workflow}",
        "{detect: false}",
        mended,
        ", completion: TASK_COMPLETE",
    );
    let run = run_with_path(&dir, &["run", "workflow.yaml"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let mentioned = "['I will say TASK_COMPLETE when it is done.', 'It is done. TASK_COMPLETE']";
    let dir = agent_workflow(
        "signal-mentioned",
        "{preset: workflow}",
        "{detect: false}",
        mentioned,
        ", completion: TASK_COMPLETE",
    );
    let run = run_with_path(&dir, &["run", "workflow.yaml"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(run.out.contains("It is done."), "a mention is not a signal: {}", run.out);
}

#[test]
fn gate_dependencies_follow_the_policy() {
    let gates = "{detect: false, rerun: false, gates: [{name: lint, argv: [sh, -c, 'echo x >> linted; exit 1']}, {name: build, argv: [sh, -c, 'echo broken; exit 1']}]}";
    let policy = "{resilience: {gate_dependencies: ['lint:build']}}";
    let replies = "['One. TASK_COMPLETE', 'I fixed it. TASK_COMPLETE', 'Now it builds. TASK_COMPLETE', 'Sure. TASK_COMPLETE']";
    let dir = agent_workflow("run-dependencies", policy, gates, replies, ", gates: [lint, build]");
    let run = run_with_path(&dir, &["run", "workflow.yaml", "--json"]);
    assert_eq!(run.code, 5, "{}{}", run.out, run.err);
    assert!(!dir.join("linted").exists(), "lint must not run while the build fails");
    assert!(run.out.contains("skipped: build failed"), "{}", run.out);
    let circle = gates.replace("{name: build,", "{name: build, needs: [lint],");
    let dir = agent_workflow("run-circle", policy, &circle, replies, ", gates: [lint, build]");
    let check = run_with_path(&dir, &["check", "workflow.yaml"]);
    assert_eq!(check.code, 1, "{}{}", check.out, check.err);
    assert!(check.err.contains("gate_cycle"), "{}", check.err);
    assert_eq!(run_with_path(&dir, &["run", "workflow.yaml"]).code, 1);
}

#[test]
fn agent_may_skip_only_checks_the_workflow_allows() {
    let gates = "{detect: false, rerun: false, gates: [{name: lint, may_skip: true, argv: [sh, -c, 'echo x >> linted; exit 1']}, {name: tests, argv: [sh, -c, 'echo x >> tested']}]}";
    let replies = "['TASK_COMPLETE {\"skip\": [\"lint\", \"tests\"]}']";
    let dir = agent_workflow("asked-to-skip", "{preset: workflow}", gates, replies, ", gates: [lint, tests]");
    let run = run_with_path(&dir, &["run", "workflow.yaml"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(!dir.join("linted").exists() && dir.join("tested").exists());
}

#[test]
fn agent_in_a_run_receives_the_blocking_event_text() {
    let gates = "{detect: false, rerun: false, gates: [{name: tests, argv: [sh, -c, 'echo \"--- FAIL: TestAdd (0.00s)\"; echo \"    calc_test.go:9: got 4\"; echo FAIL; exit 1']}]}";
    let replies = "['One. TASK_COMPLETE', 'I fixed it. TASK_COMPLETE', 'Now it passes. TASK_COMPLETE', 'Sure. TASK_COMPLETE']";
    let dir = agent_workflow("run-blocking", "{preset: workflow}", gates, replies, ", gates: [tests]");
    let run = run_with_path(&dir, &["run", "workflow.yaml", "--json"]);
    assert_eq!(run.code, 5, "{}{}", run.out, run.err);
    assert!(!json_lines(&run).is_empty());
    assert!(run.out.contains("## Completion Blocked: tests failed"), "{}", run.out);
    assert!(run.out.contains("TestAdd") && run.out.contains("calc_test.go:9"), "{}", run.out);
}
