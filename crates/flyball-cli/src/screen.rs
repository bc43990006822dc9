//! A few lines at the bottom of a terminal that are drawn again in place, while finished lines scroll away above them.
//!
//! Nothing of the terminal is switched over (no other screen, no hidden cursor), so there is nothing to put back when
//! the process is ended from outside. Every change is one write between the marks of a synchronised update: no flicker.

use crate::paint::{Style, paint_out};
use crate::words::{columns, fitted};
use std::io::{IsTerminal, Result, Write};

/// Marks of a synchronised update; a terminal that does not know them ignores them.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
/// Clears to the end of the line, and to the end of the screen.
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

/// How large the terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    /// The terminal at stdout as it is now; 80 by 24 if it does not say.
    pub(crate) fn now() -> Self {
        let told = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let told = told.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        told.map_or(Size { columns: 80, rows: 24 }, |size| Size {
            columns: usize::from(size.ws_col),
            rows: usize::from(size.ws_row),
        })
    }
}

/// Whether lines can be drawn in place.
pub(crate) fn is_live() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// One line in pieces, each with its meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row(Vec<(Option<Style>, String)>);

impl Row {
    /// The line with a plain piece more.
    pub(crate) fn and(mut self, text: impl Into<String>) -> Self {
        self.0.push((None, shown(text)));
        self
    }

    /// The line with a piece more that means something.
    pub(crate) fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((Some(style), shown(text)));
        self
    }

    /// The line with another one behind it.
    pub(crate) fn join(mut self, other: Row) -> Self {
        self.0.extend(other.0);
        self
    }

    /// How many columns it takes.
    pub(crate) fn columns(&self) -> usize {
        self.0.iter().map(|(_, text)| columns(text)).sum()
    }

    /// The bare text.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// The line for a terminal that is so wide, with its colours if they are wanted.
    fn painted(&self, wide: usize) -> (String, usize) {
        let (mut line, mut used) = (String::new(), 0);
        for (style, text) in &self.0 {
            let text = fitted(text, wide.saturating_sub(used));
            used += columns(&text);
            line.push_str(&style.map_or_else(|| text.clone(), |style| paint_out(style, &text)));
        }
        (line, used)
    }
}

/// A piece of a line without characters that could move the cursor or hide text.
fn shown(text: impl Into<String>) -> String {
    let text: String = text.into();
    flyball::visible(&text).into_owned()
}

/// The lines that are drawn in place.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    /// How wide each drawn line is, so that they are found again.
    drawn: Vec<usize>,
}

impl Screen {
    /// Lets finished lines scroll away and draws the block below them anew, as much of it as the terminal has room for.
    pub(crate) fn draw(
        &mut self,
        out: &mut impl Write,
        size: Size,
        above: &[String],
        block: &[Row],
    ) -> Result<()> {
        let mut text = BEGIN.to_owned();
        self.go_to_top(&mut text, size);
        for line in above {
            text.push_str(line);
            text.push_str(REST_OF_LINE);
            text.push('\n');
        }
        self.drawn.clear();
        for (at, row) in block.iter().take(size.rows.saturating_sub(1)).enumerate() {
            // The last column stays free: a cursor that waits there for its next letter is nowhere for sure.
            let (line, used) = row.painted(size.columns.saturating_sub(1));
            if at > 0 {
                text.push('\n');
            }
            text.push_str(&line);
            text.push_str(REST_OF_LINE);
            self.drawn.push(used);
        }
        text.push_str(REST_OF_SCREEN);
        text.push_str(END);
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Takes the block away and leaves the cursor where it began.
    pub(crate) fn clear(&mut self, out: &mut impl Write, size: Size) -> Result<()> {
        if self.drawn.is_empty() {
            return Ok(());
        }
        self.draw(out, size, &[], &[])
    }

    /// Leaves the block where it is, and goes to the line below it.
    pub(crate) fn leave(&mut self, out: &mut impl Write) -> Result<()> {
        if !self.drawn.is_empty() {
            self.drawn.clear();
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// To the first line of the block. A terminal that has become narrower has broken its lines, so they count for more.
    fn go_to_top(&self, text: &mut String, size: Size) {
        let wide = size.columns.max(1);
        let rows: usize = self.drawn.iter().map(|used| used.div_ceil(wide).max(1)).sum();
        text.push('\r');
        if rows > 1 {
            text.push_str(&format!("\x1b[{}A", rows - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    //! What is written to the terminal, byte for byte.

    use super::{Row, Screen, Size};

    fn drawn(screen: &mut Screen, columns: usize, above: &[&str], block: &[&str]) -> String {
        let mut out = Vec::new();
        let above: Vec<String> = above.iter().map(|line| (*line).to_owned()).collect();
        let block: Vec<Row> = block.iter().map(|line| Row::default().and(*line)).collect();
        screen.draw(&mut out, Size { columns, rows: 4 }, &above, &block).expect("a buffer takes everything");
        let text = String::from_utf8(out).expect("UTF-8");
        let inner = text.strip_prefix("\x1b[?2026h").and_then(|text| text.strip_suffix("\x1b[?2026l"));
        inner.expect("one update, begun and ended").to_owned()
    }

    #[test]
    fn lines_are_drawn_over_the_ones_before() {
        let mut screen = Screen::default();
        assert_eq!(drawn(&mut screen, 20, &[], &["one", "two"]), "\rone\x1b[K\ntwo\x1b[K\x1b[J");
        assert_eq!(drawn(&mut screen, 20, &["done"], &["three"]), "\r\x1b[1Adone\x1b[K\nthree\x1b[K\x1b[J");
        assert_eq!(drawn(&mut screen, 20, &[], &[]), "\r\x1b[J");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_block_higher() {
        let mut screen = Screen::default();
        let text = drawn(&mut screen, 5, &[], &["abcdefgh", "2", "3", "4", "5"]);
        assert_eq!(text, "\rabc…\x1b[K\n2\x1b[K\n3\x1b[K\x1b[J");
    }

    #[test]
    fn a_narrower_terminal_has_broken_the_lines() {
        let mut screen = Screen::default();
        drawn(&mut screen, 20, &[], &["abcdefghij", "x"]);
        // Ten columns on a terminal of four are three rows; with the second line that makes four.
        assert!(drawn(&mut screen, 4, &[], &["x"]).starts_with("\r\x1b[3A"));
    }
}
