//! Recognises the volatile words of a line: ids, hashes, addresses, ports, and numbers that are a time.
//!
//! A number is volatile only by its form or by the word before it; every other number is information.

use super::bytes::{ALPHA, DIGIT, HEX, LINK, WORD, at, back, blanks, count, digits, follows, is};
use super::context::{Before, View, before};
use super::measure::{measure, measure_after};
use super::{progress, stamp};

/// Shortest run of hexadecimal digits that is taken for a hash.
const MIN_HASH: usize = 7;
/// Fewest digits of an address after `0x`; shorter ones are values.
const MIN_ADDRESS: usize = 6;
/// First port that systems hand out for a while; lower ports are fixed, so they are information.
const FIRST_EPHEMERAL_PORT: u32 = 32_768;
/// Longest id of a process or thread.
const MAX_ID_DIGITS: usize = 10;

/// What stands in place of a volatile part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// A moment: a date with its time of day, or seconds since 1970.
    Time,
    /// A day without a time.
    Date,
    /// A time of day without a day.
    Clock,
    Took,
    Speed,
    Id,
    Port,
    Hash,
    Address,
    Temporary,
    Bar,
    Spinner,
}

impl Mark {
    pub(super) fn text(self) -> &'static str {
        match self {
            Mark::Time | Mark::Date | Mark::Clock => "<time>",
            Mark::Took => "<took>",
            Mark::Speed => "<speed>",
            Mark::Id => "<id>",
            Mark::Port => "<port>",
            Mark::Hash => "<hash>",
            Mark::Address => "<address>",
            Mark::Temporary => "<tmp>",
            Mark::Bar => "<bar>",
            Mark::Spinner => "<spin>",
        }
    }

    /// Whether it is a time of any kind.
    pub(super) fn is_time(self) -> bool {
        matches!(self, Mark::Time | Mark::Date | Mark::Clock)
    }

    /// Whether programs pad it to a column, so that the blanks around it change with its width.
    pub(super) fn is_padded(self) -> bool {
        matches!(self, Mark::Took | Mark::Speed | Mark::Id | Mark::Bar)
    }
}

/// A volatile part of the text. Small enough to be handed over in registers.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) end: usize,
    length: u32,
    pub(super) mark: Mark,
}

impl Found {
    #[inline(always)]
    pub(super) fn new(start: usize, end: usize, mark: Mark) -> Found {
        Found { end, length: end.saturating_sub(start) as u32, mark }
    }

    #[inline(always)]
    pub(super) fn start(&self) -> usize {
        self.end.saturating_sub(self.length as usize)
    }
}

/// What the scanner does next.
pub(super) enum Token {
    /// Replace this part.
    Volatile(Found),
    /// Everything before this position is information.
    Kept(usize),
}

/// Judges the word around the digit at `i`.
pub(super) fn word(v: &View, i: usize) -> Token {
    let s = v.s;
    let rest = s.get(i..).unwrap_or_default();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    count(digits);
    let token = if is(at(s, i + digits), WORD) || is(v.back(i, 1), WORD) {
        let length = rest.iter().take_while(|&&b| is(b, WORD)).count();
        let seen = s.get(v.floor..i).unwrap_or_default();
        let lead = seen.iter().rev().take_while(|&&b| is(b, WORD)).count();
        count(length + lead);
        mixed(v, i - lead, i + length)
    } else {
        integer(v, i, i + digits)
    };
    match token {
        Token::Volatile(found) if is_information(v, &found) => Token::Kept(found.end),
        token => token,
    }
}

/// Whether the word before makes information of what looks volatile.
fn is_information(v: &View, found: &Found) -> bool {
    match found.mark {
        Mark::Took | Mark::Address => {
            matches!(before(v, found.start()), Before::Assert | Before::Code)
        }
        Mark::Time | Mark::Date | Mark::Clock | Mark::Speed | Mark::Hash => {
            before(v, found.start()) == Before::Assert
        }
        _ => false,
    }
}

/// A word of digits and letters.
fn mixed(v: &View, start: usize, end: usize) -> Token {
    let s = v.s;
    let length = end - start;
    // The end of a version or a decimal number.
    if v.back(start, 1) == b'.' && is(at(s, start), DIGIT) && is(v.back(start, 2), DIGIT) {
        return Token::Kept(end);
    }
    let hex = (length >= MIN_HASH || length == 4) && all_hex(s, start, end);
    let found = if hex && length >= MIN_HASH {
        uuid(v, start).or(Some(Found::new(start, end, Mark::Hash)))
    } else if hex && v.back(start, 1) == b'-' && start >= v.floor + 9 {
        uuid(v, start - 9)
    } else if at(s, end) == b'-' && back(s, end, 5) == b'_' {
        stamp::year_first(v, end - 4)
    } else if !is(at(s, start), DIGIT) {
        described(v, start, end)
    } else if at(s, start + 1) | 0x20 == b'x' {
        let address = at(s, start) == b'0' && length >= MIN_ADDRESS + 2 && all_hex(s, start + 2, end);
        address.then_some(Found::new(start, end, Mark::Address))
    } else if at(s, start + 8) == b'T' {
        stamp::compact(v, start).or_else(|| measure(v, start))
    } else {
        measure(v, start)
    };
    found.map_or(Token::Kept(end), Token::Volatile)
}

