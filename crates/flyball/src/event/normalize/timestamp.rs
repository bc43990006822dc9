//! Matches dates and times of day in the formats that programs print.

use super::bytes::{
    BLANK, DIGIT, WORD, byte_at, digits_end, has_class, read_letters, skip_blanks, starts_with_at,
};
use super::context::{PrecedingWord, ScanContext, classify_word, preceding_word, word_ending_at};
use super::volatile::{Placeholder, VolatileSpan};

/// Matches a date that starts with its year, including its time: `2026-11-15T12:01:07Z`.
pub(super) fn find_year_first_date(v: &ScanContext, i: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    let date = s.get(i..).and_then(|rest| rest.first_chunk::<10>())?;
    let &[_, _, c, d, sep, m1, m2, sep2, d1, d2] = date;
    let digits = has_class(c, DIGIT) && has_class(d, DIGIT) && sep == sep2;
    if !digits || !starts_with_century(date) || two_digits(m1, m2) > 12 || two_digits(d1, d2) > 31 {
        return None;
    }
    let e = i + 10;
    let timed = match byte_at(s, e) {
        b'T' | b't' | b' ' | b'_' | b'-' | b':' | b'/' => time_of_day_end(s, e + 1),
        b',' if byte_at(s, e + 1) == b' ' => time_of_day_end(s, e + 2),
        _ => None,
    };
    match timed {
        Some(end) => Some(VolatileSpan::new(i, end, Placeholder::Time)),
        None => date_without_time(s, i, e),
    }
}

fn date_without_time(s: &[u8], start: usize, e: usize) -> Option<VolatileSpan> {
    (!has_class(byte_at(s, e), WORD)).then_some(VolatileSpan::new(start, e, Placeholder::Date))
}

/// Where the time after a date ends: with or without seconds, with dashes, or without separators.
fn time_of_day_end(s: &[u8], i: usize) -> Option<usize> {
    if let Some(e) = clock_end(s, i) {
        return Some(e);
    }
    if !two_digits_at_most(s, i, 24) {
        return None;
    }
    let e = match byte_at(s, i + 2) {
        b':' if two_digits_at_most(s, i + 3, 59) => i + 5,
        b'-' if two_digits_at_most(s, i + 3, 59)
            && byte_at(s, i + 5) == b'-'
            && two_digits_at_most(s, i + 6, 60) =>
        {
            i + 8
        }
        _ if two_digits_at_most(s, i + 2, 59) && two_digits_at_most(s, i + 4, 60) => i + 6,
        _ => return None,
    };
    at_word_end(s, zone_end(s, e))
}

/// Matches a time of day or an elapsed time, with seconds: `12:01:07`, `0:01:05.250`.
pub(super) fn find_clock(v: &ScanContext, i: usize) -> Option<VolatileSpan> {
    let end = clock_end(v.bytes, i)?;
    // After a colon the numbers are a line and a column, unless the word before means a time.
    let prev = v.byte_before(i, 1);
    if prev == b':'
        && !matches!(
            preceding_word(v, i),
            PrecedingWord::Timestamp | PrecedingWord::TimeOrDuration | PrecedingWord::Duration
        )
    {
        return None;
    }
    Some(VolatileSpan::new(i, end, Placeholder::Clock))
}

pub(super) fn clock_end(s: &[u8], i: usize) -> Option<usize> {
    let h = i + 1 + usize::from(byte_at(s, i + 1) != b':');
    let &[colon, m1, m2, colon2, s1, s2] = s.get(h..)?.first_chunk()?;
    if colon != b':'
        || colon2 != b':'
        || two_digits(m1, m2) > 59
        || two_digits(s1, s2) > 60
        || digits_end(s, i, 2) != h
    {
        return None;
    }
    let mut e = h + 6;
    match byte_at(s, e) {
        b'.' if has_class(byte_at(s, e + 1), DIGIT) => e = digits_end(s, e + 1, 9),
        b',' => {
            let end = digits_end(s, e + 1, 9);
            if end >= e + 4 && !has_class(byte_at(s, end), WORD) {
                e = end;
            }
        }
        _ => {}
    }
    // A MAC address continues with more numbers; in a second pass, a placeholder may replace one of them.
    if byte_at(s, e) == b':' && (has_class(byte_at(s, e + 1), DIGIT) || byte_at(s, e + 1) == b'<') {
        return None;
    }
    if byte_at(s, e) == b' '
        && matches!(byte_at(s, e + 1) | 0x20, b'a' | b'p')
        && byte_at(s, e + 2) | 0x20 == b'm'
        && !has_class(byte_at(s, e + 3), WORD)
    {
        return Some(e + 3);
    }
    at_word_end(s, zone_end(s, e))
}

/// Skips a time zone: `Z`, `+01:00`, ` +0100`, ` UTC`.
fn zone_end(s: &[u8], i: usize) -> usize {
    if byte_at(s, i) | 0x20 == b'z' {
        return i + 1;
    }
    let p = i + usize::from(byte_at(s, i) == b' ');
    let e = match byte_at(s, p) {
        b'+' | b'-'
            if two_digits_at_most(s, p + 1, 24)
                && byte_at(s, p + 3) == b':'
                && two_digits_at_most(s, p + 4, 59) =>
        {
            p + 6
        }
        b'+' | b'-' if two_digits_at_most(s, p + 1, 24) && two_digits_at_most(s, p + 3, 59) => p + 5,
        b'U' if starts_with_at(s, p, b"UTC") => p + 3,
        b'G' if starts_with_at(s, p, b"GMT") => p + 3,
        _ => return i,
    };
    if has_class(byte_at(s, e), WORD) { i } else { e }
}

