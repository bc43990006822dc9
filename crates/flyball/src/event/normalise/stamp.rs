//! Recognises dates and times of day in the forms that programs print.

use super::bytes::{BLANK, DIGIT, WORD, at, blanks, digits, follows, is, letters};
use super::context::{Before, View, before, meaning, word_before};
use super::volatile::{Found, Mark};

/// A date that starts with its year, with the time that follows it: `2026-11-15T12:01:07Z`.
pub(super) fn year_first(v: &View, i: usize) -> Option<Found> {
    let s = v.s;
    let date = s.get(i..).and_then(|rest| rest.first_chunk::<10>())?;
    let &[_, _, c, d, sep, m1, m2, sep2, d1, d2] = date;
    let digits = is(c, DIGIT) && is(d, DIGIT) && sep == sep2;
    if !digits || !century(date) || two(m1, m2) > 12 || two(d1, d2) > 31 {
        return None;
    }
    let e = i + 10;
    let timed = match at(s, e) {
        b'T' | b't' | b' ' | b'_' | b'-' | b':' | b'/' => time_of_day(s, e + 1),
        b',' if at(s, e + 1) == b' ' => time_of_day(s, e + 2),
        _ => None,
    };
    match timed {
        Some(end) => Some(Found::new(i, end, Mark::Time)),
        None => day_only(s, i, e),
    }
}

fn day_only(s: &[u8], start: usize, e: usize) -> Option<Found> {
    (!is(at(s, e), WORD)).then_some(Found::new(start, e, Mark::Date))
}

/// The time that belongs to a date before it: with or without seconds, also with dashes or in one run.
fn time_of_day(s: &[u8], i: usize) -> Option<usize> {
    if let Some(e) = clock_end(s, i) {
        return Some(e);
    }
    if !upto(s, i, 24) {
        return None;
    }
    let e = match at(s, i + 2) {
        b':' if upto(s, i + 3, 59) => i + 5,
        b'-' if upto(s, i + 3, 59) && at(s, i + 5) == b'-' && upto(s, i + 6, 60) => i + 8,
        _ if upto(s, i + 2, 59) && upto(s, i + 4, 60) => i + 6,
        _ => return None,
    };
    ends(s, zone(s, e))
}

/// A time of day, or a time that has passed, with seconds: `12:01:07`, `0:01:05.250`.
pub(super) fn clock(v: &View, i: usize) -> Option<Found> {
    let end = clock_end(v.s, i)?;
    // After a colon the numbers are a line and a column, unless the word before speaks of time.
    let prev = v.back(i, 1);
    if prev == b':' && !matches!(before(v, i), Before::Stamp | Before::Time | Before::Took) {
        return None;
    }
    Some(Found::new(i, end, Mark::Clock))
}

pub(super) fn clock_end(s: &[u8], i: usize) -> Option<usize> {
    let h = i + 1 + usize::from(at(s, i + 1) != b':');
    let &[colon, m1, m2, colon2, s1, s2] = s.get(h..)?.first_chunk()?;
    if colon != b':' || colon2 != b':' || two(m1, m2) > 59 || two(s1, s2) > 60 || digits(s, i, 2) != h {
        return None;
    }
    let mut e = h + 6;
    match at(s, e) {
        b'.' if is(at(s, e + 1), DIGIT) => e = digits(s, e + 1, 9),
        b',' => {
            let end = digits(s, e + 1, 9);
            if end >= e + 4 && !is(at(s, end), WORD) {
                e = end;
            }
        }
        _ => {}
    }
    // More numbers follow in an address of a network card; a mark stands for one of them in a second pass.
    if at(s, e) == b':' && (is(at(s, e + 1), DIGIT) || at(s, e + 1) == b'<') {
        return None;
    }
    if at(s, e) == b' '
        && matches!(at(s, e + 1) | 0x20, b'a' | b'p')
        && at(s, e + 2) | 0x20 == b'm'
        && !is(at(s, e + 3), WORD)
    {
        return Some(e + 3);
    }
    ends(s, zone(s, e))
}

/// Skips a zone: `Z`, `+01:00`, ` +0100`, ` UTC`.
fn zone(s: &[u8], i: usize) -> usize {
    if at(s, i) | 0x20 == b'z' {
        return i + 1;
    }
    let p = i + usize::from(at(s, i) == b' ');
    let e = match at(s, p) {
        b'+' | b'-' if upto(s, p + 1, 24) && at(s, p + 3) == b':' && upto(s, p + 4, 59) => p + 6,
        b'+' | b'-' if upto(s, p + 1, 24) && upto(s, p + 3, 59) => p + 5,
        b'U' if follows(s, p, b"UTC") => p + 3,
        b'G' if follows(s, p, b"GMT") => p + 3,
        _ => return i,
    };
    if is(at(s, e), WORD) { i } else { e }
}

