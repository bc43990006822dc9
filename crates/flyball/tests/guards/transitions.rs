//! `transitions`: five along one edge, the sixth is blocked; configurable per edge.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, check_modes, never,
    only_guard, quiet, trips,
};
use flyball::SessionPhase;
use serde_json::{Value, json};

fn transitions_only() -> Value {
    only_guard("transitions", json!({}))
}

/// Issue-456: implement to test once, then test and fix alternate.
fn issue_456(history: EventHistory, more: usize) -> EventHistory {
    history.transition("implement", "test").times(more, |history, i| {
        if i % 2 == 0 { history.transition("test", "fix") } else { history.transition("fix", "test") }
    })
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "Issue-456: the first blocked transition is the twelfth, test to fix for the sixth time",
            issue_456(EventHistory::with_policy(transitions_only()), 11),
            [
                trips("transitions", "transition_limit", Warn).at(9).count(4, 5),
                trips("transitions", "transition_limit", Block)
                    .at(13)
                    .count(5, 5)
                    .state(SessionPhase::Blocked)
                    .message("Transition test→fix exceeded max_transitions (5) with 5 occurrences"),
            ],
        ),
        case(
            "five along one edge, the sixth is blocked",
            EventHistory::with_policy(transitions_only()).times(6, |history, _| history.transition("fix", "test")),
            [trips("transitions", "transition_limit", Block)
                .at(7)
                .count(5, 5)
                .message("Transition fix→test exceeded max_transitions (5) with 5 occurrences")],
        ),
        case(
            "an edge with a limit of eight: the ninth is blocked",
            EventHistory::with_policy(json!({"preset": "off", "guards": {"transitions": "staged"}, "edges": {"fix->test": {"max_transitions": 8}}}))
                .times(9, |history, _| history.transition("fix", "test")),
            [trips("transitions", "transition_limit", Block).at(10).count(8, 8)],
        ),
        case(
            "all edges together may be limited",
            EventHistory::with_policy(only_guard("transitions", json!({"total": 4}))).transitions_along("a>b>c>d>e>f"),
            [trips("transitions", "transition_limit", Block).at(6).count(4, 4)],
        ),
        case(
            "the preset for short workflows allows three",
            EventHistory::with_policy("simple").times(4, |history, i| history.user_message("go").transition("fix", "test").start_turn(["a", "b", "c", "d"][i])),
            [trips("transitions", "transition_limit", Block).at(12).count(3, 3)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "there and back are two edges",
            issue_456(EventHistory::with_policy(transitions_only()), 6),
            [quiet("transitions")],
        ),
        case(
            "the eleventh transition of Issue-456",
            issue_456(EventHistory::with_policy(transitions_only()), 10),
            [never("transitions", Block)],
        ),
        case(
            "a retry is a visit and not a transition",
            EventHistory::with_policy(transitions_only())
                .transition("fix", "test")
                .times(20, |history, _| history.start_turn("test")),
            [quiet("transitions")],
        ),
        case(
            "many edges, each taken three times",
            EventHistory::with_policy(transitions_only())
                .times(3, |history, _| history.transitions_along("a>b>c>d>e>f>a")),
            [quiet("transitions")],
        ),
        case(
            "an agent without a workflow has no edges to count",
            EventHistory::new()
                .times(4, |history, _| history.user_message("go").transitions_along("a>b>a>b")),
            [quiet("transitions")],
        ),
    ]
}

#[test]
fn transitions_trip() {
    check_all(&must_trip());
}

#[test]
fn transitions_do_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn transitions_obey_their_mode() {
    check_modes(
        "transitions",
        |keys| {
            EventHistory::with_policy(only_guard("transitions", keys)).times(6, |h, _| h.transition("a", "b"))
        },
        7,
    );
}

#[test]
fn transitions_mode_is_configurable_per_edge() {
    let policy = json!({"preset": "off", "guards": {"transitions": "staged"},
        "edges": {"a->b": {"transitions": "off"}, "b->c": {"transitions": {"mode": "halt"}}}});
    let taken = |from: &'static str, to: &'static str| {
        EventHistory::with_policy(policy.clone()).times(6, move |history, _| history.transition(from, to))
    };
    check("off", &taken("a", "b"), &[quiet("transitions")]);
    check(
        "halt",
        &taken("b", "c"),
        &[trips("transitions", "transition_limit", Halt).at(7).halt_reason("budget_exceeded")],
    );
    check("the shared limit", &taken("c", "d"), &[trips("transitions", "transition_limit", Block).at(7)]);
}

#[test]
fn a_refused_transition_is_not_counted() {
    let run = EventHistory::with_policy(transitions_only())
        .times(9, |history, _| history.transition("fix", "test"))
        .run();
    let counts: Vec<u64> = run
        .trips_of("transitions")
        .iter()
        .filter(|(_, trip)| trip.severity == Block)
        .map(|(_, trip)| trip.count)
        .collect();
    assert_eq!(counts, [5, 5, 5, 5]);
}

#[test]
fn transitions_fixtures_are_current() {
    check_fixtures("transitions", &must_trip()[0], &must_not_trip()[0]);
}
