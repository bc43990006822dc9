//! Credentials in the arguments of commands: `curl -u user:password`, `mysql -pPASSWORD`, `sshpass -p PASSWORD`.

use super::SecretSpan;
use super::byte_scan::byte_at;
use super::name_class::NameClass;
use super::{keyed, value};

/// Maximum number of bytes of a command to examine.
const MAX_COMMAND_BYTES: usize = 8 * 1024;
/// Maximum number of words of a command to examine.
const MAX_COMMAND_WORDS: usize = 256;

/// A secret inside one word of a command.
pub(super) struct SecretArg {
    pub(super) word: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: &'static str,
}

/// How an option contains a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretOptionForm {
    /// `user:password`, or with another separator.
    AfterSeparator(u8),
    /// The whole value.
    Whole,
    /// The whole value, only if attached: `-pPASSWORD`.
    Attached,
    /// `name=value; name=value`.
    Cookies,
    /// `pass:…`.
    PassPrefix,
}

use SecretOptionForm::{AfterSeparator, Attached, Cookies, PassPrefix, Whole};

/// Names of a command, a word that must be among its arguments, and its options.
type SecretCommandRule = (&'static [&'static str], &'static str, &'static [(&'static str, SecretOptionForm)]);

const RULES: &[SecretCommandRule] = &[
    (
        &["curl"],
        "",
        &[
            ("-u", AfterSeparator(b':')),
            ("--user", AfterSeparator(b':')),
            ("-U", AfterSeparator(b':')),
            ("--proxy-user", AfterSeparator(b':')),
            ("-b", Cookies),
            ("--cookie", Cookies),
            ("--oauth2-bearer", Whole),
            ("--pass", Whole),
            ("--proxy-pass", Whole),
        ],
    ),
    (
        &["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlsh", "mariadb", "mariadb-dump"],
        "",
        &[("-p", Attached)],
    ),
    (&["sshpass"], "", &[("-p", Whole)]),
    (&["redis-cli", "valkey-cli"], "", &[("-a", Whole), ("--pass", Whole)]),
    (&["http", "https", "xh", "xhs"], "", &[("-a", AfterSeparator(b':')), ("--auth", AfterSeparator(b':'))]),
    (&["mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"], "", &[("-p", Whole)]),
    (
        &["ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldappasswd", "ldapwhoami"],
        "",
        &[("-w", Whole), ("-s", Whole)],
    ),
    (
        &["docker", "podman", "helm", "az", "oc", "cf", "nerdctl", "buildah", "registry"],
        "login",
        &[("-p", Whole)],
    ),
    (&["smbclient"], "", &[("-U", AfterSeparator(b'%')), ("--user", AfterSeparator(b'%'))]),
    (&["sqlcmd", "bcp"], "", &[("-P", Whole)]),
    (&["zip", "unzip"], "", &[("-P", Whole)]),
    (&["7z", "7za"], "", &[("-p", Attached)]),
    (
        &["openssl"],
        "",
        &[("-passin", PassPrefix), ("-passout", PassPrefix), ("-pass", PassPrefix), ("-k", Whole)],
    ),
    (&["keytool", "jarsigner"], "", &[("-storepass", Whole), ("-keypass", Whole)]),
    (&["ssh-keygen"], "", &[("-N", Whole), ("-P", Whole)]),
    (&["lftp"], "", &[("-u", AfterSeparator(b','))]),
    (&["useradd", "usermod"], "", &[("-p", Whole)]),
    (&["mosquitto_pub", "mosquitto_sub"], "", &[("-P", Whole)]),
    (&["snmpwalk", "snmpget", "snmpset"], "", &[("-A", Whole), ("-X", Whole)]),
];

/// Finds the secrets among the words of a command.
pub(super) fn find_secret_args(words: &[&[u8]]) -> Vec<SecretArg> {
    let mut parts = Vec::new();
    let Some((program, arguments)) = words.split_first() else { return parts };
    let program = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    for (programs, needed, options) in RULES {
        let is_it = programs.iter().any(|name| program == name.as_bytes());
        if is_it && (needed.is_empty() || arguments.iter().take(4).any(|word| *word == needed.as_bytes())) {
            find_in_options(words, options, &mut parts);
        }
    }
    match program {
        // `htpasswd -b FILE USER PASSWORD`.
        b"htpasswd" if arguments.iter().any(|word| word.starts_with(b"-") && word.contains(&b'b')) => {
            parts.extend(secret_from(words, words.len() - 1, 0));
        }
        b"vault" if arguments.first().is_some_and(|word| *word == b"login") && words.len() > 2 => {
            let place = words.len() - 1;
            if !words.get(place).is_some_and(|word| word.starts_with(b"-") || word.contains(&b'=')) {
                parts.extend(secret_from(words, place, 0));
            }
        }
        b"--from-literal" => {
            parts.extend(
                words
                    .get(1)
                    .and_then(|word| secret_from(words, 1, word.iter().position(|b| *b == b'=')? + 1)),
            );
        }
        _ => {}
    }
    parts
}

fn find_in_options(words: &[&[u8]], options: &[(&str, SecretOptionForm)], parts: &mut Vec<SecretArg>) {
    let mut at_word = 1;
    while let Some(word) = words.get(at_word) {
        for (option, form) in options {
            let Some((place, start)) = option_value(words, at_word, word, option.as_bytes(), *form) else {
                continue;
            };
            parts.extend(match form {
                Whole | Attached => secret_from(words, place, start),
                AfterSeparator(sign) => {
                    let text = words.get(place).and_then(|word| word.get(start..)).unwrap_or_default();
                    match text.iter().position(|byte| byte == sign) {
                        Some(colon) => secret_from(words, place, start + colon + 1),
                        None => None,
                    }
                }
                PassPrefix => {
                    let text = words.get(place).and_then(|word| word.get(start..)).unwrap_or_default();
                    text.starts_with(b"pass:").then(|| secret_from(words, place, start + 5)).flatten()
                }
                Cookies => words.get(place).and_then(|word| {
                    let found = keyed::find_cookies(word, start, word.len(), NameClass::Cookie)?;
                    Some(SecretArg { word: place, start: found.start, end: found.end, kind: found.kind })
                }),
            });
            break;
        }
        at_word += 1;
    }
}

/// Location of an option's value: word index and start byte.
fn option_value(
    words: &[&[u8]],
    place: usize,
    word: &[u8],
    option: &[u8],
    form: SecretOptionForm,
) -> Option<(usize, usize)> {
    let next = (form != Attached && words.get(place + 1).is_some_and(|next| !next.starts_with(b"--")))
        .then_some((place + 1, 0));
    if word == option {
        return next;
    }
    let long = option.starts_with(b"--") || option.len() > 2;
    if let Some(rest) = word.strip_prefix(option) {
        if rest.first() == Some(&b'=') {
            return Some((place, option.len() + 1));
        }
        return (!long).then_some((place, option.len()));
    }
    // `-sSu VALUE`: the last of several short options takes the value.
    let letter = (!long && form != Attached).then(|| byte_at(option, 1))?;
    let cluster = word.len() <= 5
        && word.first() == Some(&b'-')
        && byte_at(word, 1).is_ascii_alphabetic()
        && word.iter().skip(1).all(u8::is_ascii_alphabetic);
    (cluster && word.last() == Some(&letter)).then_some(next).flatten()
}

/// The rest of a word without quotes, unless it is a placeholder or reference.
fn secret_from(words: &[&[u8]], place: usize, start: usize) -> Option<SecretArg> {
    let word = words.get(place)?;
    let text = word.get(start..)?;
    let quoted = |byte: &u8| matches!(byte, b'"' | b'\'' | b'\\');
    let from = start + text.iter().take_while(|byte| quoted(byte)).count();
    let end = word.len() - text.iter().rev().take_while(|byte| quoted(byte)).count().min(word.len() - from);
    let text = word.get(from..end)?;
    let gap = text.len() < 3
        || value::is_placeholder(text)
        || value::is_reference(text)
        || is_documentation_word(text);
    (!gap).then_some(SecretArg { word: place, start: from, end, kind: "password" })
}

/// Whether a value is a documentation placeholder: `PASSWORD`, `your_password`, `my-token`.
fn is_documentation_word(text: &[u8]) -> bool {
    let upper = text.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_') && text.len() <= 24;
    let lower = text.to_ascii_lowercase();
    let says = [&b"password"[..], b"passwd", b"pass", b"secret", b"token"];
    says.iter().any(|word| lower == *word) || (upper && says.iter().any(|word| lower.ends_with(word)))
}

/// Examines the command that starts at an anchor.
pub(super) fn find(bytes: &[u8], start: usize) -> (Vec<SecretSpan>, usize) {
    let begins = start
        .checked_sub(1)
        .map(|place| byte_at(bytes, place))
        .is_none_or(|byte| byte.is_ascii_whitespace() || b"/'\"`(|;&$={[".contains(&byte));
    if !begins {
        return (Vec::new(), start);
    }
    let (words, end) = split_words(bytes, start);
    let texts: Vec<&[u8]> =
        words.iter().map(|(from, to)| bytes.get(*from..*to).unwrap_or_default()).collect();
    let found = find_secret_args(&texts).into_iter().filter_map(|part| {
        let (from, _) = words.get(part.word)?;
        Some(SecretSpan { start: from + part.start, end: from + part.end, kind: part.kind })
    });
    (found.collect(), end)
}

/// The words of a command without their quotes, and the end of the command.
fn split_words(bytes: &[u8], start: usize) -> (Vec<(usize, usize)>, usize) {
    let limit = bytes.len().min(start + MAX_COMMAND_BYTES);
    let mut words = Vec::new();
    let mut place = start;
    while place < limit && words.len() < MAX_COMMAND_WORDS {
        match byte_at(bytes, place) {
            b' ' | b'\t' => place += 1,
            // A line continuation, also inside nested text.
            b'\\' if matches!(byte_at(bytes, place + 1), b'\n' | b'\r') => place += 2,
            b'\\' if byte_at(bytes, place + 1) == b'n' => break,
            b'\n' | b'\r' | b'|' | b';' | b'&' | b')' => break,
            b'=' if words.len() == 1 => place += 1,
            _ => {
                let (from, to, next) = read_word(bytes, place, limit);
                words.push((from, to));
                place = next;
            }
        }
    }
    (words, place.min(limit))
}

/// Reads a quoted word, or one up to the next blank. Quotes inside it may contain blanks.
fn read_word(bytes: &[u8], start: usize, limit: usize) -> (usize, usize, usize) {
    let slashes = (0..4).take_while(|n| byte_at(bytes, start + n) == b'\\').count();
    let mark = byte_at(bytes, start + slashes);
    if matches!(mark, b'"' | b'\'') {
        let from = start + slashes + 1;
        let mut end = from;
        while end < limit && byte_at(bytes, end) != mark {
            end += if slashes == 0 && mark == b'"' && byte_at(bytes, end) == b'\\' { 2 } else { 1 };
        }
        let end = end.min(limit);
        return (from, end.saturating_sub(slashes).max(from), end + 1);
    }
    let (mut end, mut open) = (start, 0);
    while end < limit {
        let byte = byte_at(bytes, end);
        if open == 0 && matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'|' | b';' | b')') {
            break;
        }
        // The `=` of `--from-literal=…` ends its name.
        if open == 0 && byte == b'=' && bytes.get(start..end).is_some_and(|word| word == b"--from-literal") {
            break;
        }
        if byte == open {
            open = 0;
        } else if open == 0 && matches!(byte, b'"' | b'\'') {
            open = byte;
        } else if byte == b'\n' {
            break;
        }
        end += 1;
    }
    (start, end.max(start + 1), end.max(start + 1))
}

/// `echo PASSWORD | command`: the secret among the words before the pipe.
pub(super) fn find_piped_password(bytes: &[u8], start: usize, end: usize) -> Option<SecretSpan> {
    let from = start.saturating_sub(512);
    let before = bytes.get(from..start)?;
    let line = before.iter().rposition(|byte| matches!(byte, b'\n' | b';' | b'&')).map_or(0, |n| n + 1);
    let line_text = before.get(line..)?;
    let pipe = line_text.iter().rposition(|byte| *byte == b'|')?;
    let left = line_text.get(..pipe)?;
    let sink = bytes.get(start..end)?;
    let printed = |word: &[u8]| left.windows(word.len()).rposition(|part| part == word);
    let echo = printed(b"echo ").or_else(|| printed(b"printf "))?;
    let left_start = from + line;
    let (words, _) = split_words(bytes.get(..left_start + left.len())?, left_start + echo);
    let (_, rest) = words.split_first()?;
    let (from, to) = *rest.iter().rev().find(|(from, _)| byte_at(bytes, *from) != b'-')?;
    let text = bytes.get(from..to)?;
    let skip =
        if sink.eq_ignore_ascii_case(b"chpasswd") { text.iter().position(|b| *b == b':')? + 1 } else { 0 };
    let part = secret_from(&[text], 0, skip)?;
    Some(SecretSpan { start: from + part.start, end: from + part.end, kind: part.kind })
}
