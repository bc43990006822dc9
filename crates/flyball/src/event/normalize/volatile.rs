//! Matches the volatile words of a line: ids, hashes, addresses, ports, and numbers that are times.
//!
//! A number is volatile only by its form or by the word before it; every other number is information.

use super::bytes::{
    ALPHA, DIGIT, HEX, LINK, WORD, byte_at, byte_before, count_examined, digits_end, has_class, skip_blanks,
    starts_with_at,
};
use super::context::{PrecedingWord, ScanContext, preceding_word};
use super::measure::{find_measurement, find_measurement_after};
use super::{progress, timestamp};

/// Minimum length of a run of hexadecimal digits that counts as a hash.
const MIN_HASH: usize = 7;
/// Minimum number of digits of an address after `0x`; shorter ones are values.
const MIN_ADDRESS: usize = 6;
/// First ephemeral port; lower ports are fixed, so they are information.
const FIRST_EPHEMERAL_PORT: u32 = 32_768;
/// Maximum length of a process or thread id.
const MAX_ID_DIGITS: usize = 10;

/// The placeholder for a volatile part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Placeholder {
    /// A timestamp: a date with a time of day, or seconds since 1970.
    Time,
    /// A date without a time.
    Date,
    /// A time of day without a date.
    Clock,
    Duration,
    Speed,
    Id,
    Port,
    Hash,
    Address,
    TempPath,
    ProgressBar,
    Spinner,
}

impl Placeholder {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Placeholder::Time | Placeholder::Date | Placeholder::Clock => "<time>",
            Placeholder::Duration => "<took>",
            Placeholder::Speed => "<speed>",
            Placeholder::Id => "<id>",
            Placeholder::Port => "<port>",
            Placeholder::Hash => "<hash>",
            Placeholder::Address => "<address>",
            Placeholder::TempPath => "<tmp>",
            Placeholder::ProgressBar => "<bar>",
            Placeholder::Spinner => "<spin>",
        }
    }

    /// Whether it is any kind of time.
    pub(super) fn is_time(self) -> bool {
        matches!(self, Placeholder::Time | Placeholder::Date | Placeholder::Clock)
    }

    /// Whether programs pad it to a column, so that the spaces around it depend on its width.
    pub(super) fn is_padded(self) -> bool {
        matches!(
            self,
            Placeholder::Duration | Placeholder::Speed | Placeholder::Id | Placeholder::ProgressBar
        )
    }
}

/// A volatile part of the text, small enough to be passed in registers.
#[derive(Clone, Copy)]
pub(super) struct VolatileSpan {
    pub(super) end: usize,
    length: u32,
    pub(super) placeholder: Placeholder,
}

impl VolatileSpan {
    #[inline(always)]
    pub(super) fn new(start: usize, end: usize, placeholder: Placeholder) -> VolatileSpan {
        VolatileSpan { end, length: end.saturating_sub(start) as u32, placeholder }
    }

    #[inline(always)]
    pub(super) fn start(&self) -> usize {
        self.end.saturating_sub(self.length as usize)
    }
}

/// The scanner's next step.
pub(super) enum ScanToken {
    /// Replace this part.
    Volatile(VolatileSpan),
    /// Everything before this position is information.
    Kept(usize),
}

/// Classifies the word around the digit at `i`.
pub(super) fn classify_digit_word(v: &ScanContext, i: usize) -> ScanToken {
    let s = v.bytes;
    let rest = s.get(i..).unwrap_or_default();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    count_examined(digits);
    let token = if has_class(byte_at(s, i + digits), WORD) || has_class(v.byte_before(i, 1), WORD) {
        let length = rest.iter().take_while(|&&b| has_class(b, WORD)).count();
        let seen = s.get(v.floor..i).unwrap_or_default();
        let lead = seen.iter().rev().take_while(|&&b| has_class(b, WORD)).count();
        count_examined(length + lead);
        classify_alphanumeric(v, i - lead, i + length)
    } else {
        classify_integer(v, i, i + digits)
    };
    match token {
        ScanToken::Volatile(found) if is_information(v, &found) => ScanToken::Kept(found.end),
        token => token,
    }
}

