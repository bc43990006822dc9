//! Nodes of a workflow do not know whether they run live or are replayed: only the engine looks into the history.

use crate::assert_no_violations;
use crate::code::{blank_literals, without_tests};
use crate::files::{RepoFile, all_files, read_file};

const RUNNER: &str = "crates/flyball-runner/src/";
const LOG: &str = "crates/flyball-runner/src/engine/replay_log.rs";

/// Names that tell a live run from a replayed one.
const POSITION_NAMES: [&str; 9] = [
    "is_live",
    "live",
    "is_replay",
    "is_replaying",
    "replaying",
    "replay",
    "was_resumed",
    "was_interrupted",
    "history",
];
/// Starts of names of functions that look ahead in the history.
const LOOKAHEAD_STARTS: [&str; 3] = ["upcoming", "next_event", "next_own"];

/// The functions of the log that nodes may call, each with its reason. None of them tells where in the history it is.
const LOG_FUNCTIONS: [(&str, &str); 10] = [
    ("session", "the name of the session"),
    ("last_decision", "the evidence that a question shows first"),
    ("replay_only", "an event that only earlier versions recorded"),
    ("record", "an event without an effect"),
    ("ensure_may_continue", "a stop that a person must lift"),
    ("next_human_input", "an answer, recorded or new"),
    ("human_intervened", "whether a retry makes sense"),
    ("messages_for_prompt", "messages from people, recorded or new"),
    ("mark_delivered", "messages that a model received"),
    ("undelivered_text", "messages from people, for templates"),
];

/// The lines of code outside the engine that ask whether the run is live.
fn questions_about_the_history(text: &str) -> Vec<(usize, String)> {
    let code = blank_literals(without_tests(text));
    let asks = |name: &str| {
        POSITION_NAMES.contains(&name) || LOOKAHEAD_STARTS.iter().any(|start| name.starts_with(start))
    };
    let names = |line: &str| -> Option<String> {
        line.split(|c: char| !c.is_alphanumeric() && c != '_').find(|name| asks(name)).map(str::to_owned)
    };
    code.lines().enumerate().filter_map(|(at, line)| Some((at + 1, names(line)?))).collect()
}

#[test]
fn nodes_do_not_ask_whether_they_are_live() {
    let outside = |file: &&RepoFile| {
        let below = file.path.strip_prefix(RUNNER);
        below.is_some_and(|below| !below.starts_with("engine/")) && file.has_ending("rs") && !file.is_test()
    };
    let files = all_files();
    let files: Vec<&RepoFile> = files.iter().filter(outside).collect();
    assert!(files.len() > 50, "only {} files were found", files.len());
    let mut found = Vec::new();
    for file in files {
        for (line, name) in questions_about_the_history(&file.text) {
            found.push(format!("{}:{line}: `{name}`; use `Turn::step` or `Turn::step_if`", file.path));
        }
    }
    assert_no_violations(&found);
}

#[test]
fn the_log_does_not_tell_nodes_where_in_the_history_it_is() {
    let code = blank_literals(without_tests(&read_file(LOG)));
    let log = code.split("impl ReplayLog {").nth(1).expect("impl ReplayLog");
    let log = log.split("\n}\n").next().unwrap_or_default();
    let visible = log.lines().filter_map(|line| {
        let line = line.trim_start();
        let rest = line.strip_prefix("pub fn ").or_else(|| line.strip_prefix("pub(crate) fn "))?;
        rest.split(['(', '<']).next()
    });
    let allowed: Vec<&str> = LOG_FUNCTIONS.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        visible.collect::<Vec<_>>(),
        allowed,
        "a function that nodes may call is listed with its reason; others are `pub(super)`"
    );
}

#[test]
fn questions_about_the_history_are_found() {
    let text = "// is_live in a comment\nlet a = \"history\";\nif !turn.walk.log.is_live() {\n}\nlet b = log.upcoming_turn_end(x);\nlet lives = delivery;\n";
    let found = questions_about_the_history(text);
    assert_eq!(found, [(3, "is_live".to_owned()), (5, "upcoming_turn_end".to_owned())]);
}
