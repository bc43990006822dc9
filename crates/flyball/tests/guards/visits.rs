//! `visits`: ten entries into a node, the eleventh is blocked; configurable per node.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, check_modes, never,
    only_guard, quiet, trips,
};
use flyball::SessionPhase;
use serde_json::{Value, json};

fn visits_only() -> Value {
    only_guard("visits", json!({}))
}

fn five_for_test() -> Value {
    json!({"preset": "off", "guards": {"visits": "staged"}, "nodes": {"test": {"max_visits": 5}}})
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "Issue-123: five visits of the test phase are allowed, the sixth is blocked",
            EventHistory::with_policy(five_for_test()).times(6, |history, _| history.start_turn("test")),
            [
                trips("visits", "visit_limit", Warn).at(5).count(4, 5),
                trips("visits", "visit_limit", Block)
                    .at(7)
                    .count(5, 5)
                    .state(SessionPhase::Blocked)
                    .message("Phase 'test' exceeded max_visits (5) with 5 visits"),
            ],
        ),
        case(
            "ten visits are allowed, the eleventh is blocked",
            EventHistory::with_policy(visits_only()).times(11, |history, _| history.start_turn("test")),
            [trips("visits", "visit_limit", Block)
                .at(12)
                .count(10, 10)
                .message("Phase 'test' exceeded max_visits (10) with 10 visits")],
        ),
        case(
            "a retry is a visit: transitions and retries count together",
            EventHistory::with_policy(five_for_test())
                .times(2, |history, _| {
                    history.transition("fix", "test").start_turn("test").start_turn("test")
                })
                .transition("fix", "test")
                .transition("fix", "test"),
            [trips("visits", "visit_limit", Block).at(9).count(5, 5)],
        ),
        case(
            "a transition into a full node is blocked",
            EventHistory::with_policy(five_for_test())
                .times(5, |history, _| history.start_turn("test"))
                .transition("fix", "test"),
            [trips("visits", "visit_limit", Block).at(7)],
        ),
        case(
            "the preset for short workflows allows five",
            EventHistory::with_policy("simple")
                .times(5, |history, i| history.transition(["a", "b", "c", "d", "e"][i], "test"))
                .transition("f", "test"),
            [trips("visits", "visit_limit", Block).at(7).count(5, 5)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "each node has a separate count",
            EventHistory::with_policy(visits_only())
                .times(8, |history, _| history.start_turn("a").start_turn("b").start_turn("c")),
            [quiet("visits")],
        ),
        case(
            "ten visits are allowed",
            EventHistory::with_policy(visits_only()).times(10, |history, _| history.start_turn("test")),
            [never("visits", Block)],
        ),
        case(
            "a turn after a transition is one visit, not two",
            EventHistory::with_policy(visits_only())
                .times(8, |history, _| history.transition("fix", "test").start_turn("test")),
            [quiet("visits")],
        ),
        case(
            "the ends of turns are not visits",
            EventHistory::with_policy(visits_only())
                .start_turn("test")
                .times(30, |history, _| history.finish_turn("test", "")),
            [quiet("visits")],
        ),
        case(
            "an agent without a workflow has no visits to count",
            EventHistory::new().times(30, |history, _| history.start_turn("main")),
            [quiet("visits")],
        ),
    ]
}

#[test]
fn visits_trip() {
    check_all(&must_trip());
}

#[test]
fn visits_do_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn visits_obey_their_mode() {
    check_modes(
        "visits",
        |keys| EventHistory::with_policy(only_guard("visits", keys)).times(11, |h, _| h.start_turn("test")),
        12,
    );
}

#[test]
fn visits_mode_is_configurable_per_node() {
    let policy = json!({"preset": "off", "guards": {"visits": {"limit": 3}},
        "nodes": {"free": {"visits": "off"}, "strict": {"visits": {"mode": "halt"}}}});
    let visits = |node: &'static str| {
        EventHistory::with_policy(policy.clone()).times(4, move |h, _| h.start_turn(node))
    };
    check("free", &visits("free"), &[quiet("visits")]);
    check("common", &visits("other"), &[trips("visits", "visit_limit", Block).at(5)]);
    check(
        "strict",
        &visits("strict"),
        &[trips("visits", "visit_limit", Halt)
            .at(5)
            .halt_reason("budget_exceeded")
            .state(SessionPhase::Halted)],
    );
}

#[test]
fn refused_visits_are_not_counted() {
    let run =
        EventHistory::with_policy(visits_only()).times(14, |history, _| history.start_turn("test")).run();
    let counts: Vec<u64> = run
        .trips_of("visits")
        .iter()
        .filter(|(_, trip)| trip.severity == Block)
        .map(|(_, t)| t.count)
        .collect();
    assert_eq!(counts, [10, 10, 10, 10]);
}

#[test]
fn visits_fixtures_are_current() {
    check_fixtures("visits", &must_trip()[0], &must_not_trip()[0]);
}
