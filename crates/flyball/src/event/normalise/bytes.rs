//! Byte classes and small readers shared by the recognisers of volatile text.
//!
//! Every reader tolerates any position: past the end it sees a zero byte. So no recogniser can panic, and
//! each one looks ahead a bounded number of bytes, which keeps the whole scan linear.

/// Part of a word: a letter, a digit or an underscore.
pub(super) const WORD: u8 = 1;
pub(super) const DIGIT: u8 = 1 << 1;
pub(super) const HEX: u8 = 1 << 2;
pub(super) const ALPHA: u8 = 1 << 3;
/// The scanner has to look at this byte; all others are copied in bulk.
pub(super) const STOP: u8 = 1 << 4;
/// Ends a path.
pub(super) const PATH_END: u8 = 1 << 5;
/// Space or tab.
pub(super) const BLANK: u8 = 1 << 6;
/// May stand between a word and the number that belongs to it, as in `pid: 12` and `"pid"=12`.
pub(super) const LINK: u8 = 1 << 7;

/// Longest run of digits that is read as one number in a look-ahead.
const MAX_DIGITS: usize = 20;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = class_of(b as u8);
        b += 1;
    }
    table
}

const fn class_of(b: u8) -> u8 {
    let mut class = 0;
    if b.is_ascii_digit() {
        class |= WORD | DIGIT | STOP;
    }
    if b.is_ascii_alphabetic() {
        class |= WORD | ALPHA;
    }
    if b.is_ascii_hexdigit() {
        class |= HEX;
    }
    if b == b'_' {
        class |= WORD;
    }
    if b < b' ' || b >= 0x80 || matches!(b, b'/' | b'\\' | b'[') {
        class |= STOP;
    }
    if b <= b' '
        || b == 0x7F
        || matches!(b, b'"' | b'\'' | b'`' | b':' | b';' | b',' | b'|' | b'*' | b'?' | b'\\')
    {
        class |= PATH_END;
    }
    if matches!(b, b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>') {
        class |= PATH_END;
    }
    if matches!(b, b' ' | b'\t') {
        class |= BLANK | LINK;
    }
    if matches!(b, b':' | b'=' | b'"' | b'\'' | b'(' | b'[' | b'#' | b'-') {
        class |= LINK;
    }
    class
}

#[inline(always)]
pub(super) fn is(b: u8, class: u8) -> bool {
    CLASS[b as usize] & class != 0
}

/// The byte at `i`, or zero outside of the text.
#[inline(always)]
pub(super) fn at(s: &[u8], i: usize) -> u8 {
    count(1);
    match s.get(i) {
        Some(&b) => b,
        None => 0,
    }
}

/// The byte `k` places before `i`, or zero outside of the text.
#[inline(always)]
pub(super) fn back(s: &[u8], i: usize, k: usize) -> u8 {
    at(s, i.wrapping_sub(k))
}

/// Whether the text goes on with `what` at `i`.
#[inline(always)]
pub(super) fn follows(s: &[u8], i: usize, what: &[u8]) -> bool {
    count(what.len());
    s.get(i..).is_some_and(|rest| rest.starts_with(what))
}

/// The first position from `i` on whose byte the scanner has to look at, or the length of the text.
#[inline(always)]
pub(super) fn next_stop(s: &[u8], from: usize) -> usize {
    let mut i = from;
    while let Some(block) = s.get(i..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let stops = stops_in(block);
        if stops != 0 {
            i += (stops.trailing_zeros() / 8) as usize;
            count(i - from);
            return i;
        }
        i += BLOCK;
    }
    while let Some(&b) = s.get(i) {
        if is(b, STOP) {
            break;
        }
        i += 1;
    }
    count(i - from);
    i
}

/// Bytes judged at a time.
const BLOCK: usize = 16;

/// A non-zero byte for each byte of class [`STOP`]. Written without branches and tables, and with ranges moved to
/// the lowest value, so that the compiler judges all bytes with few instructions.
#[inline(always)]
fn stops_in(block: &[u8; BLOCK]) -> u128 {
    let within =
        |b: u8, first: u8, length: i8| (b.wrapping_sub(first) ^ 0x80).cast_signed() < i8::MIN + length;
    let mut stops = [0; BLOCK];
    for (stop, &b) in stops.iter_mut().zip(block) {
        let any = (b.cast_signed() < 0x20) | within(b, b'/', 11) | within(b, b'[', 2);
        *stop = if any { u8::MAX } else { 0 };
    }
    u128::from_le_bytes(stops)
}

