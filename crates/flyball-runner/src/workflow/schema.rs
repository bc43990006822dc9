//! JSON Schema of workflow files, generated from the types that parse them.
#![allow(dead_code, reason = "these types only generate the schema and are never constructed")]

use super::node::{NodeCommon, NodeKind};
use super::spec;
use crate::gates::GatesConfig;
use crate::provider::{CommandProviderConfig, HttpProviderConfig, ScriptConfig};
use crate::tools::{CommandTool, Risk, RiskVerdict};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema as schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A Flyball workflow: a graph of agents, tools, checks and people that runs under a policy.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Workflow")]
struct WorkflowSchema {
    /// Format version: 1.
    version: Option<u64>,
    /// Workflow name; session names start with it. Default: the file name.
    name: Option<String>,
    /// Goal of the workflow. Templates use it as `{{goal}}`.
    goal: Option<String>,
    /// Longer description for people.
    description: Option<String>,
    /// First node of a run. Default: the first in `nodes`.
    start: Option<String>,
    /// Working directory of tools and commands: a folder, or a copy of one for each run. Default: the folder of the
    /// file.
    workspace: Option<spec::WorkspaceSpec>,
    /// Models by name.
    providers: Option<BTreeMap<String, ProviderSchema>>,
    /// Tools by name, in addition to the built-in ones (shell, read, write, edit, search).
    tools: Option<BTreeMap<String, ToolSchema>>,
    /// Quality gates: tests, lint, build.
    gates: Option<GatesConfig>,
    /// Signals that measure progress.
    signals: Option<Vec<SignalSchema>>,
    /// Verdict for each risk class of a tool call.
    risk: Option<RiskSchema>,
    /// Policy of its runs, layered on the project's policy.
    policy: Option<PolicySchema>,
    /// Nodes of the graph.
    nodes: Vec<NodeSchema>,
    /// Initial labels of its sessions.
    labels: Option<Map<String, Value>>,
    /// Replacements for built-in texts, by key.
    texts: Option<BTreeMap<String, String>>,
    /// Values available to templates, by name.
    vars: Option<BTreeMap<String, Value>>,
    /// Node that reviews a stalled loop, for `on_stall: spawn_reviewer`.
    reviewer: Option<String>,
    /// Provider that takes over a stalled loop, for `on_stall: retry_with_new_provider`.
    fallback_provider: Option<String>,
    /// Environment variables of the runner that its programs inherit in addition to the default set. API keys are not
    /// inherited unless they are listed here.
    pass_env: Option<Vec<String>>,
}

/// A signal: a name, or a map that says how to measure it.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "SignalFile")]
enum SignalSchema {
    /// Name of a signal.
    Name(String),
    /// A signal and how to measure it.
    Map(spec::SignalSpec),
}

/// Verdicts by risk class.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Risks")]
struct RiskSchema {
    /// Read-only calls. Default: `allow`.
    safe: Option<RiskVerdict>,
    /// Ordinary work. Default: `allow`.
    moderate: Option<RiskVerdict>,
    /// Calls that cannot be undone. Default: `confirm`.
    destructive: Option<RiskVerdict>,
    /// Calls that cannot be classified. Default: `confirm`.
    unknown: Option<RiskVerdict>,
    /// Overrides for single tools: a class or a verdict.
    tools: Option<BTreeMap<String, RiskRuleSchema>>,
}

/// Rule for one tool.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "RiskRule")]
enum RiskRuleSchema {
    /// Class of every call.
    Class(Risk),
    /// Verdict for every call.
    Verdict(RiskVerdict),
}

struct NodeSchema;
struct ProviderSchema;
struct ToolSchema;
struct PolicySchema;

impl JsonSchema for NodeSchema {
    fn schema_name() -> Cow<'static, str> {
        "Node".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kinds: Vec<Value> = NodeKind::KINDS.iter().map(|kind| node_schema(generator, kind)).collect();
        schema!({"description": "A node; `kind` says what it does.", "oneOf": kinds})
    }
}

