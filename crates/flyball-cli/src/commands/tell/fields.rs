//! An event made of words on the command line, or read from stdin.

use crate::fail::Failure;
use flyball::Event;
use flyball::limits::EVENT_BYTES;
use serde_json::{Map, Value, json};
use std::io::Read;

/// Fields that are texts, whatever they look like.
const TEXTS: [&str; 23] = [
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
const LISTS: [&str; 2] = ["failing", "targets"];

/// The fields of an event with its type; `-` reads one event as JSON from stdin, and the words are added to it.
pub(super) fn event(kind: &str, words: &[(String, String)]) -> Result<Map<String, Value>, Failure> {
    let mut event =
        if kind == "-" { from_stdin()? } else { Map::from_iter([("type".to_owned(), json!(kind))]) };
    for (key, text) in words {
        if event.contains_key(key) {
            let what = format!("the field `{key}` is given twice");
            return Err(Failure::new("duplicate_key", "", what, "keep one of the two"));
        }
        event.insert(key.clone(), value(key, text)?);
    }
    Ok(event)
}

fn from_stdin() -> Result<Map<String, Value>, Failure> {
    let mut input = Vec::new();
    // One byte more than an event may have, so that one that is too long is told as such.
    std::io::stdin().lock().take(EVENT_BYTES as u64 + 1).read_to_end(&mut input)?;
    let input = input.trim_ascii();
    Event::from_bytes(input).map_err(|error| Failure::at("<stdin>", &error))?;
    let broken = |error: serde_json::Error| {
        Failure::new("broken_line", "<stdin>", error.to_string(), "write one event as a JSON object")
    };
    serde_json::from_slice(input).map_err(broken)
}

fn value(key: &str, text: &str) -> Result<Value, Failure> {
    if TEXTS.contains(&key) {
        return Ok(json!(text));
    }
    let read = serde_json::from_str::<Value>(text);
    let written_out = text.trim_start().starts_with('[');
    if LISTS.contains(&key) && !written_out {
        return Ok(parts(text).map(Value::from).collect());
    }
    if key == "checks" && !written_out {
        return parts(text).map(check).collect();
    }
    Ok(read.unwrap_or_else(|_| json!(text)))
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// One check: `tests:failed`.
fn check(word: &str) -> Result<Value, Failure> {
    match word.rsplit_once(':') {
        Some((name, "passed")) => Ok(json!({"name": name, "passed": true})),
        Some((name, "failed")) => Ok(json!({"name": name, "passed": false})),
        Some((name, "skipped")) => Ok(json!({"name": name, "skipped": true})),
        _ => {
            let what = format!("`{word}` of `checks` does not say how it ended");
            let advice = "write NAME:passed, NAME:failed or NAME:skipped, or the whole list as JSON";
            Err(Failure::new("wrong_type", "", what, advice))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(kind: &str, words: &[&str]) -> Value {
        let pair = |word: &&str| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let words: Vec<(String, String)> = words.iter().filter_map(pair).collect();
        event(kind, &words).map_or(Value::Null, Value::Object)
    }

    #[test]
    fn values_are_what_the_field_takes() {
        let cases = [
            (
                made("progress", &["signal=tests", "failing=a, b,"]),
                json!({"signal": "tests", "failing": ["a", "b"]}),
            ),
            (made("progress", &["signal=tests", "failing="]), json!({"signal": "tests", "failing": []})),
            (
                made("progress", &["signal=t", r#"failing=["a,b"]"#]),
                json!({"signal": "t", "failing": ["a,b"]}),
            ),
            (made("progress", &["signal=9", "value=81.5"]), json!({"signal": "9", "value": 81.5})),
            (made("progress", &["signal=diff", "hash=123"]), json!({"signal": "diff", "hash": "123"})),
            (made("operation.failed", &["operation=null"]), json!({"operation": "null"})),
            (made("api.retry", &[r#"usage={"tokens_in":3}"#]), json!({"usage": {"tokens_in": 3}})),
            (
                made("gate.checked", &["checks=build:passed,a:b:failed,lint:skipped"]),
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
    fn what_is_not_clear_is_an_error() {
        assert_eq!(made("gate.checked", &["checks=tests"]), Value::Null);
        assert_eq!(made("progress", &["signal=a", "signal=b"]), Value::Null);
    }
}
