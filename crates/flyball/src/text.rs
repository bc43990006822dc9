//! Processing of tool output: strips terminal codes, joins lines, truncates, and blanks volatile parts.

use crate::event::normalize;
use std::borrow::Cow;

/// Maximum number of lines joined into one.
const MAX_JOINED_LINES: usize = 8;

/// Removes terminal escape codes; copies nothing if there are none.
#[must_use]
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    if !text.contains(['\u{1b}', '\r']) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\r' => {}
            c => out.push(c),
        }
    }
    out.into()
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => {
            for c in chars.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&c) {
                    break;
                }
            }
        }
        // OSC sequence (title or link): ends at a bell or the next escape's backslash.
        Some(']') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' || c == '\u{1b}' && chars.next_if_eq(&'\\').is_some() {
                    break;
                }
            }
        }
        _ => {}
    }
}

/// Joins the first lines of a text: trimmed, without blank lines, separated by `; `.
#[must_use]
pub fn one_line(text: &str) -> String {
    let clean = strip_ansi(text);
    let mut out = String::new();
    for line in clean.lines().map(str::trim).filter(|line| !line.is_empty()).take(MAX_JOINED_LINES) {
        if !out.is_empty() {
            out.push_str(if out.ends_with([':', ';', ',']) { " " } else { "; " });
        }
        // Replace all other control characters as well, which could affect a terminal.
        out.extend(line.chars().map(|c| if c.is_control() { ' ' } else { c }));
    }
    out
}

/// Truncates a text to this many characters, with an ellipsis if anything was cut.
#[must_use]
pub fn truncate(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => {
            let end = text.char_indices().nth(chars.saturating_sub(1)).map_or(0, |(at, _)| at);
            format!("{}…", text.get(..end).unwrap_or_default())
        }
    }
}

/// The start and end of a long text, with a line between them that states how much was omitted.
#[must_use]
pub fn elide_middle(text: &str, chars: usize) -> String {
    let total = text.chars().count();
    if total <= chars {
        return text.to_owned();
    }
    let (head, tail) = (chars / 3, chars - chars / 3);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(total - tail).collect();
    format!("{start}\n[... {} characters left out ...]\n{end}", total - head - tail)
}

/// The last non-blank lines, joined into one line.
#[must_use]
pub fn last_lines(text: &str, lines: usize) -> String {
    let clean = strip_ansi(text);
    let all: Vec<&str> = clean.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = all.len().saturating_sub(lines);
    one_line(&all.get(from..).unwrap_or_default().join("\n"))
}

/// Removes volatile parts: times, addresses, hashes, directories, line numbers.
#[must_use]
pub fn normalize_volatile(text: &str) -> String {
    let base = normalize(text);
    let mut out = String::with_capacity(base.len());
    let mut after_line = false;
    for (at, word) in base.split(' ').enumerate() {
        if at > 0 {
            out.push(' ');
        }
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if after_line && !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit()) {
            out.push_str(&word.replace(bare, "<line>"));
        } else {
            push_normalized_word(word, &mut out);
        }
        after_line = matches!(bare, "line" | "lines" | "Line");
    }
    out
}

/// Appends a word without the directory of an absolute path and without the line and column after a file name.
fn push_normalized_word(word: &str, out: &mut String) {
    let head = word.len() - word.trim_start_matches(['(', '\'', '"', '`', '[']).len();
    let (open, body) = word.split_at(head);
    out.push_str(open);
    let body = body.strip_prefix("file://").unwrap_or(body);
    let is_path = body.starts_with('/') && body.get(1..).is_some_and(|rest| rest.contains('/'));
    let body = if is_path { body.rsplit('/').next().unwrap_or(body) } else { body };
    let mut parts = body.split(':');
    let file = parts.next().unwrap_or_default();
    out.push_str(file);
    let mut is_place = file.contains('.') && file.chars().any(char::is_alphabetic);
    for part in parts {
        let bare = part.trim_end_matches([')', '\'', '"', '`', ']', ',', '.']);
        is_place = is_place && !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit());
        if is_place {
            out.push_str(part.get(bare.len()..).unwrap_or_default());
        } else {
            out.push(':');
            out.push_str(part);
        }
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
