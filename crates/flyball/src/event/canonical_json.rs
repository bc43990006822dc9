//! Canonical JSON: one spelling for every value, independent of key order, number format and white space.
//!
//! Object keys are sorted (the map type keeps them sorted). A whole number is written as an integer, however it was
//! spelled. An arguments string that contains a JSON object or array counts as that object or array.

use crate::fingerprint::Fingerprint;
use serde_json::{Number, Value};

/// Writes a value as canonical JSON.
#[must_use]
pub fn canonical_json(value: &Value) -> String {
    let mut out = Vec::new();
    write_value(value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The fingerprint of a value's canonical JSON.
pub(crate) fn value_fingerprint(value: &Value) -> Fingerprint {
    let mut out = Vec::with_capacity(256);
    write_value(value, &mut out);
    Fingerprint::of(&out)
}

/// The fingerprint of an object, given its fields in order.
pub(super) fn fields_fingerprint<'a>(fields: impl Iterator<Item = (&'a str, &'a Value)>) -> Fingerprint {
    let mut out = Vec::with_capacity(1024);
    write_object(fields, &mut out);
    Fingerprint::of(&out)
}

/// The identity of a call: the tool with its arguments, and the same with every number blanked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallIdentity {
    /// The tool with its canonical arguments.
    pub(crate) call: Fingerprint,
    /// The same with every run of digits blanked.
    pub(crate) skeleton: Fingerprint,
    /// The first of the blanked numbers.
    pub(crate) numbers: CallNumbers,
}

/// The first few numbers in the arguments of a call, in canonical order.
pub(crate) type CallNumbers = [u64; 4];

/// Computes the identity of a call.
pub(crate) fn call_identity(tool: &str, args: &Value) -> CallIdentity {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(tool.as_bytes());
    out.push(0);
    match parse_embedded_json(args) {
        Some(inner) => write_value(&inner, &mut out),
        None => write_value(args, &mut out),
    }
    let call = Fingerprint::of(&out);
    let numbers = blank_numbers(&mut out, tool.len() + 1);
    CallIdentity { call, skeleton: Fingerprint::of(&out), numbers }
}

/// Parses arguments sent as a JSON string, as many providers do.
fn parse_embedded_json(args: &Value) -> Option<Value> {
    let text = args.as_str()?.trim();
    if !(text.starts_with('{') || text.starts_with('[')) {
        return None;
    }
    super::event_parser::parse_bounded_json(text).ok()
}

/// Replaces each run of digits from `start` on with one `#`, in place, and returns the first numbers.
fn blank_numbers(bytes: &mut Vec<u8>, start: usize) -> CallNumbers {
    let mut numbers = CallNumbers::default();
    let mut slots = numbers.iter_mut();
    let (mut read, mut write) = (start, start);
    // Copies whole runs without digits at once, because most arguments contain few numbers.
    while let Some(plain) = bytes.get(read..).and_then(|rest| rest.iter().position(u8::is_ascii_digit)) {
        bytes.copy_within(read..read + plain, write);
        write += plain;
        read += plain;
        let mut number = 0_u64;
        while let Some(digit) = bytes.get(read).filter(|byte| byte.is_ascii_digit()) {
            number = number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            read += 1;
        }
        if let Some(slot) = slots.next() {
            *slot = number;
        }
        if let Some(place) = bytes.get_mut(write) {
            *place = b'#';
        }
        write += 1;
    }
    let end = bytes.len();
    if read < end {
        bytes.copy_within(read..end, write);
    }
    bytes.truncate(write + end.saturating_sub(read));
    numbers
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => write_object(map.iter().map(|(key, item)| (key.as_str(), item)), out),
    }
}

fn write_object<'a>(fields: impl Iterator<Item = (&'a str, &'a Value)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (at, (key, item)) in fields.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(key, out);
        out.push(b':');
        write_value(item, out);
    }
    out.push(b'}');
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    use std::io::Write;
    // Writing into a vector cannot fail.
    let _ = match number.as_f64() {
        Some(float) if !number.is_i64() && !number.is_u64() => {
            let whole = float as i64;
            // `as` saturates, so the comparison is false for values that do not fit.
            if whole as f64 == float && float.abs() < 9e15 {
                write!(out, "{whole}")
            } else {
                write!(out, "{float:e}")
            }
        }
        _ => write!(out, "{number}"),
    };
}

/// Quotes and backslashes are escaped, so that a string cannot imitate structure; so are control characters.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| needs_escape(*byte)) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else { break };
        if *byte < 0x20 {
            out.extend_from_slice(b"\\u00");
            out.push(b"0123456789abcdef"[usize::from(byte >> 4)]);
            out.push(b"0123456789abcdef"[usize::from(byte & 15)]);
        } else {
            out.extend_from_slice(&[b'\\', *byte]);
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// The bytes to escape. A lookup table, because every argument passes through here.
static ESCAPED: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

fn needs_escape(byte: u8) -> bool {
    ESCAPED[usize::from(byte)]
}
