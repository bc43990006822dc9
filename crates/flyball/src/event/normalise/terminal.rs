//! Undoes what a terminal would have done: colour and cursor codes, overwritten lines, backspaces.
//!
//! This runs before the scan, because a colour code may stand inside of a time or a word.

use super::bytes::at;

const ESCAPE: u8 = 0x1B;
const BELL: u8 = 0x07;
const BACKSPACE: u8 = 0x08;

/// Whether the byte begins anything that [`clean_into`] would change.
pub(super) fn is_code(b: u8) -> bool {
    matches!(b, ESCAPE | b'\r' | BACKSPACE)
}

/// Appends the text as a terminal would show it.
pub(super) fn clean_into(text: &str, out: &mut String) {
    let s = text.as_bytes();
    let mut line = out.len();
    // A lone carriage return overwrites the line only once more text follows.
    let mut returned = false;
    let (mut copied, mut i) = (0, 0);
    while i < s.len() {
        let b = at(s, i);
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
                let (end, effect) = escape(s, i);
                copied = end;
                match effect {
                    Effect::Nothing => {}
                    Effect::Return => returned = true,
                    Effect::Erase => {
                        out.truncate(line);
                        returned = false;
                    }
                    Effect::EraseRight => {
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

enum Effect {
    Nothing,
    Return,
    Erase,
    EraseRight,
}

/// Where the escape sequence at `i` ends, and what it does to the line.
fn escape(s: &[u8], i: usize) -> (usize, Effect) {
    match at(s, i + 1) {
        b'[' => control(s, i + 2),
        b']' | b'P' | b'X' | b'^' | b'_' => (string(s, i + 2), Effect::Nothing),
        b'(' | b')' | b'*' | b'+' | b'#' | b'%' | b' ' if (b'0'..=b'~').contains(&at(s, i + 2)) => {
            (i + 3, Effect::Nothing)
        }
        b'0'..=b'~' => (i + 2, Effect::Nothing),
        _ => (i + 1, Effect::Nothing),
    }
}

/// A control sequence: parameters, intermediate bytes, one final byte. A broken one loses only what was read.
fn control(s: &[u8], from: usize) -> (usize, Effect) {
    let mut e = from;
    while (0x20..=0x3F).contains(&at(s, e)) {
        e += 1;
    }
    let first = at(s, from);
    match at(s, e) {
        b'G' if e == from || (e == from + 1 && first <= b'1') => (e + 1, Effect::Return),
        b'K' if e == from || first == b'0' => (e + 1, Effect::EraseRight),
        b'K' if first == b'2' => (e + 1, Effect::Erase),
        0x40..=0x7E => (e + 1, Effect::Nothing),
        _ => (e, Effect::Nothing),
    }
}

/// A command string such as a window title or a link. One that is not closed is kept as text.
fn string(s: &[u8], from: usize) -> usize {
    let mut e = from;
    while at(s, e) >= b' ' {
        e += 1;
    }
    match at(s, e) {
        BELL => e + 1,
        ESCAPE if at(s, e + 1) == b'\\' => e + 2,
        _ => from,
    }
}
