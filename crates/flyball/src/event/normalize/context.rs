//! The matchers' view of the text, and the meaning of the word before a number.

use super::bytes::{
    ALPHA, LINK, WORD, byte_at, count_examined, has_class, read_letters_before, skip_blanks, words,
};
use super::measure::is_time_unit;

/// Maximum number of bytes between a word and its number.
const MAX_LINKS: usize = 4;

/// The part of the text that a matcher may see.
pub(super) struct ScanContext<'a> {
    pub(super) bytes: &'a [u8],
    /// Everything before this has been written. Looking back ends here, so that a second pass sees the same.
    pub(super) floor: usize,
    /// Start of the line.
    pub(super) line_start: usize,
    /// Whether the line already contained a time.
    pub(super) saw_time: bool,
}

impl ScanContext<'_> {
    /// The byte `k` positions before `i`, or zero if it has already been written.
    #[inline(always)]
    pub(super) fn byte_before(&self, i: usize, k: usize) -> u8 {
        if i >= self.floor + k { byte_at(self.bytes, i - k) } else { 0 }
    }
}

/// The meaning of the word before a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PrecedingWord {
    Nothing,
    /// A process or thread id.
    Id,
    Port,
    /// A point in time.
    Timestamp,
    /// A point in time or a duration.
    TimeOrDuration,
    /// A duration, even without a unit.
    Duration,
    /// May precede a duration: `in 5m`.
    MayPrecedeDuration,
    /// An asserted value, which is always information.
    Assert,
    /// The left or right side of an assertion, at the start of a line.
    AssertSide,
    /// A code or a limit, which is always information.
    CodeOrLimit,
    Commit,
    Month,
    Weekday,
}

/// The meaning of the text before the number at `i`.
pub(super) fn preceding_word(v: &ScanContext, i: usize) -> PrecedingWord {
    let seen = v.bytes.get(v.floor..i).unwrap_or_default();
    let mut links = 0;
    let mut after = 0;
    for &b in seen.iter().rev() {
        if matches!((b, after), (b'=' | b'!', b'=')) {
            return PrecedingWord::Assert;
        }
        if links == MAX_LINKS || !has_class(b, LINK) {
            break;
        }
        links += 1;
        after = b;
    }
    count_examined(links);
    if links == 0 || !has_class(v.byte_before(i - links, 1), ALPHA) {
        return PrecedingWord::Nothing;
    }
    word_ending_at(v, i - links).0
}

/// The meaning of the word that ends at `end`, and where it starts.
pub(super) fn word_ending_at(v: &ScanContext, end: usize) -> (PrecedingWord, usize) {
    let (word, start) = read_letters_before(v.bytes, v.floor, end);
    let prev = v.byte_before(start, 1);
    if has_class(prev, ALPHA) {
        // Longer words are identified by their last eight letters.
        return (classify_long_word(word), start);
    }
    let meaning = classify_word(word);
    match meaning {
        // `duration_ms` is a duration.
        PrecedingWord::Nothing if prev == b'_' && is_time_unit(word) => {
            let measured = self::classify_word(read_letters_before(v.bytes, v.floor, start - 1).0);
            (
                if matches!(measured, PrecedingWord::Duration | PrecedingWord::TimeOrDuration) {
                    PrecedingWord::Duration
                } else {
                    PrecedingWord::Nothing
                },
                start,
            )
        }
        // Rust prints the values of a failed assertion at the start of a line; `time left: 5s` is not one of them.
        PrecedingWord::AssertSide if skip_blanks(v.bytes, v.line_start, MAX_LINKS) == start => {
            (PrecedingWord::Assert, start)
        }
        PrecedingWord::AssertSide => (PrecedingWord::Nothing, start),
        PrecedingWord::Month | PrecedingWord::Weekday
            if !byte_at(v.bytes, start).is_ascii_uppercase() || has_class(prev, WORD) =>
        {
            (PrecedingWord::Nothing, start)
        }
        _ => (meaning, start),
    }
}

fn classify_long_word(last_letters: u64) -> PrecedingWord {
    words! { TIMESTAMP = "imestamp", GOROUTINE = "oroutine", EXCEPTION = "xception" }
    match last_letters {
        TIMESTAMP => PrecedingWord::Timestamp,
        GOROUTINE => PrecedingWord::Id,
        EXCEPTION => PrecedingWord::CodeOrLimit,
        _ => PrecedingWord::Nothing,
    }
}

pub(super) fn classify_word(word: u64) -> PrecedingWord {
    words! {
        PID = "pid", PPID = "ppid", TID = "tid", LWP = "lwp", PROCESS = "process", THREAD = "thread",
        PORT = "port", TS = "ts", AT = "at", EPOCH = "epoch", SINCE = "since", MTIME = "mtime", DATE = "date",
        TIME = "time", REAL = "real", USER = "user", SYS = "sys", TOOK = "took", ELAPSED = "elapsed",
        DURATION = "duration", LATENCY = "latency", IN = "in", AFTER = "after", FOR = "for", UPTIME = "uptime",
        ASSERT = "assert", EXPECTED = "expected", GOT = "got", ACTUAL = "actual", WANT = "want", WANTED = "wanted",
        CODE = "code", STATUS = "status", ERROR = "error", EXIT = "exit", ERRNO = "errno", SIGNAL = "signal",
        HRESULT = "hresult", TIMEOUT = "timeout", LIMIT = "limit", DEADLINE = "deadline",
        COMMIT = "commit", SHA = "sha", LEFT = "left", RIGHT = "right",
        JAN = "jan", FEB = "feb", MAR = "mar", APR = "apr", MAY = "may", JUN = "jun",
        JUL = "jul", AUG = "aug", SEP = "sep", OCT = "oct", NOV = "nov", DEC = "dec",
        MON = "mon", TUE = "tue", WED = "wed", THU = "thu", FRI = "fri", SAT = "sat", SUN = "sun",
    }
    match word {
        PID | PPID | TID | LWP | PROCESS | THREAD => PrecedingWord::Id,
        PORT => PrecedingWord::Port,
        TS | AT | EPOCH | SINCE | MTIME | DATE => PrecedingWord::Timestamp,
        TIME | REAL | USER | SYS => PrecedingWord::TimeOrDuration,
        TOOK | ELAPSED | DURATION | LATENCY => PrecedingWord::Duration,
        IN | AFTER | FOR | UPTIME => PrecedingWord::MayPrecedeDuration,
        ASSERT | EXPECTED | GOT | ACTUAL | WANT | WANTED => PrecedingWord::Assert,
        CODE | STATUS | ERROR | EXIT | ERRNO | SIGNAL | HRESULT | TIMEOUT | LIMIT | DEADLINE => {
            PrecedingWord::CodeOrLimit
        }
        COMMIT | SHA => PrecedingWord::Commit,
        LEFT | RIGHT => PrecedingWord::AssertSide,
        MON | TUE | WED | THU | FRI | SAT | SUN => PrecedingWord::Weekday,
        JAN | FEB | MAR | APR | MAY | JUN | JUL | AUG | SEP | OCT | NOV | DEC => PrecedingWord::Month,
        _ => PrecedingWord::Nothing,
    }
}
