//! `visits`: ten entries into a node, the eleventh is refused; overridable a node (seed 003).

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, keep_fixtures, modes, never, only, quiet, trips,
};
use flyball::Status;
use serde_json::{Value, json};

fn alone() -> Value {
    only("visits", json!({}))
}

fn five_for_test() -> Value {
    json!({"preset": "off", "guards": {"visits": "staged"}, "nodes": {"test": {"max_visits": 5}}})
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "Issue-123: five visits of the test phase run, the sixth is refused",
            History::under(five_for_test()).times(6, |history, _| history.begins("test")),
            [
                trips("visits", "visit_limit", Warn).at(5).count(4, 5),
                trips("visits", "visit_limit", Block)
                    .at(7)
                    .count(5, 5)
                    .state(Status::Blocked)
                    .message("Phase 'test' exceeded max_visits (5) with 5 visits"),
            ],
        ),
        case(
            "ten visits run, the eleventh is refused",
            History::under(alone()).times(11, |history, _| history.begins("test")),
            [trips("visits", "visit_limit", Block)
                .at(12)
                .count(10, 10)
                .message("Phase 'test' exceeded max_visits (10) with 10 visits")],
        ),
        case(
            "a retry is a visit: transitions and retries count together",
            History::under(five_for_test())
                .times(2, |history, _| history.go("fix", "test").begins("test").begins("test"))
                .go("fix", "test")
                .go("fix", "test"),
            [trips("visits", "visit_limit", Block).at(9).count(5, 5)],
        ),
        case(
            "a transition into a full node is refused",
            History::under(five_for_test()).times(5, |history, _| history.begins("test")).go("fix", "test"),
            [trips("visits", "visit_limit", Block).at(7)],
        ),
        case(
            "the preset for short workflows allows five",
            History::under("simple")
                .times(5, |history, i| history.go(["a", "b", "c", "d", "e"][i], "test"))
                .go("f", "test"),
            [trips("visits", "visit_limit", Block).at(7).count(5, 5)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "each node has a count of its own",
            History::under(alone()).times(8, |history, _| history.begins("a").begins("b").begins("c")),
            [quiet("visits")],
        ),
        case(
            "ten visits run",
            History::under(alone()).times(10, |history, _| history.begins("test")),
            [never("visits", Block)],
        ),
        case(
            "a turn that a transition announced is one visit, not two",
            History::under(alone()).times(8, |history, _| history.go("fix", "test").begins("test")),
            [quiet("visits")],
        ),
        case(
            "the ends of turns are no visits",
            History::under(alone()).begins("test").times(30, |history, _| history.ends("test", "")),
            [quiet("visits")],
        ),
        case(
            "an agent on its own has no visits to count",
            History::new().times(30, |history, _| history.begins("main")),
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
    modes("visits", |keys| History::under(only("visits", keys)).times(11, |h, _| h.begins("test")), 12);
}

#[test]
fn a_node_may_have_its_own_mode() {
    let policy = json!({"preset": "off", "guards": {"visits": {"limit": 3}},
        "nodes": {"free": {"visits": "off"}, "strict": {"visits": {"mode": "halt"}}}});
    let visits = |node: &'static str| History::under(policy.clone()).times(4, move |h, _| h.begins(node));
    check("free", &visits("free"), &[quiet("visits")]);
    check("common", &visits("other"), &[trips("visits", "visit_limit", Block).at(5)]);
    check(
        "strict",
        &visits("strict"),
        &[trips("visits", "visit_limit", Halt).at(5).because("budget_exceeded").state(Status::Halted)],
    );
}

#[test]
fn refused_visits_are_not_counted() {
    let run = History::under(alone()).times(14, |history, _| history.begins("test")).run();
    let counts: Vec<u64> = run
        .trips_of("visits")
        .iter()
        .filter(|(_, trip)| trip.severity == Block)
        .map(|(_, t)| t.count)
        .collect();
    assert_eq!(counts, [10, 10, 10, 10]);
}

#[test]
fn fixtures_of_visits() {
    keep_fixtures("visits", &must_trip()[0], &must_not_trip()[0]);
}
