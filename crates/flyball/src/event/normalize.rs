//! Removes the volatile parts of a tool's result, so that two results are equal exactly if they mean the same. A
//! stalled agent repeats itself with new times and process ids, which would otherwise hide the repetition.
//!
//! This takes one pass over the bytes. Most bytes cannot start or end anything volatile and are copied in bulk. Each
//! matcher looks ahead by a bounded number of bytes, so the work is linear in the length of the text.

mod bytes;
mod context;
mod measure;
mod progress;
mod temp_path;
mod terminal;
mod timestamp;
mod volatile;

use bytes::{BLANK, byte_at, byte_before, has_class, next_stop, skip_non_ascii};
use context::ScanContext;
use volatile::{Placeholder, ScanToken, VolatileSpan};

/// Longest rule of equal signs or dashes that is kept around a duration.
const MAX_RULE_CHARS: usize = 3;

/// Appends `text` to `out` without its volatile parts.
///
/// Times, durations, process ids, hashes, addresses, temporary paths, ephemeral ports, progress bars and speeds are
/// each replaced by a fixed placeholder such as `<time>`. Terminal codes, overwritten text, trailing white space and
/// repeated blank lines are dropped. Counts, line numbers, exit codes, versions and asserted values are kept.
/// Normalization is idempotent.
///
/// Only `out` is allocated, except that text with terminal codes is first cleaned in a separate buffer.
pub fn normalize_into(text: &str, out: &mut String) {
    let base = out.len();
    out.reserve(text.len());
    if VolatileScanner::new(text, out).run().is_err() {
        out.truncate(base);
        let mut clean = String::with_capacity(text.len());
        terminal::strip_terminal_codes_into(text, &mut clean);
        // Clean text contains no terminal codes, so this scan reaches the end.
        let _ = VolatileScanner::new(&clean, out).run();
    }
}

/// The text contains terminal codes.
struct HasTerminalCodes;

/// Returns `text` without its volatile parts; see [`normalize_into`].
///
/// `[2026-11-15T12:07:07Z] pid 4091: 0 tests ran in 0.17s (/tmp/run-d86f)` becomes
/// `[<time>] pid <id>: 0 tests ran in <took> (<tmp>)`.
pub fn normalize(text: &str) -> String {
    let mut out = String::new();
    normalize_into(text, &mut out);
    out
}

/// Returns `text` with its timestamps replaced by `<time>` and everything else unchanged. A timestamp is a date with a
/// time of day, or seconds since 1970. A date or a time of day alone is information, and so are numbers, ids, hashes,
/// ports and white space.
pub fn strip_timestamps(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut view = ScanContext { bytes: text.as_bytes(), floor: 0, line_start: 0, saw_time: false };
    let mut i = 0;
    while let Some(&b) = view.bytes.get(i) {
        let found = match b {
            b'\n' => {
                view.line_start = i + 1;
                None
            }
            b'0'..=b'9' => Some(volatile::classify_digit_word(&view, i)),
            _ => None,
        };
        i = match found {
            Some(ScanToken::Volatile(found)) if found.placeholder == Placeholder::Time => {
                out.push_str(text.get(view.floor..found.start()).unwrap_or_default());
                out.push_str(found.placeholder.as_str());
                view.floor = found.end;
                found.end
            }
            Some(ScanToken::Volatile(VolatileSpan { end, .. }) | ScanToken::Kept(end)) => end.max(i + 1),
            None => i + 1,
        };
    }
    out.push_str(text.get(view.floor..).unwrap_or_default());
    out
}

