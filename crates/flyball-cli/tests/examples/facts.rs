//! Each example ends as its page says, by what the page says, and has really done it.

use crate::cases::{ALL, Case};
use crate::kit::{Entry, Place};
use serde_json::Value;
use std::collections::BTreeMap;

type Sessions = BTreeMap<String, Vec<Entry>>;

fn played(name: &str) -> (Place, Case, Sessions) {
    let (place, case) = (Place::new(&format!("facts-{name}")), Case::named(name));
    case.play(&place);
    let sessions = place.sessions(case.session);
    (place, case, sessions)
}

fn of_type<'a>(entries: &'a [Entry], kind: &str) -> Vec<&'a Entry> {
    entries.iter().filter(|entry| entry.kind() == kind).collect()
}

/// The effects of a name in a session.
fn effects<'a>(entries: &'a [Entry], name: &str) -> Vec<&'a Value> {
    let all = entries.iter().flat_map(|entry| entry.decision["effects"].as_array().unwrap());
    all.filter(|effect| effect["effect"] == name).collect()
}

/// Verdict, guard and reason of every trip that is no warning.
fn refusals(entries: &[Entry]) -> Vec<(String, String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let trips = entries.iter().flat_map(|entry| entry.decision["trips"].as_array().unwrap());
    let grave = trips.filter(|trip| trip["severity"] != "warn");
    grave.map(|trip| (word(&trip["severity"]), word(&trip["guard"]), word(&trip["reason"]))).collect()
}

fn refused(severity: &str, guard: &str, reason: &str) -> (String, String, String) {
    (severity.to_owned(), guard.to_owned(), reason.to_owned())
}

#[test]
fn every_workflow_of_the_examples_is_played_here() {
    let mut found = Vec::new();
    let mut open = vec![crate::kit::root().join("examples")];
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
        let played = |case: &&Case| {
            let file = crate::kit::root().join("examples").join(case.file);
            path == file || path == file.join("workflow.yaml")
        };
        assert!(ALL.iter().any(|case| played(&case)), "{}: nobody plays it", path.display());
    }
}

#[test]
fn fix_until_green_ends_with_real_tests_that_pass() {
    let (place, case, sessions) = played("fix-until-green");
    let entries = &sessions[case.session];
    let failing: Vec<usize> = of_type(entries, "progress")
        .iter()
        .filter_map(|entry| entry.event["failing"].as_array().map(Vec::len))
        .collect();
    assert_eq!(failing, [2, 1, 0]);
    let lib = &place.files(case.session)["src/lib.rs"];
    assert!(lib.contains("(cents * percent + 50) / 100") && lib.contains("{:02}"), "{lib}");
    assert_eq!(entries.last().unwrap().event["outcome"], "success");
}

#[test]
fn its_twin_is_halted_with_evidence() {
    let (_, case, sessions) = played("fix-until-green-stuck");
    let entries = &sessions[case.session];
    let halted = effects(entries, "loop.halted");
    assert_eq!(halted.len(), 1);
    assert_eq!(halted[0]["haltReason"], "stalled");
    assert!(halted[0]["cycleId"].as_str().unwrap().starts_with("loop-"));
    assert_eq!(halted[0]["evidence"]["trends"]["tests"], serde_json::json!([3, 3]));
    assert!(!halted[0]["suggestedActions"].as_array().unwrap().is_empty());
}

