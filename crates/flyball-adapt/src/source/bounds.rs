//! Keeps what comes out of other tools' files within the bounds of an event.
//!
//! What is too large is cut, never lost: the beginning is kept, and the end is replaced by a mark that stands for the
//! whole, so that equal stays equal and different stays different.

use flyball::Fingerprint;
use flyball::limits::{EVENT_DEPTH, EVENT_ENTRIES, NAME_BYTES};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The longest text and the longest arguments that are kept, in bytes. Escaped in JSON they can become six times as
/// long, and still fit into an event.
pub(super) const TEXT_BYTES: usize = 2 * 1024 * 1024;
/// How much of a longer one is kept.
const HEAD_BYTES: usize = 256 * 1024;
/// Levels of arguments; an event has some of its own around them.
const DEPTH: usize = EVENT_DEPTH - 8;
/// Numbers of one million dollars and less are taken for a cost.
const MOST_DOLLARS: f64 = 1e6;

/// A text of any length, as long as an event may hold.
pub(super) fn text(text: Cow<'_, str>) -> String {
    if text.len() <= TEXT_BYTES {
        return text.into_owned();
    }
    let head = text.get(..text.floor_char_boundary(HEAD_BYTES)).unwrap_or_default();
    format!("{head}[cut: {} bytes, {}]", text.len(), letters(Fingerprint::of_text(&text)))
}

/// A name of any length, as long as a name may be.
pub(super) fn name(name: &str) -> String {
    if name.len() <= NAME_BYTES {
        return name.to_owned();
    }
    let head = name.get(..name.floor_char_boundary(NAME_BYTES / 2)).unwrap_or_default();
    format!("{head}#{}", letters(Fingerprint::of_text(name)))
}

/// Arguments as they are written in JSON. What is too large or too deep for an event is kept as a text.
pub(super) fn args(raw: &str) -> Value {
    if raw.len() > TEXT_BYTES {
        let whole = letters(Fingerprint::of_text(raw));
        return json!({"text": text(Cow::Borrowed(raw)), "whole": whole});
    }
    match serde_json::from_str::<Value>(raw) {
        Ok(value) if fits(&value, raw.len()) => value,
        _ => Value::String(raw.to_owned()),
    }
}

/// Arguments that came as a text: JSON is read, and what is broken stays a text.
pub(super) fn args_text(words: &str) -> Value {
    let trimmed = words.trim();
    if trimmed.starts_with(['{', '[']) { args(trimmed) } else { Value::String(text(Cow::Borrowed(words))) }
}

/// A fingerprint in letters that no rule takes for a hash: it must not be normalised away.
pub(super) fn letters(print: Fingerprint) -> String {
    let number = print.number();
    (0..16).map(|at| char::from(b'g' + u8::try_from(number >> (at * 4) & 15).unwrap_or(0))).collect()
}

/// Dollars as whole millionths.
#[expect(
    clippy::float_arithmetic,
    reason = "other tools write money as dollars; from here on it is whole millionths"
)]
pub(super) fn micro_dollars(dollars: f64) -> u64 {
    if (0.0..MOST_DOLLARS).contains(&dollars) { (dollars * 1e6).round() as u64 } else { 0 }
}

/// Seconds as whole milliseconds.
#[expect(clippy::float_arithmetic, reason = "other tools write durations as seconds")]
pub(super) fn milliseconds(seconds: f64) -> u64 {
    if (0.0..1e9).contains(&seconds) { (seconds * 1e3).round() as u64 } else { 0 }
}

/// Whether a value has no more levels and entries than an event may have. A short text cannot have too many.
fn fits(value: &Value, length: usize) -> bool {
    length < 2 * DEPTH || shallow(value, DEPTH)
}

fn shallow(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(list) => {
            left > 0 && list.len() <= EVENT_ENTRIES && list.iter().all(|item| shallow(item, left - 1))
        }
        Value::Object(map) => {
            left > 0 && map.len() <= EVENT_ENTRIES && map.values().all(|item| shallow(item, left - 1))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{TEXT_BYTES, args, args_text, name, text};
    use flyball::limits::NAME_BYTES;
    use flyball::normalised;
    use std::borrow::Cow;

    #[test]
    fn what_is_cut_stays_equal_and_stays_different_even_when_normalised() {
        let long = |tail: &str| text(Cow::Owned(format!("{}{tail}", "x".repeat(TEXT_BYTES))));
        assert_eq!(long("a"), long("a"));
        assert_ne!(long("a"), long("b"));
        assert_ne!(normalised(&long("a")), normalised(&long("b")));
        assert!(long("a").len() < TEXT_BYTES);
        let long = |tail: &str| name(&format!("{}{tail}", "é".repeat(NAME_BYTES)));
        assert_ne!(long("a"), long("b"));
        assert!(long("a").len() <= NAME_BYTES);
    }

    #[test]
    fn arguments_are_read_if_they_can_be_and_kept_as_text_if_not() {
        assert_eq!(args_text(r#"{"a":[1,2]}"#)["a"][1], 2);
        assert_eq!(args_text(r#"{"a":[1,2"#), r#"{"a":[1,2"#);
        assert_eq!(args_text("ls -la"), "ls -la");
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(args(&deep), deep.as_str());
        let deepest = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(args(&deepest), deepest.as_str());
        let large = format!("[\"{}\"]", "y".repeat(TEXT_BYTES));
        assert_eq!(args(&large), args(&large));
        assert!(args(&large).to_string().len() < TEXT_BYTES);
    }
}
