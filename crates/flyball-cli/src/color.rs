//! Terminal colors, unless stdout or stderr is not a terminal or `NO_COLOR` is set.

use anstyle::{AnsiColor, Color, Style as Ansi};
use std::io::IsTerminal;

/// The meaning of a piece of text, which determines its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    /// Something is wrong or was stopped.
    Error,
    /// Something to look at.
    Warning,
    /// Something is fine.
    Success,
    /// Less important.
    Dim,
    /// A heading.
    Heading,
}

fn ansi_style(style: TextStyle) -> Ansi {
    let color = |color| Ansi::new().fg_color(Some(Color::Ansi(color)));
    match style {
        TextStyle::Error => color(AnsiColor::Red).bold(),
        TextStyle::Warning => color(AnsiColor::Yellow).bold(),
        TextStyle::Success => color(AnsiColor::Green),
        TextStyle::Dim => Ansi::new().dimmed(),
        TextStyle::Heading => Ansi::new().bold(),
    }
}

fn color_enabled(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn apply_style(style: TextStyle, text: &str, color: bool) -> String {
    if color {
        let ansi = ansi_style(style);
        format!("{ansi}{text}{ansi:#}")
    } else {
        text.to_owned()
    }
}

/// Colors a text for stdout.
pub(crate) fn style_stdout(style: TextStyle, text: &str) -> String {
    apply_style(style, text, color_enabled(std::io::stdout().is_terminal()))
}

/// Colors a text for stderr.
pub(crate) fn style_stderr(style: TextStyle, text: &str) -> String {
    apply_style(style, text, color_enabled(std::io::stderr().is_terminal()))
}
