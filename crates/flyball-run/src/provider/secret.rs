//! Keys: where they come from, where they must not be, and how they are kept out of every message.

use super::error::{Code, ProviderError};
use flyball_journal::Redactor;
use serde_json::Value;
use std::sync::LazyLock;

/// A piece of a key at least this long is taken out of a message, too: some servers show a part.
const PIECE: usize = 8;
/// What stands in its place.
const MARK: &str = "[key]";
/// Names of fields and headers that hold a key and nothing else.
const NAMES: [&str; 13] = [
    "key",
    "apikey",
    "xapikey",
    "token",
    "accesstoken",
    "authtoken",
    "bearer",
    "secret",
    "password",
    "authorization",
    "proxyauthorization",
    "cookie",
    "credentials",
];

static KNOWN: LazyLock<Option<Redactor>> = LazyLock::new(|| Redactor::new(true, &[]).ok());

/// A key. It is shown by nothing but the header that it is sent in.
#[derive(Clone, Default)]
pub(super) struct Key(Option<String>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { MARK } else { "no key" })
    }
}

impl Key {
    /// The key in an environment variable; none if the variable is not set or empty.
    pub(super) fn from_variable(value: Option<String>) -> Result<Self, &'static str> {
        let key = value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        match &key {
            Some(key) if !key.bytes().all(|b| b.is_ascii_graphic()) => {
                Err("holds something that cannot be a key: it has spaces or signs that no header may have")
            }
            _ => Ok(Key(key)),
        }
    }

    /// Whether there is none.
    pub(super) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The key itself, for the header.
    pub(super) fn reveal(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// A message without the key, or a piece of it, or anything else that looks like a secret.
    pub(super) fn scrub(&self, text: &str) -> String {
        let text = match self.reveal() {
            Some(key) => without(text, key),
            None => text.to_owned(),
        };
        KNOWN.as_ref().map_or_else(|| text.clone(), |known| known.clean(&text).into_owned())
    }
}

/// The text without any stretch that is also a stretch of the key.
fn without(text: &str, key: &str) -> String {
    let least = PIECE.min(key.len());
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let shared = |at: usize| {
            let tail = key.as_bytes().get(at..).unwrap_or_default();
            tail.iter().zip(rest.as_bytes()).take_while(|(a, b)| a == b).count()
        };
        let longest = (0..key.len()).map(shared).max().unwrap_or(0);
        let step = if longest >= least { longest } else { first.len_utf8() };
        let (gone, left) = rest.split_at_checked(step).unwrap_or((rest, ""));
        out.push_str(if longest >= least { MARK } else { gone });
        rest = left;
    }
    out
}

/// Refuses a key in the file, by the name of the field or by the looks of the value.
pub(super) fn refuse_keys(provider: &str, config: &Value) -> Result<(), ProviderError> {
    let refuse = |place: &str| {
        let what = format!("there is a key in the file, at providers.{provider}{place}");
        Err(ProviderError::new(Code::KeyInFile, provider, what))
    };
    let object = config.as_object();
    let nested = |name: &str| config.get(name).and_then(Value::as_object);
    let fields = object.into_iter().flatten().map(|(name, value)| (format!(".{name}"), name, value));
    let headers = nested("headers").into_iter().flatten();
    let headers = headers.map(|(name, value)| (format!(".headers.{name}"), name, value));
    if let Some((place, ..)) = fields.chain(headers).find(|(_, name, value)| is_key(name, value)) {
        return refuse(&place);
    }
    let name = config.get("key_env").and_then(Value::as_str);
    if name.is_some_and(|name| !is_variable(name)) {
        return refuse(".key_env");
    }
    let address = config.get("base_url").and_then(Value::as_str).unwrap_or_default();
    let authority = address.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if authority.contains('@') {
        return refuse(".base_url");
    }
    let written = config.to_string();
    let known = KNOWN.as_ref().is_some_and(|known| known.clean(&written) != written.as_str());
    if known { refuse("") } else { Ok(()) }
}

fn is_key(name: &str, value: &Value) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    NAMES.contains(&plain.to_ascii_lowercase().as_str()) && !value.is_null()
}

/// Whether it is the name of an environment variable, and not the value of one.
fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
