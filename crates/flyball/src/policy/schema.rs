//! Schema types of the policy file: every key and its description, for the JSON schema.
//!
//! Parsing does not use these types: `section_reader.rs` and `section_keys.rs` read the keys and collect every error
//! with its position. A test keeps the two lists of keys equal. Editors use the schema to complete and check keys.
#![allow(dead_code)] // Only the schema is derived from these types; they are never constructed.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema as schema};

use super::schema_compat::{LoopPolicyFile, LoopPreventionFile, PhaseFile, ResilienceFile};
use super::schema_guards::GuardSetting;
use super::schema_guards::GuardsFile;
use super::schema_journal::JournalFile;

/// A count, or `off` (also `0`, `false` or null) for no limit.
pub(super) struct LimitValue;
/// A duration: `90s`, `10m`, `4h`, `1h30m`, a number of milliseconds, or `off` for no limit.
pub(super) struct DurationValue;
/// An amount in dollars such as `2.50`, or `off` for no limit.
pub(super) struct CostValue;

macro_rules! value_schema {
    ($type:ident, $name:literal, $schema:tt) => {
        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schema!($schema)
            }
        }
    };
}

value_schema!(LimitValue, "Limit", {
    "description": "A count, or off (also 0, false or null) for no limit.",
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": "^(off|[0-9][0-9_]*)$"},
        {"const": false},
        {"type": "null"}
    ]
});
value_schema!(DurationValue, "Duration", {
    "description": "A duration: 90s, 10m, 4h, 1h30m, a number of milliseconds, or off for no limit.",
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": "^(off|[0-9][0-9_]*|([0-9]+(\\.[0-9]+)? *(ms|s|m|h|d) *)+)$"},
        {"const": false},
        {"type": "null"}
    ]
});
value_schema!(CostValue, "Cost", {
    "description": "An amount in dollars such as 2.50, or off for no limit.",
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": "^(off|\\$?[0-9]+(\\.[0-9]+)?)$"},
        {"const": false},
        {"type": "null"}
    ]
});

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
    pub(super) preset: Option<PresetValue>,
    /// Limits on time, turns, tokens and cost.
    pub(super) budgets: Option<BudgetsFile>,
    /// Guard settings. Each guard takes a map of keys or only a mode.
    pub(super) guards: Option<GuardsFile>,
    /// Settings for individual nodes, by name.
    pub(super) nodes: Option<BTreeMap<String, NodeFile>>,
    /// Settings for individual edges, written `from->to`.
    pub(super) edges: Option<BTreeMap<String, EdgeFile>>,
    /// Settings for individual tools, by name.
    pub(super) tools: Option<BTreeMap<String, ToolFile>>,
    /// Action when a loop makes no progress. Default: `switch_to_interactive`.
    pub(super) on_stall: Option<OnStallValue>,
    /// How much an operator's release grants, and how often.
    pub(super) releases: Option<ReleasesFile>,
    /// Label names.
    pub(super) labels: Option<LabelsFile>,
    /// Whether a block is escalated to a person with a label. Default: true.
    pub(super) escalate: Option<bool>,
    /// Whether a halt also emits a `notify` effect. Default: false.
    pub(super) notify: Option<bool>,
    /// A hook's answer when Flyball itself fails. Default: `reads`.
    pub(super) on_error: Option<OnErrorValue>,
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

/// Version of the file format: 1.
pub(super) struct VersionValue;
value_schema!(VersionValue, "Version", {"description": "Version of the file format.", "const": 1});

/// Version of the decision rules: 1 or 2.
pub(super) struct RulesVersionNumber;
value_schema!(RulesVersionNumber, "RulesVersion", {"description": "Version of the decision rules.", "enum": [1, 2]});

/// Base values that the rest of the policy overrides.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum PresetValue {
    /// A graph of nodes under a runner: all guards on.
    Workflow,
    /// A standalone agent with tools: no node, visit, transition-count or message limits.
    Agent,
    /// A short workflow: 5 visits per node, 3 uses per edge.
    Simple,
    /// A long workflow: 15 visits per node, 8 uses per edge.
    Complex,
    /// Lower limits everywhere.
    Strict,
    /// The limits of `agent`; everything is reported and nothing is blocked.
    Observe,
    /// All guards off, except those that the policy configures.
    Off,
}

