//! Session content made safe for display: no control characters, no bidirectional overrides.

use flyball_view::formatting;
use maud::{Markup, html};

/// A point in time. The script shows it in the browser's zone; without it, and on hover, it is in UTC.
pub(super) fn timestamp(at: u64) -> Markup {
    let utc = formatting::utc_time(at);
    html! { time data-at=(at) title=(utc) { (utc) } }
}

/// One line, truncated.
pub(super) fn single_line(text: &str, most: usize) -> String {
    formatting::single_line(text, most)
}

/// Several lines, truncated to `most` characters.
pub(super) fn multi_line(text: &str, most: usize) -> String {
    let mut out: String = text.chars().take(most).map(safe_char).collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

fn safe_char(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        c if flyball::is_deceptive(c) => ' ',
        c => c,
    }
}
