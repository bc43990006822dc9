//! Policy values from environment variables and from `--set` on the command line.
//!
//! The core does not read the environment itself; the caller passes names and values.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::layer::{LayerTrust, PolicyLayer, ValueOrigin};
use super::policy_error::{PolicyError, PolicyErrorCode, PolicyErrors};
use super::positions::{KeyPositions, join_path, split_path};
use super::units::{parse_scaled, written_duration};

/// The prefix of Flyball's own variables.
const PREFIX: &str = "FLYBALL_";
/// Keys that a variable without `__` may set. Other names without `__` (`FLYBALL_STORE`, `FLYBALL_LOG`) belong to the
/// program, not to the policy.
const SINGLE_VALUE_KEYS: [&str; 6] =
    ["preset", "on_stall", "escalate", "notify", "on_error", "rules_version"];
/// Maximum length of the value of a variable or `--set`.
const MAX_VALUE_CHARS: usize = 10_000;
const HOUR_MS: u64 = 3_600_000;

/// The policy layer from the environment, if any variable sets a value.
///
/// `FLYBALL_BUDGETS__SESSION__RUNTIME=2h` sets `budgets.session.runtime`: two underscores replace a dot, and names are
/// converted to lower case. `DEX_MAX_RUNTIME_HOURS`, `DEX_MAX_REPETITIONS`, `DEX_MAX_VALIDATION_FAILURES`,
/// `DEX_LARGE_RESPONSE_THRESHOLD`, `DEX_QUALITY_BACKPRESSURE` and `VUHLP_STALL_THRESHOLD` are also read; a `FLYBALL_`
/// variable for the same value takes precedence. Empty variables and unrelated names are ignored.
///
/// # Errors
///
/// `policy_type` for an invalid value. Unknown keys are reported by [`super::resolve`].
pub fn from_environment(
    vars: impl Iterator<Item = (String, String)>,
) -> Result<Option<PolicyLayer>, PolicyErrors> {
    let sorted: BTreeMap<String, String> = vars.filter(|(_, value)| !value.trim().is_empty()).collect();
    let mut builder = LayerBuilder::new(ValueOrigin::Environment { variable: "environment".to_owned() });
    // Compatibility names first, so that `FLYBALL_` variables override them.
    for (name, value) in sorted.iter().filter(|(name, _)| !name.starts_with(PREFIX)) {
        builder.set_foreign(name, value);
    }
    for (name, value) in &sorted {
        if let Some(path) = own_path(name) {
            builder.set(path, parse_scalar(value), Some(name));
        }
    }
    builder.finish().map(|layer| layer.filter(|l| !l.variables.is_empty()))
}

/// The policy layer from `--set key=value` arguments. A part of a key that contains a dot must be quoted:
/// `edges."fix->test".max_transitions=8`.
///
/// # Errors
///
/// `policy_syntax` for an argument without `=` or with an empty key.
pub fn from_set(pairs: &[String]) -> Result<PolicyLayer, PolicyErrors> {
    let mut builder = LayerBuilder::new(ValueOrigin::CommandLine);
    for pair in pairs {
        let parsed = key_and_value(pair).and_then(|(key, value)| Some((split_path(key)?, value)));
        match parsed {
            Some((path, value)) => builder.set(path, parse_scalar(value), None),
            None => {
                let what = format!("invalid argument '{}': expected key=value", truncate(pair));
                builder.add_error(
                    PolicyErrorCode::Syntax,
                    "--set",
                    "",
                    &what,
                    "write --set budgets.session.runtime=2h",
                );
            }
        }
    }
    builder
        .finish()
        .map(|layer| layer.unwrap_or_else(|| PolicyLayer::from_value(ValueOrigin::CommandLine, Value::Null)))
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
    SINGLE_VALUE_KEYS.contains(&name.as_str()).then(|| vec![name])
}

/// Parses true, false, whole numbers, and lists and maps in JSON; anything else is a string.
fn parse_scalar(text: &str) -> Value {
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

fn truncate(text: &str) -> String {
    text.chars().take(60).collect()
}

struct LayerBuilder {
    layer: PolicyLayer,
    errors: Vec<PolicyError>,
}

impl LayerBuilder {
    fn new(origin: ValueOrigin) -> LayerBuilder {
        LayerBuilder {
            layer: PolicyLayer {
                origin,
                tree: Value::Object(Map::new()),
                positions: KeyPositions::default(),
                variables: BTreeMap::new(),
                trust: LayerTrust::Full,
            },
            errors: Vec::new(),
        }
    }

    fn add_error(&mut self, code: PolicyErrorCode, file: &str, path: &str, what: &str, help: &str) {
        self.errors.push(PolicyError {
            code,
            file: file.to_owned(),
            line: None,
            column: None,
            path: path.to_owned(),
            message: what.to_owned(),
            help: help.to_owned(),
        });
    }

    fn set_foreign(&mut self, name: &str, value: &str) {
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
            self.set(path, parse_scalar(value), Some(name));
        }
    }

    fn runtime_hours(&mut self, name: &str, value: &str) {
        let path = ["budgets", "session", "runtime"].map(str::to_owned).to_vec();
        match parse_scaled(value, HOUR_MS) {
            Some(0) if value.bytes().all(|b| b"0. ".contains(&b)) => {
                self.set(path, Value::from("off"), Some(name));
            }
            Some(ms) => self.set(path, Value::from(written_duration(ms.max(1))), Some(name)),
            None => {
                let what = format!("invalid number of hours \"{}\": expected e.g. 4, 1.5", truncate(value));
                self.add_error(
                    PolicyErrorCode::Type,
                    name,
                    "budgets.session.runtime",
                    &what,
                    "write 4 or 1.5",
                );
            }
        }
    }

    fn set(&mut self, path: Vec<String>, value: Value, variable: Option<&str>) {
        let text = join_path(&path);
        let file = variable.map_or_else(|| self.layer.origin.to_string(), str::to_owned);
        if value.as_str().is_some_and(|s| s.len() > MAX_VALUE_CHARS) {
            self.add_error(
                PolicyErrorCode::Range,
                &file,
                &text,
                "the value is too long",
                "set it in the policy file",
            );
            return;
        }
        if let Some(variable) = variable {
            self.layer.variables.insert(text.clone(), variable.to_owned());
        }
        if !insert_at(&mut self.layer.tree, &path, value) {
            let what = format!("'{text}' conflicts with another value for its parent or child key");
            self.add_error(PolicyErrorCode::Contradiction, &file, &text, &what, "set only one of them");
        }
    }

    fn finish(self) -> Result<Option<PolicyLayer>, PolicyErrors> {
        PolicyErrors::into_result(self.errors)?;
        let empty = self.layer.tree.as_object().is_none_or(Map::is_empty);
        Ok((!empty).then_some(self.layer))
    }
}

/// Sets a value at a path and creates missing maps. Returns `false` if a map would replace a value or a value
/// would replace a map.
pub(super) fn insert_at(tree: &mut Value, path: &[String], value: Value) -> bool {
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
