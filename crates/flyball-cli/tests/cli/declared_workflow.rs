//! Declarations of a policy or workflow, end to end: transitions, phases, rules, and the origin of each value.

use crate::command_harness::{run_flyball, test_dir};
use serde_json::{Value, json};
use std::path::Path;

/// The decisions of `flyball observe` on these events.
fn observe(dir: &Path, args: &[&str], events: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    let args: Vec<&str> = ["observe"].into_iter().chain(args.iter().copied()).collect();
    let run = run_flyball(dir, &args, (lines.join("\n") + "\n").as_bytes(), &[]);
    assert!(!run.out.is_empty(), "{}", run.err);
    run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn transition(from: &str, to: &str) -> Value {
    json!({"type": "transition.requested", "session": "s1", "from": from, "to": to})
}

const PHASES_POLICY: &str = "loop_prevention:
  enabled: true
  max_visits_default: 10
  max_transitions_default: 5
  cycle_detection_enabled: true
  cycle_detection_length: 3
  trigger_hitl: true
phases:
  - name: implement
    transitions:
      on_success: test
  - name: test
    max_visits: 5
    transitions:
      on_success:
        capability: test-decision
        allowed_destinations: [deploy, fix-bugs, review]
      on_failure: fix-bugs
  - name: fix-bugs
    transitions: {on_success: test, on_unclear: {prompt: What now?, allowed_destinations: [test, review]}}
  - name: deploy
    max_visits: 3
";

#[test]
fn a_declared_workflow_is_enforced_on_the_pipe_and_in_replay() {
    let dir = test_dir("declared");
    let started = json!({"type": "session.started", "session": "s1", "workflow": {"edges": [
        {"from": "plan", "to": "code"}, {"from": "code", "to": "test"}, {"from": "test", "to": "code"}]}});
    let events =
        [started, transition("plan", "code"), transition("code", "deploy"), transition("code", "test")];
    let decisions = observe(&dir, &[], &events);
    let verdicts: Vec<&str> = decisions.iter().map(|one| one["decision"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["allow", "allow", "block", "allow"]);
    let trip = &decisions[2]["trips"][0];
    assert_eq!((&trip["guard"], &trip["reason"]), (&json!("workflow"), &json!("transition_not_allowed")));
    assert_eq!(trip["message"], "Transition code→deploy is not in the workflow; allowed from 'code': test");
    assert_eq!(trip["evidence"]["names"], json!(["test"]));
    // The same from a file, and from the store with a restart between any two events.
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    std::fs::write(dir.join("events.jsonl"), lines.join("\n")).unwrap();
    let replayed = run_flyball(&dir, &["replay", "--json", "events.jsonl"], b"", &[]);
    let replayed: Vec<Value> = replayed.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replayed, decisions);
    for (event, decision) in events.iter().zip(&decisions) {
        let stored = observe(&dir, &["--store", "sqlite:one.db"], std::slice::from_ref(event));
        assert_eq!(stored[0], *decision);
    }
    let free = observe(&dir, &[], &[transition("plan", "anywhere"), transition("anywhere", "else")]);
    assert!(free.iter().all(|decision| decision["decision"] == "allow"), "{free:?}");
}

#[test]
fn documented_phases_are_parsed_enforced_and_explained() {
    let dir = test_dir("phases");
    std::fs::write(dir.join("policies.yaml"), PHASES_POLICY).unwrap();
    let check = run_flyball(&dir, &["check", "policies.yaml"], b"", &[]);
    assert_eq!(check.code, 0, "{}", check.err);
    for part in [
        "4 phases",
        "at most 5 visits; leads only to deploy, fix-bugs, review",
        "on_success: decided by 'test-decision' among deploy, fix-bugs, review",
        "on_unclear: decided among test, review, asked \"What now?\"",
        "at most 3 visits; leads anywhere: it declares no transitions",
        "fix-bugs, test, restarts at test",
    ] {
        assert!(check.out.contains(part), "{part}: {}", check.out);
    }
    let output: Value =
        serde_json::from_str(&run_flyball(&dir, &["check", "--json", "policies.yaml"], b"", &[]).out)
            .unwrap();
    assert_eq!(output["phases"]["list"][1]["allowed_destinations"], json!(["deploy", "fix-bugs", "review"]));
    assert_eq!(output["phases"]["loops"][0]["nodes"], json!(["fix-bugs", "test"]));
    let events = [
        transition("implement", "test"),
        transition("test", "implement"),
        transition("test", "deploy"),
        transition("deploy", "implement"),
    ];
    let decisions = observe(&dir, &["--policy", "policies.yaml"], &events);
    let verdicts: Vec<&str> = decisions.iter().map(|one| one["decision"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["allow", "block", "allow", "allow"]);
    let feedback = decisions[1]["feedback"].as_str().unwrap();
    assert!(feedback.contains("Open from 'test': deploy, fix-bugs, review."), "{feedback}");
    // The five-visit limit of the same phase, with the label of the system that the keys come from.
    let visits: Vec<Value> =
        (0..6).map(|_| json!({"type": "turn.started", "session": "s1", "node": "test"})).collect();
    let decisions = observe(&dir, &["--policy", "policies.yaml"], &visits);
    assert_eq!(decisions[5]["trips"][0]["message"], "Phase 'test' exceeded max_visits (5) with 5 visits");
    assert_eq!(decisions[5]["effects"][0]["label"], "ashep-hitl:loop-prevention");
}

#[test]
fn phase_errors_have_a_location_and_a_suggestion() {
    let dir = test_dir("bad-phases");
    for (text, place, what) in [
        ("phases:\n  - name: a\n    transitions: {on_sucess: b}\n", "p.yaml:3:", "did you mean 'on_success'"),
        (
            "phases:\n  - name: a\n    transitions: [b]\n",
            "p.yaml:3:",
            "'transitions' must be a map of outcomes",
        ),
        (
            "phases:\n  - name: a\n    transitions: {on_success: {capability: x}}\n",
            "p.yaml:3:",
            "a decision requires a list",
        ),
        (
            "phases:\n  - name: a\n    transitions: {on_success: 3}\n",
            "p.yaml:3:",
            "a transition must be a phase or a decision",
        ),
        (
            "phases:\n  - name: a\n    transitions: {on_success: {alowed_destinations: [b], allowed_destinations: [b]}}\n",
            "p.yaml:3:",
            "did you mean 'allowed_destinations'",
        ),
        ("nodes:\n  a: {allowed_destinations: b}\n", "p.yaml:2:", "a list of names"),
    ] {
        std::fs::write(dir.join("p.yaml"), text).unwrap();
        let run = run_flyball(&dir, &["check", "p.yaml"], b"", &[]);
        assert_eq!(run.code, 1, "{text}");
        assert!(run.err.contains(place) && run.err.contains(what), "{text}: {}", run.err);
    }
    let text = "phases:\n  - {name: test, transitions: {on_success: deplyo}}\n  - {name: deploy}\n";
    std::fs::write(dir.join("p.yaml"), text).unwrap();
    let run = run_flyball(&dir, &["check", "p.yaml"], b"", &[]);
    assert!(run.out.contains("warning[destination_unknown]: p.yaml:2:"), "{}", run.out);
    assert!(run.out.contains("did you mean 'deploy'?"), "{}", run.out);
}

#[test]
fn rule_with_an_unknown_name_is_rejected_with_its_location() {
    let dir = test_dir("bad-rules");
    for (when, what, help) in [
        ("event.tools == 'bash'", "unknown field 'event.tools'", "did you mean 'event.tool'?"),
        ("event.tool.beginsWith('b')", "unknown function 'beginsWith'", "startsWith"),
        (
            "event.type == 'tool.request'",
            "'event.type' is never 'tool.request'",
            "did you mean 'tool.requested'?",
        ),
        (
            "session.calls > 3 && event.tool > 5",
            "cannot be applied to a string and a number",
            "compare values of the same type",
        ),
    ] {
        let text = format!("version: 1\nrules:\n  - name: mine\n    when: \"{when}\"\n    decision: block\n");
        std::fs::write(dir.join("p.yaml"), text).unwrap();
        let event = b"{\"type\":\"tool.requested\",\"tool\":\"bash\",\"args\":{}}\n";
        for args in [&["check", "p.yaml"][..], &["observe", "--policy", "p.yaml"][..]] {
            let run = run_flyball(&dir, args, event, &[]);
            assert_eq!(run.code, 1, "{when}: {}", run.out);
            assert!(run.err.starts_with("error[policy_rule]: p.yaml:4:"), "{when}: {}", run.err);
            assert!(run.err.contains(what) && run.err.contains(help), "{when}: {}", run.err);
        }
    }
    let own = "rules:\n  - {name: mine, when: \"event['my_field'] == 3\", decision: block}\n";
    std::fs::write(dir.join("p.yaml"), own).unwrap();
    let line = json!({"type": "compaction", "my_field": 3});
    assert_eq!(observe(&dir, &["--policy", "p.yaml"], &[line])[0]["decision"], "block");
}

#[test]
fn config_shows_where_each_rule_came_from() {
    let dir = test_dir("rule-origins");
    std::fs::write(
        dir.join("p.yaml"),
        "version: 1\nrules:\n  - {name: a.b, when: \"session.calls > 5\", decision: warn}\n  \
         - {name: no-prod, when: \"event.tool == 'deploy'\", decision: block}\n",
    )
    .unwrap();
    let run = run_flyball(&dir, &["config", "--origin", "--policy", "p.yaml"], b"", &[]);
    let line = |name: &str| run.out.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(line("rules.no-prod = ").ends_with("p.yaml:4"), "{}", run.out);
    assert!(line("rules.\"a.b\" = ").ends_with("p.yaml:3"), "{}", run.out);
    assert!(!run.out.lines().any(|line| line.starts_with("rules = ")), "{}", run.out);
    let run = run_flyball(&dir, &["config", "--origin", "--json", "--policy", "p.yaml"], b"", &[]);
    let all: Value = serde_json::from_str(&run.out).unwrap();
    let rule = &all["rules.no-prod"];
    assert_eq!((&rule["origin"], &rule["line"]), (&json!("p.yaml"), &json!(4)));
    assert_eq!(rule["value"]["when"], "event.tool == 'deploy'");
}

#[test]
fn status_shows_the_last_transitions_and_possible_actions() {
    let dir = test_dir("history");
    std::fs::write(
        dir.join("p.yaml"),
        "guards: {cycle: {transitions: {max_history: 3}}}\nbudgets: {session: {turns: 5}}\n",
    )
    .unwrap();
    let check = run_flyball(&dir, &["check", "p.yaml"], b"", &[]);
    assert!(check.out.contains("warning[history_too_short]"), "{}", check.out);
    let events: Vec<Value> = "abcdefg"
        .as_bytes()
        .windows(2)
        .map(|pair| transition(&char::from(pair[0]).to_string(), &char::from(pair[1]).to_string()))
        .chain((0..6).map(|_| json!({"type": "turn.started", "session": "s1", "node": "g"})))
        .collect();
    let args = ["--store", "sqlite:one.db", "--policy", "p.yaml"];
    let decisions = observe(&dir, &args, &events);
    let halted = decisions.last().unwrap();
    assert_eq!(halted["effects"][0]["evidence"]["transitionTrail"], json!(["d", "e", "f", "g"]));
    let store = ["--store", "sqlite:one.db"];
    let status = run_flyball(&dir, &[&["status", "s1"][..], &store].concat(), b"", &[]);
    assert!(status.out.contains("last transitions 3 of 6: d → e → f → g"), "{}", status.out);
    assert!(status.out.contains("Suggested actions"), "{}", status.out);
    let raise =
        "raise the budget if it was making progress: flyball release s1 --guard budget --n 3 --why \"…\"";
    assert!(status.out.contains(raise), "{}", status.out);
    let output = run_flyball(&dir, &[&["status", "s1", "--json"][..], &store].concat(), b"", &[]);
    let output: Value = serde_json::from_str(&output.out).unwrap();
    let history = &output["report"]["history"];
    assert_eq!((&history["max_history"], &history["effective"]), (&json!(3), &json!(30)));
    assert_eq!(history["recent"][0], json!({"from": "d", "to": "e"}));
    assert_eq!(output["actions"][0]["name"], "raise_budget");
    let turns =
        output["report"]["budgets"].as_array().unwrap().iter().find(|one| one["name"] == "turns").unwrap();
    assert_eq!((&turns["limit"], &turns["used"]), (&json!(5), &json!(5)));
    // The suggested command works: the session may continue.
    let released = run_flyball(
        &dir,
        &[&["release", "s1", "--guard", "budget", "--n", "3", "--why", "it moves"][..], &store].concat(),
        b"",
        &[],
    );
    assert_eq!(released.code, 0, "{}", released.err);
    let next = observe(&dir, &args, &[json!({"type": "turn.started", "session": "s1", "node": "g"})]);
    assert_ne!(next[0]["decision"], "halt", "{next:?}");
}
