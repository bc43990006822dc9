//! `stall`: the same output three times, a diff unchanged twice, the same failures three times, no new minimum.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, case, check, check_all, check_fixtures, check_modes, ok,
    only_guard, quiet, trips,
};
use flyball::SessionPhase;
use serde_json::{Value, json};

fn stall_only() -> Value {
    only_guard("stall", json!({}))
}

/// A coder and a verifier in a loop that declares a diff for every iteration.
fn coder_and_verifier() -> Value {
    json!({"policy": stall_only(), "workflow": {
        "nodes": ["coder", "verifier"],
        "edges": [{"id": "e1", "from": "coder", "to": "verifier"}, {"id": "e2", "from": "verifier", "to": "coder"}],
        "signals": ["diff"]}})
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "a node produces the same output three times",
            EventHistory::new().times(3, |history, _| history.finish_turn("coder", "I am stuck.")),
            [trips("stall", "stalled", Halt)
                .at(4)
                .count(3, 3)
                .halt_reason("stalled")
                .events(&[2, 4])
                .state(SessionPhase::Halted)
                .message("'coder' produced the same output 3 times")],
        ),
        case(
            "outputs that differ only in their timestamps are the same",
            EventHistory::new().times(3, |history, i| {
                history.finish_turn("coder", &format!("2026-01-0{}T10:00:00Z failed", i + 1))
            }),
            [trips("stall", "stalled", Halt).at(4)],
        ),
        case(
            "the same structured output three times, with any key order",
            EventHistory::new()
                .event("turn.finished", json!({"node": "planner", "structured": {"a": 1, "b": 2}}))
                .event("turn.finished", json!({"node": "planner", "structured": {"b": 2.0, "a": 1}}))
                .event("turn.finished", json!({"node": "planner", "structured": {"a": 1, "b": 2}})),
            [trips("stall", "stalled", Halt)
                .at(4)
                .message("'planner' produced the same structured output 3 times")],
        ),
        case(
            "the same final message three times",
            EventHistory::new().times(3, |history, _| {
                history.event("assistant.message", json!({"text": "Done.", "final": true}))
            }),
            [trips("stall", "stalled", Halt).at(4).count(3, 3)],
        ),
        case(
            "the diff did not change in two iterations",
            EventHistory::new().diff("+ line").diff("+ line"),
            [trips("stall", "stalled", Halt)
                .at(3)
                .count(2, 2)
                .message("'diff' did not change in 2 observations")],
        ),
        case(
            "the same two tests fail three times",
            EventHistory::new()
                .failing_tests(&["x", "y"])
                .failing_tests(&["y", "x"])
                .failing_tests(&["x", "y"]),
            [trips("stall", "stalled", Halt).at(4).message("'tests' reported the same 2 failures 3 times")],
        ),
        case(
            "failures go 2, 1, 2, 1, 2: no new minimum in three observations",
            EventHistory::new()
                .failing_tests(&["a", "b"])
                .failing_tests(&["a"])
                .failing_tests(&["c", "d"])
                .failing_tests(&["e"])
                .failing_tests(&["f", "g"]),
            [trips("stall", "stalled", Halt)
                .at(6)
                .count(3, 3)
                .message("'tests' has not improved in 3 observations")],
        ),
        case(
            "a checklist that does not grow",
            EventHistory::new().times(3, |history, _| {
                history.event("progress", json!({"signal": "checklist", "done": 2, "total": 5}))
            }),
            [trips("stall", "stalled", Halt).at(4)],
        ),
        case(
            "a documentation score that does not rise",
            [40, 55, 55, 54, 50].iter().fold(EventHistory::new(), |history, score| {
                history.event("progress", json!({"signal": "docs", "value": score}))
            }),
            [trips("stall", "stalled", Halt).at(6).message("'docs' has not improved in 3 observations")],
        ),
        case(
            "a loop that declared a diff and does not report one",
            EventHistory::with_start_fields(coder_and_verifier()).times(3, |history, _| {
                history.transition("coder", "verifier").transition("verifier", "coder")
            }),
            [trips("stall", "stalled", Halt).at(5)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "repeated LGTM while the number of failing tests falls",
            EventHistory::new()
                .finish_turn("reviewer", "LGTM")
                .failing_tests(&["a", "b", "c"])
                .finish_turn("reviewer", "LGTM")
                .failing_tests(&["a", "b"])
                .finish_turn("reviewer", "LGTM")
                .failing_tests(&["a"])
                .finish_turn("reviewer", "LGTM")
                .failing_tests(&[]),
            [quiet("stall")],
        ),
        case(
            "the same output twice, then another",
            EventHistory::new().times(3, |history, i| {
                history
                    .finish_turn("coder", "A")
                    .finish_turn("coder", "A")
                    .finish_turn("coder", ["x", "y", "z"][i])
            }),
            [quiet("stall")],
        ),
        case(
            "three nodes with the same output, each once",
            EventHistory::new().finish_turn("a", "ok").finish_turn("b", "ok").finish_turn("c", "ok"),
            [quiet("stall")],
        ),
        case(
            "a diff that changes",
            EventHistory::new().times(10, |history, i| history.diff(&"+".repeat(i + 1))),
            [quiet("stall")],
        ),
        case(
            "a documentation score that rises occasionally",
            [40, 40, 55, 54, 70, 70, 71].iter().fold(EventHistory::new(), |history, score| {
                history.event("progress", json!({"signal": "docs", "value": score}))
            }),
            [quiet("stall")],
        ),
        case(
            "nothing fails repeatedly: that is success",
            EventHistory::new().times(6, |history, _| history.failing_tests(&[])),
            [quiet("stall")],
        ),
        case(
            "empty outputs are ignored",
            EventHistory::new().times(6, |history, _| history.finish_turn("coder", "  ")),
            [quiet("stall")],
        ),
        case(
            "a new write between equal outputs is progress",
            EventHistory::new().times(4, |history, i| {
                history.finish_turn("coder", "next").call(
                    "write_file",
                    json!({"path": (["a", "b", "c", "d"][i])}),
                    ok("done"),
                )
            }),
            [quiet("stall")],
        ),
        case(
            "an undeclared signal may be missing",
            EventHistory::with_policy(stall_only()).times(6, |history, _| {
                history.transition("coder", "verifier").transition("verifier", "coder")
            }),
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
    check_modes(
        "stall",
        |keys| {
            EventHistory::with_policy(only_guard("stall", keys))
                .times(3, |h, _| h.finish_turn("coder", "same"))
        },
        4,
    );
}

#[test]
fn stall_limit_is_configurable_per_node() {
    let policy = json!({"nodes": {"watcher": {"stall": {"output": 5}}, "clock": {"stall": "off"}}});
    let says = |node: &'static str, n| {
        EventHistory::with_policy(policy.clone()).times(n, move |h, _| h.finish_turn(node, "same"))
    };
    check("four times", &says("watcher", 4), &[quiet("stall")]);
    check("five times", &says("watcher", 5), &[trips("stall", "stalled", Halt).at(6).count(5, 5)]);
    check("off", &says("clock", 9), &[quiet("stall")]);
    check("others", &says("coder", 3), &[trips("stall", "stalled", Halt).at(4).count(3, 3)]);
}

