//! YAML with the place of every key.
//!
//! Built on the parser's events rather than on a ready-made tree, because that shows every
//! position, duplicate keys, and aliases before they are written out: a file of a few lines
//! can otherwise stand for billions of values.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Number, Value};

use super::parse::Reading;
use super::places::Place;

/// A value kept for aliases, with its size.
struct Anchored {
    value: Value,
    values: usize,
    depth: usize,
}

struct Reader<'t, 'r> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: BTreeMap<usize, Anchored>,
    reading: &'r mut Reading,
}

/// An error has been recorded; there is nothing more to say.
struct Stop;

pub(super) fn read(text: &str, reading: &mut Reading) -> Option<Value> {
    let mut reader = Reader { parser: Parser::new_from_str(text), anchors: BTreeMap::new(), reading };
    reader.documents().ok()
}

fn place(span: &Span) -> Place {
    Place::new(span.start.line(), span.start.col() + 1)
}

impl<'t> Reader<'t, '_> {
    fn next(&mut self) -> Result<(Event<'t>, Place), Stop> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, place(&span))),
            Some(Err(error)) => {
                let at = Place::new(error.marker().line(), error.marker().col() + 1);
                Err(self.stop(at, error.info(), "check the indentation and quotes here"))
            }
            None => Err(self.stop(Place::new(1, 1), "the text ends early", "complete the file")),
        }
    }

    fn stop(&mut self, at: Place, what: &str, help: &str) -> Stop {
        self.reading.fail(Some(at), what, help);
        Stop
    }

    fn documents(&mut self) -> Result<Value, Stop> {
        let mut tree = None;
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(tree.unwrap_or(Value::Null)),
                Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
                Event::DocumentStart(_) if tree.is_some() => {
                    return Err(self.stop(at, "more than one document", "keep one document in the file"));
                }
                Event::DocumentStart(_) => {
                    let (event, at) = self.next()?;
                    tree = Some(self.value(event, at)?);
                }
                _ => return Err(self.stop(at, "unexpected content", "check the indentation here")),
            }
        }
    }

    fn value(&mut self, event: Event<'t>, at: Place) -> Result<Value, Stop> {
        if !self.reading.fits(1, 0, at) {
            return Err(Stop);
        }
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let text_only = match &tag {
                    None => style != ScalarStyle::Plain,
                    Some(tag) if tag.is_yaml_core_schema() => {
                        tag.suffix == "str" || style != ScalarStyle::Plain
                    }
                    Some(_) => {
                        return Err(self.stop(at, "tags are not part of a policy", "remove the tag"));
                    }
                };
                let value = if text_only { Value::from(text.as_ref()) } else { plain(&text) };
                (value, anchor)
            }
            Event::SequenceStart(anchor, _) => (self.list(at)?, anchor),
            Event::MappingStart(anchor, _) => (self.map(at)?, anchor),
            Event::Alias(id) => return self.alias(id, at),
            _ => {
                return Err(self.stop(at, "a value is missing here", "write a value, or remove the key"));
            }
        };
        if anchor > 0 {
            let (values, depth) = size(&value);
            self.anchors.insert(anchor, Anchored { value: value.clone(), values, depth });
        }
        Ok(value)
    }

    fn alias(&mut self, id: usize, at: Place) -> Result<Value, Stop> {
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(self.stop(at, "an alias to a value that is not complete", "write the value out"));
        };
        let (values, depth) = (anchored.values, anchored.depth);
        if !self.reading.fits(values, depth, at) {
            return Err(Stop);
        }
        Ok(self.anchors.get(&id).map_or(Value::Null, |a| a.value.clone()))
    }

    fn list(&mut self, at: Place) -> Result<Value, Stop> {
        let mut items = Vec::new();
        loop {
            let (event, here) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::Array(items));
            }
            if !self.reading.room(items.len(), at) {
                return Err(Stop);
            }
            self.reading.enter(items.len().to_string(), here);
            items.push(self.value(event, here)?);
            self.reading.leave();
        }
    }

    fn map(&mut self, at: Place) -> Result<Value, Stop> {
        let mut map = Map::new();
        loop {
            let (event, here) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Value::Object(map)),
                Event::Scalar(text, _, _, None) => text.into_owned(),
                _ => {
                    return Err(self.stop(
                        here,
                        "a key must be plain text",
                        "write the key as a word or in quotes",
                    ));
                }
            };
            if !self.reading.room(map.len(), at) {
                return Err(Stop);
            }
            let (event, value_at) = self.next()?;
            if map.contains_key(&key) {
                self.reading.duplicate(here, &key);
                self.value(event, value_at)?;
                continue;
            }
            self.reading.enter(key.clone(), here);
            let value = self.value(event, value_at)?;
            self.reading.leave();
            map.insert(key, value);
        }
    }
}

/// Number of values and levels of a tree that already passed the bounds.
fn size(value: &Value) -> (usize, usize) {
    let parts: Vec<(usize, usize)> = match value {
        Value::Array(items) => items.iter().map(size).collect(),
        Value::Object(map) => map.values().map(size).collect(),
        _ => return (1, 0),
    };
    let values = parts.iter().fold(1_usize, |sum, (n, _)| sum.saturating_add(*n));
    let depth = parts.iter().map(|(_, depth)| depth + 1).max().unwrap_or(0);
    (values, depth)
}

/// What a word without quotes means: YAML 1.2, where `off`, `on`, `yes` and `no` are words.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let radix = |prefix: &str, base: u32| {
        text.strip_prefix(prefix).and_then(|digits| u64::from_str_radix(digits, base).ok())
    };
    if let Ok(number) = text.parse::<i64>() {
        return Value::from(number);
    }
    if let Some(number) = text.parse::<u64>().ok().or_else(|| radix("0x", 16)).or_else(|| radix("0o", 8)) {
        return Value::from(number);
    }
    let looks_like_number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && text.ends_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.contains(['.', 'e', 'E']);
    if looks_like_number && let Some(number) = text.parse::<f64>().ok().and_then(Number::from_f64) {
        return Value::Number(number);
    }
    Value::from(text)
}
