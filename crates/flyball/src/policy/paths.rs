//! Paths into a tree of values, and the bounds of such a tree.

use serde_json::Value;

use super::parse::{MAX_DEPTH, MAX_ENTRIES, MAX_VALUES};

/// A path in the making.
pub(super) type Path = Vec<String>;

/// Whether a tree that came without a text keeps the bounds of one.
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
pub(super) fn path(parts: &[&str]) -> Path {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

/// A path with one more part.
pub(super) fn with(around: &[String], part: &str) -> Path {
    let mut path = around.to_vec();
    path.push(part.to_owned());
    path
}

/// `fix->test` or `fix→test` as its two ends.
pub(super) fn edge_ends(name: &str) -> Option<(&str, &str)> {
    let (from, to) = name.split_once("->").or_else(|| name.split_once('→'))?;
    let (from, to) = (from.trim(), to.trim());
    let plain = |end: &str| !end.is_empty() && !end.contains("->") && !end.contains('→');
    (plain(from) && plain(to)).then_some((from, to))
}

/// Looking up a path in a tree.
pub(super) trait PointerOf {
    fn pointer_of(&self, path: &[String]) -> Option<&Value>;
}

impl PointerOf for Value {
    fn pointer_of(&self, path: &[String]) -> Option<&Value> {
        path.iter().try_fold(self, |tree, part| tree.get(part))
    }
}