/// Skips bytes outside of ASCII that begin no glyph of interest.
#[inline]
pub(super) fn skip_foreign(s: &[u8], from: usize) -> usize {
    let rest = s.get(from..).unwrap_or_default();
    let length = rest.iter().take_while(|&&b| b >= 0x80 && b != 0xE2).count();
    count(length);
    from + length
}

/// A lower-case word of at most eight letters as one integer, so that a word is compared in one step.
pub(super) const fn key(word: &str) -> u64 {
    let bytes = word.as_bytes();
    let mut k = 0;
    let mut i = 0;
    while i < bytes.len() {
        k = (k << 8) | bytes[i] as u64;
        i += 1;
    }
    k
}

/// Names constants for words, so that they can stand in a pattern.
macro_rules! words {
    ($($name:ident = $word:literal),* $(,)?) => { $(const $name: u64 = super::bytes::key($word);)* };
}
pub(super) use words;

/// The letters from `i` on, as a [`key`], and where they end. More than eight letters give the key zero.
#[inline]
pub(super) fn letters(s: &[u8], i: usize) -> (u64, usize) {
    let rest = s.get(i..).unwrap_or_default();
    let word = u64::from_be_bytes(match rest.first_chunk() {
        Some(&eight) => eight,
        None => std::array::from_fn(|k| at(rest, k)),
    });
    let length = (not_letters(word).leading_zeros() / 8) as usize;
    count(8);
    match length {
        0 => (0, i),
        8 if is(at(s, i + 8), ALPHA) => (0, i + 8),
        _ => ((word | SPACES) >> (64 - 8 * length), i + length),
    }
}

/// The last letters, at most eight, that end at `end` and start at `floor` or later, as a [`key`], and their start.
#[inline]
pub(super) fn letters_before(s: &[u8], floor: usize, end: usize) -> (u64, usize) {
    let seen = s.get(floor..end).unwrap_or_default();
    let word = u64::from_be_bytes(match seen.last_chunk() {
        Some(&eight) => eight,
        None => std::array::from_fn(|k| back(seen, seen.len() + k, 8)),
    });
    let length = (not_letters(word).trailing_zeros() / 8) as usize;
    count(8);
    match length {
        0 => (0, end),
        _ => ((word | SPACES) & (u64::MAX >> (64 - 8 * length)), end - length),
    }
}

/// The bit that makes a letter lower case, in each byte.
const SPACES: u64 = 0x2020_2020_2020_2020;

/// The highest bit of each byte that is no ASCII letter.
#[inline(always)]
fn not_letters(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low = (word | SPACES) & (ONES * 0x7F);
    let from_a = low + ONES * (0x80 - b'a' as u64);
    let past_z = low + ONES * (0x80 - b'z' as u64 - 1);
    (!from_a | past_z | word) & (ONES * 0x80)
}

/// Where the digits from `i` on end; at most `most` of them.
#[inline]
pub(super) fn digits(s: &[u8], i: usize, most: usize) -> usize {
    let mut e = i;
    while e - i < most && is(at(s, e), DIGIT) {
        e += 1;
    }
    e
}

/// Where a number such as `12`, `0.12` or `1,234.5` ends; `i` itself if there is none.
pub(super) fn number(s: &[u8], i: usize) -> usize {
    let mut e = digits(s, i, MAX_DIGITS);
    if e == i {
        return i;
    }
    while at(s, e) == b',' && e - i < MAX_DIGITS && digits(s, e + 1, 4) == e + 4 {
        e += 4;
    }
    if at(s, e) == b'.' && is(at(s, e + 1), DIGIT) {
        e = digits(s, e + 1, MAX_DIGITS);
    }
    e
}

/// Skips at most `most` spaces and tabs.
#[inline]
pub(super) fn blanks(s: &[u8], i: usize, most: usize) -> usize {
    let mut e = i;
    while e - i < most && is(at(s, e), BLANK) {
        e += 1;
    }
    e
}

/// Counts the bytes looked at, so that the tests can show that the work is linear; nothing outside of tests.
#[inline(always)]
pub(super) fn count(_bytes: usize) {
    #[cfg(test)]
    super::tests::LOOKED_AT.with(|n| n.set(n.get() + _bytes as u64));
}
