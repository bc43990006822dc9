//! Bytes as an event line, as JSON and as a tool's output.

use flyball::{Event, canonical_json, normalise_into};
use serde_json::Value;

/// An event that was read can be written and read again; canonical JSON and normalised text are fixed points.
pub fn check(bytes: &[u8]) {
    if let Ok(event) = Event::from_bytes(bytes) {
        read_again(&event);
    }
    let text = String::from_utf8_lossy(bytes);
    normalise_twice(&text);
    if let Ok(value) = serde_json::from_str::<Value>(&text) {
        canonical_twice(&value);
    }
}

fn read_again(event: &Event) {
    let written = event.to_json();
    let line = written.to_string();
    let again = match Event::from_json(&line) {
        Ok(again) => again,
        Err(error) => panic!("{line} was written by to_json and cannot be read: {error}"),
    };
    assert_eq!(again.to_json(), written, "written and read again, the event differs");
    let name = |event: &Event| event.id.as_ref().map(|id| id.id.clone());
    assert_eq!(name(&again), name(event), "the id differs");
    // The fingerprint of the body is that of the spelling that came in, so it is not compared.
    let mut again = again;
    again.id.clone_from(&event.id);
    assert_eq!(&again, event, "read again, the event differs");
}

fn canonical_twice(value: &Value) {
    let once = canonical_json(value);
    let again: Value = match serde_json::from_str(&once) {
        Ok(again) => again,
        Err(error) => panic!("canonical JSON {once} is not JSON: {error}"),
    };
    assert_eq!(canonical_json(&again), once, "canonical JSON is not a fixed point");
}

fn normalise_twice(text: &str) {
    let mut once = String::new();
    normalise_into(text, &mut once);
    let mut twice = String::new();
    normalise_into(&once, &mut twice);
    assert_eq!(twice, once, "normalised text is not a fixed point");
}
