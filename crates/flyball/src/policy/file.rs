//! The policy file as it is written: every key with its manual, for the JSON schema.
//!
//! Reading goes through `fields_guards.rs`, which collects every error with its place; a test
//! keeps the two lists of keys equal. Editors use the schema to complete and check keys.
#![allow(dead_code)] // The schema is made from the types; no value of them is ever built.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema as schema};

use super::file_guards::GuardSetting;
use super::file_guards::GuardsFile;
use super::file_journal::JournalFile;
use super::file_seeds::{LoopPolicyFile, LoopPreventionFile, PhaseFile, ResilienceFile};

/// A count, or `off` (also `0`, `false`, null) for no limit.
pub(super) struct LimitValue;
/// A duration: `90s`, `10m`, `4h`, `1h30m`, a number of milliseconds, or `off` for no limit.
pub(super) struct DurationValue;
/// Dollars such as `2.50`, or `off` for no limit.
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
    "description": "A count, or off (also 0, false, null) for no limit.",
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
    "description": "Dollars such as 2.50, or off for no limit.",
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": "^(off|\\$?[0-9]+(\\.[0-9]+)?)$"},
        {"const": false},
        {"type": "null"}
    ]
});

/// A Flyball policy: which guards are on, with which limits, and what a trip does.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PolicyFile {
    /// The address of this schema, for editors.
    #[schemars(rename = "$schema")]
    pub(super) schema: Option<String>,
    /// The version of the file format.
    pub(super) version: Option<Version>,
    /// Where the values start from. Default: `workflow` for `run`, `agent` elsewhere.
    pub(super) preset: Option<PresetWord>,
    /// Limits on time, turns, tokens and cost.
    pub(super) budgets: Option<BudgetsFile>,
    /// The guards, each with a mode and its own keys, or just a mode.
    pub(super) guards: Option<GuardsFile>,
    /// Values of single nodes, by name.
    pub(super) nodes: Option<BTreeMap<String, NodeFile>>,
    /// Values of single edges, written `from->to`.
    pub(super) edges: Option<BTreeMap<String, EdgeFile>>,
    /// Values of single tools, by name.
    pub(super) tools: Option<BTreeMap<String, ToolFile>>,
    /// What happens when a loop makes no progress. Default: `switch_to_interactive`.
    pub(super) on_stall: Option<OnStallWord>,
    /// How much a person's release gives, and how often.
    pub(super) releases: Option<ReleasesFile>,
    /// How labels are named.
    pub(super) labels: Option<LabelsFile>,
    /// Whether a block is handed to a person with a label. Default: true.
    pub(super) escalate: Option<bool>,
    /// Whether a halt also emits the effect `notify`. Default: false.
    pub(super) notify: Option<bool>,
    /// What a hook answers when Flyball itself fails. Default: `reads`.
    pub(super) on_error: Option<OnErrorWord>,
    /// What is kept of a session, for how long, and where its effects go.
    pub(super) journal: Option<JournalFile>,
    /// Custom rules in CEL. A rule of a higher layer replaces the one of the same name.
    pub(super) rules: Option<Vec<RuleFile>>,
    /// The version of the decision rules that new sessions start under. Default: the latest.
    pub(super) rules_version: Option<RulesVersionNumber>,
    /// Loop prevention in phase workflows (seed 003).
    pub(super) loop_prevention: Option<LoopPreventionFile>,
    /// Phases with limits of their own (seed 003).
    pub(super) phases: Option<Vec<PhaseFile>>,
    /// Limits of single edges, written `fix->test: 8` (seed 003).
    pub(super) transition_limits: Option<BTreeMap<String, LimitValue>>,
    /// Resilience of a coding loop (seed 002).
    pub(super) resilience: Option<ResilienceFile>,
    /// Loop safety in a node graph (seed 004).
    pub(super) loop_policy: Option<LoopPolicyFile>,
}

/// The version of the file format: 1.
pub(super) struct Version;
value_schema!(Version, "Version", {"description": "The version of the file format.", "const": 1});

/// A version of the decision rules: 1 or 2.
pub(super) struct RulesVersionNumber;
value_schema!(RulesVersionNumber, "RulesVersion", {"description": "A version of the decision rules.", "enum": [1, 2]});

/// Where the values start from.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum PresetWord {
    /// A graph of nodes under a runner: everything on.
    Workflow,
    /// A tool-using agent on its own: no node, visit, transition-count or message limits.
    Agent,
    /// A short workflow: 5 visits a node, 3 uses of an edge.
    Simple,
    /// A long workflow: 15 visits a node, 8 uses of an edge.
    Complex,
    /// Lower limits everywhere.
    Strict,
    /// The limits of `agent`; nothing is stopped, everything is reported.
    Observe,
    /// All guards off. A guard that the policy configures is on.
    Off,
}

