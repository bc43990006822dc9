//! The seven presets: the values of a policy before any changes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rules_version::RulesVersion;

use super::guard_policies::{HOUR_MS, Limit, MINUTE_MS};
use super::{
    Budgets, GuardMode, GuardPolicies, JournalPolicy, LabelPolicy, OnErrorAction, OnStallAction, Policy,
    ReleasePolicy, resolve,
};

/// A named starting point for a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// A graph of nodes under a runner: all guards on.
    #[default]
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

impl Preset {
    /// All presets, in the order of the documentation.
    pub const ALL: [Preset; 7] = [
        Preset::Workflow,
        Preset::Agent,
        Preset::Simple,
        Preset::Complex,
        Preset::Strict,
        Preset::Observe,
        Preset::Off,
    ];

    /// The preset with this name in a policy file.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.as_str() == word)
    }

    /// The name of this preset in a policy file.
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Workflow => "workflow",
            Preset::Agent => "agent",
            Preset::Simple => "simple",
            Preset::Complex => "complex",
            Preset::Strict => "strict",
            Preset::Observe => "observe",
            Preset::Off => "off",
        }
    }
}

impl Policy {
    /// The policy of a preset, before any changes.
    pub fn preset(preset: Preset) -> Policy {
        let mut policy = Policy {
            preset,
            budgets: Budgets::default(),
            guards: GuardPolicies::default(),
            nodes: BTreeMap::new(),
            edges: BTreeMap::new(),
            tools: BTreeMap::new(),
            on_stall: OnStallAction::default(),
            releases: ReleasePolicy::default(),
            labels: LabelPolicy::default(),
            escalate: true,
            notify: false,
            on_error: OnErrorAction::default(),
            journal: JournalPolicy::default(),
            rules: Vec::new(),
            rules_version: RulesVersion::LATEST,
            digest: String::new(),
        };
        match preset {
            Preset::Workflow => {}
            Preset::Agent => apply_agent(&mut policy),
            Preset::Simple => apply_visit_limits(&mut policy, 5, 3),
            Preset::Complex => apply_visit_limits(&mut policy, 15, 8),
            Preset::Strict => apply_strict(&mut policy),
            Preset::Observe => {
                apply_agent(&mut policy);
                policy.guards.set_all(GuardMode::Observe);
                policy.budgets.mode = GuardMode::Observe;
            }
            Preset::Off => apply_off(&mut policy),
        }
        resolve::compute_digest(&mut policy);
        policy
    }
}

fn apply_visit_limits(policy: &mut Policy, visits: u64, transitions: u64) {
    policy.guards.visits.limit = Some(visits);
    policy.guards.visits.limit_set = true;
    policy.guards.transitions.limit = Some(transitions);
    policy.guards.transitions.limit_set = true;
    policy.guards.cycle.transitions.declared_loops = true;
}

/// A standalone agent has no graph, so limits on nodes would only penalize long sessions.
fn apply_agent(policy: &mut Policy) {
    policy.budgets.node.turns = None;
    policy.budgets.message.transitions = None;
    policy.guards.visits.limit = None;
    policy.guards.transitions.limit = None;
    policy.guards.stall.turns = None;
}

/// Removes the budgets instead of only not enforcing them, so that a budget the operator sets is the only one.
fn apply_off(policy: &mut Policy) {
    policy.guards.set_all(GuardMode::Off);
    let budgets = &mut policy.budgets;
    budgets.session.runtime_ms = None;
    budgets.turn.timeout_ms = None;
    budgets.node.turns = None;
    budgets.loops.iterations = None;
    budgets.message.transitions = None;
}

/// Half of each default, but at least 2.
fn apply_strict(policy: &mut Policy) {
    let budgets = &mut policy.budgets;
    budgets.session.runtime_ms = Some(2 * HOUR_MS);
    budgets.turn.timeout_ms = Some(5 * MINUTE_MS);
    budgets.node.turns = Some(4);
    budgets.loops.iterations = Some(4);
    budgets.message.transitions = Some(12);
    let guards = &mut policy.guards;
    halve([
        &mut guards.repetition.limit,
        &mut guards.repetition.blocks,
        &mut guards.repetition.poll_limit,
        &mut guards.cycle.blocks,
        &mut guards.cycle.transitions.self_loop,
        &mut guards.recurrence.limit,
        &mut guards.recurrence.stale,
        &mut guards.recurrence.drift,
        &mut guards.recurrence.blocks,
        &mut guards.workflow.blocks,
        &mut guards.visits.limit,
        &mut guards.transitions.limit,
        &mut guards.stall.output,
        &mut guards.stall.structured,
        &mut guards.stall.failures,
        &mut guards.stall.turns,
        &mut guards.error_streak.any,
        &mut guards.error_streak.blocks,
        &mut guards.validation.limit,
        &mut guards.retry.limits.limit,
        &mut guards.retry.limits.trips,
        &mut guards.gate.attempts,
        &mut guards.gate.item_blocks,
        &mut guards.gate.same_failure,
        &mut guards.confirmation.unclear,
        &mut guards.confirmation.aborts,
        &mut guards.question.limit,
        &mut guards.denial.consecutive,
        &mut guards.denial.total,
        &mut guards.monologue.limit,
        &mut guards.monologue.chant,
        &mut guards.large_response.threshold,
    ]);
    guards.repetition.warn_at = Some(2);
    guards.cycle.calls.repeats = 2;
    guards.cycle.outputs.repeats = 2;
    guards.cycle.transitions.repeats = 2;
    guards.error_streak.same_error = Some(3);
    guards.error_streak.warn_at = Some(2);
    guards.error_streak.rate_percent = Some(60);
    guards.retry.limits.cooldown_ms = 2 * MINUTE_MS;
    guards.confirmation.ttl_ms = Some(HOUR_MS / 2);
}

fn halve<const N: usize>(limits: [&mut Limit; N]) {
    for limit in limits {
        *limit = limit.map(|n| n.div_ceil(2).max(2));
    }
}
