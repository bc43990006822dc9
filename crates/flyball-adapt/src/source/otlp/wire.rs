//! Spans in OTLP's protobuf: a small reader of the wire format that knows the few fields that are looked at, and gives
//! what stands before a cut.

use super::{Span, text};
use serde_json::{Map, Value};

/// How a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Everything was read.
    Whole,
    /// In the middle of something.
    Cut,
    /// Not as protobuf does.
    Broken,
}

/// Values inside values: how deep they are followed.
const DEPTH: usize = 16;

/// What a field holds.
#[derive(Debug, Clone, Copy)]
enum Held<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// One field of a message.
struct Field<'a> {
    number: u64,
    held: Held<'a>,
    whole: bool,
}

impl<'a> Field<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self.held {
            Held::Bytes(bytes) => bytes,
            Held::Number(_) => &[],
        }
    }

    fn value(&self) -> u64 {
        match self.held {
            Held::Number(number) => number,
            Held::Bytes(_) => 0,
        }
    }
}

/// Goes through the fields of a message.
struct Fields<'a> {
    rest: &'a [u8],
    ended: Ended,
}

fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { rest: bytes, ended: Ended::Whole }
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for (at, byte) in self.rest.iter().enumerate() {
            if at == 10 {
                self.ended = Ended::Broken;
                return None;
            }
            number |= u64::from(byte & 0x7f).checked_shl(u32::try_from(at * 7).unwrap_or(64)).unwrap_or(0);
            if byte & 0x80 == 0 {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return Some(number);
            }
        }
        self.ended = Ended::Cut;
        None
    }

    fn fixed<const N: usize>(&mut self) -> Option<u64> {
        let Some((bytes, rest)) = self.rest.split_at_checked(N) else {
            self.ended = Ended::Cut;
            return None;
        };
        self.rest = rest;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        if self.rest.is_empty() || self.ended != Ended::Whole {
            return None;
        }
        let key = self.varint()?;
        let number = key >> 3;
        let held = match key & 7 {
            0 => Held::Number(self.varint()?),
            1 => Held::Number(self.fixed::<8>()?),
            5 => Held::Number(self.fixed::<4>()?),
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
                    self.ended = Ended::Cut;
                    return Some(Field { number, held: Held::Bytes(self.rest), whole: false });
                };
                self.rest = rest;
                Held::Bytes(bytes)
            }
            _ => {
                self.ended = Ended::Broken;
                return None;
            }
        };
        Some(Field { number, held, whole: true })
    }
}

/// Hands on the spans of one export, or of several with their lengths before them.
pub(super) fn spans(bytes: &[u8], each: &mut dyn FnMut(Span)) -> Ended {
    if bytes.first() != Some(&0) {
        return export(bytes, each);
    }
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((message, behind)) = behind.split_at_checked(length) else {
            export(behind, each);
            return Ended::Cut;
        };
        match export(message, each) {
            Ended::Whole => rest = behind,
            ended => return ended,
        }
    }
    if rest.is_empty() { Ended::Whole } else { Ended::Cut }
}

fn export(bytes: &[u8], each: &mut dyn FnMut(Span)) -> Ended {
    let mut resources = fields(bytes);
    for resource in resources.by_ref().filter(|field| field.number == 1) {
        for scope in fields(resource.bytes()).filter(|field| field.number == 2) {
            for found in fields(scope.bytes()).filter(|field| field.number == 2 && field.whole) {
                each(span(found.bytes()));
            }
        }
    }
    resources.ended
}

fn span(bytes: &[u8]) -> Span {
    let mut span = Span::default();
    for field in fields(bytes) {
        match field.number {
            1 => span.trace = hex(field.bytes()),
            2 => span.id = hex(field.bytes()),
            5 => span.name = text(field.bytes()),
            7 => span.start = field.value(),
            8 => span.end = field.value(),
            9 => attribute(&mut span, field.bytes()),
            11 => {
                for inner in fields(field.bytes()).filter(|inner| inner.number == 3) {
                    attribute(&mut span, inner.bytes());
                }
            }
            15 => {
                for inner in fields(field.bytes()) {
                    match inner.number {
                        2 => span.message = text(inner.bytes()),
                        3 => span.failed = inner.value() == 2,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    span
}

fn attribute(span: &mut Span, bytes: &[u8]) {
    let (key, raw) = pair(bytes);
    span.keep(&key, || value(raw, 0));
}

fn pair(bytes: &[u8]) -> (String, &[u8]) {
    let (mut key, mut raw) = (String::new(), &[][..]);
    for field in fields(bytes) {
        match field.number {
            1 => key = text(field.bytes()),
            2 => raw = field.bytes(),
            _ => {}
        }
    }
    (key, raw)
}

fn value(bytes: &[u8], depth: usize) -> Value {
    let Some(field) = fields(bytes).next().filter(|_| depth < DEPTH) else { return Value::Null };
    let values = || fields(field.bytes()).filter(|inner| inner.number == 1).map(|inner| inner.bytes());
    match field.number {
        1 | 7 => Value::String(text(field.bytes())),
        2 => Value::Bool(field.value() != 0),
        3 => Value::from(field.value().cast_signed()),
        4 => Value::from(f64::from_bits(field.value())),
        5 => Value::Array(values().map(|inner| value(inner, depth + 1)).collect()),
        6 => {
            let pairs = values().map(pair).map(|(key, raw)| (key, value(raw, depth + 1)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        _ => Value::Null,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes behind the length that a collector writes before each export.
pub(super) fn unframed(head: &[u8]) -> &[u8] {
    if head.first() == Some(&0) { head.get(4..).unwrap_or_default() } else { head }
}

/// Whether bytes begin with a resource that begins with what a resource has.
pub(super) fn begins_as_traces(head: &[u8]) -> bool {
    let Some(first) = fields(head).next().filter(|field| field.number == 1) else { return false };
    let inner = fields(first.bytes()).next();
    inner.is_some_and(|field| matches!((field.number, field.held), (1..=3, Held::Bytes(_))))
}
