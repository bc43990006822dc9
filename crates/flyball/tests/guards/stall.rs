//! `stall`: the same output three times, a diff unchanged twice, the same failures three times, no new minimum.

use crate::kit::{
    Block, Case, Halt, History, case, check, check_all, keep_fixtures, modes, ok, only, quiet, trips,
};
use flyball::Status;
use serde_json::{Value, json};

fn alone() -> Value {
    only("stall", json!({}))
}

/// A coder and a verifier in a loop that promises a diff with every iteration.
fn coder_and_verifier() -> Value {
    json!({"policy": alone(), "workflow": {
        "nodes": ["coder", "verifier"],
        "edges": [{"id": "e1", "from": "coder", "to": "verifier"}, {"id": "e2", "from": "verifier", "to": "coder"}],
        "signals": ["diff"]}})
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "a node gives the same output three times",
            History::new().times(3, |history, _| history.ends("coder", "I am stuck.")),
            [trips("stall", "stalled", Halt)
                .at(4)
                .count(3, 3)
                .because("stalled")
                .events(&[2, 4])
                .state(Status::Halted)
                .message("'coder' gave the same output 3 times")],
        ),
        case(
            "outputs that differ in their time stamps only are the same",
            History::new().times(3, |history, i| {
                history.ends("coder", &format!("2026-01-0{}T10:00:00Z failed", i + 1))
            }),
            [trips("stall", "stalled", Halt).at(4)],
        ),
        case(
            "the same structured output three times, whatever its key order",
            History::new()
                .event("turn.finished", json!({"node": "planner", "structured": {"a": 1, "b": 2}}))
                .event("turn.finished", json!({"node": "planner", "structured": {"b": 2.0, "a": 1}}))
                .event("turn.finished", json!({"node": "planner", "structured": {"a": 1, "b": 2}})),
            [trips("stall", "stalled", Halt)
                .at(4)
                .message("'planner' gave the same structured output 3 times")],
        ),
        case(
            "the same final message three times",
            History::new().times(3, |history, _| {
                history.event("assistant.message", json!({"text": "Done.", "final": true}))
            }),
            [trips("stall", "stalled", Halt).at(4).count(3, 3)],
        ),
        case(
            "the diff did not change in two iterations",
            History::new().diff("+ line").diff("+ line"),
            [trips("stall", "stalled", Halt)
                .at(3)
                .count(2, 2)
                .message("'diff' did not change in 2 observations")],
        ),
        case(
            "the same two tests fail three times",
            History::new().failing(&["x", "y"]).failing(&["y", "x"]).failing(&["x", "y"]),
            [trips("stall", "stalled", Halt).at(4).message("the same 2 failures of 'tests' 3 times")],
        ),
        case(
            "failures go 2, 1, 2, 1, 2: no new minimum in three observations",
            History::new()
                .failing(&["a", "b"])
                .failing(&["a"])
                .failing(&["c", "d"])
                .failing(&["e"])
                .failing(&["f", "g"]),
            [trips("stall", "stalled", Halt)
                .at(6)
                .count(3, 3)
                .message("'tests' has not become better in 3 observations")],
        ),
        case(
            "a checklist that does not grow",
            History::new().times(3, |history, _| {
                history.event("progress", json!({"signal": "checklist", "done": 2, "total": 5}))
            }),
            [trips("stall", "stalled", Halt).at(4)],
        ),
        case(
            "a score of the documents that does not rise",
            [40, 55, 55, 54, 50].iter().fold(History::new(), |history, score| {
                history.event("progress", json!({"signal": "docs", "value": score}))
            }),
            [trips("stall", "stalled", Halt).at(6).message("'docs' has not become better in 3 observations")],
        ),
        case(
            "a loop that promised a diff and does not send one",
            History::started(coder_and_verifier())
                .times(3, |history, _| history.go("coder", "verifier").go("verifier", "coder")),
            [trips("stall", "stalled", Halt).at(5)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "LGTM again and again, while the failing tests become fewer",
            History::new()
                .ends("reviewer", "LGTM")
                .failing(&["a", "b", "c"])
                .ends("reviewer", "LGTM")
                .failing(&["a", "b"])
                .ends("reviewer", "LGTM")
                .failing(&["a"])
                .ends("reviewer", "LGTM")
                .failing(&[]),
            [quiet("stall")],
        ),
        case(
            "the same output twice, then another",
            History::new().times(3, |history, i| {
                history.ends("coder", "A").ends("coder", "A").ends("coder", ["x", "y", "z"][i])
            }),
            [quiet("stall")],
        ),
        case(
            "three nodes say the same, each once",
            History::new().ends("a", "ok").ends("b", "ok").ends("c", "ok"),
            [quiet("stall")],
        ),
        case(
            "a diff that changes",
            History::new().times(10, |history, i| history.diff(&"+".repeat(i + 1))),
            [quiet("stall")],
        ),
        case(
            "a score of the documents that rises now and then",
            [40, 40, 55, 54, 70, 70, 71].iter().fold(History::new(), |history, score| {
                history.event("progress", json!({"signal": "docs", "value": score}))
            }),
            [quiet("stall")],
        ),
        case(
            "nothing fails, time after time: that is success",
            History::new().times(6, |history, _| history.failing(&[])),
            [quiet("stall")],
        ),
        case(
            "empty outputs say nothing",
            History::new().times(6, |history, _| history.ends("coder", "  ")),
            [quiet("stall")],
        ),
        case(
            "a new write between the same outputs is progress",
            History::new().times(4, |history, i| {
                history.ends("coder", "next").call(
                    "write_file",
                    json!({"path": (["a", "b", "c", "d"][i])}),
                    ok("done"),
                )
            }),
            [quiet("stall")],
        ),
        case(
            "a signal that nobody declared may stay away",
            History::under(alone())
                .times(6, |history, _| history.go("coder", "verifier").go("verifier", "coder")),
            [quiet("stall")],
        ),
    ]
}

