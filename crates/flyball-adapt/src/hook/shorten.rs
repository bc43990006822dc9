//! What a tool is given or gives back may be of any size; an event is not.
//!
//! A text that is too long keeps its beginning and its end, with its length and a fingerprint of the whole between
//! them: equal texts stay equal, and different ones stay different.

use flyball::{Fingerprint, canonical_json};
use serde_json::{Map, Value};

/// The longest text that is taken whole, in bytes.
const TEXT_BYTES: usize = 256 * 1024;
/// What is kept of a longer one, at each end.
const KEPT_BYTES: usize = 16 * 1024;
/// The most entries of one list or object.
const ENTRIES: usize = 10_000;
/// The deepest nesting.
const DEPTH: usize = 32;
/// The most bytes of all texts together; beyond it, texts are cut to their fingerprint.
const TOTAL_BYTES: usize = 4 * 1024 * 1024;

/// A value of bounded size.
pub(super) fn bounded(value: &Value) -> Value {
    let mut left = TOTAL_BYTES;
    walk(value, DEPTH, &mut left)
}

fn walk(value: &Value, depth: usize, left: &mut usize) -> Value {
    match value {
        Value::String(text) => Value::String(cut(text, left)),
        Value::Array(_) | Value::Object(_) if depth == 0 => instead(value),
        Value::Array(items) if items.len() > ENTRIES => instead(value),
        Value::Object(map) if map.len() > ENTRIES => instead(value),
        Value::Array(items) => items.iter().map(|item| walk(item, depth - 1, left)).collect(),
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| (cut(key, left), walk(value, depth - 1, left)))
                .collect::<Map<_, _>>();
            Value::Object(entries)
        }
        other => other.clone(),
    }
}

fn instead(value: &Value) -> Value {
    let text = canonical_json(value);
    Value::String(format!("[{} bytes, {}]", text.len(), Fingerprint::of_text(&text)))
}

fn cut(text: &str, left: &mut usize) -> String {
    if text.len() <= TEXT_BYTES && text.len() <= *left {
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
    fn small_values_are_left_alone() {
        let value = json!({"a": [1, 2.5, null, true, "ж"], "b": {"c": "text"}});
        assert_eq!(bounded(&value), value);
    }

    #[test]
    fn what_is_cut_is_still_told_apart() {
        let (a, b) = ("a".repeat(9_000_000), format!("{}b{}", "a".repeat(4_500_000), "a".repeat(4_499_999)));
        let (short_a, short_b) = (bounded(&json!({"text": a})), bounded(&json!({"text": b})));
        assert_ne!(short_a, short_b);
        assert!(short_a.to_string().len() < 100_000);
        assert_eq!(short_a, bounded(&json!({"text": a})));
    }

    #[test]
    fn depth_number_and_sum_are_bounded() {
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
