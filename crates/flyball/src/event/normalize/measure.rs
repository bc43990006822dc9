//! Matches measurements of a run: durations, speeds and transfer progress.

use super::bytes::{
    ALPHA, DIGIT, WORD, byte_at, has_class, number_end, read_letters, starts_with_at, word_key, words,
};
use super::context::{PrecedingWord, ScanContext, preceding_word};
use super::timestamp;
use super::volatile::{Placeholder, VolatileSpan};

/// Maximum number of parts of one duration, as in `1h 2m 3s`.
const MAX_PARTS: usize = 6;

/// Whether the word is an unambiguous unit of time.
pub(super) fn is_time_unit(word: u64) -> bool {
    words! {
        NS = "ns", US = "us", MS = "ms", S = "s", SEC = "sec", SECS = "secs", SECOND = "second", SECONDS = "seconds",
        MSEC = "msec", MIN = "min", MINS = "mins", MINUTE = "minute", MINUTES = "minutes",
        HR = "hr", HRS = "hrs", HOUR = "hour", HOURS = "hours", DAY = "day", DAYS = "days",
    }
    matches!(
        word,
        NS | US
            | MS
            | S
            | SEC
            | SECS
            | SECOND
            | SECONDS
            | MSEC
            | MIN
            | MINS
            | MINUTE
            | MINUTES
            | HR
            | HRS
            | HOUR
            | HOURS
            | DAY
            | DAYS
    )
}

/// Whether the word is a unit of size in bytes.
pub(super) fn is_size_unit(word: u64) -> bool {
    words! { B = "b", KB = "kb", MB = "mb", GB = "gb", TB = "tb", KIB = "kib", MIB = "mib", GIB = "gib" }
    matches!(word, B | KB | MB | GB | TB | KIB | MIB | GIB)
}

/// Matches a number with a unit of time or speed, or the two sizes of a transfer.
pub(super) fn find_measurement(v: &ScanContext, i: usize) -> Option<VolatileSpan> {
    find_measurement_after(v, i, number_end(v.bytes, i))
}

/// The same for a number that ends at `e`.
pub(super) fn find_measurement_after(v: &ScanContext, i: usize, e: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    if e == i {
        return None;
    }
    if byte_at(s, e) == b'/' {
        let rate = per_second_end(s, e + 1).map(|end| VolatileSpan::new(i, end, Placeholder::Speed));
        return rate.or_else(|| {
            transfer_end(s, e + 1).map(|end| VolatileSpan::new(i, end, Placeholder::ProgressBar))
        });
    }
    let (unit, unit_end) = unit_after(s, e);
    if unit_end == e {
        return None;
    }
    if byte_at(s, unit_end) == b'/' {
        let p = unit_end + 1;
        let slow = unit == SECONDS && starts_with_at(s, p, b"it") && !has_class(byte_at(s, p + 2), WORD);
        if let Some(end) = if slow { Some(p + 2) } else { per_second_end(s, p) } {
            return Some(VolatileSpan::new(i, end, Placeholder::Speed));
        }
    }
    if is_size_unit(unit) {
        let p = unit_end + usize::from(byte_at(s, unit_end) == b' ');
        let q = p + 1 + usize::from(byte_at(s, p + 1) == b' ');
        return if byte_at(s, p) == b'/' {
            transfer_end(s, q).map(|end| VolatileSpan::new(i, end, Placeholder::ProgressBar))
        } else {
            None
        };
    }
    if !is_time_unit(unit) && !matches!(unit, MINUTES | HOURS) {
        return None;
    }
    find_duration(v, i, e, (unit, unit_end))
}

/// Where the `s` of `12 MB/s` ends.
fn per_second_end(s: &[u8], i: usize) -> Option<usize> {
    words! { S = "s", SEC = "sec", SECOND = "second" }
    let (unit, end) = read_letters(s, i);
    (matches!(unit, S | SEC | SECOND) && !has_class(byte_at(s, end), WORD)).then_some(end)
}

const SECONDS: u64 = word_key("s");
const MINUTES: u64 = word_key("m");
const HOURS: u64 = word_key("h");

/// The unit after a number that ends at `e`, after at most one space; micro signs count as `u`.
fn unit_after(s: &[u8], e: usize) -> (u64, usize) {
    let p = e + usize::from(byte_at(s, e) == b' ');
    match read_letters(s, p) {
        found if found.1 > p => found,
        _ if starts_with_at(s, p, "µs".as_bytes()) || starts_with_at(s, p, "μs".as_bytes()) => {
            (word_key("us"), p + 3)
        }
        _ => (0, e),
    }
}

/// Where the second size of `12.3 MB/45 MB` ends.
fn transfer_end(s: &[u8], i: usize) -> Option<usize> {
    let e = number_end(s, i);
    let (unit, end) = unit_after(s, e);
    (e > i && is_size_unit(unit) && !has_class(byte_at(s, end), WORD)).then_some(end)
}

/// Matches consecutive numbers with units of time: `0.12s`, `3m 20s`, `0m0.120s`, `1 minute 5 seconds`.
fn find_duration(v: &ScanContext, i: usize, e: usize, first: (u64, usize)) -> Option<VolatileSpan> {
    let s = v.bytes;
    let (mut e, (mut unit, mut unit_end)) = (e, first);
    let (mut end, mut doubtful) = (i, false);
    for part in 0..MAX_PARTS {
        let joined = has_class(byte_at(s, e), ALPHA);
        // A lone `5m` may mean anything; `5m 3s` is a duration.
        let letter = joined && matches!(unit, MINUTES | HOURS);
        let after = byte_at(s, unit_end);
        let more = joined && has_class(after, DIGIT);
        if !letter && !is_time_unit(unit) || has_class(after, WORD) && !more {
            break;
        }
        doubtful = part == 0 && letter;
        if !more {
            end = unit_end;
        }
        let next = unit_end + usize::from(after == b' ');
        e = number_end(s, next);
        if e == next {
            break;
        }
        (unit, unit_end) = self::unit_after(s, e);
    }
    if end == i
        || doubtful
            && !matches!(
                preceding_word(v, i),
                PrecedingWord::MayPrecedeDuration | PrecedingWord::Duration | PrecedingWord::TimeOrDuration
            )
    {
        return None;
    }
    // pytest repeats a long duration as a clock time.
    if starts_with_at(s, end, b" (")
        && let Some(clock) = timestamp::clock_end(s, end + 2)
        && byte_at(s, clock) == b')'
    {
        end = clock + 1;
    }
    Some(VolatileSpan::new(i, end, Placeholder::Duration))
}
