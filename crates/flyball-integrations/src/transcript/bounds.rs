//! Bounds values from other tools' files to the limits of an event.
//!
//! Oversized values are truncated: the beginning is kept, and the end is replaced by a marker derived from the whole
//! value, so equal values stay equal and different values stay different.

use flyball::Fingerprint;
use flyball::limits::{EVENT_DEPTH, EVENT_ENTRIES, NAME_BYTES};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Maximum size of texts and arguments, in bytes. JSON escaping can make them six times as long, which still fits into
/// an event.
pub(super) const MAX_TEXT_BYTES: usize = 2 * 1024 * 1024;
/// Number of bytes kept of a longer value.
const HEAD_BYTES: usize = 256 * 1024;
/// Maximum depth of arguments; the event around them needs a few levels too.
const MAX_DEPTH: usize = EVENT_DEPTH - 8;
/// Maximum amount in dollars that is accepted as a cost.
const MAX_DOLLARS: f64 = 1e6;

/// Bounds a text.
pub(super) fn text(text: Cow<'_, str>) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text.into_owned();
    }
    let head = text.get(..text.floor_char_boundary(HEAD_BYTES)).unwrap_or_default();
    format!("{head}[cut: {} bytes, {}]", text.len(), fingerprint_letters(Fingerprint::of_text(&text)))
}

/// Bounds a name.
pub(super) fn name(name: &str) -> String {
    if name.len() <= NAME_BYTES {
        return name.to_owned();
    }
    let head = name.get(..name.floor_char_boundary(NAME_BYTES / 2)).unwrap_or_default();
    format!("{head}#{}", fingerprint_letters(Fingerprint::of_text(name)))
}

/// Parses arguments from JSON. Values too large or too deep for an event are kept as text.
pub(super) fn args(raw: &str) -> Value {
    if raw.len() > MAX_TEXT_BYTES {
        let whole = fingerprint_letters(Fingerprint::of_text(raw));
        return json!({"text": text(Cow::Borrowed(raw)), "whole": whole});
    }
    match serde_json::from_str::<Value>(raw) {
        Ok(value) if fits(&value, raw.len()) => value,
        _ => Value::String(raw.to_owned()),
    }
}

/// Parses arguments from a string: JSON if valid, otherwise the text itself.
pub(super) fn args_from_text(words: &str) -> Value {
    let trimmed = words.trim();
    if trimmed.starts_with(['{', '[']) { args(trimmed) } else { Value::String(text(Cow::Borrowed(words))) }
}

/// A fingerprint in letters only, so that normalization does not remove it as a hash.
pub(super) fn fingerprint_letters(print: Fingerprint) -> String {
    let number = print.number();
    (0..16).map(|at| char::from(b'g' + u8::try_from(number >> (at * 4) & 15).unwrap_or(0))).collect()
}

/// Converts dollars to millionths.
#[expect(
    clippy::float_arithmetic,
    reason = "other tools write amounts in dollars; they are converted to millionths here"
)]
pub(super) fn micro_dollars(dollars: f64) -> u64 {
    if (0.0..MAX_DOLLARS).contains(&dollars) { (dollars * 1e6).round() as u64 } else { 0 }
}

/// Converts seconds to milliseconds.
#[expect(clippy::float_arithmetic, reason = "other tools write durations in seconds")]
pub(super) fn milliseconds(seconds: f64) -> u64 {
    if (0.0..1e9).contains(&seconds) { (seconds * 1e3).round() as u64 } else { 0 }
}

/// Whether a value is within the depth and entry limits of an event. A short text cannot exceed them.
fn fits(value: &Value, length: usize) -> bool {
    length < 2 * MAX_DEPTH || is_within_bounds(value, MAX_DEPTH)
}

fn is_within_bounds(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(list) => {
            left > 0
                && list.len() <= EVENT_ENTRIES
                && list.iter().all(|item| is_within_bounds(item, left - 1))
        }
        Value::Object(map) => {
            left > 0
                && map.len() <= EVENT_ENTRIES
                && map.values().all(|item| is_within_bounds(item, left - 1))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_TEXT_BYTES, args, args_from_text, name, text};
    use flyball::limits::NAME_BYTES;
    use flyball::normalize;
    use std::borrow::Cow;

    #[test]
    fn truncated_text_stays_distinct_after_normalization() {
        let long = |tail: &str| text(Cow::Owned(format!("{}{tail}", "x".repeat(MAX_TEXT_BYTES))));
        assert_eq!(long("a"), long("a"));
        assert_ne!(long("a"), long("b"));
        assert_ne!(normalize(&long("a")), normalize(&long("b")));
        assert!(long("a").len() < MAX_TEXT_BYTES);
        let long = |tail: &str| name(&format!("{}{tail}", "é".repeat(NAME_BYTES)));
        assert_ne!(long("a"), long("b"));
        assert!(long("a").len() <= NAME_BYTES);
    }

    #[test]
    fn arguments_are_parsed_or_kept_as_text() {
        assert_eq!(args_from_text(r#"{"a":[1,2]}"#)["a"][1], 2);
        assert_eq!(args_from_text(r#"{"a":[1,2"#), r#"{"a":[1,2"#);
        assert_eq!(args_from_text("ls -la"), "ls -la");
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(args(&deep), deep.as_str());
        let deepest = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(args(&deepest), deepest.as_str());
        let large = format!("[\"{}\"]", "y".repeat(MAX_TEXT_BYTES));
        assert_eq!(args(&large), args(&large));
        assert!(args(&large).to_string().len() < MAX_TEXT_BYTES);
    }
}
