//! Schema types of the cycle guard: in general, and for one node, edge or tool.
#![allow(dead_code)] // Only the schema is derived from these types; they are never constructed.

use schemars::JsonSchema;

use super::schema::LimitValue;
use super::schema_guards::ModeValue;

/// A repeating sequence of actions.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct CycleFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Cycles of (call, result) pairs.
    pub(super) calls: Option<DetectorSetting<PeriodsFile>>,
    /// Cycles of transitions between nodes.
    pub(super) transitions: Option<DetectorSetting<TransitionCyclesFile>>,
    /// Cycles of outputs.
    pub(super) outputs: Option<DetectorSetting<PeriodsFile>>,
    /// The Nth block halts the session. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// Repeating sequences of calls and outputs, for one node.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NodeCycleFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Cycles of (call, result) pairs.
    pub(super) calls: Option<DetectorSetting<PeriodsFile>>,
    /// Cycles of outputs.
    pub(super) outputs: Option<DetectorSetting<PeriodsFile>>,
    /// The Nth block halts the session. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// Repeating sequences of transitions, for one edge.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct EdgeCycleFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Cycles of transitions between nodes.
    pub(super) transitions: Option<DetectorSetting<TransitionCyclesFile>>,
}

/// Repeating sequences of calls, for one tool.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ToolCycleFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Cycles of (call, result) pairs.
    pub(super) calls: Option<DetectorSetting<PeriodsFile>>,
    /// The Nth block halts the session. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// A detector: its keys, or `off`.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum DetectorSetting<T> {
    /// The detector's keys.
    Keys(T),
    /// Off.
    Off(OffWord),
    /// `false` means off.
    Switch(bool),
    /// An empty value changes nothing.
    Nothing(()),
}

/// Off.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum OffWord {
    /// Off.
    Off,
}

/// Periods that a cycle detector looks for.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PeriodsFile {
    /// Longest sequence to look for, 1 to 64. Default: 64.
    pub(super) max_period: Option<LimitValue>,
    /// Repeats of the sequence that count as a cycle, 2 to 20. Default: 3.
    pub(super) repeats: Option<u64>,
}

/// Detection of transition cycles.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct TransitionCyclesFile {
    /// Longest sequence to look for, 2 to 64. Default: 10; off under `loop_prevention`, which uses only the recurring
    /// suffix.
    pub(super) max_period: Option<LimitValue>,
    /// Repeats of the sequence that count as a cycle, 2 to 20. Default: 3.
    pub(super) repeats: Option<u64>,
    /// Length of the recurring suffix, 2 to 10. Default: 3.
    pub(super) suffix_length: Option<LimitValue>,
    /// Consecutive self-transitions allowed. Default: 5. With `off`, self-transitions count like any other transition,
    /// as under `loop_prevention`.
    pub(super) self_loop: Option<LimitValue>,
    /// Transitions shown in reports and evidence, 1 to 64. Default: 10. Detection looks back as far as it needs.
    pub(super) max_history: Option<u64>,
    /// Whether to also look inside loops that the workflow declares. Default: false, except in `simple`, `complex` and
    /// under `loop_prevention`.
    pub(super) declared_loops: Option<bool>,
}
