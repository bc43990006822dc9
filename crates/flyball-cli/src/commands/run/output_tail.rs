//! The last lines of a program's or model's output, in bounded memory.

use std::collections::VecDeque;

/// Number of complete lines kept.
const MAX_LINES: usize = 8;
/// Number of bytes kept of an incomplete line.
const MAX_LINE_BYTES: usize = 4_000;

/// The last lines of output.
#[derive(Debug, Default)]
pub(super) struct OutputTail {
    lines: VecDeque<String>,
    /// The incomplete last line.
    partial: String,
}

impl OutputTail {
    /// Adds a chunk of output; it may start and end anywhere.
    pub(super) fn push(&mut self, text: &str) {
        let mut parts = text.split('\n');
        self.partial.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let whole = std::mem::replace(&mut self.partial, part.to_owned());
            if whole.trim().is_empty() {
                continue;
            }
            if self.lines.len() == MAX_LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(whole);
        }
        for line in self.lines.back_mut().into_iter().chain([&mut self.partial]) {
            keep_end(line);
        }
    }

    /// Ends the current line, because other output follows.
    pub(super) fn end_line(&mut self) {
        if !self.partial.is_empty() {
            self.push("\n");
        }
    }

    /// The last lines up to a maximum, oldest first.
    pub(super) fn last(&self, most: usize) -> Vec<&str> {
        let open = Some(self.partial.as_str()).filter(|open| !open.trim().is_empty());
        let all: Vec<&str> = self.lines.iter().map(String::as_str).chain(open).collect();
        all.into_iter().rev().take(most).rev().collect()
    }
}

/// Keeps only the end of a line.
fn keep_end(line: &mut String) {
    if line.len() > MAX_LINE_BYTES {
        let from = (line.len() - MAX_LINE_BYTES / 2..line.len()).find(|at| line.is_char_boundary(*at));
        *line = line.get(from.unwrap_or_default()..).unwrap_or_default().to_owned();
    }
}

#[cfg(test)]
mod tests {
    //! Tests output in chunks of any size.

    use super::{MAX_LINE_BYTES, OutputTail};

    #[test]
    fn chunks_become_lines_and_old_lines_are_dropped() {
        let mut tail = OutputTail::default();
        for piece in ["run", "ning 3 te", "sts\n\ntest a ... ok\ntes", "t b"] {
            tail.push(piece);
        }
        assert_eq!(tail.last(5), ["running 3 tests", "test a ... ok", "test b"]);
        assert_eq!(tail.last(1), ["test b"]);
        tail.end_line();
        tail.push("next");
        assert_eq!(tail.last(2), ["test b", "next"]);
        (0..100).for_each(|at| tail.push(&format!("\nline {at}")));
        assert_eq!(tail.last(2), ["line 98", "line 99"]);
        assert!(tail.last(1000).len() <= 9);
    }

    #[test]
    fn unterminated_line_is_bounded() {
        let mut tail = OutputTail::default();
        (0..1_000).for_each(|_| tail.push(&"ö".repeat(100)));
        tail.push("end");
        let last = tail.last(1);
        assert!(
            last.iter().all(|line| line.len() <= MAX_LINE_BYTES + 200 && line.ends_with("öend")),
            "{last:?}"
        );
    }
}
