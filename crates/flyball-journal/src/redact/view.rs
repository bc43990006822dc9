//! Decoded text that remembers which bytes of the original each of its bytes came from.
//!
//! A secret is looked for in decoded text and cut out of the original, so an encoding can hide nothing and a
//! replacement always covers whole escape sequences.

use super::raw::at;
use std::borrow::Cow;

/// A stretch of text, decoded, with the place of each byte in the original.
pub(super) struct View<'a> {
    bytes: Cow<'a, [u8]>,
    origin: Origin<'a>,
}

enum Origin<'a> {
    /// Byte `n` is byte `n + shift` of the original.
    Shift(usize),
    /// Byte `n` begins at `table[n]`; one entry more than there are bytes.
    Table(Cow<'a, [usize]>),
}

impl<'a> View<'a> {
    /// The original itself.
    pub(super) fn whole(text: &'a str) -> Self {
        View { bytes: Cow::Borrowed(text.as_bytes()), origin: Origin::Shift(0) }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where a byte of the view begins in the original.
    pub(super) fn origin(&self, place: usize) -> usize {
        match &self.origin {
            Origin::Shift(shift) => shift + place,
            Origin::Table(table) => table.get(place).or(table.last()).copied().unwrap_or(0),
        }
    }

    /// A part of the view as it is.
    pub(super) fn part(&self, start: usize, end: usize) -> View<'_> {
        let bytes = Cow::Borrowed(self.bytes.get(start..end).unwrap_or_default());
        let origin = match &self.origin {
            Origin::Shift(shift) => Origin::Shift(shift + start),
            Origin::Table(table) => Origin::Table(Cow::Borrowed(table.get(start..=end).unwrap_or_default())),
        };
        View { bytes, origin }
    }

    /// The inside of a JSON string, from behind its first quote up to its last, without its escapes.
    pub(super) fn json_string(&self, start: usize, end: usize) -> View<'_> {
        if !self.bytes.get(start..end).is_some_and(|inside| inside.contains(&b'\\')) {
            return self.part(start, end);
        }
        self.decoded(start, end, |bytes, place| match (at(bytes, place), at(bytes, place + 1)) {
            (b'\\', b'u') => unicode(bytes, place + 2).map(|(c, length)| (c, length + 2)),
            (b'\\', b'n') => Some(('\n', 2)),
            (b'\\', b'r') => Some(('\r', 2)),
            (b'\\', b't') => Some(('\t', 2)),
            (b'\\', b'b' | b'f') => Some((' ', 2)),
            (b'\\', other @ (b'"' | b'\\' | b'/')) => Some((char::from(other), 2)),
            _ => None,
        })
    }

    /// The text with `\u003d` decoded at any depth of nesting.
    pub(super) fn without_unicode_escapes(&self) -> View<'_> {
        self.decoded(0, self.bytes.len(), |bytes, place| {
            if at(bytes, place) != b'\\' {
                return None;
            }
            let slashes = (0..16).take_while(|n| at(bytes, place + n) == b'\\').count();
            if at(bytes, place + slashes) != b'u' {
                return None;
            }
            unicode(bytes, place + slashes + 1).map(|(c, length)| (c, length + slashes + 1))
        })
    }

    /// The text with `%3D` decoded.
    pub(super) fn without_percent_escapes(&self) -> View<'_> {
        self.decoded(0, self.bytes.len(), |bytes, place| {
            let value = (at(bytes, place) == b'%').then(|| hex(bytes, place + 1, 2)).flatten()?;
            // Only ASCII is of interest; the rest stays as it is.
            char::from_u32(value).filter(char::is_ascii).map(|c| (c, 3))
        })
    }

    /// A part of the view, with what `decode` reads at a place as one character in its stead.
    fn decoded(
        &self,
        start: usize,
        end: usize,
        decode: impl Fn(&[u8], usize) -> Option<(char, usize)>,
    ) -> View<'static> {
        let inside = self.bytes.get(..end).unwrap_or_default();
        let mut bytes = Vec::with_capacity(end - start);
        let mut table = Vec::with_capacity(end - start + 1);
        let mut place = start;
        while place < end {
            let origin = self.origin(place);
            if let Some((c, length)) = decode(inside, place) {
                let mut buffer = [0; 4];
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    bytes.push(byte);
                    table.push(origin);
                }
                place += length.max(1);
            } else {
                bytes.push(at(inside, place));
                table.push(origin);
                place += 1;
            }
        }
        table.push(self.origin(end));
        View { bytes: Cow::Owned(bytes), origin: Origin::Table(Cow::Owned(table)) }
    }
}

/// The character of four hexadecimal digits, or of two escapes that are a surrogate pair, and the bytes read.
fn unicode(bytes: &[u8], place: usize) -> Option<(char, usize)> {
    let first = hex(bytes, place, 4)?;
    if (0xd800..0xdc00).contains(&first) && at(bytes, place + 4) == b'\\' && at(bytes, place + 5) == b'u' {
        let second = hex(bytes, place + 6, 4).filter(|second| (0xdc00..0xe000).contains(second));
        let pair =
            second.and_then(|second| char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)));
        if let Some(c) = pair {
            return Some((c, 10));
        }
    }
    Some((char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 4))
}

fn hex(bytes: &[u8], place: usize, digits: usize) -> Option<u32> {
    (0..digits).try_fold(0, |value, n| Some(value * 16 + char::from(at(bytes, place + n)).to_digit(16)?))
}
