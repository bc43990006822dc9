//! Secrets that are known by the name beside them: `DB_PASSWORD=…`, `"api_key": "…"`, `Authorization: Bearer …`.

use super::Find;
use super::raw::{at, blanks, is_name, name_begins, quote, run, starts, text_ends, word_begins};
use super::value::{self, Context};

/// The longest value of one name, in bytes.
const MOST: usize = 16 * 1024;
/// The longest rest of a name, in bytes.
const MOST_OF_NAME: usize = 64;
/// Colons in a bare value; with more it is a list of something.
const MOST_COLONS: usize = 4;
/// What a name must end with, without the signs between words; whether anything may stand before it; the kind.
const ENDINGS: [(&str, bool, &str); 17] = [
    ("password", true, "password"),
    ("passwd", true, "password"),
    ("passphrase", true, "password"),
    ("pwd", false, "password"),
    ("secretaccesskey", false, "aws-secret"),
    ("secretkey", false, "secret"),
    ("secret", false, "secret"),
    ("apikey", true, "api-key"),
    ("accesstoken", false, "token"),
    ("authtoken", false, "token"),
    ("refreshtoken", false, "token"),
    ("sessiontoken", false, "token"),
    ("bearertoken", false, "token"),
    ("apitoken", false, "token"),
    ("privatekey", false, "private-key"),
    ("accountkey", false, "secret"),
    ("sharedaccesskey", false, "secret"),
];
/// Types that may stand between a name and its value.
const TYPES: [&[u8]; 5] = [b"String", b"string", b"str", b"&'static str", b"&str"];

/// How the name was closed, which says how its value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closed {
    /// It was not.
    Bare,
    /// By a double quote with so many backslashes.
    Double(usize),
    /// By a single quote.
    Single,
}

/// A name that says secret.
struct Name {
    start: usize,
    end: usize,
    kind: &'static str,
    /// `--password`.
    flag: bool,
    /// `?password=`, `&password=`.
    query: bool,
    /// `DB_PASSWORD`.
    upper: bool,
}

/// A value, with the way it was written.
struct Value {
    start: usize,
    end: usize,
    quoted: bool,
    closed: Closed,
    /// Directly behind `=`.
    tight: bool,
}

/// Looks at the name around a hit and at the value beside it.
pub(super) fn find(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    if at(bytes, end.checked_sub(1)?) == b' ' {
        return bearer(bytes, start, end);
    }
    // Most hits are parts of other words.
    let after = at(bytes, end);
    if after.is_ascii_lowercase()
        && !at(bytes, end.checked_sub(1)?).is_ascii_uppercase()
        && !matches!(after, b'k' | b'a')
    {
        return None;
    }
    let name = name(bytes, start, end)?;
    let value = value(bytes, &name)?;
    if name.kind == "authorization" {
        return authorization(bytes, &value);
    }
    let text = bytes.get(value.start..value.end)?;
    let context = Context {
        quoted: value.quoted,
        member: value.closed == Closed::Double(0),
        loud: name.flag || name.query || (name.upper && value.tight),
        token: name.kind == "env-token",
    };
    let kind = if context.token { "token" } else { name.kind };
    value::is_secret(text, context).then_some(Find { start: value.start, end: value.end, kind })
}

fn name(bytes: &[u8], hit: usize, end: usize) -> Option<Name> {
    let begins = name_begins(bytes, hit);
    let most = bytes.len().min(end + MOST_OF_NAME);
    let mut end = run(bytes.get(..most)?, end, |byte| is_name(byte) && byte != b'.');
    while end > hit && matches!(at(bytes, end - 1), b'-' | b'_') {
        end -= 1;
    }
    let flag = starts(bytes, begins, b"--");
    let start = run(bytes, begins, |byte| matches!(byte, b'-' | b'.')).min(hit);
    let text = bytes.get(start..end)?;
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let text = text.get(..text.len() - digits)?;
    let upper = !text.iter().any(u8::is_ascii_lowercase);
    let kind = if ends_with(text, b"authorization").is_some() {
        "authorization"
    } else if let Some((_, _, kind)) = ENDINGS.iter().find(|(word, loose, _)| {
        ends_with(text, word.as_bytes()).is_some_and(|at| *loose || stands_alone(text, at))
    }) {
        kind
    } else if upper && text.ends_with(b"_TOKEN") {
        "env-token"
    } else {
        return None;
    };
    let before = begins.checked_sub(1).map_or(0, |place| at(bytes, place));
    let escaped = begins.checked_sub(6).is_some_and(|place| starts(bytes, place, b"\\u0026"));
    Some(Name { start, end, kind, flag, query: matches!(before, b'?' | b'&' | b';') || escaped, upper })
}

