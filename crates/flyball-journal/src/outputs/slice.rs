//! Slices and searches of a stored output, counted in characters.

use serde::Serialize;
use std::io::{BufRead, Result};

/// The longest line that a search shows, in characters.
const LINE_CHARS: usize = 300;

/// A slice of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputSlice {
    /// Where it begins, in characters.
    pub offset: u64,
    /// The slice.
    pub text: String,
    /// Where the next slice begins; `None` at the end.
    pub next: Option<u64>,
    /// The length of the whole output in characters.
    pub chars: u64,
    /// The length of the whole output in bytes.
    pub bytes: u64,
}

/// A line of an output that contains what was searched for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputMatch {
    /// The number of the line, from 1.
    pub line: u64,
    /// Where the line begins, in characters.
    pub offset: u64,
    /// The line, cut if it is long.
    pub text: String,
}

/// Whether a byte begins a character.
fn begins(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

/// The characters from `offset` on, at most `limit`.
pub(super) fn slice(mut text: Box<dyn BufRead>, offset: u64, limit: u64) -> Result<OutputSlice> {
    let end = offset.saturating_add(limit);
    let (mut chars, mut bytes) = (0_u64, 0_u64);
    let mut kept = Vec::new();
    loop {
        let chunk = text.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        for byte in chunk {
            chars += u64::from(begins(*byte));
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

/// The lines that contain a text.
pub(super) fn search(mut text: Box<dyn BufRead>, needle: &str, limit: usize) -> Result<Vec<OutputMatch>> {
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
            let text: String = shown.trim_end_matches(['\n', '\r']).chars().take(LINE_CHARS).collect();
            found.push(OutputMatch { line, offset, text });
        }
        offset += raw.iter().filter(|byte| begins(**byte)).count() as u64;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test that is how a failure is told")]

    use super::{search, slice};
    use std::io::{BufRead, BufReader, Cursor};

    /// A reader that hands out a few bytes at a time, so that characters are cut between its chunks.
    fn reader(text: &str) -> Box<dyn BufRead> {
        Box::new(BufReader::with_capacity(3, Cursor::new(text.as_bytes().to_vec())))
    }

    #[test]
    fn slices_are_counted_in_characters_and_put_together_give_the_whole() {
        let text = "aä€𝄞\nb".repeat(50);
        let (mut whole, mut offset) = (String::new(), 0);
        loop {
            let part = slice(reader(&text), offset, 7).unwrap();
            assert_eq!((part.chars, part.bytes), (text.chars().count() as u64, text.len() as u64));
            whole.push_str(&part.text);
            match part.next {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(whole, text);
        let beyond = slice(reader(&text), 10_000, 5).unwrap();
        assert_eq!((beyond.text.as_str(), beyond.next), ("", None));
    }

    #[test]
    fn a_search_gives_lines_with_the_place_to_read_on_from() {
        let text = "äö\nfirst needle\nnone\nlast needle";
        let found = search(reader(text), "needle", 10).unwrap();
        assert_eq!(
            found.iter().map(|found| (found.line, found.offset)).collect::<Vec<_>>(),
            [(2, 3), (4, 21)]
        );
        let from = slice(reader(text), found[1].offset, 4).unwrap();
        assert_eq!((from.text.as_str(), found[1].text.as_str()), ("last", "last needle"));
        assert_eq!(search(reader(text), "needle", 1).unwrap().len(), 1);
    }
}
