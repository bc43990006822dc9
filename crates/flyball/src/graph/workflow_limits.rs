//! Limits on a run through a workflow, as input to the worst-case bounds. `None` always means no limit.

use super::{Workflow, find_loops};
use crate::policy::{GuardMode, Policy};
use std::collections::{BTreeMap, BTreeSet};

/// Limits that stop a run without human intervention. Every number is a capacity: that many acts are allowed, the next
/// is denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkflowLimits {
    /// Visit limits of individual nodes; `Some(None)` = no limit for this node.
    pub visits: BTreeMap<String, Option<u64>>,
    /// Visit limit of all other nodes. Accepted transitions into a node and retries on it both count.
    pub default_visits: Option<u64>,
    /// Transition limits by (from, to); parallel edges share one.
    pub transitions: BTreeMap<(String, String), Option<u64>>,
    /// Transition limit of all other pairs of nodes.
    pub default_transitions: Option<u64>,
    /// Limit on accepted transitions in the session.
    pub total_transitions: Option<u64>,
    /// Limit on accepted transitions per user message; a run here is one message long.
    pub message_transitions: Option<u64>,
    /// Turn limits of individual nodes; `Some(None)` = no limit for this node.
    pub node_turns: BTreeMap<String, Option<u64>>,
    /// Nodes without turns: routers, joins, ends. A transition into one still counts as a visit; a run that starts on
    /// one does not start with a visit.
    pub nodes_without_turns: BTreeSet<String>,
    /// Turn limit of all other nodes. A node inside a loop gets at least one more than `loop_iterations`; otherwise the
    /// iterations could never be used up.
    pub default_node_turns: Option<u64>,
    /// Limit on accepted transitions over the anchors of each loop, including inner ones.
    pub loop_iterations: Option<u64>,
    /// Limit on turns in the session.
    pub session_turns: Option<u64>,
    /// Limit on the total turn time of the session, in milliseconds; checked before a turn starts.
    pub session_runtime_ms: Option<u64>,
    /// Turn timeout, in milliseconds.
    pub turn_timeout_ms: Option<u64>,
    /// Limit on the total turn time of one node, in milliseconds; checked before a turn starts.
    pub node_runtime_ms: Option<u64>,
    /// Limit on the total turn time of one loop, in milliseconds.
    pub loop_runtime_ms: Option<u64>,
    /// Cost limit of the session, in micro-dollars; checked before a turn starts.
    pub session_cost_micro_usd: Option<u64>,
    /// Cost limit of one loop, in micro-dollars.
    pub loop_cost_micro_usd: Option<u64>,
    /// The cycle rule. Leave it out if some nodes or edges are exempt: the bounds then hold for them too.
    pub cycle: Option<CycleRule>,
}

/// The rule that denies a transition when the trail repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleRule {
    /// Longest block of transitions to detect, from 2 on; `None` = off.
    pub max_period: Option<u64>,
    /// Number of consecutive repetitions that make a cycle; below 2 = off.
    pub repeats: u64,
    /// Number of trailing transitions that must not occur earlier, without overlap, within the last max(10, three times
    /// as many); `None` = off.
    pub suffix_length: Option<u64>,
    /// Maximum number of times a self-edge may be taken in a row; `None` = self-edges are treated like any transition.
    pub self_loop: Option<u64>,
}

/// One transition as (from, to), by node number.
pub(super) type TrailStep = (usize, usize);

impl CycleRule {
    /// Whether the newest transition of `trail` is denied.
    pub(super) fn refuses(&self, trail: &[TrailStep]) -> bool {
        self.too_many_self_edges(trail) || self.has_periodic_tail(trail) || self.suffix_recurs(trail)
    }

    fn too_many_self_edges(&self, trail: &[TrailStep]) -> bool {
        let (Some(limit), Some(&last)) = (self.self_loop, trail.last()) else {
            return false;
        };
        let run = trail.iter().rev().take_while(|&&step| step == last).count();
        last.0 == last.1 && run as u64 > limit
    }

    fn has_periodic_tail(&self, trail: &[TrailStep]) -> bool {
        let Some(max_period) = self.max_period else {
            return false;
        };
        if self.repeats < 2 {
            return false;
        }
        let longest = max_period.min(trail.len() as u64 / self.repeats);
        (2..=longest).any(|period| {
            // Both fit: period * repeats is at most the length of the trail.
            let (period, all) = (period as usize, (period * self.repeats) as usize);
            let Some(tail) = trail.len().checked_sub(all).and_then(|at| trail.get(at..)) else {
                return false;
            };
            let shifted = tail.get(period..).unwrap_or_default();
            !is_single_self_edge(tail) && shifted.iter().rev().eq(tail.iter().rev().skip(period))
        })
    }

