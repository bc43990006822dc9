//! `monologue`: the same or nearly the same message with nothing done between, and chanting inside one message.

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, keep_fixtures, modes, never, ok, only, quiet,
    trips,
};
use serde_json::json;

const PROMISE: &str = "I will now begin to write the parser and its tests.";

/// A long sentence in which one name changes.
fn plan(file: &str) -> String {
    format!(
        "First I read the whole module again, then I collect all the callers of the function, after that I write \
         down what each of them expects, and only then I change the file {file} so that nothing breaks."
    )
}

fn says(history: History, n: usize) -> History {
    history.times(n, |history, _| history.says(PROMISE))
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "the same message three times is a warning, six times a refusal, nine times a halt",
            says(History::new(), 9),
            [
                trips("monologue", "monologue", Warn)
                    .at(4)
                    .count(3, 3)
                    .events(&[2, 3, 4])
                    .message("the same message 3 times, with nothing done between"),
                trips("monologue", "monologue", Block).at(7).count(6, 3),
                trips("monologue", "monologue", Halt).at(10).count(9, 3).because("stalled"),
            ],
        ),
        case(
            "case and punctuation do not make another message",
            History::new().says("Working on it now!").says("working on it, now").says("Working. On it. NOW."),
            [trips("monologue", "monologue", Warn).at(4)],
        ),
        case(
            "nearly the same message again and again, only a name changes",
            ["ab", "cd", "ef", "gh", "ij", "kl"]
                .iter()
                .fold(History::new(), |history, file| history.says(&plan(file))),
            [trips("monologue", "monologue", Warn).at(7).count(6, 3)],
        ),
        case(
            "one phrase chanted inside one message",
            History::new().says(&"I must check the file once more. ".repeat(5)),
            [trips("monologue", "monologue", Warn).at(2).count(5, 4)],
        ),
        case(
            "chanted twice as often it is refused",
            History::new().says(&"I must check the file once more. ".repeat(8)),
            [trips("monologue", "monologue", Block).at(2).count(8, 4)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "something is done between the messages",
            History::new().times(9, |history, i| {
                history.says(PROMISE).call("read_file", json!({"path": i}), ok("text"))
            }),
            [quiet("monologue")],
        ),
        case("twice", says(History::new(), 2), [quiet("monologue")]),
        case(
            "a person answers between",
            History::new().times(9, |history, _| history.says(PROMISE).human("do it")),
            [quiet("monologue")],
        ),
        case(
            "different messages",
            History::new()
                .says("I read the parser first.")
                .says("Then the lexer needs another look.")
                .says("Now both are clear to me.")
                .says("The tests come last."),
            [quiet("monologue")],
        ),
        case(
            "a word or two says little",
            History::new().times(5, |history, _| history.says("ok")),
            [quiet("monologue")],
        ),
        case(
            "a table of numbers is no chant",
            History::new().says(&"0 0 0 0 0 0 0 0 0 0 ".repeat(20)),
            [quiet("monologue")],
        ),
        case(
            "a phrase three times for emphasis",
            History::new().says(&"I must check the file once more. ".repeat(3)),
            [quiet("monologue")],
        ),
        case("nothing said", History::new().times(9, |history, _| history.says(" ")), [quiet("monologue")]),
    ]
}

#[test]
fn monologue_trips() {
    check_all(&must_trip());
}

#[test]
fn monologue_does_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn monologue_obeys_its_mode() {
    modes("monologue", |keys| says(History::under(only("monologue", keys)), 6), 7);
}

#[test]
fn a_node_may_repeat_itself() {
    let policy = json!({"nodes": {"chorus": {"monologue": "off"}}});
    check("the chorus", &says(History::under(policy).by("chorus"), 9), &[never("monologue", Warn)]);
}

#[test]
fn fixtures_of_monologue() {
    keep_fixtures("monologue", &must_trip()[0], &must_not_trip()[0]);
}
