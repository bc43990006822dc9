//! Parsers for single values, and the problems they report.

use serde_json::Value;

use super::guard_mode::Limit;
use super::policy_error::PolicyErrorCode;
use super::units;
use crate::suggest::closest;

/// A problem with a value, before its position is known.
#[derive(Clone, Debug)]
pub(crate) struct PolicyProblem {
    pub(crate) code: PolicyErrorCode,
    /// Path of the value: canonical, or as written if `as_written` is set.
    pub(crate) path: Vec<String>,
    pub(crate) as_written: bool,
    pub(crate) message: String,
    pub(crate) help: String,
}

/// A value that is one of a fixed set of keywords.
pub(crate) trait Keyword: Copy + PartialEq + 'static {
    /// The keywords and their values.
    const KEYWORDS: &'static [(&'static str, Self)];

    /// How strict the value is: higher is stricter. `None` if the values have no order; then every change counts as
    /// loosening.
    fn strictness(self) -> Option<u8>;
}

/// Which direction of change makes the policy stricter. Each numeric or boolean key declares it, because an untrusted
/// layer may only tighten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StricterDirection {
    /// A lower limit, a shorter duration, or `false`. `off` is the loosest limit.
    Less,
    /// A higher limit, a longer duration, or `true`. `off` is the loosest limit.
    More,
    /// Neither: every change counts as loosening.
    Unknown,
}

impl StricterDirection {
    /// Whether `new` is stricter than `old`.
    pub(crate) fn limit(self, new: Limit, old: Limit) -> bool {
        match (new, old) {
            (Some(new), Some(old)) => self.number(new, old),
            (Some(_), None) => self != StricterDirection::Unknown,
            (None, _) => false,
        }
    }

    /// Whether `new` is stricter than `old`.
    pub(crate) fn number(self, new: u64, old: u64) -> bool {
        match self {
            StricterDirection::Less => new < old,
            StricterDirection::More => new > old,
            StricterDirection::Unknown => false,
        }
    }

    /// Whether `new` is stricter than `old`.
    pub(crate) fn flag(self, new: bool, old: bool) -> bool {
        self.number(u64::from(new), u64::from(old))
    }
}

/// The keyword for a value.
pub(crate) fn keyword_of<W: Keyword>(value: W) -> &'static str {
    W::KEYWORDS.iter().find(|(_, v)| *v == value).map_or("", |(word, _)| word)
}

/// A short description of a value, for messages.
pub(crate) fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => format!("\"{}\"", s.chars().take(40).collect::<String>()),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}

/// Help text for an unknown key: the closest known one, or all of them.
pub(crate) fn unknown_help(key: &str, known: &[&str], thing: &str) -> String {
    closest(key, known.iter().copied()).map_or_else(
        || format!("known {thing}s: {}", known.join(", ")),
        |word| format!("did you mean '{word}'?"),
    )
}

/// Parses a whole number, which may be a string.
pub(crate) fn parse_number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => n.as_u64(),
        Value::String(s) => units::parse_whole(s),
        _ => None,
    }
}

/// Parses a boolean, including the spellings common in environment variables.
pub(crate) fn parse_flag(value: &Value) -> Option<bool> {
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
