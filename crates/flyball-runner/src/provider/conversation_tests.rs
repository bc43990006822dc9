//! Normalization of conversations with gaps.

use super::*;
use serde_json::json;

fn call(id: &str) -> ModelToolCall {
    ModelToolCall { id: id.to_owned(), name: "bash".to_owned(), args: json!({}) }
}

fn calls(text: &str, ids: &[&str]) -> ChatMessage {
    ChatMessage::Assistant { text: text.to_owned(), calls: ids.iter().map(|id| call(id)).collect() }
}

/// Summarizes messages: `U:` user, `A:` assistant, `id=` a result, `id!` a failure.
fn summarize(messages: &[ChatMessage]) -> Vec<String> {
    pair_calls_with_results(messages)
        .iter()
        .map(|part| match part {
            ConversationPart::User(text) => format!("U:{text}"),
            ConversationPart::Assistant { text, calls } => {
                let results = calls.iter().map(|(call, outcome)| {
                    format!(" {}{}{}", call.id, if outcome.ok { '=' } else { '!' }, outcome.text)
                });
                format!("A:{text}{}", results.collect::<String>())
            }
        })
        .collect()
}

#[test]
fn each_call_is_followed_by_its_result() {
    let user = ChatMessage::user;
    let result = ChatMessage::result;
    let cases: &[(&[ChatMessage], &[&str])] = &[
        (&[], &[]),
        (&[user("hi"), ChatMessage::assistant("ho")], &["U:hi", "A:ho"]),
        (
            &[user("go"), calls("on it", &["a", "b"]), result("b", false, "no"), result("a", true, "yes")],
            &["U:go", "A:on it a=yes b!no"],
        ),
        // Killed between the call and its result.
        (
            &[user("go"), calls("", &["a", "b"]), result("a", true, "yes")],
            &["U:go", "A: a=yes b!no result: the call was interrupted or not run"],
        ),
        // A person wrote in between.
        (
            &[user("go"), calls("", &["a"]), user("wait"), result("a", true, "yes")],
            &["U:go", "A: a=yes", "U:wait"],
        ),
        // A result without a call, and a duplicate result.
        (
            &[result("x", true, "?"), calls("", &["a"]), result("a", true, "1"), result("a", false, "2")],
            &["U:Late result of call x: ?", "A: a=1", "U:Late failure of call a: 2"],
        ),
        // The same ids in every reply, as some servers send them.
        (
            &[calls("", &["0"]), result("0", true, "first"), calls("", &["0"]), result("0", true, "second")],
            &["A: 0=first", "A: 0=second"],
        ),
        // Two replies in a row: results belong to the preceding one.
        (
            &[calls("", &["a"]), ChatMessage::assistant("oh"), result("a", true, "late")],
            &["A: a!no result: the call was interrupted or not run", "A:oh", "U:Late result of call a: late"],
        ),
        // Empty messages are dropped; empty results get a placeholder.
        (
            &[
                user(" "),
                ChatMessage::assistant("\n"),
                calls("", &["a", "b"]),
                result("a", true, ""),
                result("b", false, " "),
            ],
            &["A: a=(no output) b!the tool failed without a message"],
        ),
    ];
    for (messages, expected) in cases {
        assert_eq!(summarize(messages), *expected, "{messages:?}");
    }
}
