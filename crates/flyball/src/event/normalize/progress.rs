//! Matches progress bars, the numbers next to them, and spinners.

use super::bytes::{ALPHA, DIGIT, WORD, byte_at, has_class, number_end, read_letters, skip_blanks, word_key};
use super::context::ScanContext;
use super::measure::{find_measurement, is_size_unit};
use super::timestamp::clock_end;
use super::volatile::{Placeholder, ScanToken, VolatileSpan};

/// Longest body of a bar, in bytes.
const MAX_BAR: usize = 400;
/// Longest bracket with times after a bar, in bytes.
const MAX_BRACKET: usize = 80;
/// Maximum number of numbers that belong to one bar.
const MAX_ITEMS: usize = 8;
/// Minimum number of glyphs in a bar; fewer are bullets or frames.
const MIN_GLYPHS: usize = 3;
/// Minimum number of line glyphs in a bar, because frames use them too.
const MIN_LINE_GLYPHS: usize = 5;

/// Matches a bar in brackets at `i`: `[=====>   ] 45%`.
pub(super) fn find_bracketed_bar(v: &ScanContext, i: usize) -> Option<VolatileSpan> {
    bar_end(v, i).map(|end| VolatileSpan::new(i, bar_tail_end(v, end), Placeholder::ProgressBar))
}

/// Matches a percentage at `i` with its sign at `sign`, if a bar follows: `45%|###   |`, `45% [==>  ]`, `45% of 12 MB`.
pub(super) fn find_percent_bar(v: &ScanContext, i: usize, sign: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    let e = if byte_at(s, sign + 1) == b'|' {
        bar_body(s, sign + 2, b'|')?.0
    } else {
        let p = skip_blanks(s, sign + 1, 4);
        match bar_end(v, p) {
            Some(e) => e,
            None if read_letters(s, p).0 == word_key("of") => size_end(s, skip_blanks(s, p + 2, 2))?,
            None => return None,
        }
    };
    Some(VolatileSpan::new(i, bar_tail_end(v, e), Placeholder::ProgressBar))
}

/// Matches a count such as `12/30` at `i`, if a bar follows.
pub(super) fn find_counted_bar(v: &ScanContext, i: usize, slash: usize) -> Option<VolatileSpan> {
    let e = number_end(v.bytes, slash + 1);
    if e == slash + 1 || byte_at(v.bytes, e) != b' ' {
        return None;
    }
    let end = bar_end(v, skip_blanks(v.bytes, e, 2))?;
    Some(VolatileSpan::new(i, bar_tail_end(v, end), Placeholder::ProgressBar))
}

/// Classifies a non-ASCII glyph: a spinner, a bar, or text.
pub(super) fn classify_glyph(v: &ScanContext, i: usize) -> ScanToken {
    let s = v.bytes;
    let kind = ProgressGlyph::at(s, i);
    if kind == ProgressGlyph::Text {
        return ScanToken::Kept(i + 3);
    }
    let (mut e, mut n) = (i, 0);
    while e - i < MAX_BAR && ProgressGlyph::at(s, e) == kind {
        e += 3;
        n += 1;
    }
    match kind {
        ProgressGlyph::Spinner => ScanToken::Volatile(VolatileSpan::new(i, e, Placeholder::Spinner)),
        ProgressGlyph::Block if n >= MIN_GLYPHS => ScanToken::Volatile(VolatileSpan::new(
            i,
            bar_tail_end(v, unfilled_end(v, i, e)),
            Placeholder::ProgressBar,
        )),
        ProgressGlyph::Line if n >= MIN_LINE_GLYPHS => match bar_tail_end(v, e) {
            end if end > e => ScanToken::Volatile(VolatileSpan::new(i, end, Placeholder::ProgressBar)),
            _ => ScanToken::Kept(e),
        },
        _ => ScanToken::Kept(e),
    }
}

