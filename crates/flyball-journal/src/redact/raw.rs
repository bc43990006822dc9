//! Reading text byte by byte: escapes, quotes at any depth of nesting, and where words begin.

/// The byte at a place; 0 beyond the end.
pub(super) fn at(bytes: &[u8], place: usize) -> u8 {
    bytes.get(place).copied().unwrap_or(0)
}

/// Whether the text goes on with these bytes.
pub(super) fn starts(bytes: &[u8], place: usize, with: &[u8]) -> bool {
    bytes.get(place..).is_some_and(|rest| rest.starts_with(with))
}

/// A byte of a name in code or configuration.
pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Whether the byte is the last one of an escape such as `\n` or `\u000a`, at any depth of nesting.
fn ends_escape(bytes: &[u8], place: usize) -> bool {
    let before = |n: usize| place.checked_sub(n).map_or(0, |place| at(bytes, place));
    match at(bytes, place) {
        b'n' | b'r' | b't' | b'b' | b'f' if before(1) == b'\\' => true,
        byte if byte.is_ascii_hexdigit() => {
            before(5) == b'\\' && before(4) == b'u' && (1..4).all(|n| before(n).is_ascii_hexdigit())
        }
        _ => false,
    }
}

/// Whether a word may begin here: the byte before it belongs to none.
pub(super) fn word_begins(bytes: &[u8], place: usize) -> bool {
    let Some(before) = place.checked_sub(1) else { return true };
    let byte = at(bytes, before);
    !(byte.is_ascii_alphanumeric() || byte == b'_') || ends_escape(bytes, before)
}

/// Where the name that holds this place begins.
pub(super) fn name_begins(bytes: &[u8], place: usize) -> usize {
    let mut start = place;
    while let Some(before) = start.checked_sub(1) {
        if place - start > 80 || !is_name(at(bytes, before)) || ends_escape(bytes, before) {
            break;
        }
        start = before;
    }
    start
}

/// Where the run of bytes that are allowed ends. `\/` counts as `/`.
pub(super) fn run(bytes: &[u8], start: usize, allowed: fn(u8) -> bool) -> usize {
    let mut end = start;
    loop {
        if end < bytes.len() && allowed(at(bytes, end)) {
            end += 1;
        } else if starts(bytes, end, b"\\/") && allowed(b'/') {
            end += 2;
        } else {
            return end;
        }
    }
}

/// Skips blanks.
pub(super) fn blanks(bytes: &[u8], start: usize) -> usize {
    run(bytes, start, |byte| matches!(byte, b' ' | b'\t'))
}

/// The number of backslashes before a double quote here: 0 for a plain quote, 1 for one in a quoted
/// text, 3 and 7 for those inside texts inside that text. `None` if there is no quote.
pub(super) fn quote(bytes: &[u8], place: usize) -> Option<usize> {
    let slashes = (0..8).take_while(|n| at(bytes, place + n) == b'\\').count();
    (at(bytes, place + slashes) == b'"' && matches!(slashes, 0 | 1 | 3 | 7)).then_some(slashes)
}

/// Where the text ends that was opened by a quote with so many backslashes. `None` if it does not within `most` bytes.
pub(super) fn text_ends(bytes: &[u8], start: usize, slashes: usize, most: usize) -> Option<usize> {
    let limit = bytes.len().min(start.saturating_add(most));
    let mut run = 0;
    for place in start..limit {
        match at(bytes, place) {
            b'\\' => run += 1,
            b'"' => {
                let closes = run >= slashes && (run - slashes).is_multiple_of(2 * (slashes + 1));
                if closes {
                    return Some(place - slashes);
                }
                // A text around this one ends: the quotes do not belong together.
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