/// Returns Markdown without differences in white space: line ends and blank lines are trimmed, and runs of spaces are
/// collapsed, except inside fenced code.
pub(crate) fn normalize_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        let inside = fence.is_some();
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        if inside || mark.is_some() {
            out.push_str(line.trim_end());
        } else if line.trim().is_empty() {
            if out.is_empty() || out.ends_with("\n\n") {
                continue;
            }
        } else {
            let indented = line.starts_with([' ', '\t']);
            out.push_str(if indented { " " } else { "" });
            out.push_str(&line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

struct VolatileScanner<'a> {
    text: &'a str,
    out: &'a mut String,
    /// Start of this text in `out`.
    base: usize,
    /// The matchers' view of the text; everything before its floor is already in `out` or dropped.
    view: ScanContext<'a>,
    /// Whether the current line has contained a duration.
    saw_duration: bool,
    /// Whether the previous line was blank.
    previous_blank: bool,
}

impl<'a> VolatileScanner<'a> {
    fn new(text: &'a str, out: &'a mut String) -> Self {
        let base = out.len();
        let view = ScanContext { bytes: text.as_bytes(), floor: 0, line_start: 0, saw_time: false };
        VolatileScanner { text, out, base, view, saw_duration: false, previous_blank: true }
    }

    fn run(mut self) -> Result<(), HasTerminalCodes> {
        let s = self.view.bytes;
        let mut i = next_stop(s, 0);
        while let Some(&b) = s.get(i) {
            let next = match b {
                b'\n' => {
                    self.newline(i);
                    i + 1
                }
                ..b' ' if terminal::is_terminal_code(b) => return Err(HasTerminalCodes),
                ..b' ' => i + 1,
                b'/' if !temp_path::may_start(s, i) => i + 1,
                // 0xE2 is the first byte of every spinner and bar glyph.
                0x80.. if b != 0xE2 => skip_non_ascii(s, i),
                _ => match self.token(b, i) {
                    ScanToken::Kept(next) => next,
                    ScanToken::Volatile(found) => self.replace(&found),
                },
            };
            i = next_stop(s, next);
        }
        self.finish();
        Ok(())
    }

    fn token(&self, b: u8, i: usize) -> ScanToken {
        let found = match b {
            b'0'..=b'9' => return volatile::classify_digit_word(&self.view, i),
            b'/' => temp_path::find_unix_temp_path(&self.view, i),
            b'\\' => temp_path::find_windows_temp_path(&self.view, i),
            b'[' => progress::find_bracketed_bar(&self.view, i),
            _ => return progress::classify_glyph(&self.view, i),
        };
        found.map_or(ScanToken::Kept(i + 1), ScanToken::Volatile)
    }

    /// Copies the text before the volatile part, then its placeholder; returns where to continue.
    fn replace(&mut self, found: &VolatileSpan) -> usize {
        let s = self.view.bytes;
        let (mut start, mut end) = (found.start(), found.end);
        if found.placeholder.is_padded() {
            while start > self.view.floor + 1
                && byte_before(s, start, 1) == b' '
                && byte_before(s, start, 2) == b' '
            {
                start -= 1;
            }
            while byte_at(s, end) == b' ' && byte_at(s, end + 1) == b' ' {
                end += 1;
            }
        }
        self.copy_to(start);
        self.out.push_str(found.placeholder.as_str());
        self.view.floor = end;
        self.view.saw_time |= found.placeholder.is_time();
        self.saw_duration |= found.placeholder == Placeholder::Duration;
        end
    }

    fn copy_to(&mut self, end: usize) {
        self.out.push_str(self.text.get(self.view.floor..end).unwrap_or_default());
        self.view.floor = end;
    }

    /// Ends the line at `i`. A line with nothing to trim is copied later with the rest.
    #[inline]
    fn newline(&mut self, i: usize) {
        let s = self.view.bytes;
        let last = byte_before(s, i, 1);
        if self.view.line_start == i || has_class(last, BLANK) || self.saw_duration {
            self.trim_line(i);
        } else {
            self.previous_blank = false;
        }
        self.view.line_start = i + 1;
        self.view.saw_time = false;
    }

    fn trim_line(&mut self, i: usize) {
        let s = self.view.bytes;
        let least = self.view.floor.max(self.view.line_start);
        let mut end = i;
        while end > least && has_class(byte_before(s, end, 1), BLANK) {
            end -= 1;
        }
        let blank = end == self.view.line_start;
        self.copy_to(end);
        if self.saw_duration {
            self.shorten_rules();
        }
        // The newline itself is copied later, except after a repeated blank line.
        self.view.floor = if blank && self.previous_blank { i + 1 } else { i };
        self.previous_blank = blank;
    }

    /// Shortens the rules on both sides of a line such as `=== 3 passed in 0.12s ===`, because their length depends on
    /// the width of the duration.
    fn shorten_rules(&mut self) {
        self.saw_duration = false;
        let sign = byte_at(self.view.bytes, self.view.line_start);
        if !matches!(sign, b'=' | b'-' | b'_' | b'*') {
            return;
        }
        let written = self.out.as_bytes();
        let start = written.iter().rposition(|&b| b == b'\n').map_or(self.base, |p| (p + 1).max(self.base));
        let line = written.get(start..).unwrap_or_default();
        let left = line.iter().take_while(|&&b| b == sign).count();
        let right = line.iter().rev().take_while(|&&b| b == sign).count();
        self.out.truncate(self.out.len() - right.saturating_sub(MAX_RULE_CHARS));
        self.out.replace_range(start..start + left.saturating_sub(MAX_RULE_CHARS), "");
    }

    fn finish(mut self) {
        let s = self.view.bytes;
        let least = self.view.floor;
        let mut end = s.len();
        while end > least && matches!(byte_before(s, end, 1), b' ' | b'\t' | b'\n') {
            end -= 1;
        }
        self.copy_to(end);
        if self.saw_duration {
            self.shorten_rules();
        }
        while self.out.len() > self.base && self.out.ends_with('\n') {
            self.out.pop();
        }
    }
}

#[cfg(test)]
#[path = "normalize_tests.rs"]
mod tests;
