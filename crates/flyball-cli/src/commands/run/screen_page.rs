//! A page that fits on one screen; the most important parts are never omitted.

use crate::color::{TextStyle, style_stdout};
use crate::formatting::display_width;
use crate::live_screen::TerminalSize;

/// Maximum number of lines.
const MAX_LINES: usize = 40;
/// Minimum number of lines, even on a smaller terminal.
const MIN_LINES: usize = 20;
/// Number of evidence and help lines that are always shown.
const MIN_SECTION_LINES: usize = 3;

/// The sections of a run's final screen, in reading order.
#[derive(Debug, Default)]
pub(super) struct ScreenPage {
    /// The outcome and its reason.
    pub(super) head: Vec<String>,
    /// The evidence.
    pub(super) evidence: Vec<String>,
    /// The graph; omitted first.
    pub(super) graph: Vec<String>,
    /// The replacement for an omitted graph.
    pub(super) graph_fallback: Vec<String>,
    /// Suggested actions.
    pub(super) help: Vec<String>,
    /// The commands to run next.
    pub(super) next: Vec<String>,
}

impl ScreenPage {
    /// The lines that fit on a screen; `size` is `None` if stdout is not a terminal.
    pub(super) fn lines(mut self, size: Option<TerminalSize>) -> Vec<String> {
        let most = size.map_or(MAX_LINES, |size| size.rows.saturating_sub(1).clamp(MIN_LINES, MAX_LINES));
        let wide = size.map(|size| size.columns);
        if self.height(wide) > most {
            self.graph = std::mem::take(&mut self.graph_fallback);
        }
        while self.height(wide) > most && self.evidence.len() > MIN_SECTION_LINES + 1 {
            omit_last(&mut self.evidence, "… more: flyball explain");
        }
        while self.height(wide) > most && self.help.len() > MIN_SECTION_LINES + 1 {
            omit_last(&mut self.help, "…");
        }
        self.all_lines()
    }

    /// The number of rows; a line wider than the terminal takes several.
    fn height(&self, wide: Option<usize>) -> usize {
        let rows = |line: &String| {
            wide.map_or(1, |wide| display_width(&strip_ansi(line)).div_ceil(wide.max(1)).max(1))
        };
        self.all_lines().iter().map(rows).sum()
    }

    fn all_lines(&self) -> Vec<String> {
        let mut all = self.head.clone();
        let parts = [
            ("Evidence", &self.evidence),
            ("", &self.graph),
            ("Suggested actions", &self.help),
            ("Next", &self.next),
        ];
        for (title, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            if !title.is_empty() {
                all.push(style_stdout(TextStyle::Heading, title));
            }
            all.extend(part.iter().map(|line| format!("  {line}")));
        }
        all
    }
}

/// Removes the last line and says so in its place.
fn omit_last(lines: &mut Vec<String>, words: &str) {
    if lines.last().is_some_and(|last| last == words) {
        lines.pop();
    }
    lines.pop();
    lines.push(words.to_owned());
}

/// A line without colors.
fn strip_ansi(line: &str) -> String {
    crate::formatting::plain_output(line, usize::MAX)
}

#[cfg(test)]
mod tests {
    //! Tests of what is omitted when space is short.

    use super::ScreenPage;
    use crate::live_screen::TerminalSize;

    fn lines(count: usize, word: &str) -> Vec<String> {
        (0..count).map(|at| format!("{word} {at}")).collect()
    }

    fn page(evidence: usize, picture: usize) -> ScreenPage {
        ScreenPage {
            head: lines(3, "head"),
            evidence: lines(evidence, "evidence"),
            graph: lines(picture, "picture"),
            graph_fallback: lines(1, "instead"),
            help: lines(4, "help"),
            next: lines(3, "next"),
        }
    }

    #[test]
    fn page_that_fits_is_shown_completely() {
        let all = page(4, 10).lines(None);
        assert_eq!(all.len(), 3 + 1 + 4 + 10 + 1 + 4 + 1 + 3);
        assert!(all.iter().all(|line| !line.contains("instead")));
    }

    #[test]
    fn graph_is_omitted_first_and_commands_never() {
        let all = page(20, 30).lines(None);
        assert!(all.len() <= 40 && all.iter().any(|line| line == "  instead 0"), "{all:?}");
        let all = page(200, 30).lines(None);
        assert!(all.len() <= 40, "{}", all.len());
        for part in ["head 2", "  evidence 2", "  … more: flyball explain", "  help 3", "  next 2"] {
            assert!(all.iter().any(|line| line == part), "{part}: {all:?}");
        }
        let all = page(10, 10).lines(Some(TerminalSize { columns: 80, rows: 24 }));
        assert!(all.len() <= 23, "{}", all.len());
        let narrow = page(10, 0).lines(Some(TerminalSize { columns: 5, rows: 24 }));
        assert!(narrow.len() < 20, "a wrapped line takes more than one row: {}", narrow.len());
    }
}
