//! Secrets of Kubernetes: everything below `data` and `stringData` of a manifest whose kind is `Secret`.

use super::Find;
use super::raw::{at, blanks};

/// The longest manifest.
const MANIFEST_BYTES: usize = 256 * 1024;

/// Whether a hit on `secret` is the kind of a manifest.
pub(super) fn is_kind(bytes: &[u8], start: usize, end: usize) -> bool {
    let ends = matches!(at(bytes, end), b'\n' | b'\r' | b'"' | b'\'' | 0) || at(bytes, end) == b' ';
    let before = bytes.get(start.saturating_sub(12)..start).unwrap_or_default();
    let before: Vec<u8> = before.iter().copied().filter(|byte| !b" \"'".contains(byte)).collect();
    ends && at(bytes, start) == b'S' && before.ends_with(b"kind:")
}

/// The values of the manifest in which a hit lies, and where the manifest ends.
pub(super) fn find(bytes: &[u8], hit: usize) -> (Vec<Find>, usize) {
    let from = hit.saturating_sub(MANIFEST_BYTES);
    let to = bytes.len().min(hit + MANIFEST_BYTES);
    let separator: &[u8] = b"\n---";
    let before = bytes.get(from..hit).unwrap_or_default();
    let start =
        before.windows(separator.len()).rposition(|part| part == separator).map_or(from, |n| from + n + 4);
    let after = bytes.get(hit..to).unwrap_or_default();
    let end = after.windows(separator.len()).position(|part| part == separator).map_or(to, |n| hit + n);
    let mut found = Vec::new();
    let mut block: Option<usize> = None;
    let mut place = start;
    while place < end {
        let rest = bytes.get(place..end).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let line = rest.get(..length).unwrap_or_default();
        let indent = line.iter().take_while(|byte| **byte == b' ').count();
        let text = line.trim_ascii();
        if !text.is_empty() {
            if block.is_some_and(|block| indent <= block) {
                block = None;
            }
            if block.is_some() {
                found.extend(value(bytes, place, place + length));
            } else if matches!(text, b"data:" | b"stringData:") {
                block = Some(indent);
            }
        }
        place += length + 1;
    }
    (found, end)
}

/// The value of a line `key: value`, or a whole line of a value that takes several.
fn value(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    let line = bytes.get(start..end)?;
    let colon = line.windows(2).position(|pair| pair == b": ");
    let mut from = blanks(bytes, colon.map_or(start, |n| start + n + 1));
    let mut to = start + line.trim_ascii_end().len();
    if matches!(at(bytes, from), b'"' | b'\'') && to > from + 1 {
        (from, to) = (from + 1, to - 1);
    }
    let text = bytes.get(from..to)?;
    // A key without a value, or the beginning of a value that takes several lines.
    let none =
        text.len() < 4 || (colon.is_none() && text.ends_with(b":")) || super::value::is_reference(text);
    (!none).then_some(Find { start: from, end: to, kind: "secret" })
}
