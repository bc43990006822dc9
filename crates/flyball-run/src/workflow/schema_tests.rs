//! The schema and the reader know the same files.

use super::super::read::KEYS;
use super::super::{Common, Work, read};
use super::json_schema;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn schema() -> Value {
    serde_json::from_str(&json_schema()).unwrap()
}

/// Whether a value fits a schema: the part of JSON Schema that ours uses.
fn fits(whole: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/$defs/").unwrap();
        return fits(whole, &whole["$defs"][name], value).map_err(|why| format!("{name}: {why}"));
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
        let tried: Vec<_> = ways.iter().map(|way| fits(whole, way, value)).collect();
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
                _ if !own.is_null() => fits(whole, own, value).map_err(|why| format!("{key}: {why}"))?,
                Value::Bool(false) => return Err(format!("{key} is not known")),
                more => fits(whole, more, value).map_err(|why| format!("{key}: {why}"))?,
            }
        }
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        fits(whole, &schema["items"], item).map_err(|why| format!("{at}: {why}"))?;
    }
    Ok(())
}

fn check(text: &str) -> Result<(), String> {
    let layer = flyball::policy::parse(text, flyball::policy::Format::Yaml, "w.yaml").unwrap();
    let schema = schema();
    fits(&schema, &schema, &layer.tree)
}

/// The workflow files of the examples that can be run.
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
fn every_example_fits_the_schema() {
    let files = examples();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        check(&text).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        if let Err(wrong) = read(&text, "w.yaml", file.parent().unwrap()) {
            panic!("{}: {wrong:?}", file.display());
        }
    }
}

#[test]
fn what_the_reader_refuses_the_schema_refuses_too() {
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
        let wrong = read(bad, "w.yaml", Path::new(".")).map(|_| ());
        // The policy is read when the run's whole policy is put together.
        assert!(wrong.is_err() || bad.contains("policy:"), "{bad}");
    }
}

#[test]
fn the_schema_lists_the_keys_that_the_reader_knows() {
    let schema = schema();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&schema["properties"]), KEYS.map(str::to_owned).into());
    let nodes = schema["$defs"]["Node"]["oneOf"].as_array().unwrap();
    assert_eq!(nodes.len(), Work::KINDS.len());
    for (node, kind) in nodes.iter().zip(Work::KINDS) {
        assert_eq!(node["properties"]["kind"], json!({"const": kind}));
        let known = keys(&node["properties"]);
        assert!(Common::KEYS.iter().all(|key| known.contains(*key)), "{kind}");
        for (key, property) in node["properties"].as_object().unwrap() {
            let described = property["description"].is_string() || key == "kind";
            assert!(described, "{kind}.{key}");
        }
    }
}