/// Whether the preceding word marks the match as information.
fn is_information(v: &ScanContext, found: &VolatileSpan) -> bool {
    match found.placeholder {
        Placeholder::Duration | Placeholder::Address => {
            matches!(preceding_word(v, found.start()), PrecedingWord::Assert | PrecedingWord::CodeOrLimit)
        }
        Placeholder::Time
        | Placeholder::Date
        | Placeholder::Clock
        | Placeholder::Speed
        | Placeholder::Hash => preceding_word(v, found.start()) == PrecedingWord::Assert,
        _ => false,
    }
}

/// Classifies a word of digits and letters.
fn classify_alphanumeric(v: &ScanContext, start: usize, end: usize) -> ScanToken {
    let s = v.bytes;
    let length = end - start;
    // The last part of a version or decimal number.
    if v.byte_before(start, 1) == b'.'
        && has_class(byte_at(s, start), DIGIT)
        && has_class(v.byte_before(start, 2), DIGIT)
    {
        return ScanToken::Kept(end);
    }
    let hex = (length >= MIN_HASH || length == 4) && all_hex(s, start, end);
    let found = if hex && length >= MIN_HASH {
        find_uuid(v, start).or(Some(VolatileSpan::new(start, end, Placeholder::Hash)))
    } else if hex && v.byte_before(start, 1) == b'-' && start >= v.floor + 9 {
        find_uuid(v, start - 9)
    } else if byte_at(s, end) == b'-' && byte_before(s, end, 5) == b'_' {
        timestamp::find_year_first_date(v, end - 4)
    } else if !has_class(byte_at(s, start), DIGIT) {
        find_git_describe_hash(v, start, end)
    } else if byte_at(s, start + 1) | 0x20 == b'x' {
        let address = byte_at(s, start) == b'0' && length >= MIN_ADDRESS + 2 && all_hex(s, start + 2, end);
        address.then_some(VolatileSpan::new(start, end, Placeholder::Address))
    } else if byte_at(s, start + 8) == b'T' {
        timestamp::find_compact_timestamp(v, start).or_else(|| find_measurement(v, start))
    } else {
        find_measurement(v, start)
    };
    found.map_or(ScanToken::Kept(end), ScanToken::Volatile)
}

/// Matches the hash in the output of `git describe`: `v1.2-3-gabc1234`.
fn find_git_describe_hash(v: &ScanContext, start: usize, end: usize) -> Option<VolatileSpan> {
    let whole = byte_at(v.bytes, start) == b'g' && v.byte_before(start, 1) == b'-' && end - start > MIN_HASH;
    (whole && all_hex(v.bytes, start + 1, end)).then_some(VolatileSpan::new(start, end, Placeholder::Hash))
}

fn all_hex(s: &[u8], start: usize, end: usize) -> bool {
    s.get(start..end).is_some_and(|part| part.iter().all(|&b| has_class(b, HEX)))
}

fn find_uuid(v: &ScanContext, start: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    let dashes = [8, 13, 18, 23].iter().all(|&k| byte_at(s, start + k) == b'-');
    let groups = [(0, 8), (9, 13), (14, 18), (19, 23), (24, 36)];
    let whole = dashes && groups.iter().all(|&(a, b)| all_hex(s, start + a, start + b));
    let decimal = v.byte_before(start, 1) == b'.' && has_class(v.byte_before(start, 2), DIGIT);
    let alone =
        !has_class(byte_at(s, start + 36), WORD) && !has_class(v.byte_before(start, 1), WORD) && !decimal;
    (whole && alone).then_some(VolatileSpan::new(start, start + 36, Placeholder::Id))
}

/// Classifies a word of digits only.
fn classify_integer(v: &ScanContext, start: usize, end: usize) -> ScanToken {
    let s = v.bytes;
    let short = end - start <= 2;
    if v.byte_before(start, 1) == b'.' && has_class(v.byte_before(start, 2), WORD) {
        return ScanToken::Kept(end);
    }
    let found = match byte_at(s, end) {
        b'-' | b'/' => find_after_dash_or_slash(v, start, end),
        b':' if short => timestamp::find_clock(v, start),
        b'.' if has_class(byte_at(s, end + 1), DIGIT) => return classify_dotted(v, start, end),
        b'%' => progress::find_percent_bar(v, start, end),
        b' ' | b',' => find_after_blank(v, start, end),
        0xC2 | 0xCE => find_measurement(v, start),
        _ => None,
    };
    found.or_else(|| find_by_context(v, start, end)).map_or(ScanToken::Kept(end), ScanToken::Volatile)
}

