//! `transitions`: five along one edge, the sixth is refused; overridable an edge (seed 003).

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, keep_fixtures, modes, never, only, quiet, trips,
};
use flyball::Status;
use serde_json::{Value, json};

fn alone() -> Value {
    only("transitions", json!({}))
}

/// Issue-456: implement to test once, then test and fix to and fro.
fn issue_456(history: History, more: usize) -> History {
    history.go("implement", "test").times(more, |history, i| {
        if i % 2 == 0 { history.go("test", "fix") } else { history.go("fix", "test") }
    })
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "Issue-456: the first transition refused is the twelfth, test to fix for the sixth time",
            issue_456(History::under(alone()), 11),
            [
                trips("transitions", "transition_limit", Warn).at(9).count(4, 5),
                trips("transitions", "transition_limit", Block)
                    .at(13)
                    .count(5, 5)
                    .state(Status::Blocked)
                    .message("Transition test→fix exceeded max_transitions (5) with 5 occurrences"),
            ],
        ),
        case(
            "five along one edge, the sixth is refused",
            History::under(alone()).times(6, |history, _| history.go("fix", "test")),
            [trips("transitions", "transition_limit", Block)
                .at(7)
                .count(5, 5)
                .message("Transition fix→test exceeded max_transitions (5) with 5 occurrences")],
        ),
        case(
            "an edge with eight of its own: the ninth is refused",
            History::under(json!({"preset": "off", "guards": {"transitions": "staged"}, "edges": {"fix->test": {"max_transitions": 8}}}))
                .times(9, |history, _| history.go("fix", "test")),
            [trips("transitions", "transition_limit", Block).at(10).count(8, 8)],
        ),
        case(
            "all edges together may be limited",
            History::under(only("transitions", json!({"total": 4}))).walk("a>b>c>d>e>f"),
            [trips("transitions", "transition_limit", Block).at(6).count(4, 4)],
        ),
        case(
            "the preset for short workflows allows three",
            History::under("simple").times(4, |history, i| history.human("go").go("fix", "test").begins(["a", "b", "c", "d"][i])),
            [trips("transitions", "transition_limit", Block).at(12).count(3, 3)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case("there and back are two edges", issue_456(History::under(alone()), 6), [quiet("transitions")]),
        case(
            "the eleventh transition of Issue-456",
            issue_456(History::under(alone()), 10),
            [never("transitions", Block)],
        ),
        case(
            "a retry is a visit and not a transition",
            History::under(alone()).go("fix", "test").times(20, |history, _| history.begins("test")),
            [quiet("transitions")],
        ),
        case(
            "many edges, each taken three times",
            History::under(alone()).times(3, |history, _| history.walk("a>b>c>d>e>f>a")),
            [quiet("transitions")],
        ),
        case(
            "an agent on its own has no edges to count",
            History::new().times(4, |history, _| history.human("go").walk("a>b>a>b")),
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
    modes("transitions", |keys| History::under(only("transitions", keys)).times(6, |h, _| h.go("a", "b")), 7);
}

#[test]
fn an_edge_may_have_its_own_mode() {
    let policy = json!({"preset": "off", "guards": {"transitions": "staged"},
        "edges": {"a->b": {"transitions": "off"}, "b->c": {"transitions": {"mode": "halt"}}}});
    let taken = |from: &'static str, to: &'static str| {
        History::under(policy.clone()).times(6, move |history, _| history.go(from, to))
    };
    check("off", &taken("a", "b"), &[quiet("transitions")]);
    check(
        "halt",
        &taken("b", "c"),
        &[trips("transitions", "transition_limit", Halt).at(7).because("budget_exceeded")],
    );
    check("the common limit", &taken("c", "d"), &[trips("transitions", "transition_limit", Block).at(7)]);
}

#[test]
fn a_refused_transition_is_not_counted() {
    let run = History::under(alone()).times(9, |history, _| history.go("fix", "test")).run();
    let counts: Vec<u64> = run
        .trips_of("transitions")
        .iter()
        .filter(|(_, trip)| trip.severity == Block)
        .map(|(_, trip)| trip.count)
        .collect();
    assert_eq!(counts, [5, 5, 5, 5]);
}

#[test]
fn fixtures_of_transitions() {
    keep_fixtures("transitions", &must_trip()[0], &must_not_trip()[0]);
}
