//! Reads a file as text, piece by piece, so that a huge file or a huge line costs no more memory than a small one.

use std::io::{ErrorKind, Read, Result};

/// How much is read at once.
const PIECE: usize = 64 * 1024;
/// How much of the beginning is looked at to tell text from other data.
const SNIFF: usize = 8 * 1024;

/// Whether it is data and not text, by its beginning: text has no NUL.
pub(super) fn is_binary(beginning: &[u8]) -> bool {
    beginning.iter().take(SNIFF).any(|byte| *byte == 0)
}

/// Gives every piece of the text to `each`, until it answers `false` or the end comes. What is no UTF-8 becomes
/// U+FFFD; a character is never cut between two pieces. Data that is no text is an error of kind `InvalidData`.
pub(super) fn pieces(mut from: impl Read, mut each: impl FnMut(&str) -> bool) -> Result<()> {
    let mut bytes: Vec<u8> = Vec::with_capacity(PIECE + 4);
    let mut first = true;
    loop {
        let carried = bytes.len();
        bytes.resize(carried + PIECE, 0);
        let read = match from.read(bytes.get_mut(carried..).unwrap_or_default()) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                bytes.truncate(carried);
                continue;
            }
            Err(error) => return Err(error),
        };
        bytes.truncate(carried + read);
        if first && is_binary(&bytes) {
            return Err(ErrorKind::InvalidData.into());
        }
        first = false;
        if read == 0 {
            if carried > 0 {
                each("\u{fffd}");
            }
            return Ok(());
        }
        match decode(&bytes, &mut each) {
            Some(left) => drop(bytes.drain(..bytes.len() - left)),
            None => return Ok(()),
        }
    }
}

/// Gives what can be decoded to `each`, and tells how many bytes at the end are the beginning of a character; `None`
/// if it has heard enough.
fn decode(mut bytes: &[u8], each: &mut impl FnMut(&str) -> bool) -> Option<usize> {
    loop {
        match std::str::from_utf8(bytes) {
            Ok(text) => return each(text).then_some(0),
            Err(error) => {
                let (good, rest) = bytes.split_at(error.valid_up_to());
                if !good.is_empty() && !each(std::str::from_utf8(good).unwrap_or_default()) {
                    return None;
                }
                let Some(bad) = error.error_len() else { return Some(rest.len()) };
                if !each("\u{fffd}") {
                    return None;
                }
                bytes = rest.get(bad..).unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
