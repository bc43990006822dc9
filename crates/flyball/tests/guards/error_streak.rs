//! `error_streak`: the same error (warned at 3, refused at 4), five failures of any kind, the failure rate.

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, failed, keep_fixtures, modes, never, ok, only,
    quiet, trips,
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

fn alone() -> Value {
    only("error_streak", json!({}))
}

/// Another call each time, failing with this error.
fn fails(history: History, at: usize, error: &str) -> History {
    let file = char::from(b'a' + u8::try_from(at % 26).unwrap_or(0));
    history.call("bash", json!({"command": format!("make {file}")}), failed(error))
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "the same error whatever the call: warned at the third, refused at the fourth",
            History::new().times(4, |history, i| fails(history, i, "permission denied")),
            [
                trips("error_streak", "repeated_error", Warn).at(7).count(3, 4),
                trips("error_streak", "repeated_error", Block)
                    .at(9)
                    .count(4, 4)
                    .events(&[3, 5, 7, 9])
                    .message("the same error came 4 times in a row"),
            ],
        ),
        case(
            "the same error for the sixth time halts",
            History::new().times(6, |history, i| fails(history, i, "permission denied").says(ERRORS[i])),
            [trips("error_streak", "repeated_error", Halt).because("repeated_error").count(6, 4)],
        ),
        case(
            "the very same call fails the very same way three times",
            History::new().times(3, |history, _| fails(history, 0, "permission denied")),
            [trips("error_streak", "repeated_error", Block).at(7).count(3, 3)],
        ),
        case(
            "errors that differ in a time of day only are the same",
            History::new().times(4, |history, i| {
                fails(history, i, &format!("2026-01-01T10:00:0{i}Z connection refused"))
            }),
            [trips("error_streak", "repeated_error", Block).at(9)],
        ),
        case(
            "five failures of five kinds in a row",
            History::new().times(5, |history, i| fails(history, i, ERRORS[i])),
            [trips("error_streak", "consecutive_failures", Warn)
                .at(11)
                .count(5, 5)
                .message("5 failures in a row")],
        ),
        case(
            "ten failures of ten kinds in a row",
            History::new().times(10, |history, i| fails(history, i, ERRORS[i])),
            [trips("error_streak", "consecutive_failures", Block).at(21).count(10, 5)],
        ),
        case(
            "sixteen of twenty calls fail, a lucky one between now and then",
            History::under(alone())
                .times(20, |history, i| {
                    if i % 5 == 4 {
                        history.call("bash", json!({"command": "pwd"}), ok("/"))
                    } else {
                        fails(history, i, ERRORS[i % 10])
                    }
                })
                .times(1, |history, i| fails(history, i, ERRORS[i])),
            [trips("error_streak", "error_rate", Warn).count(16, 16)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "two of the same error, then it works, time after time",
            History::new().times(4, |history, i| {
                fails(fails(history, 2 * i, "permission denied"), 2 * i + 1, "permission denied").call(
                    "bash",
                    json!({"command": format!("look {}", ERRORS[i])}),
                    ok("fine"),
                )
            }),
            [quiet("error_streak")],
        ),
        case(
            "the same error three times is a warning and no more",
            History::new().times(3, |history, i| fails(history, i, "permission denied")),
            [never("error_streak", Block)],
        ),
        case(
            "four failures of four kinds",
            History::new().times(4, |history, i| fails(history, i, ERRORS[i])),
            [quiet("error_streak")],
        ),
        case(
            "grep that finds nothing answers with its exit code, time after time",
            History::new().times(8, |history, i| fails(history, i, "Exit code 1")),
            [quiet("error_streak")],
        ),
        case(
            "the very same check answers no with its exit code four times",
            History::new().times(4, |history, _| fails(history, 0, "Exit code 1")),
            [quiet("error_streak")],
        ),
        case(
            "six parallel calls of one answer fail alike: that is one failure",
            History::new().round(1).times(6, |history, i| fails(history, i, "permission denied")),
            [quiet("error_streak")],
        ),
        case(
            "a person looks at it between",
            History::new().times(3, |history, i| {
                fails(
                    fails(history.human("try again"), 2 * i, "permission denied"),
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
        History::under(only("error_streak", keys))
            .times(4, |history, i| fails(history, i, "permission denied"))
    };
    modes("error_streak", history, 9);
}

#[test]
fn a_tool_may_fail_more_often() {
    let policy = json!({"tools": {"bash": {"error_streak": {"same_error": 8, "warn_at": 7, "any": "off"}}}});
    let history = |n| History::under(policy.clone()).times(n, |h, i| fails(h, i, "permission denied"));
    check("six", &history(6), &[quiet("error_streak")]);
    check("eight", &history(8), &[trips("error_streak", "repeated_error", Block).at(17).count(8, 8)]);
}

/// The contract, section 2: a call that was never requested is told with `tool` and `args` at its end. A host that only
/// reports what is over must be guarded all the same.
#[test]
fn calls_that_are_only_told_at_their_end_count() {
    let history = History::new().times(4, |history, i| {
        let fields = json!({"tool": "bash", "args": {"command": ERRORS[i]}, "ok": false, "error": "permission denied"});
        history.event("tool.finished", fields)
    });
    check("four ends", &history, &[trips("error_streak", "repeated_error", Block).at(5).count(4, 4)]);
}

#[test]
fn fixtures_of_error_streak() {
    keep_fixtures("error_streak", &must_trip()[0], &must_not_trip()[0]);
}