#[test]
fn stall_halt_has_hashes_names_and_trend() {
    let history = EventHistory::new()
        .diff("+ a")
        .failing_tests(&["x", "y"])
        .failing_tests(&["x", "y"])
        .failing_tests(&["x", "y"]);
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
fn on_stall_sets_the_first_suggested_action() {
    for (on_stall, first) in [
        ("pause", "pause"),
        ("switch_to_interactive", "switch_to_interactive"),
        ("spawn_reviewer", "spawn_reconciliation_node"),
        ("retry_with_new_provider", "retry_with_new_provider"),
    ] {
        let run = EventHistory::with_policy(json!({"on_stall": on_stall})).diff("a").diff("a").run();
        assert_eq!(run.at(3).trips[0].suggested_actions[0], first);
    }
}

#[test]
fn conversation_without_progress_escalates() {
    let policy = only_guard("stall", json!({"turns": 10}));
    let talk =
        |n| EventHistory::with_policy(policy.clone()).times(n, |history, _| history.user_message("hm?"));
    check("ten turns", &talk(10), &[quiet("stall")]);
    check(
        "the eleventh",
        &talk(11),
        &[trips("stall", "no_progress", Block)
            .at(12)
            .count(11, 10)
            .state(SessionPhase::Blocked)
            .message("no progress in 10 turns of the conversation")],
    );
    let moving = EventHistory::with_policy(policy).times(4, |history, _| {
        history.times(5, |h, _| h.user_message("hm?")).operation_succeeded("collect_next_slot")
    });
    check("occasional progress", &moving, &[quiet("stall")]);
}

#[test]
fn stall_fixtures_are_current() {
    check_fixtures("stall", &must_trip()[0], &must_not_trip()[0]);
}
