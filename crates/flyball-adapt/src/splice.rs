//! Putting a few words into a JSON text without touching any other byte of it.
//!
//! Tool schemas, cached prefixes and numbers must reach the provider as the client wrote them, so nothing is parsed and
//! written again: the place is found, and the words are inserted.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

/// The fields of an object, each as it is written.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reading)
    }
}

/// A field of an object, as it is written; the last one if there are several.
pub(crate) fn field<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let fields: Fields<'a> = serde_json::from_str(object).ok()?;
    fields.0.into_iter().rev().find(|(key, _)| key == name).map(|(_, raw)| raw.get())
}

/// The elements of a list, each as it is written.
pub(crate) fn elements(list: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// The last element of a list, as it is written.
pub(crate) fn last(list: &str) -> Option<&str> {
    elements(list)?.pop()
}

/// What to insert at the end of a content, before its last byte: words into a string, `part` into a list.
pub(crate) fn addition(content: &str, words: &str, part: &Value) -> Option<String> {
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

/// Adds words at the end of a content: a string gets them appended, a list gets `part` as its last element.
/// `content` is a part of `body`.
pub(crate) fn add(body: &str, content: &str, words: &str, part: &Value) -> Option<Vec<u8>> {
    let inserted = addition(content, words, part)?;
    let at = place(body, content)?.end.checked_sub(1)?;
    replaced(body, &[(at..at, inserted)]).map(String::into_bytes)
}

/// Where a part of a text stands in it: both are slices of the same memory.
pub(crate) fn place(body: &str, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (end <= body.len()).then_some(start..end)
}

/// A text with some of its parts replaced. They are given in order, and do not overlap.
pub(crate) fn replaced(body: &str, edits: &[(Range<usize>, String)]) -> Option<String> {
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
#[path = "splice_tests.rs"]
mod tests;
