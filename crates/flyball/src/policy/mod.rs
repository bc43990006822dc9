//! The operator's policy: parsing, merging and validation.
//!
//! There are two stages. First, text is parsed into a tree that knows the line and column of each key ([`parse`],
//! [`from_environment`], [`from_set`]). Then the layers are merged leaf by leaf and validated into one [`Policy`] of
//! plain integers ([`resolve`]), which records the origin of each value. This module does no I/O: it reads no files,
//! clock or environment.

mod budgets;
mod canonical_layer;
mod cel_values;
mod compat_keys;
mod custom_rules;
mod environment;
mod fields_sections;
mod fields_unknown;
mod guard_mode;
mod ineffective_keys;
mod journal;
mod json_reader;
mod keywords;
mod label_sync;
mod layer;
mod leaves;
mod lint;
mod paths;
mod policy_error;
mod policy_parser;
mod positions;
mod presets;
mod resolve;
mod rule_check;
mod rule_list;
mod schema;
mod schema_compat;
mod schema_journal;
mod schema_values;
mod scopes;
mod section_reader;
pub(crate) mod settings;
mod targets;
mod tighten;
mod toml_reader;
mod units;
mod values;
mod yaml_reader;

use crate::limits::{MAX_TRANSITION_HISTORY, TRAIL};
use crate::rules_version::RulesVersion;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settings::StricterDirection::Less;
use settings::{Count, Text, settings};

pub use crate::guards::settings::*;
pub use budgets::{Budgets, LoopBudget, MessageBudget, NodeBudget, SessionBudget, TurnBudget};
pub use custom_rules::{
    MAX_MESSAGE_CHARS, MAX_RULE_CHARS, MAX_RULES, PolicyRule, RuleError, RuleInput, SessionCounters,
};
pub use environment::{from_environment, from_set};
pub use guard_mode::{GuardMode, Limit};
pub(crate) use guard_mode::{HOUR_MS, MINUTE_MS, widen_in_loop};
pub(crate) use ineffective_keys::remove_ineffective_keys;
pub use journal::{Delivery, JournalPolicy};
pub use label_sync::{LabelSync, OnLabelAdded};
pub use layer::{LayerTrust, PolicyLayer, ValueOrigin};
pub use lint::{LintSeverity, PolicyWarning, lint_graph};
pub use policy_error::{PolicyError, PolicyErrorCode, PolicyErrors};
pub use policy_parser::{MAX_DEPTH, MAX_ENTRIES, MAX_TEXT_BYTES, MAX_VALUES, PolicyFormat, parse};
pub use positions::{KeyPositions, SourcePosition};
pub use presets::Preset;
pub(crate) use resolve::resolve_under;
pub use resolve::{EffectiveValue, ResolvedPolicy, ValueSource, resolve};
pub use rule_check::RuleNames;
pub use schema::json_schema;
pub(crate) use schema_values::GuardSetting;
pub(crate) use section_reader::section_keys;
pub use targets::{DeliveryTarget, EmailTarget, WebhookFormat, WebhookTarget};
pub use tighten::IgnoredValue;
pub(crate) use tighten::{compare_policies, merge_trees};

