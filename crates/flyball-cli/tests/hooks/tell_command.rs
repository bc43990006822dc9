//! Runs `flyball tell` as a process in the project's directory, without naming a session.

use crate::command_harness::{self, CommandOutput};
use serde_json::Value;
use std::path::Path;

/// Command-line arguments for an event: its type, and its fields except session and time.
pub(crate) fn event_args(event: &Value) -> Vec<String> {
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

/// Reports an event, and returns the decision as JSON.
pub(crate) fn tell_json(folder: &Path, event: &Value) -> CommandOutput {
    let words = event_args(event);
    let mut args = vec!["tell"];
    args.extend(words.iter().map(String::as_str));
    args.push("--json");
    command_harness::run_flyball(folder, &args, b"", &[])
}

/// Reports an event, and returns the text output.
pub(crate) fn tell_text(folder: &Path, words: &[&str], env: &[(&str, &str)]) -> CommandOutput {
    command_harness::run_flyball(folder, &[&["tell"], words].concat(), b"", env)
}

/// The expected exit code for a decision.
pub(crate) fn expected_exit(decision: &Value) -> i32 {
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
