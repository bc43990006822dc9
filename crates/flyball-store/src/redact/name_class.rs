//! Names that mark the value next to them as a secret: `DB_PASSWORD`, `api_key`, `X-Vault-Token`, `Cookie`.

use super::byte_scan::byte_at;

/// How the value next to such a name is judged, and the kind in its replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameClass {
    /// The value is a secret unless it looks like a word, code or a reference.
    Strong(&'static str),
    /// An ambiguous name: only a random value is a secret.
    Token,
    /// The value of an `Authorization` header.
    Authorization,
    /// Cookies: `a=1; b=2`.
    Cookie,
    /// One cookie with its attributes.
    SetCookie,
    /// Base64 of `user:password`.
    Basic,
    /// A signature in a URL's query, which is enough to use the URL.
    Signature,
    /// A random hexadecimal number.
    Hex,
}

/// Suffix of a name without separators, and whether anything may precede it.
const ENDINGS: [(&str, bool, NameClass); 44] = [
    ("authorization", true, NameClass::Authorization),
    ("setcookie", false, NameClass::SetCookie),
    ("cookie", false, NameClass::Cookie),
    ("password", true, NameClass::Strong("password")),
    ("passwd", true, NameClass::Strong("password")),
    ("passphrase", true, NameClass::Strong("password")),
    ("passcode", false, NameClass::Strong("password")),
    ("storepass", false, NameClass::Strong("password")),
    ("pass", false, NameClass::Strong("password")),
    ("pwd", false, NameClass::Strong("password")),
    ("secretaccesskey", false, NameClass::Strong("aws-secret")),
    ("secretkey", false, NameClass::Strong("secret")),
    ("secretstring", false, NameClass::Strong("secret")),
    ("secretvalue", false, NameClass::Strong("secret")),
    ("secret", false, NameClass::Strong("secret")),
    ("apikey", true, NameClass::Strong("api-key")),
    ("accesstoken", false, NameClass::Strong("token")),
    ("authtoken", false, NameClass::Strong("token")),
    ("refreshtoken", false, NameClass::Strong("token")),
    ("sessiontoken", false, NameClass::Strong("token")),
    ("bearertoken", false, NameClass::Strong("token")),
    ("apitoken", false, NameClass::Strong("token")),
    ("privatekey", false, NameClass::Strong("private-key")),
    ("accountkey", false, NameClass::Strong("secret")),
    ("sharedaccesskey", false, NameClass::Strong("secret")),
    ("sharedaccesssignature", false, NameClass::Signature),
    ("encryptionkey", false, NameClass::Strong("secret")),
    ("signingkey", false, NameClass::Strong("secret")),
    ("masterkey", false, NameClass::Strong("secret")),
    ("presharedkey", false, NameClass::Strong("secret")),
    ("psk", false, NameClass::Strong("secret")),
    ("authkey", false, NameClass::Token),
    ("sharedkey", false, NameClass::Token),
    ("accesskey", false, NameClass::Token),
    ("subscriptionkey", false, NameClass::Token),
    ("credentials", false, NameClass::Token),
    ("credential", false, NameClass::Token),
    ("creds", false, NameClass::Token),
    ("signature", false, NameClass::Signature),
    ("sig", false, NameClass::Signature),
    ("auth", false, NameClass::Basic),
    ("csrf", false, NameClass::Hex),
    ("xsrf", false, NameClass::Hex),
    ("ticket", false, NameClass::Hex),
];
/// Words before `token` or `key` that make it harmless.
const HARMLESS_PREFIXES: [&str; 42] = [
    "added",
    "bos",
    "cache",
    "cls",
    "column",
    "continuation",
    "count",
    "cursor",
    "dedup",
    "end",
    "eos",
    "event",
    "foreign",
    "group",
    "hash",
    "host",
    "hot",
    "idempotency",
    "index",
    "known",
    "map",
    "mask",
    "max",
    "message",
    "min",
    "next",
    "num",
    "object",
    "pad",
    "page",
    "partition",
    "primary",
    "public",
    "registry",
    "routing",
    "sep",
    "sort",
    "start",
    "stop",
    "sync",
    "unk",
    "unique",
];

/// The class of a name.
pub(super) fn classify(name: &[u8]) -> Option<NameClass> {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let name = name.get(..name.len() - digits)?;
    let (_, _, class) = ENDINGS
        .iter()
        .find(|(word, loose, _)| {
            suffix_start(name, word.as_bytes()).is_some_and(|at| *loose || is_word_boundary(name, at))
        })
        .or_else(|| classify_generic(name))?;
    Some(*class)
}

/// `X_TOKEN` in any case; `X_KEY` and `X_PW` only in the style of variables or headers.
fn classify_generic(name: &[u8]) -> Option<&'static (&'static str, bool, NameClass)> {
    const TOKEN: (&str, bool, NameClass) = ("token", false, NameClass::Token);
    const PW: (&str, bool, NameClass) = ("pw", false, NameClass::Strong("password"));
    let upper = !name.iter().any(u8::is_ascii_lowercase);
    let header = name.len() > 6 && (name.starts_with(b"X-") || name.starts_with(b"x-"));
    if let Some(place) = suffix_start(name, b"token").filter(|place| is_word_boundary(name, *place)) {
        return (!has_harmless_prefix(name, place)).then_some(&TOKEN);
    }
    if (upper && name.ends_with(b"_KEY")) || (header && suffix_start(name, b"key").is_some()) {
        let place = name.len() - 3;
        return (!has_harmless_prefix(name, place)).then_some(&TOKEN);
    }
    (upper && name.ends_with(b"_PW")).then_some(&PW)
}

/// Whether the word before a position makes a token or key harmless.
fn has_harmless_prefix(name: &[u8], place: usize) -> bool {
    let before = name.get(..place).unwrap_or_default();
    let before = before.strip_suffix(b"_").or(before.strip_suffix(b"-")).unwrap_or(before);
    HARMLESS_PREFIXES.iter().any(|word| {
        before.len().checked_sub(word.len()).is_some_and(|at| {
            before.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(word.as_bytes()))
                && is_word_boundary(before, at)
        })
    })
}

/// Start of the word that a name ends with, ignoring separators between its letters.
fn suffix_start(name: &[u8], word: &[u8]) -> Option<usize> {
    let mut place = name.len();
    for letter in word.iter().rev() {
        while place < name.len() && place > 0 && matches!(byte_at(name, place - 1), b'_' | b'-') {
            place -= 1;
        }
        place = place.checked_sub(1).filter(|place| byte_at(name, *place).eq_ignore_ascii_case(letter))?;
    }
    Some(place)
}

/// Whether a word in a name starts here: at its start, after a separator, or at a capital letter.
fn is_word_boundary(name: &[u8], place: usize) -> bool {
    let Some(before) = place.checked_sub(1).map(|place| byte_at(name, place)) else { return true };
    !before.is_ascii_alphanumeric()
        || (byte_at(name, place).is_ascii_uppercase() && !before.is_ascii_uppercase())
}
