//! Large texts are replaced wherever they stand; everything else stays.

use flyball::Fingerprint;
use serde_json::{Value, json};

use super::shortened;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn short_events_are_left_alone_without_a_look() {
    assert_eq!(shortened("this is not JSON", 100, 10), None);
    let line = json!({"type": "tool.finished", "output": "x".repeat(100)}).to_string();
    assert_eq!(shortened(&line, 100, 10), None);
    // The line is longer than the limit, but no single text is.
    let line = json!({"a": "x".repeat(60), "b": ["y".repeat(60)]}).to_string();
    assert_eq!(shortened(&line, 100, 10), None);
    // Escapes make the line longer, not the text.
    let line = json!({"a": "\n".repeat(90)}).to_string();
    assert!(line.len() > 100);
    assert_eq!(shortened(&line, 100, 10), None);
    assert_eq!(shortened(&"{".repeat(200), 100, 10), None);
}

#[test]
fn long_texts_become_fingerprint_length_and_preview() {
    let long = "äb".repeat(50);
    let event = json!({"type": "tool.finished", "ok": true, "n": 1.5, "output": long,
        "args": {"list": [1, long, "short"], "deep": {"x": long}}});
    let short = parsed(&shortened(&event.to_string(), 149, 3).unwrap());
    let stub =
        json!({"fingerprint": Fingerprint::of_text(&long).to_string(), "length": 150, "preview": "äbä"});
    let expected = json!({"type": "tool.finished", "ok": true, "n": 1.5, "output": stub,
        "args": {"list": [1, stub, "short"], "deep": {"x": stub}}});
    assert_eq!(short, expected);
    assert_eq!(shortened(&event.to_string(), 150, 3), None);
}

#[test]
fn doing_it_again_changes_nothing_and_equal_texts_look_alike() {
    let event = |text: &str| json!({"type": "assistant.message", "text": text}).to_string();
    let first = shortened(&event(&"a".repeat(5_000)), 1_000, 1_000).unwrap();
    assert_eq!(shortened(&first, 1_000, 1_000), None);
    assert_eq!(Some(first.clone()), shortened(&event(&"a".repeat(5_000)), 1_000, 1_000));
    let other = shortened(&event(&"a".repeat(5_001)), 1_000, 1_000).unwrap();
    assert_ne!(first, other);
    let none = parsed(&shortened(&event(&"a".repeat(5_000)), 1_000, 0).unwrap());
    assert_eq!(none["text"]["preview"], "");
}

#[test]
fn the_order_of_numbers_and_keys_survives() {
    let text = format!(r#"{{"type":"x","big":12345678901234567890,"f":0.1,"t":"{}"}}"#, "z".repeat(600));
    let short = parsed(&shortened(&text, 512, 5).unwrap());
    assert_eq!(short["big"], parsed(&text)["big"]);
    assert_eq!(short["f"], 0.1);
}
