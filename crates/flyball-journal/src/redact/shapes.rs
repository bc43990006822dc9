//! Secrets that are known by their shape and their surroundings: password hashes, key files, Flyball's own keys.

use super::Find;
use super::anchors::Anchor;
use super::known::{dashed, hex, is_random};
use super::raw::{at, run, starts, word_begins};
use super::value;

/// The longest key file.
const KEY_FILE_BYTES: usize = 16 * 1024;
/// The longest token of a known shape.
const TOKEN_BYTES: usize = 512;
/// The shortest secret of Flyball, in hexadecimal digits.
const FLYBALL_DIGITS: usize = 32;

/// Looks closely at a hit between `start` and `end`.
pub(super) fn find(bytes: &[u8], anchor: Anchor, start: usize, end: usize) -> Option<Find> {
    match anchor {
        Anchor::Hash => hash(bytes, start, end),
        Anchor::Flyball => flyball(bytes, start, end),
        Anchor::Discord => discord(bytes, start),
        Anchor::Azure => azure(bytes, start, end),
        Anchor::Putty => putty(bytes, end),
        Anchor::Dsn => dsn(bytes, start),
        Anchor::Identified => identified(bytes, end),
        _ => None,
    }
}

/// `$2y$10$…`, `{SHA}…`: what an attacker with time turns into a password.
fn hash(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    let most = bytes.get(..bytes.len().min(end + TOKEN_BYTES))?;
    let stop = run(most, end, |byte| byte.is_ascii_alphanumeric() || b"./$=,+-_".contains(&byte));
    let text = bytes.get(end..stop)?;
    let begin = if at(bytes, start) == b'{' { end } else { start };
    let digit = text.iter().any(u8::is_ascii_digit) && text.iter().any(u8::is_ascii_alphabetic);
    (text.len() >= 20 && digit).then_some(Find { start: begin, end: stop, kind: "password-hash" })
}

/// `flyball_ROLE_…`, the cookie `flyball_login=…` and the link of the first start.
fn flyball(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    let kind = "flyball-key";
    let digits = |from: usize| {
        let most = bytes.get(..bytes.len().min(from + TOKEN_BYTES)).unwrap_or_default();
        let to = run(most, from, |byte| byte.is_ascii_hexdigit());
        (to >= from + FLYBALL_DIGITS).then_some(to)
    };
    if at(bytes, end - 1) == b'=' {
        return digits(end).map(|to| Find { start: end, end: to, kind });
    }
    let most = bytes.get(..bytes.len().min(end + FLYBALL_DIGITS))?;
    let role = run(most, end, |byte| byte.is_ascii_lowercase());
    match at(bytes, role) {
        b'_' => digits(role + 1).map(|to| Find { start, end: to, kind }),
        b'=' | b':' => {
            let from = run(bytes, role + 1, |byte| matches!(byte, b' ' | b'"'));
            digits(from).map(|to| Find { start: from, end: to, kind })
        }
        _ => None,
    }
}

/// A number in base64, a time and a signature, with dots between them.
fn discord(bytes: &[u8], start: usize) -> Option<Find> {
    if !word_begins(bytes, start) {
        return None;
    }
    let bytes = bytes.get(..bytes.len().min(start + TOKEN_BYTES))?;
    let first = run(bytes, start, |byte| byte.is_ascii_alphanumeric());
    let second = run(bytes, first + 1, dashed);
    let third = run(bytes, second + 1, dashed);
    let lengths = (22..=30).contains(&(first - start))
        && (5..=8).contains(&second.saturating_sub(first + 1))
        && third >= second + 27;
    let dots = at(bytes, first) == b'.' && at(bytes, second) == b'.';
    (lengths && dots).then_some(Find { start, end: third, kind: "discord-token" })
}

/// Three letters and a digit, `Q~`, and more than thirty letters and digits.
fn azure(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    let begin = start.checked_sub(4)?;
    let most = bytes.get(..bytes.len().min(end + TOKEN_BYTES))?;
    let stop = run(most, end, |byte| dashed(byte) || matches!(byte, b'~' | b'.'));
    let fits = (31..=40).contains(&(stop - end)) && at(bytes, start - 1).is_ascii_digit();
    (fits && starts(bytes, start, b"Q~") && word_begins(bytes, begin)).then_some(Find {
        start: begin,
        end: stop,
        kind: "azure-secret",
    })
}

