//! `cycle` on tool calls, outputs and measured states: one block repeated three times in a row.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, check_modes, never,
    ok, only_guard, quiet, trips,
};
use serde_json::{Value, json};

/// Passes over `period` different reads with constant results, plus `extra` calls.
fn call_cycle(history: EventHistory, period: usize, calls: usize) -> EventHistory {
    history.times(calls, |history, i| read(history, i % period, "the same"))
}

fn read(history: EventHistory, file: usize, text: &str) -> EventHistory {
    history.call("read_file", json!({"path": letter_name(file)}), ok(format!("{text} {}", letter_name(file))))
}

/// A name without digits, so that no numbers differ.
fn letter_name(at: usize) -> String {
    let letter = |at: usize| char::from(b'a' + u8::try_from(at % 26).unwrap_or(0));
    format!("{}{}", letter(at / 26), letter(at))
}

fn cycle_only() -> Value {
    only_guard("cycle", json!({}))
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "two alternating calls: warned when the third pass is complete, the next call is blocked",
            call_cycle(EventHistory::new(), 2, 7),
            [
                trips("cycle", "cycle_detected", Warn).at(13).count(3, 3),
                trips("cycle", "cycle_detected", Block)
                    .at(14)
                    .count(3, 3)
                    .events(&[2, 4, 6, 8, 10, 12])
                    .message("the same 2 calls with the same results were made 3 times in a row"),
            ],
        ),
        case(
            "a cycle of three calls",
            call_cycle(EventHistory::new(), 3, 10),
            [trips("cycle", "cycle_detected", Block).at(20).count(3, 3)],
        ),
        case(
            "the third block of the same cycle halts",
            call_cycle(EventHistory::new(), 2, 6).times(3, |history, _| read(history, 0, "the same")),
            [trips("cycle", "cycle_detected", Halt).at(16).halt_reason("oscillating")],
        ),
        case(
            "a cycle of five",
            call_cycle(EventHistory::with_policy(cycle_only()), 5, 16),
            [trips("cycle", "cycle_detected", Block).at(32).count(3, 3)],
        ),
        case(
            "the longest detected cycle: 64 calls, three passes",
            call_cycle(EventHistory::with_policy(cycle_only()), 64, 193),
            [trips("cycle", "cycle_detected", Block).at(386).count(3, 3)],
        ),
        case(
            "a cycle can start anywhere in a session",
            call_cycle(
                EventHistory::with_policy(cycle_only()).call("bash", json!({"command": "pwd"}), ok("/")),
                2,
                7,
            ),
            [trips("cycle", "cycle_detected", Block).at(16)],
        ),
        case(
            "without results a cycle of calls is only a warning",
            EventHistory::with_policy(cycle_only())
                .times(6, |history, i| history.request("read_file", json!({"path": letter_name(i % 2)}))),
            [
                trips("cycle", "cycle_detected", Warn)
                    .at(7)
                    .message("the same 2 calls were made 3 times in a row"),
                never("cycle", Block),
            ],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "the same calls with new results each time",
            EventHistory::with_policy(cycle_only())
                .times(12, |history, i| read(history, i % 2, &letter_name(i))),
            [quiet("cycle")],
        ),
        case("two passes and a half", call_cycle(EventHistory::new(), 2, 5), [quiet("cycle")]),
        case(
            "the third pass differs",
            read(call_cycle(EventHistory::with_policy(cycle_only()), 2, 5), 9, "the same"),
            [quiet("cycle")],
        ),
        case(
            "a user message between the passes",
            call_cycle(
                call_cycle(EventHistory::with_policy(cycle_only()), 2, 4).user_message("and again"),
                2,
                5,
            ),
            [quiet("cycle")],
        ),
        case(
            "a cycle of 65 exceeds the maximum period",
            call_cycle(EventHistory::with_policy(cycle_only()), 65, 200),
            [quiet("cycle")],
        ),
        case(
            "edits that move from state to state are progress, not a cycle",
            EventHistory::new().times(10, |history, i| {
                history
                    .call(
                        "edit_file",
                        json!({"path": "a", "old": letter_name(i), "new": letter_name(i + 1)}),
                        ok("done"),
                    )
                    .call("run_tests", json!({}), ok(letter_name(i)))
            }),
            [quiet("cycle")],
        ),
        case(
            "polling two jobs",
            EventHistory::new().times(12, |history, i| {
                history.call("wait_for_job", json!({"id": letter_name(i % 2)}), ok("running"))
            }),
            [quiet("cycle")],
        ),
        case(
            "both calls of a pair repeated in one response, each response counted once",
            EventHistory::with_policy(cycle_only())
                .round(1)
                .times(12, |history, i| read(history, i % 2, "the same")),
            [quiet("cycle")],
        ),
    ]
}

#[test]
fn cycles_of_calls_trip() {
    check_all(&must_trip());
}

#[test]
fn cycles_of_calls_do_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn cycles_of_calls_obey_their_mode() {
    check_modes("cycle", |keys| call_cycle(EventHistory::with_policy(only_guard("cycle", keys)), 2, 7), 14);
}

#[test]
fn tool_can_be_exempt_from_the_cycle_guard() {
    let policy =
        json!({"preset": "off", "guards": {"cycle": "staged"}, "tools": {"read_file": {"cycle": "off"}}});
    check("the tool is exempt", &call_cycle(EventHistory::with_policy(policy), 2, 20), &[quiet("cycle")]);
}

#[test]
fn cycle_repeats_is_configurable() {
    let policy = only_guard("cycle", json!({"calls": {"repeats": 2}}));
    check(
        "two passes",
        &call_cycle(EventHistory::with_policy(policy), 3, 7),
        &[trips("cycle", "cycle_detected", Block).at(14).count(2, 2)],
    );
}

#[test]
fn cyclic_outputs_trip() {
    let turns = |n: usize, period: usize| {
        EventHistory::with_policy(cycle_only())
            .times(n, move |history, i| history.finish_turn("writer", &letter_name(i % period)))
    };
    check(
        "three outputs, three passes",
        &turns(9, 3),
        &[trips("cycle", "cycle_detected", Halt)
            .at(10)
            .count(3, 3)
            .halt_reason("oscillating")
            .events(&[2, 3, 4, 5, 6, 7, 8, 9, 10])],
    );
    check("three outputs, not quite three passes", &turns(8, 3), &[quiet("cycle")]);
    check("new outputs", &turns(20, 20), &[quiet("cycle")]);
}

#[test]
fn cyclic_states_trip() {
    let diffs = |n: usize, period: usize| {
        EventHistory::with_policy(cycle_only())
            .times(n, move |history, i| history.diff(&letter_name(i % period)))
    };
    check("three diffs", &diffs(9, 3), &[trips("cycle", "cycle_detected", Halt).at(10).count(3, 3)]);
    check("the eighth diff", &diffs(8, 3), &[quiet("cycle")]);
    check("diffs that change", &diffs(20, 20), &[quiet("cycle")]);
}

#[test]
fn cycle_fixtures_are_current() {
    check_fixtures("cycle", &must_trip()[0], &must_not_trip()[0]);
}
