//! Anchor scan: finds the beginnings of possible secrets as fast as the CPU cache allows.
//!
//! Four tables, one for each of the first four bytes of an anchor, map a byte to the groups of anchors that may
//! contain it at that position. If all four agree, the anchors of the group are compared. No state is carried from
//! byte to byte, so the CPU can process several positions in parallel. The tables are constants: a short-lived
//! process that handles one event pays nothing to build them.

use super::anchors::{ANCHOR_COUNT, Anchor, anchor_text};
use super::byte_scan::byte_at;

/// Number of anchor groups, one bit each. The last group is matched by byte classes.
const GROUP_COUNT: usize = 64;
const BYTE_CLASS_GROUP: usize = GROUP_COUNT - 1;
/// Number of leading anchor bytes in the tables.
const PREFIX_BYTES: usize = 4;
/// Maximum length of the rest of a name, and of the user in a URL, that is examined here.
const MAX_NAME_BYTES: usize = 64;
const MAX_USER_BYTES: usize = 320;
/// Positions that are tested together.
const WINDOW_STEP: usize = 4;
/// Maps each byte to the groups that may contain it.
type GroupTable = [u64; 256];

/// Byte classes of base64-encoded decimal digits, the first part of a Discord token.
const DIGITS_IN_BASE64: [&[u8]; PREFIX_BYTES] = [b"MNO", b"TjzD", b"AEIMQUYcgk", b"wxyz012345"];

/// Precomputed data about the anchors.
struct AnchorIndex {
    tables: [GroupTable; PREFIX_BYTES],
    /// Anchor indexes by group, longest first within a group.
    order: [u16; ANCHOR_COUNT],
    /// Start of each group in `order`.
    first: [u16; GROUP_COUNT + 1],
}

static INDEX: AnchorIndex = build_index();

/// An anchor that was found.
pub(super) struct AnchorHit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) anchor: Anchor,
}

/// Group of an anchor. Anchors with a common prefix share a group, so that the longest is found first.
const fn anchor_group(word: &[u8]) -> usize {
    (word[0].to_ascii_lowercase() as usize * 37 + word[1].to_ascii_lowercase() as usize * 5)
        % BYTE_CLASS_GROUP
}

const fn build_index() -> AnchorIndex {
    let mut index = AnchorIndex {
        tables: [[0; 256]; PREFIX_BYTES],
        order: [0; ANCHOR_COUNT],
        first: [0; GROUP_COUNT + 1],
    };
    let mut n = 0;
    while n < ANCHOR_COUNT {
        let bytes = anchor_text(n).as_bytes();
        let bit = 1_u64 << anchor_group(bytes);
        let mut known = 0;
        while known < PREFIX_BYTES {
            if known < bytes.len() {
                index.tables[known][bytes[known].to_ascii_lowercase() as usize] |= bit;
                index.tables[known][bytes[known].to_ascii_uppercase() as usize] |= bit;
            } else {
                // After a short anchor any byte may follow.
                let mut byte = 0;
                while byte < 256 {
                    index.tables[known][byte] |= bit;
                    byte += 1;
                }
            }
            known += 1;
        }
        // Insertion sort: by group, then longest first.
        let mut place = n;
        while place > 0 && sorts_before(n, index.order[place - 1] as usize) {
            index.order[place] = index.order[place - 1];
            place -= 1;
        }
        index.order[place] = n as u16;
        n += 1;
    }
    let mut known = 0;
    while known < PREFIX_BYTES {
        let mut n = 0;
        while n < DIGITS_IN_BASE64[known].len() {
            index.tables[known][DIGITS_IN_BASE64[known][n] as usize] |= 1 << BYTE_CLASS_GROUP;
            n += 1;
        }
        known += 1;
    }
    let mut n = 0;
    while n < ANCHOR_COUNT {
        let mut after = anchor_group(anchor_text(n).as_bytes()) + 1;
        while after <= GROUP_COUNT {
            index.first[after] += 1;
            after += 1;
        }
        n += 1;
    }
    index
}

const fn sorts_before(one: usize, other: usize) -> bool {
    let (one, other) = (anchor_text(one).as_bytes(), anchor_text(other).as_bytes());
    let (a, b) = (anchor_group(one), anchor_group(other));
    a < b || (a == b && one.len() > other.len())
}

/// The next anchor at or after a position, ignoring case.
pub(super) fn next_anchor(bytes: &[u8], from: usize) -> Option<AnchorHit> {
    let mut place = from;
    while place < bytes.len() {
        // Skip several positions at once while none of them can start an anchor.
        let windows = bytes.get(place..)?.windows(WINDOW_STEP + PREFIX_BYTES - 1).step_by(WINDOW_STEP);
        place += WINDOW_STEP * windows.take_while(|window| has_no_anchor(window)).count();
        for start in place..bytes.len().min(place + WINDOW_STEP) {
            if let Some(hit) = match_anchor(bytes, start) {
                return Some(hit);
            }
        }
        place += WINDOW_STEP;
    }
    None
}

