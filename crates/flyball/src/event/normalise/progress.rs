//! Recognises progress bars, what is printed next to them, and spinners.

use super::bytes::{ALPHA, DIGIT, WORD, at, blanks, is, key, letters, number};
use super::context::View;
use super::measure::{is_size, measure};
use super::stamp::clock_end;
use super::volatile::{Found, Mark, Token};

/// Longest body of a bar, in bytes.
const MAX_BAR: usize = 400;
/// Longest bracket with times after a bar, in bytes.
const MAX_BRACKET: usize = 80;
/// Most numbers that belong to one bar.
const MAX_ITEMS: usize = 8;
/// Fewest glyphs that make a bar; fewer are bullets or frames.
const MIN_GLYPHS: usize = 3;
/// Fewest line glyphs that make a bar; they are used for frames too.
const MIN_LINE_GLYPHS: usize = 5;

/// A bar in brackets at `i`: `[=====>   ] 45%`.
pub(super) fn bracketed(v: &View, i: usize) -> Option<Found> {
    bar_at(v, i).map(|end| Found::new(i, tail(v, end), Mark::Bar))
}

/// A percentage at `i` whose sign stands at `sign`, if a bar follows: `45%|###   |`, `45% [==>  ]`, `45% of 12 MB`.
pub(super) fn percent(v: &View, i: usize, sign: usize) -> Option<Found> {
    let s = v.s;
    let e = if at(s, sign + 1) == b'|' {
        body(s, sign + 2, b'|')?.0
    } else {
        let p = blanks(s, sign + 1, 4);
        match bar_at(v, p) {
            Some(e) => e,
            None if letters(s, p).0 == key("of") => sized(s, blanks(s, p + 2, 2))?,
            None => return None,
        }
    };
    Some(Found::new(i, tail(v, e), Mark::Bar))
}

/// A count such as `12/30` at `i`, if a bar follows.
pub(super) fn counted(v: &View, i: usize, slash: usize) -> Option<Found> {
    let e = number(v.s, slash + 1);
    if e == slash + 1 || at(v.s, e) != b' ' {
        return None;
    }
    let end = bar_at(v, blanks(v.s, e, 2))?;
    Some(Found::new(i, tail(v, end), Mark::Bar))
}

/// What a glyph outside of ASCII is: a spinner, a bar, or text.
pub(super) fn glyph(v: &View, i: usize) -> Token {
    let s = v.s;
    let kind = Glyph::at(s, i);
    if kind == Glyph::Text {
        return Token::Kept(i + 3);
    }
    let (mut e, mut n) = (i, 0);
    while e - i < MAX_BAR && Glyph::at(s, e) == kind {
        e += 3;
        n += 1;
    }
    match kind {
        Glyph::Spinner => Token::Volatile(Found::new(i, e, Mark::Spinner)),
        Glyph::Block if n >= MIN_GLYPHS => {
            Token::Volatile(Found::new(i, tail(v, unfilled(v, i, e)), Mark::Bar))
        }
        Glyph::Line if n >= MIN_LINE_GLYPHS => match tail(v, e) {
            end if end > e => Token::Volatile(Found::new(i, end, Mark::Bar)),
            _ => Token::Kept(e),
        },
        _ => Token::Kept(e),
    }
}

