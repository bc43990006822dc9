//! How requests continue a log: appended, retried, restarted and compacted.

use super::{ConversationLog, LogMatch, LoggedEntry, entry_chains};
use crate::model_proxy::entry::{ConversationEntry, ProxyToolCall};
use serde_json::json;

fn user(text: &str) -> ConversationEntry {
    ConversationEntry::User { text: text.to_owned(), with_tool_results: false }
}

fn calls(id: &str) -> ConversationEntry {
    let call = ProxyToolCall { id: id.to_owned(), name: "bash".to_owned(), args: json!({"command": "ls"}) };
    ConversationEntry::Answer { text: String::new(), calls: vec![call] }
}

fn result(id: &str) -> ConversationEntry {
    ConversationEntry::ToolResult { call: id.to_owned(), ok: None, output: json!("a b") }
}

fn log(entries: &[ConversationEntry]) -> ConversationLog {
    let mut log = ConversationLog::default();
    for (at, (entry, (key, chain))) in entries.iter().zip(entry_chains(entries)).enumerate() {
        log.set(
            at,
            LoggedEntry {
                key,
                chain,
                is_answer: entry.is_answer(),
                is_unique: entry.is_unique(),
                notes: Vec::new(),
            },
        );
    }
    log
}

fn match_request(
    recorded: &[ConversationEntry],
    request: &[ConversationEntry],
) -> Option<(usize, usize, bool)> {
    log(recorded)
        .match_history(&entry_chains(request))
        .map(|LogMatch { keep, new, retry }| (keep, new, retry))
}

#[test]
fn only_entries_after_the_log_are_new() {
    let recorded = [user("fix it"), calls("1")];
    let request = [user("fix it"), calls("1"), result("1")];
    assert_eq!(match_request(&recorded, &request), Some((2, 2, false)));
    assert_eq!(match_request(&request, &request), Some((3, 3, false)), "a retry before there was an answer");
}

#[test]
fn request_without_the_last_answer_is_a_retry() {
    let recorded = [user("fix it"), calls("1")];
    assert_eq!(match_request(&recorded, &[user("fix it")]), Some((1, 1, true)));
    // The conversation continues from the second answer.
    let request = [user("fix it"), calls("2"), result("2")];
    assert_eq!(match_request(&recorded, &request), Some((1, 1, false)));
}

#[test]
fn same_task_started_again_is_a_new_conversation() {
    let recorded = [user("fix it"), calls("1"), result("1"), calls("2")];
    assert_eq!(match_request(&recorded, &[user("fix it")]), None);
    assert_eq!(match_request(&recorded, &[user("fix it"), calls("3"), result("3")]), None);
}

#[test]
fn compacted_history_continues_at_its_tail() {
    let recorded = [user("fix it"), calls("1"), result("1"), calls("2"), result("2"), calls("3")];
    let request = [user("what happened so far"), calls("2"), result("2"), calls("3"), result("3")];
    assert_eq!(match_request(&recorded, &request), Some((6, 4, false)));
    let request = [user("what happened so far"), calls("2"), result("2")];
    assert_eq!(match_request(&recorded, &request), Some((5, 3, true)), "the last answer is requested again");
    let request = [user("what happened so far"), calls("3"), result("3")];
    assert_eq!(match_request(&recorded, &request), Some((6, 2, false)), "one unique call is enough to match");
    let said = |text: &str| ConversationEntry::Answer { text: text.to_owned(), calls: Vec::new() };
    let recorded = [user("fix it"), said("done")];
    assert_eq!(
        match_request(&recorded, &[user("another"), said("done"), user("thanks")]),
        None,
        "plain text is not unique"
    );
}

#[test]
fn cleared_results_and_trimmed_answers_still_match() {
    let recorded = [user("fix it"), calls("1"), result("1"), calls("2")];
    let cleared =
        ConversationEntry::ToolResult { call: "1".to_owned(), ok: None, output: json!("[cleared]") };
    let said = match calls("2") {
        ConversationEntry::Answer { calls, .. } => {
            ConversationEntry::Answer { text: "now".to_owned(), calls }
        }
        other => other,
    };
    let request = [user("fix  it\n"), calls("1"), cleared, said, result("2")];
    assert_eq!(match_request(&recorded, &request), Some((4, 4, false)));
}

#[test]
fn server_side_history_matches_only_new_entries() {
    let recorded = log(&[user("fix it"), calls("1"), result("1"), calls("2")]);
    let after = |entries: &[ConversationEntry], keep| {
        let fit = recorded.match_after(&entry_chains(entries), keep);
        (fit.keep, fit.new, fit.retry)
    };
    assert_eq!(after(&[result("2")], 4), (4, 0, false));
    assert_eq!(after(&[result("1")], 2), (3, 1, true));
    let kept = recorded.match_kept(&entry_chains(&[result("1")]));
    assert_eq!((kept.keep, kept.new, kept.retry), (3, 1, true));
    let kept = recorded.match_kept(&entry_chains(&[result("2")]));
    assert_eq!((kept.keep, kept.new, kept.retry), (4, 0, false));
}
