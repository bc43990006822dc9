//! `retry`: three attempts of an operation, then the breaker opens.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, check_modes, never,
    only_guard, quiet, trips,
};
use flyball::SessionPhase;
use serde_json::{Value, json};

fn retry_only() -> Value {
    only_guard("retry", json!({}))
}

fn repeat_failure(history: EventHistory, operation: &str, n: usize) -> EventHistory {
    history.times(n, |history, _| history.operation_failed(operation))
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "three attempts may be retried, the fourth failure opens the breaker",
            repeat_failure(EventHistory::new(), "collect_next_slot", 4),
            [
                trips("retry", "retries_exhausted", Warn).at(2).count(1, 3),
                trips("retry", "retries_exhausted", Block)
                    .at(5)
                    .count(3, 3)
                    .events(&[2, 5])
                    .state(SessionPhase::Running)
                    .message("Max retries for collect_next_slot exceeded"),
            ],
        ),
        case(
            "the confirmation operation has its own message",
            repeat_failure(EventHistory::new(), "confirmation", 4),
            [trips("retry", "retries_exhausted", Block)
                .at(5)
                .message("Maximum confirmation attempts (3) exceeded. Aborting confirmation flow.")],
        ),
        case(
            "while the breaker is open nothing is retried",
            repeat_failure(EventHistory::new().at_time(1_000), "correction", 5),
            [trips("retry", "retries_exhausted", Block).at(5)],
        ),
        case(
            "an operation with a limit of one attempt",
            repeat_failure(
                EventHistory::with_policy(only_guard("retry", json!({"operations": {"pay": {"limit": 1}}}))),
                "pay",
                2,
            ),
            [trips("retry", "retries_exhausted", Block).at(3).count(1, 1)],
        ),
        case(
            "a success long before does not matter",
            repeat_failure(
                repeat_failure(EventHistory::new(), "validation", 2).operation_succeeded("validation"),
                "validation",
                4,
            ),
            [trips("retry", "retries_exhausted", Block).at(8)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "a success clears the attempts each time",
            EventHistory::new().times(5, |history, _| {
                repeat_failure(history, "correction", 3).operation_succeeded("correction")
            }),
            [never("retry", Block)],
        ),
        case("three attempts", repeat_failure(EventHistory::new(), "correction", 3), [never("retry", Block)]),
        case(
            "each operation has a separate counter",
            ["correction", "modification", "validation", "collect_next_slot"]
                .iter()
                .fold(EventHistory::new(), |history, operation| repeat_failure(history, operation, 3)),
            [never("retry", Block)],
        ),
        case(
            "each key of an operation has a separate counter",
            EventHistory::new().times(9, |history, i| {
                history
                    .event("operation.failed", json!({"operation": "slot", "key": (["a", "b", "c"][i % 3])}))
            }),
            [never("retry", Block)],
        ),
        case(
            "successes only",
            EventHistory::new().times(9, |history, _| history.operation_succeeded("correction")),
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
    check_modes(
        "retry",
        |keys| repeat_failure(EventHistory::with_policy(only_guard("retry", keys)), "correction", 4),
        5,
    );
}

#[test]
fn retry_messages_match_the_original_system() {
    let run = repeat_failure(EventHistory::new(), "confirmation", 4).run();
    assert_eq!(run.messages(2), ["I didn't understand. Is this information correct? (yes/no)"]);
    assert_eq!(
        run.messages(5),
        ["I'm having trouble understanding your confirmation. Let's start over. What would you like to do?"]
    );
    let run = repeat_failure(EventHistory::new(), "modification", 4).run();
    assert_eq!(run.messages(4), [""; 0]);
    assert_eq!(run.messages(5), ["I'm having trouble processing this. Let's start over."]);
}

#[test]
fn retry_counter_names_match_the_original_system() {
    for (operation, counter) in [
        ("confirmation", "_confirmation_attempts"),
        ("correction", "_correction_retries"),
        ("modification", "_modification_retries"),
        ("collect_next_slot", "_collect_next_slot_retries"),
        ("validation", "_validation_attempts"),
    ] {
        let run = repeat_failure(EventHistory::new(), operation, 1).run();
        assert_eq!(run.last().trips[0].scope["counter"], counter);
    }
}

#[test]
fn backoff_grows_and_the_breaker_goes_through_its_states() {
    let policy =
        only_guard("retry", json!({"jitter_percent": 0, "base": "1s", "cooldown": "60s", "probe": "30s"}));
    let history = repeat_failure(EventHistory::with_policy(policy).at_time(1_000_000), "pay", 4)
        .after_ms(10_000)
        .operation_failed("pay") // open: blocked
        .after_ms(50_000)
        .operation_failed("pay") // cooldown over: one probe
        .after_ms(1_000)
        .operation_failed("pay") // probe failed: open again, for twice as long
        .after_ms(120_000)
        .operation_failed("pay") // another probe
        .after_ms(1_000)
        .operation_succeeded("pay")
        .operation_failed("pay"); // closed: counted from one
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
fn third_breaker_opening_escalates() {
    let policy = only_guard("retry", json!({"cooldown": "1s", "max_cooldown": "1s", "jitter_percent": 0}));
    let history = repeat_failure(EventHistory::with_policy(policy).at_time(1_000_000), "pay", 4)
        .times(2, |history, _| {
            history.after_ms(2_000).operation_failed("pay").after_ms(500).operation_failed("pay")
        });
    let run = history.run();
    assert_eq!(run.last().state, SessionPhase::Blocked, "{}", run.last().to_json());
    assert_eq!(run.effects(9), ["say", "label.added"]);
    assert_eq!(run.at(7).state, SessionPhase::Running);
}

#[test]
fn retry_in_halt_mode_reports_repeated_error() {
    let history =
        repeat_failure(EventHistory::with_policy(only_guard("retry", json!({"mode": "halt"}))), "pay", 4);
    check("halt", &history, &[trips("retry", "retries_exhausted", Halt).at(5).halt_reason("repeated_error")]);
    let history = repeat_failure(EventHistory::with_policy(retry_only()), "pay", 1);
    check("warn", &history, &[trips("retry", "retries_exhausted", Warn).at(2)]);
}

#[test]
fn retry_fixtures_are_current() {
    check_fixtures("retry", &must_trip()[0], &must_not_trip()[0]);
}
