//! The JSON schema of workflow files, for editors: made from the types that read them.
#![allow(dead_code, reason = "the schema is made from the types; no value of them is ever built")]

use super::node::{Common, Work};
use super::spec;
use crate::gates::GatesConfig;
use crate::provider::{CommandConfig, RemoteConfig, ScriptConfig};
use crate::tools::{CommandTool, Risk, Verdict};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema as schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A Flyball workflow: a graph of agents, tools, checks and people that is run under a policy.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Workflow")]
struct File {
    /// The version of the file's format: 1.
    version: Option<u64>,
    /// Its name; the sessions are called after it. Default: the name of the file.
    name: Option<String>,
    /// What it is for; templates use it as `{{goal}}`.
    goal: Option<String>,
    /// More about it, for people.
    description: Option<String>,
    /// The node that a run begins with. Default: the first.
    start: Option<String>,
    /// Where tools and commands work: a folder, or a copy of one for each run. Default: the folder of the file.
    workspace: Option<spec::Workspace>,
    /// The models, by name.
    providers: Option<BTreeMap<String, ProviderFile>>,
    /// Tools beside the built-in ones (shell, read, write, edit, search), by name.
    tools: Option<BTreeMap<String, ToolFile>>,
    /// Checks of the work: tests, lint, build.
    gates: Option<GatesConfig>,
    /// How progress is measured.
    signals: Option<Vec<SignalFile>>,
    /// What is done about each class of risk of a tool call.
    risk: Option<RiskFile>,
    /// The policy of its runs, on top of the project's.
    policy: Option<PolicyFile>,
    /// The nodes.
    nodes: Vec<NodeFile>,
    /// Labels that its sessions begin with.
    labels: Option<Map<String, Value>>,
    /// Words for people in place of the built-in ones, by key.
    texts: Option<BTreeMap<String, String>>,
    /// Values that templates may use, by name.
    vars: Option<BTreeMap<String, Value>>,
    /// The node that looks at a loop that has stalled, for `on_stall: spawn_reviewer`.
    reviewer: Option<String>,
    /// The provider that takes over from a loop that has stalled, for `on_stall: retry_with_new_provider`.
    fallback_provider: Option<String>,
    /// Variables of the runner's environment that its programs inherit beside the ordinary ones. Keys are not inherited
    /// unless they are named here.
    pass_env: Option<Vec<String>>,
}

/// A signal: its name alone, or how it is measured.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "SignalFile")]
enum SignalFile {
    /// Its name.
    Name(String),
    /// How it is measured.
    Map(spec::Signal),
}

/// Verdicts by class of risk.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Risks")]
struct RiskFile {
    /// What only looks. Default: `allow`.
    safe: Option<Verdict>,
    /// The usual work. Default: `allow`.
    moderate: Option<Verdict>,
    /// What cannot be brought back. Default: `confirm`.
    destructive: Option<Verdict>,
    /// What nobody can tell. Default: `confirm`.
    unknown: Option<Verdict>,
    /// Single tools: a class, or a verdict.
    tools: Option<BTreeMap<String, RiskRule>>,
}

/// What holds for one tool.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "RiskRule")]
enum RiskRule {
    /// Every call is of this class.
    Class(Risk),
    /// Every call gets this verdict.
    Verdict(Verdict),
}

struct NodeFile;
struct ProviderFile;
struct ToolFile;
struct PolicyFile;

impl JsonSchema for NodeFile {
    fn schema_name() -> Cow<'static, str> {
        "Node".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kinds: Vec<Value> = Work::KINDS.iter().map(|kind| node(generator, kind)).collect();
        schema!({"description": "A node; `kind` says what it does.", "oneOf": kinds})
    }
}

