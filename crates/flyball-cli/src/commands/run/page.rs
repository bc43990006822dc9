//! A page that fits on one screen: what matters most is never what is left out.

use crate::paint::{Style, paint_out};
use crate::screen::Size;
use crate::words::columns;

/// The most lines of the last screen.
const MOST: usize = 40;
/// Fewer lines than this make no sense, however small the terminal is.
const FEWEST: usize = 20;
/// How much of the evidence and the advice is shown in any case.
const KEPT: usize = 3;

/// The parts of the last screen of a run, in the order in which they are read.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// What happened, and why.
    pub(super) head: Vec<String>,
    /// What it rests on.
    pub(super) evidence: Vec<String>,
    /// The graph; the first thing to be left out.
    pub(super) picture: Vec<String>,
    /// What stands for the graph if it is left out.
    pub(super) instead: Vec<String>,
    /// What a person could do about it.
    pub(super) helps: Vec<String>,
    /// The commands that continue.
    pub(super) next: Vec<String>,
}

impl Page {
    /// The lines, no more than fit on a screen; `size` is the terminal's, if it is one.
    pub(super) fn lines(mut self, size: Option<Size>) -> Vec<String> {
        let most = size.map_or(MOST, |size| size.rows.saturating_sub(1).clamp(FEWEST, MOST));
        let wide = size.map(|size| size.columns);
        if self.height(wide) > most {
            self.picture = std::mem::take(&mut self.instead);
        }
        while self.height(wide) > most && self.evidence.len() > KEPT + 1 {
            leave_out(&mut self.evidence, "… more: flyball explain");
        }
        while self.height(wide) > most && self.helps.len() > KEPT + 1 {
            leave_out(&mut self.helps, "…");
        }
        self.all()
    }

    /// How many rows it takes; a line that is wider than the terminal takes several.
    fn height(&self, wide: Option<usize>) -> usize {
        let rows = |line: &String| wide.map_or(1, |wide| columns(&bare(line)).div_ceil(wide.max(1)).max(1));
        self.all().iter().map(rows).sum()
    }

    fn all(&self) -> Vec<String> {
        let mut all = self.head.clone();
        let parts = [
            ("Evidence", &self.evidence),
            ("", &self.picture),
            ("What helps", &self.helps),
            ("Next", &self.next),
        ];
        for (title, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            if !title.is_empty() {
                all.push(paint_out(Style::Strong, title));
            }
            all.extend(part.iter().map(|line| format!("  {line}")));
        }
        all
    }
}

/// Takes the last line away; what was left out is said in its place.
fn leave_out(lines: &mut Vec<String>, words: &str) {
    if lines.last().is_some_and(|last| last == words) {
        lines.pop();
    }
    lines.pop();
    lines.push(words.to_owned());
}

/// A line without its colours.
fn bare(line: &str) -> String {
    crate::words::printed(line, usize::MAX)
}

#[cfg(test)]
mod tests {
    //! What is left out when there is no room.

    use super::Page;
    use crate::screen::Size;

    fn lines(count: usize, word: &str) -> Vec<String> {
        (0..count).map(|at| format!("{word} {at}")).collect()
    }

    fn page(evidence: usize, picture: usize) -> Page {
        Page {
            head: lines(3, "head"),
            evidence: lines(evidence, "evidence"),
            picture: lines(picture, "picture"),
            instead: lines(1, "instead"),
            helps: lines(4, "help"),
            next: lines(3, "next"),
        }
    }

    #[test]
    fn everything_is_shown_if_there_is_room() {
        let all = page(4, 10).lines(None);
        assert_eq!(all.len(), 3 + 1 + 4 + 10 + 1 + 4 + 1 + 3);
        assert!(all.iter().all(|line| !line.contains("instead")));
    }

    #[test]
    fn the_picture_goes_first_and_the_commands_never() {
        let all = page(20, 30).lines(None);
        assert!(all.len() <= 40 && all.iter().any(|line| line == "  instead 0"), "{all:?}");
        let all = page(200, 30).lines(None);
        assert!(all.len() <= 40, "{}", all.len());
        for part in ["head 2", "  evidence 2", "  … more: flyball explain", "  help 3", "  next 2"] {
            assert!(all.iter().any(|line| line == part), "{part}: {all:?}");
        }
        let all = page(10, 10).lines(Some(Size { columns: 80, rows: 24 }));
        assert!(all.len() <= 23, "{}", all.len());
        let narrow = page(10, 0).lines(Some(Size { columns: 5, rows: 24 }));
        assert!(narrow.len() < 20, "a line that is broken takes more than one row: {}", narrow.len());
    }
}
