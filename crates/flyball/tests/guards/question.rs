//! `question`: the same question for the third time in a row halts (seed 001's symptom).

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, failed, keep_fixtures, modes, never, ok, only,
    quiet, trips,
};
use flyball::Status;
use serde_json::json;

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "the same question after every answer: the third halts",
            History::new().times(3, |history, _| history.question("Delete the two tasks?").human("Yes")),
            [
                trips("question", "repeated_question", Warn).at(4).count(2, 3),
                trips("question", "repeated_question", Halt)
                    .at(6)
                    .count(3, 3)
                    .because("stalled")
                    .events(&[2, 4, 6])
                    .state(Status::Halted)
                    .message("the same question was asked 3 times in a row"),
            ],
        ),
        case(
            "case, spacing and punctuation do not make another question",
            History::new().question("Delete it?").question("delete  it ?!").question("DELETE IT"),
            [trips("question", "repeated_question", Halt).at(4)],
        ),
        case(
            "the same confirmation put again and again",
            History::new().times(3, |history, _| history.plan(&["t1"])),
            [trips("question", "repeated_question", Halt).at(4)],
        ),
        case(
            "a tool that failed between answers nothing",
            History::new().times(3, |history, _| {
                history.question("Which one?").call("find_task", json!({"q": "x"}), failed("no such task"))
            }),
            [trips("question", "repeated_question", Halt).at(8)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "different questions",
            ["Which task?", "Which day?", "At what time?", "For how long?"]
                .iter()
                .fold(History::new(), |history, text| history.question(text).human("that one")),
            [quiet("question")],
        ),
        case(
            "twice is a warning and no more",
            History::new().question("Which task?").question("Which task?"),
            [never("question", Block)],
        ),
        case(
            "work is done between",
            History::new().times(5, |history, i| {
                history.question("Shall I go on?").call("read_file", json!({"path": i}), ok("text"))
            }),
            [quiet("question")],
        ),
        case(
            "two questions that take turns are not the same one in a row",
            History::new().times(3, |history, _| history.question("Which task?").question("Which day?")),
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
    modes("question", |keys| History::under(only("question", keys)).times(3, |h, _| h.question("Which?")), 4);
}

#[test]
fn a_node_may_ask_more_often() {
    let policy = json!({"nodes": {"examiner": {"question": {"limit": 5}}}});
    let asks =
        |n| History::under(policy.clone()).by("examiner").times(n, |history, _| history.question("Why?"));
    check("four", &asks(4), &[never("question", Block)]);
    check("five", &asks(5), &[trips("question", "repeated_question", Halt).at(6).count(5, 5)]);
}

#[test]
fn fixtures_of_question() {
    keep_fixtures("question", &must_trip()[0], &must_not_trip()[0]);
}
