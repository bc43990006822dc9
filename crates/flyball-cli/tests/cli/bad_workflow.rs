//! Invalid workflow files: each mistake has its own code, its position in the file and a help text, in `flyball run`
//! and in `flyball check`; nothing runs and no store is created.

use crate::command_harness::{run_flyball, test_dir};
use serde_json::Value;

/// A mistake: description, file, and the expected errors as code and line.
type BadWorkflowCase = (&'static str, &'static str, &'static [(&'static str, usize)]);

const CASES: &[BadWorkflowCase] = &[
    (
        "unknown node kind",
        "nodes:\n  - {name: a, kind: comand, run: ls, next: done}\n",
        &[("workflow_unknown_kind", 2)],
    ),
    (
        "edge to nowhere",
        "nodes:\n  - name: a\n    kind: command\n    run: ls\n    on_success: done\n    on_failure: b\n",
        &[("workflow_unknown_target", 6)],
    ),
    (
        "unreachable node",
        "nodes:\n  - {name: a, kind: command, run: ls, next: done}\n  - {name: b, kind: command, run: ls, next: a}\n",
        &[("workflow_unreachable_node", 3)],
    ),
    (
        "a loop without an exit and without a limit",
        "policy: {preset: off}\nnodes:\n  - {name: a, kind: command, run: ls, next: b}\n  - {name: b, kind: command, run: ls, next: a}\n",
        &[("workflow_endless_loop", 3)],
    ),
    (
        "wrong type",
        "nodes:\n  - name: a\n    kind: agent\n    provider: [x]\n    prompt: hello\n    next: done\n",
        &[("workflow_wrong_type", 4)],
    ),
    (
        "wrong type of a way",
        "nodes:\n  - name: a\n    kind: command\n    run: ls\n    next: {to: done}\n",
        &[("workflow_wrong_type", 5)],
    ),
    (
        "invalid duration",
        "nodes:\n  - name: a\n    kind: command\n    run: ls\n    next: done\n    deadline: soon\n",
        &[("workflow_wrong_type", 6)],
    ),
    (
        "duplicate name",
        "nodes:\n  - {name: a, kind: command, run: ls, next: done}\n  - {name: a, kind: command, run: ls, next: done}\n",
        &[("workflow_duplicate_node", 3)],
    ),
    (
        "unknown key of the file",
        "noeds: []\nnodes:\n  - {name: a, kind: command, run: ls, next: done}\n",
        &[("workflow_unknown_key", 1)],
    ),
    (
        "unknown key of a node",
        "nodes:\n  - name: a\n    kind: command\n    run: ls\n    nxet: done\n",
        &[("workflow_unknown_key", 5)],
    ),
    ("missing name", "nodes:\n  - {kind: command, run: ls, next: done}\n", &[("workflow_missing_name", 2)]),
    ("missing kind", "goal: x\nnodes:\n  - {name: a, run: ls, next: done}\n", &[("workflow_missing_key", 3)]),
    ("missing key", "nodes:\n  - {name: a, kind: command, next: done}\n", &[("workflow_missing_key", 2)]),
    ("no nodes", "goal: x\n", &[("workflow_no_nodes", 1)]),
    (
        "a node that leads nowhere",
        "nodes:\n  - {name: a, kind: command, run: ls}\n",
        &[("workflow_dead_end", 2)],
    ),
    (
        "a name that ends a run",
        "nodes:\n  - {name: done, kind: command, run: ls, next: done}\n",
        &[("workflow_reserved_name", 2)],
    ),
    (
        "unknown provider",
        "nodes:\n  - name: a\n    kind: agent\n    provider: main\n    prompt: hello\n    next: done\n",
        &[("workflow_unknown_provider", 4)],
    ),
    (
        "unknown tool",
        "providers: {main: {kind: script}}\nnodes:\n  - name: a\n    kind: agent\n    provider: main\n    prompt: x\n    tools: [read, telescope]\n    next: done\n",
        &[("workflow_unknown_tool", 7)],
    ),
    (
        "unknown gate",
        "gates: {gates: [{name: tests, argv: [make, test]}]}\nnodes:\n  - name: a\n    kind: gate\n    gates: [lint]\n    next: done\n",
        &[("workflow_unknown_gate", 5)],
    ),
    (
        "a provider that cannot be used",
        "providers:\n  main: {kind: telepathy}\nnodes:\n  - {name: a, kind: agent, provider: main, prompt: x, next: done}\n",
        &[("provider_config", 2)],
    ),
    (
        "a tool that cannot be used",
        "tools:\n  build: {description: builds, argv: [make, '{target}']}\nnodes:\n  - {name: a, kind: tool, tool: build, next: done}\n",
        &[("bad_tool", 2)],
    ),
    (
        "a condition that cannot be read",
        "nodes:\n  - name: a\n    kind: route\n    otherwise: done\n    rules:\n      - {when: \"event.output ==\", to: failed}\n",
        &[("workflow_bad_condition", 6)],
    ),
    (
        "branches that do not meet",
        "nodes:\n  - name: a\n    kind: command\n    run: ls\n    next: [b, c]\n  - {name: b, kind: command, run: ls, next: done}\n  - {name: c, kind: command, run: ls, next: done}\n",
        &[("workflow_no_join", 5)],
    ),
    (
        "a branch that ends the run",
        "nodes:\n  - name: a\n    kind: command\n    run: ls\n    next: [b, c]\n  - {name: b, kind: command, run: ls, on_success: j, on_failure: done}\n  - {name: c, kind: command, run: ls, next: j}\n  - {name: j, kind: join, next: done}\n",
        &[("workflow_branch_ends", 5)],
    ),
    (
        "a quorum that cannot be had",
        "nodes:\n  - {name: a, kind: command, run: ls, next: [b, c]}\n  - {name: b, kind: command, run: ls, next: j}\n  - {name: c, kind: command, run: ls, next: j}\n  - {name: j, kind: join, wait: quorum, count: 3, next: done}\n",
        &[("workflow_bad_quorum", 5)],
    ),
    (
        "a version of tomorrow",
        "version: 9\nnodes:\n  - {name: a, kind: command, run: ls, next: done}\n",
        &[("workflow_version", 1)],
    ),
    (
        "two mistakes at once",
        "nodes:\n  - {name: a, kind: comand, run: ls, next: done}\n  - {name: b, kind: command, runs: ls, next: done}\n",
        &[("workflow_unknown_kind", 2), ("workflow_unknown_key", 3)],
    ),
];

