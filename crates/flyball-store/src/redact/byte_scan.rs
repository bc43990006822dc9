//! Byte-level text scanning: escapes, quotes at any nesting depth, and word boundaries.

/// The byte at a position; 0 past the end.
pub(super) fn byte_at(bytes: &[u8], place: usize) -> u8 {
    bytes.get(place).copied().unwrap_or(0)
}

/// Whether the bytes at a position start with these.
pub(super) fn starts_with_at(bytes: &[u8], place: usize, with: &[u8]) -> bool {
    bytes.get(place..).is_some_and(|rest| rest.starts_with(with))
}

/// Whether a byte may be part of a name in code or configuration.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Whether the byte ends an escape such as `\n` or `\u000a`, at any nesting depth.
fn ends_escape(bytes: &[u8], place: usize) -> bool {
    let before = |n: usize| place.checked_sub(n).map_or(0, |place| byte_at(bytes, place));
    match byte_at(bytes, place) {
        b'n' | b'r' | b't' | b'b' | b'f' if before(1) == b'\\' => true,
        byte if byte.is_ascii_hexdigit() => {
            before(5) == b'\\' && before(4) == b'u' && (1..4).all(|n| before(n).is_ascii_hexdigit())
        }
        _ => false,
    }
}

/// Whether a word may start here: the byte before is not part of one.
pub(super) fn is_word_start(bytes: &[u8], place: usize) -> bool {
    let Some(before) = place.checked_sub(1) else { return true };
    let byte = byte_at(bytes, before);
    !(byte.is_ascii_alphanumeric() || byte == b'_') || ends_escape(bytes, before)
}

/// Start of the name that contains this position.
pub(super) fn name_start(bytes: &[u8], place: usize) -> usize {
    let mut start = place;
    while let Some(before) = start.checked_sub(1) {
        if place - start > 80 || !is_name_byte(byte_at(bytes, before)) || ends_escape(bytes, before) {
            break;
        }
        start = before;
    }
    start
}

/// End of the run of allowed bytes. `\/` counts as `/`.
pub(super) fn run_end(bytes: &[u8], start: usize, allowed: fn(u8) -> bool) -> usize {
    let mut end = start;
    loop {
        if end < bytes.len() && allowed(byte_at(bytes, end)) {
            end += 1;
        } else if starts_with_at(bytes, end, b"\\/") && allowed(b'/') {
            end += 2;
        } else {
            return end;
        }
    }
}

/// Skips blanks.
pub(super) fn skip_blanks(bytes: &[u8], start: usize) -> usize {
    run_end(bytes, start, |byte| matches!(byte, b' ' | b'\t'))
}

/// Number of backslashes before a double quote at this position: 0 for a plain quote, 1 inside a quoted text, 3 and 7
/// at deeper nesting. `None` if there is no quote.
pub(super) fn quote_backslashes(bytes: &[u8], place: usize) -> Option<usize> {
    let slashes = (0..8).take_while(|n| byte_at(bytes, place + n) == b'\\').count();
    (byte_at(bytes, place + slashes) == b'"' && matches!(slashes, 0 | 1 | 3 | 7)).then_some(slashes)
}

/// End of the text opened by a quote with this many backslashes. `None` if it does not end within `most` bytes.
pub(super) fn string_end(bytes: &[u8], start: usize, slashes: usize, most: usize) -> Option<usize> {
    let limit = bytes.len().min(start.saturating_add(most));
    let mut run = 0;
    for place in start..limit {
        match byte_at(bytes, place) {
            b'\\' => run += 1,
            b'"' => {
                let closes = run >= slashes && (run - slashes).is_multiple_of(2 * (slashes + 1));
                if closes {
                    return Some(place - slashes);
                }
                // The enclosing text ends here, so the quotes do not match.
                if run < slashes || run.is_multiple_of(2) {
                    return None;
                }
                run = 0;
            }
            _ => run = 0,
        }
    }
    None
}