/// A resolved policy: every limit is a plain number, and all overrides are merged.
///
/// Created by [`resolve`] or [`Policy::preset`]. A read costs at most one map lookup.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The preset that the other values are based on.
    pub preset: Preset,
    /// Limits on time, turns, tokens and cost.
    pub budgets: Budgets,
    /// Guards without a node, edge or tool override.
    pub guards: GuardPolicies,
    /// Per-node overrides.
    pub nodes: BTreeMap<String, NodePolicy>,
    /// Per-edge overrides, by source and then by destination.
    pub edges: BTreeMap<String, BTreeMap<String, EdgePolicy>>,
    /// Per-tool overrides.
    pub tools: BTreeMap<String, ToolPolicy>,
    /// Action when a loop makes no progress.
    pub on_stall: OnStallAction,
    /// How much an operator's release grants, and how often.
    pub releases: ReleasePolicy,
    /// Label names.
    pub labels: LabelPolicy,
    /// Whether a block is escalated to a person with a label (`trigger_hitl`).
    pub escalate: bool,
    /// Whether a halt also emits a `notify` effect.
    pub notify: bool,
    /// A hook's answer when Flyball itself fails. Does not affect decisions.
    pub on_error: OnErrorAction,
    /// Storage, redaction and retention of sessions, and delivery of effects. Does not affect decisions.
    pub journal: JournalPolicy,
    /// Custom rules, in evaluation order.
    pub rules: Vec<PolicyRule>,
    /// Version of the decision rules for new sessions.
    pub rules_version: RulesVersion,
    /// Digest of everything that affects decisions, as 32 hexadecimal digits. Excludes `journal`, so that changing the
    /// retention does not make a stored session look like it ran under a different policy.
    pub digest: String,
}

impl Policy {
    /// The label that requests a person for a blocked session under this version of the rules.
    #[must_use]
    pub fn hitl_label(&self, rules: RulesVersion) -> String {
        // A version 1 session under a newer policy keeps its original label name.
        let newer = rules == RulesVersion::V1 && self.rules_version > RulesVersion::V1;
        let as_before = newer && self.labels == LabelPolicy::default();
        let prefix = if as_before { LabelPolicy::LOOP_PREVENTION } else { &self.labels.prefix };
        format!("{prefix}hitl:loop-prevention")
    }

    /// Number of transitions shown in reports and evidence.
    pub(crate) fn shown_history(&self, rules: RulesVersion) -> usize {
        self.guards.shown_history(rules)
    }

    /// Number of transitions a session keeps by name: enough to show, and enough for the longest cycle.
    pub(crate) fn kept_history(&self, rules: RulesVersion) -> usize {
        let edges = self.edges.values().flat_map(BTreeMap::values).map(|edge| &edge.guards);
        let needed = edges.chain([&self.guards]).map(|guards| guards.cycle.transitions.history_needed());
        let needed = usize::try_from(needed.max().unwrap_or(0)).unwrap_or(MAX_TRANSITION_HISTORY);
        if rules == RulesVersion::V1 { TRAIL } else { needed.min(MAX_TRANSITION_HISTORY) }
    }

    /// The guards that apply to calls of this tool.
    pub fn guards_for_tool(&self, tool: &str) -> &GuardPolicies {
        self.tools.get(tool).map_or(&self.guards, |t| &t.guards)
    }

    /// The guards that apply to actions of this node.
    pub fn guards_for_node(&self, node: &str) -> &GuardPolicies {
        self.nodes.get(node).map_or(&self.guards, |n| &n.guards)
    }

    /// The guards that apply to an output of this tool or, failing that, of this node.
    pub fn guards_for_output(&self, tool: Option<&str>, node: Option<&str>) -> &GuardPolicies {
        let of_tool = tool.and_then(|tool| self.tools.get(tool)).map(|tool| &tool.guards);
        of_tool.unwrap_or_else(|| node.map_or(&self.guards, |node| self.guards_for_node(node)))
    }

    /// The guards that apply to a transition along this edge.
    pub fn guards_for_edge(&self, from: &str, to: &str) -> &GuardPolicies {
        self.edge(from, to).map_or(&self.guards, |e| &e.guards)
    }

    /// The allowed destinations of a node, if the policy restricts them.
    pub fn destinations_of(&self, node: &str) -> Option<&[String]> {
        self.nodes.get(node)?.allowed_destinations.as_deref()
    }

    /// The node's overrides, if the policy names it.
    pub fn node(&self, name: &str) -> Option<&NodePolicy> {
        self.nodes.get(name)
    }

    /// The edge's overrides, if the policy names it.
    pub fn edge(&self, from: &str, to: &str) -> Option<&EdgePolicy> {
        self.edges.get(from)?.get(to)
    }

