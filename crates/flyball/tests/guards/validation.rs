//! `validation`: the third unreadable answer in a row halts; a readable one clears the row (seed 002).

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, keep_fixtures, modes, never, ok, only, quiet,
    trips,
};
use flyball::Status;
use serde_json::json;

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "the third unreadable answer in a row halts",
            History::new().times(3, |history, _| history.invalid("expected `,` at column 9")),
            [
                trips("validation", "validation_failure", Warn).at(2).count(1, 3),
                trips("validation", "validation_failure", Halt)
                    .at(4)
                    .count(3, 3)
                    .because("repeated_error")
                    .events(&[2, 3, 4])
                    .state(Status::Halted)
                    .message("validation failure 3/3: expected `,` at column 9")
                    .feedback(
                        "Failed to parse your response: expected `,` at column 9. Please try again with valid JSON.",
                    ),
            ],
        ),
        case(
            "kinds of failure count together",
            ["missing_field", "unknown_tool", "truncated"].iter().fold(History::new(), |history, kind| {
                history.event("validation.failed", json!({"kind": kind}))
            }),
            [trips("validation", "validation_failure", Halt).at(4).count(3, 3)],
        ),
        case(
            "a failed tool between is no readable answer",
            History::new()
                .invalid("a")
                .invalid("b")
                .call("bash", json!({"command": "false"}), crate::kit::failed("it broke"))
                .invalid("c"),
            [trips("validation", "validation_failure", Halt).at(6)],
        ),
        case(
            "what a person says between does not make the answers readable",
            History::new().invalid("a").human("please").invalid("b").human("please").invalid("c"),
            [trips("validation", "validation_failure", Halt).at(6)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "two unreadable answers, then a readable one, time after time",
            History::new().times(5, |history, _| {
                history.invalid("a").invalid("b").event("validation.passed", json!({}))
            }),
            [never("validation", Block)],
        ),
        case("two in a row", History::new().invalid("a").invalid("b"), [never("validation", Block)]),
        case(
            "a tool call that succeeded was readable",
            History::new().times(5, |history, i| {
                history.invalid("a").invalid("b").call("read_file", json!({"path": i}), ok("text"))
            }),
            [never("validation", Block)],
        ),
        case(
            "tools that fail are counted elsewhere",
            History::new().times(6, |history, i| {
                let error = ["a", "b", "c", "d", "e", "f"][i];
                history
                    .invalid("x")
                    .call("bash", json!({"command": error}), crate::kit::failed(error))
                    .event("validation.passed", json!({}))
            }),
            [never("validation", Block)],
        ),
        case(
            "readable answers only",
            History::new().times(9, |history, _| history.event("validation.passed", json!({}))),
            [quiet("validation")],
        ),
    ]
}

#[test]
fn validation_trips() {
    check_all(&must_trip());
}

#[test]
fn validation_does_not_trip() {
    check_all(&must_not_trip());
}

/// The five kinds of the seed, and any other; each trip names its own.
#[test]
fn every_kind_of_unreadable_answer_is_counted_and_named() {
    for kind in ["malformed_json", "missing_field", "unknown_tool", "bad_completion", "truncated", "odd"] {
        let failed = json!({"kind": kind, "expected": "a tool call", "received": "TASK_COM", "error": "no"});
        let run = History::new().times(3, |h, _| h.event("validation.failed", failed.clone())).run();
        for (at, trip) in run.trips_of("validation") {
            assert_eq!((trip.scope["kind"].as_str(), trip.count), (kind, at as u64 - 1));
        }
        assert_eq!(run.last().state, Status::Halted, "{kind}");
        assert!(run.lines[1].contains("TASK_COM"), "what was received is in the record");
    }
}

#[test]
fn a_garbled_completion_is_refused_and_counted_and_the_third_halts() {
    let garbled = |history: History| {
        history.event("completion.requested", json!({"request": "TASK_COMPLETE{\"skip_tests\": tru"}))
    };
    let history = History::new().times(3, |history, _| garbled(history));
    check(
        "garbled",
        &history,
        &[
            trips("validation", "validation_failure", Block).at(2).count(1, 3),
            trips("validation", "validation_failure", Halt).at(4).count(3, 3).state(Status::Halted),
        ],
    );
    let run = garbled(History::new()).run();
    assert_eq!(run.last().trips[0].scope["kind"], "bad_completion");
    let feedback = run.last().feedback.clone().unwrap();
    assert!(
        feedback.starts_with("Failed to parse your response: the options of the completion request"),
        "{feedback}"
    );
    let cleared = garbled(garbled(History::new())).event("completion.requested", json!({}));
    check("a clear one clears the row", &garbled(cleared), &[never("validation", Halt)]);
    let mixed = garbled(History::new().invalid("x").invalid("y"));
    check("one row", &mixed, &[trips("validation", "validation_failure", Halt).at(4).count(3, 3)]);
    let off = History::under(json!({"guards": {"validation": "off"}}));
    check("off", &garbled(off), &[quiet("validation")]);
}

#[test]
fn validation_obeys_its_mode() {
    modes("validation", |keys| History::under(only("validation", keys)).times(3, |h, _| h.invalid("x")), 4);
}

#[test]
fn a_node_may_be_given_more_attempts() {
    let policy = json!({"nodes": {"draft": {"validation": {"limit": 5}}}});
    let tries = |n| History::under(policy.clone()).by("draft").times(n, |history, _| history.invalid("x"));
    check("four", &tries(4), &[never("validation", Block)]);
    check("five", &tries(5), &[trips("validation", "validation_failure", Halt).at(6).count(5, 5)]);
}

#[test]
fn a_long_error_is_cut_and_cannot_break_the_line() {
    let run = History::new().invalid(&"long\n".repeat(5_000)).run();
    let feedback = run.last().feedback.clone().unwrap();
    assert!(feedback.chars().count() <= 600 && !feedback.contains('\n'), "{feedback}");
}

#[test]
fn fixtures_of_validation() {
    keep_fixtures("validation", &must_trip()[0], &must_not_trip()[0]);
}
