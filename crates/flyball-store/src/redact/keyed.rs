//! Secrets recognized by the name next to them: `DB_PASSWORD=…`, `"api_key": "…"`, `Authorization: Bearer …`.

use super::SecretSpan;
use super::anchor_scan::is_part_of_longer_word;
use super::byte_scan::{
    byte_at, is_name_byte, is_word_start, name_start, quote_backslashes, run_end, skip_blanks,
    starts_with_at, string_end,
};
use super::credential_formats::{is_basic_credentials, is_long_hex, is_very_random};
use super::name_class::{NameClass, classify};
use super::value::{self, ValueContext};

/// Maximum length of a value, in bytes.
const MAX_VALUE_BYTES: usize = 16 * 1024;
/// Maximum length of the rest of a name, in bytes.
const MAX_NAME_TAIL_BYTES: usize = 64;
/// Maximum number of colons in a bare value; a value with more is a list.
const MAX_COLONS: usize = 4;
/// Types that may appear between a name and its value.
const TYPE_NAMES: [&[u8]; 5] = [b"String", b"string", b"str", b"&'static str", b"&str"];

/// How the name is quoted, which determines how its value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameQuoting {
    /// Not quoted.
    Bare,
    /// Double quote with this many backslashes.
    Double(usize),
    /// Single quote.
    Single,
}

/// A name that indicates a secret.
struct SecretName {
    start: usize,
    end: usize,
    class: NameClass,
    /// `--password`.
    flag: bool,
    /// `?password=`, `&password=`.
    query: bool,
    /// `DB_PASSWORD`.
    upper: bool,
}

/// A value and how it is written.
struct ValueSpan {
    start: usize,
    end: usize,
    quoted: bool,
    /// Directly after `=`.
    directly_assigned: bool,
}

/// Examines the name around an anchor hit and the value next to it.
pub(super) fn find(bytes: &[u8], start: usize, end: usize) -> Option<SecretSpan> {
    if byte_at(bytes, end.checked_sub(1)?) == b' ' {
        return find_auth_scheme(bytes, start, end);
    }
    // Most hits are inside other words.
    if is_part_of_longer_word(bytes, end) {
        return None;
    }
    let name = read_name(bytes, start, end)?;
    if matches!(name.class, NameClass::Cookie | NameClass::SetCookie) && !name.flag {
        return find_cookie(bytes, &name);
    }
    let Some(value) = read_value_after(bytes, &name) else {
        return find_without_separator(bytes, &name);
    };
    classify_value(bytes, &name, &value)
}

fn classify_value(bytes: &[u8], name: &SecretName, value: &ValueSpan) -> Option<SecretSpan> {
    let text = bytes.get(value.start..value.end)?;
    let whole = |kind: &'static str| SecretSpan { start: value.start, end: value.end, kind };
    let kind = match name.class {
        NameClass::Authorization => return find_authorization(bytes, value),
        NameClass::Cookie | NameClass::SetCookie => {
            return find_cookies(bytes, value.start, value.end, name.class);
        }
        NameClass::Basic => return is_basic_credentials(text).then_some(whole("basic-auth")),
        NameClass::Hex => return is_long_hex(text).then_some(whole("token")),
        NameClass::Signature => {
            let random = text.len() >= 16 && text.iter().any(u8::is_ascii_digit);
            return (name.query && random && !value::is_reference(text)).then_some(whole("signature"));
        }
        NameClass::Token => "token",
        NameClass::Strong(kind) => kind,
    };
    let context = ValueContext {
        quoted: value.quoted,
        event_member: false,
        explicit: name.flag
            || name.query
            || (value.directly_assigned && (name.upper || is_variable(bytes, name.start))),
        token: name.class == NameClass::Token,
        beside_user: !value.quoted && is_line_end(bytes, value.end) && follows_user_name(bytes, name.start),
    };
    value::is_secret(text, context).then_some(whole(kind))
}

