//! `error_streak`: the same error (warned at 3, blocked at 4), five failures of any kind, the failure rate.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, check_modes, failed,
    never, ok, only_guard, quiet, trips,
};
use serde_json::{Value, json};

const ERRORS: [&str; 10] = [
    "permission denied",
    "no such file or directory",
    "connection refused",
    "syntax error near if",
    "assertion failed: left and right differ",
    "out of memory",
    "unknown option",
    "address already in use",
    "broken pipe",
    "certificate has expired",
];

fn error_streak_only() -> Value {
    only_guard("error_streak", json!({}))
}

/// A different call each time, failing with this error.
fn failing_call(history: EventHistory, at: usize, error: &str) -> EventHistory {
    let file = char::from(b'a' + u8::try_from(at % 26).unwrap_or(0));
    history.call("bash", json!({"command": format!("make {file}")}), failed(error))
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "the same error of different calls: warned at the third, blocked at the fourth",
            EventHistory::new().times(4, |history, i| failing_call(history, i, "permission denied")),
            [
                trips("error_streak", "repeated_error", Warn).at(7).count(3, 4),
                trips("error_streak", "repeated_error", Block)
                    .at(9)
                    .count(4, 4)
                    .events(&[3, 5, 7, 9])
                    .message("the same error occurred 4 times in a row"),
            ],
        ),
        case(
            "the same error for the sixth time halts",
            EventHistory::new().times(6, |history, i| {
                failing_call(history, i, "permission denied").assistant_message(ERRORS[i])
            }),
            [trips("error_streak", "repeated_error", Halt).halt_reason("repeated_error").count(6, 4)],
        ),
        case(
            "an identical call fails identically three times",
            EventHistory::new().times(3, |history, _| failing_call(history, 0, "permission denied")),
            [trips("error_streak", "repeated_error", Block).at(7).count(3, 3)],
        ),
        case(
            "errors that differ only in a timestamp are the same",
            EventHistory::new().times(4, |history, i| {
                failing_call(history, i, &format!("2026-01-01T10:00:0{i}Z connection refused"))
            }),
            [trips("error_streak", "repeated_error", Block).at(9)],
        ),
        case(
            "five failures of five kinds in a row",
            EventHistory::new().times(5, |history, i| failing_call(history, i, ERRORS[i])),
            [trips("error_streak", "consecutive_failures", Warn)
                .at(11)
                .count(5, 5)
                .message("5 failures in a row")],
        ),
        case(
            "ten failures of ten kinds in a row",
            EventHistory::new().times(10, |history, i| failing_call(history, i, ERRORS[i])),
            [trips("error_streak", "consecutive_failures", Block).at(21).count(10, 5)],
        ),
        case(
            "sixteen of twenty calls fail, with occasional successes",
            EventHistory::with_policy(error_streak_only())
                .times(20, |history, i| {
                    if i % 5 == 4 {
                        history.call("bash", json!({"command": "pwd"}), ok("/"))
                    } else {
                        failing_call(history, i, ERRORS[i % 10])
                    }
                })
                .times(1, |history, i| failing_call(history, i, ERRORS[i])),
            [trips("error_streak", "error_rate", Warn).count(16, 16)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "the same error twice, then a success, repeatedly",
            EventHistory::new().times(4, |history, i| {
                failing_call(
                    failing_call(history, 2 * i, "permission denied"),
                    2 * i + 1,
                    "permission denied",
                )
                .call("bash", json!({"command": format!("look {}", ERRORS[i])}), ok("fine"))
            }),
            [quiet("error_streak")],
        ),
        case(
            "the same error three times is only a warning",
            EventHistory::new().times(3, |history, i| failing_call(history, i, "permission denied")),
            [never("error_streak", Block)],
        ),
        case(
            "four failures of four kinds",
            EventHistory::new().times(4, |history, i| failing_call(history, i, ERRORS[i])),
            [quiet("error_streak")],
        ),
        case(
            "grep without matches repeatedly reports its exit code",
            EventHistory::new().times(8, |history, i| failing_call(history, i, "Exit code 1")),
            [quiet("error_streak")],
        ),
        case(
            "the same check answers no with its exit code four times",
            EventHistory::new().times(4, |history, _| failing_call(history, 0, "Exit code 1")),
            [quiet("error_streak")],
        ),
        case(
            "six parallel calls of one response fail alike: one failure",
            EventHistory::new().round(1).times(6, |history, i| failing_call(history, i, "permission denied")),
            [quiet("error_streak")],
        ),
        case(
            "a user message in between",
            EventHistory::new().times(3, |history, i| {
                failing_call(
                    failing_call(history.user_message("try again"), 2 * i, "permission denied"),
                    2 * i + 1,
                    "permission denied",
                )
            }),
            [quiet("error_streak")],
        ),
    ]
}

#[test]
fn error_streak_trips() {
    check_all(&must_trip());
}

#[test]
fn error_streak_does_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn error_streak_obeys_its_mode() {
    let history = |keys| {
        EventHistory::with_policy(only_guard("error_streak", keys))
            .times(4, |history, i| failing_call(history, i, "permission denied"))
    };
    check_modes("error_streak", history, 9);
}

#[test]
fn error_streak_limit_is_configurable_per_tool() {
    let policy = json!({"tools": {"bash": {"error_streak": {"same_error": 8, "warn_at": 7, "any": "off"}}}});
    let history = |n| {
        EventHistory::with_policy(policy.clone()).times(n, |h, i| failing_call(h, i, "permission denied"))
    };
    check("six", &history(6), &[quiet("error_streak")]);
    check("eight", &history(8), &[trips("error_streak", "repeated_error", Block).at(17).count(8, 8)]);
}

/// A call that was never requested is reported with `tool` and `args` at its end. A host that only reports finished
/// calls must be guarded too.
#[test]
fn finished_calls_that_were_never_requested_count() {
    let history = EventHistory::new().times(4, |history, i| {
        let fields = json!({"tool": "bash", "args": {"command": ERRORS[i]}, "ok": false, "error": "permission denied"});
        history.event("tool.finished", fields)
    });
    check("four ends", &history, &[trips("error_streak", "repeated_error", Block).at(5).count(4, 4)]);
}

#[test]
fn error_streak_fixtures_are_current() {
    check_fixtures("error_streak", &must_trip()[0], &must_not_trip()[0]);
}
