//! The last lines of what a program or a model prints, however much it is.

use std::collections::VecDeque;

/// How many whole lines are kept.
const LINES: usize = 8;
/// How much of a line without an end is kept, in bytes.
const LONGEST: usize = 4_000;

/// The last lines.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<String>,
    /// The line that is not over yet.
    open: String,
}

impl Tail {
    /// Takes a piece of output; it may begin and end anywhere.
    pub(super) fn take(&mut self, text: &str) {
        let mut parts = text.split('\n');
        self.open.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let whole = std::mem::replace(&mut self.open, part.to_owned());
            if whole.trim().is_empty() {
                continue;
            }
            if self.lines.len() == LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(whole);
        }
        for line in self.lines.back_mut().into_iter().chain([&mut self.open]) {
            shorten(line);
        }
    }

    /// What comes next is something else, and begins on a line of its own.
    pub(super) fn pause(&mut self) {
        if !self.open.is_empty() {
            self.take("\n");
        }
    }

    /// The last lines, at most so many, the newest last.
    pub(super) fn last(&self, most: usize) -> Vec<&str> {
        let open = Some(self.open.as_str()).filter(|open| !open.trim().is_empty());
        let all: Vec<&str> = self.lines.iter().map(String::as_str).chain(open).collect();
        all.into_iter().rev().take(most).rev().collect()
    }
}

/// Keeps the end of a line.
fn shorten(line: &mut String) {
    if line.len() > LONGEST {
        let from = (line.len() - LONGEST / 2..line.len()).find(|at| line.is_char_boundary(*at));
        *line = line.get(from.unwrap_or_default()..).unwrap_or_default().to_owned();
    }
}

#[cfg(test)]
mod tests {
    //! Output in pieces of any size.

    use super::{LONGEST, Tail};

    #[test]
    fn pieces_become_lines_and_old_ones_are_forgotten() {
        let mut tail = Tail::default();
        for piece in ["run", "ning 3 te", "sts\n\ntest a ... ok\ntes", "t b"] {
            tail.take(piece);
        }
        assert_eq!(tail.last(5), ["running 3 tests", "test a ... ok", "test b"]);
        assert_eq!(tail.last(1), ["test b"]);
        tail.pause();
        tail.take("next");
        assert_eq!(tail.last(2), ["test b", "next"]);
        (0..100).for_each(|at| tail.take(&format!("\nline {at}")));
        assert_eq!(tail.last(2), ["line 98", "line 99"]);
        assert!(tail.last(1000).len() <= 9);
    }

    #[test]
    fn a_line_without_end_does_not_grow_without_end() {
        let mut tail = Tail::default();
        (0..1_000).for_each(|_| tail.take(&"ö".repeat(100)));
        tail.take("end");
        let last = tail.last(1);
        assert!(last.iter().all(|line| line.len() <= LONGEST + 200 && line.ends_with("öend")), "{last:?}");
    }
}
