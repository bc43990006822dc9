//! Text split at any position between two reads is decoded correctly.

use super::read_chunks;
use std::io::{ErrorKind, Read, Result};

/// Returns one byte per read.
struct OneByteReader<'a>(&'a [u8]);

impl Read for OneByteReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
        self.0 = rest;
        into[0] = *first;
        Ok(1)
    }
}

fn read_all(from: impl Read) -> Result<String> {
    let mut text = String::new();
    read_chunks(from, |piece| {
        text.push_str(piece);
        true
    })?;
    Ok(text)
}

#[test]
fn text_is_the_same_for_any_chunking() {
    let samples: [&[u8]; 6] =
        ["añ→🦀z".as_bytes(), b"", b"a\xffb", b"\xe2\x86", b"\xf0\x9f\xa6", "→\u{fffd}".as_bytes()];
    for bytes in samples {
        let dripped = read_all(OneByteReader(bytes)).expect("text");
        assert_eq!(dripped, read_all(bytes).expect("text"));
        assert_eq!(dripped.replace('\u{fffd}', ""), String::from_utf8_lossy(bytes).replace('\u{fffd}', ""));
    }
    assert_eq!(read_all(OneByteReader("añ→🦀z".as_bytes())).expect("text"), "añ→🦀z");
}

#[test]
fn reading_stops_when_the_callback_returns_false() {
    let mut chunks = Vec::new();
    read_chunks(OneByteReader(b"abc"), |piece| {
        chunks.push(piece.to_owned());
        chunks.len() < 2
    })
    .expect("text");
    assert_eq!(chunks, ["a", "b"]);
}

#[test]
fn binary_data_is_rejected() {
    let error = read_all(&b"\x7fELF\0\0"[..]).expect_err("data");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}