/// The secret in the value of a JSON member or name-value pair. `own` marks members of the event itself, whose values
/// are never prose.
pub(super) fn find_in_member(name: &[u8], text: &[u8], own: bool) -> Option<SecretSpan> {
    let class = classify(name)?;
    let whole = |kind: &'static str| SecretSpan { start: 0, end: text.len(), kind };
    let value = ValueSpan { start: 0, end: text.len(), quoted: true, directly_assigned: true };
    let kind = match class {
        NameClass::Authorization => return find_authorization(text, &value),
        NameClass::Cookie | NameClass::SetCookie => return find_cookies(text, 0, text.len(), class),
        NameClass::Basic => return is_basic_credentials(text).then_some(whole("basic-auth")),
        NameClass::Hex => return is_long_hex(text).then_some(whole("token")),
        NameClass::Signature => return None,
        NameClass::Token => "token",
        NameClass::Strong(kind) => kind,
    };
    let upper = !name.iter().any(u8::is_ascii_lowercase) && name.contains(&b'_');
    let context = ValueContext {
        quoted: true,
        event_member: own,
        explicit: upper,
        token: class == NameClass::Token,
        beside_user: false,
    };
    value::is_secret(text, context).then_some(whole(kind))
}

fn read_name(bytes: &[u8], hit: usize, end: usize) -> Option<SecretName> {
    let begins = name_start(bytes, hit);
    let most = bytes.len().min(end + MAX_NAME_TAIL_BYTES);
    // An anchor such as `sig=` ends after the name.
    let end = if byte_at(bytes, end - 1) == b'=' { end - 1 } else { end };
    let mut end = run_end(bytes.get(..most)?, end, |byte| is_name_byte(byte) && byte != b'.');
    while end > hit && matches!(byte_at(bytes, end - 1), b'-' | b'_') {
        end -= 1;
    }
    let start = run_end(bytes, begins, |byte| matches!(byte, b'-' | b'.')).min(hit);
    let flag = byte_at(bytes, begins) == b'-'
        && (start - begins == 2 || byte_at(bytes, begins + 1) != b'-')
        && start > begins;
    let text = bytes.get(start..end)?;
    let class = classify(text)?;
    let upper = !text.iter().any(u8::is_ascii_lowercase);
    let before = begins.checked_sub(1).map_or(0, |place| byte_at(bytes, place));
    Some(SecretName { start, end, class, flag, query: matches!(before, b'?' | b'&' | b';' | b'#'), upper })
}

fn read_value_after(bytes: &[u8], name: &SecretName) -> Option<ValueSpan> {
    let end = name.end;
    if byte_at(bytes, end) == b'>'
        && name.start.checked_sub(1).is_some_and(|place| byte_at(bytes, place) == b'<')
    {
        let close = run_end(bytes, end + 1, |byte| byte.is_ascii_graphic() && !b"<\"\\".contains(&byte));
        let closed = starts_with_at(bytes, close, b"</") || starts_with_at(bytes, close, b"<\\/");
        return closed.then_some(ValueSpan {
            start: end + 1,
            end: close,
            quoted: true,
            directly_assigned: true,
        });
    }
    let (closed, mut place) = match quote_backslashes(bytes, end) {
        Some(slashes) => (NameQuoting::Double(slashes), end + slashes + 1),
        None if byte_at(bytes, end) == b'\'' => (NameQuoting::Single, end + 1),
        None => (NameQuoting::Bare, end),
    };
    let next = skip_blanks(bytes, place);
    if name.flag && closed == NameQuoting::Bare && next > place {
        return read_value(bytes, next, closed, false, false)
            .filter(|value| byte_at(bytes, value.start) != b'-');
    }
    if name.flag && closed != NameQuoting::Bare && byte_at(bytes, next) == b',' {
        return read_value(bytes, skip_blanks(bytes, next + 1), closed, false, false)
            .filter(|value| value.quoted);
    }
    if closed != NameQuoting::Bare && byte_at(bytes, next) == b']' {
        place += 1;
    }
    let next = skip_blanks(bytes, place);
    let (after, equals) = separator(bytes, next)?;
    let mut start = skip_blanks(bytes, after);
    let tight = equals && next == place && start == after;
    if !equals {
        let typed =
            TYPE_NAMES.iter().find(|word| starts_with_at(bytes, start, word)).map(|word| start + word.len());
        if let Some((after, true)) = typed.and_then(|place| separator(bytes, skip_blanks(bytes, place))) {
            start = skip_blanks(bytes, after);
        }
    }
    read_value(bytes, start, closed, tight, name.flag || (name.upper && tight))
}