/// The blank part of a bar between upright strokes: `|███    |`.
fn unfilled(v: &View, i: usize, e: usize) -> usize {
    let p = blanks(v.s, e, MAX_BAR);
    if v.back(i, 1) == b'|' && at(v.s, p) == b'|' { p } else { e }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Glyph {
    Text,
    Spinner,
    Block,
    Line,
}

impl Glyph {
    #[inline]
    fn at(s: &[u8], i: usize) -> Glyph {
        if at(s, i) != 0xE2 {
            return Glyph::Text;
        }
        match (at(s, i + 1), at(s, i + 2)) {
            (0xA0..=0xA3, _) | (0x97, 0x90..=0x93) => Glyph::Spinner,
            (0x96, 0x80..=0x95 | 0xA0 | 0xA1 | 0xAA | 0xAB | 0xB0 | 0xB1) => Glyph::Block,
            (0x94, 0x80 | 0x81) | (0x95, 0xB8 | 0xBA | 0xBC..=0xBF) => Glyph::Line,
            _ => Glyph::Text,
        }
    }
}

/// Where the bar in brackets or of blocks at `i` ends.
fn bar_at(v: &View, i: usize) -> Option<usize> {
    let s = v.s;
    match at(s, i) {
        b'[' => {
            let (e, filled) = body(s, i + 1, b']')?;
            let p = blanks(s, e, 4);
            let n = number(s, p);
            let percent = n > p && at(s, n) == b'%';
            let length = e - i - 2;
            (percent && length >= 3 || filled > 0 && length >= 5).then_some(e)
        }
        0xE2 if Glyph::at(s, i) == Glyph::Block => match glyph(v, i) {
            Token::Volatile(found) => Some(found.end),
            Token::Kept(_) => None,
        },
        _ => None,
    }
}

/// The body of a bar up to its closing byte: where it ends, and how many bytes show progress.
fn body(s: &[u8], i: usize, close: u8) -> Option<(usize, usize)> {
    let (mut e, mut filled) = (i, 0);
    while e - i < MAX_BAR {
        match at(s, e) {
            b if b == close => return Some((e + 1, filled)),
            b'=' | b'#' | b'*' | b'>' => filled += 1,
            b' ' | b'-' | b'.' | b'~' | b'+' => {}
            0xE2 if matches!(Glyph::at(s, e), Glyph::Block | Glyph::Line) => {
                filled += 3;
                e += 2;
            }
            b'0'..=b'9' if close == b'|' => {}
            _ => return None,
        }
        e += 1;
    }
    None
}

/// Skips the numbers that belong to the bar which ends at `e`: percentage, counts, sizes, speeds, times.
fn tail(v: &View, e: usize) -> usize {
    let s = v.s;
    let mut end = e;
    for _ in 0..MAX_ITEMS {
        let mut p = end;
        while p - end < 8 && matches!(at(s, p), b' ' | b'-' | b'|' | b',' | b'\t') {
            p += 1;
        }
        if is(at(s, p), ALPHA) && p > end {
            let (word, word_end) = letters(s, p);
            const WORDS: [u64; 5] = [key("eta"), key("of"), key("at"), key("in"), key("elapsed")];
            if !WORDS.contains(&word) {
                break;
            }
            p = blanks(s, word_end + usize::from(at(s, word_end) == b':'), 2);
        }
        match item(v, p) {
            Some(next) => end = next,
            None => break,
        }
    }
    end
}

/// Where one number next to a bar ends.
fn item(v: &View, i: usize) -> Option<usize> {
    let s = v.s;
    if matches!(at(s, i), b'[' | b'(') {
        return bracket(s, i);
    }
    let e = number(s, i);
    if e == i {
        return None;
    }
    if let Some(end) = clock_end(s, i).or_else(|| measure(v, i).map(|found| found.end)) {
        return Some(end);
    }
    let end = match at(s, e) {
        b'%' => return Some(e + 1),
        b'/' => number(s, e + 1),
        b':' if is(at(s, e + 1), DIGIT) => number(s, e + 1),
        _ => return sized(s, i),
    };
    (!is(at(s, end), WORD) && end > e + 1).then_some(end)
}

/// Where a size such as `12.3 MB` ends.
fn sized(s: &[u8], i: usize) -> Option<usize> {
    let e = number(s, i);
    let (unit, end) = letters(s, e + usize::from(at(s, e) == b' '));
    (e > i && is_size(unit) && !is(at(s, end), WORD)).then_some(end)
}

/// A bracket that holds only times, counts and speeds: `[00:01<00:02, 3.4it/s]`, `(12/30)`.
fn bracket(s: &[u8], i: usize) -> Option<usize> {
    let close = if at(s, i) == b'[' { b']' } else { b')' };
    let (mut e, mut words, mut digits, mut times) = (i + 1, false, false, false);
    while e - i < MAX_BRACKET {
        let b = at(s, e);
        match b {
            _ if b == close => return (digits && (times || !words)).then_some(e + 1),
            b'<' => times = true,
            b'/' => times |= matches!(letters(s, e + 1).0, SECOND | ITERATION),
            b'?' => digits = true,
            b' ' | b':' | b',' | b'.' | b'%' | b'-' => {}
            _ if is(b, DIGIT) => digits = true,
            _ if is(b, ALPHA) => words = true,
            _ => return None,
        }
        e += 1;
    }
    None
}

const SECOND: u64 = key("s");
const ITERATION: u64 = key("it");
