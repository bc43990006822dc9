//! Recognises paths in directories for temporary files, whose names are made up anew for each run.

use super::bytes::{ALPHA, PATH_END, WORD, at, back, follows, is};
use super::context::View;
use super::volatile::{Found, Mark};

/// Longest path before the directory for temporary files on Windows, in bytes.
const MAX_HOME: usize = 260;
/// Longest ending of a file name that is kept.
const MAX_EXTENSION: usize = 5;
/// Fewest letters a-f that are taken for a random part of a name.
const MIN_RANDOM: usize = 4;

/// Whether a temporary path may start with the slash at `i`; rules out most slashes at once.
#[inline(always)]
pub(super) fn may_start(s: &[u8], i: usize) -> bool {
    matches!(at(s, i + 1), b't' | b'v' | b'p') || back(s, i, 1) == b':'
}

/// A path below `/tmp`, `/var/tmp` or `/var/folders`, or a Windows path written with slashes.
pub(super) fn unix(v: &View, i: usize) -> Option<Found> {
    let s = v.s;
    if v.back(i, 1) == b':'
        && let Some(found) = windows(v, i)
    {
        return Some(found);
    }
    if !starts_path(v, i) {
        return None;
    }
    let p = if follows(s, i, b"/private/") { i + 8 } else { i };
    let root =
        [&b"/tmp/"[..], b"/var/tmp/", b"/var/folders/"].into_iter().find(|root| follows(s, p, root))?;
    below(s, i, p + root.len(), b'/')
}

/// Whether a path may start at `i`: no name ends there, except that of a switch such as `-I`.
fn starts_path(v: &View, i: usize) -> bool {
    let prev = v.back(i, 1);
    let switch = is(prev, ALPHA) && v.back(i, 2) == b'-' && !is(v.back(i, 3), WORD);
    switch
        || !(is(prev, WORD)
            || matches!(prev, b'.' | b'-' | b'~' | b'+' | b'%' | b'}' | b')' | b']')
            || prev >= 0x80)
}

/// A path below `C:\Users\me\AppData\Local\Temp`, the backslashes single, doubled or written as slashes.
pub(super) fn windows(v: &View, i: usize) -> Option<Found> {
    const TEMP: [&[u8]; 3] = [b"AppData", b"Local", b"Temp"];
    let s = v.s;
    let sep = at(s, i);
    let drive = v.back(i, 1) == b':' && is(v.back(i, 2), ALPHA) && !is(v.back(i, 3), WORD);
    if !drive {
        return None;
    }
    let (mut p, mut matched) = (i, 0);
    while p - i < MAX_HOME {
        let b = at(s, p);
        if b == sep {
            p += 1;
            if at(s, p) == sep {
                p += 1;
            }
            if matched == TEMP.len() {
                return below(s, i - 2, p, sep);
            }
            let step = TEMP.get(matched).filter(|step| follows(s, p, step) && at(s, p + step.len()) == sep);
            matched = if step.is_some() { matched + 1 } else { 0 };
        } else if is(b, PATH_END) && b != b' ' {
            return None;
        } else {
            p += 1;
        }
    }
    None
}

/// The path that starts at `start` and whose made-up part starts at `root`. The end of its last name is left in
/// the text if it is not made up.
fn below(s: &[u8], start: usize, root: usize, sep: u8) -> Option<Found> {
    let (mut end, mut name) = (root, root);
    while !is(at(s, end), PATH_END) || sep == b'\\' && at(s, end) == sep {
        if end >= s.len() {
            break;
        }
        end += 1;
        if back(s, end, 1) == sep {
            name = end;
        }
    }
    while end > root && matches!(back(s, end, 1), b'.') {
        end -= 1;
    }
    if end == root {
        return None;
    }
    let kept = kept_part(s.get(name..end).unwrap_or_default(), name == root);
    // The separator stays with a name that is kept.
    let whole = kept > 0 && kept == end - name;
    Some(Found::new(start, end - kept - usize::from(whole), Mark::Temporary))
}

/// How many bytes at the end of a file name are information: all, its extension, or none.
fn kept_part(name: &[u8], first: bool) -> usize {
    let dot = name.iter().rposition(|&b| b == b'.');
    let length = dot.map_or(0, |dot| name.len() - dot);
    let is_extension = (2..=MAX_EXTENSION + 1).contains(&length)
        && name.iter().rev().take(length - 1).all(u8::is_ascii_lowercase);
    let extension = if is_extension { length } else { 0 };
    // A name right below the root is often made up of letters only, so only an extension makes it credible.
    let made_up =
        is_random(name) || (first || extension == 0) && changes_case(name) || first && extension == 0;
    if made_up { extension } else { name.len() }
}

fn changes_case(name: &[u8]) -> bool {
    name.windows(2).any(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()))
}

/// Whether a name has digits, is a usual stem for made-up names, or has a part of hexadecimal letters.
fn is_random(name: &[u8]) -> bool {
    let odd = |b: &u8| !(b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b'.'));
    name.starts_with(b"tmp")
        || name.iter().any(odd)
        || name
            .split(|b| !b.is_ascii_alphabetic())
            .any(|part| part.len() >= MIN_RANDOM && part.iter().all(u8::is_ascii_hexdigit))
}