/// A day after its month: `Nov 15 12:01:07`, `Sun Nov 15 12:01:07 2026 +0100`, `Nov 15, 2026`.
pub(super) fn month_before(v: &View, i: usize, day_end: usize) -> Option<Found> {
    let s = v.s;
    let blanks_before = if is(v.back(i, 2), BLANK) { 2 } else { 1 };
    if !is(v.back(i, 1), BLANK) {
        return None;
    }
    let (word, month) = word_before(v, i - blanks_before);
    if word != Before::Month {
        return None;
    }
    let p = day_end + usize::from(at(s, day_end) == b',');
    let p = blanks(s, p, 2);
    let mut mark = Mark::Time;
    let mut e = if is_year(s, p) && !is(at(s, p + 4), WORD) {
        let q = p + 4 + usize::from(at(s, p + 4) == b',');
        time_of_day(s, blanks(s, q, 1)).unwrap_or_else(|| {
            mark = Mark::Date;
            p + 4
        })
    } else {
        time_of_day(s, p)?
    };
    // `date` puts the zone and the year after the time.
    let (_, name_end) = letters(s, e + 1);
    let named = at(s, e) == b' ' && matches!(name_end - e, 4 | 5);
    for p in [e, if named { name_end } else { e }] {
        if at(s, p) == b' ' && is_year(s, p + 1) && !is(at(s, p + 5), WORD) {
            e = zone(s, p + 5);
            break;
        }
    }
    Some(Found::new(weekday_before(v, month), e, mark))
}

/// A day before its month: `15/Nov/2026:12:01:07 +0000`, `Sun, 15 Nov 2026 12:01:07 GMT`, `15-Nov-2026`.
pub(super) fn day_first(v: &View, i: usize, day_end: usize) -> Option<Found> {
    let s = v.s;
    let sep = at(s, day_end);
    let (name, name_end) = letters(s, day_end + 1);
    if meaning(name) != Before::Month || at(s, name_end) != sep || !is_year(s, name_end + 1) {
        return None;
    }
    let e = name_end + 5;
    let timed = if matches!(at(s, e), b':' | b' ') { time_of_day(s, e + 1) } else { None };
    let start = weekday_before(v, i);
    match timed {
        Some(end) => Some(Found::new(start, end, Mark::Time)),
        None => day_only(s, start, e),
    }
}

/// A date with slashes that ends with its year: `15/11/2026`.
pub(super) fn year_last(v: &View, i: usize, first_end: usize) -> Option<Found> {
    let s = v.s;
    let second = digits(s, first_end + 1, 2);
    let whole = second > first_end + 1 && at(s, second) == b'/' && is_year(s, second + 1);
    if !whole || matches!(v.back(i, 1), b'/' | b'.') {
        return None;
    }
    let e = second + 5;
    let p = e + usize::from(at(s, e) == b',');
    match if at(s, p) == b' ' { time_of_day(s, p + 1) } else { None } {
        Some(end) => Some(Found::new(i, end, Mark::Time)),
        None => day_only(s, i, e),
    }
}

/// A date and a time in one run: `20261115T120107Z`, `20261115-120107`.
pub(super) fn compact(v: &View, i: usize) -> Option<Found> {
    let s = v.s;
    let day = is_year(s, i) && upto(s, i + 4, 12) && upto(s, i + 6, 31);
    let time = matches!(at(s, i + 8), b'T' | b'-')
        && upto(s, i + 9, 24)
        && upto(s, i + 11, 59)
        && upto(s, i + 13, 60);
    if !day || !time {
        return None;
    }
    ends(s, zone(s, i + 15)).map(|end| Found::new(i, end, Mark::Time))
}

/// Where a date starts if the name of its day stands before it.
fn weekday_before(v: &View, i: usize) -> usize {
    let gap = match (v.back(i, 2), v.back(i, 1)) {
        (b',', b' ') => 2,
        (_, b' ') => 1,
        _ => return i,
    };
    match word_before(v, i - gap) {
        (Before::Weekday, start) => start,
        _ => i,
    }
}

fn ends(s: &[u8], e: usize) -> Option<usize> {
    (!is(at(s, e), WORD)).then_some(e)
}

fn is_year(s: &[u8], i: usize) -> bool {
    s.get(i..).is_some_and(century) && digits(s, i + 2, 2) == i + 4
}

fn century(s: &[u8]) -> bool {
    s.starts_with(b"20") || s.starts_with(b"19")
}

/// The value of two digits, or a high value if one is none.
#[inline(always)]
fn two(a: u8, b: u8) -> u32 {
    let (a, b) = (u32::from(a.wrapping_sub(b'0')), u32::from(b.wrapping_sub(b'0')));
    if a > 9 || b > 9 { u32::MAX } else { a * 10 + b }
}

/// Whether two digits stand at `i` and their value is at most `most`.
fn upto(s: &[u8], i: usize, most: u32) -> bool {
    two(at(s, i), at(s, i + 1)) <= most
}