/// Schema of one node kind: its own keys plus the common ones.
fn node_schema(generator: &mut SchemaGenerator, kind: &str) -> Value {
    let own = match kind {
        "command" => spec::CommandNode::json_schema(generator),
        "agent" => spec::AgentNode::json_schema(generator),
        "decide" => spec::DecideNode::json_schema(generator),
        "gate" => spec::GateNode::json_schema(generator),
        "confirm" => spec::ConfirmNode::json_schema(generator),
        "collect" => spec::CollectNode::json_schema(generator),
        "say" => spec::SayNode::json_schema(generator),
        "tool" => spec::ToolNode::json_schema(generator),
        "human" => spec::HumanNode::json_schema(generator),
        "join" => spec::JoinNode::json_schema(generator),
        _ => spec::RouteNode::json_schema(generator),
    };
    let mut own = with_kind(own, kind);
    let common = NodeCommon::json_schema(generator).to_value();
    let name = json!({"name": {"type": "string", "description": "Unique name."}});
    for more in [common.get("properties"), Some(&name)].into_iter().flatten() {
        merge_properties(&mut own, more);
    }
    if let Some(required) = own.get_mut("required").and_then(Value::as_array_mut) {
        required.push(json!("name"));
    }
    own
}

impl JsonSchema for ProviderSchema {
    fn schema_name() -> Cow<'static, str> {
        "Provider".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let remote = HttpProviderConfig::json_schema(generator);
        let kinds = [
            with_kind(ScriptConfig::json_schema(generator), "script"),
            with_kind(CommandProviderConfig::json_schema(generator), "command"),
            with_kind(remote.clone(), "openai"),
            with_kind(remote, "anthropic"),
        ];
        schema!({"description": "A model; `kind` says how to reach it.", "oneOf": kinds})
    }
}

impl JsonSchema for ToolSchema {
    fn schema_name() -> Cow<'static, str> {
        "ToolFile".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut own = CommandTool::json_schema(generator).to_value();
        if let Some(properties) = own.get_mut("properties").and_then(Value::as_object_mut) {
            // In a workflow file the name is the map key.
            properties.remove("name");
        }
        if let Some(required) = own.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|key| key != "name");
        }
        let rerun = "Whether an interrupted call may be repeated. Default: false.";
        merge_properties(&mut own, &json!({"rerun": {"type": "boolean", "description": rerun}}));
        Schema::try_from(own).unwrap_or_default()
    }
}

impl JsonSchema for PolicySchema {
    fn schema_name() -> Cow<'static, str> {
        "Policy".into()
    }

    /// Embeds the schema of policy files, with its definitions renamed to avoid clashes.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = flyball::policy::json_schema();
        let mut whole: Value = serde_json::from_str(&text).unwrap_or_default();
        rewrite_refs(&mut whole);
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

/// Renames references to the policy schema's definitions.
fn rewrite_refs(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match value {
                    Value::String(text) if key == "$ref" => {
                        *text = text.replace("#/$defs/", "#/$defs/Policy")
                    }
                    other => rewrite_refs(other),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(rewrite_refs),
        _ => {}
    }
}

/// Adds the `kind` discriminator to an object schema.
fn with_kind(own: Schema, kind: &str) -> Value {
    let mut own = own.to_value();
    merge_properties(&mut own, &json!({"kind": {"const": kind}}));
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

fn merge_properties(own: &mut Value, more: &Value) {
    let Some(map) = own.as_object_mut() else { return };
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    if let (Some(properties), Some(more)) = (properties.as_object_mut(), more.as_object()) {
        properties.extend(more.clone());
    }
}

/// JSON Schema of a workflow file, pretty-printed, with a trailing newline.
///
/// The output is deterministic; `docs/workflow.schema.json` contains it.
#[must_use]
pub fn json_schema() -> String {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let whole = generator.into_root_schema_for::<WorkflowSchema>().to_value();
    let mut text = serde_json::to_string_pretty(&sort_keys(&whole)).unwrap_or_default();
    text.push('\n');
    text
}

/// Sorts the keys, independent of the map type.
fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let by_name: BTreeMap<&String, Value> =
                map.iter().map(|(key, value)| (key, sort_keys(value))).collect();
            by_name.into_iter().map(|(key, value)| (key.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().map(sort_keys).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
