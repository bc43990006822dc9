//! Reads a file as text in chunks, so that memory use does not depend on the size of the file or its lines.

use std::io::{ErrorKind, Read, Result};

/// Size of a read.
const CHUNK_BYTES: usize = 64 * 1024;
/// Number of leading bytes checked for binary data.
const SNIFF_BYTES: usize = 8 * 1024;

/// Whether data is binary, by its first bytes: text has no NUL.
pub(super) fn is_binary(prefix: &[u8]) -> bool {
    prefix.iter().take(SNIFF_BYTES).any(|byte| *byte == 0)
}

/// Passes each chunk of text to `each` until it returns `false` or the file ends. Invalid UTF-8 becomes U+FFFD; a
/// character is never split between chunks. Binary data is an error of kind `InvalidData`.
pub(super) fn read_chunks(mut from: impl Read, mut each: impl FnMut(&str) -> bool) -> Result<()> {
    let mut bytes: Vec<u8> = Vec::with_capacity(CHUNK_BYTES + 4);
    let mut first = true;
    loop {
        let carried = bytes.len();
        bytes.resize(carried + CHUNK_BYTES, 0);
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

/// Passes decoded text to `each` and returns the number of trailing bytes that start an incomplete character; `None` if
/// `each` returned `false`.
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
#[path = "text_reader_tests.rs"]
mod tests;