/// Matches a day after its month: `Nov 15 12:01:07`, `Sun Nov 15 12:01:07 2026 +0100`, `Nov 15, 2026`.
pub(super) fn find_month_first_date(v: &ScanContext, i: usize, day_end: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    let blanks_before = if has_class(v.byte_before(i, 2), BLANK) { 2 } else { 1 };
    if !has_class(v.byte_before(i, 1), BLANK) {
        return None;
    }
    let (word, month) = word_ending_at(v, i - blanks_before);
    if word != PrecedingWord::Month {
        return None;
    }
    let p = day_end + usize::from(byte_at(s, day_end) == b',');
    let p = skip_blanks(s, p, 2);
    let mut mark = Placeholder::Time;
    let mut e = if is_year(s, p) && !has_class(byte_at(s, p + 4), WORD) {
        let q = p + 4 + usize::from(byte_at(s, p + 4) == b',');
        time_of_day_end(s, skip_blanks(s, q, 1)).unwrap_or_else(|| {
            mark = Placeholder::Date;
            p + 4
        })
    } else {
        time_of_day_end(s, p)?
    };
    // `date` prints the zone and the year after the time.
    let (_, name_end) = read_letters(s, e + 1);
    let named = byte_at(s, e) == b' ' && matches!(name_end - e, 4 | 5);
    for p in [e, if named { name_end } else { e }] {
        if byte_at(s, p) == b' ' && is_year(s, p + 1) && !has_class(byte_at(s, p + 5), WORD) {
            e = zone_end(s, p + 5);
            break;
        }
    }
    Some(VolatileSpan::new(include_weekday(v, month), e, mark))
}

/// Matches a day before its month: `15/Nov/2026:12:01:07 +0000`, `Sun, 15 Nov 2026 12:01:07 GMT`, `15-Nov-2026`.
pub(super) fn find_day_first_date(v: &ScanContext, i: usize, day_end: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    let sep = byte_at(s, day_end);
    let (name, name_end) = read_letters(s, day_end + 1);
    if classify_word(name) != PrecedingWord::Month || byte_at(s, name_end) != sep || !is_year(s, name_end + 1)
    {
        return None;
    }
    let e = name_end + 5;
    let timed = if matches!(byte_at(s, e), b':' | b' ') { time_of_day_end(s, e + 1) } else { None };
    let start = include_weekday(v, i);
    match timed {
        Some(end) => Some(VolatileSpan::new(start, end, Placeholder::Time)),
        None => date_without_time(s, start, e),
    }
}

/// Matches a date with slashes that ends with its year: `15/11/2026`.
pub(super) fn find_year_last_date(v: &ScanContext, i: usize, first_end: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    let second = digits_end(s, first_end + 1, 2);
    let whole = second > first_end + 1 && byte_at(s, second) == b'/' && is_year(s, second + 1);
    if !whole || matches!(v.byte_before(i, 1), b'/' | b'.') {
        return None;
    }
    let e = second + 5;
    let p = e + usize::from(byte_at(s, e) == b',');
    match if byte_at(s, p) == b' ' { time_of_day_end(s, p + 1) } else { None } {
        Some(end) => Some(VolatileSpan::new(i, end, Placeholder::Time)),
        None => date_without_time(s, i, e),
    }
}

/// Matches a date and time without separators: `20261115T120107Z`, `20261115-120107`.
pub(super) fn find_compact_timestamp(v: &ScanContext, i: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    let day = is_year(s, i) && two_digits_at_most(s, i + 4, 12) && two_digits_at_most(s, i + 6, 31);
    let time = matches!(byte_at(s, i + 8), b'T' | b'-')
        && two_digits_at_most(s, i + 9, 24)
        && two_digits_at_most(s, i + 11, 59)
        && two_digits_at_most(s, i + 13, 60);
    if !day || !time {
        return None;
    }
    at_word_end(s, zone_end(s, i + 15)).map(|end| VolatileSpan::new(i, end, Placeholder::Time))
}

/// Where a date starts, including a preceding weekday.
fn include_weekday(v: &ScanContext, i: usize) -> usize {
    let gap = match (v.byte_before(i, 2), v.byte_before(i, 1)) {
        (b',', b' ') => 2,
        (_, b' ') => 1,
        _ => return i,
    };
    match word_ending_at(v, i - gap) {
        (PrecedingWord::Weekday, start) => start,
        _ => i,
    }
}

fn at_word_end(s: &[u8], e: usize) -> Option<usize> {
    (!has_class(byte_at(s, e), WORD)).then_some(e)
}

fn is_year(s: &[u8], i: usize) -> bool {
    s.get(i..).is_some_and(starts_with_century) && digits_end(s, i + 2, 2) == i + 4
}

fn starts_with_century(s: &[u8]) -> bool {
    s.starts_with(b"20") || s.starts_with(b"19")
}

/// The value of two digits, or a large value if one of them is not a digit.
#[inline(always)]
fn two_digits(a: u8, b: u8) -> u32 {
    let (a, b) = (u32::from(a.wrapping_sub(b'0')), u32::from(b.wrapping_sub(b'0')));
    if a > 9 || b > 9 { u32::MAX } else { a * 10 + b }
}

/// Whether there are two digits at `i` with a value of at most `most`.
fn two_digits_at_most(s: &[u8], i: usize, most: u32) -> bool {
    two_digits(byte_at(s, i), byte_at(s, i + 1)) <= most
}
