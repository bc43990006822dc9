//! Schema types of the compatibility sections (`loop_prevention`, `phases`, `resilience`, `loop_policy`).
#![allow(dead_code)] // Only the schema is derived from these types; they are never constructed.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::OnStallAction;
use super::schema_values::{CostValue, DurationValue, LimitValue};

/// Loop prevention for phase workflows, as in Agent Shepherd.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LoopPreventionFile {
    /// Master switch: false disables visits, transitions and transition cycles.
    pub(super) enabled: Option<bool>,
    /// Same as `guards.visits.limit`: at least 1, or off.
    pub(super) max_visits_default: Option<LimitValue>,
    /// Same as `guards.transitions.limit`: at least 1, or off.
    pub(super) max_transitions_default: Option<LimitValue>,
    /// False disables the detection of transition cycles.
    pub(super) cycle_detection_enabled: Option<bool>,
    /// Same as `guards.cycle.transitions.suffix_length`, 2 to 10: the number of transitions that must recur. A longer
    /// suffix is less sensitive. It turns off the periodic rule and the limit on self-transitions, unless those are set
    /// explicitly.
    pub(super) cycle_detection_length: Option<u64>,
    /// Same as `escalate`.
    pub(super) trigger_hitl: Option<bool>,
    /// Limits for individual edges, written `fix->test: 8`.
    pub(super) transition_limits: Option<BTreeMap<String, LimitValue>>,
}

/// A phase with its own limits, as in Agent Shepherd.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PhaseFile {
    /// Name of the phase, which is also the name of its node.
    pub(super) name: String,
    /// Visits allowed: at least 1, or off.
    pub(super) max_visits: Option<LimitValue>,
    /// Whether cycles through this phase are intended.
    pub(super) allow_cycles: Option<bool>,
    /// Next phases. No others are allowed (`nodes.NAME.allowed_destinations`).
    pub(super) transitions: Option<PhaseTransitionsFile>,
}

/// Next phases by the outcome of a phase.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct PhaseTransitionsFile {
    /// Next phase after a success.
    pub(super) on_success: Option<PhaseTransitionFile>,
    /// Next phase after a failure.
    pub(super) on_failure: Option<PhaseTransitionFile>,
    /// Next phase after a partial success.
    pub(super) on_partial_success: Option<PhaseTransitionFile>,
    /// Next phase if the outcome is unclear.
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
    /// Who decides: a name chosen by the caller, shown by `flyball check`.
    pub(super) capability: Option<String>,
    /// The caller's prompt for that decision, shown by `flyball check`.
    pub(super) prompt: Option<String>,
    /// The phases to choose from.
    pub(super) allowed_destinations: Vec<String>,
}

/// Resilience settings for a coding loop, as in Dex.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ResilienceFile {
    /// Same as `budgets.session.runtime`.
    pub(super) max_runtime: Option<DurationValue>,
    /// Same as `guards.repetition.limit`.
    pub(super) max_consecutive_repetitions: Option<LimitValue>,
    /// Same as `guards.validation.limit`.
    pub(super) max_consecutive_validation_failures: Option<LimitValue>,
    /// Same as `guards.large_response.threshold`.
    pub(super) large_response_threshold: Option<LimitValue>,
    /// Same as `guards.gate.backpressure`.
    pub(super) enable_backpressure: Option<bool>,
    /// Same as `guards.gate.dependencies`.
    pub(super) gate_dependencies: Option<Vec<String>>,
}

/// Loop safety settings for a node graph, as in vuhlp.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LoopPolicyFile {
    /// Same as `budgets.turn.timeout`.
    #[schemars(rename = "turnTimeoutMs")]
    pub(super) turn_timeout_ms: Option<DurationValue>,
    /// Same as `budgets.turn.tokens`.
    #[schemars(rename = "maxTokens")]
    pub(super) max_tokens: Option<LimitValue>,
    /// Same as `budgets.node.turns`.
    #[schemars(rename = "maxTurnsPerNode")]
    pub(super) max_turns_per_node: Option<LimitValue>,
    /// Same as `budgets.node.runtime`.
    #[schemars(rename = "maxRuntimeMsPerNode")]
    pub(super) max_runtime_ms_per_node: Option<DurationValue>,
    /// Same as `budgets.loop.iterations`.
    #[schemars(rename = "maxCycleIterations")]
    pub(super) max_cycle_iterations: Option<LimitValue>,
    /// Same as `budgets.loop.runtime`.
    #[schemars(rename = "maxCycleRuntimeMs")]
    pub(super) max_cycle_runtime_ms: Option<DurationValue>,
    /// Same as `budgets.loop.cost_usd`.
    #[schemars(rename = "maxCycleCost")]
    pub(super) max_cycle_cost: Option<CostValue>,
    /// Same as `on_stall`.
    #[schemars(rename = "onStall")]
    pub(super) on_stall: Option<OnStallAction>,
}
