//! Secrets that are known by the name beside them: `DB_PASSWORD=…`, `"api_key": "…"`, `Authorization: Bearer …`.

use super::Find;
use super::names::{Class, classify};
use super::raw::{at, blanks, is_name, name_begins, quote, run, starts, text_ends, word_begins};
use super::scan::in_a_longer_word;
use super::shapes::{is_basic, is_long_hex, is_very_random};
use super::value::{self, Context};

/// The longest value of one name, in bytes.
const MOST: usize = 16 * 1024;
/// The longest rest of a name, in bytes.
const MOST_OF_NAME: usize = 64;
/// Colons in a bare value; with more it is a list of something.
const MOST_COLONS: usize = 4;
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
    class: Class,
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
    /// Directly behind `=`.
    tight: bool,
}

/// Looks at the name around a hit and at the value beside it.
pub(super) fn find(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    if at(bytes, end.checked_sub(1)?) == b' ' {
        return scheme(bytes, start, end);
    }
    // Most hits are parts of other words.
    if in_a_longer_word(bytes, end) {
        return None;
    }
    let name = name(bytes, start, end)?;
    if matches!(name.class, Class::Cookie | Class::SetCookie) && !name.flag {
        return cookie(bytes, &name);
    }
    let Some(value) = value(bytes, &name) else {
        return beside(bytes, &name);
    };
    judge(bytes, &name, &value)
}

fn judge(bytes: &[u8], name: &Name, value: &Value) -> Option<Find> {
    let text = bytes.get(value.start..value.end)?;
    let whole = |kind: &'static str| Find { start: value.start, end: value.end, kind };
    let kind = match name.class {
        Class::Authorization => return authorization(bytes, value),
        Class::Cookie | Class::SetCookie => return cookies(bytes, value.start, value.end, name.class),
        Class::Basic => return is_basic(text).then_some(whole("basic-auth")),
        Class::Hex => return is_long_hex(text).then_some(whole("token")),
        Class::Signature => {
            let random = text.len() >= 16 && text.iter().any(u8::is_ascii_digit);
            return (name.query && random && !value::is_reference(text)).then_some(whole("signature"));
        }
        Class::Token => "token",
        Class::Strong(kind) => kind,
    };
    let context = Context {
        quoted: value.quoted,
        member: false,
        loud: name.flag || name.query || (value.tight && (name.upper || is_variable(bytes, name.start))),
        token: name.class == Class::Token,
        login: !value.quoted && ends_line(bytes, value.end) && behind_user(bytes, name.start),
    };
    value::is_secret(text, context).then_some(whole(kind))
}

/// The value of a member of JSON, or of a pair of name and value: which part of it is a secret. `own` is for members of
/// the event itself, where a value is never prose.
pub(super) fn member(name: &[u8], text: &[u8], own: bool) -> Option<Find> {
    let class = classify(name)?;
    let whole = |kind: &'static str| Find { start: 0, end: text.len(), kind };
    let value = Value { start: 0, end: text.len(), quoted: true, tight: true };
    let kind = match class {
        Class::Authorization => return authorization(text, &value),
        Class::Cookie | Class::SetCookie => return cookies(text, 0, text.len(), class),
        Class::Basic => return is_basic(text).then_some(whole("basic-auth")),
        Class::Hex => return is_long_hex(text).then_some(whole("token")),
        Class::Signature => return None,
        Class::Token => "token",
        Class::Strong(kind) => kind,
    };
    let upper = !name.iter().any(u8::is_ascii_lowercase) && name.contains(&b'_');
    let context =
        Context { quoted: true, member: own, loud: upper, token: class == Class::Token, login: false };
    value::is_secret(text, context).then_some(whole(kind))
}