    fn suffix_recurs(&self, trail: &[TrailStep]) -> bool {
        let Some(length) = self.suffix_length.and_then(|l| usize::try_from(l).ok()) else {
            return false;
        };
        let Some(at) = trail.len().checked_sub(length).filter(|_| length > 0) else {
            return false;
        };
        let (before, suffix) = trail.split_at(at);
        let window = length.saturating_mul(3).max(10) - length;
        let from = before.len().saturating_sub(window);
        let earlier = before.get(from..).unwrap_or_default();
        // A run of one self-edge is left to `self_loop`, if that is on.
        let own_class = |run_from: usize| {
            self.self_loop.is_some() && trail.get(run_from..).is_some_and(is_single_self_edge)
        };
        earlier.windows(length).enumerate().any(|(at, run)| run == suffix && !own_class(from + at))
    }
}

/// Whether all steps are the same self-edge. (Any other transition cannot follow itself.)
fn is_single_self_edge(steps: &[TrailStep]) -> bool {
    steps.first().is_some_and(|first| first.0 == first.1 && steps.iter().all(|step| step == first))
}

impl WorkflowLimits {
    /// The limits that a policy sets on runs through a workflow. A guard that only observes or warns stops nothing, so
    /// its limit does not count here.
    #[must_use]
    pub fn from_policy(policy: &Policy, workflow: &Workflow) -> Self {
        let found = find_loops(workflow);
        let budgets = &policy.budgets;
        let stops = |mode: GuardMode| matches!(mode, GuardMode::Block | GuardMode::Halt | GuardMode::Staged);
        let budget = |limit: Option<u64>| limit.filter(|_| stops(budgets.mode));
        let iterations = budget(budgets.loops.iterations);
        let together = |from: &str, to: &str| {
            found
                .iter()
                .any(|l| l.nodes.iter().any(|node| node == from) && l.nodes.iter().any(|node| node == to))
        };
        let visits = workflow.nodes.iter().map(|node| {
            let visits = &policy.guards_for_node(node).visits;
            let limit = if together(node, node) {
                visits.limit_in_loop(budgets.loops.iterations)
            } else {
                visits.limit
            };
            (node.clone(), limit.filter(|_| stops(visits.mode)))
        });
        let transitions = workflow.edges.iter().map(|edge| {
            let guard = &policy.guards_for_edge(&edge.from, &edge.to).transitions;
            let inside = together(&edge.from, &edge.to);
            let limit = if inside { guard.limit_in_loop(budgets.loops.iterations) } else { guard.limit };
            ((edge.from.clone(), edge.to.clone()), limit.filter(|_| stops(guard.mode)))
        });
        let node_turns = workflow.nodes.iter().map(|node| {
            let own = policy.budget_for_node(node);
            let turns =
                if together(node, node) { own.turns_in_loop(budgets.loops.iterations) } else { own.turns };
            (node.clone(), budget(turns))
        });
        let guards = &policy.guards;
        WorkflowLimits {
            visits: visits.collect(),
            transitions: transitions.collect(),
            node_turns: node_turns.collect(),
            total_transitions: guards.transitions.total.filter(|_| stops(guards.transitions.mode)),
            message_transitions: budget(budgets.message.transitions),
            loop_iterations: iterations,
            session_turns: budget(budgets.session.turns),
            session_runtime_ms: budget(budgets.session.runtime_ms),
            turn_timeout_ms: budget(budgets.turn.timeout_ms),
            node_runtime_ms: budget(budgets.node.runtime_ms),
            loop_runtime_ms: budget(budgets.loops.runtime_ms),
            session_cost_micro_usd: budget(budgets.session.cost_micro_usd),
            loop_cost_micro_usd: budget(budgets.loops.cost_micro_usd),
            cycle: cycle_rule(policy, workflow).filter(|_| stops(guards.cycle.mode)),
            ..WorkflowLimits::default()
        }
    }
}

/// The cycle rule, if it applies to every transition of the workflow.
fn cycle_rule(policy: &Policy, workflow: &Workflow) -> Option<CycleRule> {
    let rule = &policy.guards.cycle.transitions;
    let exempt = workflow.nodes.iter().any(|node| policy.node(node).is_some_and(|node| node.allow_cycles));
    let special = workflow
        .edges
        .iter()
        .any(|edge| policy.guards_for_edge(&edge.from, &edge.to).cycle != policy.guards.cycle);
    // Loops of the workflow are declared loops; unless the rule covers them, it never denies anything.
    (rule.declared_loops && !exempt && !special).then_some(CycleRule {
        max_period: rule.max_period,
        repeats: rule.repeats,
        suffix_length: rule.suffix_length,
        self_loop: rule.self_loop,
    })
}
