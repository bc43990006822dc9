//! Names that say that the value beside them is a secret: `DB_PASSWORD`, `api_key`, `X-Vault-Token`, `Cookie`.

use super::raw::at;

/// How a value beside such a name is judged, and what its replacement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A value is a secret unless it looks like a word, code or a reference.
    Strong(&'static str),
    /// The name has other meanings too: only a random value is a secret.
    Token,
    /// The value of an `Authorization` header.
    Authorization,
    /// Cookies: `a=1; b=2`.
    Cookie,
    /// One cookie and its attributes.
    SetCookie,
    /// Base64 of `user:password`.
    Basic,
    /// A signature in the query of a URL, which is all that it takes to use the URL.
    Signature,
    /// A random number in hexadecimal.
    Hex,
}

/// What a name must end with, without the signs between words; whether anything may stand before it.
const ENDINGS: [(&str, bool, Class); 44] = [
    ("authorization", true, Class::Authorization),
    ("setcookie", false, Class::SetCookie),
    ("cookie", false, Class::Cookie),
    ("password", true, Class::Strong("password")),
    ("passwd", true, Class::Strong("password")),
    ("passphrase", true, Class::Strong("password")),
    ("passcode", false, Class::Strong("password")),
    ("storepass", false, Class::Strong("password")),
    ("pass", false, Class::Strong("password")),
    ("pwd", false, Class::Strong("password")),
    ("secretaccesskey", false, Class::Strong("aws-secret")),
    ("secretkey", false, Class::Strong("secret")),
    ("secretstring", false, Class::Strong("secret")),
    ("secretvalue", false, Class::Strong("secret")),
    ("secret", false, Class::Strong("secret")),
    ("apikey", true, Class::Strong("api-key")),
    ("accesstoken", false, Class::Strong("token")),
    ("authtoken", false, Class::Strong("token")),
    ("refreshtoken", false, Class::Strong("token")),
    ("sessiontoken", false, Class::Strong("token")),
    ("bearertoken", false, Class::Strong("token")),
    ("apitoken", false, Class::Strong("token")),
    ("privatekey", false, Class::Strong("private-key")),
    ("accountkey", false, Class::Strong("secret")),
    ("sharedaccesskey", false, Class::Strong("secret")),
    ("sharedaccesssignature", false, Class::Signature),
    ("encryptionkey", false, Class::Strong("secret")),
    ("signingkey", false, Class::Strong("secret")),
    ("masterkey", false, Class::Strong("secret")),
    ("presharedkey", false, Class::Strong("secret")),
    ("psk", false, Class::Strong("secret")),
    ("authkey", false, Class::Token),
    ("sharedkey", false, Class::Token),
    ("accesskey", false, Class::Token),
    ("subscriptionkey", false, Class::Token),
    ("credentials", false, Class::Token),
    ("credential", false, Class::Token),
    ("creds", false, Class::Token),
    ("signature", false, Class::Signature),
    ("sig", false, Class::Signature),
    ("auth", false, Class::Basic),
    ("csrf", false, Class::Hex),
    ("xsrf", false, Class::Hex),
    ("ticket", false, Class::Hex),
];
/// What stands before `token` or `key` where neither is a secret.
const HARMLESS: [&str; 42] = [
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

/// What a name says about its value.
pub(super) fn classify(name: &[u8]) -> Option<Class> {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let name = name.get(..name.len() - digits)?;
    let (_, _, class) = ENDINGS
        .iter()
        .find(|(word, loose, _)| {
            ends_with(name, word.as_bytes()).is_some_and(|at| *loose || stands_alone(name, at))
        })
        .or_else(|| general(name))?;
    Some(*class)
}

/// `X_TOKEN` in any case; `X_KEY` and `X_PW` only as variables or headers are written.
fn general(name: &[u8]) -> Option<&'static (&'static str, bool, Class)> {
    const TOKEN: (&str, bool, Class) = ("token", false, Class::Token);
    const PW: (&str, bool, Class) = ("pw", false, Class::Strong("password"));
    let upper = !name.iter().any(u8::is_ascii_lowercase);
    let header = name.len() > 6 && (name.starts_with(b"X-") || name.starts_with(b"x-"));
    if let Some(place) = ends_with(name, b"token").filter(|place| stands_alone(name, *place)) {
        return (!harmless(name, place)).then_some(&TOKEN);
    }
    if (upper && name.ends_with(b"_KEY")) || (header && ends_with(name, b"key").is_some()) {
        let place = name.len() - 3;
        return (!harmless(name, place)).then_some(&TOKEN);
    }
    (upper && name.ends_with(b"_PW")).then_some(&PW)
}

/// Whether the word before a place is one that makes a token or a key harmless.
fn harmless(name: &[u8], place: usize) -> bool {
    let before = name.get(..place).unwrap_or_default();
    let before = before.strip_suffix(b"_").or(before.strip_suffix(b"-")).unwrap_or(before);
    HARMLESS.iter().any(|word| {
        before.len().checked_sub(word.len()).is_some_and(|at| {
            before.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(word.as_bytes()))
                && stands_alone(before, at)
        })
    })
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
