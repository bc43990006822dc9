//! Evidence of a halt: hashes of outputs, diffs and failing sets, the trail, and how much of it is shown.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use flyball::{Decision, Event, PolicySource, Preset, Sessions, Verdict};
use serde_json::{Value, json};

/// The decisions for some events of one session, under a preset and a policy.
fn decide(policy: Value, events: &[Value]) -> (Sessions, Vec<Decision>) {
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
    let started = json!({"type": "session.started", "policy": policy});
    let decisions = std::iter::once(&started)
        .chain(events)
        .map(|event| sessions.step(&Event::from_json(&event.to_string()).unwrap()).unwrap())
        .collect();
    (sessions, decisions)
}

/// The evidence of the only halt among some decisions.
fn evidence(decisions: &[Decision]) -> &Value {
    let halts: Vec<&Value> = decisions
        .iter()
        .flat_map(|decision| &decision.effects)
        .filter(|effect| effect.effect == "loop.halted")
        .map(|effect| &effect.fields["evidence"])
        .collect();
    assert_eq!(halts.len(), 1, "{decisions:?}");
    halts[0]
}

fn hashes(evidence: &Value, key: &str) -> Vec<String> {
    let list = evidence[key].as_array().unwrap();
    list.iter().map(|hash| hash.as_str().unwrap().to_owned()).collect()
}

fn turn(node: &str, output: &str) -> Value {
    json!({"type": "turn.finished", "node": node, "output": output})
}

fn failing(names: &[&str]) -> Value {
    json!({"type": "progress", "signal": "tests", "failing": names})
}

fn diff(content: &str) -> Value {
    json!({"type": "progress", "signal": "diff", "content": content})
}

/// The hash of an output in the evidence of a halt.
fn output_hash(text: &str) -> String {
    let (_, decisions) = decide(json!({}), &[turn("x", text), json!({"type": "human.stopped"})]);
    hashes(evidence(&decisions), "outputHashes").remove(0)
}

#[test]
fn output_hashes_are_hashes_of_node_outputs() {
    let events = [
        turn("coder", "A"),
        turn("tester", "B"),
        turn("coder", "C"),
        failing(&["t1"]),
        failing(&["t1"]),
        failing(&["t1"]),
    ];
    let (_, decisions) = decide(json!({}), &events);
    let found = evidence(&decisions);
    assert_eq!(hashes(found, "outputHashes"), ["A", "B", "C"].map(output_hash));
    let signatures = hashes(found, "failingSignatures");
    assert_eq!(signatures.len(), 3);
    assert!(signatures.iter().all(|signature| *signature == signatures[0]));
    assert_eq!(found["failingTests"], json!(["t1"]));
    assert_eq!(found["diffHashes"], json!([]));
}

#[test]
fn every_kind_of_halt_has_evidence() {
    let work = [
        turn("coder", "A"),
        diff("+a"),
        failing(&["x", "y"]),
        turn("coder", "B"),
        diff("+b"),
        failing(&["y"]),
    ];
    let halts: [(&str, Value, Value); 5] = [
        ("user_stop", json!({}), json!({"type": "human.stopped", "by": "anna"})),
        (
            "budget_exceeded",
            json!({"budgets": {"session": {"turns": 1}}}),
            json!({"type": "turn.started", "node": "coder"}),
        ),
        (
            "budget_exceeded",
            json!({"budgets": {"session": {"tokens": 10}}}),
            json!({"type": "assistant.message", "text": "", "usage": {"tokens_in": 11}}),
        ),
        (
            "repeated_error",
            json!({"guards": {"gate": {"same_failure": 1}}}),
            json!({"type": "gate.checked", "checks": [{"name": "tests", "passed": false}]}),
        ),
        (
            "budget_exceeded",
            json!({"guards": {"validation": {"limit": 1}}}),
            json!({"type": "validation.failed", "kind": "truncated"}),
        ),
    ];
    for (reason, policy, last) in halts {
        let mut events = vec![json!({"type": "turn.started", "node": "coder"})];
        events.extend(work.iter().cloned().chain([last]));
        let (_, decisions) = decide(policy, &events);
        let found = evidence(&decisions);
        assert_eq!(hashes(found, "outputHashes"), ["A", "B"].map(output_hash), "{reason}");
        let (diffs, signatures) = (hashes(found, "diffHashes"), hashes(found, "failingSignatures"));
        assert_eq!((diffs.len(), signatures.len()), (2, 2), "{reason}: {found}");
        assert!(diffs[0] != diffs[1] && signatures[0] != signatures[1], "{reason}: {found}");
        assert_eq!(found["failingTests"], json!(["y"]), "{reason}");
    }
}

