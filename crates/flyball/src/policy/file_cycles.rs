//! The cycle guard of a policy file as it is written: for everything, and for one node, edge or tool.
#![allow(dead_code)] // The schema is made from the types; no value of them is ever built.

use schemars::JsonSchema;

use super::file::LimitValue;
use super::file_guards::ModeWord;

/// One block of acts that repeats.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct CycleFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Cycles of (call, result) pairs.
    pub(super) calls: Option<DetectorSetting<PeriodsFile>>,
    /// Cycles of transitions between nodes.
    pub(super) transitions: Option<DetectorSetting<TransitionCyclesFile>>,
    /// Cycles of outputs.
    pub(super) outputs: Option<DetectorSetting<PeriodsFile>>,
    /// The block with this number is a halt. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// Blocks of calls and outputs that repeat, for one node.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NodeCycleFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Cycles of (call, result) pairs.
    pub(super) calls: Option<DetectorSetting<PeriodsFile>>,
    /// Cycles of outputs.
    pub(super) outputs: Option<DetectorSetting<PeriodsFile>>,
    /// The block with this number is a halt. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// Blocks of transitions that repeat, for one edge.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct EdgeCycleFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Cycles of transitions between nodes.
    pub(super) transitions: Option<DetectorSetting<TransitionCyclesFile>>,
}

/// Blocks of calls that repeat, for one tool.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ToolCycleFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Cycles of (call, result) pairs.
    pub(super) calls: Option<DetectorSetting<PeriodsFile>>,
    /// The block with this number is a halt. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// A detector: its keys, or off.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum DetectorSetting<T> {
    /// The detector's keys.
    Keys(T),
    /// Off.
    Off(OffWord),
    /// False is off.
    Switch(bool),
    /// Nothing written: no change.
    Nothing(()),
}

/// Off.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum OffWord {
    /// Off.
    Off,
}

/// Which periods a cycle detector looks for.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PeriodsFile {
    /// The longest block looked for, 1 to 64. Default: 64.
    pub(super) max_period: Option<LimitValue>,
    /// Passes of the block that make a cycle, 2 to 20. Default: 3.
    pub(super) repeats: Option<u64>,
}

/// Cycles of transitions.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct TransitionCyclesFile {
    /// The longest block looked for, 2 to 64. Default: 10; off under `loop_prevention`, whose rule is the recurring
    /// suffix alone.
    pub(super) max_period: Option<LimitValue>,
    /// Passes of the block that make a cycle, 2 to 20. Default: 3.
    pub(super) repeats: Option<u64>,
    /// Length of the recurring-suffix rule, 2 to 10. Default: 3.
    pub(super) suffix_length: Option<LimitValue>,
    /// Self-transitions in a row that may run. Default: 5. `off`: the other rules see self-transitions like any other
    /// transition, as under `loop_prevention`.
    pub(super) self_loop: Option<LimitValue>,
    /// Transitions that reports and evidence show, 1 to 64. Default: 10. The rules look back at as many as they need.
    pub(super) max_history: Option<u64>,
    /// Also look inside loops that the workflow declares. Default: false, except in `simple`, `complex` and under
    /// `loop_prevention`.
    pub(super) declared_loops: Option<bool>,
}