/// Matches digits that are followed by a space or a comma.
fn find_after_blank(v: &ScanContext, start: usize, end: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    let short = end - start <= 2;
    let next = byte_at(s, end + 1);
    // Of the preceding three-letter words, only the names of months matter.
    if short && (v.byte_before(start, 4).is_ascii_uppercase() || v.byte_before(start, 5).is_ascii_uppercase())
    {
        let found = timestamp::find_month_first_date(v, start, end);
        if found.is_some() {
            return found;
        }
    }
    match next | 0x20 {
        b'a'..=b'z' if short && next.is_ascii_uppercase() => {
            timestamp::find_day_first_date(v, start, end).or_else(|| find_measurement_after(v, start, end))
        }
        // No unit starts with another letter.
        b'b' | b'd' | b'g' | b'h' | b'i' | b'k' | b'm' | b'n' | b'o' | b'r' | b's' | b't' | b'u'
            if byte_at(s, end) == b' ' =>
        {
            find_measurement_after(v, start, end)
        }
        _ if has_class(next, DIGIT) && byte_at(s, end) == b',' || matches!(next, b'/' | 0xC2 | 0xCE) => {
            find_measurement(v, start)
        }
        _ => None,
    }
}

/// Matches digits that are followed by a dash or a slash.
fn find_after_dash_or_slash(v: &ScanContext, start: usize, end: usize) -> Option<VolatileSpan> {
    match (end - start, byte_at(v.bytes, end)) {
        (4, _) if v.byte_before(start, 1) == b'-' && start >= v.floor + 9 => {
            find_uuid(v, start - 9).or_else(|| timestamp::find_year_first_date(v, start))
        }
        (4, _) => timestamp::find_year_first_date(v, start)
            .or_else(|| if byte_at(v.bytes, end) == b'/' { find_ratio(v, start, end) } else { None }),
        (8, b'-') => find_uuid(v, start).or_else(|| timestamp::find_compact_timestamp(v, start)),
        (1 | 2, sep) => {
            let date = timestamp::find_day_first_date(v, start, end);
            if sep == b'-' {
                date
            } else {
                date.or_else(|| timestamp::find_year_last_date(v, start, end))
                    .or_else(|| find_ratio(v, start, end))
            }
        }
        (_, b'/') => find_ratio(v, start, end),
        _ => None,
    }
}

fn find_ratio(v: &ScanContext, start: usize, slash: usize) -> Option<VolatileSpan> {
    progress::find_counted_bar(v, start, slash).or_else(|| find_measurement(v, start))
}

/// Classifies digits separated by dots: a decimal number, a version, or an address with its port.
fn classify_dotted(v: &ScanContext, start: usize, first_end: usize) -> ScanToken {
    let s = v.bytes;
    let (mut end, mut dots) = (first_end, 0);
    while byte_at(s, end) == b'.' && has_class(byte_at(s, end + 1), DIGIT) {
        dots += 1;
        end += 1;
        while has_class(byte_at(s, end), DIGIT) {
            end += 1;
        }
    }
    let found = match dots {
        1 if byte_at(s, end) == b'%' => progress::find_percent_bar(v, start, end),
        // Digits, an `e` and digits look like a hash, but after a decimal point they are a value.
        1 if byte_at(s, end) | 0x20 == b'e' => return ScanToken::Kept(digits_end(s, end + 1, 4)),
        1 => find_measurement(v, start).or_else(|| find_decimal_time(v, start, first_end, end)),
        3 if byte_at(s, end) == b':' => {
            let port_end = digits_end(s, end + 1, 6);
            is_ephemeral(s, end + 1, port_end).then_some(VolatileSpan::new(
                end + 1,
                port_end,
                Placeholder::Port,
            ))
        }
        _ => None,
    };
    found.map_or(ScanToken::Kept(end), ScanToken::Volatile)
}

