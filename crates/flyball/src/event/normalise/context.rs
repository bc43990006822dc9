//! What a recogniser may see of the text, and what the word before a number says about it.

use super::bytes::{ALPHA, LINK, WORD, at, blanks, count, is, letters_before, words};
use super::measure::is_time_unit;

/// Most bytes between a word and the number that belongs to it.
const MAX_LINKS: usize = 4;

/// What a recogniser may see.
pub(super) struct View<'a> {
    pub(super) s: &'a [u8],
    /// Everything before has been written; looking back ends here, so that a second pass sees the same.
    pub(super) floor: usize,
    /// Where the line starts.
    pub(super) line: usize,
    /// Whether the line has a time before.
    pub(super) timed: bool,
}

impl View<'_> {
    /// The byte `k` places before `i`, or zero if it is not part of the text still to be written.
    #[inline(always)]
    pub(super) fn back(&self, i: usize, k: usize) -> u8 {
        if i >= self.floor + k { at(self.s, i - k) } else { 0 }
    }
}

/// What the word before a number says about it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    /// A process or a thread.
    Id,
    Port,
    /// A point in time.
    Stamp,
    /// A point in time or a duration.
    Time,
    /// A duration, even without a unit.
    Took,
    /// May lead a duration: `in 5m`.
    Span,
    /// An asserted value: always information.
    Assert,
    /// The left or right side of an assertion, if at the start of a line.
    Side,
    /// A code or a limit: information, whatever it looks like.
    Code,
    Commit,
    Month,
    Weekday,
}

/// What stands before the number at `i`.
pub(super) fn before(v: &View, i: usize) -> Before {
    let seen = v.s.get(v.floor..i).unwrap_or_default();
    let mut links = 0;
    let mut after = 0;
    for &b in seen.iter().rev() {
        if matches!((b, after), (b'=' | b'!', b'=')) {
            return Before::Assert;
        }
        if links == MAX_LINKS || !is(b, LINK) {
            break;
        }
        links += 1;
        after = b;
    }
    count(links);
    if links == 0 || !is(v.back(i - links, 1), ALPHA) {
        return Before::Nothing;
    }
    word_before(v, i - links).0
}

/// The meaning of the word that ends at `end`, and where it starts.
pub(super) fn word_before(v: &View, end: usize) -> (Before, usize) {
    let (word, start) = letters_before(v.s, v.floor, end);
    let prev = v.back(start, 1);
    if is(prev, ALPHA) {
        // Longer words are known by their last eight letters.
        return (long_word(word), start);
    }
    let meaning = meaning(word);
    match meaning {
        // `duration_ms` is a duration.
        Before::Nothing if prev == b'_' && is_time_unit(word) => {
            let measured = self::meaning(letters_before(v.s, v.floor, start - 1).0);
            (
                if matches!(measured, Before::Took | Before::Time) { Before::Took } else { Before::Nothing },
                start,
            )
        }
        // The values of a failed assertion in Rust stand at the start of a line; `time left: 5s` is none.
        Before::Side if blanks(v.s, v.line, MAX_LINKS) == start => (Before::Assert, start),
        Before::Side => (Before::Nothing, start),
        Before::Month | Before::Weekday if !at(v.s, start).is_ascii_uppercase() || is(prev, WORD) => {
            (Before::Nothing, start)
        }
        _ => (meaning, start),
    }
}

fn long_word(last_letters: u64) -> Before {
    words! { TIMESTAMP = "imestamp", GOROUTINE = "oroutine", EXCEPTION = "xception" }
    match last_letters {
        TIMESTAMP => Before::Stamp,
        GOROUTINE => Before::Id,
        EXCEPTION => Before::Code,
        _ => Before::Nothing,
    }
}

pub(super) fn meaning(word: u64) -> Before {
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
        PID | PPID | TID | LWP | PROCESS | THREAD => Before::Id,
        PORT => Before::Port,
        TS | AT | EPOCH | SINCE | MTIME | DATE => Before::Stamp,
        TIME | REAL | USER | SYS => Before::Time,
        TOOK | ELAPSED | DURATION | LATENCY => Before::Took,
        IN | AFTER | FOR | UPTIME => Before::Span,
        ASSERT | EXPECTED | GOT | ACTUAL | WANT | WANTED => Before::Assert,
        CODE | STATUS | ERROR | EXIT | ERRNO | SIGNAL | HRESULT | TIMEOUT | LIMIT | DEADLINE => Before::Code,
        COMMIT | SHA => Before::Commit,
        LEFT | RIGHT => Before::Side,
        MON | TUE | WED | THU | FRI | SAT | SUN => Before::Weekday,
        JAN | FEB | MAR | APR | MAY | JUN | JUL | AUG | SEP | OCT | NOV | DEC => Before::Month,
        _ => Before::Nothing,
    }
}