/// The hash in the output of `git describe`: `v1.2-3-gabc1234`.
fn described(v: &View, start: usize, end: usize) -> Option<Found> {
    let whole = at(v.s, start) == b'g' && v.back(start, 1) == b'-' && end - start > MIN_HASH;
    (whole && all_hex(v.s, start + 1, end)).then_some(Found::new(start, end, Mark::Hash))
}

fn all_hex(s: &[u8], start: usize, end: usize) -> bool {
    s.get(start..end).is_some_and(|part| part.iter().all(|&b| is(b, HEX)))
}

fn uuid(v: &View, start: usize) -> Option<Found> {
    let s = v.s;
    let dashes = [8, 13, 18, 23].iter().all(|&k| at(s, start + k) == b'-');
    let groups = [(0, 8), (9, 13), (14, 18), (19, 23), (24, 36)];
    let whole = dashes && groups.iter().all(|&(a, b)| all_hex(s, start + a, start + b));
    let decimal = v.back(start, 1) == b'.' && is(v.back(start, 2), DIGIT);
    let alone = !is(at(s, start + 36), WORD) && !is(v.back(start, 1), WORD) && !decimal;
    (whole && alone).then_some(Found::new(start, start + 36, Mark::Id))
}

/// A word of digits only.
fn integer(v: &View, start: usize, end: usize) -> Token {
    let s = v.s;
    let short = end - start <= 2;
    if v.back(start, 1) == b'.' && is(v.back(start, 2), WORD) {
        return Token::Kept(end);
    }
    let found = match at(s, end) {
        b'-' | b'/' => joined(v, start, end),
        b':' if short => stamp::clock(v, start),
        b'.' if is(at(s, end + 1), DIGIT) => return dotted(v, start, end),
        b'%' => progress::percent(v, start, end),
        b' ' | b',' => spaced(v, start, end),
        0xC2 | 0xCE => measure(v, start),
        _ => None,
    };
    found.or_else(|| by_context(v, start, end)).map_or(Token::Kept(end), Token::Volatile)
}

/// Digits with a blank or a comma after them.
fn spaced(v: &View, start: usize, end: usize) -> Option<Found> {
    let s = v.s;
    let short = end - start <= 2;
    let next = at(s, end + 1);
    // The name of a month is the only word of three letters before that matters.
    if short && (v.back(start, 4).is_ascii_uppercase() || v.back(start, 5).is_ascii_uppercase()) {
        let found = stamp::month_before(v, start, end);
        if found.is_some() {
            return found;
        }
    }
    match next | 0x20 {
        b'a'..=b'z' if short && next.is_ascii_uppercase() => {
            stamp::day_first(v, start, end).or_else(|| measure_after(v, start, end))
        }
        // No unit starts with another letter.
        b'b' | b'd' | b'g' | b'h' | b'i' | b'k' | b'm' | b'n' | b'o' | b'r' | b's' | b't' | b'u'
            if at(s, end) == b' ' =>
        {
            measure_after(v, start, end)
        }
        _ if is(next, DIGIT) && at(s, end) == b',' || matches!(next, b'/' | 0xC2 | 0xCE) => measure(v, start),
        _ => None,
    }
}

/// Digits with a dash or a slash after them.
fn joined(v: &View, start: usize, end: usize) -> Option<Found> {
    match (end - start, at(v.s, end)) {
        (4, _) if v.back(start, 1) == b'-' && start >= v.floor + 9 => {
            uuid(v, start - 9).or_else(|| stamp::year_first(v, start))
        }
        (4, _) => stamp::year_first(v, start)
            .or_else(|| if at(v.s, end) == b'/' { ratio(v, start, end) } else { None }),
        (8, b'-') => uuid(v, start).or_else(|| stamp::compact(v, start)),
        (1 | 2, sep) => {
            let date = stamp::day_first(v, start, end);
            if sep == b'-' {
                date
            } else {
                date.or_else(|| stamp::year_last(v, start, end)).or_else(|| ratio(v, start, end))
            }
        }
        (_, b'/') => ratio(v, start, end),
        _ => None,
    }
}

fn ratio(v: &View, start: usize, slash: usize) -> Option<Found> {
    progress::counted(v, start, slash).or_else(|| measure(v, start))
}

