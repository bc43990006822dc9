//! Matches paths in directories for temporary files, whose names are generated for each run.

use super::bytes::{ALPHA, PATH_END, WORD, byte_at, byte_before, has_class, starts_with_at};
use super::context::ScanContext;
use super::volatile::{Placeholder, VolatileSpan};

/// Longest path before the temporary directory on Windows, in bytes.
const MAX_PREFIX_BYTES: usize = 260;
/// Longest file extension that is kept.
const MAX_EXTENSION: usize = 5;
/// Minimum number of letters a-f that count as a random part of a name.
const MIN_RANDOM: usize = 4;

/// Whether a temporary path may start with the slash at `i`; rules out most slashes quickly.
#[inline(always)]
pub(super) fn may_start(s: &[u8], i: usize) -> bool {
    matches!(byte_at(s, i + 1), b't' | b'v' | b'p') || byte_before(s, i, 1) == b':'
}

/// Matches a path below `/tmp`, `/var/tmp` or `/var/folders`, or a Windows path written with slashes.
pub(super) fn find_unix_temp_path(v: &ScanContext, i: usize) -> Option<VolatileSpan> {
    let s = v.bytes;
    if v.byte_before(i, 1) == b':'
        && let Some(found) = find_windows_temp_path(v, i)
    {
        return Some(found);
    }
    if !starts_path(v, i) {
        return None;
    }
    let p = if starts_with_at(s, i, b"/private/") { i + 8 } else { i };
    let root = [&b"/tmp/"[..], b"/var/tmp/", b"/var/folders/"]
        .into_iter()
        .find(|root| starts_with_at(s, p, root))?;
    temp_path_below(s, i, p + root.len(), b'/')
}

/// Whether a path may start at `i`: not right after a name, except that of a flag such as `-I`.
fn starts_path(v: &ScanContext, i: usize) -> bool {
    let prev = v.byte_before(i, 1);
    let switch =
        has_class(prev, ALPHA) && v.byte_before(i, 2) == b'-' && !has_class(v.byte_before(i, 3), WORD);
    switch
        || !(has_class(prev, WORD)
            || matches!(prev, b'.' | b'-' | b'~' | b'+' | b'%' | b'}' | b')' | b']')
            || prev >= 0x80)
}

/// Matches a path below `C:\Users\me\AppData\Local\Temp`, with single or doubled backslashes or with slashes.
pub(super) fn find_windows_temp_path(v: &ScanContext, i: usize) -> Option<VolatileSpan> {
    const TEMP: [&[u8]; 3] = [b"AppData", b"Local", b"Temp"];
    let s = v.bytes;
    let sep = byte_at(s, i);
    let drive = v.byte_before(i, 1) == b':'
        && has_class(v.byte_before(i, 2), ALPHA)
        && !has_class(v.byte_before(i, 3), WORD);
    if !drive {
        return None;
    }
    let (mut p, mut matched) = (i, 0);
    while p - i < MAX_PREFIX_BYTES {
        let b = byte_at(s, p);
        if b == sep {
            p += 1;
            if byte_at(s, p) == sep {
                p += 1;
            }
            if matched == TEMP.len() {
                return temp_path_below(s, i - 2, p, sep);
            }
            let step = TEMP
                .get(matched)
                .filter(|step| starts_with_at(s, p, step) && byte_at(s, p + step.len()) == sep);
            matched = if step.is_some() { matched + 1 } else { 0 };
        } else if has_class(b, PATH_END) && b != b' ' {
            return None;
        } else {
            p += 1;
        }
    }
    None
}

/// The path that starts at `start` and whose generated part starts at `root`. The end of its last name is kept in the
/// text if it is not generated.
fn temp_path_below(s: &[u8], start: usize, root: usize, sep: u8) -> Option<VolatileSpan> {
    let (mut end, mut name) = (root, root);
    while !has_class(byte_at(s, end), PATH_END) || sep == b'\\' && byte_at(s, end) == sep {
        if end >= s.len() {
            break;
        }
        end += 1;
        if byte_before(s, end, 1) == sep {
            name = end;
        }
    }
    while end > root && matches!(byte_before(s, end, 1), b'.') {
        end -= 1;
    }
    if end == root {
        return None;
    }
    let kept = informative_suffix(s.get(name..end).unwrap_or_default(), name == root);
    // The separator is kept together with the name.
    let whole = kept > 0 && kept == end - name;
    Some(VolatileSpan::new(start, end - kept - usize::from(whole), Placeholder::TempPath))
}

/// How many bytes at the end of a file name are information: all of it, its extension, or nothing.
fn informative_suffix(name: &[u8], first: bool) -> usize {
    let dot = name.iter().rposition(|&b| b == b'.');
    let length = dot.map_or(0, |dot| name.len() - dot);
    let is_extension = (2..=MAX_EXTENSION + 1).contains(&length)
        && name.iter().rev().take(length - 1).all(u8::is_ascii_lowercase);
    let extension = if is_extension { length } else { 0 };
    // A name directly below the root often consists of random letters, so only one with an extension is kept.
    let made_up =
        is_random(name) || (first || extension == 0) && changes_case(name) || first && extension == 0;
    if made_up { extension } else { name.len() }
}

fn changes_case(name: &[u8]) -> bool {
    name.windows(2).any(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()))
}

/// Whether a name has digits, is a common stem for generated names, or has a part of hexadecimal letters.
fn is_random(name: &[u8]) -> bool {
    let odd = |b: &u8| !(b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b'.'));
    name.starts_with(b"tmp")
        || name.iter().any(odd)
        || name
            .split(|b| !b.is_ascii_alphabetic())
            .any(|part| part.len() >= MIN_RANDOM && part.iter().all(u8::is_ascii_hexdigit))
}
