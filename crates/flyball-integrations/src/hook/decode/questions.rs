//! Tools that ask the user a question. The call becomes a `question.asked` event and the answer a `user.message`.

use serde_json::Value;

/// Names of question tools.
const QUESTION_TOOLS: [&str; 5] =
    ["AskUserQuestion", "ask_user", "ask_user_question", "request_user_input", "question"];

/// The question text, if the tool asks one.
pub(super) fn question_text(tool: &str, args: &Value) -> Option<String> {
    if !QUESTION_TOOLS.contains(&tool) {
        return None;
    }
    let one = |value: &Value| value.get("question").and_then(Value::as_str).map(str::to_owned);
    let many = || {
        let list = args.get("questions")?.as_array()?;
        Some(list.iter().filter_map(one).collect::<Vec<_>>().join("\n"))
    };
    one(args).or_else(many).filter(|text| !text.trim().is_empty())
}

/// The user's answer as text.
pub(super) fn answer_text(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.get("answers").unwrap_or(other).to_string(),
    }
}
