//! `retry`: three attempts of an operation, then the breaker opens (seed 000).

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, keep_fixtures, modes, never, only, quiet, trips,
};
use flyball::Status;
use serde_json::{Value, json};

fn alone() -> Value {
    only("retry", json!({}))
}

fn attempts(history: History, operation: &str, n: usize) -> History {
    history.times(n, |history, _| history.attempt(operation))
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "three attempts may be tried again, the fourth failure opens the breaker",
            attempts(History::new(), "collect_next_slot", 4),
            [
                trips("retry", "retries_exhausted", Warn).at(2).count(1, 3),
                trips("retry", "retries_exhausted", Block)
                    .at(5)
                    .count(3, 3)
                    .events(&[2, 5])
                    .state(Status::Running)
                    .message("Max retries for collect_next_slot exceeded"),
            ],
        ),
        case(
            "the confirmation says it in its own words",
            attempts(History::new(), "confirmation", 4),
            [trips("retry", "retries_exhausted", Block)
                .at(5)
                .message("Maximum confirmation attempts (3) exceeded. Aborting confirmation flow.")],
        ),
        case(
            "while the breaker is open nothing is tried",
            attempts(History::new().clock(1_000), "correction", 5),
            [trips("retry", "retries_exhausted", Block).at(5)],
        ),
        case(
            "an operation with one attempt of its own",
            attempts(History::under(only("retry", json!({"operations": {"pay": {"limit": 1}}}))), "pay", 2),
            [trips("retry", "retries_exhausted", Block).at(3).count(1, 1)],
        ),
        case(
            "a success long before does not help",
            attempts(attempts(History::new(), "validation", 2).success("validation"), "validation", 4),
            [trips("retry", "retries_exhausted", Block).at(8)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "a success clears the attempts, time after time",
            History::new().times(5, |history, _| attempts(history, "correction", 3).success("correction")),
            [never("retry", Block)],
        ),
        case("three attempts", attempts(History::new(), "correction", 3), [never("retry", Block)]),
        case(
            "each operation has a counter of its own",
            ["correction", "modification", "validation", "collect_next_slot"]
                .iter()
                .fold(History::new(), |history, operation| attempts(history, operation, 3)),
            [never("retry", Block)],
        ),
        case(
            "each key of an operation has a counter of its own",
            History::new().times(9, |history, i| {
                history
                    .event("operation.failed", json!({"operation": "slot", "key": (["a", "b", "c"][i % 3])}))
            }),
            [never("retry", Block)],
        ),
        case(
            "successes only",
            History::new().times(9, |history, _| history.success("correction")),
            [quiet("retry")],
        ),
    ]
}

#[test]
fn retry_trips() {
    check_all(&must_trip());
}

#[test]
fn retry_does_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn retry_obeys_its_mode() {
    modes("retry", |keys| attempts(History::under(only("retry", keys)), "correction", 4), 5);
}

#[test]
fn the_words_to_the_person_are_the_seeds() {
    let run = attempts(History::new(), "confirmation", 4).run();
    assert_eq!(run.said(2), ["I didn't understand. Is this information correct? (yes/no)"]);
    assert_eq!(
        run.said(5),
        ["I'm having trouble understanding your confirmation. Let's start over. What would you like to do?"]
    );
    let run = attempts(History::new(), "modification", 4).run();
    assert_eq!(run.said(4), [""; 0]);
    assert_eq!(run.said(5), ["I'm having trouble processing this. Let's start over."]);
}

#[test]
fn the_counters_have_the_seeds_names() {
    for (operation, counter) in [
        ("confirmation", "_confirmation_attempts"),
        ("correction", "_correction_retries"),
        ("modification", "_modification_retries"),
        ("collect_next_slot", "_collect_next_slot_retries"),
        ("validation", "_validation_attempts"),
    ] {
        let run = attempts(History::new(), operation, 1).run();
        assert_eq!(run.last().trips[0].scope["counter"], counter);
    }
}

#[test]
fn each_wait_is_longer_and_the_breaker_goes_through_its_states() {
    let policy = only("retry", json!({"jitter_percent": 0, "base": "1s", "cooldown": "60s", "probe": "30s"}));
    let history = attempts(History::under(policy).clock(1_000_000), "pay", 4)
        .later(10_000)
        .attempt("pay") // open: refused
        .later(50_000)
        .attempt("pay") // the cooldown is over: one probe
        .later(1_000)
        .attempt("pay") // the probe failed: open again, for twice as long
        .later(120_000)
        .attempt("pay") // a probe once more
        .later(1_000)
        .success("pay")
        .attempt("pay"); // closed: counted from one
    let run = history.run();
    let seen: Vec<(Option<u64>, String)> =
        run.decisions.iter().skip(1).map(|d| (d.retry_after_ms, format!("{:?}", d.decision))).collect();
    let expected = [
        (Some(1_000), "Warn"),
        (Some(2_000), "Warn"),
        (Some(4_000), "Warn"),
        (Some(60_000), "Block"),
        (Some(50_000), "Block"),
        (Some(0), "Warn"),
        (Some(120_000), "Block"),
        (Some(0), "Warn"),
        (None, "Allow"),
        (Some(1_000), "Warn"),
    ];
    let expected: Vec<(Option<u64>, String)> =
        expected.iter().map(|(wait, verdict)| (*wait, (*verdict).to_owned())).collect();
    assert_eq!(seen, expected);
}

#[test]
fn the_third_opening_calls_a_person() {
    let policy = only("retry", json!({"cooldown": "1s", "max_cooldown": "1s", "jitter_percent": 0}));
    let history = attempts(History::under(policy).clock(1_000_000), "pay", 4)
        .times(2, |history, _| history.later(2_000).attempt("pay").later(500).attempt("pay"));
    let run = history.run();
    assert_eq!(run.last().state, Status::Blocked, "{}", run.last().to_json());
    assert_eq!(run.effects(9), ["say", "label.added"]);
    assert_eq!(run.at(7).state, Status::Running);
}

#[test]
fn in_mode_halt_it_says_repeated_error() {
    let history = attempts(History::under(only("retry", json!({"mode": "halt"}))), "pay", 4);
    check("halt", &history, &[trips("retry", "retries_exhausted", Halt).at(5).because("repeated_error")]);
    let history = attempts(History::under(alone()), "pay", 1);
    check("warn", &history, &[trips("retry", "retries_exhausted", Warn).at(2)]);
}

#[test]
fn fixtures_of_retry() {
    keep_fixtures("retry", &must_trip()[0], &must_not_trip()[0]);
}
