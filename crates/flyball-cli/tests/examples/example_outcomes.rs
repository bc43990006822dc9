//! Each example ends as its page says, for the reason given there, and has done its work.

use crate::example_cases::{ALL, ExampleCase};
use crate::example_harness::{ExampleDir, StoredEntry};
use serde_json::Value;
use std::collections::BTreeMap;

type SessionEntries = BTreeMap<String, Vec<StoredEntry>>;

fn run_example(name: &str) -> (ExampleDir, ExampleCase, SessionEntries) {
    let (dir, case) = (ExampleDir::new(&format!("facts-{name}")), ExampleCase::by_name(name));
    case.run_all_stages(&dir);
    let sessions = dir.sessions(case.session);
    (dir, case, sessions)
}

fn entries_of_type<'a>(entries: &'a [StoredEntry], kind: &str) -> Vec<&'a StoredEntry> {
    entries.iter().filter(|entry| entry.event_type() == kind).collect()
}

/// The effects of a session with a name.
fn effects<'a>(entries: &'a [StoredEntry], name: &str) -> Vec<&'a Value> {
    let all = entries.iter().flat_map(|entry| entry.decision["effects"].as_array().unwrap());
    all.filter(|effect| effect["effect"] == name).collect()
}

/// Verdict, guard and reason of every trip other than warnings.
fn refusals(entries: &[StoredEntry]) -> Vec<(String, String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let trips = entries.iter().flat_map(|entry| entry.decision["trips"].as_array().unwrap());
    let grave = trips.filter(|trip| trip["severity"] != "warn");
    grave.map(|trip| (word(&trip["severity"]), word(&trip["guard"]), word(&trip["reason"]))).collect()
}

fn refusal(severity: &str, guard: &str, reason: &str) -> (String, String, String) {
    (severity.to_owned(), guard.to_owned(), reason.to_owned())
}

#[test]
fn every_example_workflow_is_tested() {
    let mut found = Vec::new();
    let mut open = vec![crate::example_harness::repo_root().join("examples")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "yaml")
                && std::fs::read_to_string(&path).unwrap().contains("    kind: script")
            {
                found.push(path);
            }
        }
    }
    for path in found {
        let played = |case: &&ExampleCase| {
            let file = crate::example_harness::repo_root().join("examples").join(case.file);
            path == file || path == file.join("workflow.yaml")
        };
        assert!(ALL.iter().any(|case| played(&case)), "{}: no test runs it", path.display());
    }
}

#[test]
fn fix_until_green_ends_with_real_tests_that_pass() {
    let (dir, case, sessions) = run_example("fix-until-green");
    let entries = &sessions[case.session];
    let failing: Vec<usize> = entries_of_type(entries, "progress")
        .iter()
        .filter_map(|entry| entry.event["failing"].as_array().map(Vec::len))
        .collect();
    assert_eq!(failing, [2, 1, 0]);
    let lib = &dir.files(case.session)["src/lib.rs"];
    assert!(lib.contains("(cents * percent + 50) / 100") && lib.contains("{:02}"), "{lib}");
    assert_eq!(entries.last().unwrap().event["outcome"], "success");
}

#[test]
fn stuck_fix_until_green_is_halted_with_evidence() {
    let (_, case, sessions) = run_example("fix-until-green-stuck");
    let entries = &sessions[case.session];
    let halted = effects(entries, "loop.halted");
    assert_eq!(halted.len(), 1);
    assert_eq!(halted[0]["haltReason"], "stalled");
    assert!(halted[0]["cycleId"].as_str().unwrap().starts_with("loop-"));
    assert_eq!(halted[0]["evidence"]["trends"]["tests"], serde_json::json!([3, 3]));
    assert!(!halted[0]["suggestedActions"].as_array().unwrap().is_empty());
}

