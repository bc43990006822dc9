//! The schema and the parser accept the same files.

use super::super::parse::KEYS;
use super::super::{NodeCommon, NodeKind, parse_workflow};
use super::json_schema;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn schema() -> Value {
    serde_json::from_str(&json_schema()).unwrap()
}

/// Validates a value against the subset of JSON Schema that our schema uses.
fn validate(whole: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/$defs/").unwrap();
        return validate(whole, &whole["$defs"][name], value).map_err(|why| format!("{name}: {why}"));
    }
    if let Some(only) = schema.get("const").filter(|only| *only != value) {
        return Err(format!("{value} is not {only}"));
    }
    if let Some(list) = schema["enum"].as_array().filter(|list| !list.contains(value)) {
        return Err(format!("{value} is none of {list:?}"));
    }
    let of_type = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other}"),
    };
    let typed = match &schema["type"] {
        Value::String(name) => of_type(name),
        Value::Array(names) => names.iter().any(|name| of_type(name.as_str().unwrap())),
        _ => true,
    };
    if !typed {
        return Err(format!("{value} is not of type {}", schema["type"]));
    }
    for (key, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
        let Some(ways) = schema[key].as_array() else { continue };
        let tried: Vec<_> = ways.iter().map(|way| validate(whole, way, value)).collect();
        let good = tried.iter().filter(|tried| tried.is_ok()).count();
        if good == 0 || good > most {
            return Err(format!("{good} of {key} fit {value}: {tried:?}"));
        }
    }
    if let Some(map) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            map.get(name.as_str().unwrap()).ok_or_else(|| format!("{name} is missing"))?;
        }
        for (key, value) in map {
            let own = &schema["properties"][key];
            match &schema["additionalProperties"] {
                _ if !own.is_null() => validate(whole, own, value).map_err(|why| format!("{key}: {why}"))?,
                Value::Bool(false) => return Err(format!("{key} is not known")),
                more => validate(whole, more, value).map_err(|why| format!("{key}: {why}"))?,
            }
        }
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        validate(whole, &schema["items"], item).map_err(|why| format!("{at}: {why}"))?;
    }
    Ok(())
}

fn check(text: &str) -> Result<(), String> {
    let layer = flyball::policy::parse(text, flyball::policy::PolicyFormat::Yaml, "w.yaml").unwrap();
    let schema = schema();
    validate(&schema, &schema, &layer.tree)
}

/// Runnable workflow files of the examples.
fn examples() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "yaml")
                && std::fs::read_to_string(&path).unwrap().contains("kind: ")
            {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn all_examples_match_the_schema() {
    let files = examples();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        check(&text).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        if let Err(wrong) = parse_workflow(&text, "w.yaml", file.parent().unwrap()) {
            panic!("{}: {wrong:?}", file.display());
        }
    }
}

#[test]
fn schema_rejects_what_the_parser_rejects() {
    let good = "nodes: [{name: a, kind: command, run: ls, next: done}]\n";
    check(good).unwrap();
    for bad in [
        "nodes: [{name: a, kind: comand, run: ls}]",
        "nodes: [{kind: command, run: ls}]",
        "nodes: [{name: a, run: ls}]",
        "nodes: [{name: a, kind: command, run: ls, nxet: done}]",
        "nodes: [{name: a, kind: command, run: {}}]",
        "nodes: [{name: a, kind: command}]",
        "nodes: [{name: a, kind: command, run: ls, next: 7}]",
        "nodez: []\nnodes: [{name: a, kind: say, text: x}]",
        "nodes: [{name: a, kind: say, text: x}]\nproviders: {main: {kind: telepathy}}",
        "nodes: [{name: a, kind: say, text: x}]\nproviders: {main: {kind: openai}}",
        "nodes: [{name: a, kind: say, text: x}]\ntools: {t: {description: x}}",
        "nodes: [{name: a, kind: say, text: x}]\nrisk: {safe: perhaps}",
        "nodes: [{name: a, kind: say, text: x}]\nworkspace: {clone: x}",
        "nodes: [{name: a, kind: say, text: x}]\npolicy: {budgetz: {}}",
    ] {
        assert!(check(bad).is_err(), "{bad}");
        let wrong = parse_workflow(bad, "w.yaml", Path::new(".")).map(|_| ());
        // The policy is validated later, when the run's policy layers are merged.
        assert!(wrong.is_err() || bad.contains("policy:"), "{bad}");
    }
}

#[test]
fn schema_lists_all_known_keys() {
    let schema = schema();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&schema["properties"]), KEYS.map(str::to_owned).into());
    let nodes = schema["$defs"]["Node"]["oneOf"].as_array().unwrap();
    assert_eq!(nodes.len(), NodeKind::KINDS.len());
    for (node, kind) in nodes.iter().zip(NodeKind::KINDS) {
        assert_eq!(node["properties"]["kind"], json!({"const": kind}));
        let known = keys(&node["properties"]);
        assert!(NodeCommon::KEYS.iter().all(|key| known.contains(*key)), "{kind}");
        for (key, property) in node["properties"].as_object().unwrap() {
            let described = property["description"].is_string() || key == "kind";
            assert!(described, "{kind}.{key}");
        }
    }
}
