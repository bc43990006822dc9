//! Paths into a tree of values, and size limits of a tree.

use serde_json::Value;

use super::policy_parser::{MAX_DEPTH, MAX_ENTRIES, MAX_VALUES};

/// A path of keys.
pub(super) type KeyPath = Vec<String>;

/// Whether a tree that was not parsed from text respects the same limits as a parsed one.
pub(super) fn within_bounds(value: &Value, depth: usize, values: &mut usize) -> bool {
    *values += 1;
    if depth > MAX_DEPTH || *values > MAX_VALUES {
        return false;
    }
    match value {
        Value::Array(items) => {
            items.len() <= MAX_ENTRIES && items.iter().all(|v| within_bounds(v, depth + 1, values))
        }
        Value::Object(map) => {
            map.len() <= MAX_ENTRIES && map.values().all(|v| within_bounds(v, depth + 1, values))
        }
        _ => true,
    }
}

/// A path from its parts.
pub(super) fn key_path(parts: &[&str]) -> KeyPath {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

/// A path with one more part.
pub(super) fn child_path(around: &[String], part: &str) -> KeyPath {
    let mut path = around.to_vec();
    path.push(part.to_owned());
    path
}

/// Splits `fix->test` or `fix→test` into its two ends.
pub(super) fn edge_ends(name: &str) -> Option<(&str, &str)> {
    let (from, to) = name.split_once("->").or_else(|| name.split_once('→'))?;
    let (from, to) = (from.trim(), to.trim());
    let plain = |end: &str| !end.is_empty() && !end.contains("->") && !end.contains('→');
    (plain(from) && plain(to)).then_some((from, to))
}

/// Lookup of a path in a tree.
pub(super) trait PathLookup {
    fn lookup(&self, path: &[String]) -> Option<&Value>;
}

impl PathLookup for Value {
    fn lookup(&self, path: &[String]) -> Option<&Value> {
        path.iter().try_fold(self, |tree, part| tree.get(part))
    }
}