#[test]
fn ralph_recovers_from_loops_and_ends_when_the_gate_passes() {
    let (dir, case, sessions) = run_example("ralph");
    let entries = &sessions[case.session];
    let kinds: Vec<&str> = entries_of_type(entries, "validation.failed")
        .iter()
        .map(|entry| entry.event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["malformed_json", "missing_field"]);
    assert_eq!(entries_of_type(entries, "validation.passed").len(), 1);
    assert_eq!(
        refusals(entries),
        [refusal("block", "repetition", "repetition_loop"), refusal("block", "gate", "quality_gate_blocked")]
    );
    let lint = |entry: &&StoredEntry| entry.event["tool"] == "lint";
    let asked: Vec<&StoredEntry> =
        entries_of_type(entries, "tool.requested").into_iter().filter(lint).collect();
    let verdicts: Vec<&Value> = asked.iter().map(|entry| &entry.decision["decision"]).collect();
    assert_eq!(verdicts, ["allow", "allow", "warn", "warn", "warn", "block"]);
    let feedback = asked[5].decision["feedback"].as_str().unwrap();
    assert!(feedback.contains("Try a different approach"), "{feedback}");
    let ran = dir.execution_counts().iter().filter(|(key, _)| key.starts_with("call ")).count();
    assert_eq!(ran, 6, "five lint calls and one history call: the sixth lint call never ran");

    let large = entries_of_type(entries, "tool.finished")
        .into_iter()
        .find(|entry| entry.event["output"].as_str().is_some_and(|output| output.contains("build 00001")));
    let preview = large.unwrap().event["output"].as_str().unwrap();
    assert!(preview.len() < 5_000, "306,000 characters were stored separately: {}", preview.len());
    assert!(preview.contains("306000 characters"), "{preview}");

    let gates = entries_of_type(entries, "gate.checked");
    assert_eq!(gates.len(), 2);
    let effects = gates[0].decision["effects"].as_array().unwrap();
    let blocked = effects.iter().find(|effect| effect["effect"] == "completion.blocked").unwrap();
    let words = blocked["text"].as_str().unwrap();
    assert!(words.starts_with("## Completion Blocked: tests failed"), "{words}");
    assert!(words.contains("Your `TASK_COMPLETE` request was blocked."), "{words}");
    assert!(words.contains("punctuation is left out"), "{words}");
    assert_eq!(gates[1].decision["decision"], "allow");
    assert_eq!(gates[1].event["checks"][0]["passed"], true);
    assert!(dir.files(case.session)["lib/slug.sh"].contains("tr -cs"));
}

#[test]
fn the_large_response_of_ralph_is_counted() {
    let (dir, _, _) = run_example("ralph");
    let metrics: Value = serde_json::from_str(&dir.run(&["metrics", "--json"]).out).unwrap();
    assert_eq!(metrics["large_responses"], 1, "{metrics}");
    assert_eq!(metrics["validation_failures"], 2, "{metrics}");
}

#[test]
fn ralph_that_never_passes_is_stopped_by_the_gate() {
    let (_, case, sessions) = run_example("ralph-never");
    let entries = &sessions[case.session];
    assert_eq!(refusals(entries).last(), Some(&refusal("halt", "gate", "quality_gate_exhausted")));
    assert_eq!(entries_of_type(entries, "gate.checked").len(), 5);
    assert_eq!(effects(entries, "loop.halted").len(), 1);
}

#[test]
fn labeled_issue_waits_for_a_person_and_continues_after_release() {
    let case = ExampleCase::by_name("issues");
    let dir = ExampleDir::new("facts-issues");
    let step = |at: usize| {
        let (stage, code) = case.stages[at];
        let args = case.args(stage);
        let ran = dir.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
        ran
    };
    step(0);
    let entries = dir.sessions(case.session).remove(case.session).unwrap();
    assert_eq!(refusals(&entries), [refusal("block", "visits", "visit_limit")]);
    let message = entries.last().unwrap().decision["trips"][0]["message"].as_str().unwrap();
    assert_eq!(message, "Phase 'test' exceeded max_visits (2) with 2 visits");
    let label = "ashep-hitl:loop-prevention";
    assert_eq!(effects(&entries, "label.added")[0]["label"], label);
    let outcomes: Vec<&Value> = entries_of_type(&entries, "turn.finished")
        .into_iter()
        .filter(|entry| entry.node() == "test")
        .map(|entry| &entry.event["outcome"])
        .collect();
    assert_eq!(outcomes, ["partial_success", "partial_success"]);
    let list = dir.run(&["list", "--blocked"]);
    assert!(list.out.contains(case.session) && list.out.contains("Phase 'test' exceeded"), "{}", list.out);

    let release = step(1);
    assert!(release.out.contains("The label was removed."), "{}", release.out);
    step(2);
    let entries = dir.sessions(case.session).remove(case.session).unwrap();
    let released = entries_of_type(&entries, "human.released")[0];
    assert_eq!((&released.event["by"], &released.event["why"]), (&"anna".into(), &"two more rounds".into()));
    assert_eq!(effects(&entries, "label.removed")[0]["label"], label);
    assert!(!dir.files(case.session).contains_key("deployed.txt"), "not approved yet");

    step(3);
    assert_eq!(dir.files(case.session)["deployed.txt"], "parse.sh for issue\n");
    let entries = dir.sessions(case.session).remove(case.session).unwrap();
    assert_eq!(entries.last().unwrap().event["outcome"], "success");
    let plan = &dir.files(case.session)["PLAN.md"];
    assert!(plan.contains("k is 1024"), "{plan}");
}

