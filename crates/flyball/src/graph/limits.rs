//! The limits that a run through a workflow is held to, in the form the worst-case bounds
//! are computed from. `None` always means: no such limit.

use std::collections::BTreeMap;

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
    /// How often a self-edge may be taken in a row; `None` = off.
    pub self_loop: Option<u64>,
}

/// One transition as (from, to), by node number.
pub(super) type Step = (usize, usize);

impl CycleRule {
    /// Whether the newest transition of `trail` is refused.
    ///
    /// Runs of one self-edge are left to `self_loop` alone, the mildest reading of the
    /// rule, so that a bound computed with it holds for stricter readings as well.
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
        let earlier = before.get(before.len().saturating_sub(window)..).unwrap_or_default();
        !uniform(suffix) && earlier.windows(length).any(|run| run == suffix)
    }
}

/// Nothing but one self-edge. (Any other transition cannot follow itself.)
fn uniform(steps: &[Step]) -> bool {
    steps.first().is_some_and(|first| first.0 == first.1 && steps.iter().all(|step| step == first))
}
