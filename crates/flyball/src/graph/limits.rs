//! The limits that a run through a workflow is held to, in the form the worst-case bounds
//! are computed from. `None` always means: no such limit.

use super::{Workflow, loops};
use crate::policy::{Mode, Policy};
use std::collections::{BTreeMap, BTreeSet};

/// What stops a run when no person acts. Every number is a capacity: so many acts are
/// allowed, the next is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Visits of single nodes; `Some(None)` = this node has no limit.
    pub visits: BTreeMap<String, Option<u64>>,
    /// Visits of every other node. An accepted transition into a node and a retry on it
    /// both count.
    pub default_visits: Option<u64>,
    /// Transitions from one node to another, by (from, to); parallel edges share.
    pub transitions: BTreeMap<(String, String), Option<u64>>,
    /// Transitions between every other pair of nodes.
    pub default_transitions: Option<u64>,
    /// Accepted transitions of the whole session.
    pub total_transitions: Option<u64>,
    /// Accepted transitions for one user message; a run here is one message long.
    pub message_transitions: Option<u64>,
    /// Turns of single nodes; `Some(None)` = this node has no limit.
    pub node_turns: BTreeMap<String, Option<u64>>,
    /// Nodes on which nobody has a turn: routers, joins, ends. A transition into one is a visit all the same; a run
    /// that begins on one does not begin with a visit.
    pub turnless: BTreeSet<String>,
    /// Turns of every other node. A node inside a loop gets at least one more than
    /// `loop_iterations`, else the iterations could never be used up.
    pub default_node_turns: Option<u64>,
    /// Accepted transitions over the anchors of a loop, for each loop, inner ones too.
    pub loop_iterations: Option<u64>,
    /// Turns of the whole session.
    pub session_turns: Option<u64>,
    /// Milliseconds that the turns of the session may take; asked before a turn starts.
    pub session_runtime_ms: Option<u64>,
    /// Milliseconds after which one turn is ended.
    pub turn_timeout_ms: Option<u64>,
    /// Milliseconds that the turns of one node may take; asked before a turn starts.
    pub node_runtime_ms: Option<u64>,
    /// Milliseconds that the turns on the nodes of one loop may take.
    pub loop_runtime_ms: Option<u64>,
    /// Micro-dollars that the session may cost; asked before a turn starts.
    pub session_cost_micro_usd: Option<u64>,
    /// Micro-dollars that the turns on the nodes of one loop may cost.
    pub loop_cost_micro_usd: Option<u64>,
    /// The rule against cycles of transitions. Leave it out when some nodes or edges are
    /// exempt from it: the bounds then hold for them too.
    pub cycle: Option<CycleRule>,
}

/// When a transition is refused because the trail repeats itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleRule {
    /// The longest block of transitions that is looked for, from 2 on; `None` = off.
    pub max_period: Option<u64>,
    /// How often a block has to stand in a row to be a cycle; below 2 = off.
    pub repeats: u64,
    /// Refuse when the last so many transitions stand already earlier in the last
    /// max(10, three times as many), without overlap; `None` = off.
    pub suffix_length: Option<u64>,
    /// How often a self-edge may be taken in a row; `None` = the other rules see self-edges like any transition.
    pub self_loop: Option<u64>,
}

/// One transition as (from, to), by node number.
pub(super) type Step = (usize, usize);

impl CycleRule {
    /// Whether the newest transition of `trail` is refused.
    pub(super) fn refuses(&self, trail: &[Step]) -> bool {
        self.too_many_self_edges(trail) || self.periodic(trail) || self.suffix_recurs(trail)
    }

    fn too_many_self_edges(&self, trail: &[Step]) -> bool {
        let (Some(limit), Some(&last)) = (self.self_loop, trail.last()) else {
            return false;
        };
        let run = trail.iter().rev().take_while(|&&step| step == last).count();
        last.0 == last.1 && run as u64 > limit
    }

    fn periodic(&self, trail: &[Step]) -> bool {
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
            !uniform(tail) && shifted.iter().rev().eq(tail.iter().rev().skip(period))
        })
    }

    fn suffix_recurs(&self, trail: &[Step]) -> bool {
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
        // A run of one self-edge is for `self_loop` to judge, if that is on.
        let own_class =
            |run_from: usize| self.self_loop.is_some() && trail.get(run_from..).is_some_and(uniform);
        earlier.windows(length).enumerate().any(|(at, run)| run == suffix && !own_class(from + at))
    }
}

/// Nothing but one self-edge. (Any other transition cannot follow itself.)
fn uniform(steps: &[Step]) -> bool {
    steps.first().is_some_and(|first| first.0 == first.1 && steps.iter().all(|step| step == first))
}

impl Limits {
    /// The limits that a policy sets to runs through a workflow. A guard that only observes or warns stops nothing,
    /// so its limit does not count here.
    #[must_use]
    pub fn of(policy: &Policy, workflow: &Workflow) -> Self {
        let found = loops(workflow);
        let budgets = &policy.budgets;
        let stops = |mode: Mode| matches!(mode, Mode::Block | Mode::Halt | Mode::Staged);
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
        Limits {
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
            ..Limits::default()
        }
    }
}

/// The rule against cycles, if it holds for every transition of the workflow.
fn cycle_rule(policy: &Policy, workflow: &Workflow) -> Option<CycleRule> {
    let rule = &policy.guards.cycle.transitions;
    let exempt = workflow.nodes.iter().any(|node| policy.node(node).is_some_and(|node| node.allow_cycles));
    let special = workflow
        .edges
        .iter()
        .any(|edge| policy.guards_for_edge(&edge.from, &edge.to).cycle != policy.guards.cycle);
    // Loops of the workflow are declared loops; unless the rule looks inside them it never refuses anything.
    (rule.declared_loops && !exempt && !special).then_some(CycleRule {
        max_period: rule.max_period,
        repeats: rule.repeats,
        suffix_length: rule.suffix_length,
        self_loop: rule.self_loop,
    })
}