/// Action when a loop makes no progress.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum OnStallValue {
    /// The session is paused.
    Pause,
    /// A person takes over.
    SwitchToInteractive,
    /// A reviewer node is started.
    SpawnReviewer,
    /// The turn is retried with another provider.
    RetryWithNewProvider,
}

/// A hook's answer when Flyball itself fails.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum OnErrorValue {
    /// Every call is allowed.
    Allow,
    /// Calls known to be read-only are allowed; all others are blocked.
    Reads,
    /// Every tool call is blocked.
    Block,
}

/// The side effect of a tool.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum ToolEffectValue {
    /// Only reads.
    Read,
    /// Changes something.
    Write,
    /// Waits for something, so repeated calls are normal.
    Poll,
    /// Cannot be undone, so it needs confirmation.
    Destructive,
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

/// Limits on time, turns, tokens and cost. `off` means no limit.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct BudgetsFile {
    /// Action when a budget is used up. Default: `staged`.
    pub(super) mode: Option<super::schema_guards::ModeValue>,
    /// Percentage of a budget at which warnings start. Default: 80.
    pub(super) warn_percent: Option<LimitValue>,
    /// Budget of the whole session.
    pub(super) session: Option<SessionFile>,
    /// Budget of one turn.
    pub(super) turn: Option<TurnFile>,
    /// Budget of one node.
    pub(super) node: Option<NodeBudgetFile>,
    /// Budget of one loop of the workflow.
    pub(super) r#loop: Option<LoopFile>,
    /// Budget of the work that one user message triggers.
    pub(super) message: Option<MessageFile>,
}

/// The budget of a session.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct SessionFile {
    /// Active time, not counting pauses and time spent waiting for a person. Default: 4h.
    pub(super) runtime: Option<DurationValue>,
    /// Wall-clock time since the start, including pauses. Default: off.
    pub(super) wall: Option<DurationValue>,
    /// Turns. Default: off.
    pub(super) turns: Option<LimitValue>,
    /// Model responses; tool calls of the next one are blocked. Default: off.
    pub(super) iterations: Option<LimitValue>,
    /// Input and output tokens. Default: off.
    pub(super) tokens: Option<LimitValue>,
    /// Cost. Default: off.
    pub(super) cost_usd: Option<CostValue>,
    /// Tool calls. Default: off.
    pub(super) tool_calls: Option<LimitValue>,
}

/// The budget of one turn.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct TurnFile {
    /// Maximum duration of a turn. Default: 10m.
    pub(super) timeout: Option<DurationValue>,
    /// Tokens in one turn. Default: off.
    pub(super) tokens: Option<LimitValue>,
}

/// The budget of one node.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NodeBudgetFile {
    /// Turns in one node. Default: 6; inside a loop at least iterations + 1, unless set explicitly.
    pub(super) turns: Option<LimitValue>,
    /// Whether the limit also applies inside loops that the workflow declares. If not, it is raised there to fit the
    /// loop budget. Default: true if the limit is set explicitly, otherwise false.
    pub(super) holds_in_loops: Option<bool>,
    /// Active time in one node. Default: off.
    pub(super) runtime: Option<DurationValue>,
}

/// The budget of one loop.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LoopFile {
    /// Complete iterations. Default: 8.
    pub(super) iterations: Option<LimitValue>,
    /// Active time inside the loop. Default: off.
    pub(super) runtime: Option<DurationValue>,
    /// Cost. Default: off.
    pub(super) cost_usd: Option<CostValue>,
}

/// The budget of the work that one user message triggers.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct MessageFile {
    /// Transitions until the next message. Default: 25.
    pub(super) transitions: Option<LimitValue>,
    /// Tool calls until the next message. Default: off.
    pub(super) tool_calls: Option<LimitValue>,
}

