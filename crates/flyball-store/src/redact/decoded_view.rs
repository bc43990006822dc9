//! Decoded text that maps each byte to its position in the original.
//!
//! Secrets are detected in decoded text and cut from the original, so an encoding cannot hide them and a replacement
//! always covers whole escape sequences.

use super::byte_scan::byte_at;
use std::borrow::Cow;

/// A decoded part of a text, with the original position of each byte.
pub(super) struct DecodedView<'a> {
    bytes: Cow<'a, [u8]>,
    origin: OriginMap<'a>,
}

enum OriginMap<'a> {
    /// Byte `n` is byte `n + shift` of the original.
    Offset(usize),
    /// Byte `n` starts at `table[n]`. The table has one more entry than there are bytes.
    Table(Cow<'a, [usize]>),
}

impl<'a> DecodedView<'a> {
    /// The original itself.
    pub(super) fn whole(text: &'a str) -> Self {
        DecodedView { bytes: Cow::Borrowed(text.as_bytes()), origin: OriginMap::Offset(0) }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Original position of a byte of the view.
    pub(super) fn origin(&self, place: usize) -> usize {
        match &self.origin {
            OriginMap::Offset(shift) => shift + place,
            OriginMap::Table(table) => table.get(place).or(table.last()).copied().unwrap_or(0),
        }
    }

    /// A part of the view, not decoded further.
    pub(super) fn slice(&self, start: usize, end: usize) -> DecodedView<'_> {
        let bytes = Cow::Borrowed(self.bytes.get(start..end).unwrap_or_default());
        let origin = match &self.origin {
            OriginMap::Offset(shift) => OriginMap::Offset(shift + start),
            OriginMap::Table(table) => {
                OriginMap::Table(Cow::Borrowed(table.get(start..=end).unwrap_or_default()))
            }
        };
        DecodedView { bytes, origin }
    }

    /// The content of a JSON string, between its quotes, unescaped.
    pub(super) fn decode_json_string(&self, start: usize, end: usize) -> DecodedView<'_> {
        if !self.bytes.get(start..end).is_some_and(|inside| inside.contains(&b'\\')) {
            return self.slice(start, end);
        }
        self.decode_with(start, end, |bytes, place| {
            match (byte_at(bytes, place), byte_at(bytes, place + 1)) {
                (b'\\', b'u') => parse_unicode_escape(bytes, place + 2).map(|(c, length)| (c, length + 2)),
                (b'\\', b'n') => Some(('\n', 2)),
                (b'\\', b'r') => Some(('\r', 2)),
                (b'\\', b't') => Some(('\t', 2)),
                (b'\\', b'b' | b'f') => Some((' ', 2)),
                (b'\\', other @ (b'"' | b'\\' | b'/')) => Some((char::from(other), 2)),
                _ => None,
            }
        })
    }

    /// The text with `\u003d` decoded at any nesting depth.
    pub(super) fn decode_unicode_escapes(&self) -> DecodedView<'_> {
        self.decode_with(0, self.bytes.len(), |bytes, place| {
            if byte_at(bytes, place) != b'\\' {
                return None;
            }
            let slashes = (0..16).take_while(|n| byte_at(bytes, place + n) == b'\\').count();
            if byte_at(bytes, place + slashes) != b'u' {
                return None;
            }
            parse_unicode_escape(bytes, place + slashes + 1).map(|(c, length)| (c, length + slashes + 1))
        })
    }

    /// The text with `%3D` decoded.
    pub(super) fn decode_percent_escapes(&self) -> DecodedView<'_> {
        self.decode_with(0, self.bytes.len(), |bytes, place| {
            let value = (byte_at(bytes, place) == b'%').then(|| parse_hex(bytes, place + 1, 2)).flatten()?;
            // Only ASCII matters; other bytes stay encoded.
            char::from_u32(value).filter(char::is_ascii).map(|c| (c, 3))
        })
    }

    /// A part of the view in which each sequence that `decode` accepts becomes one character.
    fn decode_with(
        &self,
        start: usize,
        end: usize,
        decode: impl Fn(&[u8], usize) -> Option<(char, usize)>,
    ) -> DecodedView<'static> {
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
                bytes.push(byte_at(inside, place));
                table.push(origin);
                place += 1;
            }
        }
        table.push(self.origin(end));
        DecodedView { bytes: Cow::Owned(bytes), origin: OriginMap::Table(Cow::Owned(table)) }
    }
}

/// The character of four hexadecimal digits or of a surrogate pair of escapes, and the number of bytes read.
fn parse_unicode_escape(bytes: &[u8], place: usize) -> Option<(char, usize)> {
    let first = parse_hex(bytes, place, 4)?;
    if (0xd800..0xdc00).contains(&first)
        && byte_at(bytes, place + 4) == b'\\'
        && byte_at(bytes, place + 5) == b'u'
    {
        let second = parse_hex(bytes, place + 6, 4).filter(|second| (0xdc00..0xe000).contains(second));
        let pair =
            second.and_then(|second| char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)));
        if let Some(c) = pair {
            return Some((c, 10));
        }
    }
    Some((char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 4))
}

fn parse_hex(bytes: &[u8], place: usize, digits: usize) -> Option<u32> {
    (0..digits).try_fold(0, |value, n| Some(value * 16 + char::from(byte_at(bytes, place + n)).to_digit(16)?))
}
