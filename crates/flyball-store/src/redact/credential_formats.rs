//! Credentials recognized by format and context: password hashes, key files, Flyball's own keys.

use super::SecretSpan;
use super::anchors::Anchor;
use super::byte_scan::{byte_at, is_word_start, run_end, starts_with_at};
use super::token_formats::{is_base64url, is_lower_hex, is_random};
use super::value;

/// Maximum size of a key file.
const MAX_KEY_FILE_BYTES: usize = 16 * 1024;
/// Maximum length of a token of a known format.
const MAX_TOKEN_BYTES: usize = 512;
/// Minimum number of hexadecimal digits of a Flyball key.
const MIN_FLYBALL_KEY_DIGITS: usize = 32;

/// Examines an anchor hit between `start` and `end`.
pub(super) fn find(bytes: &[u8], anchor: Anchor, start: usize, end: usize) -> Option<SecretSpan> {
    match anchor {
        Anchor::PasswordHash => find_password_hash(bytes, start, end),
        Anchor::FlyballKey => find_flyball_key(bytes, start, end),
        Anchor::Discord => find_discord(bytes, start),
        Anchor::Azure => find_azure(bytes, start, end),
        Anchor::Putty => find_putty_key(bytes, end),
        Anchor::Dsn => find_dsn_password(bytes, start),
        Anchor::SqlIdentifiedBy => find_sql_password(bytes, end),
        _ => None,
    }
}

/// `$2y$10$…`, `{SHA}…`: password hashes, which can be cracked offline.
fn find_password_hash(bytes: &[u8], start: usize, end: usize) -> Option<SecretSpan> {
    let most = bytes.get(..bytes.len().min(end + MAX_TOKEN_BYTES))?;
    let stop = run_end(most, end, |byte| byte.is_ascii_alphanumeric() || b"./$=,+-_".contains(&byte));
    let text = bytes.get(end..stop)?;
    let begin = if byte_at(bytes, start) == b'{' { end } else { start };
    let digit = text.iter().any(u8::is_ascii_digit) && text.iter().any(u8::is_ascii_alphabetic);
    (text.len() >= 20 && digit).then_some(SecretSpan { start: begin, end: stop, kind: "password-hash" })
}

/// `flyball_ROLE_…`, the cookie `flyball_login=…` and the link of the first start.
fn find_flyball_key(bytes: &[u8], start: usize, end: usize) -> Option<SecretSpan> {
    let kind = "flyball-key";
    let digits = |from: usize| {
        let most = bytes.get(..bytes.len().min(from + MAX_TOKEN_BYTES)).unwrap_or_default();
        let to = run_end(most, from, |byte| byte.is_ascii_hexdigit());
        (to >= from + MIN_FLYBALL_KEY_DIGITS).then_some(to)
    };
    if byte_at(bytes, end - 1) == b'=' {
        return digits(end).map(|to| SecretSpan { start: end, end: to, kind });
    }
    let most = bytes.get(..bytes.len().min(end + MIN_FLYBALL_KEY_DIGITS))?;
    let role = run_end(most, end, |byte| byte.is_ascii_lowercase());
    match byte_at(bytes, role) {
        b'_' => digits(role + 1).map(|to| SecretSpan { start, end: to, kind }),
        b'=' | b':' => {
            let from = run_end(bytes, role + 1, |byte| matches!(byte, b' ' | b'"'));
            digits(from).map(|to| SecretSpan { start: from, end: to, kind })
        }
        _ => None,
    }
}

/// A base64-encoded number, a time and a signature, separated by dots.
fn find_discord(bytes: &[u8], start: usize) -> Option<SecretSpan> {
    if !is_word_start(bytes, start) {
        return None;
    }
    let bytes = bytes.get(..bytes.len().min(start + MAX_TOKEN_BYTES))?;
    let first = run_end(bytes, start, |byte| byte.is_ascii_alphanumeric());
    let second = run_end(bytes, first + 1, is_base64url);
    let third = run_end(bytes, second + 1, is_base64url);
    let lengths = (22..=30).contains(&(first - start))
        && (5..=8).contains(&second.saturating_sub(first + 1))
        && third >= second + 27;
    let dots = byte_at(bytes, first) == b'.' && byte_at(bytes, second) == b'.';
    (lengths && dots).then_some(SecretSpan { start, end: third, kind: "discord-token" })
}

/// Three letters and a digit, `Q~`, and more than thirty letters and digits.
fn find_azure(bytes: &[u8], start: usize, end: usize) -> Option<SecretSpan> {
    let begin = start.checked_sub(4)?;
    let most = bytes.get(..bytes.len().min(end + MAX_TOKEN_BYTES))?;
    let stop = run_end(most, end, |byte| is_base64url(byte) || matches!(byte, b'~' | b'.'));
    let fits = (31..=40).contains(&(stop - end)) && byte_at(bytes, start - 1).is_ascii_digit();
    (fits && starts_with_at(bytes, start, b"Q~") && is_word_start(bytes, begin)).then_some(SecretSpan {
        start: begin,
        end: stop,
        kind: "azure-secret",
    })
}

