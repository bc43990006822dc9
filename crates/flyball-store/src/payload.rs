//! Large texts in an event: replaced by fingerprint, length and preview, so that the store stays small.

use flyball::Fingerprint;
use serde_json::{Map, Value};

/// Replaces every text of more than `limit` bytes in the event with `{"fingerprint", "length", "preview"}`: the
/// text's fingerprint as 16 hexadecimal digits, its length in bytes, and its first `preview` characters.
///
/// Returns `None` if no text is longer, or if the line is not JSON. Keys are unchanged. Idempotent as long as the
/// preview itself is not longer than the limit.
#[must_use]
pub fn truncate_large_texts(text: &str, limit: usize, preview: usize) -> Option<String> {
    // The line contains the text and two quotes, and JSON encoding never shortens a text.
    if text.len() <= limit.saturating_add(2) {
        return None;
    }
    let mut event: Value = serde_json::from_str(text).ok()?;
    if !truncate_value(&mut event, limit, preview) {
        return None;
    }
    serde_json::to_string(&event).ok()
}

/// Returns whether anything was replaced.
fn truncate_value(value: &mut Value, limit: usize, preview: usize) -> bool {
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
        // Every element must be visited, so no short circuit.
        Value::Array(items) => {
            items.iter_mut().fold(false, |any, item| truncate_value(item, limit, preview) | any)
        }
        Value::Object(map) => {
            map.values_mut().fold(false, |any, item| truncate_value(item, limit, preview) | any)
        }
        _ => false,
    }
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