#[test]
fn last_eight_hashes_survive_a_restart() {
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
    let mut decisions = Vec::new();
    let events = (0..12)
        .flat_map(|n| {
            [turn("coder", &format!("out {n}")), diff(&format!("+{n}")), failing(&[&format!("t{n}")])]
        })
        .chain([json!({"type": "human.stopped"})]);
    for event in events {
        // As if the process ended after every event.
        let policy = json!({"guards": {"stall": "off"}});
        let source = PolicySource::preset(Preset::Agent);
        let inline = source.resolve_inline(&policy).unwrap();
        let state = sessions.get("default").map(|session| session.state().encode().unwrap());
        if let Some(bytes) = state {
            let session = flyball::Session::with_state(
                inline.policy.into(),
                flyball::SessionState::decode(&bytes).unwrap(),
            );
            sessions.insert("default", session);
        }
        decisions.push(sessions.step(&Event::from_json(&event.to_string()).unwrap()).unwrap());
    }
    let found = evidence(&decisions);
    let expected: Vec<String> = (4..12).map(|n| output_hash(&format!("out {n}"))).collect();
    assert_eq!(hashes(found, "outputHashes"), expected);
    assert_eq!((hashes(found, "diffHashes").len(), hashes(found, "failingSignatures").len()), (8, 8));
}

#[test]
fn structured_output_changes_the_hash_of_the_same_text() {
    let data = |value: u64| json!({"type": "turn.finished", "node": "n", "output": "ok", "structured": {"v": value}});
    let (_, decisions) = decide(json!({}), &[data(1), data(2), json!({"type": "human.stopped"})]);
    let outputs = hashes(evidence(&decisions), "outputHashes");
    assert!(outputs.len() == 2 && outputs[0] != outputs[1], "{outputs:?}");
}

#[test]
fn final_messages_count_where_no_turns_are_reported_and_gates_where_no_failing_sets_are() {
    let message = json!({"type": "assistant.message", "text": "done", "final": true});
    let gate =
        json!({"type": "gate.checked", "checks": [{"name": "tests", "passed": false, "details": ["t1"]}]});
    let stop = json!({"type": "human.stopped"});
    let (_, decisions) = decide(json!({}), &[message.clone(), gate.clone(), stop.clone()]);
    let found = evidence(&decisions);
    assert_eq!((hashes(found, "outputHashes").len(), hashes(found, "failingSignatures").len()), (1, 1));
    assert_eq!(found["failingTests"], json!(["tests"]));
    let events = [message, turn("coder", "A"), gate, failing(&["x"]), stop];
    let (_, decisions) = decide(json!({}), &events);
    let found = evidence(&decisions);
    assert_eq!(hashes(found, "outputHashes"), [output_hash("A")]);
    assert_eq!((hashes(found, "failingSignatures").len(), &found["failingTests"]), (1, &json!(["x"])));
}

