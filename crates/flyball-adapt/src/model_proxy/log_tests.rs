//! Where a request goes on: in the usual case, asked again, begun again, shortened.

use super::{Fit, Known, Log, chains};
use crate::model_proxy::entry::{Call, Entry};
use serde_json::json;

fn user(text: &str) -> Entry {
    Entry::User { text: text.to_owned(), beside: false }
}

fn calls(id: &str) -> Entry {
    let call = Call { id: id.to_owned(), name: "bash".to_owned(), args: json!({"command": "ls"}) };
    Entry::Answer { text: String::new(), calls: vec![call] }
}

fn result(id: &str) -> Entry {
    Entry::Result { call: id.to_owned(), ok: None, output: json!("a b") }
}

fn log(entries: &[Entry]) -> Log {
    let mut log = Log::default();
    for (at, (entry, (key, chain))) in entries.iter().zip(chains(entries)).enumerate() {
        log.put(
            at,
            Known { key, chain, answer: entry.is_answer(), alone: entry.is_alone(), notes: Vec::new() },
        );
    }
    log
}

fn fit(recorded: &[Entry], request: &[Entry]) -> Option<(usize, usize, bool)> {
    log(recorded).fit(&chains(request)).map(|Fit { keep, new, retry }| (keep, new, retry))
}

#[test]
fn only_what_follows_on_the_log_is_new() {
    let recorded = [user("fix it"), calls("1")];
    let request = [user("fix it"), calls("1"), result("1")];
    assert_eq!(fit(&recorded, &request), Some((2, 2, false)));
    assert_eq!(fit(&request, &request), Some((3, 3, false)), "sent again before there was an answer");
}

#[test]
fn an_answer_that_is_asked_for_again_is_a_retry() {
    let recorded = [user("fix it"), calls("1")];
    assert_eq!(fit(&recorded, &[user("fix it")]), Some((1, 1, true)));
    // The second answer was gone on with.
    let request = [user("fix it"), calls("2"), result("2")];
    assert_eq!(fit(&recorded, &request), Some((1, 1, false)));
}

#[test]
fn the_same_task_begun_again_is_another_conversation() {
    let recorded = [user("fix it"), calls("1"), result("1"), calls("2")];
    assert_eq!(fit(&recorded, &[user("fix it")]), None);
    assert_eq!(fit(&recorded, &[user("fix it"), calls("3"), result("3")]), None);
}

#[test]
fn a_shortened_history_goes_on_where_its_end_stands() {
    let recorded = [user("fix it"), calls("1"), result("1"), calls("2"), result("2"), calls("3")];
    let request = [user("what happened so far"), calls("2"), result("2"), calls("3"), result("3")];
    assert_eq!(fit(&recorded, &request), Some((6, 4, false)));
    let request = [user("what happened so far"), calls("2"), result("2")];
    assert_eq!(fit(&recorded, &request), Some((5, 3, true)), "the last answer is asked for again");
    let request = [user("what happened so far"), calls("3"), result("3")];
    assert_eq!(fit(&recorded, &request), Some((6, 2, false)), "one call is enough to know it by");
    let said = |text: &str| Entry::Answer { text: text.to_owned(), calls: Vec::new() };
    let recorded = [user("fix it"), said("done")];
    assert_eq!(fit(&recorded, &[user("another"), said("done"), user("thanks")]), None, "words are not");
}

#[test]
fn old_results_may_be_cleared_and_answers_trimmed() {
    let recorded = [user("fix it"), calls("1"), result("1"), calls("2")];
    let cleared = Entry::Result { call: "1".to_owned(), ok: None, output: json!("[cleared]") };
    let said = match calls("2") {
        Entry::Answer { calls, .. } => Entry::Answer { text: "now".to_owned(), calls },
        other => other,
    };
    let request = [user("fix  it\n"), calls("1"), cleared, said, result("2")];
    assert_eq!(fit(&recorded, &request), Some((4, 4, false)));
}

#[test]
fn a_provider_that_keeps_the_history_is_told_only_what_is_new() {
    let recorded = log(&[user("fix it"), calls("1"), result("1"), calls("2")]);
    let after = |entries: &[Entry], keep| {
        let fit = recorded.fit_after(&chains(entries), keep);
        (fit.keep, fit.new, fit.retry)
    };
    assert_eq!(after(&[result("2")], 4), (4, 0, false));
    assert_eq!(after(&[result("1")], 2), (3, 1, true));
    let kept = recorded.fit_kept(&chains(&[result("1")]));
    assert_eq!((kept.keep, kept.new, kept.retry), (3, 1, true));
    let kept = recorded.fit_kept(&chains(&[result("2")]));
    assert_eq!((kept.keep, kept.new, kept.retry), (4, 0, false));
}