/// What happens when a loop makes no progress.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum OnStallWord {
    /// The session waits.
    Pause,
    /// A person takes over.
    SwitchToInteractive,
    /// A reviewing node is started.
    SpawnReviewer,
    /// The turn is tried with another provider.
    RetryWithNewProvider,
}

/// What a hook answers when Flyball itself fails.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum OnErrorWord {
    /// Every call runs.
    Allow,
    /// Calls that are known to be read-only run; every other call is refused.
    Reads,
    /// Every tool call is refused.
    Block,
}

/// What a tool does to the world.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum EffectWord {
    /// Reads only.
    Read,
    /// Changes something.
    Write,
    /// Waits for something: the same call again is normal.
    Poll,
    /// Cannot be undone: needs a confirmation.
    Destructive,
}

/// What a rule leads to.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum RuleWord {
    /// It is reported.
    Observe,
    /// The answer is `warn`.
    Warn,
    /// The answer is `block`.
    Block,
    /// The answer is `halt`.
    Halt,
}

/// Limits on time, turns, tokens and cost. `off` = no limit.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct BudgetsFile {
    /// What reaching a budget leads to. Default: `staged`.
    pub(super) mode: Option<super::file_guards::ModeWord>,
    /// From this share of a budget on the answer is `warn`. Default: 80.
    pub(super) warn_percent: Option<LimitValue>,
    /// The whole session.
    pub(super) session: Option<SessionFile>,
    /// One turn.
    pub(super) turn: Option<TurnFile>,
    /// One node.
    pub(super) node: Option<NodeBudgetFile>,
    /// One loop of the workflow.
    pub(super) r#loop: Option<LoopFile>,
    /// Everything that one user message sets off.
    pub(super) message: Option<MessageFile>,
}

/// The budget of a session.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct SessionFile {
    /// Active time. Default: 4h.
    pub(super) runtime: Option<DurationValue>,
    /// Time since the start, pauses included. Default: off.
    pub(super) wall: Option<DurationValue>,
    /// Turns. Default: off.
    pub(super) turns: Option<LimitValue>,
    /// Answers of the model; the calls of the next one are refused. Default: off.
    pub(super) iterations: Option<LimitValue>,
    /// Tokens in and out. Default: off.
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
    /// How long a turn may take. Default: 10m.
    pub(super) timeout: Option<DurationValue>,
    /// Tokens of one turn. Default: off.
    pub(super) tokens: Option<LimitValue>,
}

/// The budget of one node.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NodeBudgetFile {
    /// Turns of one node. Default: 6; inside a loop at least iterations + 1 unless written.
    pub(super) turns: Option<LimitValue>,
    /// Whether the limit also holds inside loops that the workflow declares; otherwise it is widened there to what
    /// the loop budget needs. Default: true if somebody wrote the limit, else false.
    pub(super) holds_in_loops: Option<bool>,
    /// Active time of one node. Default: off.
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

/// The budget of what one user message sets off.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct MessageFile {
    /// Transitions until the next message. Default: 25.
    pub(super) transitions: Option<LimitValue>,
    /// Tool calls until the next message. Default: off.
    pub(super) tool_calls: Option<LimitValue>,
}

