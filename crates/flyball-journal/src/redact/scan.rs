//! Looks for the beginnings of secrets, as fast as the memory of the processor allows.
//!
//! Four tables, one for each of the first four bytes of an anchor, say in which groups of anchors a byte may stand.
//! Where the four agree, the anchors of the group are compared. No state is carried from byte to byte, so the processor
//! works on many places at once. The tables are constants: a process that looks at one event and ends pays nothing for
//! them.

use super::anchors::{Anchor, COUNT, word};
use super::raw::at;

/// Groups of anchors: one bit each. The last one holds what is known by classes of bytes.
const GROUPS: usize = 64;
const CLASSES: usize = GROUPS - 1;
/// Bytes of an anchor that the tables know.
const KNOWN: usize = 4;
/// The longest rest of a name, and the longest user of a URL, that are looked at here.
const NAME_BYTES: usize = 64;
const USER_BYTES: usize = 320;
/// Places that are looked at together.
const STEP: usize = 4;
/// For each byte, the groups in which it may stand.
type Table = [u64; 256];

/// The first four bytes of base64 text that holds decimal digits: the first part of a Discord token.
const DIGITS_IN_BASE64: [&[u8]; KNOWN] = [b"MNO", b"TjzD", b"AEIMQUYcgk", b"wxyz012345"];

/// Everything that is known about the anchors before the first byte is looked at.
struct Index {
    tables: [Table; KNOWN],
    /// The anchors, group by group, the longest of a group first.
    order: [u16; COUNT],
    /// Where each group begins in the order.
    first: [u16; GROUPS + 1],
}

static INDEX: Index = index();

/// An anchor that was found.
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) anchor: Anchor,
}

/// Anchors that begin alike are in one group, so that the longest is found first.
const fn group(word: &[u8]) -> usize {
    (word[0].to_ascii_lowercase() as usize * 37 + word[1].to_ascii_lowercase() as usize * 5) % CLASSES
}

const fn index() -> Index {
    let mut index = Index { tables: [[0; 256]; KNOWN], order: [0; COUNT], first: [0; GROUPS + 1] };
    let mut n = 0;
    while n < COUNT {
        let bytes = word(n).as_bytes();
        let bit = 1_u64 << group(bytes);
        let mut known = 0;
        while known < KNOWN {
            if known < bytes.len() {
                index.tables[known][bytes[known].to_ascii_lowercase() as usize] |= bit;
                index.tables[known][bytes[known].to_ascii_uppercase() as usize] |= bit;
            } else {
                // A short anchor does not care what follows it.
                let mut byte = 0;
                while byte < 256 {
                    index.tables[known][byte] |= bit;
                    byte += 1;
                }
            }
            known += 1;
        }
        // Insertion sort: by group, then the longest first.
        let mut place = n;
        while place > 0 && before(n, index.order[place - 1] as usize) {
            index.order[place] = index.order[place - 1];
            place -= 1;
        }
        index.order[place] = n as u16;
        n += 1;
    }
    let mut known = 0;
    while known < KNOWN {
        let mut n = 0;
        while n < DIGITS_IN_BASE64[known].len() {
            index.tables[known][DIGITS_IN_BASE64[known][n] as usize] |= 1 << CLASSES;
            n += 1;
        }
        known += 1;
    }
    let mut n = 0;
    while n < COUNT {
        let mut after = group(word(n).as_bytes()) + 1;
        while after <= GROUPS {
            index.first[after] += 1;
            after += 1;
        }
        n += 1;
    }
    index
}

const fn before(one: usize, other: usize) -> bool {
    let (one, other) = (word(one).as_bytes(), word(other).as_bytes());
    let (a, b) = (group(one), group(other));
    a < b || (a == b && one.len() > other.len())
}

/// The next anchor at or behind a place, whatever its case.
pub(super) fn next(bytes: &[u8], from: usize) -> Option<Hit> {
    let mut place = from;
    while place < bytes.len() {
        // Several places at once, as long as none of them is of interest.
        let windows = bytes.get(place..)?.windows(STEP + KNOWN - 1).step_by(STEP);
        place += STEP * windows.take_while(|window| quiet(window)).count();
        for start in place..bytes.len().min(place + STEP) {
            if let Some(hit) = compare(bytes, start) {
                return Some(hit);
            }
        }
        place += STEP;
    }
    None
}

