//! The seeds' sections of a policy file as they are written, for the JSON schema.
#![allow(dead_code)] // The schema is made from the types; no value of them is ever built.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::file::{CostValue, DurationValue, LimitValue, OnStallWord};

/// Loop prevention in phase workflows (seed 003).
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LoopPreventionFile {
    /// The master switch: false switches visits, transitions and cycles of transitions off.
    pub(super) enabled: Option<bool>,
    /// `guards.visits.limit`; at least 1, or off.
    pub(super) max_visits_default: Option<LimitValue>,
    /// `guards.transitions.limit`; at least 1, or off.
    pub(super) max_transitions_default: Option<LimitValue>,
    /// False switches cycles of transitions off.
    pub(super) cycle_detection_enabled: Option<bool>,
    /// `guards.cycle.transitions.suffix_length`, 2 to 10: how many transitions have to recur. A longer one is less
    /// sensitive. The periodic rule and the limit on self-transitions are off beside it, unless written.
    pub(super) cycle_detection_length: Option<u64>,
    /// `escalate`.
    pub(super) trigger_hitl: Option<bool>,
    /// Limits of single edges, written `fix->test: 8`.
    pub(super) transition_limits: Option<BTreeMap<String, LimitValue>>,
}

/// A phase with limits of its own (seed 003).
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PhaseFile {
    /// The phase's name: the node `name`.
    pub(super) name: String,
    /// Visits allowed; at least 1, or off.
    pub(super) max_visits: Option<LimitValue>,
    /// Cycles through this phase are intended.
    pub(super) allow_cycles: Option<bool>,
    /// Where the phase leads. What it names is all that is allowed: `nodes.NAME.allowed_destinations`.
    pub(super) transitions: Option<PhaseTransitionsFile>,
}

/// Where a phase leads, by how it ended.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PhaseTransitionsFile {
    /// After a success.
    pub(super) on_success: Option<PhaseTransitionFile>,
    /// After a failure.
    pub(super) on_failure: Option<PhaseTransitionFile>,
    /// After a partial success.
    pub(super) on_partial_success: Option<PhaseTransitionFile>,
    /// If the result is unclear.
    pub(super) on_unclear: Option<PhaseTransitionFile>,
}

/// One phase, or a decision between several.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum PhaseTransitionFile {
    /// The next phase.
    Phase(String),
    /// A decision between several phases.
    Decision(PhaseDecisionFile),
}

/// A transition that is decided when the phase ends.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PhaseDecisionFile {
    /// Who decides: the caller's own name for it, shown by `flyball check`.
    pub(super) capability: Option<String>,
    /// What whoever decides is asked: the caller's own, shown by `flyball check`.
    pub(super) prompt: Option<String>,
    /// The phases that it may lead to.
    pub(super) allowed_destinations: Vec<String>,
}

/// Resilience of a coding loop (seed 002).
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ResilienceFile {
    /// `budgets.session.runtime`.
    pub(super) max_runtime: Option<DurationValue>,
    /// `guards.repetition.limit`.
    pub(super) max_consecutive_repetitions: Option<LimitValue>,
    /// `guards.validation.limit`.
    pub(super) max_consecutive_validation_failures: Option<LimitValue>,
    /// `guards.large_response.threshold`.
    pub(super) large_response_threshold: Option<LimitValue>,
    /// `guards.gate.backpressure`.
    pub(super) enable_backpressure: Option<bool>,
    /// `guards.gate.dependencies`.
    pub(super) gate_dependencies: Option<Vec<String>>,
}

/// Loop safety in a node graph (seed 004).
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LoopPolicyFile {
    /// `budgets.turn.timeout`.
    #[schemars(rename = "turnTimeoutMs")]
    pub(super) turn_timeout_ms: Option<DurationValue>,
    /// `budgets.turn.tokens`.
    #[schemars(rename = "maxTokens")]
    pub(super) max_tokens: Option<LimitValue>,
    /// `budgets.node.turns`.
    #[schemars(rename = "maxTurnsPerNode")]
    pub(super) max_turns_per_node: Option<LimitValue>,
    /// `budgets.node.runtime`.
    #[schemars(rename = "maxRuntimeMsPerNode")]
    pub(super) max_runtime_ms_per_node: Option<DurationValue>,
    /// `budgets.loop.iterations`.
    #[schemars(rename = "maxCycleIterations")]
    pub(super) max_cycle_iterations: Option<LimitValue>,
    /// `budgets.loop.runtime`.
    #[schemars(rename = "maxCycleRuntimeMs")]
    pub(super) max_cycle_runtime_ms: Option<DurationValue>,
    /// `budgets.loop.cost_usd`.
    #[schemars(rename = "maxCycleCost")]
    pub(super) max_cycle_cost: Option<CostValue>,
    /// `on_stall`.
    #[schemars(rename = "onStall")]
    pub(super) on_stall: Option<OnStallWord>,
}