fn name(bytes: &[u8], hit: usize, end: usize) -> Option<Name> {
    let begins = name_begins(bytes, hit);
    let most = bytes.len().min(end + MOST_OF_NAME);
    // An anchor such as `sig=` ends behind the name.
    let end = if at(bytes, end - 1) == b'=' { end - 1 } else { end };
    let mut end = run(bytes.get(..most)?, end, |byte| is_name(byte) && byte != b'.');
    while end > hit && matches!(at(bytes, end - 1), b'-' | b'_') {
        end -= 1;
    }
    let start = run(bytes, begins, |byte| matches!(byte, b'-' | b'.')).min(hit);
    let flag =
        at(bytes, begins) == b'-' && (start - begins == 2 || at(bytes, begins + 1) != b'-') && start > begins;
    let text = bytes.get(start..end)?;
    let class = classify(text)?;
    let upper = !text.iter().any(u8::is_ascii_lowercase);
    let before = begins.checked_sub(1).map_or(0, |place| at(bytes, place));
    Some(Name { start, end, class, flag, query: matches!(before, b'?' | b'&' | b';' | b'#'), upper })
}

fn value(bytes: &[u8], name: &Name) -> Option<Value> {
    let end = name.end;
    if at(bytes, end) == b'>' && name.start.checked_sub(1).is_some_and(|place| at(bytes, place) == b'<') {
        let close = run(bytes, end + 1, |byte| byte.is_ascii_graphic() && !b"<\"\\".contains(&byte));
        let closed = starts(bytes, close, b"</") || starts(bytes, close, b"<\\/");
        return closed.then_some(Value { start: end + 1, end: close, quoted: true, tight: true });
    }
    let (closed, mut place) = match quote(bytes, end) {
        Some(slashes) => (Closed::Double(slashes), end + slashes + 1),
        None if at(bytes, end) == b'\'' => (Closed::Single, end + 1),
        None => (Closed::Bare, end),
    };
    let next = blanks(bytes, place);
    if name.flag && closed == Closed::Bare && next > place {
        return read(bytes, next, closed, false, false).filter(|value| at(bytes, value.start) != b'-');
    }
    if name.flag && closed != Closed::Bare && at(bytes, next) == b',' {
        return read(bytes, blanks(bytes, next + 1), closed, false, false).filter(|value| value.quoted);
    }
    if closed != Closed::Bare && at(bytes, next) == b']' {
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
    read(bytes, start, closed, tight, name.flag || (name.upper && tight))
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

/// Reads the value: in quotes that go with those of the name, or up to the next sign that ends a word. A `loud` value is
/// written as only values are, and may hold a `=`.
fn read(bytes: &[u8], start: usize, closed: Closed, tight: bool, loud: bool) -> Option<Value> {
    // Literals such as b"…" in code.
    let prefix = run(bytes, start, |byte| b"bBrRuUfF".contains(&byte)) - start;
    let opens = quote(bytes, start + prefix).is_some() || at(bytes, start + prefix) == b'\'';
    let start = if (1..=2).contains(&prefix) && opens { start + prefix } else { start };
    if let Some(slashes) = quote(bytes, start) {
        if matches!(closed, Closed::Double(around) if slashes != around) {
            return None;
        }
        let from = start + slashes + 1;
        let end = text_ends(bytes, from, slashes, MOST)?;
        let value = Value { start: from, end, quoted: true, tight };
        // A quote that opens nothing: `"password:" and "name"`.
        return (closed != Closed::Bare || at(bytes, from) != b' ').then_some(value);
    }
    if matches!(at(bytes, start), b'\'' | b'`') {
        let mark = at(bytes, start);
        let mut end = start + 1;
        while at(bytes, end) != mark {
            if matches!(at(bytes, end), b'\n' | 0) || end - start > MOST {
                return None;
            }
            end += if at(bytes, end) == b'\\' { 2 } else { 1 };
        }
        return Some(Value { start: start + 1, end, quoted: true, tight });
    }
    if closed != Closed::Bare {
        return None;
    }
    let end = word_ends(bytes, start, loud)?;
    Some(Value { start, end, quoted: false, tight })
}

/// Where a bare value ends. `None` if it is code: a call, an index, an assignment of its own.
fn word_ends(bytes: &[u8], start: usize, loud: bool) -> Option<usize> {
    let mut end = start;
    let mut colons = 0;
    loop {
        end = run(bytes, end, in_word);
        match at(bytes, end) {
            b':' if colons < MOST_COLONS => (end, colons) = (end + 1, colons + 1),
            b':' => return None,
            // Base64 ends with one or two.
            b'=' if loud || matches!(at(bytes, end + 1), b'=') || !in_word(at(bytes, end + 1)) => end += 1,
            b'=' => return None,
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

fn in_credentials(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~+/=:-".contains(&byte)
}

/// Schemes of which the rest of the header is a list of parameters.
const WITH_PARAMETERS: [&[u8]; 6] =
    [b"digest", b"aws4-hmac-sha256", b"hawk", b"oauth", b"signature", b"sharedaccesssignature"];

/// `Bearer …` and `Basic …` behind the name of the header, or a bare token in quotes.
fn authorization(bytes: &[u8], value: &Value) -> Option<Find> {
    let kind = "authorization";
    let scheme_end = run(bytes, value.start, |byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let scheme = bytes.get(value.start..scheme_end)?.to_ascii_lowercase();
    let spaced = at(bytes, scheme_end) == b' ';
    if spaced && WITH_PARAMETERS.contains(&scheme.as_slice()) {
        let start = blanks(bytes, scheme_end);
        let end = header_ends(bytes, start);
        let real = bytes.get(start..end)?.contains(&b'=') && end - start >= 16;
        return real.then_some(Find { start, end, kind });
    }
    let known =
        [&b"bearer"[..], b"basic", b"token", b"apikey", b"api-key", b"bot", b"negotiate", b"splunk", b"key"];
    let (start, least) = if known.contains(&scheme.as_slice()) && spaced {
        (blanks(bytes, scheme_end), 8)
    } else {
        (value.start, 20)
    };
    let end = run(bytes, start, in_credentials);
    let text = bytes.get(start..end)?;
    let basic = scheme == b"basic" && is_basic(text);
    (basic || (text.len() >= least && value::is_credential(text))).then_some(Find { start, end, kind })
}

/// `Bearer …` and `Basic …` without the name of the header.
fn scheme(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    if !word_begins(bytes, start) {
        return None;
    }
    let from = blanks(bytes, end);
    let to = run(bytes, from, in_credentials);
    let text = bytes.get(from..to)?;
    let found =
        if at(bytes, start).eq_ignore_ascii_case(&b'b') && at(bytes, start + 1).eq_ignore_ascii_case(&b'a') {
            text.len() >= 8 && is_basic(text)
        } else {
            text.len() >= 16 && text.iter().any(u8::is_ascii_digit) && value::is_credential(text)
        };
    found.then_some(Find { start: from, end: to, kind: "authorization" })
}

/// Where the value of a header ends: at the end of its line, or at the quote in which it stands.
fn header_ends(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..bytes.len().min(start + MOST)).unwrap_or_default();
    let ends = |(n, byte): (usize, &u8)| match byte {
        b'\n' | b'\r' | b'\'' | b'`' => Some(n),
        b'"' if n > 0 && at(rest, n - 1) == b'=' => None,
        b'"' if n == 0 || at(rest, n - 1) != b'"' => {
            // A quoted parameter is part of the value; the quote of the text around it is not.
            let parameter =
                rest.get(n + 1..).is_some_and(|after| after.starts_with(b",") || after.starts_with(b" "));
            (!parameter).then_some(n)
        }
        b'\\' if matches!(at(rest, n + 1), b'n' | b'r' | b'"' | b'\\') => Some(n),
        _ => None,
    };
    let mut end = start + rest.iter().enumerate().find_map(ends).unwrap_or(rest.len());
    while end > start && at(bytes, end - 1) == b' ' {
        end -= 1;
    }
    end
}

/// The cookies behind the name of a header, or in a text that is given to a name such as `document.cookie`.
fn cookie(bytes: &[u8], name: &Name) -> Option<Find> {
    let (closed, place) = match quote(bytes, name.end) {
        Some(slashes) => (Closed::Double(slashes), name.end + slashes + 1),
        None => (Closed::Bare, name.end + usize::from(at(bytes, name.end) == b'\'')),
    };
    let (after, _) = separator(bytes, blanks(bytes, place))?;
    let start = blanks(bytes, after);
    if quote(bytes, start).is_some() || at(bytes, start) == b'\'' {
        let value = read(bytes, start, closed, false, true)?;
        return cookies(bytes, value.start, value.end, name.class);
    }
    cookies(bytes, start, header_ends(bytes, start), name.class)
}

/// `name=value; name=value`: all of it, or the value of the first one.
pub(super) fn cookies(bytes: &[u8], start: usize, end: usize, class: Class) -> Option<Find> {
    let text = bytes.get(start..end)?;
    let name = text
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.!#$%&*+^~|".contains(byte))
        .count();
    if name == 0 || at(text, name) != b'=' {
        return None;
    }
    let value = text.get(name + 1..)?;
    let first = value.iter().take_while(|byte| !b"; ".contains(byte)).count();
    let real =
        first >= 6 && !value::is_filler(value.get(..first)?) && !value::is_reference(value.get(..first)?);
    let stop = if class == Class::SetCookie { start + name + 1 + first } else { end };
    let from = if class == Class::SetCookie { start + name + 1 } else { start };
    (real || (class == Class::Cookie && text.len() >= 16 && !value::is_reference(value))).then_some(Find {
        start: from,
        end: stop,
        kind: "cookie",
    })
}

/// Whether a name in lower case is assigned as a variable: `export db_password=…`, `-var db_password=…`.
fn is_variable(bytes: &[u8], name: usize) -> bool {
    if starts(bytes, name, b"TF_VAR_") || starts(bytes, name, b"ansible_") {
        return true;
    }
    let before = bytes.get(name.saturating_sub(16)..name).unwrap_or_default();
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'=' | b'\\');
    let blanks = before.iter().rev().take_while(|byte| blank(byte)).count();
    let before = before.get(..before.len() - blanks).unwrap_or_default();
    let words = [&b"-var"[..], b" -e", b"--env", b"--set", b"--build-arg", b"--extra-vars", b"export"];
    blanks > 0 && words.iter().any(|word| before.ends_with(word))
}

/// Whether nothing more stands on the line.
fn ends_line(bytes: &[u8], place: usize) -> bool {
    matches!(at(bytes, blanks(bytes, place)), b'\n' | b'\r' | 0) || starts(bytes, place, b"\\n")
}

/// Whether the line before, or the words before on the same line, name a user: `username: ann`.
fn behind_user(bytes: &[u8], name: usize) -> bool {
    let before = bytes.get(name.saturating_sub(200)..name).unwrap_or_default();
    let mut lines = before.rsplit(|byte| *byte == b'\n');
    let own = lines.next().unwrap_or_default();
    let own_user = own.split(|byte| matches!(byte, b';' | b',')).any(names_user);
    own_user || lines.next().is_some_and(names_user)
}

fn names_user(line: &[u8]) -> bool {
    let words = [&b"user"[..], b"username", b"login", b"email", b"user id", b"user_name", b"uid"];
    let ends = |name: &[u8]| {
        let name = name.trim_ascii().to_ascii_lowercase();
        words.iter().any(|word| {
            let before = name.strip_suffix(*word);
            before.is_some_and(|before| !before.last().is_some_and(u8::is_ascii_alphanumeric))
        })
    };
    let signs = line.iter().enumerate().filter(|(_, byte)| matches!(byte, b':' | b'='));
    signs.take(8).any(|(n, _)| {
        let value = line.get(n + 1..).unwrap_or_default().trim_ascii();
        !value.is_empty() && line.get(..n).is_some_and(ends)
    })
}

/// A name without `=` or `:` behind it: netrc files, SQL, lists of names and values, `aws configure set`.
fn beside(bytes: &[u8], name: &Name) -> Option<Find> {
    let Class::Strong(kind) = name.class else {
        return (name.class == Class::Token).then(|| pair(bytes, name)).flatten();
    };
    if let Some(found) = pair(bytes, name) {
        return Some(found);
    }
    let gap = run(bytes, name.end, |byte| byte.is_ascii_whitespace());
    if gap == name.end {
        return None;
    }
    let word = run(bytes, gap, |byte| byte.is_ascii_graphic() && !b"\"'`,;".contains(&byte));
    let text = bytes.get(gap..word)?;
    let real = !value::is_reference(text) && !value::is_filler(text);
    if in_netrc(bytes, name.start) && real && text.len() >= 3 {
        return Some(Find { start: gap, end: word, kind });
    }
    if at(bytes, gap) == b'\'' && name.upper {
        let value = read(bytes, gap, Closed::Bare, false, true)?;
        let text = bytes.get(value.start..value.end)?;
        let real = text.len() >= 3 && !value::is_reference(text) && !value::is_filler(text);
        return real.then_some(Find { start: value.start, end: value.end, kind });
    }
    (real && gap == name.end + 1 && is_very_random(text)).then_some(Find { start: gap, end: word, kind })
}

/// Whether the words before are those of a netrc file: `machine HOST login USER`, `default login USER`.
fn in_netrc(bytes: &[u8], name: usize) -> bool {
    let before = bytes.get(name.saturating_sub(300)..name).unwrap_or_default();
    let mut words = before.rsplit(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let mut word = || words.next().unwrap_or_default();
    let (user, login) = (word(), word());
    // A sentence, not a file.
    if user.last().is_some_and(|byte| b",.;:".contains(byte)) {
        return false;
    }
    if login == b"machine" || user == b"default" {
        return true;
    }
    let (host, machine) = (word(), word());
    matches!(login, b"login" | b"account") && (machine == b"machine" || host == b"default")
}

/// `name: DB_PASSWORD` and `value: …` behind it, as manifests and configuration files write pairs; and the default of a
/// variable of Terraform.
fn pair(bytes: &[u8], name: &Name) -> Option<Find> {
    let mut before = bytes.get(name.start.saturating_sub(24)..name.start)?;
    while let Some((last, rest)) = before.split_last() {
        if !matches!(last, b' ' | b'\t' | b'"' | b'\'' | b'\\' | b':' | b'=') {
            break;
        }
        before = rest;
    }
    let lower = before.to_ascii_lowercase();
    let skip =
        |place: usize| run(bytes, place, |byte| byte.is_ascii_whitespace() || b"\"'\\,{".contains(&byte));
    let place = skip(name.end);
    let label: &[u8] = if [&b"name"[..], b"key", b"variable_name"].iter().any(|word| lower.ends_with(word)) {
        b"value"
    } else if lower.ends_with(b"variable") {
        b"default"
    } else {
        return None;
    };
    let label = bytes.get(place..place + label.len()).filter(|text| text.eq_ignore_ascii_case(label))?;
    let mut place = place + label.len();
    let closed = match quote(bytes, place) {
        Some(slashes) => {
            place += slashes + 1;
            Closed::Double(slashes)
        }
        None => Closed::Bare,
    };
    let (after, _) = separator(bytes, blanks(bytes, place))?;
    let value = read(bytes, blanks(bytes, after), closed, true, true)?;
    let text = bytes.get(value.start..value.end)?;
    let kind = if let Class::Strong(kind) = name.class { kind } else { "token" };
    let context =
        Context { quoted: true, member: false, loud: true, token: name.class == Class::Token, login: true };
    value::is_secret(text, context).then_some(Find { start: value.start, end: value.end, kind })
}
