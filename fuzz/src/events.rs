//! Interprets bytes as an event line, as JSON and as tool output.

use flyball::{Event, canonical_json, normalize_into};
use serde_json::Value;

/// A parsed event survives a round trip; canonical JSON and normalized text are fixed points.
pub fn check(bytes: &[u8]) {
    if let Ok(event) = Event::from_bytes(bytes) {
        round_trip(&event);
    }
    let text = String::from_utf8_lossy(bytes);
    normalize_twice(&text);
    if let Ok(value) = serde_json::from_str::<Value>(&text) {
        canonical_twice(&value);
    }
}

fn round_trip(event: &Event) {
    let written = event.to_json();
    let line = written.to_string();
    let again = match Event::from_json(&line) {
        Ok(again) => again,
        Err(error) => panic!("{line} was written by to_json and cannot be read: {error}"),
    };
    assert_eq!(again.to_json(), written, "the event differs after a round trip");
    let name = |event: &Event| event.id.as_ref().map(|id| id.id.clone());
    assert_eq!(name(&again), name(event), "the id differs");
    // The body fingerprint depends on the original encoding, so it is not compared.
    let mut again = again;
    again.id.clone_from(&event.id);
    assert_eq!(&again, event, "the parsed event differs after a round trip");
}

fn canonical_twice(value: &Value) {
    let once = canonical_json(value);
    let again: Value = match serde_json::from_str(&once) {
        Ok(again) => again,
        Err(error) => panic!("canonical JSON {once} is not JSON: {error}"),
    };
    assert_eq!(canonical_json(&again), once, "canonical JSON is not a fixed point");
}

fn normalize_twice(text: &str) {
    let mut once = String::new();
    normalize_into(text, &mut once);
    let mut twice = String::new();
    normalize_into(&once, &mut twice);
    assert_eq!(twice, once, "normalized text is not a fixed point");
}
