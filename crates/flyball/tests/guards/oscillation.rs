//! `oscillation`: A, B, A, B of outputs, diffs or states.

use crate::harness::{
    EventHistory, GuardCase, Halt, case, check, check_all, check_fixtures, check_modes, only_guard, quiet,
    trips,
};
use flyball::SessionPhase;
use serde_json::json;

fn outputs(history: EventHistory, node: &str, letters: &str) -> EventHistory {
    letters.chars().fold(history, |history, letter| history.finish_turn(node, &format!("version {letter}")))
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "a node's outputs alternate A, B, A, B",
            outputs(EventHistory::new(), "writer", "ABAB"),
            [trips("oscillation", "oscillating", Halt)
                .at(5)
                .count(2, 2)
                .halt_reason("oscillating")
                .events(&[2, 3, 4, 5])
                .state(SessionPhase::Halted)
                .message("the output of 'writer' alternates between two states")],
        ),
        case(
            "a change is made and reverted",
            EventHistory::new().diff("+ a").diff("- a").diff("+ a").diff("- a"),
            [trips("oscillation", "oscillating", Halt).at(5)],
        ),
        case(
            "one fix breaks the other test",
            EventHistory::new().failing_tests(&["x"]).failing_tests(&["y"]).failing_tests(&["x"]).failing_tests(&["y"]),
            [trips("oscillation", "oscillating", Halt).at(5)],
        ),
        case(
            "states reported as hashes",
            ["h1", "h2", "h1", "h2"].iter().fold(EventHistory::new(), |history, hash| {
                history.event("progress", json!({"signal": "state", "hash": hash}))
            }),
            [trips("oscillation", "oscillating", Halt).at(5)],
        ),
        case(
            "alternation after normal work",
            outputs(EventHistory::new(), "writer", "XYZABAB"),
            [trips("oscillation", "oscillating", Halt).at(8).events(&[5, 6, 7, 8])],
        ),
        case(
            "structured outputs alternate A, B, A, B",
            "ABAB".chars().fold(EventHistory::new(), |history, letter| {
                history.event("turn.finished", json!({"node": "router", "structured": {"next": letter.to_string()}}))
            }),
            [trips("oscillation", "oscillating", Halt)
                .at(5)
                .events(&[2, 3, 4, 5])
                .message("the structured output of 'router' alternates between two states")],
        ),
        case(
            "structured outputs alternate A, B, A, B with the same text",
            "ABAB".chars().fold(EventHistory::with_policy(json!({"guards": {"stall": "off"}})), |history, letter| {
                let fields = json!({"node": "router", "output": "decided", "structured": {"next": letter.to_string()}});
                history.event("turn.finished", fields)
            }),
            [trips("oscillation", "oscillating", Halt).at(5)],
        ),
        case(
            "final messages alternate A, B, A, B",
            "ABAB".chars().fold(EventHistory::new(), |history, letter| {
                history.event("assistant.message", json!({"text": format!("plan {letter}"), "final": true}))
            }),
            [trips("oscillation", "oscillating", Halt)
                .at(5)
                .message("the final message of 'agent' alternates between two states")],
        ),
        case(
            "structured messages alternate A, B, A, B",
            "ABAB".chars().fold(EventHistory::new(), |history, letter| {
                let fields = json!({"text": "", "structured": [letter.to_string()], "final": true});
                history.event("assistant.message", fields)
            }),
            [trips("oscillation", "oscillating", Halt).at(5)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case("A, B, C, D", outputs(EventHistory::new(), "writer", "ABCDEFGH"), [quiet("oscillation")]),
        case(
            "a user message between the messages",
            "ABABAB".chars().fold(EventHistory::new(), |history, letter| {
                history
                    .user_message("and now?")
                    .event("assistant.message", json!({"text": format!("{letter}"), "final": true}))
            }),
            [quiet("oscillation")],
        ),
        case(
            "intermediate messages are not outputs",
            "ABABAB".chars().fold(
                EventHistory::with_policy(json!({"guards": {"monologue": "off"}})),
                |history, letter| {
                    history.event("assistant.message", json!({"text": format!("looking at {letter}")}))
                },
            ),
            [quiet("oscillation")],
        ),
        case(
            "structured outputs A, B, C, A, B, C are left to the cycle guard",
            "ABCABC".chars().fold(EventHistory::new(), |history, letter| {
                history.event(
                    "turn.finished",
                    json!({"node": "router", "structured": {"next": letter.to_string()}}),
                )
            }),
            [quiet("oscillation")],
        ),
        case("A, B, A is one rework", outputs(EventHistory::new(), "writer", "ABA"), [quiet("oscillation")]),
        case("A, B, A, C", outputs(EventHistory::new(), "writer", "ABAC"), [quiet("oscillation")]),
        case(
            "A, A, B, B does not alternate",
            outputs(EventHistory::new(), "writer", "AABBAABB"),
            [quiet("oscillation")],
        ),
        case(
            "empty outputs do not count",
            EventHistory::new()
                .times(4, |history, i| history.finish_turn("writer", if i % 2 == 0 { "" } else { "x" }))
                .finish_turn("writer", "y"),
            [quiet("oscillation")],
        ),
        case(
            "two nodes with different outputs",
            outputs(outputs(outputs(outputs(EventHistory::new(), "a", "A"), "b", "B"), "a", "C"), "b", "D"),
            [quiet("oscillation")],
        ),
    ]
}

#[test]
fn oscillation_trips() {
    check_all(&must_trip());
}

#[test]
fn oscillation_does_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn oscillation_obeys_its_mode() {
    check_modes(
        "oscillation",
        |keys| outputs(EventHistory::with_policy(only_guard("oscillation", keys)), "writer", "ABAB"),
        5,
    );
}

#[test]
fn oscillation_repeats_is_configurable() {
    let policy = only_guard("oscillation", json!({"repeats": 3}));
    check(
        "five",
        &outputs(EventHistory::with_policy(policy.clone()), "writer", "ABABA"),
        &[quiet("oscillation")],
    );
    check(
        "six",
        &outputs(EventHistory::with_policy(policy), "writer", "ABABAB"),
        &[trips("oscillation", "oscillating", Halt).at(7).count(3, 3)],
    );
    let policy = json!({"nodes": {"pendulum": {"oscillation": "off"}}});
    check(
        "a pendulum",
        &outputs(EventHistory::with_policy(policy), "pendulum", "ABABA"),
        &[quiet("oscillation")],
    );
}

#[test]
fn oscillation_fixtures_are_current() {
    check_fixtures("oscillation", &must_trip()[0], &must_not_trip()[0]);
}
