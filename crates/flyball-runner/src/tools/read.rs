//! The `read` tool: a page of a file by lines, and by characters within very long lines.

use super::text_reader::read_chunks;
use super::tool_error::ToolError;
use std::io::{ErrorKind, Read};

/// Maximum characters of a page.
pub(super) const MAX_PAGE_CHARS: usize = 100_000;
/// Default number of lines of a page.
pub(super) const DEFAULT_PAGE_LINES: u64 = 2_000;
/// Characters after the page up to which the remaining lines are counted.
const MAX_COUNTED_CHARS: usize = 64 * 1024 * 1024;

/// The requested part of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageRequest {
    /// First line, starting at 1.
    pub(super) offset: u64,
    /// First character of the first line, starting at 1.
    pub(super) column: u64,
    /// Number of lines.
    pub(super) limit: u64,
    /// Maximum number of characters.
    pub(super) max_chars: usize,
}

/// Reads a page. A complete file is returned unchanged; a part ends with a line in brackets that describes the part and
/// how to continue.
pub(super) fn read_page(file: impl Read, shown: &str, wanted: PageRequest) -> Result<String, ToolError> {
    let mut reader = PageReader {
        request: wanted,
        line: 1,
        column: 0,
        text: String::new(),
        chars: 0,
        cut_at: None,
        counted_chars: 0,
    };
    let read = read_chunks(file, |piece| piece.split_inclusive('\n').all(|part| reader.push(part)));
    read.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => {
            let what = format!("'{shown}' is not text");
            ToolError::new("not_text", what, "inspect it with a program in the shell, such as file or xxd")
        }
        _ => ToolError::io(shown, &error),
    })?;
    reader.finish(shown)
}

struct PageReader {
    request: PageRequest,
    /// Current line, starting at 1.
    line: u64,
    /// Characters of the current line consumed so far.
    column: u64,
    text: String,
    chars: usize,
    /// Line and column at which the page was full.
    cut_at: Option<(u64, u64)>,
    /// Characters consumed after the page.
    counted_chars: usize,
}

impl PageReader {
    /// Consumes a part of a line, with or without its end; `false` if the rest is irrelevant.
    fn push(&mut self, part: &str) -> bool {
        let first = self.request.offset;
        let wanted = self.line >= first && self.line - first < self.request.limit && self.cut_at.is_none();
        let length = part.chars().count() as u64;
        if wanted {
            let skip =
                if self.line == first { (self.request.column - 1).saturating_sub(self.column) } else { 0 };
            self.take(part, skip.min(length));
        } else if self.line >= first {
            self.counted_chars = self.counted_chars.saturating_add(part.len());
        }
        self.column += length;
        if part.ends_with('\n') {
            self.line += 1;
            self.column = 0;
        }
        self.counted_chars <= MAX_COUNTED_CHARS
    }

    fn take(&mut self, part: &str, skip: u64) {
        let free = self.request.max_chars.saturating_sub(self.chars);
        let rest = skip_chars(part, skip);
        let length = rest.chars().count();
        if length <= free {
            self.text.push_str(rest);
            self.chars += length;
            return;
        }
        let kept = rest.len() - skip_chars(rest, free as u64).len();
        self.text.push_str(rest.get(..kept).unwrap_or_default());
        self.chars = self.request.max_chars;
        self.cut_at = Some((self.line, self.column + skip + free as u64 + 1));
    }

    fn finish(mut self, shown: &str) -> Result<String, ToolError> {
        // A trailing newline does not start another line.
        let lines = if self.column == 0 { self.line - 1 } else { self.line };
        let PageRequest { offset, column, limit, .. } = self.request;
        if lines == 0 {
            return Ok("[the file is empty]".to_owned());
        }
        if offset > lines {
            let what = format!("'{shown}' has only {lines} lines; line {offset} does not exist");
            return Err(ToolError::new("past_end", what, format!("use an offset from 1 to {lines}")));
        }
        let of = if self.counted_chars > MAX_COUNTED_CHARS { "more than ".to_owned() } else { String::new() };
        let last = offset.saturating_add(limit - 1).min(lines);
        let note = match self.cut_at {
            Some((line, column)) => {
                format!(
                    "[lines {offset}-{line} of {of}{lines}, line {line} up to character {}; continue with \
                     offset {line} and column {column}]",
                    column - 1
                )
            }
            None if last < lines => {
                format!("[lines {offset}-{last} of {of}{lines}; continue with offset {}]", last + 1)
            }
            None if offset == 1 && column == 1 => return Ok(self.text),
            None => format!("[lines {offset}-{last} of {lines}; end of file]"),
        };
        if !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        Ok(self.text + &note)
    }
}

/// The text after a number of characters.
fn skip_chars(text: &str, chars: u64) -> &str {
    let chars = usize::try_from(chars).unwrap_or(usize::MAX);
    text.char_indices().nth(chars).map_or("", |(at, _)| text.get(at..).unwrap_or_default())
}