/// `=`, `:`, `:=` or `=>`: its end, and whether it is an assignment.
fn separator(bytes: &[u8], place: usize) -> Option<(usize, bool)> {
    match (byte_at(bytes, place), byte_at(bytes, place + 1)) {
        (b':', b'=') | (b'=', b'>') => Some((place + 2, true)),
        (b':', b':') | (b'=', b'=' | b'~') => None,
        (b':', _) => Some((place + 1, false)),
        (b'=', _) => Some((place + 1, true)),
        _ => None,
    }
}

/// Reads the value: in quotes that match those of the name, or up to the next word boundary. A `loud` value is in a
/// form that only values have, and may contain `=`.
fn read_value(bytes: &[u8], start: usize, closed: NameQuoting, tight: bool, loud: bool) -> Option<ValueSpan> {
    // Literals such as b"…" in code.
    let prefix = run_end(bytes, start, |byte| b"bBrRuUfF".contains(&byte)) - start;
    let opens = quote_backslashes(bytes, start + prefix).is_some() || byte_at(bytes, start + prefix) == b'\'';
    let start = if (1..=2).contains(&prefix) && opens { start + prefix } else { start };
    if let Some(slashes) = quote_backslashes(bytes, start) {
        if matches!(closed, NameQuoting::Double(around) if slashes != around) {
            return None;
        }
        let from = start + slashes + 1;
        let end = string_end(bytes, from, slashes, MAX_VALUE_BYTES)?;
        let value = ValueSpan { start: from, end, quoted: true, directly_assigned: tight };
        // A quote that opens nothing: `"password:" and "name"`.
        return (closed != NameQuoting::Bare || byte_at(bytes, from) != b' ').then_some(value);
    }
    if matches!(byte_at(bytes, start), b'\'' | b'`') {
        let mark = byte_at(bytes, start);
        let mut end = start + 1;
        while byte_at(bytes, end) != mark {
            if matches!(byte_at(bytes, end), b'\n' | 0) || end - start > MAX_VALUE_BYTES {
                return None;
            }
            end += if byte_at(bytes, end) == b'\\' { 2 } else { 1 };
        }
        return Some(ValueSpan { start: start + 1, end, quoted: true, directly_assigned: tight });
    }
    if closed != NameQuoting::Bare {
        return None;
    }
    let end = bare_value_end(bytes, start, loud)?;
    Some(ValueSpan { start, end, quoted: false, directly_assigned: tight })
}

/// End of a bare value. `None` if it is code: a call, an index, another assignment.
fn bare_value_end(bytes: &[u8], start: usize, loud: bool) -> Option<usize> {
    let mut end = start;
    let mut colons = 0;
    loop {
        end = run_end(bytes, end, is_value_byte);
        match byte_at(bytes, end) {
            b':' if colons < MAX_COLONS => (end, colons) = (end + 1, colons + 1),
            b':' => return None,
            // Base64 padding.
            b'=' if loud
                || matches!(byte_at(bytes, end + 1), b'=')
                || !is_value_byte(byte_at(bytes, end + 1)) =>
            {
                end += 1
            }
            b'=' => return None,
            _ => break,
        }
    }
    if matches!(byte_at(bytes, end), b'(' | b'[' | b'{') {
        return None;
    }
    while end > start && matches!(byte_at(bytes, end - 1), b'.' | b':') {
        end -= 1;
    }
    Some(end)
}

fn is_value_byte(byte: u8) -> bool {
    (byte.is_ascii_graphic() || byte >= 0x80) && !b"\"'`\\,;&)]}<>|([{:=".contains(&byte)
}

fn is_credential_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~+/=:-".contains(&byte)
}

/// Schemes whose credentials are a list of parameters.
const WITH_PARAMETERS: [&[u8]; 6] =
    [b"digest", b"aws4-hmac-sha256", b"hawk", b"oauth", b"signature", b"sharedaccesssignature"];

