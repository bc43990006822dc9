//! The keys that a JSON schema allows, as dotted paths: `*` is any map key, `[]` any list element.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The keys of a policy file.
pub(crate) fn policy_keys() -> BTreeSet<String> {
    let schema: Value = serde_json::from_str(&flyball::policy::json_schema()).unwrap();
    let mut keys = BTreeSet::new();
    collect_properties(&schema, "", &schema["$defs"], &mut keys);
    keys
}

/// The keys of a workflow file. Its `policy` counts as one key, because its contents are those of a policy file.
pub(crate) fn workflow_keys() -> BTreeSet<String> {
    let mut schema: Value = serde_json::from_str(&flyball_runner::workflow::json_schema()).unwrap();
    schema["properties"]["policy"] = Value::Bool(true);
    let mut keys = BTreeSet::new();
    collect_properties(&schema, "", &schema["$defs"], &mut keys);
    keys
}

/// The alternatives of a schema, with references resolved.
fn alternatives<'a>(schema: &'a Value, defs: &'a Value, found: &mut Vec<&'a Value>) {
    if let Some(name) = schema["$ref"].as_str() {
        return alternatives(&defs[name.rsplit('/').next().unwrap()], defs, found);
    }
    let choices: Vec<&Value> =
        ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema[*key].as_array()).flatten().collect();
    // A choice between constants is one value.
    if choices.is_empty() || choices.iter().all(|choice| choice.get("const").is_some()) {
        found.push(schema);
    } else {
        choices.into_iter().for_each(|choice| alternatives(choice, defs, found));
    }
}

fn collect_properties(schema: &Value, path: &str, defs: &Value, keys: &mut BTreeSet<String>) {
    let none = Map::new();
    for (key, value) in schema["properties"].as_object().unwrap_or(&none) {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let mut choices = Vec::new();
        alternatives(value, defs, &mut choices);
        let mut is_section = false;
        for choice in &choices {
            if choice.get("properties").is_some() {
                is_section = true;
                collect_properties(choice, &path, defs, keys);
            }
            is_section |= collect_nested(&choice["additionalProperties"], &format!("{path}.*"), defs, keys);
            if collect_nested(&choice["items"], &format!("{path}[]"), defs, keys) {
                keys.insert(path.clone());
            }
        }
        // A section that may also be a single word is a key itself.
        let is_word = |choice: &&Value| !allows_type(choice, "object") && choice["type"] != "null";
        if !is_section || choices.iter().any(is_word) {
            keys.insert(path);
        }
    }
}

/// Whether a value may have a type.
fn allows_type(schema: &Value, kind: &str) -> bool {
    let types = &schema["type"];
    types == kind || types.as_array().is_some_and(|types| types.iter().any(|own| own == kind))
}

/// Collects the keys of map values or list elements; returns whether there are any.
fn collect_nested(schema: &Value, path: &str, defs: &Value, keys: &mut BTreeSet<String>) -> bool {
    if !schema.is_object() {
        return false;
    }
    let mut choices = Vec::new();
    alternatives(schema, defs, &mut choices);
    let with_keys: Vec<&&Value> =
        choices.iter().filter(|choice| choice.get("properties").is_some()).collect();
    with_keys.iter().for_each(|choice| collect_properties(choice, path, defs, keys));
    !with_keys.is_empty()
}
