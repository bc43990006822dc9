//! Text that is cut anywhere between two reads comes out whole.

use super::pieces;
use std::io::{ErrorKind, Read, Result};

/// Gives one byte at a time.
struct Drip<'a>(&'a [u8]);

impl Read for Drip<'_> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
        self.0 = rest;
        into[0] = *first;
        Ok(1)
    }
}

fn whole(from: impl Read) -> Result<String> {
    let mut text = String::new();
    pieces(from, |piece| {
        text.push_str(piece);
        true
    })?;
    Ok(text)
}

#[test]
fn every_cut_gives_the_same_text_as_reading_at_once() {
    let samples: [&[u8]; 6] =
        ["añ→🦀z".as_bytes(), b"", b"a\xffb", b"\xe2\x86", b"\xf0\x9f\xa6", "→\u{fffd}".as_bytes()];
    for bytes in samples {
        let dripped = whole(Drip(bytes)).expect("text");
        assert_eq!(dripped, whole(bytes).expect("text"));
        assert_eq!(dripped.replace('\u{fffd}', ""), String::from_utf8_lossy(bytes).replace('\u{fffd}', ""));
    }
    assert_eq!(whole(Drip("añ→🦀z".as_bytes())).expect("text"), "añ→🦀z");
}

#[test]
fn who_has_heard_enough_is_told_no_more() {
    let mut heard = Vec::new();
    pieces(Drip(b"abc"), |piece| {
        heard.push(piece.to_owned());
        heard.len() < 2
    })
    .expect("text");
    assert_eq!(heard, ["a", "b"]);
}

#[test]
fn data_is_no_text() {
    let error = whole(&b"\x7fELF\0\0"[..]).expect_err("data");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}
