//! `question`: the same question for the third time in a row halts.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, check_modes, failed,
    never, ok, only_guard, quiet, trips,
};
use flyball::SessionPhase;
use serde_json::json;

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "the same question after every answer: the third halts",
            EventHistory::new()
                .times(3, |history, _| history.ask_question("Delete the two tasks?").user_message("Yes")),
            [
                trips("question", "repeated_question", Warn).at(4).count(2, 3),
                trips("question", "repeated_question", Halt)
                    .at(6)
                    .count(3, 3)
                    .halt_reason("stalled")
                    .events(&[2, 4, 6])
                    .state(SessionPhase::Halted)
                    .message("the same question was asked 3 times in a row"),
            ],
        ),
        case(
            "case, spacing and punctuation do not make a different question",
            EventHistory::new()
                .ask_question("Delete it?")
                .ask_question("delete  it ?!")
                .ask_question("DELETE IT"),
            [trips("question", "repeated_question", Halt).at(4)],
        ),
        case(
            "the same confirmation requested repeatedly",
            EventHistory::new().times(3, |history, _| history.request_confirmation(&["t1"])),
            [trips("question", "repeated_question", Halt).at(4)],
        ),
        case(
            "a failed tool call in between is not an answer",
            EventHistory::new().times(3, |history, _| {
                history.ask_question("Which one?").call(
                    "find_task",
                    json!({"q": "x"}),
                    failed("no such task"),
                )
            }),
            [trips("question", "repeated_question", Halt).at(8)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "different questions",
            ["Which task?", "Which day?", "At what time?", "For how long?"]
                .iter()
                .fold(EventHistory::new(), |history, text| {
                    history.ask_question(text).user_message("that one")
                }),
            [quiet("question")],
        ),
        case(
            "twice is only a warning",
            EventHistory::new().ask_question("Which task?").ask_question("Which task?"),
            [never("question", Block)],
        ),
        case(
            "a successful tool call in between",
            EventHistory::new().times(5, |history, i| {
                history.ask_question("Shall I go on?").call("read_file", json!({"path": i}), ok("text"))
            }),
            [quiet("question")],
        ),
        case(
            "two alternating questions are not the same one in a row",
            EventHistory::new()
                .times(3, |history, _| history.ask_question("Which task?").ask_question("Which day?")),
            [quiet("question")],
        ),
    ]
}

#[test]
fn question_trips() {
    check_all(&must_trip());
}

#[test]
fn question_does_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn question_obeys_its_mode() {
    check_modes(
        "question",
        |keys| {
            EventHistory::with_policy(only_guard("question", keys)).times(3, |h, _| h.ask_question("Which?"))
        },
        4,
    );
}

#[test]
fn question_limit_is_configurable_per_node() {
    let policy = json!({"nodes": {"examiner": {"question": {"limit": 5}}}});
    let asks = |n| {
        EventHistory::with_policy(policy.clone())
            .for_node("examiner")
            .times(n, |history, _| history.ask_question("Why?"))
    };
    check("four", &asks(4), &[never("question", Block)]);
    check("five", &asks(5), &[trips("question", "repeated_question", Halt).at(6).count(5, 5)]);
}

#[test]
fn question_fixtures_are_current() {
    check_fixtures("question", &must_trip()[0], &must_not_trip()[0]);
}
