//! JSON parser that records the position of every key.
//!
//! `serde_json` validates the text and parses the scalars. This parser only adds the positions and finds duplicate
//! keys.

use serde_json::{Map, Value};

use super::policy_parser::ParseContext;
use super::positions::{LineIndex, SourcePosition};

struct JsonReader<'t, 'r> {
    text: &'t str,
    at: usize,
    lines: LineIndex<'t>,
    context: &'r mut ParseContext,
}

/// Parsing stopped; the error is already recorded.
struct JsonAborted;

pub(super) fn read_json(text: &str, reading: &mut ParseContext) -> Option<Value> {
    if text.trim().is_empty() {
        return Some(Value::Null);
    }
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let place = SourcePosition::new(error.line().max(1), error.column().max(1));
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or("not JSON");
        reading.syntax_error(Some(place), what, "check commas, quotes and brackets here");
        return None;
    }
    let mut reader = JsonReader { text, at: 0, lines: LineIndex::new(text), context: reading };
    reader.value().ok()
}

impl JsonReader<'_, '_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Skips white space and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        self.at += blank;
        self.rest().bytes().next()
    }

    fn position(&self) -> SourcePosition {
        self.lines.position(self.at)
    }

    fn value(&mut self) -> Result<Value, JsonAborted> {
        let first = self.peek();
        let place = self.position();
        if !self.context.check_size(1, 0, place) {
            return Err(JsonAborted);
        }
        match first {
            Some(b'{') => self.map(place),
            Some(b'[') => self.list(place),
            _ => self.scalar(place),
        }
    }

    fn scalar(&mut self, place: SourcePosition) -> Result<Value, JsonAborted> {
        let rest = self.rest();
        let end = if rest.starts_with('"') {
            string_end(rest)
        } else {
            rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len())
        };
        let value = rest.get(..end).and_then(|text| serde_json::from_str(text).ok());
        self.at += end;
        value.ok_or_else(|| {
            self.context.syntax_error(Some(place), "missing value", "write a value");
            JsonAborted
        })
    }

    fn list(&mut self, place: SourcePosition) -> Result<Value, JsonAborted> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            match self.peek() {
                Some(b']') | None => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                Some(b',') => self.at += 1,
                Some(_) => {
                    if !self.context.check_entries(items.len(), place) {
                        return Err(JsonAborted);
                    }
                    let here = self.position();
                    self.context.enter(items.len().to_string(), here);
                    items.push(self.value()?);
                    self.context.leave();
                }
            }
        }
    }

    fn map(&mut self, place: SourcePosition) -> Result<Value, JsonAborted> {
        let mut map = Map::new();
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'}') | None => {
                    self.at += 1;
                    return Ok(Value::Object(map));
                }
                Some(b',') => self.at += 1,
                Some(_) => {
                    if !self.context.check_entries(map.len(), place) {
                        return Err(JsonAborted);
                    }
                    self.entry(&mut map)?;
                }
            }
        }
    }

    fn entry(&mut self, map: &mut Map<String, Value>) -> Result<(), JsonAborted> {
        let here = self.position();
        let Value::String(key) = self.scalar(here)? else {
            self.context.syntax_error(Some(here), "a key must be a string", "put the key in quotes");
            return Err(JsonAborted);
        };
        if self.peek() == Some(b':') {
            self.at += 1;
        }
        if map.contains_key(&key) {
            self.context.duplicate_key(here, &key);
            self.value()?;
            return Ok(());
        }
        self.context.enter(key.clone(), here);
        let value = self.value()?;
        self.context.leave();
        map.insert(key, value);
        Ok(())
    }
}

/// The length of a string, including its quotes.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}