#[test]
fn every_workflow_error_has_a_code_a_location_and_help() {
    let dir = test_dir("bad-workflows");
    for (name, text, complaints) in CASES {
        std::fs::write(dir.join("w.yaml"), text).unwrap();
        for command in ["run", "check"] {
            let run = run_flyball(&dir, &[command, "w.yaml"], b"", &[]);
            let context = format!("{command}, {name}: {}", run.err);
            assert_eq!(run.code, 1, "{context}");
            assert_eq!(run.out, "", "{context}");
            let lines: Vec<&str> = run.err.lines().collect();
            assert_eq!(lines.len(), 2 * complaints.len(), "{context}");
            for (pair, (code, line)) in lines.chunks(2).zip(*complaints) {
                let head = format!("error[{code}]: w.yaml:{line}:");
                assert!(pair[0].starts_with(&head), "{head}: {context}");
                let help = pair[1].strip_prefix("  help: ").unwrap_or_default();
                assert!(help.len() >= 5, "{context}");
            }
        }
    }
    assert!(!dir.join(".flyball").exists(), "nothing was run, so nothing was stored");
}

#[test]
fn invalid_yaml_is_reported_with_its_line() {
    let dir = test_dir("broken-workflow");
    let cases = [
        ("nodes:\n  - {name: a, kind: command\n  - x\n", "workflow_syntax", "policy_syntax"),
        ("nodes: []\ngoal: x\nnodes: []\n", "workflow_duplicate_key", "policy_duplicate_key"),
    ];
    for (text, code, in_check) in cases {
        std::fs::write(dir.join("w.yaml"), text).unwrap();
        let run = run_flyball(&dir, &["run", "w.yaml"], b"", &[]);
        assert_eq!(run.code, 1, "{}", run.out);
        assert!(run.err.starts_with(&format!("error[{code}]: w.yaml:")), "{}", run.err);
        // `check` cannot tell yet what kind of file this is.
        let run = run_flyball(&dir, &["check", "w.yaml"], b"", &[]);
        assert!(run.err.starts_with(&format!("error[{in_check}]: w.yaml:")), "{}", run.err);
    }
}

#[test]
fn check_lists_nodes_and_worst_case_bounds() {
    let dir = test_dir("check-plan");
    let text = "name: two-phase\ngoal: ship it\npolicy: {on_stall: spawn_reviewer}\nnodes:\n  - {name: work, kind: command, run: [make, all], next: verify}\n  - {name: verify, kind: command, run: make test, on_success: done, on_failure: work}\n";
    std::fs::write(dir.join("workflow.yaml"), text).unwrap();
    let run = run_flyball(&dir, &["check", "."], b"", &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    for part in [
        "two-phase: ship it, starts at work",
        "command  runs `make all`; then verify",
        "success → done; failure → work",
        "restarts at work via verify->work",
        "transitions  at most ",
        "warning[workflow_nobody_steps_in]",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    let run = run_flyball(&dir, &["check", "--json", "workflow.yaml"], b"", &[]);
    let all: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(all["nodes"][0]["name"], "work");
    assert_eq!(all["nodes"][1]["leads_to"], serde_json::json!(["done", "work"]));
    assert!(all["bounds"]["turns"]["value"].is_u64(), "{}", run.out);
    // The reported limits are those of a run here, including the project's own policy.
    let promised = |dir: &std::path::Path| {
        let run = run_flyball(dir, &["check", "--json", "workflow.yaml"], b"", &[]);
        let all: Value = serde_json::from_str(&run.out).unwrap();
        all["bounds"]["transitions"]["value"].as_u64().unwrap()
    };
    let before = promised(&dir);
    std::fs::write(dir.join("flyball.yaml"), "budgets: {loop: {iterations: 2}}\n").unwrap();
    assert!(promised(&dir) < before, "{before}");
}