/// Where the word begins that a name ends with; signs between its letters do not count.
fn ends_with(name: &[u8], word: &[u8]) -> Option<usize> {
    let mut place = name.len();
    for letter in word.iter().rev() {
        while place < name.len() && place > 0 && matches!(at(name, place - 1), b'_' | b'-') {
            place -= 1;
        }
        place = place.checked_sub(1).filter(|place| at(name, *place).eq_ignore_ascii_case(letter))?;
    }
    Some(place)
}

/// Whether a word in a name begins here: at its start, behind a sign, or at a capital letter.
fn stands_alone(name: &[u8], place: usize) -> bool {
    let Some(before) = place.checked_sub(1).map(|place| at(name, place)) else { return true };
    !before.is_ascii_alphanumeric() || (at(name, place).is_ascii_uppercase() && !before.is_ascii_uppercase())
}

fn value(bytes: &[u8], name: &Name) -> Option<Value> {
    let end = name.end;
    if at(bytes, end) == b'>' && name.start.checked_sub(1).is_some_and(|place| at(bytes, place) == b'<') {
        let close = run(bytes, end + 1, |byte| byte.is_ascii_graphic() && !b"<\"\\".contains(&byte));
        let closed = starts(bytes, close, b"</") || starts(bytes, close, b"<\\/");
        return closed.then_some(Value {
            start: end + 1,
            end: close,
            quoted: true,
            closed: Closed::Bare,
            tight: true,
        });
    }
    let (closed, mut place) = match quote(bytes, end) {
        Some(slashes) => (Closed::Double(slashes), end + slashes + 1),
        None if at(bytes, end) == b'\'' => (Closed::Single, end + 1),
        None => (Closed::Bare, end),
    };
    let next = blanks(bytes, place);
    if name.flag && closed == Closed::Bare && next > place {
        return read(bytes, next, closed, false).filter(|value| at(bytes, value.start) != b'-');
    }
    if name.flag && closed != Closed::Bare && at(bytes, next) == b',' {
        return read(bytes, blanks(bytes, next + 1), closed, false).filter(|value| value.quoted);
    }
    if closed != Closed::Bare && closed != Closed::Double(0) && at(bytes, next) == b']' {
        place += 1;
    }
    let next = blanks(bytes, place);
    let (after, equals) = separator(bytes, next)?;
    let mut start = blanks(bytes, after);
    let tight = equals && next == place && start == after;
    if !equals {
        let typed = TYPES.iter().find(|word| starts(bytes, start, word)).map(|word| start + word.len());
        if let Some((after, true)) = typed.and_then(|place| separator(bytes, blanks(bytes, place))) {
            start = blanks(bytes, after);
        }
    }
    read(bytes, start, closed, tight)
}

/// `=`, `:`, `:=` or `=>`: where it ends, and whether it is an assignment.
fn separator(bytes: &[u8], place: usize) -> Option<(usize, bool)> {
    match (at(bytes, place), at(bytes, place + 1)) {
        (b':', b'=') | (b'=', b'>') => Some((place + 2, true)),
        (b':', b':') | (b'=', b'=' | b'~') => None,
        (b':', _) => Some((place + 1, false)),
        (b'=', _) => Some((place + 1, true)),
        _ => None,
    }
}

