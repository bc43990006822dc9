//! The `read` tool: a page of a file, by lines, and inside a very long line by characters.

use super::error::ToolError;
use super::text::pieces;
use std::io::{ErrorKind, Read};

/// The most characters of one page.
pub(super) const PAGE_CHARS: usize = 100_000;
/// The most lines of one page unless one says otherwise.
pub(super) const PAGE_LINES: u64 = 2_000;
/// Beyond this many characters after the page nobody counts how many lines follow.
const COUNT_CHARS: usize = 64 * 1024 * 1024;

/// Which part of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// The first line, counted from 1.
    pub(super) offset: u64,
    /// The first character of the first line, counted from 1.
    pub(super) column: u64,
    /// How many lines.
    pub(super) limit: u64,
    /// How many characters at most.
    pub(super) room: usize,
}

/// Reads a page. The whole file comes back exactly as it is; a part has a last line in brackets that says which part
/// it is and how to read on.
pub(super) fn page(file: impl Read, shown: &str, wanted: Wanted) -> Result<String, ToolError> {
    let mut reader =
        Reader { wanted, line: 1, column: 0, text: String::new(), chars: 0, cut: None, counted: 0 };
    let read = pieces(file, |piece| piece.split_inclusive('\n').all(|part| reader.part(part)));
    read.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => {
            let what = format!("'{shown}' is no text");
            ToolError::new(
                "not_text",
                what,
                "look at it with a program through the shell, for example file or xxd",
            )
        }
        _ => ToolError::io(shown, &error),
    })?;
    reader.finish(shown)
}

struct Reader {
    wanted: Wanted,
    /// The line we are in, from 1.
    line: u64,
    /// Characters of it that were passed.
    column: u64,
    text: String,
    chars: usize,
    /// The line and column at which the room was used up.
    cut: Option<(u64, u64)>,
    /// Characters passed after the page.
    counted: usize,
}

impl Reader {
    /// Takes a part of a line, with or without its end; `false` if nothing after it matters.
    fn part(&mut self, part: &str) -> bool {
        let first = self.wanted.offset;
        let wanted = self.line >= first && self.line - first < self.wanted.limit && self.cut.is_none();
        let length = part.chars().count() as u64;
        if wanted {
            let skip =
                if self.line == first { (self.wanted.column - 1).saturating_sub(self.column) } else { 0 };
            self.take(part, skip.min(length));
        } else if self.line >= first {
            self.counted = self.counted.saturating_add(part.len());
        }
        self.column += length;
        if part.ends_with('\n') {
            self.line += 1;
            self.column = 0;
        }
        self.counted <= COUNT_CHARS
    }

    fn take(&mut self, part: &str, skip: u64) {
        let room = self.wanted.room.saturating_sub(self.chars);
        let rest = after(part, skip);
        let length = rest.chars().count();
        if length <= room {
            self.text.push_str(rest);
            self.chars += length;
            return;
        }
        let kept = rest.len() - after(rest, room as u64).len();
        self.text.push_str(rest.get(..kept).unwrap_or_default());
        self.chars = self.wanted.room;
        self.cut = Some((self.line, self.column + skip + room as u64 + 1));
    }

    fn finish(mut self, shown: &str) -> Result<String, ToolError> {
        // A file that ends with a line end has no further line.
        let lines = if self.column == 0 { self.line - 1 } else { self.line };
        let Wanted { offset, column, limit, .. } = self.wanted;
        if lines == 0 {
            return Ok("[the file is empty]".to_owned());
        }
        if offset > lines {
            let what = format!("'{shown}' has {lines} lines, there is no line {offset}");
            return Err(ToolError::new("past_end", what, format!("use an offset from 1 to {lines}")));
        }
        let of = if self.counted > COUNT_CHARS { "more than ".to_owned() } else { String::new() };
        let last = offset.saturating_add(limit - 1).min(lines);
        let note = match self.cut {
            Some((line, column)) => {
                format!(
                    "[lines {offset}-{line} of {of}{lines}, line {line} up to character {}; read on with offset {line} \
                     and column {column}]",
                    column - 1
                )
            }
            None if last < lines => {
                format!("[lines {offset}-{last} of {of}{lines}; read on with offset {}]", last + 1)
            }
            None if offset == 1 && column == 1 => return Ok(self.text),
            None => format!("[lines {offset}-{last} of {lines}; this is the end]"),
        };
        if !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        Ok(self.text + &note)
    }
}

/// The text after this many characters.
fn after(text: &str, chars: u64) -> &str {
    let chars = usize::try_from(chars).unwrap_or(usize::MAX);
    text.char_indices().nth(chars).map_or("", |(at, _)| text.get(at..).unwrap_or_default())
}
