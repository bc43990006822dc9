//! Values from environment variables and from `--set` on the command line.
//!
//! The core reads no environment itself: it is handed names and values.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::error::{Code, PolicyError, PolicyErrors};
use super::layer::{Layer, Origin, Trust};
use super::places::{Places, join, split};
use super::units::{duration_text, scaled};

/// What our own variables start with.
const PREFIX: &str = "FLYBALL_";
/// Keys with one value that a variable without `__` may set. Other such names
/// (`FLYBALL_STORE`, `FLYBALL_LOG`) belong to the program, not to the policy.
const SINGLE: [&str; 6] = ["preset", "on_stall", "escalate", "notify", "on_error", "rules_version"];
/// The most values of one variable or `--set`.
const MAX_VALUE_CHARS: usize = 10_000;
const HOUR_MS: u64 = 3_600_000;

/// The policy values of the environment, if any.
///
/// `FLYBALL_BUDGETS__SESSION__RUNTIME=2h` sets `budgets.session.runtime`: two underscores
/// stand for a dot, and names are lower-case. `DEX_MAX_RUNTIME_HOURS`, `DEX_MAX_REPETITIONS`,
/// `DEX_MAX_VALIDATION_FAILURES`, `DEX_LARGE_RESPONSE_THRESHOLD`, `DEX_QUALITY_BACKPRESSURE`
/// and `VUHLP_STALL_THRESHOLD` are read too; a `FLYBALL_` variable for the same value wins.
/// An empty variable counts as not set, and names that are not policy are ignored.
///
/// # Errors
///
/// `policy_type` for a value that cannot be read. Unknown keys are reported by
/// [`super::resolve`].
pub fn from_environment(vars: impl Iterator<Item = (String, String)>) -> Result<Option<Layer>, PolicyErrors> {
    let sorted: BTreeMap<String, String> = vars.filter(|(_, value)| !value.trim().is_empty()).collect();
    let mut builder = Builder::new(Origin::Environment { variable: "environment".to_owned() });
    // Foreign names first, so that our own replace them.
    for (name, value) in sorted.iter().filter(|(name, _)| !name.starts_with(PREFIX)) {
        builder.foreign(name, value);
    }
    for (name, value) in &sorted {
        if let Some(path) = own_path(name) {
            builder.set(path, scalar(value), Some(name));
        }
    }
    builder.finish().map(|layer| layer.filter(|l| !l.variables.is_empty()))
}

/// The values of `--set key=value` arguments. A part of a key that contains a dot goes into
/// quotes: `edges."fix->test".max_transitions=8`.
///
/// # Errors
///
/// `policy_syntax` for an argument without `=` or with an empty key.
pub fn from_set(pairs: &[String]) -> Result<Layer, PolicyErrors> {
    let mut builder = Builder::new(Origin::CommandLine);
    for pair in pairs {
        let parsed = key_and_value(pair).and_then(|(key, value)| Some((split(key)?, value)));
        match parsed {
            Some((path, value)) => builder.set(path, scalar(value), None),
            None => {
                let what = format!("'{}' is not key=value", shorten(pair));
                builder.error(Code::Syntax, "--set", "", &what, "write --set budgets.session.runtime=2h");
            }
        }
    }
    builder.finish().map(|layer| layer.unwrap_or_else(|| Layer::from_value(Origin::CommandLine, Value::Null)))
}

/// Splits at the first `=` outside quotes.
fn key_and_value(pair: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let at = pair.find(|c| {
        quoted ^= c == '"';
        c == '=' && !quoted
    })?;
    let (key, value) = pair.split_at_checked(at)?;
    Some((key.trim(), value.get(1..)?.trim()))
}

fn own_path(name: &str) -> Option<Vec<String>> {
    let name = name.strip_prefix(PREFIX)?.to_ascii_lowercase();
    if name.contains("__") {
        let path: Vec<String> = name.split("__").map(str::to_owned).collect();
        return path.iter().all(|part| !part.is_empty()).then_some(path);
    }
    SINGLE.contains(&name.as_str()).then(|| vec![name])
}

/// A word as a value: true, false, whole numbers, lists and maps in JSON, otherwise text.
fn scalar(text: &str) -> Value {
    let text = text.trim();
    match text {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "null" | "~" => return Value::Null,
        _ => {}
    }
    if let Ok(number) = text.parse::<i64>() {
        return Value::from(number);
    }
    if text.starts_with(['[', '{', '"'])
        && let Ok(value) = serde_json::from_str(text)
    {
        return value;
    }
    Value::from(text)
}