/// Whether no anchor starts at the first positions of the window.
#[inline]
fn has_no_anchor(window: &[u8]) -> bool {
    let [a, b, c, d, e, f, g] = window else { return false };
    let all =
        groups_of([a, b, c, d]) | groups_of([b, c, d, e]) | groups_of([c, d, e, f]) | groups_of([d, e, f, g]);
    all == 0
}

/// The groups with an anchor that may start with these bytes.
#[inline]
fn groups_of(bytes: [&u8; PREFIX_BYTES]) -> u64 {
    let ([first, second, third, fourth], [a, b, c, d]) = (&INDEX.tables, bytes);
    first[usize::from(*a)] & second[usize::from(*b)] & third[usize::from(*c)] & fourth[usize::from(*d)]
}

fn match_anchor(bytes: &[u8], start: usize) -> Option<AnchorHit> {
    let byte = |n: usize| bytes.get(start + n).unwrap_or(&0);
    let mut groups = groups_of([byte(0), byte(1), byte(2), byte(3)]);
    while groups != 0 {
        let group = groups.trailing_zeros() as usize;
        if group == BYTE_CLASS_GROUP {
            return Some(AnchorHit { start, end: start + PREFIX_BYTES, anchor: Anchor::Discord });
        }
        let from = usize::from(*INDEX.first.get(group)?);
        let to = usize::from(*INDEX.first.get(group + 1)?);
        for index in INDEX.order.get(from..to)? {
            let word = anchor_text(usize::from(*index));
            let end = start + word.len();
            if bytes.get(start..end).is_some_and(|text| text.eq_ignore_ascii_case(word.as_bytes())) {
                return Some(AnchorHit { start, end, anchor: super::anchors::anchor(usize::from(*index)) });
            }
        }
        groups &= groups - 1;
    }
    None
}

/// Whether the text contains an anchor that needs a closer look.
pub(super) fn may_contain_secret(bytes: &[u8]) -> bool {
    let mut from = 0;
    while let Some(hit) = next_anchor(bytes, from) {
        let vain = match hit.anchor {
            Anchor::SecretName => is_part_of_longer_word(bytes, hit.end) || !may_have_value(bytes, hit.end),
            Anchor::Url => !may_have_user(bytes, hit.end),
            Anchor::Escape => !matches!(byte_at(bytes, hit.end), b'2'..=b'7'),
            Anchor::Percent => !byte_at(bytes, hit.end).is_ascii_hexdigit(),
            _ => false,
        };
        if !vain {
            return true;
        }
        from = hit.start + 1;
    }
    false
}

/// Whether a name is followed by something that may introduce a value: a quote, `=`, `:`, a blank, a line break.
fn may_have_value(bytes: &[u8], end: usize) -> bool {
    let rest = bytes.get(end..bytes.len().min(end + MAX_NAME_BYTES)).unwrap_or_default();
    let next = rest.iter().find(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')));
    // Anchors such as `sig=` and `basic ` end with such a character themselves.
    let own = end.checked_sub(1).is_some_and(|place| matches!(byte_at(bytes, place), b'=' | b' '));
    own || next.is_some_and(|byte| byte.is_ascii_whitespace() || b"\"'`\\=:>]%".contains(byte))
}

/// Whether the URL may contain a user.
fn may_have_user(bytes: &[u8], end: usize) -> bool {
    let rest = bytes.get(end..bytes.len().min(end + MAX_USER_BYTES)).unwrap_or_default();
    let stop = rest.iter().find(|byte| byte.is_ascii_whitespace() || b"@\"'<>/?#".contains(byte));
    stop == Some(&b'@')
}

/// Whether a name such as `token` is part of a longer word, as in `tokens`. `secretKey` and `cookies` do not count.
pub(super) fn is_part_of_longer_word(bytes: &[u8], end: usize) -> bool {
    let last = end.checked_sub(1).map_or(0, |place| byte_at(bytes, place));
    let (after, next) = (byte_at(bytes, end), byte_at(bytes, end + 1));
    let goes_on = match after {
        b'k' | b'a' | b'v' => true,
        // `secretString`, `sharedAccessSignature`, `credentials`, `cookies`.
        b's' => matches!(next, b't' | b'i') || (matches!(last, b'e' | b'l') && !next.is_ascii_lowercase()),
        _ => false,
    };
    after.is_ascii_lowercase() && last.is_ascii_lowercase() && !goes_on
}
