//! API keys: where they come from, where they are forbidden, and how they are removed from messages.

use super::provider_error::{ProviderError, ProviderErrorCode};
use flyball_store::Redactor;
use serde_json::Value;
use std::sync::LazyLock;

/// Fragments of the key of at least this length are redacted too, because some servers echo a part.
const MIN_FRAGMENT_CHARS: usize = 8;
/// Replacement for a redacted key.
const REDACTED: &str = "[key]";
/// Names of fields and headers that contain a key.
const SECRET_FIELD_NAMES: [&str; 13] = [
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

static REDACTOR: LazyLock<Option<Redactor>> = LazyLock::new(|| Redactor::new(true, &[]).ok());

/// An API key. Only the request header reveals it.
#[derive(Clone, Default)]
pub(super) struct ProviderKey(Option<String>);

impl std::fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { REDACTED } else { "no key" })
    }
}

impl ProviderKey {
    /// Key from an environment variable; none if it is unset or empty.
    pub(super) fn from_variable(value: Option<String>) -> Result<Self, &'static str> {
        let key = value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        match &key {
            Some(key) if !key.bytes().all(|b| b.is_ascii_graphic()) => {
                Err("is not a valid key: it contains spaces or characters not allowed in a header")
            }
            _ => Ok(ProviderKey(key)),
        }
    }

    /// Whether there is no key.
    pub(super) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The key itself, for the header.
    pub(super) fn reveal(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Redacts the key, fragments of it, and anything else that looks like a secret.
    pub(super) fn scrub(&self, text: &str) -> String {
        let text = match self.reveal() {
            Some(key) => remove_fragments(text, key),
            None => text.to_owned(),
        };
        REDACTOR.as_ref().map_or_else(|| text.clone(), |known| known.redact(&text).into_owned())
    }
}

/// Replaces every fragment that is also a fragment of the key.
fn remove_fragments(text: &str, key: &str) -> String {
    let least = MIN_FRAGMENT_CHARS.min(key.len());
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
        out.push_str(if longest >= least { REDACTED } else { gone });
        rest = left;
    }
    out
}

/// Rejects keys in the configuration, by field name or by the form of the value.
pub(super) fn reject_keys_in_config(provider: &str, config: &Value) -> Result<(), ProviderError> {
    let refuse = |place: &str| {
        let what = format!("the file contains a key at providers.{provider}{place}");
        Err(ProviderError::new(ProviderErrorCode::KeyInFile, provider, what))
    };
    let object = config.as_object();
    let nested = |name: &str| config.get(name).and_then(Value::as_object);
    let fields = object.into_iter().flatten().map(|(name, value)| (format!(".{name}"), name, value));
    let headers = nested("headers").into_iter().flatten();
    let headers = headers.map(|(name, value)| (format!(".headers.{name}"), name, value));
    if let Some((place, ..)) = fields.chain(headers).find(|(_, name, value)| is_secret_field(name, value)) {
        return refuse(&place);
    }
    let name = config.get("key_env").and_then(Value::as_str);
    if name.is_some_and(|name| !is_env_var_name(name)) {
        return refuse(".key_env");
    }
    let address = config.get("base_url").and_then(Value::as_str).unwrap_or_default();
    let authority = address.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if authority.contains('@') {
        return refuse(".base_url");
    }
    let written = config.to_string();
    let known = REDACTOR.as_ref().is_some_and(|known| known.redact(&written) != written.as_str());
    if known { refuse("") } else { Ok(()) }
}

fn is_secret_field(name: &str, value: &Value) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    SECRET_FIELD_NAMES.contains(&plain.to_ascii_lowercase().as_str()) && !value.is_null()
}

/// Whether the text is the name of an environment variable rather than a value.
fn is_env_var_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
#[path = "provider_key_tests.rs"]
mod tests;
