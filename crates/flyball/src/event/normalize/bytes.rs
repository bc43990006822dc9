//! Byte classes and small helpers shared by the matchers of volatile text.
//!
//! Every helper accepts any position: past the end it sees a zero byte, so no matcher can panic. Each one looks ahead a
//! bounded number of bytes, which keeps the scan linear.

/// Part of a word: a letter, a digit or an underscore.
pub(super) const WORD: u8 = 1;
pub(super) const DIGIT: u8 = 1 << 1;
pub(super) const HEX: u8 = 1 << 2;
pub(super) const ALPHA: u8 = 1 << 3;
/// The scanner has to examine this byte; all others are copied in bulk.
pub(super) const SCAN_STOP: u8 = 1 << 4;
/// Ends a path.
pub(super) const PATH_END: u8 = 1 << 5;
/// Space or tab.
pub(super) const BLANK: u8 = 1 << 6;
/// May appear between a word and its number, as in `pid: 12` and `"pid"=12`.
pub(super) const LINK: u8 = 1 << 7;

/// Longest run of digits read as one number when looking ahead.
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
        class |= WORD | DIGIT | SCAN_STOP;
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
        class |= SCAN_STOP;
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
pub(super) fn has_class(b: u8, class: u8) -> bool {
    CLASS[b as usize] & class != 0
}

/// The byte at `i`, or zero outside the text.
#[inline(always)]
pub(super) fn byte_at(s: &[u8], i: usize) -> u8 {
    count_examined(1);
    match s.get(i) {
        Some(&b) => b,
        None => 0,
    }
}

/// The byte `k` positions before `i`, or zero outside the text.
#[inline(always)]
pub(super) fn byte_before(s: &[u8], i: usize, k: usize) -> u8 {
    byte_at(s, i.wrapping_sub(k))
}

/// Whether the text continues with `prefix` at `i`.
#[inline(always)]
pub(super) fn starts_with_at(s: &[u8], i: usize, prefix: &[u8]) -> bool {
    count_examined(prefix.len());
    s.get(i..).is_some_and(|rest| rest.starts_with(prefix))
}

/// The first position at or after `from` that the scanner has to examine, or the length of the text.
#[inline(always)]
pub(super) fn next_stop(s: &[u8], from: usize) -> usize {
    let mut i = from;
    while let Some(block) = s.get(i..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let stops = stops_in(block);
        if stops != 0 {
            i += (stops.trailing_zeros() / 8) as usize;
            count_examined(i - from);
            return i;
        }
        i += BLOCK;
    }
    while let Some(&b) = s.get(i) {
        if has_class(b, SCAN_STOP) {
            break;
        }
        i += 1;
    }
    count_examined(i - from);
    i
}

/// Number of bytes classified at a time.
const BLOCK: usize = 16;

/// A non-zero byte for each byte of class [`SCAN_STOP`]. It uses no branches or tables, and ranges shifted to zero, so
/// that the compiler vectorizes it.
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

/// Skips non-ASCII bytes that do not start a relevant glyph.
#[inline]
pub(super) fn skip_non_ascii(s: &[u8], from: usize) -> usize {
    let rest = s.get(from..).unwrap_or_default();
    let length = rest.iter().take_while(|&&b| b >= 0x80 && b != 0xE2).count();
    count_examined(length);
    from + length
}

/// A lower-case word of at most eight letters as one integer, so that words are compared in one step.
pub(super) const fn word_key(word: &str) -> u64 {
    let bytes = word.as_bytes();
    let mut k = 0;
    let mut i = 0;
    while i < bytes.len() {
        k = (k << 8) | bytes[i] as u64;
        i += 1;
    }
    k
}

/// Defines constants for words, so that they can be used in patterns.
macro_rules! words {
    ($($name:ident = $word:literal),* $(,)?) => { $(const $name: u64 = super::bytes::word_key($word);)* };
}
pub(super) use words;

/// The letters from `i` on, as a [`word_key`], and where they end. More than eight letters give the key zero.
#[inline]
pub(super) fn read_letters(s: &[u8], i: usize) -> (u64, usize) {
    let rest = s.get(i..).unwrap_or_default();
    let word = u64::from_be_bytes(match rest.first_chunk() {
        Some(&eight) => eight,
        None => std::array::from_fn(|k| byte_at(rest, k)),
    });
    let length = (not_letters(word).leading_zeros() / 8) as usize;
    count_examined(8);
    match length {
        0 => (0, i),
        8 if has_class(byte_at(s, i + 8), ALPHA) => (0, i + 8),
        _ => ((word | LOWERCASE_BITS) >> (64 - 8 * length), i + length),
    }
}

/// The last letters, at most eight, that end at `end` and start at `floor` or later, as a [`word_key`], and their
/// start.
#[inline]
pub(super) fn read_letters_before(s: &[u8], floor: usize, end: usize) -> (u64, usize) {
    let seen = s.get(floor..end).unwrap_or_default();
    let word = u64::from_be_bytes(match seen.last_chunk() {
        Some(&eight) => eight,
        None => std::array::from_fn(|k| byte_before(seen, seen.len() + k, 8)),
    });
    let length = (not_letters(word).trailing_zeros() / 8) as usize;
    count_examined(8);
    match length {
        0 => (0, end),
        _ => ((word | LOWERCASE_BITS) & (u64::MAX >> (64 - 8 * length)), end - length),
    }
}

/// The bit that makes a letter lower case, in each byte.
const LOWERCASE_BITS: u64 = 0x2020_2020_2020_2020;

/// The highest bit of each byte that is not an ASCII letter.
#[inline(always)]
fn not_letters(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low = (word | LOWERCASE_BITS) & (ONES * 0x7F);
    let from_a = low + ONES * (0x80 - b'a' as u64);
    let past_z = low + ONES * (0x80 - b'z' as u64 - 1);
    (!from_a | past_z | word) & (ONES * 0x80)
}

/// Where the digits from `i` on end, at most `most` of them.
#[inline]
pub(super) fn digits_end(s: &[u8], i: usize, most: usize) -> usize {
    let mut e = i;
    while e - i < most && has_class(byte_at(s, e), DIGIT) {
        e += 1;
    }
    e
}

/// Where a number such as `12`, `0.12` or `1,234.5` ends; `i` itself if there is no number.
pub(super) fn number_end(s: &[u8], i: usize) -> usize {
    let mut e = digits_end(s, i, MAX_DIGITS);
    if e == i {
        return i;
    }
    while byte_at(s, e) == b',' && e - i < MAX_DIGITS && digits_end(s, e + 1, 4) == e + 4 {
        e += 4;
    }
    if byte_at(s, e) == b'.' && has_class(byte_at(s, e + 1), DIGIT) {
        e = digits_end(s, e + 1, MAX_DIGITS);
    }
    e
}

/// Skips at most `most` spaces and tabs.
#[inline]
pub(super) fn skip_blanks(s: &[u8], i: usize, most: usize) -> usize {
    let mut e = i;
    while e - i < most && has_class(byte_at(s, e), BLANK) {
        e += 1;
    }
    e
}

/// Counts examined bytes, so that tests can show that the work is linear; does nothing outside tests.
#[inline(always)]
pub(super) fn count_examined(_bytes: usize) {
    #[cfg(test)]
    super::tests::BYTES_EXAMINED.with(|n| n.set(n.get() + _bytes as u64));
}