/// Whether no anchor begins in the first places of the window.
#[inline]
fn quiet(window: &[u8]) -> bool {
    let [a, b, c, d, e, f, g] = window else { return false };
    let all =
        groups_of([a, b, c, d]) | groups_of([b, c, d, e]) | groups_of([c, d, e, f]) | groups_of([d, e, f, g]);
    all == 0
}

/// The groups of which an anchor may begin with these bytes.
#[inline]
fn groups_of(bytes: [&u8; KNOWN]) -> u64 {
    let ([first, second, third, fourth], [a, b, c, d]) = (&INDEX.tables, bytes);
    first[usize::from(*a)] & second[usize::from(*b)] & third[usize::from(*c)] & fourth[usize::from(*d)]
}

fn compare(bytes: &[u8], start: usize) -> Option<Hit> {
    let byte = |n: usize| bytes.get(start + n).unwrap_or(&0);
    let mut groups = groups_of([byte(0), byte(1), byte(2), byte(3)]);
    while groups != 0 {
        let group = groups.trailing_zeros() as usize;
        if group == CLASSES {
            return Some(Hit { start, end: start + KNOWN, anchor: Anchor::Discord });
        }
        let from = usize::from(*INDEX.first.get(group)?);
        let to = usize::from(*INDEX.first.get(group + 1)?);
        for index in INDEX.order.get(from..to)? {
            let word = word(usize::from(*index));
            let end = start + word.len();
            if bytes.get(start..end).is_some_and(|text| text.eq_ignore_ascii_case(word.as_bytes())) {
                return Some(Hit { start, end, anchor: super::anchors::anchor(usize::from(*index)) });
            }
        }
        groups &= groups - 1;
    }
    None
}

/// Whether some anchor is in the text that is worth a closer look.
pub(super) fn promising(bytes: &[u8]) -> bool {
    let mut from = 0;
    while let Some(hit) = next(bytes, from) {
        let vain = match hit.anchor {
            Anchor::Word => in_a_longer_word(bytes, hit.end) || !has_value(bytes, hit.end),
            Anchor::Url => !has_user(bytes, hit.end),
            Anchor::Escape => !matches!(at(bytes, hit.end), b'2'..=b'7'),
            Anchor::Percent => !at(bytes, hit.end).is_ascii_hexdigit(),
            _ => false,
        };
        if !vain {
            return true;
        }
        from = hit.start + 1;
    }
    false
}

/// Whether something that may lead to a value stands behind a name: a quote, `=`, `:`, a blank, a line break.
fn has_value(bytes: &[u8], end: usize) -> bool {
    let rest = bytes.get(end..bytes.len().min(end + NAME_BYTES)).unwrap_or_default();
    let next = rest.iter().find(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')));
    // Anchors such as `sig=` and `basic ` end with such a sign themselves.
    let own = end.checked_sub(1).is_some_and(|place| matches!(at(bytes, place), b'=' | b' '));
    own || next.is_some_and(|byte| byte.is_ascii_whitespace() || b"\"'`\\=:>]%".contains(byte))
}

/// Whether a user may stand before the host of a URL.
fn has_user(bytes: &[u8], end: usize) -> bool {
    let rest = bytes.get(end..bytes.len().min(end + USER_BYTES)).unwrap_or_default();
    let stop = rest.iter().find(|byte| byte.is_ascii_whitespace() || b"@\"'<>/?#".contains(byte));
    stop == Some(&b'@')
}

/// Whether a name such as `token` is part of a longer word, as in `tokens`; `secretKey` and `cookies` are not.
pub(super) fn in_a_longer_word(bytes: &[u8], end: usize) -> bool {
    let last = end.checked_sub(1).map_or(0, |place| at(bytes, place));
    let (after, next) = (at(bytes, end), at(bytes, end + 1));
    let goes_on = match after {
        b'k' | b'a' | b'v' => true,
        // `secretString`, `sharedAccessSignature`, `credentials`, `cookies`.
        b's' => matches!(next, b't' | b'i') || (matches!(last, b'e' | b'l') && !next.is_ascii_lowercase()),
        _ => false,
    };
    after.is_ascii_lowercase() && last.is_ascii_lowercase() && !goes_on
}
