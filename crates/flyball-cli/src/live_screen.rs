//! Live lines at the bottom of a terminal, redrawn in place while finished lines scroll away above them.
//!
//! No terminal modes are changed (no alternate screen, no hidden cursor), so nothing has to be restored if the process
//! is killed. Every update is one write inside a synchronized update, which avoids flicker.

use crate::color::{TextStyle, style_stdout};
use crate::formatting::{display_width, truncate_to_width};
use std::io::{IsTerminal, Result, Write};

/// Start and end of a synchronized update; terminals without support ignore them.
const SYNC_BEGIN: &str = "\x1b[?2026h";
const SYNC_END: &str = "\x1b[?2026l";
/// Clears to the end of the line, and to the end of the screen.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_SCREEN: &str = "\x1b[J";

/// Size of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl TerminalSize {
    /// The current size of the terminal at stdout; 80 by 24 if unknown.
    pub(crate) fn current() -> Self {
        let reported = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let reported = reported.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        reported.map_or(TerminalSize { columns: 80, rows: 24 }, |size| TerminalSize {
            columns: usize::from(size.ws_col),
            rows: usize::from(size.ws_row),
        })
    }
}

/// Whether stdout is a terminal that can redraw lines.
pub(crate) fn is_interactive() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// One line in pieces, each with an optional style.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StyledLine(Vec<(Option<TextStyle>, String)>);

impl StyledLine {
    /// Appends plain text.
    pub(crate) fn push(mut self, text: impl Into<String>) -> Self {
        self.0.push((None, sanitize(text)));
        self
    }

    /// Appends styled text.
    pub(crate) fn push_styled(mut self, style: TextStyle, text: impl Into<String>) -> Self {
        self.0.push((Some(style), sanitize(text)));
        self
    }

    /// Appends another line.
    pub(crate) fn append(mut self, other: StyledLine) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Width in columns.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| display_width(text)).sum()
    }

    /// The text without styles.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// The line cut to a width, with colors if enabled, and the width it uses.
    fn render(&self, wide: usize) -> (String, usize) {
        let (mut line, mut used) = (String::new(), 0);
        for (style, text) in &self.0 {
            let text = truncate_to_width(text, wide.saturating_sub(used));
            used += display_width(&text);
            line.push_str(&style.map_or_else(|| text.clone(), |style| style_stdout(style, &text)));
        }
        (line, used)
    }
}

/// Text without characters that could move the cursor or hide text.
fn sanitize(text: impl Into<String>) -> String {
    let text: String = text.into();
    flyball::escape_deceptive(&text).into_owned()
}

/// A block of lines that is redrawn in place.
#[derive(Debug, Default)]
pub(crate) struct LiveScreen {
    /// Widths of the drawn lines, needed to find the top again.
    drawn_widths: Vec<usize>,
}

impl LiveScreen {
    /// Prints finished lines and redraws the block below them, cut to the terminal's size.
    pub(crate) fn draw(
        &mut self,
        out: &mut impl Write,
        size: TerminalSize,
        above: &[String],
        block: &[StyledLine],
    ) -> Result<()> {
        let mut text = SYNC_BEGIN.to_owned();
        self.move_to_top(&mut text, size);
        for line in above {
            text.push_str(line);
            text.push_str(CLEAR_LINE);
            text.push('\n');
        }
        self.drawn_widths.clear();
        for (at, row) in block.iter().take(size.rows.saturating_sub(1)).enumerate() {
            // Keep the last column free: terminals disagree about the cursor's position after writing there.
            let (line, used) = row.render(size.columns.saturating_sub(1));
            if at > 0 {
                text.push('\n');
            }
            text.push_str(&line);
            text.push_str(CLEAR_LINE);
            self.drawn_widths.push(used);
        }
        text.push_str(CLEAR_SCREEN);
        text.push_str(SYNC_END);
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Removes the block and returns the cursor to its start.
    pub(crate) fn clear(&mut self, out: &mut impl Write, size: TerminalSize) -> Result<()> {
        if self.drawn_widths.is_empty() {
            return Ok(());
        }
        self.draw(out, size, &[], &[])
    }

    /// Leaves the block in place and moves to the line below it.
    pub(crate) fn finish(&mut self, out: &mut impl Write) -> Result<()> {
        if !self.drawn_widths.is_empty() {
            self.drawn_widths.clear();
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// Moves to the first line of the block. Lines wrap if the terminal has become narrower, so they take more rows.
    fn move_to_top(&self, text: &mut String, size: TerminalSize) {
        let wide = size.columns.max(1);
        let rows: usize = self.drawn_widths.iter().map(|used| used.div_ceil(wide).max(1)).sum();
        text.push('\r');
        if rows > 1 {
            text.push_str(&format!("\x1b[{}A", rows - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Checks the bytes written to the terminal.

    use super::{LiveScreen, StyledLine, TerminalSize};

    fn drawn(screen: &mut LiveScreen, columns: usize, above: &[&str], block: &[&str]) -> String {
        let mut out = Vec::new();
        let above: Vec<String> = above.iter().map(|line| (*line).to_owned()).collect();
        let block: Vec<StyledLine> = block.iter().map(|line| StyledLine::default().push(*line)).collect();
        screen
            .draw(&mut out, TerminalSize { columns, rows: 4 }, &above, &block)
            .expect("writing to a buffer cannot fail");
        let text = String::from_utf8(out).expect("UTF-8");
        let inner = text.strip_prefix("\x1b[?2026h").and_then(|text| text.strip_suffix("\x1b[?2026l"));
        inner.expect("a complete synchronized update").to_owned()
    }

    #[test]
    fn block_is_redrawn_in_place() {
        let mut screen = LiveScreen::default();
        assert_eq!(drawn(&mut screen, 20, &[], &["one", "two"]), "\rone\x1b[K\ntwo\x1b[K\x1b[J");
        assert_eq!(drawn(&mut screen, 20, &["done"], &["three"]), "\r\x1b[1Adone\x1b[K\nthree\x1b[K\x1b[J");
        assert_eq!(drawn(&mut screen, 20, &[], &[]), "\r\x1b[J");
    }

    #[test]
    fn lines_and_block_are_clipped_to_the_terminal() {
        let mut screen = LiveScreen::default();
        let text = drawn(&mut screen, 5, &[], &["abcdefgh", "2", "3", "4", "5"]);
        assert_eq!(text, "\rabc…\x1b[K\n2\x1b[K\n3\x1b[K\x1b[J");
    }

    #[test]
    fn redraw_accounts_for_wrapped_lines() {
        let mut screen = LiveScreen::default();
        drawn(&mut screen, 20, &[], &["abcdefghij", "x"]);
        // Ten columns take three rows on a terminal four columns wide; the second line makes it four.
        assert!(drawn(&mut screen, 4, &[], &["x"]).starts_with("\r\x1b[3A"));
    }
}
