//! Small readers of single values, and the problem that each may report.

use serde_json::Value;

use super::error::Code;
use super::guards::Limit;
use super::units;
use crate::suggest::closest;

/// Something wrong with a value, not yet with a place.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) code: Code,
    /// The path of the value, after shorthands and seed keys were translated or as written.
    pub(super) path: Vec<String>,
    pub(super) as_written: bool,
    pub(super) what: String,
    pub(super) help: String,
}

/// A value that is one of a few words.
pub(super) trait Word: Copy + PartialEq + 'static {
    /// The words and what they mean.
    const WORDS: &'static [(&'static str, Self)];

    /// How strict the value is: a higher number is stricter. `None` if the values have no order; then every change
    /// counts as loosening.
    fn strictness(self) -> Option<u8>;
}

/// Which change of a value makes the policy stricter. Each key with a number or a flag declares it, because a layer
/// that is not trusted may only tighten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stricter {
    /// A lower limit, a shorter time, `false`. `off` is the loosest limit.
    Less,
    /// A higher limit, a longer time, `true`. `off` is the loosest limit.
    More,
    /// Neither: every change counts as loosening.
    Unknown,
}

impl Stricter {
    /// Whether `new` is stricter than `old`.
    pub(super) fn limit(self, new: Limit, old: Limit) -> bool {
        match (new, old) {
            (Some(new), Some(old)) => self.number(new, old),
            (Some(_), None) => self != Stricter::Unknown,
            (None, _) => false,
        }
    }

    /// Whether `new` is stricter than `old`.
    pub(super) fn number(self, new: u64, old: u64) -> bool {
        match self {
            Stricter::Less => new < old,
            Stricter::More => new > old,
            Stricter::Unknown => false,
        }
    }

    /// Whether `new` is stricter than `old`.
    pub(super) fn flag(self, new: bool, old: bool) -> bool {
        self.number(u64::from(new), u64::from(old))
    }
}

/// The word for a value.
pub(super) fn word_of<W: Word>(value: W) -> &'static str {
    W::WORDS.iter().find(|(_, v)| *v == value).map_or("", |(word, _)| word)
}

/// The kind of a value, for messages.
pub(super) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => format!("'{}'", s.chars().take(40).collect::<String>()),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}

/// What to write instead of an unknown key.
pub(super) fn unknown_help(key: &str, known: &[&str], thing: &str) -> String {
    closest(key, known.iter().copied()).map_or_else(
        || format!("a {thing} is one of {}", known.join(", ")),
        |word| format!("did you mean '{word}'?"),
    )
}

/// A whole number, also as text.
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => n.as_u64(),
        Value::String(s) => units::whole(s),
        _ => None,
    }
}

/// True or false, also in the words people use in environment variables.
pub(super) fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Number(n) if n.as_u64() == Some(1) => Some(true),
        Value::Number(n) if n.as_u64() == Some(0) => Some(false),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Some(true),
            "false" | "off" | "no" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}
