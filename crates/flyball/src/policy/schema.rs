//! The JSON schema of policy files, which editors use to complete and check keys.
//!
//! Guards and budgets declare their schema with their keys (`settings.rs`); the types here describe the rest.
#![allow(dead_code)] // Only the schema is derived from these types; they are never constructed.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::schema_compat::{LoopPolicyFile, LoopPreventionFile, PhaseFile, ResilienceFile};
use super::schema_journal::JournalFile;
use super::schema_values::{DurationValue, LimitValue, RulesVersionNumber, VersionValue};
use super::settings::object_schema;
use super::{
    Budgets, EdgePolicy, GuardPolicies, LabelPolicy, NodePolicy, OnErrorAction, OnStallAction, Preset,
    ReleasePolicy, ToolEffect, ToolPolicy,
};
use crate::guards::ScopeKind;

/// A Flyball policy: the enabled guards, their limits, and what happens when one trips.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PolicyFile {
    /// URL of this schema, for editors.
    #[schemars(rename = "$schema")]
    pub(super) schema: Option<String>,
    /// Version of the file format.
    pub(super) version: Option<VersionValue>,
    /// Base values that the rest of the policy overrides. Default: `workflow` for `run`, `agent` elsewhere.
    pub(super) preset: Option<Preset>,
    /// Limits on time, turns, tokens and cost.
    pub(super) budgets: Option<Budgets>,
    /// Guard settings. Each guard takes a map of keys or only a mode.
    pub(super) guards: Option<GuardPolicies>,
    /// Settings for individual nodes, by name.
    pub(super) nodes: Option<BTreeMap<String, NodePolicy>>,
    /// Settings for individual edges, written `from->to`.
    pub(super) edges: Option<BTreeMap<String, EdgePolicy>>,
    /// Settings for individual tools, by name.
    pub(super) tools: Option<BTreeMap<String, ToolPolicy>>,
    /// Action when a loop makes no progress. Default: `switch_to_interactive`.
    pub(super) on_stall: Option<OnStallAction>,
    /// How much an operator's release grants, and how often.
    pub(super) releases: Option<ReleasePolicy>,
    /// Label names.
    pub(super) labels: Option<LabelPolicy>,
    /// Whether a block is escalated to a person with a label. Default: true.
    pub(super) escalate: Option<bool>,
    /// Whether a halt also emits a `notify` effect. Default: false.
    pub(super) notify: Option<bool>,
    /// A hook's answer when Flyball itself fails. Default: `reads`.
    pub(super) on_error: Option<OnErrorAction>,
    /// Storage, redaction and retention of sessions, and delivery of effects.
    pub(super) journal: Option<JournalFile>,
    /// Custom rules in CEL. A rule in a higher layer replaces the rule of the same name.
    pub(super) rules: Option<Vec<RuleFile>>,
    /// Version of the decision rules for new sessions. Default: the latest.
    pub(super) rules_version: Option<RulesVersionNumber>,
    /// Loop prevention for phase workflows, as in Agent Shepherd.
    pub(super) loop_prevention: Option<LoopPreventionFile>,
    /// Phases with their own limits, as in Agent Shepherd.
    pub(super) phases: Option<Vec<PhaseFile>>,
    /// Limits for individual edges, written `fix->test: 8`, as in Agent Shepherd.
    pub(super) transition_limits: Option<BTreeMap<String, LimitValue>>,
    /// Resilience settings for a coding loop, as in Dex.
    pub(super) resilience: Option<ResilienceFile>,
    /// Loop safety settings for a node graph, as in vuhlp.
    pub(super) loop_policy: Option<LoopPolicyFile>,
}

/// Action when a rule matches.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum RuleDecisionValue {
    /// The match is reported.
    Observe,
    /// The verdict is `warn`.
    Warn,
    /// The verdict is `block`.
    Block,
    /// The verdict is `halt`.
    Halt,
}

/// Settings for one node. Limits on transitions belong to the edge.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NodeKeys {
    /// Visits allowed (`visits.limit` of this node): at least 1, or off.
    pub(super) max_visits: Option<LimitValue>,
    /// Whether cycles through this node are intended. Default: false.
    pub(super) allow_cycles: Option<bool>,
    /// The only nodes reachable from this one. Default: those that the session's workflow declares.
    pub(super) allowed_destinations: Option<Vec<String>>,
    /// Turns in this node.
    pub(super) turns: Option<LimitValue>,
    /// Whether `turns` also applies inside loops that the workflow declares. Default: true if the limit is set
    /// explicitly, otherwise false.
    pub(super) holds_in_loops: Option<bool>,
    /// Active time in this node.
    pub(super) runtime: Option<DurationValue>,
}

/// Settings for one edge.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct EdgeKeys {
    /// Uses of this edge allowed (`transitions.limit`): at least 1, or off.
    pub(super) max_transitions: Option<LimitValue>,
}

/// Settings for one tool.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ToolKeys {
    /// Side effect of a call.
    pub(super) effect: Option<ToolEffect>,
}

/// A custom rule.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct RuleFile {
    /// The rule's name; must be unique.
    pub(super) name: String,
    /// The condition, a CEL expression over `event` and `session` of at most 1000 characters.
    pub(super) when: String,
    /// Verdict when the condition is true. Default: `block`.
    pub(super) decision: Option<RuleDecisionValue>,
    /// Message to the model and the operator, at most 300 characters.
    pub(super) message: Option<String>,
}

macro_rules! scope_schema {
    ($type:ident, $name:literal, $keys:ident, $scope:expr) => {
        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let own = $keys::json_schema(generator).to_value();
                let doc = own["description"].as_str().unwrap_or_default();
                object_schema(doc, None, generator, |keys| {
                    keys.extend(&own["properties"]);
                    GuardPolicies::describe_scope($scope, keys);
                })
            }
        }
    };
}

scope_schema!(NodePolicy, "NodeFile", NodeKeys, ScopeKind::Node);
scope_schema!(EdgePolicy, "EdgeFile", EdgeKeys, ScopeKind::Edge);
scope_schema!(ToolPolicy, "ToolFile", ToolKeys, ScopeKind::Tool);

/// The JSON schema of a policy file, pretty-printed with a trailing newline.
///
/// The text is identical on every machine; `docs/policy.schema.json` is a copy.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(PolicyFile);
    let mut text = serde_json::to_string_pretty(&sort_keys(schema.as_value())).unwrap_or_default();
    text.push('\n');
    text
}

/// Copies a value with sorted keys, independent of the map type's order.
fn sort_keys(value: &serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(map) => {
            let by_name: BTreeMap<&String, serde_json::Value> =
                map.iter().map(|(k, v)| (k, sort_keys(v))).collect();
            by_name.into_iter().map(|(k, v)| (k.clone(), v)).collect()
        }
        serde_json::Value::Array(items) => items.iter().map(sort_keys).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
