//! Conversations with gaps, put in order.

use super::*;
use serde_json::json;

fn call(id: &str) -> Call {
    Call { id: id.to_owned(), name: "bash".to_owned(), args: json!({}) }
}

fn calls(text: &str, ids: &[&str]) -> Message {
    Message::Assistant { text: text.to_owned(), calls: ids.iter().map(|id| call(id)).collect() }
}

/// `U:` what a person says, `A:` what the model says, `id=` or `id!` a result or a failure.
fn shown(messages: &[Message]) -> Vec<String> {
    ordered(messages)
        .iter()
        .map(|part| match part {
            Part::User(text) => format!("U:{text}"),
            Part::Assistant { text, calls } => {
                let results = calls.iter().map(|(call, outcome)| {
                    format!(" {}{}{}", call.id, if outcome.ok { '=' } else { '!' }, outcome.text)
                });
                format!("A:{text}{}", results.collect::<String>())
            }
        })
        .collect()
}

#[test]
fn every_call_has_its_result_right_after_it() {
    let user = Message::user;
    let result = Message::result;
    let cases: &[(&[Message], &[&str])] = &[
        (&[], &[]),
        (&[user("hi"), Message::assistant("ho")], &["U:hi", "A:ho"]),
        (
            &[user("go"), calls("on it", &["a", "b"]), result("b", false, "no"), result("a", true, "yes")],
            &["U:go", "A:on it a=yes b!no"],
        ),
        // Killed between the call and its result.
        (
            &[user("go"), calls("", &["a", "b"]), result("a", true, "yes")],
            &["U:go", "A: a=yes b!no result: the call was interrupted or not run"],
        ),
        // A person spoke in between.
        (
            &[user("go"), calls("", &["a"]), user("wait"), result("a", true, "yes")],
            &["U:go", "A: a=yes", "U:wait"],
        ),
        // A result that nobody asked for, and one that comes twice.
        (
            &[result("x", true, "?"), calls("", &["a"]), result("a", true, "1"), result("a", false, "2")],
            &["U:Late result of call x: ?", "A: a=1", "U:Late failure of call a: 2"],
        ),
        // The same ids in every answer, as some servers give them.
        (
            &[calls("", &["0"]), result("0", true, "first"), calls("", &["0"]), result("0", true, "second")],
            &["A: 0=first", "A: 0=second"],
        ),
        // Two answers in a row: the results belong to the one before them.
        (
            &[calls("", &["a"]), Message::assistant("oh"), result("a", true, "late")],
            &["A: a!no result: the call was interrupted or not run", "A:oh", "U:Late result of call a: late"],
        ),
        // Nothing to say is not said; nothing to show is shown.
        (
            &[
                user(" "),
                Message::assistant("\n"),
                calls("", &["a", "b"]),
                result("a", true, ""),
                result("b", false, " "),
            ],
            &["A: a=(no output) b!the tool failed without saying why"],
        ),
    ];
    for (messages, expected) in cases {
        assert_eq!(shown(messages), *expected, "{messages:?}");
    }
}
