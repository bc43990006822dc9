//! Colour, only where a terminal shows it and nobody asked for none.

use anstyle::{AnsiColor, Color, Style as Ansi};
use std::io::IsTerminal;

/// What a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Something is wrong or was stopped.
    Bad,
    /// Something to look at.
    Warn,
    /// Something is fine.
    Good,
    /// Less important.
    Dim,
    /// A heading.
    Strong,
}

fn ansi(style: Style) -> Ansi {
    let colour = |colour| Ansi::new().fg_color(Some(Color::Ansi(colour)));
    match style {
        Style::Bad => colour(AnsiColor::Red).bold(),
        Style::Warn => colour(AnsiColor::Yellow).bold(),
        Style::Good => colour(AnsiColor::Green),
        Style::Dim => Ansi::new().dimmed(),
        Style::Strong => Ansi::new().bold(),
    }
}

fn wanted(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn paint(style: Style, text: &str, colour: bool) -> String {
    if colour {
        let ansi = ansi(style);
        format!("{ansi}{text}{ansi:#}")
    } else {
        text.to_owned()
    }
}

/// Colours a text for stdout.
pub(crate) fn paint_out(style: Style, text: &str) -> String {
    paint(style, text, wanted(std::io::stdout().is_terminal()))
}

/// Colours a text for stderr.
pub(crate) fn paint_err(style: Style, text: &str) -> String {
    paint(style, text, wanted(std::io::stderr().is_terminal()))
}
