//! OTLP protobuf: a minimal reader for the relevant fields that also returns the data before a truncation.

use super::{TraceSpan, lossy_string};
use serde_json::{Map, Value};

/// How the input ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireEnd {
    /// It was read completely.
    Complete,
    /// It is truncated.
    Truncated,
    /// It is not valid protobuf.
    Malformed,
}

/// Maximum nesting depth of values.
const MAX_DEPTH: usize = 16;

/// The value of a field.
#[derive(Debug, Clone, Copy)]
enum WireValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// One field of a message.
struct WireField<'a> {
    number: u64,
    payload: WireValue<'a>,
    complete: bool,
}

impl<'a> WireField<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self.payload {
            WireValue::Bytes(bytes) => bytes,
            WireValue::Number(_) => &[],
        }
    }

    fn value(&self) -> u64 {
        match self.payload {
            WireValue::Number(number) => number,
            WireValue::Bytes(_) => 0,
        }
    }
}

/// Iterates over the fields of a message.
struct WireFields<'a> {
    rest: &'a [u8],
    ended: WireEnd,
}

fn fields(bytes: &[u8]) -> WireFields<'_> {
    WireFields { rest: bytes, ended: WireEnd::Complete }
}

impl<'a> WireFields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for (at, byte) in self.rest.iter().enumerate() {
            if at == 10 {
                self.ended = WireEnd::Malformed;
                return None;
            }
            number |= u64::from(byte & 0x7f).checked_shl(u32::try_from(at * 7).unwrap_or(64)).unwrap_or(0);
            if byte & 0x80 == 0 {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return Some(number);
            }
        }
        self.ended = WireEnd::Truncated;
        None
    }

    fn fixed<const N: usize>(&mut self) -> Option<u64> {
        let Some((bytes, rest)) = self.rest.split_at_checked(N) else {
            self.ended = WireEnd::Truncated;
            return None;
        };
        self.rest = rest;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

impl<'a> Iterator for WireFields<'a> {
    type Item = WireField<'a>;

    fn next(&mut self) -> Option<WireField<'a>> {
        if self.rest.is_empty() || self.ended != WireEnd::Complete {
            return None;
        }
        let key = self.varint()?;
        let number = key >> 3;
        let held = match key & 7 {
            0 => WireValue::Number(self.varint()?),
            1 => WireValue::Number(self.fixed::<8>()?),
            5 => WireValue::Number(self.fixed::<4>()?),
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
                    self.ended = WireEnd::Truncated;
                    return Some(WireField { number, payload: WireValue::Bytes(self.rest), complete: false });
                };
                self.rest = rest;
                WireValue::Bytes(bytes)
            }
            _ => {
                self.ended = WireEnd::Malformed;
                return None;
            }
        };
        Some(WireField { number, payload: held, complete: true })
    }
}

/// Calls a function for each span of one export, or of several length-prefixed ones.
pub(super) fn spans(bytes: &[u8], each: &mut dyn FnMut(TraceSpan)) -> WireEnd {
    if bytes.first() != Some(&0) {
        return read_export(bytes, each);
    }
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((message, behind)) = behind.split_at_checked(length) else {
            read_export(behind, each);
            return WireEnd::Truncated;
        };
        match read_export(message, each) {
            WireEnd::Complete => rest = behind,
            ended => return ended,
        }
    }
    if rest.is_empty() { WireEnd::Complete } else { WireEnd::Truncated }
}

fn read_export(bytes: &[u8], each: &mut dyn FnMut(TraceSpan)) -> WireEnd {
    let mut resources = fields(bytes);
    for resource in resources.by_ref().filter(|field| field.number == 1) {
        for scope in fields(resource.bytes()).filter(|field| field.number == 2) {
            for found in fields(scope.bytes()).filter(|field| field.number == 2 && field.complete) {
                each(read_span(found.bytes()));
            }
        }
    }
    resources.ended
}

fn read_span(bytes: &[u8]) -> TraceSpan {
    let mut span = TraceSpan::default();
    for field in fields(bytes) {
        match field.number {
            1 => span.trace = hex(field.bytes()),
            2 => span.id = hex(field.bytes()),
            5 => span.name = lossy_string(field.bytes()),
            7 => span.start = field.value(),
            8 => span.end = field.value(),
            9 => read_attribute(&mut span, field.bytes()),
            11 => {
                for inner in fields(field.bytes()).filter(|inner| inner.number == 3) {
                    read_attribute(&mut span, inner.bytes());
                }
            }
            15 => {
                for inner in fields(field.bytes()) {
                    match inner.number {
                        2 => span.message = lossy_string(inner.bytes()),
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

fn read_attribute(span: &mut TraceSpan, bytes: &[u8]) {
    let (key, raw) = read_key_value(bytes);
    span.set_attribute(&key, || read_value(raw, 0));
}

fn read_key_value(bytes: &[u8]) -> (String, &[u8]) {
    let (mut key, mut raw) = (String::new(), &[][..]);
    for field in fields(bytes) {
        match field.number {
            1 => key = lossy_string(field.bytes()),
            2 => raw = field.bytes(),
            _ => {}
        }
    }
    (key, raw)
}

fn read_value(bytes: &[u8], depth: usize) -> Value {
    let Some(field) = fields(bytes).next().filter(|_| depth < MAX_DEPTH) else { return Value::Null };
    let values = || fields(field.bytes()).filter(|inner| inner.number == 1).map(|inner| inner.bytes());
    match field.number {
        1 | 7 => Value::String(lossy_string(field.bytes())),
        2 => Value::Bool(field.value() != 0),
        3 => Value::from(field.value().cast_signed()),
        4 => Value::from(f64::from_bits(field.value())),
        5 => Value::Array(values().map(|inner| read_value(inner, depth + 1)).collect()),
        6 => {
            let pairs = values().map(read_key_value).map(|(key, raw)| (key, read_value(raw, depth + 1)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        _ => Value::Null,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Strips the length prefix that a collector writes before each export.
pub(super) fn unframed(head: &[u8]) -> &[u8] {
    if head.first() == Some(&0) { head.get(4..).unwrap_or_default() } else { head }
}

/// Whether bytes start with a plausible resource.
pub(super) fn looks_like_traces(head: &[u8]) -> bool {
    let Some(first) = fields(head).next().filter(|field| field.number == 1) else { return false };
    let inner = fields(first.bytes()).next();
    inner.is_some_and(|field| matches!((field.number, field.payload), (1..=3, WireValue::Bytes(_))))
}
