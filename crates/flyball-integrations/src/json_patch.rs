//! Inserts text into JSON without changing any other byte.
//!
//! Tool schemas, cached prefixes and numbers must reach the provider as the client wrote them, so the document is never
//! reserialized: the insertion point is located in the original text.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

/// The fields of an object as raw JSON.
struct ObjectFields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for ObjectFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = ObjectFields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(ObjectFields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// The raw JSON of an object's field; the last one if there are duplicates.
pub(crate) fn field<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let fields: ObjectFields<'a> = serde_json::from_str(object).ok()?;
    fields.0.into_iter().rev().find(|(key, _)| key == name).map(|(_, raw)| raw.get())
}

/// The raw JSON of a list's elements.
pub(crate) fn elements(list: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// The raw JSON of a list's last element.
pub(crate) fn last_element(list: &str) -> Option<&str> {
    elements(list)?.pop()
}

/// The text to insert before the last byte of a content value: `words` for a string, `part` for a list.
pub(crate) fn inserted_text(content: &str, words: &str, part: &Value) -> Option<String> {
    match content.as_bytes() {
        [b'"', .., b'"'] => {
            let quoted = Value::from(format!("\n\n{words}")).to_string();
            quoted.get(1..quoted.len() - 1).map(str::to_owned)
        }
        [b'[', inside @ .., b']'] if inside.trim_ascii().is_empty() => Some(part.to_string()),
        [b'[', .., b']'] => Some(format!(",{part}")),
        _ => None,
    }
}

/// Appends text to a content value: a string is extended with `words`, a list gets `part` as its last element.
/// `content` is a slice of `body`.
pub(crate) fn append_text(body: &str, content: &str, words: &str, part: &Value) -> Option<Vec<u8>> {
    let inserted = inserted_text(content, words, part)?;
    let at = range_in(body, content)?.end.checked_sub(1)?;
    replace_ranges(body, &[(at..at, inserted)]).map(String::into_bytes)
}

/// The position of `part` in `body`, which must be a slice of the same memory.
pub(crate) fn range_in(body: &str, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (end <= body.len()).then_some(start..end)
}

/// Returns the text with ranges replaced. The edits are sorted and do not overlap.
pub(crate) fn replace_ranges(body: &str, edits: &[(Range<usize>, String)]) -> Option<String> {
    let mut text = String::with_capacity(body.len());
    let mut from = 0;
    for (place, new) in edits {
        text.push_str(body.get(from..place.start)?);
        text.push_str(new);
        from = place.end;
    }
    text.push_str(body.get(from..)?);
    Some(text)
}

#[cfg(test)]
#[path = "json_patch_tests.rs"]
mod tests;