/// Settings for one node. Limits on transitions belong to the edge.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NodeFile {
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
    /// Repeated identical calls.
    pub(super) repetition: Option<GuardSetting<super::schema_guards::RepetitionFile>>,
    /// A repeating sequence of calls or outputs.
    pub(super) cycle: Option<GuardSetting<super::file_cycles::NodeCycleFile>>,
    /// The same call with the same result at irregular intervals.
    pub(super) recurrence: Option<GuardSetting<super::schema_guards::RecurrenceFile>>,
    /// Entries into this node.
    pub(super) visits: Option<GuardSetting<super::schema_guards::VisitsFile>>,
    /// No progress: unchanged outputs, diffs or failing tests.
    pub(super) stall: Option<GuardSetting<super::schema_guards::StallFile>>,
    /// Outputs, diffs or states that alternate: A, B, A, B.
    pub(super) oscillation: Option<GuardSetting<super::schema_guards::OscillationFile>>,
    /// Consecutive errors: the same one, or any.
    pub(super) error_streak: Option<GuardSetting<super::schema_guards::ErrorStreakFile>>,
    /// Model responses that fail to parse.
    pub(super) validation: Option<GuardSetting<super::schema_guards::ValidationFile>>,
    /// Attempts at one operation, with backoff and a circuit breaker.
    pub(super) retry: Option<GuardSetting<super::schema_guards::RetryFile>>,
    /// Completion checks: tests, lint, build, checklist.
    pub(super) gate: Option<GuardSetting<super::schema_guards::GateFile>>,
    /// A person's answer to a plan.
    pub(super) confirmation: Option<GuardSetting<super::schema_guards::ConfirmationFile>>,
    /// The same question asked of a person again.
    pub(super) question: Option<GuardSetting<super::schema_guards::QuestionFile>>,
    /// Repeated requests for a denied action.
    pub(super) denial: Option<GuardSetting<super::schema_guards::DenialFile>>,
    /// The same message again, or repetition within one message.
    pub(super) monologue: Option<GuardSetting<super::schema_guards::MonologueFile>>,
    /// Outputs too large for the context.
    pub(super) large_response: Option<GuardSetting<super::schema_guards::LargeResponseFile>>,
}

/// Settings for one edge.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct EdgeFile {
    /// Uses of this edge allowed (`transitions.limit`): at least 1, or off.
    pub(super) max_transitions: Option<LimitValue>,
    /// A repeating sequence of transitions that this edge would complete.
    pub(super) cycle: Option<GuardSetting<super::file_cycles::EdgeCycleFile>>,
    /// Transitions that are not part of the declared workflow.
    pub(super) workflow: Option<GuardSetting<super::schema_guards::DeclaredWorkflowFile>>,
    /// Uses of this edge.
    pub(super) transitions: Option<GuardSetting<super::schema_guards::TransitionsFile>>,
}

/// Settings for one tool.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ToolFile {
    /// Side effect of a call.
    pub(super) effect: Option<ToolEffectValue>,
    /// Repeated identical calls.
    pub(super) repetition: Option<GuardSetting<super::schema_guards::RepetitionFile>>,
    /// A repeating sequence of calls.
    pub(super) cycle: Option<GuardSetting<super::file_cycles::ToolCycleFile>>,
    /// The same call with the same result at irregular intervals.
    pub(super) recurrence: Option<GuardSetting<super::schema_guards::RecurrenceFile>>,
    /// Consecutive errors: the same one, or any.
    pub(super) error_streak: Option<GuardSetting<super::schema_guards::ErrorStreakFile>>,
    /// Plan steps that were not approved.
    pub(super) confirmation: Option<GuardSetting<super::schema_guards::ModeFile>>,
    /// Repeated requests for a denied action.
    pub(super) denial: Option<GuardSetting<super::schema_guards::DenialFile>>,
    /// Outputs too large for the context.
    pub(super) large_response: Option<GuardSetting<super::schema_guards::LargeResponseFile>>,
}

/// How much an operator's release grants.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ReleasesFile {
    /// Actions allowed by a `grant` without a number. Default: 3.
    pub(super) grant: Option<u64>,
    /// Releases of one guard per session; after that, the next trip halts. Default: 5.
    pub(super) ceiling: Option<u64>,
}

/// Label names.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LabelsFile {
    /// Prefix of every label. Default: `flyball-`; `ashep-` in a policy with `loop_prevention`.
    pub(super) prefix: Option<String>,
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