/// `Bearer …` and `Basic …` after the header name, or a bare token in quotes.
fn find_authorization(bytes: &[u8], value: &ValueSpan) -> Option<SecretSpan> {
    let kind = "authorization";
    let scheme_end = run_end(bytes, value.start, |byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let scheme = bytes.get(value.start..scheme_end)?.to_ascii_lowercase();
    let spaced = byte_at(bytes, scheme_end) == b' ';
    if spaced && WITH_PARAMETERS.contains(&scheme.as_slice()) {
        let start = skip_blanks(bytes, scheme_end);
        let end = header_end(bytes, start);
        let real = bytes.get(start..end)?.contains(&b'=') && end - start >= 16;
        return real.then_some(SecretSpan { start, end, kind });
    }
    let known =
        [&b"bearer"[..], b"basic", b"token", b"apikey", b"api-key", b"bot", b"negotiate", b"splunk", b"key"];
    let (start, least) = if known.contains(&scheme.as_slice()) && spaced {
        (skip_blanks(bytes, scheme_end), 8)
    } else {
        (value.start, 20)
    };
    let end = run_end(bytes, start, is_credential_byte);
    let text = bytes.get(start..end)?;
    let basic = scheme == b"basic" && is_basic_credentials(text);
    (basic || (text.len() >= least && value::is_credential(text))).then_some(SecretSpan { start, end, kind })
}

/// `Bearer …` and `Basic …` without the header name.
fn find_auth_scheme(bytes: &[u8], start: usize, end: usize) -> Option<SecretSpan> {
    if !is_word_start(bytes, start) {
        return None;
    }
    let from = skip_blanks(bytes, end);
    let to = run_end(bytes, from, is_credential_byte);
    let text = bytes.get(from..to)?;
    let found = if byte_at(bytes, start).eq_ignore_ascii_case(&b'b')
        && byte_at(bytes, start + 1).eq_ignore_ascii_case(&b'a')
    {
        text.len() >= 8 && is_basic_credentials(text)
    } else {
        text.len() >= 16 && text.iter().any(u8::is_ascii_digit) && value::is_credential(text)
    };
    found.then_some(SecretSpan { start: from, end: to, kind: "authorization" })
}

/// End of a header value: the end of its line, or the enclosing quote.
fn header_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..bytes.len().min(start + MAX_VALUE_BYTES)).unwrap_or_default();
    let ends = |(n, byte): (usize, &u8)| match byte {
        b'\n' | b'\r' | b'\'' | b'`' => Some(n),
        b'"' if n > 0 && byte_at(rest, n - 1) == b'=' => None,
        b'"' if n == 0 || byte_at(rest, n - 1) != b'"' => {
            // A quoted parameter is part of the value; the enclosing quote is not.
            let parameter =
                rest.get(n + 1..).is_some_and(|after| after.starts_with(b",") || after.starts_with(b" "));
            (!parameter).then_some(n)
        }
        b'\\' if matches!(byte_at(rest, n + 1), b'n' | b'r' | b'"' | b'\\') => Some(n),
        _ => None,
    };
    let mut end = start + rest.iter().enumerate().find_map(ends).unwrap_or(rest.len());
    while end > start && byte_at(bytes, end - 1) == b' ' {
        end -= 1;
    }
    end
}

/// Cookies after a header name, or in a text assigned to a name such as `document.cookie`.
fn find_cookie(bytes: &[u8], name: &SecretName) -> Option<SecretSpan> {
    let (closed, place) = match quote_backslashes(bytes, name.end) {
        Some(slashes) => (NameQuoting::Double(slashes), name.end + slashes + 1),
        None => (NameQuoting::Bare, name.end + usize::from(byte_at(bytes, name.end) == b'\'')),
    };
    let (after, _) = separator(bytes, skip_blanks(bytes, place))?;
    let start = skip_blanks(bytes, after);
    if quote_backslashes(bytes, start).is_some() || byte_at(bytes, start) == b'\'' {
        let value = read_value(bytes, start, closed, false, true)?;
        return find_cookies(bytes, value.start, value.end, name.class);
    }
    find_cookies(bytes, start, header_end(bytes, start), name.class)
}

/// `name=value; name=value`: all of it, or only the first value.
pub(super) fn find_cookies(bytes: &[u8], start: usize, end: usize, class: NameClass) -> Option<SecretSpan> {
    let text = bytes.get(start..end)?;
    let name = text
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.!#$%&*+^~|".contains(byte))
        .count();
    if name == 0 || byte_at(text, name) != b'=' {
        return None;
    }
    let value = text.get(name + 1..)?;
    let first = value.iter().take_while(|byte| !b"; ".contains(byte)).count();
    let real = first >= 6
        && !value::is_placeholder(value.get(..first)?)
        && !value::is_reference(value.get(..first)?);
    let stop = if class == NameClass::SetCookie { start + name + 1 + first } else { end };
    let from = if class == NameClass::SetCookie { start + name + 1 } else { start };
    (real || (class == NameClass::Cookie && text.len() >= 16 && !value::is_reference(value)))
        .then_some(SecretSpan { start: from, end: stop, kind: "cookie" })
}