/// The private part of a PuTTY key file.
fn find_putty_key(bytes: &[u8], end: usize) -> Option<SecretSpan> {
    let file = bytes.get(end..bytes.len().min(end + MAX_KEY_FILE_BYTES))?;
    let label: &[u8] = b"Private-Lines:";
    let next: &[u8] = b"PuTTY-User-Key-File";
    let stop = file.windows(next.len()).position(|part| part == next).unwrap_or(file.len());
    let place = file.get(..stop)?.windows(label.len()).position(|part| part == label)?;
    let mut start = run_end(bytes, end + place + label.len(), |byte| byte.is_ascii_digit() || byte == b' ');
    while byte_at(bytes, start).is_ascii_whitespace()
        || starts_with_at(bytes, start, b"\\n")
        || starts_with_at(bytes, start, b"\\r")
    {
        start += if byte_at(bytes, start) == b'\\' { 2 } else { 1 };
    }
    let stop = run_end(bytes.get(..end + stop)?, start, |byte| {
        byte.is_ascii_alphanumeric() || b"+/=\n\r\\".contains(&byte)
    });
    let mac = b"Private-MAC";
    let text = bytes.get(start..stop)?;
    let label = text.windows(mac.len()).position(|part| part == mac).unwrap_or(text.len());
    let mut stop = start + label;
    while stop > start
        && (byte_at(bytes, stop - 1).is_ascii_whitespace() || byte_at(bytes, stop - 1) == b'\\')
    {
        stop -= 1;
    }
    // `Private-MAC` begins with letters of base64.
    let text = bytes.get(start..stop)?;
    let whole = text.strip_suffix(b"Private").map_or(stop, |rest| start + rest.trim_ascii_end().len());
    (whole >= start + 20).then_some(SecretSpan { start, end: whole, kind: "private-key" })
}

/// `user:password@tcp(host)`, as in Go database drivers.
fn find_dsn_password(bytes: &[u8], at_sign: usize) -> Option<SecretSpan> {
    let most = 256.min(at_sign);
    let back = bytes.get(at_sign - most..at_sign)?;
    let in_password = |byte: &u8| byte.is_ascii_graphic() && !b"\"'`<>/".contains(byte);
    let length = back.iter().rev().take_while(|byte| in_password(byte)).count();
    let text = back.get(back.len() - length..)?;
    let colon = text.iter().position(|byte| *byte == b':')?;
    let password = text.get(colon + 1..)?;
    let real = password.len() >= 3 && !value::is_placeholder(password) && !value::is_reference(password);
    (colon > 0 && real).then_some(SecretSpan {
        start: at_sign - password.len(),
        end: at_sign,
        kind: "url-password",
    })
}

/// SQL `IDENTIFIED BY '…'`.
fn find_sql_password(bytes: &[u8], end: usize) -> Option<SecretSpan> {
    let start = run_end(bytes, end, |byte| matches!(byte, b' ' | b'\\'));
    let mark = byte_at(bytes, start);
    if !matches!(mark, b'\'' | b'"') {
        return None;
    }
    let most = bytes.get(start + 1..bytes.len().min(start + 256))?;
    let length = most.iter().position(|byte| *byte == mark || *byte == b'\n')?;
    let mut password = most.get(..length)?;
    password = password.strip_suffix(b"\\").unwrap_or(password);
    let real = password.len() >= 3 && !value::is_placeholder(password) && !value::is_reference(password);
    real.then_some(SecretSpan { start: start + 1, end: start + 1 + password.len(), kind: "password" })
}

/// Whether a text is base64 of `user:password`, as in basic authentication and Docker configuration.
pub(super) fn is_basic_credentials(text: &[u8]) -> bool {
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

/// Whether a text consists of hexadecimal digits, at least as many as a Flyball key has.
pub(super) fn is_long_hex(text: &[u8]) -> bool {
    text.len() >= MIN_FLYBALL_KEY_DIGITS && text.iter().all(|byte| is_lower_hex(byte.to_ascii_lowercase()))
}

/// Whether a bare word after a name and a blank is too random to be anything but a secret.
pub(super) fn is_very_random(text: &[u8]) -> bool {
    let any = |class: fn(&u8) -> bool| text.iter().any(class);
    let mixed = any(u8::is_ascii_digit) && any(u8::is_ascii_uppercase) && any(u8::is_ascii_lowercase);
    (text.len() >= 20 && mixed && is_random(text) && !value::is_identifier(text) && !value::is_path(text))
        || is_long_hex(text)
}