#[test]
fn bouncing_issue_is_stopped_by_cycle_detection() {
    let (_, case, sessions) = run_example("issues-bounce");
    let entries = &sessions[case.session];
    assert_eq!(refusals(entries), [refusal("block", "cycle", "cycle_detected")]);
    let message = entries.last().unwrap().decision["trips"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("Oscillating cycle detected: plan→implement→review→plan"), "{message}");
    assert_eq!(effects(entries, "label.added")[0]["label"], "ashep-hitl:loop-prevention");
}

#[test]
fn stalled_coder_is_replaced_by_another_model_and_the_loop_continues() {
    let (dir, case, sessions) = run_example("coder-verifier");
    let entries = &sessions[case.session];
    let halts: Vec<_> = refusals(entries).into_iter().filter(|trip| trip.0 == "halt").collect();
    assert_eq!(halts, [refusal("halt", "stall", "stalled")]);
    let released = entries_of_type(entries, "human.released");
    assert_eq!(released[0].event["by"], "policy: on_stall retry_with_new_provider");
    assert!(dir.files(case.session)["ship.sh"].contains("($1 + 99) / 100"));
    let graph = dir.run(&["graph", case.session]);
    assert!(graph.out.contains("Loop 3/8"), "{}", graph.out);
    let counts: Vec<usize> = entries_of_type(entries, "progress")
        .iter()
        .filter_map(|entry| entry.event["failing"].as_array().map(Vec::len))
        .collect();
    assert_eq!(counts, [2, 2, 2, 0]);
}

#[test]
fn two_parallel_reviewers_must_both_approve() {
    let (dir, case, sessions) = run_example("planner-reviewer");
    assert_eq!(
        sessions.len(),
        1 + 2 * 3,
        "the planner's session, and one for each review: {:?}",
        sessions.keys()
    );
    for (name, entries) in &sessions {
        assert_eq!(entries.last().unwrap().event["outcome"], "success", "{name}");
        assert!(refusals(entries).is_empty(), "{name}");
    }
    let said = |name: &str| {
        let turn = entries_of_type(&sessions[name], "turn.finished")[0].clone();
        turn.event["output"].as_str().unwrap().to_owned()
    };
    assert!(said("planner/risk.1").starts_with("CHANGE") && said("planner/risk.2").starts_with("CHANGE"));
    assert_eq!((said("planner/cost.2").as_str(), said("planner/risk.3").as_str()), ("APPROVED", "APPROVED"));
    let ticked = dir.files(case.session)["PLAN.md"].matches("- [x]").count();
    assert_eq!(ticked, 4);
    let graph = dir.run(&["graph", case.session]);
    assert!(graph.out.contains("Loop 2/8"), "{}", graph.out);
}

#[test]
fn quorum_does_not_wait_for_the_slow_branch() {
    let (_, case, sessions) = run_example("planner-quorum");
    let join = entries_of_type(&sessions[case.session], "turn.finished")
        .into_iter()
        .find(|entry| entry.node() == "enough")
        .unwrap()
        .clone();
    assert_eq!(
        join.event["structured"],
        serde_json::json!({"arrived": ["risk", "cost"], "missing": ["board"]})
    );
    let board = sessions["quorum/board.1"].last().unwrap();
    assert_eq!((board.event_type(), &board.event["outcome"]), ("session.ended", &"abandoned".into()));
}

#[test]
fn stalled_writer_gets_an_editor_and_finishes() {
    let (dir, case, sessions) = run_example("docs-writer");
    let entries = &sessions[case.session];
    let halts: Vec<_> = refusals(entries).into_iter().filter(|trip| trip.0 == "halt").collect();
    assert_eq!(halts, [refusal("halt", "stall", "stalled")]);
    let review = &sessions["docs/reviewer"];
    let words = entries_of_type(review, "turn.finished")[0].event["output"].as_str().unwrap();
    assert!(words.starts_with("Stop polishing."), "{words}");
    assert_eq!(entries_of_type(entries, "human.released")[0].event["by"], "policy: on_stall spawn_reviewer");
    let guide = &dir.files(case.session)["GUIDE.md"];
    assert!(guide.contains("## Uninstall"), "{guide}");
}

#[test]
fn tasks_are_deleted_once_after_approval_in_another_process() {
    let (_place, case, sessions) = run_example("tasks");
    let entries = &sessions[case.session];
    let calls = entries_of_type(entries, "tool.requested");
    let deleted = calls.iter().filter(|entry| entry.event["tool"] == "delete_task").count();
    assert_eq!(deleted, 2);
    assert_eq!(effects(entries, "plan.approved").len(), 1);
}