    /// The tool's overrides, if the policy names it.
    pub fn tool(&self, name: &str) -> Option<&ToolPolicy> {
        self.tools.get(name)
    }

    /// The side effect of this tool, if the policy declares it.
    pub fn tool_effect(&self, tool: &str) -> Option<ToolEffect> {
        self.tools.get(tool)?.effect
    }

    /// The budget of one node: its override, or the default for all nodes.
    pub fn budget_for_node(&self, node: &str) -> &NodeBudget {
        self.nodes.get(node).map_or(&self.budgets.node, |n| &n.budget)
    }
}

impl GuardPolicies {
    /// Number of transitions shown in the evidence of these guards.
    pub(crate) fn shown_history(&self, rules: RulesVersion) -> usize {
        let shown = usize::try_from(self.cycle.transitions.max_history).unwrap_or(MAX_TRANSITION_HISTORY);
        if rules == RulesVersion::V1 { TRAIL } else { shown.min(MAX_TRANSITION_HISTORY) }
    }
}

/// Settings for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePolicy {
    /// All guards, with this node's overrides applied. `max_visits` becomes `guards.visits.limit`; `allow_cycles` turns
    /// `guards.cycle` off.
    pub guards: GuardPolicies,
    /// The node's budget, with its overrides applied.
    pub budget: NodeBudget,
    /// Whether cycles through this node are intended.
    pub allow_cycles: bool,
    /// The only nodes reachable from this one; `None` = not restricted by the policy.
    pub allowed_destinations: Option<Vec<String>>,
}

/// Settings for one edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgePolicy {
    /// All guards, with this edge's overrides applied. `max_transitions` becomes `guards.transitions.limit`.
    pub guards: GuardPolicies,
}

/// Settings for one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPolicy {
    /// Side effect of a call, if the policy declares it.
    pub effect: Option<ToolEffect>,
    /// All guards, with this tool's overrides applied.
    pub guards: GuardPolicies,
    /// Whether the tool overrides any guard. If it only declares its effect, the node's settings stay in force.
    pub has_own_guards: bool,
}

/// The side effect of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ToolEffectValue")]
pub enum ToolEffect {
    /// Only reads.
    Read,
    /// Changes something.
    Write,
    /// Waits for something, so repeated calls are normal.
    Poll,
    /// Cannot be undone, so it needs confirmation.
    Destructive,
}

/// Action when a loop makes no progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "OnStallValue")]
pub enum OnStallAction {
    /// The session is paused.
    Pause,
    /// A person takes over.
    #[default]
    SwitchToInteractive,
    /// A reviewer node is started.
    SpawnReviewer,
    /// The turn is retried with another provider.
    RetryWithNewProvider,
}

/// A hook's answer when Flyball itself fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "OnErrorValue")]
pub enum OnErrorAction {
    /// Every call is allowed.
    Allow,
    /// Calls known to be read-only are allowed; all others are blocked.
    #[default]
    Reads,
    /// Every tool call is blocked.
    Block,
}

settings! {
    /// How much an operator's release grants.
    pub struct ReleasePolicy: "ReleasesFile" {
        /// Actions allowed by a `grant` without a number.
        grant: u64 = 3 => Count(1..=1_000, Less);
        /// Releases of one guard per session; after that, the next trip halts.
        ceiling: u64 = 5 => Count(0..=1_000, Less);
    }
}

settings! {
    /// Label names.
    pub struct LabelPolicy: "LabelsFile" {
        /// Prefix of every label. Default: `flyball-`; `ashep-` in a policy with `loop_prevention`.
        prefix: String = "flyball-".to_owned() => Text;
    }
}

impl LabelPolicy {
    /// Prefix in a policy with `loop_prevention`, and in sessions under version 1 of the rules.
    pub(crate) const LOOP_PREVENTION: &'static str = "ashep-";
}