#[test]
fn a_patch_that_changes_only_a_port_a_date_or_an_id_is_a_change() {
    let halted = |patches: &[&str]| {
        let events: Vec<Value> = patches.iter().map(|patch| diff(patch)).collect();
        let (_, decisions) = decide(json!({}), &events);
        decisions.last().unwrap().decision == Verdict::Halt
    };
    for patches in [
        ["+port = 49152", "+port = 49153"],
        ["+due = 2026-11-15", "+due = 2026-11-16"],
        ["+id = 550e8400-e29b-41d4-a716-446655440000", "+id = 550e8400-e29b-41d4-a716-446655440001"],
        ["+took = \"30s\"", "+took = \"45s\""],
        ["+tmp = \"/tmp/run-a1\"", "+tmp = \"/tmp/run-b2\""],
    ] {
        assert!(!halted(&patches), "{patches:?}");
    }
    assert!(
        halted(&["+// built 2026-11-15T12:01:07Z", "+// built 2026-11-15T12:09:59Z"]),
        "only a timestamp"
    );
    assert!(halted(&["+a", "+a"]));
    // Under version 1 of the rules it is unchanged.
    let old = |patches: [&str; 2]| {
        let (_, decisions) = decide(json!({"rules_version": 1}), &patches.map(diff));
        decisions.last().unwrap().decision == Verdict::Halt
    };
    assert!(old(["+ listen localhost:49152", "+ listen localhost:49153"]));
}

#[test]
fn documents_are_compared_ignoring_whitespace_only() {
    let docs = |text: &str| json!({"type": "progress", "signal": "docs", "content": text});
    let halted = |a: &str, b: &str| {
        let (_, decisions) = decide(json!({}), &[docs(a), docs(b), docs(b)]);
        decisions.last().unwrap().decision == Verdict::Halt
    };
    assert!(halted("# Guide\n\nport  8080", "# Guide\n\n\nport 8080  "));
    assert!(!halted("port 49152 is used", "port 49153 is used"));
}

fn walk_transitions(steps: usize) -> Vec<Value> {
    let node = |n: usize| format!("n{n}");
    (0..steps).map(|n| json!({"type": "transition.requested", "from": node(n), "to": node(n + 1)})).collect()
}

#[test]
fn max_history_limits_the_transitions_shown() {
    for (max_history, transitions) in [(1, 30), (5, 30), (10, 30), (40, 30), (64, 100), (10, 3)] {
        let policy = json!({"guards": {"cycle": {"transitions": {"max_history": max_history}}}});
        let mut events = walk_transitions(transitions);
        events.push(json!({"type": "human.stopped"}));
        let (sessions, decisions) = decide(policy, &events);
        let session = sessions.get("default").unwrap();
        let report = session.state().report(session.policy());
        let shown = transitions.min(max_history);
        assert_eq!(report.history.recent.len(), shown, "{max_history}");
        assert_eq!(report.history.recent.last().unwrap().to, format!("n{transitions}"));
        assert_eq!(report.trail.len(), shown + 1, "{max_history}");
        let trail = evidence(&decisions)["transitionTrail"].as_array().unwrap();
        assert_eq!(trail.len(), shown + 1, "{max_history}");
        // The rules consider as many as they need: blocks of up to 10, three times.
        assert_eq!(
            (report.history.max_history, report.history.effective),
            (max_history as u64, (max_history as u64).max(30))
        );
    }
}

#[test]
fn small_max_history_does_not_disable_detection() {
    let policy = json!({"guards": {"cycle": {"transitions": {"max_history": 2, "suffix_length": "off"}}}});
    let go = |n: usize| {
        let at = |n: usize| ["a", "b", "c", "d"][n % 4];
        json!({"type": "transition.requested", "from": at(n), "to": at(n + 1)})
    };
    let (_, decisions) = decide(policy, &(0..12).map(go).collect::<Vec<_>>());
    assert_eq!(decisions[11].decision, Verdict::Allow);
    assert_eq!(decisions[12].decision, Verdict::Block);
    // The evidence of the cycle itself covers the whole span.
    assert_eq!(decisions[12].trips[0].evidence.trail.len(), 13);
}