/// Matches a decimal number without a unit that its context makes a time.
fn find_decimal_time(v: &ScanContext, start: usize, point: usize, end: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    if has_class(byte_at(s, end), WORD) {
        return None;
    }
    // The kernel log starts its lines with the seconds since boot: `[    1.234567]`.
    let clocked = byte_at(s, v.line_start) == b'[' && byte_at(s, end) == b']' && end - point == 7;
    if clocked && v.line_start + 12 >= start && skip_blanks(s, v.line_start + 1, 12) == start {
        return Some(VolatileSpan::new(v.line_start + 1, end, Placeholder::Time));
    }
    let stamp = is_epoch(s, start, point);
    match preceding_word(v, start) {
        PrecedingWord::Timestamp | PrecedingWord::TimeOrDuration if stamp => {
            Some(VolatileSpan::new(start, end, Placeholder::Time))
        }
        PrecedingWord::Duration | PrecedingWord::TimeOrDuration if !counts_something(s, end) => {
            Some(VolatileSpan::new(start, end, Placeholder::Duration))
        }
        _ if stamp && byte_at(s, v.line_start) == b'[' && v.line_start + 1 == start => {
            Some(VolatileSpan::new(start, end, Placeholder::Time))
        }
        _ => None,
    }
}

/// Whether a word, or the placeholder of a word, follows, so that the number is a count.
fn counts_something(s: &[u8], end: usize) -> bool {
    let next = byte_at(s, end + 1);
    byte_at(s, end) == b' ' && (has_class(next, ALPHA) || next == b'<')
}

/// Matches an integer that its context makes volatile.
fn find_by_context(v: &ScanContext, start: usize, end: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    let length = end - start;
    let (prev, next) = (v.byte_before(start, 1), byte_at(s, end));
    let found = |mark| Some(VolatileSpan::new(start, end, mark));
    if matches!(length, 32 | 40 | 64) {
        return found(Placeholder::Hash);
    }
    if !has_class(prev, LINK) || next == b'%' {
        return None;
    }
    match prev {
        // Valgrind and the sanitizers.
        b'=' if v.line_start + 2 == start
            && byte_at(s, v.line_start) == b'='
            && starts_with_at(s, end, b"==") =>
        {
            return found(Placeholder::Id);
        }
        b'[' if v.line_start + 1 == start && is_epoch(s, start, end) => return found(Placeholder::Time),
        b'[' if v.saw_time && starts_with_at(s, end, b"]:") => return found(Placeholder::Id),
        b'(' if starts_with_at(s, end, b") panicked") => return found(Placeholder::Id),
        b':' if length == 5 && is_localhost(s, start - 1) && is_ephemeral(s, start, end) => {
            return found(Placeholder::Port);
        }
        b'-' if is_pytest_run(s, start) => return found(Placeholder::Id),
        _ => {}
    }
    match preceding_word(v, start) {
        PrecedingWord::Id if length <= MAX_ID_DIGITS && next != b'/' && !starts_with_at(s, end, b" of ") => {
            found(Placeholder::Id)
        }
        PrecedingWord::Port if is_ephemeral(s, start, end) => found(Placeholder::Port),
        PrecedingWord::Timestamp | PrecedingWord::TimeOrDuration if is_epoch(s, start, end) => {
            found(Placeholder::Time)
        }
        PrecedingWord::Duration if !counts_something(s, end) => found(Placeholder::Duration),
        PrecedingWord::Commit if (MIN_HASH..=40).contains(&length) => found(Placeholder::Hash),
        _ => None,
    }
}

/// Whether the number belongs to a pytest run directory: `pytest-of-me/pytest-12`.
fn is_pytest_run(s: &[u8], start: usize) -> bool {
    start.checked_sub(8).is_some_and(|p| starts_with_at(s, p, b"/pytest-"))
}

/// Whether a name of the local machine ends at `colon`.
fn is_localhost(s: &[u8], colon: usize) -> bool {
    s.get(..colon).is_some_and(|host| {
        host.ends_with(b"localhost") || host.ends_with(b"::1]") || host.ends_with(b"[::]")
    })
}

fn is_ephemeral(s: &[u8], start: usize, end: usize) -> bool {
    let port = s.get(start..end).filter(|port| port.len() == 5);
    let value = port.map(|port| port.iter().fold(0, |sum, &b| sum * 10 + u32::from(b.wrapping_sub(b'0'))));
    value.is_some_and(|value| (FIRST_EPHEMERAL_PORT..=65_535).contains(&value))
        && !has_class(byte_at(s, end), WORD)
}

/// Whether the number is a Unix time in seconds, milliseconds, microseconds or nanoseconds.
fn is_epoch(s: &[u8], start: usize, end: usize) -> bool {
    matches!(end - start, 10 | 13 | 16 | 19) && byte_at(s, start) == b'1'
}
