//! `validation`: the third invalid response in a row halts; a valid one resets the count.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, check_modes, never,
    ok, only_guard, quiet, trips,
};
use flyball::SessionPhase;
use serde_json::json;

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "the third invalid response in a row halts",
            EventHistory::new().times(3, |history, _| history.validation_failed("expected `,` at column 9")),
            [
                trips("validation", "validation_failure", Warn).at(2).count(1, 3),
                trips("validation", "validation_failure", Halt)
                    .at(4)
                    .count(3, 3)
                    .halt_reason("repeated_error")
                    .events(&[2, 3, 4])
                    .state(SessionPhase::Halted)
                    .message("validation failure 3/3: expected `,` at column 9")
                    .feedback(
                        "Failed to parse your response: expected `,` at column 9. Please try again with valid JSON.",
                    ),
            ],
        ),
        case(
            "different kinds of failure count together",
            ["missing_field", "unknown_tool", "truncated"].iter().fold(EventHistory::new(), |history, kind| {
                history.event("validation.failed", json!({"kind": kind}))
            }),
            [trips("validation", "validation_failure", Halt).at(4).count(3, 3)],
        ),
        case(
            "a failed tool call in between is not a valid response",
            EventHistory::new()
                .validation_failed("a")
                .validation_failed("b")
                .call("bash", json!({"command": "false"}), crate::harness::failed("it broke"))
                .validation_failed("c"),
            [trips("validation", "validation_failure", Halt).at(6)],
        ),
        case(
            "a user message in between does not make the responses valid",
            EventHistory::new().validation_failed("a").user_message("please").validation_failed("b").user_message("please").validation_failed("c"),
            [trips("validation", "validation_failure", Halt).at(6)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "two invalid responses, then a valid one, repeatedly",
            EventHistory::new().times(5, |history, _| {
                history.validation_failed("a").validation_failed("b").event("validation.passed", json!({}))
            }),
            [never("validation", Block)],
        ),
        case(
            "two in a row",
            EventHistory::new().validation_failed("a").validation_failed("b"),
            [never("validation", Block)],
        ),
        case(
            "a tool call that succeeded was valid",
            EventHistory::new().times(5, |history, i| {
                history.validation_failed("a").validation_failed("b").call(
                    "read_file",
                    json!({"path": i}),
                    ok("text"),
                )
            }),
            [never("validation", Block)],
        ),
        case(
            "tool failures are counted elsewhere",
            EventHistory::new().times(6, |history, i| {
                let error = ["a", "b", "c", "d", "e", "f"][i];
                history
                    .validation_failed("x")
                    .call("bash", json!({"command": error}), crate::harness::failed(error))
                    .event("validation.passed", json!({}))
            }),
            [never("validation", Block)],
        ),
        case(
            "valid responses only",
            EventHistory::new().times(9, |history, _| history.event("validation.passed", json!({}))),
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

/// The five documented kinds, and any other; each trip names its kind.
#[test]
fn every_validation_failure_kind_is_counted_and_named() {
    for kind in ["malformed_json", "missing_field", "unknown_tool", "bad_completion", "truncated", "odd"] {
        let failed = json!({"kind": kind, "expected": "a tool call", "received": "TASK_COM", "error": "no"});
        let run = EventHistory::new().times(3, |h, _| h.event("validation.failed", failed.clone())).run();
        for (at, trip) in run.trips_of("validation") {
            assert_eq!((trip.scope["kind"].as_str(), trip.count), (kind, at as u64 - 1));
        }
        assert_eq!(run.last().state, SessionPhase::Halted, "{kind}");
        assert!(run.lines[1].contains("TASK_COM"), "the received text is in the record");
    }
}

#[test]
fn third_garbled_completion_halts() {
    let garbled = |history: EventHistory| {
        history.event("completion.requested", json!({"request": "TASK_COMPLETE{\"skip_tests\": tru"}))
    };
    let history = EventHistory::new().times(3, |history, _| garbled(history));
    check(
        "garbled",
        &history,
        &[
            trips("validation", "validation_failure", Block).at(2).count(1, 3),
            trips("validation", "validation_failure", Halt).at(4).count(3, 3).state(SessionPhase::Halted),
        ],
    );
    let run = garbled(EventHistory::new()).run();
    assert_eq!(run.last().trips[0].scope["kind"], "bad_completion");
    let feedback = run.last().feedback.clone().unwrap();
    assert!(
        feedback.starts_with("Failed to parse your response: the options of the completion request"),
        "{feedback}"
    );
    let cleared = garbled(garbled(EventHistory::new())).event("completion.requested", json!({}));
    check("a well-formed request resets the count", &garbled(cleared), &[never("validation", Halt)]);
    let mixed = garbled(EventHistory::new().validation_failed("x").validation_failed("y"));
    check("one row", &mixed, &[trips("validation", "validation_failure", Halt).at(4).count(3, 3)]);
    let off = EventHistory::with_policy(json!({"guards": {"validation": "off"}}));
    check("off", &garbled(off), &[quiet("validation")]);
}

#[test]
fn validation_obeys_its_mode() {
    check_modes(
        "validation",
        |keys| {
            EventHistory::with_policy(only_guard("validation", keys))
                .times(3, |h, _| h.validation_failed("x"))
        },
        4,
    );
}

#[test]
fn validation_limit_is_configurable_per_node() {
    let policy = json!({"nodes": {"draft": {"validation": {"limit": 5}}}});
    let tries = |n| {
        EventHistory::with_policy(policy.clone())
            .for_node("draft")
            .times(n, |history, _| history.validation_failed("x"))
    };
    check("four", &tries(4), &[never("validation", Block)]);
    check("five", &tries(5), &[trips("validation", "validation_failure", Halt).at(6).count(5, 5)]);
}

#[test]
fn long_error_is_truncated_to_one_line() {
    let run = EventHistory::new().validation_failed(&"long\n".repeat(5_000)).run();
    let feedback = run.last().feedback.clone().unwrap();
    assert!(feedback.chars().count() <= 600 && !feedback.contains('\n'), "{feedback}");
}

#[test]
fn validation_fixtures_are_current() {
    check_fixtures("validation", &must_trip()[0], &must_not_trip()[0]);
}
