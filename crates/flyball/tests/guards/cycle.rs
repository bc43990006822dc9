//! `cycle` on tool calls, outputs and measured states: one block that stands three times in a row.

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, keep_fixtures, modes, never, ok, only, quiet,
    trips,
};
use serde_json::{Value, json};

/// Passes of `period` different reads with the same results each time, and `extra` calls more.
fn circle(history: History, period: usize, calls: usize) -> History {
    history.times(calls, |history, i| read(history, i % period, "the same"))
}

fn read(history: History, file: usize, text: &str) -> History {
    history.call("read_file", json!({"path": name(file)}), ok(format!("{text} {}", name(file))))
}

/// A name without digits, so that nothing is taken for a changed number.
fn name(at: usize) -> String {
    let letter = |at: usize| char::from(b'a' + u8::try_from(at % 26).unwrap_or(0));
    format!("{}{}", letter(at / 26), letter(at))
}

fn alone() -> Value {
    only("cycle", json!({}))
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "two calls to and fro: warned when the third pass is complete, the next call is blocked",
            circle(History::new(), 2, 7),
            [
                trips("cycle", "cycle_detected", Warn).at(13).count(3, 3),
                trips("cycle", "cycle_detected", Block)
                    .at(14)
                    .count(3, 3)
                    .events(&[2, 4, 6, 8, 10, 12])
                    .message("the same 2 calls with the same results came 3 times in a row"),
            ],
        ),
        case(
            "three calls round and round",
            circle(History::new(), 3, 10),
            [trips("cycle", "cycle_detected", Block).at(20).count(3, 3)],
        ),
        case(
            "the third block of the same circle halts",
            circle(History::new(), 2, 6).times(3, |history, _| read(history, 0, "the same")),
            [trips("cycle", "cycle_detected", Halt).at(16).because("oscillating")],
        ),
        case(
            "a circle of five",
            circle(History::under(alone()), 5, 16),
            [trips("cycle", "cycle_detected", Block).at(32).count(3, 3)],
        ),
        case(
            "the longest circle that is looked for: 64 calls, three passes",
            circle(History::under(alone()), 64, 193),
            [trips("cycle", "cycle_detected", Block).at(386).count(3, 3)],
        ),
        case(
            "a circle begins anywhere in a session",
            circle(History::under(alone()).call("bash", json!({"command": "pwd"}), ok("/")), 2, 7),
            [trips("cycle", "cycle_detected", Block).at(16)],
        ),
        case(
            "without results a circle of calls is worth a warning",
            History::under(alone())
                .times(6, |history, i| history.ask("read_file", json!({"path": name(i % 2)}))),
            [trips("cycle", "cycle_detected", Warn).at(7), never("cycle", Block)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "the same calls with new results each time",
            History::under(alone()).times(12, |history, i| read(history, i % 2, &name(i))),
            [quiet("cycle")],
        ),
        case("two passes and a half", circle(History::new(), 2, 5), [quiet("cycle")]),
        case(
            "the third pass goes another way",
            read(circle(History::under(alone()), 2, 5), 9, "the same"),
            [quiet("cycle")],
        ),
        case(
            "a person speaks between the passes",
            circle(circle(History::under(alone()), 2, 4).human("and again"), 2, 5),
            [quiet("cycle")],
        ),
        case(
            "a circle of 65 is longer than what is looked for",
            circle(History::under(alone()), 65, 200),
            [quiet("cycle")],
        ),
        case(
            "edits that go on from state to state are work, not a circle",
            History::new().times(10, |history, i| {
                history
                    .call("edit_file", json!({"path": "a", "old": name(i), "new": name(i + 1)}), ok("done"))
                    .call("run_tests", json!({}), ok(name(i)))
            }),
            [quiet("cycle")],
        ),
        case(
            "two jobs that are waited for",
            History::new().times(12, |history, i| {
                history.call("wait_for_job", json!({"id": name(i % 2)}), ok("running"))
            }),
            [quiet("cycle")],
        ),
        case(
            "both calls of a pair come in one answer again and again, each answer counted once",
            History::under(alone()).round(1).times(12, |history, i| read(history, i % 2, "the same")),
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
    modes("cycle", |keys| circle(History::under(only("cycle", keys)), 2, 7), 14);
}

#[test]
fn a_tool_may_go_in_circles() {
    let policy =
        json!({"preset": "off", "guards": {"cycle": "staged"}, "tools": {"read_file": {"cycle": "off"}}});
    check("the tool is exempt", &circle(History::under(policy), 2, 20), &[quiet("cycle")]);
}

#[test]
fn two_passes_are_enough_if_the_policy_says_so() {
    let policy = only("cycle", json!({"calls": {"repeats": 2}}));
    check(
        "two passes",
        &circle(History::under(policy), 3, 7),
        &[trips("cycle", "cycle_detected", Block).at(14).count(2, 2)],
    );
}

#[test]
fn outputs_that_come_round_trip() {
    let turns = |n: usize, period: usize| {
        History::under(alone()).times(n, move |history, i| history.ends("writer", &name(i % period)))
    };
    check(
        "three outputs, three passes",
        &turns(9, 3),
        &[trips("cycle", "cycle_detected", Halt)
            .at(10)
            .count(3, 3)
            .because("oscillating")
            .events(&[2, 3, 4, 5, 6, 7, 8, 9, 10])],
    );
    check("three outputs, not quite three passes", &turns(8, 3), &[quiet("cycle")]);
    check("new outputs", &turns(20, 20), &[quiet("cycle")]);
}

#[test]
fn states_that_come_round_trip() {
    let diffs = |n: usize, period: usize| {
        History::under(alone()).times(n, move |history, i| history.diff(&name(i % period)))
    };
    check("three diffs", &diffs(9, 3), &[trips("cycle", "cycle_detected", Halt).at(10).count(3, 3)]);
    check("the eighth diff", &diffs(8, 3), &[quiet("cycle")]);
    check("diffs that move on", &diffs(20, 20), &[quiet("cycle")]);
}

#[test]
fn fixtures_of_cycle() {
    keep_fixtures("cycle", &must_trip()[0], &must_not_trip()[0]);
}