fn shorten(text: &str) -> String {
    text.chars().take(60).collect()
}

struct Builder {
    layer: Layer,
    errors: Vec<PolicyError>,
}

impl Builder {
    fn new(origin: Origin) -> Builder {
        Builder {
            layer: Layer {
                origin,
                tree: Value::Object(Map::new()),
                places: Places::default(),
                variables: BTreeMap::new(),
                trust: Trust::Full,
            },
            errors: Vec::new(),
        }
    }

    fn error(&mut self, code: Code, file: &str, path: &str, what: &str, help: &str) {
        self.errors.push(PolicyError {
            code,
            file: file.to_owned(),
            line: None,
            column: None,
            path: path.to_owned(),
            what: what.to_owned(),
            help: help.to_owned(),
        });
    }

    fn foreign(&mut self, name: &str, value: &str) {
        let paths: &[&[&str]] = match name {
            "DEX_MAX_RUNTIME_HOURS" => return self.runtime_hours(name, value),
            "DEX_MAX_REPETITIONS" => &[&["guards", "repetition", "limit"]],
            "DEX_MAX_VALIDATION_FAILURES" => &[&["guards", "validation", "limit"]],
            "DEX_LARGE_RESPONSE_THRESHOLD" => &[&["guards", "large_response", "threshold"]],
            "DEX_QUALITY_BACKPRESSURE" => &[&["guards", "gate", "backpressure"]],
            "VUHLP_STALL_THRESHOLD" => &[
                &["guards", "stall", "output"],
                &["guards", "stall", "structured"],
                &["guards", "stall", "diff"],
                &["guards", "stall", "failures"],
            ],
            _ => return,
        };
        for path in paths {
            let path = path.iter().map(|part| (*part).to_owned()).collect();
            self.set(path, scalar(value), Some(name));
        }
    }

    fn runtime_hours(&mut self, name: &str, value: &str) {
        let path = ["budgets", "session", "runtime"].map(str::to_owned).to_vec();
        match scaled(value, HOUR_MS) {
            Some(0) if value.bytes().all(|b| b"0. ".contains(&b)) => {
                self.set(path, Value::from("off"), Some(name));
            }
            Some(ms) => self.set(path, Value::from(duration_text(ms.max(1))), Some(name)),
            None => {
                let what = format!("'{}' is not a number of hours", shorten(value));
                self.error(Code::Type, name, "budgets.session.runtime", &what, "write 4 or 1.5");
            }
        }
    }

    fn set(&mut self, path: Vec<String>, value: Value, variable: Option<&str>) {
        let text = join(&path);
        let file = variable.map_or_else(|| self.layer.origin.to_string(), str::to_owned);
        if value.as_str().is_some_and(|s| s.len() > MAX_VALUE_CHARS) {
            self.error(Code::Range, &file, &text, "the value is too long", "put it into the policy file");
            return;
        }
        if let Some(variable) = variable {
            self.layer.variables.insert(text.clone(), variable.to_owned());
        }
        if !insert(&mut self.layer.tree, &path, value) {
            let what = format!("'{text}' is set beside a key inside or around it");
            self.error(Code::Contradiction, &file, &text, &what, "set one of the two");
        }
    }

    fn finish(self) -> Result<Option<Layer>, PolicyErrors> {
        PolicyErrors::check(self.errors)?;
        let empty = self.layer.tree.as_object().is_none_or(Map::is_empty);
        Ok((!empty).then_some(self.layer))
    }
}

/// Puts a value at a path, making the maps on the way. `false` if a map would have to
/// replace a value or the other way round.
pub(super) fn insert(tree: &mut Value, path: &[String], value: Value) -> bool {
    let Some((last, around)) = path.split_last() else {
        return false;
    };
    let mut at = tree;
    for part in around {
        let Value::Object(map) = at else { return false };
        at = map.entry(part.clone()).or_insert_with(|| Value::Object(Map::new()));
    }
    let Value::Object(map) = at else { return false };
    match map.get_mut(last) {
        Some(slot) if slot.is_object() && !value.is_object() => false,
        Some(slot) => {
            *slot = value;
            true
        }
        None => {
            map.insert(last.clone(), value);
            true
        }
    }
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
