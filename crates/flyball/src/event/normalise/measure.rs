//! Recognises what a run measures of itself: durations, speeds, and how much of a transfer is done.

use super::bytes::{ALPHA, DIGIT, WORD, at, follows, is, key, letters, number, words};
use super::context::{Before, View, before};
use super::stamp;
use super::volatile::{Found, Mark};

/// Most parts of one duration, as in `1h 2m 3s`.
const MAX_PARTS: usize = 6;

/// Whether the word is a unit of time that cannot be mistaken.
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

/// Whether the word is a unit of a size in bytes.
pub(super) fn is_size(word: u64) -> bool {
    words! { B = "b", KB = "kb", MB = "mb", GB = "gb", TB = "tb", KIB = "kib", MIB = "mib", GIB = "gib" }
    matches!(word, B | KB | MB | GB | TB | KIB | MIB | GIB)
}

/// A number with a unit of time or speed, or two sizes of a transfer.
pub(super) fn measure(v: &View, i: usize) -> Option<Found> {
    measure_after(v, i, number(v.s, i))
}

/// The same for a number that ends at `e`.
pub(super) fn measure_after(v: &View, i: usize, e: usize) -> Option<Found> {
    let s = v.s;
    if e == i {
        return None;
    }
    if at(s, e) == b'/' {
        let rate = per_second(s, e + 1).map(|end| Found::new(i, end, Mark::Speed));
        return rate.or_else(|| transferred(s, e + 1).map(|end| Found::new(i, end, Mark::Bar)));
    }
    let (unit, unit_end) = unit(s, e);
    if unit_end == e {
        return None;
    }
    if at(s, unit_end) == b'/' {
        let p = unit_end + 1;
        let slow = unit == SECONDS && follows(s, p, b"it") && !is(at(s, p + 2), WORD);
        if let Some(end) = if slow { Some(p + 2) } else { per_second(s, p) } {
            return Some(Found::new(i, end, Mark::Speed));
        }
    }
    if is_size(unit) {
        let p = unit_end + usize::from(at(s, unit_end) == b' ');
        let q = p + 1 + usize::from(at(s, p + 1) == b' ');
        return if at(s, p) == b'/' {
            transferred(s, q).map(|end| Found::new(i, end, Mark::Bar))
        } else {
            None
        };
    }
    if !is_time_unit(unit) && !matches!(unit, MINUTES | HOURS) {
        return None;
    }
    duration(v, i, e, (unit, unit_end))
}

/// Where the `s` of `12 MB/s` ends.
fn per_second(s: &[u8], i: usize) -> Option<usize> {
    words! { S = "s", SEC = "sec", SECOND = "second" }
    let (unit, end) = letters(s, i);
    (matches!(unit, S | SEC | SECOND) && !is(at(s, end), WORD)).then_some(end)
}

const SECONDS: u64 = key("s");
const MINUTES: u64 = key("m");
const HOURS: u64 = key("h");

/// The unit after a number that ends at `e`, with at most one blank between; micro signs count as `u`.
fn unit(s: &[u8], e: usize) -> (u64, usize) {
    let p = e + usize::from(at(s, e) == b' ');
    match letters(s, p) {
        found if found.1 > p => found,
        _ if follows(s, p, "µs".as_bytes()) || follows(s, p, "μs".as_bytes()) => (key("us"), p + 3),
        _ => (0, e),
    }
}

/// Where the second size of `12.3 MB/45 MB` ends.
fn transferred(s: &[u8], i: usize) -> Option<usize> {
    let e = number(s, i);
    let (unit, end) = unit(s, e);
    (e > i && is_size(unit) && !is(at(s, end), WORD)).then_some(end)
}

/// One number with a unit of time after the other: `0.12s`, `3m 20s`, `0m0.120s`, `1 minute 5 seconds`.
fn duration(v: &View, i: usize, e: usize, first: (u64, usize)) -> Option<Found> {
    let s = v.s;
    let (mut e, (mut unit, mut unit_end)) = (e, first);
    let (mut end, mut doubtful) = (i, false);
    for part in 0..MAX_PARTS {
        let joined = is(at(s, e), ALPHA);
        // A lone `5m` may count anything; `5m 3s` does not.
        let letter = joined && matches!(unit, MINUTES | HOURS);
        let after = at(s, unit_end);
        let more = joined && is(after, DIGIT);
        if !letter && !is_time_unit(unit) || is(after, WORD) && !more {
            break;
        }
        doubtful = part == 0 && letter;
        if !more {
            end = unit_end;
        }
        let next = unit_end + usize::from(after == b' ');
        e = number(s, next);
        if e == next {
            break;
        }
        (unit, unit_end) = self::unit(s, e);
    }
    if end == i || doubtful && !matches!(before(v, i), Before::Span | Before::Took | Before::Time) {
        return None;
    }
    // pytest repeats a long duration as a clock.
    if follows(s, end, b" (")
        && let Some(clock) = stamp::clock_end(s, end + 2)
        && at(s, clock) == b')'
    {
        end = clock + 1;
    }
    Some(Found::new(i, end, Mark::Took))
}
