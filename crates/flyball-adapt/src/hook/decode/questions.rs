//! Tools that put a question to a person: for the contract they are questions, and what comes back is a message.

use serde_json::Value;

/// The names of such tools.
const NAMES: [&str; 5] =
    ["AskUserQuestion", "ask_user", "ask_user_question", "request_user_input", "question"];

/// The question, if the tool asks one.
pub(super) fn asked(tool: &str, args: &Value) -> Option<String> {
    if !NAMES.contains(&tool) {
        return None;
    }
    let one = |value: &Value| value.get("question").and_then(Value::as_str).map(str::to_owned);
    let many = || {
        let list = args.get("questions")?.as_array()?;
        Some(list.iter().filter_map(one).collect::<Vec<_>>().join("\n"))
    };
    one(args).or_else(many).filter(|text| !text.trim().is_empty())
}

/// What the person said, as text.
pub(super) fn answer(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.get("answers").unwrap_or(other).to_string(),
    }
}
