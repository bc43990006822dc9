//! Bounds the size of tool arguments and results in events.
//!
//! A long text keeps its beginning and its end, with its length and a fingerprint of the whole text in between, so
//! equal texts stay equal and different texts stay different.

use flyball::{Fingerprint, canonical_json};
use serde_json::{Map, Value};

/// Maximum length of a text that is kept whole, in bytes.
const MAX_TEXT_BYTES: usize = 256 * 1024;
/// Number of bytes kept at each end of a longer text.
const KEPT_BYTES: usize = 16 * 1024;
/// Maximum number of entries in a list or object.
const MAX_ENTRIES: usize = 10_000;
/// Maximum nesting depth.
const MAX_DEPTH: usize = 32;
/// Maximum size of all texts together, in bytes; texts beyond it are replaced by their fingerprints.
const MAX_TOTAL_BYTES: usize = 4 * 1024 * 1024;

/// A copy of a value with bounded size.
pub(super) fn bounded(value: &Value) -> Value {
    let mut left = MAX_TOTAL_BYTES;
    truncate_value(value, MAX_DEPTH, &mut left)
}

fn truncate_value(value: &Value, depth: usize, left: &mut usize) -> Value {
    match value {
        Value::String(text) => Value::String(truncate_text(text, left)),
        Value::Array(_) | Value::Object(_) if depth == 0 => placeholder(value),
        Value::Array(items) if items.len() > MAX_ENTRIES => placeholder(value),
        Value::Object(map) if map.len() > MAX_ENTRIES => placeholder(value),
        Value::Array(items) => items.iter().map(|item| truncate_value(item, depth - 1, left)).collect(),
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| (truncate_text(key, left), truncate_value(value, depth - 1, left)))
                .collect::<Map<_, _>>();
            Value::Object(entries)
        }
        other => other.clone(),
    }
}

fn placeholder(value: &Value) -> Value {
    let text = canonical_json(value);
    Value::String(format!("[{} bytes, {}]", text.len(), Fingerprint::of_text(&text)))
}

fn truncate_text(text: &str, left: &mut usize) -> String {
    if text.len() <= MAX_TEXT_BYTES && text.len() <= *left {
        *left -= text.len();
        return text.to_owned();
    }
    let mark = format!("[{} bytes, {}]", text.len(), Fingerprint::of_text(text));
    let kept = KEPT_BYTES.min(*left / 2);
    *left -= kept * 2;
    let head = text.get(..text.floor_char_boundary(kept)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len().saturating_sub(kept))..).unwrap_or_default();
    format!("{head}{mark}{tail}")
}

#[cfg(test)]
mod tests {
    use super::bounded;
    use serde_json::{Value, json};

    #[test]
    fn small_values_are_unchanged() {
        let value = json!({"a": [1, 2.5, null, true, "ж"], "b": {"c": "text"}});
        assert_eq!(bounded(&value), value);
    }

    #[test]
    fn truncated_values_stay_distinct() {
        let (a, b) = ("a".repeat(9_000_000), format!("{}b{}", "a".repeat(4_500_000), "a".repeat(4_499_999)));
        let (short_a, short_b) = (bounded(&json!({"text": a})), bounded(&json!({"text": b})));
        assert_ne!(short_a, short_b);
        assert!(short_a.to_string().len() < 100_000);
        assert_eq!(short_a, bounded(&json!({"text": a})));
    }

    #[test]
    fn depth_entries_and_total_size_are_bounded() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        let shown = bounded(&deep).to_string();
        assert!(shown.len() < 200, "{shown}");
        let many: Vec<Value> = (0..20_000).map(|n| json!(n)).collect();
        assert!(bounded(&json!(many)).is_string());
        let texts: Vec<Value> = (0..100).map(|n| json!(format!("{n}{}", "x".repeat(200_000)))).collect();
        assert!(bounded(&json!(texts)).to_string().len() < 6_000_000);
    }
}