#[test]
fn stall_trips() {
    check_all(&must_trip());
}

#[test]
fn stall_does_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn stall_obeys_its_mode() {
    modes("stall", |keys| History::under(only("stall", keys)).times(3, |h, _| h.ends("coder", "same")), 4);
}

#[test]
fn a_node_may_stand_still_longer() {
    let policy = json!({"nodes": {"watcher": {"stall": {"output": 5}}, "clock": {"stall": "off"}}});
    let says =
        |node: &'static str, n| History::under(policy.clone()).times(n, move |h, _| h.ends(node, "same"));
    check("four times", &says("watcher", 4), &[quiet("stall")]);
    check("five times", &says("watcher", 5), &[trips("stall", "stalled", Halt).at(6).count(5, 5)]);
    check("off", &says("clock", 9), &[quiet("stall")]);
    check("others", &says("coder", 3), &[trips("stall", "stalled", Halt).at(4).count(3, 3)]);
}

#[test]
fn the_halt_tells_hashes_names_and_trend() {
    let history = History::new().diff("+ a").failing(&["x", "y"]).failing(&["x", "y"]).failing(&["x", "y"]);
    let run = check("tests stay", &history, &[trips("stall", "stalled", Halt).at(5)]);
    let halted = &run.at(5).effects[0];
    assert_eq!(halted.effect, "loop.halted");
    assert_eq!(halted.fields["haltReason"], "stalled");
    let evidence = &halted.fields["evidence"];
    assert_eq!(evidence["failingTests"], json!(["x", "y"]));
    assert_eq!(evidence["trends"]["tests"], json!([2, 2, 2]));
    assert_eq!(evidence["diffHashes"].as_array().map(Vec::len), Some(1));
    assert_eq!(halted.fields["suggestedActions"][0], "switch_to_interactive");
}

#[test]
fn what_to_do_on_a_stall_is_the_policys_choice() {
    for (on_stall, first) in [
        ("pause", "pause"),
        ("switch_to_interactive", "switch_to_interactive"),
        ("spawn_reviewer", "spawn_reconciliation_node"),
        ("retry_with_new_provider", "retry_with_new_provider"),
    ] {
        let run = History::under(json!({"on_stall": on_stall})).diff("a").diff("a").run();
        assert_eq!(run.at(3).trips[0].suggested_actions[0], first);
    }
}

#[test]
fn a_conversation_that_does_not_move_is_handed_over() {
    let policy = only("stall", json!({"turns": 10}));
    let talk = |n| History::under(policy.clone()).times(n, |history, _| history.human("hm?"));
    check("ten turns", &talk(10), &[quiet("stall")]);
    check(
        "the eleventh",
        &talk(11),
        &[trips("stall", "no_progress", Block)
            .at(12)
            .count(11, 10)
            .state(Status::Blocked)
            .message("10 turns of the conversation brought no progress")],
    );
    let moving = History::under(policy)
        .times(4, |history, _| history.times(5, |h, _| h.human("hm?")).success("collect_next_slot"));
    check("something is done now and then", &moving, &[quiet("stall")]);
}

#[test]
fn fixtures_of_stall() {
    keep_fixtures("stall", &must_trip()[0], &must_not_trip()[0]);
}
