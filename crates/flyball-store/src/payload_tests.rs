//! Large texts are replaced at any depth; everything else is unchanged.

use flyball::Fingerprint;
use serde_json::{Value, json};

use super::truncate_large_texts;

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn short_events_are_unchanged_without_parsing() {
    assert_eq!(truncate_large_texts("this is not JSON", 100, 10), None);
    let line = json!({"type": "tool.finished", "output": "x".repeat(100)}).to_string();
    assert_eq!(truncate_large_texts(&line, 100, 10), None);
    // The line is longer than the limit, but no single text is.
    let line = json!({"a": "x".repeat(60), "b": ["y".repeat(60)]}).to_string();
    assert_eq!(truncate_large_texts(&line, 100, 10), None);
    // Escapes make the line longer, not the text.
    let line = json!({"a": "\n".repeat(90)}).to_string();
    assert!(line.len() > 100);
    assert_eq!(truncate_large_texts(&line, 100, 10), None);
    assert_eq!(truncate_large_texts(&"{".repeat(200), 100, 10), None);
}

#[test]
fn long_texts_become_fingerprint_length_and_preview() {
    let long = "äb".repeat(50);
    let event = json!({"type": "tool.finished", "ok": true, "n": 1.5, "output": long,
        "args": {"list": [1, long, "short"], "deep": {"x": long}}});
    let short = parse(&truncate_large_texts(&event.to_string(), 149, 3).unwrap());
    let stub =
        json!({"fingerprint": Fingerprint::of_text(&long).to_string(), "length": 150, "preview": "äbä"});
    let expected = json!({"type": "tool.finished", "ok": true, "n": 1.5, "output": stub,
        "args": {"list": [1, stub, "short"], "deep": {"x": stub}}});
    assert_eq!(short, expected);
    assert_eq!(truncate_large_texts(&event.to_string(), 150, 3), None);
}

#[test]
fn truncation_is_idempotent_and_deterministic() {
    let event = |text: &str| json!({"type": "assistant.message", "text": text}).to_string();
    let first = truncate_large_texts(&event(&"a".repeat(5_000)), 1_000, 1_000).unwrap();
    assert_eq!(truncate_large_texts(&first, 1_000, 1_000), None);
    assert_eq!(Some(first.clone()), truncate_large_texts(&event(&"a".repeat(5_000)), 1_000, 1_000));
    let other = truncate_large_texts(&event(&"a".repeat(5_001)), 1_000, 1_000).unwrap();
    assert_ne!(first, other);
    let none = parse(&truncate_large_texts(&event(&"a".repeat(5_000)), 1_000, 0).unwrap());
    assert_eq!(none["text"]["preview"], "");
}

#[test]
fn numbers_survive_truncation() {
    let text = format!(r#"{{"type":"x","big":12345678901234567890,"f":0.1,"t":"{}"}}"#, "z".repeat(600));
    let short = parse(&truncate_large_texts(&text, 512, 5).unwrap());
    assert_eq!(short["big"], parse(&text)["big"]);
    assert_eq!(short["f"], 0.1);
}
