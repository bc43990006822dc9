//! `oscillation`: A, B, A, B of outputs, diffs or states (seed 004).

use crate::kit::{Case, Halt, History, case, check, check_all, keep_fixtures, modes, only, quiet, trips};
use flyball::Status;
use serde_json::json;

fn outputs(history: History, node: &str, letters: &str) -> History {
    letters.chars().fold(history, |history, letter| history.ends(node, &format!("version {letter}")))
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "a node's outputs go A, B, A, B",
            outputs(History::new(), "writer", "ABAB"),
            [trips("oscillation", "oscillating", Halt)
                .at(5)
                .count(2, 2)
                .because("oscillating")
                .events(&[2, 3, 4, 5])
                .state(Status::Halted)
                .message("the output of 'writer' goes to and fro between two states")],
        ),
        case(
            "a change is made and taken back",
            History::new().diff("+ a").diff("- a").diff("+ a").diff("- a"),
            [trips("oscillation", "oscillating", Halt).at(5)],
        ),
        case(
            "one fix breaks the other test",
            History::new().failing(&["x"]).failing(&["y"]).failing(&["x"]).failing(&["y"]),
            [trips("oscillation", "oscillating", Halt).at(5)],
        ),
        case(
            "states that are told as hashes",
            ["h1", "h2", "h1", "h2"].iter().fold(History::new(), |history, hash| {
                history.event("progress", json!({"signal": "state", "hash": hash}))
            }),
            [trips("oscillation", "oscillating", Halt).at(5)],
        ),
        case(
            "to and fro after an honest beginning",
            outputs(History::new(), "writer", "XYZABAB"),
            [trips("oscillation", "oscillating", Halt).at(8).events(&[5, 6, 7, 8])],
        ),
        case(
            "structured outputs go A, B, A, B",
            "ABAB".chars().fold(History::new(), |history, letter| {
                history.event("turn.finished", json!({"node": "router", "structured": {"next": letter.to_string()}}))
            }),
            [trips("oscillation", "oscillating", Halt)
                .at(5)
                .events(&[2, 3, 4, 5])
                .message("the structured output of 'router' goes to and fro between two states")],
        ),
        case(
            "structured outputs go A, B, A, B under the same words",
            "ABAB".chars().fold(History::under(json!({"guards": {"stall": "off"}})), |history, letter| {
                let fields = json!({"node": "router", "output": "decided", "structured": {"next": letter.to_string()}});
                history.event("turn.finished", fields)
            }),
            [trips("oscillation", "oscillating", Halt).at(5)],
        ),
        case(
            "final messages go A, B, A, B",
            "ABAB".chars().fold(History::new(), |history, letter| {
                history.event("assistant.message", json!({"text": format!("plan {letter}"), "final": true}))
            }),
            [trips("oscillation", "oscillating", Halt)
                .at(5)
                .message("the final message of 'agent' goes to and fro between two states")],
        ),
        case(
            "structured messages go A, B, A, B",
            "ABAB".chars().fold(History::new(), |history, letter| {
                let fields = json!({"text": "", "structured": [letter.to_string()], "final": true});
                history.event("assistant.message", fields)
            }),
            [trips("oscillation", "oscillating", Halt).at(5)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case("A, B, C, D", outputs(History::new(), "writer", "ABCDEFGH"), [quiet("oscillation")]),
        case(
            "a person speaks between the messages",
            "ABABAB".chars().fold(History::new(), |history, letter| {
                history
                    .human("and now?")
                    .event("assistant.message", json!({"text": format!("{letter}"), "final": true}))
            }),
            [quiet("oscillation")],
        ),
        case(
            "messages on the way are no outputs",
            "ABABAB".chars().fold(
                History::under(json!({"guards": {"monologue": "off"}})),
                |history, letter| {
                    history.event("assistant.message", json!({"text": format!("looking at {letter}")}))
                },
            ),
            [quiet("oscillation")],
        ),
        case(
            "structured outputs A, B, C, A, B, C are for the guard of longer circles",
            "ABCABC".chars().fold(History::new(), |history, letter| {
                history.event(
                    "turn.finished",
                    json!({"node": "router", "structured": {"next": letter.to_string()}}),
                )
            }),
            [quiet("oscillation")],
        ),
        case("A, B, A is one rework", outputs(History::new(), "writer", "ABA"), [quiet("oscillation")]),
        case("A, B, A, C", outputs(History::new(), "writer", "ABAC"), [quiet("oscillation")]),
        case(
            "A, A, B, B is no to and fro",
            outputs(History::new(), "writer", "AABBAABB"),
            [quiet("oscillation")],
        ),
        case(
            "empty outputs do not count",
            History::new()
                .times(4, |history, i| history.ends("writer", if i % 2 == 0 { "" } else { "x" }))
                .ends("writer", "y"),
            [quiet("oscillation")],
        ),
        case(
            "two nodes that each say their own",
            outputs(outputs(outputs(outputs(History::new(), "a", "A"), "b", "B"), "a", "C"), "b", "D"),
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
    modes("oscillation", |keys| outputs(History::under(only("oscillation", keys)), "writer", "ABAB"), 5);
}

#[test]
fn three_passes_if_the_policy_or_the_node_says_so() {
    let policy = only("oscillation", json!({"repeats": 3}));
    check("five", &outputs(History::under(policy.clone()), "writer", "ABABA"), &[quiet("oscillation")]);
    check(
        "six",
        &outputs(History::under(policy), "writer", "ABABAB"),
        &[trips("oscillation", "oscillating", Halt).at(7).count(3, 3)],
    );
    let policy = json!({"nodes": {"pendulum": {"oscillation": "off"}}});
    check("a pendulum", &outputs(History::under(policy), "pendulum", "ABABA"), &[quiet("oscillation")]);
}

#[test]
fn fixtures_of_oscillation() {
    keep_fixtures("oscillation", &must_trip()[0], &must_not_trip()[0]);
}
