//! JSON with the place of every key.
//!
//! `serde_json` says whether the text is JSON and reads the scalars; the walk here only adds
//! what it does not tell: positions and duplicate keys.

use serde_json::{Map, Value};

use super::parse::Reading;
use super::places::{Lines, Place};

struct Reader<'t, 'r> {
    text: &'t str,
    at: usize,
    lines: Lines<'t>,
    reading: &'r mut Reading,
}

/// An error has been recorded; there is nothing more to say.
struct Stop;

pub(super) fn read(text: &str, reading: &mut Reading) -> Option<Value> {
    if text.trim().is_empty() {
        return Some(Value::Null);
    }
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let place = Place::new(error.line().max(1), error.column().max(1));
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or("not JSON");
        reading.fail(Some(place), what, "check commas, quotes and brackets here");
        return None;
    }
    let mut reader = Reader { text, at: 0, lines: Lines::new(text), reading };
    reader.value().ok()
}

impl Reader<'_, '_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Steps over white space and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        self.at += blank;
        self.rest().bytes().next()
    }

    fn place(&self) -> Place {
        self.lines.place(self.at)
    }

    fn value(&mut self) -> Result<Value, Stop> {
        let first = self.peek();
        let place = self.place();
        if !self.reading.fits(1, 0, place) {
            return Err(Stop);
        }
        match first {
            Some(b'{') => self.map(place),
            Some(b'[') => self.list(place),
            _ => self.scalar(place),
        }
    }

    fn scalar(&mut self, place: Place) -> Result<Value, Stop> {
        let rest = self.rest();
        let end = if rest.starts_with('"') {
            string_end(rest)
        } else {
            rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len())
        };
        let value = rest.get(..end).and_then(|text| serde_json::from_str(text).ok());
        self.at += end;
        value.ok_or_else(|| {
            self.reading.fail(Some(place), "a value is missing here", "write a value");
            Stop
        })
    }

    fn list(&mut self, place: Place) -> Result<Value, Stop> {
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
                    if !self.reading.room(items.len(), place) {
                        return Err(Stop);
                    }
                    let here = self.place();
                    self.reading.enter(items.len().to_string(), here);
                    items.push(self.value()?);
                    self.reading.leave();
                }
            }
        }
    }

    fn map(&mut self, place: Place) -> Result<Value, Stop> {
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
                    if !self.reading.room(map.len(), place) {
                        return Err(Stop);
                    }
                    self.entry(&mut map)?;
                }
            }
        }
    }

    fn entry(&mut self, map: &mut Map<String, Value>) -> Result<(), Stop> {
        let here = self.place();
        let Value::String(key) = self.scalar(here)? else {
            self.reading.fail(Some(here), "a key must be text", "put the key in quotes");
            return Err(Stop);
        };
        if self.peek() == Some(b':') {
            self.at += 1;
        }
        if map.contains_key(&key) {
            self.reading.duplicate(here, &key);
            self.value()?;
            return Ok(());
        }
        self.reading.enter(key.clone(), here);
        let value = self.value()?;
        self.reading.leave();
        map.insert(key, value);
        Ok(())
    }
}

/// The length of a string with its quotes.
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
