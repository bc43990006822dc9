//! Addresses of pages: names of sessions may hold any character, and come back as they were.

use crate::who::digest;
use std::fmt::Write as _;

/// A text that may stand anywhere in an address, and in a form without being changed by a browser.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~' | b'.') {
            out.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The text that was encoded, if it was.
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

/// The page of a session. A browser takes `.` and `..` for folders, however they are written.
pub(super) fn session(name: &str) -> String {
    match name {
        "" | "." | ".." => format!("/session?name={}", encoded(name)),
        _ => format!("/sessions/{}", encoded(name)),
    }
}

/// The page of a session with one more parameter.
pub(super) fn session_with(name: &str, parameter: &str) -> String {
    let page = session(name);
    let mark = if page.contains('?') { '&' } else { '?' };
    format!("{page}{mark}{parameter}")
}

/// What stands for a session in the ids of a page.
pub(super) fn key(name: &str) -> String {
    digest(name).get(..12).unwrap_or_default().to_owned()
}

/// Where to go after a login: only a page of ours.
pub(super) fn own(place: &str) -> Option<&str> {
    let ours = place.starts_with('/') && !place.starts_with("//");
    (ours && place.len() < 2_000 && place.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'))
        .then_some(place)
}

#[cfg(test)]
mod tests {
    //! Names go out and come back; other places than ours are not gone to.

    use super::{decoded, encoded, own, session};

    #[test]
    fn any_name_comes_back_as_it_was() {
        for name in ["a b", "../..", "ü/ы?#%", "a\n\r\0\"<>", "%2F", "🙂"] {
            assert_eq!(decoded(&encoded(name)).as_deref(), Some(name));
        }
        assert_eq!((decoded("%"), decoded("%zz"), decoded("%ff")), (None, None, None));
        assert_eq!([session("a/b"), session("..")], ["/sessions/a%2Fb", "/session?name=.."]);
    }

    #[test]
    fn only_pages_of_ours_are_gone_to() {
        assert_eq!(own("/sessions/a?x=1"), Some("/sessions/a?x=1"));
        assert_eq!([own("//evil"), own("/\\evil"), own("https://evil"), own("/a b")], [None; 4]);
    }
}