/// Values of one node. Transitions have theirs at the edge.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NodeFile {
    /// Visits allowed: `visits.limit` of this node; at least 1, or off.
    pub(super) max_visits: Option<LimitValue>,
    /// Cycles through this node are intended. Default: false.
    pub(super) allow_cycles: Option<bool>,
    /// The only nodes that this one may lead to. Default: wherever the session's workflow leads.
    pub(super) allowed_destinations: Option<Vec<String>>,
    /// Turns of this node.
    pub(super) turns: Option<LimitValue>,
    /// Whether `turns` also holds inside loops that the workflow declares. Default: true if somebody wrote the limit,
    /// else false.
    pub(super) holds_in_loops: Option<bool>,
    /// Active time of this node.
    pub(super) runtime: Option<DurationValue>,
    /// The same call again and again.
    pub(super) repetition: Option<GuardSetting<super::file_guards::RepetitionFile>>,
    /// A block of calls or outputs that repeats.
    pub(super) cycle: Option<GuardSetting<super::file_cycles::NodeCycleFile>>,
    /// The same call with the same result, without a fixed period.
    pub(super) recurrence: Option<GuardSetting<super::file_guards::RecurrenceFile>>,
    /// Entries into this node.
    pub(super) visits: Option<GuardSetting<super::file_guards::VisitsFile>>,
    /// No progress: outputs, diffs, failing tests stay the same.
    pub(super) stall: Option<GuardSetting<super::file_guards::StallFile>>,
    /// A, B, A, B of outputs, diffs or states.
    pub(super) oscillation: Option<GuardSetting<super::file_guards::OscillationFile>>,
    /// The same error, or any error, again and again.
    pub(super) error_streak: Option<GuardSetting<super::file_guards::ErrorStreakFile>>,
    /// Answers of the model that cannot be read.
    pub(super) validation: Option<GuardSetting<super::file_guards::ValidationFile>>,
    /// Attempts of one operation, with backoff and a breaker.
    pub(super) retry: Option<GuardSetting<super::file_guards::RetryFile>>,
    /// Completion checks: tests, lint, build, checklist.
    pub(super) gate: Option<GuardSetting<super::file_guards::GateFile>>,
    /// A person's answer to a plan.
    pub(super) confirmation: Option<GuardSetting<super::file_guards::ConfirmationFile>>,
    /// The same question to a person.
    pub(super) question: Option<GuardSetting<super::file_guards::QuestionFile>>,
    /// A refused act asked again.
    pub(super) denial: Option<GuardSetting<super::file_guards::DenialFile>>,
    /// The same message, or chanting inside one message.
    pub(super) monologue: Option<GuardSetting<super::file_guards::MonologueFile>>,
    /// Outputs too large for the context.
    pub(super) large_response: Option<GuardSetting<super::file_guards::LargeResponseFile>>,
}

/// Values of one edge.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct EdgeFile {
    /// Uses of this edge: `transitions.limit`; at least 1, or off.
    pub(super) max_transitions: Option<LimitValue>,
    /// A block of transitions that repeats, as this edge would close it.
    pub(super) cycle: Option<GuardSetting<super::file_cycles::EdgeCycleFile>>,
    /// Transitions that the declared workflow does not have.
    pub(super) workflow: Option<GuardSetting<super::file_guards::DeclaredWorkflowFile>>,
    /// Uses of this edge.
    pub(super) transitions: Option<GuardSetting<super::file_guards::TransitionsFile>>,
}

/// Values of one tool.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ToolFile {
    /// What a call does to the world.
    pub(super) effect: Option<EffectWord>,
    /// The same call again and again.
    pub(super) repetition: Option<GuardSetting<super::file_guards::RepetitionFile>>,
    /// A block of calls that repeats.
    pub(super) cycle: Option<GuardSetting<super::file_cycles::ToolCycleFile>>,
    /// The same call with the same result, without a fixed period.
    pub(super) recurrence: Option<GuardSetting<super::file_guards::RecurrenceFile>>,
    /// The same error, or any error, again and again.
    pub(super) error_streak: Option<GuardSetting<super::file_guards::ErrorStreakFile>>,
    /// A step of a plan that was not approved.
    pub(super) confirmation: Option<GuardSetting<super::file_guards::ModeFile>>,
    /// A refused act asked again.
    pub(super) denial: Option<GuardSetting<super::file_guards::DenialFile>>,
    /// Outputs too large for the context.
    pub(super) large_response: Option<GuardSetting<super::file_guards::LargeResponseFile>>,
}

/// How much a person's release gives.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ReleasesFile {
    /// Acts that a `grant` allows when it names no number. Default: 3.
    pub(super) grant: Option<u64>,
    /// Releases of one guard in one session; after that the next trip is a halt. Default: 5.
    pub(super) ceiling: Option<u64>,
}

/// How labels are named.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LabelsFile {
    /// What every label starts with. Default: `flyball-`; `ashep-` in a policy with `loop_prevention`.
    pub(super) prefix: Option<String>,
}

/// A custom rule.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct RuleFile {
    /// The rule's name; one name, one rule.
    pub(super) name: String,
    /// The condition in CEL, over `event` and `session`, at most 1000 characters.
    pub(super) when: String,
    /// What follows when the condition holds. Default: `block`.
    pub(super) decision: Option<RuleWord>,
    /// What the model and the person are told, at most 300 characters.
    pub(super) message: Option<String>,
}

/// The JSON schema of a policy file, as pretty text that ends with a line break.
///
/// The text is the same on every machine; `docs/policy.schema.json` holds it.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(PolicyFile);
    let mut text = serde_json::to_string_pretty(&sorted(schema.as_value())).unwrap_or_default();
    text.push('\n');
    text
}

/// The same value with sorted keys, whatever order the map type keeps.
fn sorted(value: &serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(map) => {
            let by_name: BTreeMap<&String, serde_json::Value> =
                map.iter().map(|(k, v)| (k, sorted(v))).collect();
            by_name.into_iter().map(|(k, v)| (k.clone(), v)).collect()
        }
        serde_json::Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
