//! Renders text as a terminal would: color and cursor codes, overwritten lines, backspaces.
//!
//! This runs before the scan, because a color code may appear inside a time or a word.

use super::bytes::byte_at;

const ESCAPE: u8 = 0x1B;
const BELL: u8 = 0x07;
const BACKSPACE: u8 = 0x08;

/// Whether the byte starts anything that [`strip_terminal_codes_into`] would change.
pub(super) fn is_terminal_code(b: u8) -> bool {
    matches!(b, ESCAPE | b'\r' | BACKSPACE)
}

/// Appends the text as a terminal would show it.
pub(super) fn strip_terminal_codes_into(text: &str, out: &mut String) {
    let s = text.as_bytes();
    let mut line = out.len();
    // A lone carriage return overwrites the line only if more text follows.
    let mut returned = false;
    let (mut copied, mut i) = (0, 0);
    while i < s.len() {
        let b = byte_at(s, i);
        if !matches!(b, ESCAPE | b'\r' | BACKSPACE | b'\n') && !returned {
            i += 1;
            continue;
        }
        out.push_str(text.get(copied..i).unwrap_or_default());
        copied = i + 1;
        match b {
            b'\n' => {
                out.push('\n');
                line = out.len();
                returned = false;
            }
            b'\r' => returned = true,
            BACKSPACE => {
                if out.len() > line {
                    out.pop();
                }
            }
            ESCAPE => {
                let (end, effect) = escape_sequence(s, i);
                copied = end;
                match effect {
                    EscapeEffect::Nothing => {}
                    EscapeEffect::Return => returned = true,
                    EscapeEffect::Erase => {
                        out.truncate(line);
                        returned = false;
                    }
                    EscapeEffect::EraseRight => {
                        if returned {
                            out.truncate(line);
                        }
                    }
                }
            }
            _ => {
                out.truncate(line);
                returned = false;
                copied = i;
            }
        }
        i = copied.max(i + 1);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
}

enum EscapeEffect {
    Nothing,
    Return,
    Erase,
    EraseRight,
}

/// Where the escape sequence at `i` ends, and its effect on the line.
fn escape_sequence(s: &[u8], i: usize) -> (usize, EscapeEffect) {
    match byte_at(s, i + 1) {
        b'[' => control_sequence(s, i + 2),
        b']' | b'P' | b'X' | b'^' | b'_' => (command_string_end(s, i + 2), EscapeEffect::Nothing),
        b'(' | b')' | b'*' | b'+' | b'#' | b'%' | b' ' if (b'0'..=b'~').contains(&byte_at(s, i + 2)) => {
            (i + 3, EscapeEffect::Nothing)
        }
        b'0'..=b'~' => (i + 2, EscapeEffect::Nothing),
        _ => (i + 1, EscapeEffect::Nothing),
    }
}

/// A control sequence: parameters, intermediate bytes, one final byte. For a broken one, only the bytes read so far are
/// dropped.
fn control_sequence(s: &[u8], from: usize) -> (usize, EscapeEffect) {
    let mut e = from;
    while (0x20..=0x3F).contains(&byte_at(s, e)) {
        e += 1;
    }
    let first = byte_at(s, from);
    match byte_at(s, e) {
        b'G' if e == from || (e == from + 1 && first <= b'1') => (e + 1, EscapeEffect::Return),
        b'K' if e == from || first == b'0' => (e + 1, EscapeEffect::EraseRight),
        b'K' if first == b'2' => (e + 1, EscapeEffect::Erase),
        0x40..=0x7E => (e + 1, EscapeEffect::Nothing),
        _ => (e, EscapeEffect::Nothing),
    }
}

/// Where a command string ends, such as a window title or a link. An unterminated one is kept as text.
fn command_string_end(s: &[u8], from: usize) -> usize {
    let mut e = from;
    while byte_at(s, e) >= b' ' {
        e += 1;
    }
    match byte_at(s, e) {
        BELL => e + 1,
        ESCAPE if byte_at(s, e + 1) == b'\\' => e + 2,
        _ => from,
    }
}
