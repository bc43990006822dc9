//! Large texts in an event: stored as fingerprint, length and preview, so that the journal stays small.

use flyball::Fingerprint;
use serde_json::{Map, Value};

/// The event with every text of more than `limit` bytes replaced by `{"fingerprint", "length", "preview"}`: the
/// fingerprint of the text as 16 hexadecimal digits, its length in bytes, and its first `preview` characters.
///
/// `None` if no text is longer, or if the line is not JSON. Keys stay as they are. Doing it again changes nothing as
/// long as the preview itself is not longer than the limit.
#[must_use]
pub fn shortened(text: &str, limit: usize, preview: usize) -> Option<String> {
    // A text and its two quotes are part of the line, and JSON never makes a text shorter.
    if text.len() <= limit.saturating_add(2) {
        return None;
    }
    let mut event: Value = serde_json::from_str(text).ok()?;
    if !shorten(&mut event, limit, preview) {
        return None;
    }
    serde_json::to_string(&event).ok()
}

/// Whether anything was replaced.
fn shorten(value: &mut Value, limit: usize, preview: usize) -> bool {
    match value {
        Value::String(text) if text.len() > limit => {
            let beginning: String = text.chars().take(preview).collect();
            *value = Value::Object(Map::from_iter([
                ("fingerprint".to_owned(), Value::from(Fingerprint::of_text(text).to_string())),
                ("length".to_owned(), Value::from(text.len())),
                ("preview".to_owned(), Value::from(beginning)),
            ]));
            true
        }
        // Every part is looked at, so no short circuit.
        Value::Array(items) => items.iter_mut().fold(false, |any, item| shorten(item, limit, preview) | any),
        Value::Object(map) => map.values_mut().fold(false, |any, item| shorten(item, limit, preview) | any),
        _ => false,
    }
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
