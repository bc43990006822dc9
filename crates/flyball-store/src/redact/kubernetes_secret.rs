//! Kubernetes secrets: all values under `data` and `stringData` of a manifest of kind `Secret`.

use super::SecretSpan;
use super::byte_scan::{byte_at, skip_blanks};

/// Maximum size of a manifest.
const MAX_MANIFEST_BYTES: usize = 256 * 1024;

/// Whether a hit on `secret` is the kind of a manifest.
pub(super) fn is_secret_kind(bytes: &[u8], start: usize, end: usize) -> bool {
    let ends = matches!(byte_at(bytes, end), b'\n' | b'\r' | b'"' | b'\'' | 0) || byte_at(bytes, end) == b' ';
    let before = bytes.get(start.saturating_sub(12)..start).unwrap_or_default();
    let before: Vec<u8> = before.iter().copied().filter(|byte| !b" \"'".contains(byte)).collect();
    ends && byte_at(bytes, start) == b'S' && before.ends_with(b"kind:")
}

/// The values of the manifest that contains a hit, and the end of the manifest.
pub(super) fn find(bytes: &[u8], hit: usize) -> (Vec<SecretSpan>, usize) {
    let from = hit.saturating_sub(MAX_MANIFEST_BYTES);
    let to = bytes.len().min(hit + MAX_MANIFEST_BYTES);
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
                found.extend(find_value(bytes, place, place + length));
            } else if matches!(text, b"data:" | b"stringData:") {
                block = Some(indent);
            }
        }
        place += length + 1;
    }
    (found, end)
}

/// The value of a `key: value` line, or a whole line of a multi-line value.
fn find_value(bytes: &[u8], start: usize, end: usize) -> Option<SecretSpan> {
    let line = bytes.get(start..end)?;
    let colon = line.windows(2).position(|pair| pair == b": ");
    let mut from = skip_blanks(bytes, colon.map_or(start, |n| start + n + 1));
    let mut to = start + line.trim_ascii_end().len();
    if matches!(byte_at(bytes, from), b'"' | b'\'') && to > from + 1 {
        (from, to) = (from + 1, to - 1);
    }
    let text = bytes.get(from..to)?;
    // A key without a value, or the start of a multi-line value.
    let none =
        text.len() < 4 || (colon.is_none() && text.ends_with(b":")) || super::value::is_reference(text);
    (!none).then_some(SecretSpan { start: from, end: to, kind: "secret" })
}