/// Digits with dots in between: a decimal number, a version, or an address with its port.
fn dotted(v: &View, start: usize, first_end: usize) -> Token {
    let s = v.s;
    let (mut end, mut dots) = (first_end, 0);
    while at(s, end) == b'.' && is(at(s, end + 1), DIGIT) {
        dots += 1;
        end += 1;
        while is(at(s, end), DIGIT) {
            end += 1;
        }
    }
    let found = match dots {
        1 if at(s, end) == b'%' => progress::percent(v, start, end),
        // Digits, an `e` and digits would be a hash, but after a decimal point they are a value.
        1 if at(s, end) | 0x20 == b'e' => return Token::Kept(digits(s, end + 1, 4)),
        1 => measure(v, start).or_else(|| bare_decimal(v, start, first_end, end)),
        3 if at(s, end) == b':' => {
            let port_end = digits(s, end + 1, 6);
            is_ephemeral(s, end + 1, port_end).then_some(Found::new(end + 1, port_end, Mark::Port))
        }
        _ => None,
    };
    found.map_or(Token::Kept(end), Token::Volatile)
}

/// A decimal number without a unit that is a time by what stands before it.
fn bare_decimal(v: &View, start: usize, point: usize, end: usize) -> Option<Found> {
    let s = v.s;
    if is(at(s, end), WORD) {
        return None;
    }
    // The kernel's log starts its lines with the seconds since the start: `[    1.234567]`.
    let clocked = at(s, v.line) == b'[' && at(s, end) == b']' && end - point == 7;
    if clocked && v.line + 12 >= start && blanks(s, v.line + 1, 12) == start {
        return Some(Found::new(v.line + 1, end, Mark::Time));
    }
    let stamp = is_epoch(s, start, point);
    match before(v, start) {
        Before::Stamp | Before::Time if stamp => Some(Found::new(start, end, Mark::Time)),
        Before::Took | Before::Time if !counts(s, end) => Some(Found::new(start, end, Mark::Took)),
        _ if stamp && at(s, v.line) == b'[' && v.line + 1 == start => {
            Some(Found::new(start, end, Mark::Time))
        }
        _ => None,
    }
}

/// Whether a word follows, or the mark of a word that was replaced, so that the number counts something.
fn counts(s: &[u8], end: usize) -> bool {
    let next = at(s, end + 1);
    at(s, end) == b' ' && (is(next, ALPHA) || next == b'<')
}

/// An integer that is volatile by what stands around it.
fn by_context(v: &View, start: usize, end: usize) -> Option<Found> {
    let s = v.s;
    let length = end - start;
    let (prev, next) = (v.back(start, 1), at(s, end));
    let found = |mark| Some(Found::new(start, end, mark));
    if matches!(length, 32 | 40 | 64) {
        return found(Mark::Hash);
    }
    if !is(prev, LINK) || next == b'%' {
        return None;
    }
    match prev {
        // Valgrind and the sanitisers.
        b'=' if v.line + 2 == start && at(s, v.line) == b'=' && follows(s, end, b"==") => {
            return found(Mark::Id);
        }
        b'[' if v.line + 1 == start && is_epoch(s, start, end) => return found(Mark::Time),
        b'[' if v.timed && follows(s, end, b"]:") => return found(Mark::Id),
        b'(' if follows(s, end, b") panicked") => return found(Mark::Id),
        b':' if length == 5 && is_local(s, start - 1) && is_ephemeral(s, start, end) => {
            return found(Mark::Port);
        }
        b'-' if is_pytest_run(s, start) => return found(Mark::Id),
        _ => {}
    }
    match before(v, start) {
        Before::Id if length <= MAX_ID_DIGITS && next != b'/' && !follows(s, end, b" of ") => found(Mark::Id),
        Before::Port if is_ephemeral(s, start, end) => found(Mark::Port),
        Before::Stamp | Before::Time if is_epoch(s, start, end) => found(Mark::Time),
        Before::Took if !counts(s, end) => found(Mark::Took),
        Before::Commit if (MIN_HASH..=40).contains(&length) => found(Mark::Hash),
        _ => None,
    }
}

/// Whether the number is that of a run directory: `pytest-of-me/pytest-12`.
fn is_pytest_run(s: &[u8], start: usize) -> bool {
    start.checked_sub(8).is_some_and(|p| follows(s, p, b"/pytest-"))
}

/// Whether the name of this machine ends at `colon`.
fn is_local(s: &[u8], colon: usize) -> bool {
    s.get(..colon).is_some_and(|host| {
        host.ends_with(b"localhost") || host.ends_with(b"::1]") || host.ends_with(b"[::]")
    })
}

fn is_ephemeral(s: &[u8], start: usize, end: usize) -> bool {
    let port = s.get(start..end).filter(|port| port.len() == 5);
    let value = port.map(|port| port.iter().fold(0, |sum, &b| sum * 10 + u32::from(b.wrapping_sub(b'0'))));
    value.is_some_and(|value| (FIRST_EPHEMERAL_PORT..=65_535).contains(&value)) && !is(at(s, end), WORD)
}

/// Seconds, or a thousandth, millionth or billionth of them, since 1970.
fn is_epoch(s: &[u8], start: usize, end: usize) -> bool {
    matches!(end - start, 10 | 13 | 16 | 19) && at(s, start) == b'1'
}
