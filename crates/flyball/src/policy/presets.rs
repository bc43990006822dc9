//! The seven presets: where a policy starts before anybody changes a value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rules_version::RulesVersion;

use super::guards::{HOUR_MS, Limit, MINUTE_MS};
use super::{Budgets, Guards, JournalPolicy, Labels, Mode, OnError, OnStall, Policy, Releases, resolve};

/// A named starting point for a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// A graph of nodes under a runner: everything on.
    #[default]
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

impl Preset {
    /// All presets, in the order the documentation lists them.
    pub const ALL: [Preset; 7] = [
        Preset::Workflow,
        Preset::Agent,
        Preset::Simple,
        Preset::Complex,
        Preset::Strict,
        Preset::Observe,
        Preset::Off,
    ];

    /// The preset that a word in a policy file stands for.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.as_str() == word)
    }

    /// The word for this preset in a policy file.
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
    /// The policy that a preset stands for, before any change.
    pub fn preset(preset: Preset) -> Policy {
        let mut policy = Policy {
            preset,
            budgets: Budgets::default(),
            guards: Guards::default(),
            nodes: BTreeMap::new(),
            edges: BTreeMap::new(),
            tools: BTreeMap::new(),
            on_stall: OnStall::default(),
            releases: Releases::default(),
            labels: Labels::default(),
            escalate: true,
            notify: false,
            on_error: OnError::default(),
            journal: JournalPolicy::default(),
            rules: Vec::new(),
            rules_version: RulesVersion::LATEST,
            digest: String::new(),
        };
        match preset {
            Preset::Workflow => {}
            Preset::Agent => agent(&mut policy),
            Preset::Simple => visits(&mut policy, 5, 3),
            Preset::Complex => visits(&mut policy, 15, 8),
            Preset::Strict => strict(&mut policy),
            Preset::Observe => {
                agent(&mut policy);
                policy.guards.set_all(Mode::Observe);
                policy.budgets.mode = Mode::Observe;
            }
            Preset::Off => off(&mut policy),
        }
        resolve::seal(&mut policy);
        policy
    }
}

fn visits(policy: &mut Policy, visits: u64, transitions: u64) {
    policy.guards.visits.limit = Some(visits);
    policy.guards.visits.limit_set = true;
    policy.guards.transitions.limit = Some(transitions);
    policy.guards.transitions.limit_set = true;
    policy.guards.cycle.transitions.declared_loops = true;
}

/// An agent on its own has no graph, so limits that count its nodes would only
/// punish long sessions.
fn agent(policy: &mut Policy) {
    policy.budgets.node.turns = None;
    policy.budgets.message.transitions = None;
    policy.guards.visits.limit = None;
    policy.guards.transitions.limit = None;
    policy.guards.stall.turns = None;
}

/// No limit, rather than a limit that is not enforced: a budget that the operator
/// then writes is the only one that counts.
fn off(policy: &mut Policy) {
    policy.guards.set_all(Mode::Off);
    let budgets = &mut policy.budgets;
    budgets.session.runtime_ms = None;
    budgets.turn.timeout_ms = None;
    budgets.node.turns = None;
    budgets.loops.iterations = None;
    budgets.message.transitions = None;
}

/// Half of each default, never below 2.
fn strict(policy: &mut Policy) {
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