/// Whether a lowercase name is assigned as a variable: `export db_password=…`, `-var db_password=…`.
fn is_variable(bytes: &[u8], name: usize) -> bool {
    if starts_with_at(bytes, name, b"TF_VAR_") || starts_with_at(bytes, name, b"ansible_") {
        return true;
    }
    let before = bytes.get(name.saturating_sub(16)..name).unwrap_or_default();
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'=' | b'\\');
    let blanks = before.iter().rev().take_while(|byte| blank(byte)).count();
    let before = before.get(..before.len() - blanks).unwrap_or_default();
    let words = [&b"-var"[..], b" -e", b"--env", b"--set", b"--build-arg", b"--extra-vars", b"export"];
    blanks > 0 && words.iter().any(|word| before.ends_with(word))
}

/// Whether the rest of the line is blank.
fn is_line_end(bytes: &[u8], place: usize) -> bool {
    matches!(byte_at(bytes, skip_blanks(bytes, place)), b'\n' | b'\r' | 0)
        || starts_with_at(bytes, place, b"\\n")
}

/// Whether the previous line, or the words before on the same line, name a user: `username: ann`.
fn follows_user_name(bytes: &[u8], name: usize) -> bool {
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

/// A name without `=` or `:` after it: netrc files, SQL, lists of names and values, `aws configure set`.
fn find_without_separator(bytes: &[u8], name: &SecretName) -> Option<SecretSpan> {
    let NameClass::Strong(kind) = name.class else {
        return (name.class == NameClass::Token).then(|| find_name_value_pair(bytes, name)).flatten();
    };
    if let Some(found) = find_name_value_pair(bytes, name) {
        return Some(found);
    }
    let gap = run_end(bytes, name.end, |byte| byte.is_ascii_whitespace());
    if gap == name.end {
        return None;
    }
    let word = run_end(bytes, gap, |byte| byte.is_ascii_graphic() && !b"\"'`,;".contains(&byte));
    let text = bytes.get(gap..word)?;
    let real = !value::is_reference(text) && !value::is_placeholder(text);
    if in_netrc(bytes, name.start) && real && text.len() >= 3 {
        return Some(SecretSpan { start: gap, end: word, kind });
    }
    if byte_at(bytes, gap) == b'\'' && name.upper {
        let value = read_value(bytes, gap, NameQuoting::Bare, false, true)?;
        let text = bytes.get(value.start..value.end)?;
        let real = text.len() >= 3 && !value::is_reference(text) && !value::is_placeholder(text);
        return real.then_some(SecretSpan { start: value.start, end: value.end, kind });
    }
    (real && gap == name.end + 1 && is_very_random(text)).then_some(SecretSpan {
        start: gap,
        end: word,
        kind,
    })
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

/// `name: DB_PASSWORD` followed by `value: …`, as in manifests and configuration files; and the default of a
/// Terraform variable.
fn find_name_value_pair(bytes: &[u8], name: &SecretName) -> Option<SecretSpan> {
    let mut before = bytes.get(name.start.saturating_sub(24)..name.start)?;
    while let Some((last, rest)) = before.split_last() {
        if !matches!(last, b' ' | b'\t' | b'"' | b'\'' | b'\\' | b':' | b'=') {
            break;
        }
        before = rest;
    }
    let lower = before.to_ascii_lowercase();
    let skip =
        |place: usize| run_end(bytes, place, |byte| byte.is_ascii_whitespace() || b"\"'\\,{".contains(&byte));
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
    let closed = match quote_backslashes(bytes, place) {
        Some(slashes) => {
            place += slashes + 1;
            NameQuoting::Double(slashes)
        }
        None => NameQuoting::Bare,
    };
    let (after, _) = separator(bytes, skip_blanks(bytes, place))?;
    let value = read_value(bytes, skip_blanks(bytes, after), closed, true, true)?;
    let text = bytes.get(value.start..value.end)?;
    let kind = if let NameClass::Strong(kind) = name.class { kind } else { "token" };
    let context = ValueContext {
        quoted: true,
        event_member: false,
        explicit: true,
        token: name.class == NameClass::Token,
        beside_user: true,
    };
    value::is_secret(text, context).then_some(SecretSpan { start: value.start, end: value.end, kind })
}