/// Reads the value: in quotes that go with those of the name, or up to the next sign that ends a word.
fn read(bytes: &[u8], start: usize, closed: Closed, tight: bool) -> Option<Value> {
    // Literals such as b"…" in code.
    let prefix = run(bytes, start, |byte| b"bBrRuUfF".contains(&byte)) - start;
    let literal = (1..=2).contains(&prefix) && (quote(bytes, start + prefix).is_some_and(|n| n > 0));
    let literal = literal || (1..=2).contains(&prefix) && at(bytes, start + prefix) == b'\'';
    let start = if literal && closed != Closed::Double(0) { start + prefix } else { start };
    if let Some(slashes) = quote(bytes, start) {
        let allowed = match closed {
            Closed::Double(around) => slashes == around,
            // A quote without a backslash ends the string of the event in which the name stands.
            Closed::Bare | Closed::Single => slashes > 0,
        };
        let from = start + slashes + 1;
        let end = if allowed { text_ends(bytes, from, slashes, MOST)? } else { return None };
        let value = Value { start: from, end, quoted: true, closed, tight };
        // A quote that opens nothing: `"password:" and "name"`.
        return (closed != Closed::Bare || at(bytes, from) != b' ').then_some(value);
    }
    if closed == Closed::Double(0) {
        return None;
    }
    if matches!(at(bytes, start), b'\'' | b'`') {
        let mark = at(bytes, start);
        let mut end = start + 1;
        while at(bytes, end) != mark {
            let broken = at(bytes, end) == b'\\' && at(bytes, end + 1) != b'\\' || end - start > MOST;
            if broken || matches!(at(bytes, end), b'"' | 0) {
                return None;
            }
            end += if at(bytes, end) == b'\\' { 2 } else { 1 };
        }
        return Some(Value { start: start + 1, end, quoted: true, closed, tight });
    }
    if closed != Closed::Bare {
        return None;
    }
    let end = word_ends(bytes, start)?;
    Some(Value { start, end, quoted: false, closed, tight })
}

/// Where a bare value ends. `None` if it is code: a call, an index, an assignment of its own.
fn word_ends(bytes: &[u8], start: usize) -> Option<usize> {
    let mut end = start;
    let mut colons = 0;
    loop {
        end = run(bytes, end, in_word);
        match at(bytes, end) {
            b':' if colons < MOST_COLONS => (end, colons) = (end + 1, colons + 1),
            b':' => return None,
            // Base64 ends with one or two.
            b'=' if matches!(at(bytes, end + 1), b'=') || !in_word(at(bytes, end + 1)) => end += 1,
            b'=' => return None,
            _ if letter(bytes, end) => end += 6,
            _ => break,
        }
    }
    if matches!(at(bytes, end), b'(' | b'[' | b'{') {
        return None;
    }
    while end > start && matches!(at(bytes, end - 1), b'.' | b':') {
        end -= 1;
    }
    Some(end)
}

fn in_word(byte: u8) -> bool {
    (byte.is_ascii_graphic() || byte >= 0x80) && !b"\"'`\\,;&)]}<>|([{:=".contains(&byte)
}

/// A letter that JSON wrote as an escape belongs to the word; `\u0026` and `\u003c` are signs.
fn letter(bytes: &[u8], place: usize) -> bool {
    let sign = starts(bytes, place, b"\\u00") && matches!(at(bytes, place + 4), b'0'..=b'7');
    starts(bytes, place, b"\\u") && !sign && (2..6).all(|n| at(bytes, place + n).is_ascii_hexdigit())
}

fn in_credentials(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~+/=:-".contains(&byte)
}

/// `Bearer …` and `Basic …` behind the name of the header, or a bare token in quotes.
fn authorization(bytes: &[u8], value: &Value) -> Option<Find> {
    let kind = "authorization";
    let scheme_end = run(bytes, value.start, |byte| byte.is_ascii_alphabetic());
    let scheme = bytes.get(value.start..scheme_end)?.to_ascii_lowercase();
    let known = [&b"bearer"[..], b"basic", b"token", b"apikey"].contains(&scheme.as_slice());
    let (start, least) = if known && at(bytes, scheme_end) == b' ' {
        (blanks(bytes, scheme_end), 8)
    } else {
        (value.start, 20)
    };
    let end = run(bytes, start, in_credentials);
    let text = bytes.get(start..end)?;
    (text.len() >= least && value::is_credential(text)).then_some(Find { start, end, kind })
}

/// `Bearer …` without the name of the header.
fn bearer(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    if !word_begins(bytes, start) {
        return None;
    }
    let from = blanks(bytes, end);
    let to = run(bytes, from, in_credentials);
    let text = bytes.get(from..to)?;
    let random = text.len() >= 16 && text.iter().any(u8::is_ascii_digit) && value::is_credential(text);
    random.then_some(Find { start: from, end: to, kind: "authorization" })
}
