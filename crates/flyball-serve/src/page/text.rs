//! Text of sessions, made safe to look at: no control characters, nothing that turns the direction of writing around.

use flyball_view::words;

/// One line, cut.
pub(super) fn line(text: &str, most: usize) -> String {
    words::line(text, most)
}

/// Several lines, cut after so many letters.
pub(super) fn plain(text: &str, most: usize) -> String {
    let mut out: String = text.chars().take(most).map(shown).collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

fn shown(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        c if flyball::is_deceptive(c) => ' ',
        c => c,
    }
}

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A number in as few letters as a column has room for: `12.3k`.
pub(super) fn short(number: u64) -> String {
    match number {
        0..10_000 => grouped(number),
        10_000..1_000_000 => format!("{}.{}k", number / 1_000, number % 1_000 / 100),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}