/// A node of a kind: what is common to all, and what is its own.
fn node(generator: &mut SchemaGenerator, kind: &str) -> Value {
    let own = match kind {
        "command" => spec::Command::json_schema(generator),
        "agent" => spec::Agent::json_schema(generator),
        "decide" => spec::Decide::json_schema(generator),
        "gate" => spec::Gate::json_schema(generator),
        "confirm" => spec::Confirm::json_schema(generator),
        "collect" => spec::Collect::json_schema(generator),
        "say" => spec::Say::json_schema(generator),
        "tool" => spec::Tool::json_schema(generator),
        "human" => spec::Human::json_schema(generator),
        "join" => spec::Join::json_schema(generator),
        _ => spec::Route::json_schema(generator),
    };
    let mut own = tagged(own, kind);
    let common = Common::json_schema(generator).to_value();
    let name = json!({"name": {"type": "string", "description": "Its name, different from every other's."}});
    for more in [common.get("properties"), Some(&name)].into_iter().flatten() {
        add(&mut own, more);
    }
    if let Some(required) = own.get_mut("required").and_then(Value::as_array_mut) {
        required.push(json!("name"));
    }
    own
}

impl JsonSchema for ProviderFile {
    fn schema_name() -> Cow<'static, str> {
        "Provider".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let remote = RemoteConfig::json_schema(generator);
        let kinds = [
            tagged(ScriptConfig::json_schema(generator), "script"),
            tagged(CommandConfig::json_schema(generator), "command"),
            tagged(remote.clone(), "openai"),
            tagged(remote, "anthropic"),
        ];
        schema!({"description": "A model; `kind` says how it is reached.", "oneOf": kinds})
    }
}

impl JsonSchema for ToolFile {
    fn schema_name() -> Cow<'static, str> {
        "ToolFile".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut own = CommandTool::json_schema(generator).to_value();
        if let Some(properties) = own.get_mut("properties").and_then(Value::as_object_mut) {
            // The name is the key.
            properties.remove("name");
        }
        if let Some(required) = own.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|key| key != "name");
        }
        let rerun = "Whether a call that was cut off may be made again. Default: false.";
        add(&mut own, &json!({"rerun": {"type": "boolean", "description": rerun}}));
        Schema::try_from(own).unwrap_or_default()
    }
}

impl JsonSchema for PolicyFile {
    fn schema_name() -> Cow<'static, str> {
        "Policy".into()
    }

    /// The schema of policy files, with its definitions beside ours.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = flyball::policy::json_schema();
        let mut whole: Value = serde_json::from_str(&text).unwrap_or_default();
        moved(&mut whole);
        let Some(map) = whole.as_object_mut() else { return Schema::default() };
        map.remove("$schema");
        if let Some(Value::Object(definitions)) = map.remove("$defs") {
            for (name, definition) in definitions {
                generator.definitions_mut().insert(format!("Policy{name}"), definition);
            }
        }
        Schema::try_from(whole).unwrap_or_default()
    }
}

/// References of the policy's schema, as they are called here.
fn moved(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match value {
                    Value::String(text) if key == "$ref" => {
                        *text = text.replace("#/$defs/", "#/$defs/Policy")
                    }
                    other => moved(other),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(moved),
        _ => {}
    }
}

/// A map that is told from others by its `kind`.
fn tagged(own: Schema, kind: &str) -> Value {
    let mut own = own.to_value();
    add(&mut own, &json!({"kind": {"const": kind}}));
    if let Some(map) = own.as_object_mut() {
        map.insert("type".to_owned(), json!("object"));
        map.insert("additionalProperties".to_owned(), json!(false));
        if let Some(Value::Array(required)) = map.get_mut("required") {
            required.push(json!("kind"));
        } else {
            map.insert("required".to_owned(), json!(["kind"]));
        }
    }
    own
}

fn add(own: &mut Value, more: &Value) {
    let Some(map) = own.as_object_mut() else { return };
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    if let (Some(properties), Some(more)) = (properties.as_object_mut(), more.as_object()) {
        properties.extend(more.clone());
    }
}

/// The JSON schema of a workflow file, as pretty text that ends with a line break.
///
/// The text is the same on every machine; `docs/workflow.schema.json` holds it.
#[must_use]
pub fn json_schema() -> String {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let whole = generator.into_root_schema_for::<File>().to_value();
    let mut text = serde_json::to_string_pretty(&sorted(&whole)).unwrap_or_default();
    text.push('\n');
    text
}

/// The same value with sorted keys, whatever order the map type keeps.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let by_name: BTreeMap<&String, Value> =
                map.iter().map(|(key, value)| (key, sorted(value))).collect();
            by_name.into_iter().map(|(key, value)| (key.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
