//! What works beside an agent: `flyball tell` as a process in the project's folder, without a word on which session.

use crate::kit::{self, Run};
use serde_json::Value;
use std::path::Path;

/// The words of an event on the command line: its type, and its fields but for session and time.
pub(crate) fn words(event: &Value) -> Vec<String> {
    let fields = event.as_object().unwrap().iter();
    let left_out = ["type", "session", "at"];
    let fields = fields.filter(|(key, value)| !left_out.contains(&key.as_str()) && !value.is_null());
    let kind = event["type"].as_str().unwrap().to_owned();
    let word = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key}={text}"),
        other => format!("{key}={other}"),
    };
    std::iter::once(kind).chain(fields.map(word)).collect()
}

/// Tells an event, and gets the decision as JSON.
pub(crate) fn tell(folder: &Path, event: &Value) -> Run {
    let words = words(event);
    let mut args = vec!["tell"];
    args.extend(words.iter().map(String::as_str));
    args.push("--json");
    kit::flyball(folder, &args, b"", &[])
}

/// Tells an event in words, and gets the answer in words.
pub(crate) fn told(folder: &Path, words: &[&str], env: &[(&str, &str)]) -> Run {
    kit::flyball(folder, &[&["tell"], words].concat(), b"", env)
}

/// The exit code that a decision stands for.
pub(crate) fn exit_of(decision: &Value) -> i32 {
    let gate = decision["trips"]
        .as_array()
        .unwrap()
        .iter()
        .any(|trip| trip["guard"] == "gate" && trip["severity"] == "block");
    match (decision["decision"].as_str().unwrap(), decision["state"].as_str().unwrap()) {
        ("halt", _) => 3,
        (_, "blocked" | "awaiting_confirmation") => 4,
        ("block", _) if gate => 5,
        ("block", _) => 3,
        _ => 0,
    }
}
