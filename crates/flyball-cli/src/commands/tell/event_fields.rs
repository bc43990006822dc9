//! Builds an event from command-line fields or reads it from stdin.

use crate::error::CliError;
use flyball::Event;
use flyball::limits::EVENT_BYTES;
use serde_json::{Map, Value, json};
use std::io::Read;

/// Fields that are always text.
const TEXT_FIELDS: [&str; 23] = [
    "by",
    "call",
    "content",
    "edge",
    "error",
    "expected",
    "from",
    "hash",
    "id",
    "key",
    "kind",
    "node",
    "operation",
    "output",
    "question",
    "received",
    "request",
    "requester",
    "session",
    "signal",
    "text",
    "to",
    "tool",
];

/// Fields that are lists of names.
const LIST_FIELDS: [&str; 2] = ["failing", "targets"];

/// The fields of an event with its type. With `-` one event is read from stdin as JSON and the fields are added to it.
pub(super) fn parse_event(kind: &str, words: &[(String, String)]) -> Result<Map<String, Value>, CliError> {
    let mut event =
        if kind == "-" { read_event()? } else { Map::from_iter([("type".to_owned(), json!(kind))]) };
    for (key, text) in words {
        if event.contains_key(key) {
            let what = format!("the field `{key}` is given twice");
            return Err(CliError::new("duplicate_key", "", what, "keep one of the two"));
        }
        event.insert(key.clone(), parse_value(key, text)?);
    }
    Ok(event)
}

fn read_event() -> Result<Map<String, Value>, CliError> {
    let mut input = Vec::new();
    // Read one byte over the limit, so that an oversized event is reported as such.
    std::io::stdin().lock().take(EVENT_BYTES as u64 + 1).read_to_end(&mut input)?;
    let input = input.trim_ascii();
    Event::from_bytes(input).map_err(|error| CliError::from_core("<stdin>", &error))?;
    let broken = |error: serde_json::Error| {
        CliError::new("invalid_json", "<stdin>", error.to_string(), "write one event as a JSON object")
    };
    serde_json::from_slice(input).map_err(broken)
}

fn parse_value(key: &str, text: &str) -> Result<Value, CliError> {
    if TEXT_FIELDS.contains(&key) {
        return Ok(json!(text));
    }
    let read = serde_json::from_str::<Value>(text);
    let written_out = text.trim_start().starts_with('[');
    if LIST_FIELDS.contains(&key) && !written_out {
        return Ok(list_items(text).map(Value::from).collect());
    }
    if key == "checks" && !written_out {
        return list_items(text).map(parse_check).collect();
    }
    Ok(read.unwrap_or_else(|_| json!(text)))
}

fn list_items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Parses one check, for example `tests:failed`.
fn parse_check(word: &str) -> Result<Value, CliError> {
    match word.rsplit_once(':') {
        Some((name, "passed")) => Ok(json!({"name": name, "passed": true})),
        Some((name, "failed")) => Ok(json!({"name": name, "passed": false})),
        Some((name, "skipped")) => Ok(json!({"name": name, "skipped": true})),
        _ => {
            let what = format!("`{word}` in `checks` has no result");
            let help = "write NAME:passed, NAME:failed or NAME:skipped, or give the whole list as JSON";
            Err(CliError::new("wrong_type", "", what, help))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(kind: &str, words: &[&str]) -> Value {
        let pair = |word: &&str| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let words: Vec<(String, String)> = words.iter().filter_map(pair).collect();
        parse_event(kind, &words).map_or(Value::Null, Value::Object)
    }

    #[test]
    fn values_are_parsed_by_field_type() {
        let cases = [
            (
                parsed("progress", &["signal=tests", "failing=a, b,"]),
                json!({"signal": "tests", "failing": ["a", "b"]}),
            ),
            (parsed("progress", &["signal=tests", "failing="]), json!({"signal": "tests", "failing": []})),
            (
                parsed("progress", &["signal=t", r#"failing=["a,b"]"#]),
                json!({"signal": "t", "failing": ["a,b"]}),
            ),
            (parsed("progress", &["signal=9", "value=81.5"]), json!({"signal": "9", "value": 81.5})),
            (parsed("progress", &["signal=diff", "hash=123"]), json!({"signal": "diff", "hash": "123"})),
            (parsed("operation.failed", &["operation=null"]), json!({"operation": "null"})),
            (parsed("api.retry", &[r#"usage={"tokens_in":3}"#]), json!({"usage": {"tokens_in": 3}})),
            (
                parsed("gate.checked", &["checks=build:passed,a:b:failed,lint:skipped"]),
                json!({"checks": [{"name": "build", "passed": true}, {"name": "a:b", "passed": false},
                    {"name": "lint", "skipped": true}]}),
            ),
        ];
        for (mut now, then) in cases {
            let kind = now.as_object_mut().and_then(|event| event.remove("type"));
            assert!(kind.is_some(), "{now}");
            assert_eq!(now, then);
        }
    }

    #[test]
    fn ambiguous_values_are_rejected() {
        assert_eq!(parsed("gate.checked", &["checks=tests"]), Value::Null);
        assert_eq!(parsed("progress", &["signal=a", "signal=b"]), Value::Null);
    }
}