/// The private part of a PuTTY key file.
fn putty(bytes: &[u8], end: usize) -> Option<Find> {
    let file = bytes.get(end..bytes.len().min(end + KEY_FILE_BYTES))?;
    let label: &[u8] = b"Private-Lines:";
    let next: &[u8] = b"PuTTY-User-Key-File";
    let stop = file.windows(next.len()).position(|part| part == next).unwrap_or(file.len());
    let place = file.get(..stop)?.windows(label.len()).position(|part| part == label)?;
    let mut start = run(bytes, end + place + label.len(), |byte| byte.is_ascii_digit() || byte == b' ');
    while at(bytes, start).is_ascii_whitespace()
        || starts(bytes, start, b"\\n")
        || starts(bytes, start, b"\\r")
    {
        start += if at(bytes, start) == b'\\' { 2 } else { 1 };
    }
    let stop = run(bytes.get(..end + stop)?, start, |byte| {
        byte.is_ascii_alphanumeric() || b"+/=\n\r\\".contains(&byte)
    });
    let mac = b"Private-MAC";
    let text = bytes.get(start..stop)?;
    let label = text.windows(mac.len()).position(|part| part == mac).unwrap_or(text.len());
    let mut stop = start + label;
    while stop > start && (at(bytes, stop - 1).is_ascii_whitespace() || at(bytes, stop - 1) == b'\\') {
        stop -= 1;
    }
    // `Private-MAC` begins with letters of base64.
    let text = bytes.get(start..stop)?;
    let whole = text.strip_suffix(b"Private").map_or(stop, |rest| start + rest.trim_ascii_end().len());
    (whole >= start + 20).then_some(Find { start, end: whole, kind: "private-key" })
}

/// `user:password@tcp(host)`, as drivers of Go write it.
fn dsn(bytes: &[u8], at_sign: usize) -> Option<Find> {
    let most = 256.min(at_sign);
    let back = bytes.get(at_sign - most..at_sign)?;
    let in_password = |byte: &u8| byte.is_ascii_graphic() && !b"\"'`<>/".contains(byte);
    let length = back.iter().rev().take_while(|byte| in_password(byte)).count();
    let text = back.get(back.len() - length..)?;
    let colon = text.iter().position(|byte| *byte == b':')?;
    let password = text.get(colon + 1..)?;
    let real = password.len() >= 3 && !value::is_filler(password) && !value::is_reference(password);
    (colon > 0 && real).then_some(Find {
        start: at_sign - password.len(),
        end: at_sign,
        kind: "url-password",
    })
}

/// `IDENTIFIED BY '…'` of SQL.
fn identified(bytes: &[u8], end: usize) -> Option<Find> {
    let start = run(bytes, end, |byte| matches!(byte, b' ' | b'\\'));
    let mark = at(bytes, start);
    if !matches!(mark, b'\'' | b'"') {
        return None;
    }
    let most = bytes.get(start + 1..bytes.len().min(start + 256))?;
    let length = most.iter().position(|byte| *byte == mark || *byte == b'\n')?;
    let mut password = most.get(..length)?;
    password = password.strip_suffix(b"\\").unwrap_or(password);
    let real = password.len() >= 3 && !value::is_filler(password) && !value::is_reference(password);
    real.then_some(Find { start: start + 1, end: start + 1 + password.len(), kind: "password" })
}

/// Base64 that holds `user:password`, as basic authentication and Docker write it.
pub(super) fn is_basic(text: &[u8]) -> bool {
    let digits = text.iter().filter(|byte| **byte != b'=');
    let value = |byte: &u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let (mut bits, mut count, mut colon, mut length) = (0_u32, 0, false, 0);
    for digit in digits {
        let Some(digit) = value(digit) else { return false };
        bits = (bits << 6 | digit) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            let byte = (bits >> count) & 0xff;
            colon |= byte == u32::from(b':');
            length += 1;
            if byte < 0x20 || byte == 0x7f {
                return false;
            }
        }
    }
    colon && length >= 6
}

/// Whether a text is nothing but hexadecimal digits, as many as a key of Flyball has.
pub(super) fn is_long_hex(text: &[u8]) -> bool {
    text.len() >= FLYBALL_DIGITS && text.iter().all(|byte| hex(byte.to_ascii_lowercase()))
}

/// Whether a bare word behind a name and a blank is so random that it can only be a secret.
pub(super) fn is_very_random(text: &[u8]) -> bool {
    let any = |class: fn(&u8) -> bool| text.iter().any(class);
    let mixed = any(u8::is_ascii_digit) && any(u8::is_ascii_uppercase) && any(u8::is_ascii_lowercase);
    (text.len() >= 20 && mixed && is_random(text) && !value::is_identifier(text) && !value::is_path(text))
        || is_long_hex(text)
}
