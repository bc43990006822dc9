//! `monologue`: the same or nearly the same message with no action in between, and chanting within one message.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, check_modes, never,
    ok, only_guard, quiet, trips,
};
use serde_json::json;

const PROMISE: &str = "I will now begin to write the parser and its tests.";

/// A long sentence in which one name changes.
fn plan_sentence(file: &str) -> String {
    format!(
        "First I read the whole module again, then I collect all the callers of the function, after that I write \
         down what each of them expects, and only then I change the file {file} so that nothing breaks."
    )
}

fn repeat_promise(history: EventHistory, n: usize) -> EventHistory {
    history.times(n, |history, _| history.assistant_message(PROMISE))
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "the same message three times is a warning, six times a block, nine times a halt",
            repeat_promise(EventHistory::new(), 9),
            [
                trips("monologue", "monologue", Warn)
                    .at(4)
                    .count(3, 3)
                    .events(&[2, 3, 4])
                    .message("the same message 3 times, with no action in between"),
                trips("monologue", "monologue", Block).at(7).count(6, 3),
                trips("monologue", "monologue", Halt).at(10).count(9, 3).halt_reason("stalled"),
            ],
        ),
        case(
            "case and punctuation do not make a different message",
            EventHistory::new()
                .assistant_message("Working on it now!")
                .assistant_message("working on it, now")
                .assistant_message("Working. On it. NOW."),
            [trips("monologue", "monologue", Warn).at(4)],
        ),
        case(
            "nearly the same message repeatedly, only a name changes",
            ["ab", "cd", "ef", "gh", "ij", "kl"]
                .iter()
                .fold(EventHistory::new(), |history, file| history.assistant_message(&plan_sentence(file))),
            [trips("monologue", "monologue", Warn).at(7).count(6, 3)],
        ),
        case(
            "one phrase chanted within one message",
            EventHistory::new().assistant_message(&"I must check the file once more. ".repeat(5)),
            [trips("monologue", "monologue", Warn).at(2).count(5, 4)],
        ),
        case(
            "chanting twice as often is blocked",
            EventHistory::new().assistant_message(&"I must check the file once more. ".repeat(8)),
            [trips("monologue", "monologue", Block).at(2).count(8, 4)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "an action between the messages",
            EventHistory::new().times(9, |history, i| {
                history.assistant_message(PROMISE).call("read_file", json!({"path": i}), ok("text"))
            }),
            [quiet("monologue")],
        ),
        case("twice", repeat_promise(EventHistory::new(), 2), [quiet("monologue")]),
        case(
            "a user message in between",
            EventHistory::new()
                .times(9, |history, _| history.assistant_message(PROMISE).user_message("do it")),
            [quiet("monologue")],
        ),
        case(
            "different messages",
            EventHistory::new()
                .assistant_message("I read the parser first.")
                .assistant_message("Then the lexer needs another look.")
                .assistant_message("Now both are clear to me.")
                .assistant_message("The tests come last."),
            [quiet("monologue")],
        ),
        case(
            "one or two words are a weak signal",
            EventHistory::new().times(5, |history, _| history.assistant_message("ok")),
            [quiet("monologue")],
        ),
        case(
            "a table of numbers is not a chant",
            EventHistory::new().assistant_message(&"0 0 0 0 0 0 0 0 0 0 ".repeat(20)),
            [quiet("monologue")],
        ),
        case(
            "a phrase three times for emphasis",
            EventHistory::new().assistant_message(&"I must check the file once more. ".repeat(3)),
            [quiet("monologue")],
        ),
        case(
            "nothing said",
            EventHistory::new().times(9, |history, _| history.assistant_message(" ")),
            [quiet("monologue")],
        ),
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
    check_modes(
        "monologue",
        |keys| repeat_promise(EventHistory::with_policy(only_guard("monologue", keys)), 6),
        7,
    );
}

#[test]
fn node_can_be_exempt_from_the_monologue_guard() {
    let policy = json!({"nodes": {"chorus": {"monologue": "off"}}});
    check(
        "the chorus",
        &repeat_promise(EventHistory::with_policy(policy).for_node("chorus"), 9),
        &[never("monologue", Warn)],
    );
}

#[test]
fn monologue_fixtures_are_current() {
    check_fixtures("monologue", &must_trip()[0], &must_not_trip()[0]);
}
