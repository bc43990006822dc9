//! Takes out of a tool's result what changes from run to run, so that two results are equal exactly if they say
//! the same. A stalled agent repeats itself with new times and new process ids; only without them it shows.
//!
//! One pass over the bytes. Most bytes cannot begin or end anything volatile and are copied in bulk. Each
//! recogniser looks ahead by a bounded number of bytes, so the work is linear in the text, whatever it holds.

mod bytes;
mod context;
mod measure;
mod progress;
mod stamp;
mod temporary;
mod terminal;
mod volatile;

use bytes::{BLANK, at, back, is, next_stop, skip_foreign};
use context::View;
use volatile::{Found, Mark, Token};

/// Longest rule of equal signs or dashes that is left around a duration.
const RULE: usize = 3;

/// Appends `text` to `out` without its volatile parts.
///
/// Times, durations, process ids, hashes, addresses, temporary paths, short-lived ports, progress bars and speeds
/// are each replaced by a fixed mark such as `<time>`. Terminal codes, overwritten text, white space at line ends
/// and all but one of successive blank lines are dropped. Counts, line numbers, exit codes, versions and asserted
/// values stay. Normalising twice changes nothing more.
///
/// Only `out` grows, except for text with terminal codes: that is cleaned in one buffer of its own first.
pub fn normalise_into(text: &str, out: &mut String) {
    let base = out.len();
    out.reserve(text.len());
    if Scanner::new(text, out).run().is_err() {
        out.truncate(base);
        let mut clean = String::with_capacity(text.len());
        terminal::clean_into(text, &mut clean);
        // Clean text holds no codes, so this scan reaches the end.
        let _ = Scanner::new(&clean, out).run();
    }
}

/// The text holds terminal codes.
struct Raw;

/// Returns `text` without its volatile parts; see [`normalise_into`].
///
/// `[2026-11-15T12:07:07Z] pid 4091: 0 tests ran in 0.17s (/tmp/run-d86f)` becomes
/// `[<time>] pid <id>: 0 tests ran in <took> (<tmp>)`.
pub fn normalised(text: &str) -> String {
    let mut out = String::new();
    normalise_into(text, &mut out);
    out
}

/// Returns `text` without its time stamps, and with everything else as it is: a moment, told as a date with its time of
/// day or as seconds since 1970, becomes `<time>`. A date or a time of day alone is information, and so are numbers,
/// ids, hashes, ports and white space.
pub fn without_timestamps(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut view = View { s: text.as_bytes(), floor: 0, line: 0, timed: false };
    let mut i = 0;
    while let Some(&b) = view.s.get(i) {
        let found = match b {
            b'\n' => {
                view.line = i + 1;
                None
            }
            b'0'..=b'9' => Some(volatile::word(&view, i)),
            _ => None,
        };
        i = match found {
            Some(Token::Volatile(found)) if found.mark == Mark::Time => {
                out.push_str(text.get(view.floor..found.start()).unwrap_or_default());
                out.push_str(found.mark.text());
                view.floor = found.end;
                found.end
            }
            Some(Token::Volatile(Found { end, .. }) | Token::Kept(end)) => end.max(i + 1),
            None => i + 1,
        };
    }
    out.push_str(text.get(view.floor..).unwrap_or_default());
    out
}