#[test]
fn ralph_recovers_from_its_bad_habits_and_is_done_when_the_gate_agrees() {
    let (place, case, sessions) = played("ralph");
    let entries = &sessions[case.session];
    let kinds: Vec<&str> = of_type(entries, "validation.failed")
        .iter()
        .map(|entry| entry.event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["malformed_json", "missing_field"]);
    assert_eq!(of_type(entries, "validation.passed").len(), 1);
    assert_eq!(
        refusals(entries),
        [refused("block", "repetition", "repetition_loop"), refused("block", "gate", "quality_gate_blocked")]
    );
    let lint = |entry: &&Entry| entry.event["tool"] == "lint";
    let asked: Vec<&Entry> = of_type(entries, "tool.requested").into_iter().filter(lint).collect();
    let verdicts: Vec<&Value> = asked.iter().map(|entry| &entry.decision["decision"]).collect();
    assert_eq!(verdicts, ["allow", "allow", "warn", "warn", "warn", "block"]);
    let feedback = asked[5].decision["feedback"].as_str().unwrap();
    assert!(feedback.contains("Try a different approach"), "{feedback}");
    let ran = place.executions().iter().filter(|(key, _)| key.starts_with("call ")).count();
    assert_eq!(ran, 6, "five times lint and once history: the sixth lint never ran");

    let large = of_type(entries, "tool.finished")
        .into_iter()
        .find(|entry| entry.event["output"].as_str().is_some_and(|output| output.contains("build 00001")));
    let preview = large.unwrap().event["output"].as_str().unwrap();
    assert!(preview.len() < 5_000, "306,000 characters were spilled: {}", preview.len());
    assert!(preview.contains("306000 characters"), "{preview}");

    let gates = of_type(entries, "gate.checked");
    assert_eq!(gates.len(), 2);
    let effects = gates[0].decision["effects"].as_array().unwrap();
    let blocked = effects.iter().find(|effect| effect["effect"] == "completion.blocked").unwrap();
    let words = blocked["text"].as_str().unwrap();
    assert!(words.starts_with("## Completion Blocked: tests failed"), "{words}");
    assert!(words.contains("Your `TASK_COMPLETE` request was blocked."), "{words}");
    assert!(words.contains("punctuation is left out"), "{words}");
    assert_eq!(gates[1].decision["decision"], "allow");
    assert_eq!(gates[1].event["checks"][0]["passed"], true);
    assert!(place.files(case.session)["lib/slug.sh"].contains("tr -cs"));
}

#[test]
fn the_large_response_of_ralph_is_counted() {
    let (place, _, _) = played("ralph");
    let metrics: Value = serde_json::from_str(&place.run(&["metrics", "--json"]).out).unwrap();
    assert_eq!(metrics["large_responses"], 1, "{metrics}");
    assert_eq!(metrics["validation_failures"], 2, "{metrics}");
}

#[test]
fn ralph_who_never_gets_it_right_is_stopped_by_the_gate() {
    let (_, case, sessions) = played("ralph-never");
    let entries = &sessions[case.session];
    assert_eq!(refusals(entries).last(), Some(&refused("halt", "gate", "quality_gate_exhausted")));
    assert_eq!(of_type(entries, "gate.checked").len(), 5);
    assert_eq!(effects(entries, "loop.halted").len(), 1);
}

#[test]
fn an_issue_waits_for_a_person_with_the_label_and_goes_on_after_the_release() {
    let case = Case::named("issues");
    let place = Place::new("facts-issues");
    let step = |at: usize| {
        let (stage, code) = case.stages[at];
        let args = case.args(stage);
        let ran = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
        ran
    };
    step(0);
    let entries = place.sessions(case.session).remove(case.session).unwrap();
    assert_eq!(refusals(&entries), [refused("block", "visits", "visit_limit")]);
    let message = entries.last().unwrap().decision["trips"][0]["message"].as_str().unwrap();
    assert_eq!(message, "Phase 'test' exceeded max_visits (2) with 2 visits");
    let label = "ashep-hitl:loop-prevention";
    assert_eq!(effects(&entries, "label.added")[0]["label"], label);
    let outcomes: Vec<&Value> = of_type(&entries, "turn.finished")
        .into_iter()
        .filter(|entry| entry.node() == "test")
        .map(|entry| &entry.event["outcome"])
        .collect();
    assert_eq!(outcomes, ["partial_success", "partial_success"]);
    let list = place.run(&["list", "--blocked"]);
    assert!(list.out.contains(case.session) && list.out.contains("Phase 'test' exceeded"), "{}", list.out);

    let release = step(1);
    assert!(release.out.contains("The label that called a person is off."), "{}", release.out);
    step(2);
    let entries = place.sessions(case.session).remove(case.session).unwrap();
    let released = of_type(&entries, "human.released")[0];
    assert_eq!((&released.event["by"], &released.event["why"]), (&"anna".into(), &"two more rounds".into()));
    assert_eq!(effects(&entries, "label.removed")[0]["label"], label);
    assert!(!place.files(case.session).contains_key("deployed.txt"), "nobody has said yes yet");

    step(3);
    assert_eq!(place.files(case.session)["deployed.txt"], "parse.sh for issue\n");
    let entries = place.sessions(case.session).remove(case.session).unwrap();
    assert_eq!(entries.last().unwrap().event["outcome"], "success");
    let plan = &place.files(case.session)["PLAN.md"];
    assert!(plan.contains("k is 1024"), "{plan}");
}

