//! YAML parser that records the position of every key.
//!
//! It uses the parser's events instead of a finished tree, because events expose every position, duplicate keys, and
//! aliases before they are expanded. Otherwise a file of a few lines could expand to billions of values.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Number, Value};

use super::policy_parser::ParseContext;
use super::positions::SourcePosition;

/// A value kept for aliases, with its size.
struct AnchoredValue {
    value: Value,
    values: usize,
    depth: usize,
}

struct YamlReader<'t, 'r> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: BTreeMap<usize, AnchoredValue>,
    context: &'r mut ParseContext,
}

/// Parsing stopped; the error is already recorded.
struct YamlAborted;

pub(super) fn read_yaml(text: &str, reading: &mut ParseContext) -> Option<Value> {
    let mut reader =
        YamlReader { parser: Parser::new_from_str(text), anchors: BTreeMap::new(), context: reading };
    reader.documents().ok()
}

fn span_position(span: &Span) -> SourcePosition {
    SourcePosition::new(span.start.line(), span.start.col() + 1)
}

impl<'t> YamlReader<'t, '_> {
    fn next(&mut self) -> Result<(Event<'t>, SourcePosition), YamlAborted> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, span_position(&span))),
            Some(Err(error)) => {
                let at = SourcePosition::new(error.marker().line(), error.marker().col() + 1);
                Err(self.abort(at, error.info(), "check the indentation and quotes here"))
            }
            None => Err(self.abort(SourcePosition::new(1, 1), "unexpected end of file", "complete the file")),
        }
    }

    fn abort(&mut self, at: SourcePosition, what: &str, help: &str) -> YamlAborted {
        self.context.syntax_error(Some(at), what, help);
        YamlAborted
    }

    fn documents(&mut self) -> Result<Value, YamlAborted> {
        let mut tree = None;
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(tree.unwrap_or(Value::Null)),
                Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
                Event::DocumentStart(_) if tree.is_some() => {
                    return Err(self.abort(at, "more than one document", "keep one document in the file"));
                }
                Event::DocumentStart(_) => {
                    let (event, at) = self.next()?;
                    tree = Some(self.value(event, at)?);
                }
                _ => return Err(self.abort(at, "unexpected content", "check the indentation here")),
            }
        }
    }

    fn value(&mut self, event: Event<'t>, at: SourcePosition) -> Result<Value, YamlAborted> {
        if !self.context.check_size(1, 0, at) {
            return Err(YamlAborted);
        }
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let text_only = match &tag {
                    None => style != ScalarStyle::Plain,
                    Some(tag) if tag.is_yaml_core_schema() => {
                        tag.suffix == "str" || style != ScalarStyle::Plain
                    }
                    Some(_) => {
                        return Err(self.abort(at, "tags are not allowed", "remove the tag"));
                    }
                };
                let value = if text_only { Value::from(text.as_ref()) } else { parse_plain_scalar(&text) };
                (value, anchor)
            }
            Event::SequenceStart(anchor, _) => (self.list(at)?, anchor),
            Event::MappingStart(anchor, _) => (self.map(at)?, anchor),
            Event::Alias(id) => return self.alias(id, at),
            _ => {
                return Err(self.abort(at, "missing value", "write a value, or remove the key"));
            }
        };
        if anchor > 0 {
            let (values, depth) = tree_size(&value);
            self.anchors.insert(anchor, AnchoredValue { value: value.clone(), values, depth });
        }
        Ok(value)
    }

    fn alias(&mut self, id: usize, at: SourcePosition) -> Result<Value, YamlAborted> {
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(self.abort(at, "an alias to its own value", "write the value out"));
        };
        let (values, depth) = (anchored.values, anchored.depth);
        if !self.context.check_size(values, depth, at) {
            return Err(YamlAborted);
        }
        Ok(self.anchors.get(&id).map_or(Value::Null, |a| a.value.clone()))
    }

    fn list(&mut self, at: SourcePosition) -> Result<Value, YamlAborted> {
        let mut items = Vec::new();
        loop {
            let (event, here) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::Array(items));
            }
            if !self.context.check_entries(items.len(), at) {
                return Err(YamlAborted);
            }
            self.context.enter(items.len().to_string(), here);
            items.push(self.value(event, here)?);
            self.context.leave();
        }
    }

    fn map(&mut self, at: SourcePosition) -> Result<Value, YamlAborted> {
        let mut map = Map::new();
        loop {
            let (event, here) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Value::Object(map)),
                Event::Scalar(text, _, _, None) => text.into_owned(),
                _ => {
                    return Err(self.abort(
                        here,
                        "a key must be a string",
                        "write the key as a word or in quotes",
                    ));
                }
            };
            if !self.context.check_entries(map.len(), at) {
                return Err(YamlAborted);
            }
            let (event, value_at) = self.next()?;
            if map.contains_key(&key) {
                self.context.duplicate_key(here, &key);
                self.value(event, value_at)?;
                continue;
            }
            self.context.enter(key.clone(), here);
            let value = self.value(event, value_at)?;
            self.context.leave();
            map.insert(key, value);
        }
    }
}

/// The number of values and levels of a tree that already passed the limits.
fn tree_size(value: &Value) -> (usize, usize) {
    let parts: Vec<(usize, usize)> = match value {
        Value::Array(items) => items.iter().map(tree_size).collect(),
        Value::Object(map) => map.values().map(tree_size).collect(),
        _ => return (1, 0),
    };
    let values = parts.iter().fold(1_usize, |sum, (n, _)| sum.saturating_add(*n));
    let depth = parts.iter().map(|(_, depth)| depth + 1).max().unwrap_or(0);
    (values, depth)
}

/// Parses an unquoted scalar as in YAML 1.2, where `off`, `on`, `yes` and `no` are strings.
fn parse_plain_scalar(text: &str) -> Value {
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