/// Where the unfilled part of a bar between vertical lines ends: `|███    |`.
fn unfilled_end(v: &ScanContext, i: usize, e: usize) -> usize {
    let p = skip_blanks(v.bytes, e, MAX_BAR);
    if v.byte_before(i, 1) == b'|' && byte_at(v.bytes, p) == b'|' { p } else { e }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgressGlyph {
    Text,
    Spinner,
    Block,
    Line,
}

impl ProgressGlyph {
    #[inline]
    fn at(s: &[u8], i: usize) -> ProgressGlyph {
        if byte_at(s, i) != 0xE2 {
            return ProgressGlyph::Text;
        }
        match (byte_at(s, i + 1), byte_at(s, i + 2)) {
            (0xA0..=0xA3, _) | (0x97, 0x90..=0x93) => ProgressGlyph::Spinner,
            (0x96, 0x80..=0x95 | 0xA0 | 0xA1 | 0xAA | 0xAB | 0xB0 | 0xB1) => ProgressGlyph::Block,
            (0x94, 0x80 | 0x81) | (0x95, 0xB8 | 0xBA | 0xBC..=0xBF) => ProgressGlyph::Line,
            _ => ProgressGlyph::Text,
        }
    }
}

/// Where the bar in brackets or of blocks at `i` ends.
fn bar_end(v: &ScanContext, i: usize) -> Option<usize> {
    let s = v.bytes;
    match byte_at(s, i) {
        b'[' => {
            let (e, filled) = bar_body(s, i + 1, b']')?;
            let p = skip_blanks(s, e, 4);
            let n = number_end(s, p);
            let percent = n > p && byte_at(s, n) == b'%';
            let length = e - i - 2;
            (percent && length >= 3 || filled > 0 && length >= 5).then_some(e)
        }
        0xE2 if ProgressGlyph::at(s, i) == ProgressGlyph::Block => match classify_glyph(v, i) {
            ScanToken::Volatile(found) => Some(found.end),
            ScanToken::Kept(_) => None,
        },
        _ => None,
    }
}

/// The body of a bar up to its closing byte: where it ends, and how many bytes are filled.
fn bar_body(s: &[u8], i: usize, close: u8) -> Option<(usize, usize)> {
    let (mut e, mut filled) = (i, 0);
    while e - i < MAX_BAR {
        match byte_at(s, e) {
            b if b == close => return Some((e + 1, filled)),
            b'=' | b'#' | b'*' | b'>' => filled += 1,
            b' ' | b'-' | b'.' | b'~' | b'+' => {}
            0xE2 if matches!(ProgressGlyph::at(s, e), ProgressGlyph::Block | ProgressGlyph::Line) => {
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
fn bar_tail_end(v: &ScanContext, e: usize) -> usize {
    let s = v.bytes;
    let mut end = e;
    for _ in 0..MAX_ITEMS {
        let mut p = end;
        while p - end < 8 && matches!(byte_at(s, p), b' ' | b'-' | b'|' | b',' | b'\t') {
            p += 1;
        }
        if has_class(byte_at(s, p), ALPHA) && p > end {
            let (word, word_end) = read_letters(s, p);
            const WORDS: [u64; 5] =
                [word_key("eta"), word_key("of"), word_key("at"), word_key("in"), word_key("elapsed")];
            if !WORDS.contains(&word) {
                break;
            }
            p = skip_blanks(s, word_end + usize::from(byte_at(s, word_end) == b':'), 2);
        }
        match bar_item_end(v, p) {
            Some(next) => end = next,
            None => break,
        }
    }
    end
}

/// Where one number next to a bar ends.
fn bar_item_end(v: &ScanContext, i: usize) -> Option<usize> {
    let s = v.bytes;
    if matches!(byte_at(s, i), b'[' | b'(') {
        return bracket_end(s, i);
    }
    let e = number_end(s, i);
    if e == i {
        return None;
    }
    if let Some(end) = clock_end(s, i).or_else(|| find_measurement(v, i).map(|found| found.end)) {
        return Some(end);
    }
    let end = match byte_at(s, e) {
        b'%' => return Some(e + 1),
        b'/' => number_end(s, e + 1),
        b':' if has_class(byte_at(s, e + 1), DIGIT) => number_end(s, e + 1),
        _ => return size_end(s, i),
    };
    (!has_class(byte_at(s, end), WORD) && end > e + 1).then_some(end)
}

/// Where a size such as `12.3 MB` ends.
fn size_end(s: &[u8], i: usize) -> Option<usize> {
    let e = number_end(s, i);
    let (unit, end) = read_letters(s, e + usize::from(byte_at(s, e) == b' '));
    (e > i && is_size_unit(unit) && !has_class(byte_at(s, end), WORD)).then_some(end)
}

/// Where a bracket with only times, counts and speeds ends: `[00:01<00:02, 3.4it/s]`, `(12/30)`.
fn bracket_end(s: &[u8], i: usize) -> Option<usize> {
    let close = if byte_at(s, i) == b'[' { b']' } else { b')' };
    let (mut e, mut words, mut digits, mut times) = (i + 1, false, false, false);
    while e - i < MAX_BRACKET {
        let b = byte_at(s, e);
        match b {
            _ if b == close => return (digits && (times || !words)).then_some(e + 1),
            b'<' => times = true,
            b'/' => times |= matches!(read_letters(s, e + 1).0, SECOND | ITERATION),
            b'?' => digits = true,
            b' ' | b':' | b',' | b'.' | b'%' | b'-' => {}
            _ if has_class(b, DIGIT) => digits = true,
            _ if has_class(b, ALPHA) => words = true,
            _ => return None,
        }
        e += 1;
    }
    None
}

const SECOND: u64 = word_key("s");
const ITERATION: u64 = word_key("it");