#[test]
fn an_issue_that_bounces_is_stopped_by_cycle_detection() {
    let (_, case, sessions) = played("issues-bounce");
    let entries = &sessions[case.session];
    assert_eq!(refusals(entries), [refused("block", "cycle", "cycle_detected")]);
    let message = entries.last().unwrap().decision["trips"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("Oscillating cycle detected: plan→implement→review→plan"), "{message}");
    assert_eq!(effects(entries, "label.added")[0]["label"], "ashep-hitl:loop-prevention");
}

#[test]
fn a_coder_that_stalls_is_replaced_by_another_model_and_the_loop_goes_on() {
    let (place, case, sessions) = played("coder-verifier");
    let entries = &sessions[case.session];
    let halts: Vec<_> = refusals(entries).into_iter().filter(|trip| trip.0 == "halt").collect();
    assert_eq!(halts, [refused("halt", "stall", "stalled")]);
    let released = of_type(entries, "human.released");
    assert_eq!(released[0].event["by"], "policy: on_stall retry_with_new_provider");
    assert!(place.files(case.session)["ship.sh"].contains("($1 + 99) / 100"));
    let graph = place.run(&["graph", case.session]);
    assert!(graph.out.contains("Loop 3/8"), "{}", graph.out);
    let counts: Vec<usize> = of_type(entries, "progress")
        .iter()
        .filter_map(|entry| entry.event["failing"].as_array().map(Vec::len))
        .collect();
    assert_eq!(counts, [2, 2, 2, 0]);
}

#[test]
fn two_reviewers_work_side_by_side_and_both_must_be_content() {
    let (place, case, sessions) = played("planner-reviewer");
    assert_eq!(sessions.len(), 1 + 2 * 3, "the planner's, and one for each review: {:?}", sessions.keys());
    for (name, entries) in &sessions {
        assert_eq!(entries.last().unwrap().event["outcome"], "success", "{name}");
        assert!(refusals(entries).is_empty(), "{name}");
    }
    let said = |name: &str| {
        let turn = of_type(&sessions[name], "turn.finished")[0].clone();
        turn.event["output"].as_str().unwrap().to_owned()
    };
    assert!(said("planner/risk.1").starts_with("CHANGE") && said("planner/risk.2").starts_with("CHANGE"));
    assert_eq!((said("planner/cost.2").as_str(), said("planner/risk.3").as_str()), ("APPROVED", "APPROVED"));
    let ticked = place.files(case.session)["PLAN.md"].matches("- [x]").count();
    assert_eq!(ticked, 4);
    let graph = place.run(&["graph", case.session]);
    assert!(graph.out.contains("Loop 2/8"), "{}", graph.out);
}

#[test]
fn a_quorum_does_not_wait_for_the_slow_one_and_leaves_nothing_behind() {
    let (_, case, sessions) = played("planner-quorum");
    let join = of_type(&sessions[case.session], "turn.finished")
        .into_iter()
        .find(|entry| entry.node() == "enough")
        .unwrap()
        .clone();
    assert_eq!(
        join.event["structured"],
        serde_json::json!({"arrived": ["risk", "cost"], "missing": ["board"]})
    );
    let board = sessions["quorum/board.1"].last().unwrap();
    assert_eq!((board.kind(), &board.event["outcome"]), ("session.ended", &"abandoned".into()));
}

#[test]
fn a_writer_that_stalls_gets_an_editor_and_then_finishes() {
    let (place, case, sessions) = played("docs-writer");
    let entries = &sessions[case.session];
    let halts: Vec<_> = refusals(entries).into_iter().filter(|trip| trip.0 == "halt").collect();
    assert_eq!(halts, [refused("halt", "stall", "stalled")]);
    let review = &sessions["docs/reviewer"];
    let words = of_type(review, "turn.finished")[0].event["output"].as_str().unwrap();
    assert!(words.starts_with("Stop polishing."), "{words}");
    assert_eq!(of_type(entries, "human.released")[0].event["by"], "policy: on_stall spawn_reviewer");
    let guide = &place.files(case.session)["GUIDE.md"];
    assert!(guide.contains("## Uninstall"), "{guide}");
}

#[test]
fn tasks_are_deleted_once_after_a_yes_that_comes_in_another_process() {
    let (_place, case, sessions) = played("tasks");
    let entries = &sessions[case.session];
    let calls = of_type(entries, "tool.requested");
    let deleted = calls.iter().filter(|entry| entry.event["tool"] == "delete_task").count();
    assert_eq!(deleted, 2);
    assert_eq!(effects(entries, "plan.approved").len(), 1);
}