/// Returns Markdown without differences in white space: line ends and blank lines are trimmed, and runs of blanks are
/// one blank, except inside fenced code.
pub(crate) fn normalised_markdown(text: &str) -> String {
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

struct Scanner<'a> {
    text: &'a str,
    out: &'a mut String,
    /// Where this text starts in `out`.
    base: usize,
    /// What the recognisers see; everything before its floor is in `out` or dropped.
    view: View<'a>,
    /// Whether the line has shown a duration.
    took: bool,
    /// Whether the line before was blank.
    blank: bool,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str, out: &'a mut String) -> Self {
        let base = out.len();
        let view = View { s: text.as_bytes(), floor: 0, line: 0, timed: false };
        Scanner { text, out, base, view, took: false, blank: true }
    }

    fn run(mut self) -> Result<(), Raw> {
        let s = self.view.s;
        let mut i = next_stop(s, 0);
        while let Some(&b) = s.get(i) {
            let next = match b {
                b'\n' => {
                    self.newline(i);
                    i + 1
                }
                ..b' ' if terminal::is_code(b) => return Err(Raw),
                ..b' ' => i + 1,
                b'/' if !temporary::may_start(s, i) => i + 1,
                // 0xE2 leads every spinner and bar glyph.
                0x80.. if b != 0xE2 => skip_foreign(s, i),
                _ => match self.token(b, i) {
                    Token::Kept(next) => next,
                    Token::Volatile(found) => self.replace(&found),
                },
            };
            i = next_stop(s, next);
        }
        self.finish();
        Ok(())
    }

    fn token(&self, b: u8, i: usize) -> Token {
        let found = match b {
            b'0'..=b'9' => return volatile::word(&self.view, i),
            b'/' => temporary::unix(&self.view, i),
            b'\\' => temporary::windows(&self.view, i),
            b'[' => progress::bracketed(&self.view, i),
            _ => return progress::glyph(&self.view, i),
        };
        found.map_or(Token::Kept(i + 1), Token::Volatile)
    }

    /// Writes what stands before the volatile part, then its mark; returns where to go on.
    fn replace(&mut self, found: &Found) -> usize {
        let s = self.view.s;
        let (mut start, mut end) = (found.start(), found.end);
        if found.mark.is_padded() {
            while start > self.view.floor + 1 && back(s, start, 1) == b' ' && back(s, start, 2) == b' ' {
                start -= 1;
            }
            while at(s, end) == b' ' && at(s, end + 1) == b' ' {
                end += 1;
            }
        }
        self.copy_to(start);
        self.out.push_str(found.mark.text());
        self.view.floor = end;
        self.view.timed |= found.mark.is_time();
        self.took |= found.mark == Mark::Took;
        end
    }

    fn copy_to(&mut self, end: usize) {
        self.out.push_str(self.text.get(self.view.floor..end).unwrap_or_default());
        self.view.floor = end;
    }

    /// Ends the line at `i`. A line with nothing to trim stays in the part that is copied later.
    #[inline]
    fn newline(&mut self, i: usize) {
        let s = self.view.s;
        let last = back(s, i, 1);
        if self.view.line == i || is(last, BLANK) || self.took {
            self.trim_line(i);
        } else {
            self.blank = false;
        }
        self.view.line = i + 1;
        self.view.timed = false;
    }

    fn trim_line(&mut self, i: usize) {
        let s = self.view.s;
        let least = self.view.floor.max(self.view.line);
        let mut end = i;
        while end > least && is(back(s, end, 1), BLANK) {
            end -= 1;
        }
        let blank = end == self.view.line;
        self.copy_to(end);
        if self.took {
            self.shorten_rules();
        }
        // The newline itself is copied later, except that of a second blank line.
        self.view.floor = if blank && self.blank { i + 1 } else { i };
        self.blank = blank;
    }

    /// Shortens the rules on both sides of a line such as `=== 3 passed in 0.12s ===`: their length depends on
    /// that of the duration.
    fn shorten_rules(&mut self) {
        self.took = false;
        let sign = at(self.view.s, self.view.line);
        if !matches!(sign, b'=' | b'-' | b'_' | b'*') {
            return;
        }
        let written = self.out.as_bytes();
        let start = written.iter().rposition(|&b| b == b'\n').map_or(self.base, |p| (p + 1).max(self.base));
        let line = written.get(start..).unwrap_or_default();
        let left = line.iter().take_while(|&&b| b == sign).count();
        let right = line.iter().rev().take_while(|&&b| b == sign).count();
        self.out.truncate(self.out.len() - right.saturating_sub(RULE));
        self.out.replace_range(start..start + left.saturating_sub(RULE), "");
    }

    fn finish(mut self) {
        let s = self.view.s;
        let least = self.view.floor;
        let mut end = s.len();
        while end > least && matches!(back(s, end, 1), b' ' | b'\t' | b'\n') {
            end -= 1;
        }
        self.copy_to(end);
        if self.took {
            self.shorten_rules();
        }
        while self.out.len() > self.base && self.out.ends_with('\n') {
            self.out.pop();
        }
    }
}

#[cfg(test)]
#[path = "normalise_tests.rs"]
mod tests;
