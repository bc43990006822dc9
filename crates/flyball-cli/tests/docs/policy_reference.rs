//! Generates the key tables of `docs/reference/policy.md` from the JSON schema of policy files with `FLYBALL_BLESS=1`,
//! and compares them otherwise.

use crate::kit::repo_root;
use serde_json::Value;
use std::fmt::Write;

const PAGE: &str = "docs/reference/policy.md";
const SCHEMA: &str = "docs/policy.schema.json";
const BEGIN: &str = "<!-- keys -->\n";
const END: &str = "<!-- /keys -->";

/// The schema, with lookup functions.
struct Schema(Value);

impl Schema {
    /// A schema with its references resolved; a description next to a reference wins.
    fn resolved<'a>(&'a self, mut node: &'a Value) -> &'a Value {
        while let Some(reference) = node["$ref"].as_str() {
            node = self.0.pointer(reference.trim_start_matches('#')).expect("a definition");
        }
        node
    }

    /// All schemas that a value may match, including alternatives.
    fn alternatives<'a>(&'a self, node: &'a Value) -> Vec<&'a Value> {
        let node = self.resolved(node);
        let mut all = vec![node];
        for list in ["anyOf", "oneOf"].iter().filter_map(|key| node[*key].as_array()) {
            all.extend(list.iter().flat_map(|node| self.alternatives(node)));
        }
        all
    }

    fn description<'a>(&'a self, node: &'a Value) -> &'a str {
        node["description"]
            .as_str()
            .or_else(|| self.resolved(node)["description"].as_str())
            .unwrap_or_default()
    }

    /// The allowed constant values.
    fn words(&self, node: &Value) -> Vec<String> {
        let words = self.alternatives(node).into_iter().filter_map(|node| node["const"].as_str());
        words.map(|word| format!("`{word}`")).collect()
    }

    /// Adds a row for each key below a path. A guard below a node, an edge or a tool has the keys of the guard itself.
    fn rows(&self, path: &str, node: &Value, table: &mut String) {
        for part in self.alternatives(node) {
            let named = part["additionalProperties"].as_object().map(|_| &part["additionalProperties"]);
            if let Some(inner) = named {
                self.rows(&format!("{path}.NAME"), inner, table);
            }
            if part["items"].is_object() {
                self.rows(&format!("{path}[]"), &part["items"], table);
            }
            for (key, inner) in part["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{key}");
                let words = self.words(inner);
                let mut text = self.description(inner).replace('|', "\\|").replace('\n', " ");
                let has_mode = words.iter().any(|word| word == "`staged`");
                if !words.is_empty() && !has_mode {
                    write!(text, " One of {}.", words.join(", ")).unwrap();
                }
                let of_one = path.contains(".NAME.")
                    && !self
                        .0
                        .pointer(&format!("/$defs/GuardsFile/properties/{key}"))
                        .is_none_or(Value::is_null);
                if of_one {
                    write!(text, " Keys: as `guards.{key}`.").unwrap();
                }
                writeln!(table, "| `{path}` | {} |", text.trim()).unwrap();
                if !of_one {
                    self.rows(&path, inner, table);
                }
            }
        }
    }
}

fn tables() -> String {
    let schema =
        Schema(serde_json::from_str(&std::fs::read_to_string(repo_root().join(SCHEMA)).unwrap()).unwrap());
    let mut text = String::new();
    for (key, node) in schema.0["properties"].as_object().unwrap() {
        write!(text, "\n### `{key}`\n\n{}", schema.description(node)).unwrap();
        let words = schema.words(node);
        if !words.is_empty() {
            write!(text, " One of {}.", words.join(", ")).unwrap();
        }
        text.push('\n');
        let mut table = String::new();
        schema.rows(key, node, &mut table);
        if !table.is_empty() {
            write!(text, "\n| key | meaning |\n|---|---|\n{table}").unwrap();
        }
    }
    text.push('\n');
    text
}

#[test]
fn the_reference_of_policy_keys_is_current() {
    let path = repo_root().join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has markers for the keys");
    let (written, after) = rest.split_once(END).expect("the page has markers for the keys");
    let tables = tables();
    assert!(tables.contains("| `guards.repetition.limit` |"), "the schema was not read:\n{tables}");
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{tables}{END}{after}")).unwrap();
        return;
    }
    assert!(written == tables, "{PAGE} is stale: FLYBALL_BLESS=1 cargo test -p flyball-cli --test docs");
}
