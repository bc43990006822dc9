//! Slices and searches of a stored output, in characters.

use serde::Serialize;
use std::io::{BufRead, Result};

/// Maximum characters of a line in a search result.
const MAX_LINE_CHARS: usize = 300;

/// A slice of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputSlice {
    /// Start of the slice, in characters.
    pub offset: u64,
    /// The slice.
    pub text: String,
    /// Start of the next slice; `None` at the end.
    pub next: Option<u64>,
    /// Length of the whole output in characters.
    pub chars: u64,
    /// Length of the whole output in bytes.
    pub bytes: u64,
}

/// A line of an output that matches a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputMatch {
    /// Line number, from 1.
    pub line: u64,
    /// Start of the line, in characters.
    pub offset: u64,
    /// The line, truncated if it is long.
    pub text: String,
}

/// Whether a byte starts a UTF-8 character.
fn is_char_start(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

/// Reads up to `limit` characters from `offset` on.
pub(super) fn read_slice(mut text: Box<dyn BufRead>, offset: u64, limit: u64) -> Result<OutputSlice> {
    let end = offset.saturating_add(limit);
    let (mut chars, mut bytes) = (0_u64, 0_u64);
    let mut kept = Vec::new();
    loop {
        let chunk = text.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        for byte in chunk {
            chars += u64::from(is_char_start(*byte));
            if chars > offset && chars <= end {
                kept.push(*byte);
            }
        }
        let length = chunk.len();
        bytes += length as u64;
        text.consume(length);
    }
    let text = String::from_utf8_lossy(&kept).into_owned();
    Ok(OutputSlice { offset, text, next: (end < chars).then_some(end), chars, bytes })
}

/// Finds the lines that contain a text.
pub(super) fn search_lines(
    mut text: Box<dyn BufRead>,
    needle: &str,
    limit: usize,
) -> Result<Vec<OutputMatch>> {
    let mut found = Vec::new();
    let (mut line, mut offset) = (0_u64, 0_u64);
    let mut raw = Vec::new();
    while found.len() < limit {
        raw.clear();
        if text.read_until(b'\n', &mut raw)? == 0 {
            break;
        }
        line += 1;
        let shown = String::from_utf8_lossy(&raw);
        if shown.contains(needle) {
            let text: String = shown.trim_end_matches(['\n', '\r']).chars().take(MAX_LINE_CHARS).collect();
            found.push(OutputMatch { line, offset, text });
        }
        offset += raw.iter().filter(|byte| is_char_start(**byte)).count() as u64;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::{read_slice, search_lines};
    use std::io::{BufRead, BufReader, Cursor};

    /// A reader that returns a few bytes at a time, so that characters are split across reads.
    fn reader(text: &str) -> Box<dyn BufRead> {
        Box::new(BufReader::with_capacity(3, Cursor::new(text.as_bytes().to_vec())))
    }

    #[test]
    fn slices_are_counted_in_chars_and_concatenate_to_the_whole() {
        let text = "aä€𝄞\nb".repeat(50);
        let (mut whole, mut offset) = (String::new(), 0);
        loop {
            let part = read_slice(reader(&text), offset, 7).unwrap();
            assert_eq!((part.chars, part.bytes), (text.chars().count() as u64, text.len() as u64));
            whole.push_str(&part.text);
            match part.next {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(whole, text);
        let beyond = read_slice(reader(&text), 10_000, 5).unwrap();
        assert_eq!((beyond.text.as_str(), beyond.next), ("", None));
    }

    #[test]
    fn search_returns_lines_with_their_offsets() {
        let text = "äö\nfirst needle\nnone\nlast needle";
        let found = search_lines(reader(text), "needle", 10).unwrap();
        assert_eq!(
            found.iter().map(|found| (found.line, found.offset)).collect::<Vec<_>>(),
            [(2, 3), (4, 21)]
        );
        let from = read_slice(reader(text), found[1].offset, 4).unwrap();
        assert_eq!((from.text.as_str(), found[1].text.as_str()), ("last", "last needle"));
        assert_eq!(search_lines(reader(text), "needle", 1).unwrap().len(), 1);
    }
}
