//! The leaf values of an effective policy and their paths.

use serde_json::Value;

/// Collects the leaves except the rules, whose origins are tracked separately.
pub(super) fn collect_leaves<'v>(
    value: &'v Value,
    path: &mut Vec<String>,
    leaves: &mut Vec<(Vec<String>, &'v Value)>,
) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                path.push(key.clone());
                collect_leaves(value, path, leaves);
                path.pop();
            }
        }
        // The origins of rules are tracked by name.
        Value::Array(_) if *path == ["rules"] => {}
        leaf => leaves.push((path.clone(), leaf)),
    }
}

/// Collects the leaves of a policy: rules by name, an empty map as a leaf.
pub(super) fn collect_values<'v>(
    value: &'v Value,
    path: &mut Vec<String>,
    leaves: &mut Vec<(Vec<String>, &'v Value)>,
) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                path.push(key.clone());
                collect_values(value, path, leaves);
                path.pop();
            }
        }
        Value::Array(rules) if *path == ["rules"] => {
            for rule in rules {
                let name = rule.get("name").and_then(Value::as_str).unwrap_or_default();
                leaves.push((vec!["rules".to_owned(), name.to_owned()], rule));
            }
        }
        leaf => leaves.push((path.clone(), leaf)),
    }
}
