//! The single values of an effective policy, with the path of each.

use serde_json::Value;

/// The single values without the rules, which have origins of their own.
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
        // Rules have origins of their own, by name.
        Value::Array(_) if *path == ["rules"] => {}
        leaf => leaves.push((path.clone(), leaf)),
    }
}

/// The single values of a policy: rules by their names, an empty map as itself.
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
