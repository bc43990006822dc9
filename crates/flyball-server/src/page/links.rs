//! Page URLs. Session names may contain any character and round-trip unchanged.

use crate::auth::digest;
use std::fmt::Write as _;

/// Percent-encodes a text so that it is safe in any part of a URL and unchanged by form submission.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~' | b'.') {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Decodes an encoded text; `None` if it is malformed.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok())?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// The page of a session. Browsers treat `.` and `..` as path segments even when they are encoded.
pub(super) fn session_path(name: &str) -> String {
    match name {
        "" | "." | ".." => format!("/session?name={}", encoded(name)),
        _ => format!("/sessions/{}", encoded(name)),
    }
}

/// The page of a session with an additional query parameter.
pub(super) fn session_path_with(name: &str, parameter: &str) -> String {
    let page = session_path(name);
    let mark = if page.contains('?') { '&' } else { '?' };
    format!("{page}{mark}{parameter}")
}

/// A short id for a session in element ids.
pub(super) fn dom_id(name: &str) -> String {
    digest(name).get(..12).unwrap_or_default().to_owned()
}

/// A redirect target after login, if it is a path on this server.
pub(super) fn own_path(path: &str) -> Option<&str> {
    let ours = path.starts_with('/') && !path.starts_with("//");
    (ours && path.len() < 2_000 && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'))
        .then_some(path)
}

#[cfg(test)]
mod tests {
    //! Names round-trip, and redirects stay on this server.

    use super::{decoded, encoded, own_path, session_path};

    #[test]
    fn names_round_trip() {
        for name in ["a b", "../..", "ü/ы?#%", "a\n\r\0\"<>", "%2F", "🙂"] {
            assert_eq!(decoded(&encoded(name)).as_deref(), Some(name));
        }
        assert_eq!((decoded("%"), decoded("%zz"), decoded("%ff")), (None, None, None));
        assert_eq!([session_path("a/b"), session_path("..")], ["/sessions/a%2Fb", "/session?name=.."]);
    }

    #[test]
    fn redirects_stay_on_this_server() {
        assert_eq!(own_path("/sessions/a?x=1"), Some("/sessions/a?x=1"));
        assert_eq!(
            [own_path("//evil"), own_path("/\\evil"), own_path("https://evil"), own_path("/a b")],
            [None; 4]
        );
    }
}
