//! Maximum number of transitions of a run, by the limits on nodes, edges and loops, without an exhaustive search.
//!
//! A walk passes the strongly connected components one after the other and never returns to one. So each component is
//! solved separately: in a component that is a single simple cycle the walk is forced and is simulated; any other
//! component is a flow problem. Components are solved in reverse order, so the best continuation is known and counts as
//! a gain at the node where the component is left.

use super::flow_network::FlowNetwork;
use super::reachability::{LimitedEdge, LimitedGraph, Reachability};
use super::workflow_limits::TrailStep;

/// Maximum number of simulated steps of a forced walk, before the flow bound is used instead.
const MAX_FORCED_STEPS: u64 = 4_000;

/// The bound, or the component that can run forever.
pub(super) fn longest_walk(limited: &LimitedGraph, reach: &Reachability) -> Result<u64, usize> {
    // The best continuation when a component is entered at this node.
    let mut from_here: Vec<u64> = vec![0; limited.names.len()];
    for (number, nodes) in reach.components.iter().enumerate() {
        let part = ComponentWalk {
            limited,
            reach,
            number,
            nodes,
            exit_gains: exit_gains(limited, reach, number, &from_here),
        };
        let mut solved = Vec::new();
        for &entry in nodes.iter().filter(|&&n| is_entered(limited, reach, n)) {
            solved.push((entry, part.best_from(entry).ok_or(number)?));
        }
        for (entry, best) in solved {
            from_here[entry] = best;
        }
    }
    let starts = reach.starts.iter().map(|&n| from_here[n]);
    Ok(starts.max().unwrap_or(0))
}

/// Whether a walk can enter the component at this node.
fn is_entered(limited: &LimitedGraph, reach: &Reachability, node: usize) -> bool {
    let outside =
        |arc: &LimitedEdge| arc.to == node && reach.component_of[arc.from] != reach.component_of[node];
    let mut taken = reach.outgoing.iter().flatten().map(|&p| &limited.edges[p]);
    reach.starts.contains(&node) || taken.any(outside)
}

/// Gain of leaving the component at each node.
fn exit_gains(limited: &LimitedGraph, reach: &Reachability, number: usize, from_here: &[u64]) -> Vec<u64> {
    let mut prizes = vec![0u64; limited.names.len()];
    for arc in reach.outgoing.iter().flatten().map(|&p| &limited.edges[p]) {
        if reach.component_of[arc.from] == number && reach.component_of[arc.to] != number {
            prizes[arc.from] = prizes[arc.from].max(from_here[arc.to].saturating_add(1));
        }
    }
    prizes
}

struct ComponentWalk<'a> {
    limited: &'a LimitedGraph,
    reach: &'a Reachability,
    number: usize,
    nodes: &'a [usize],
    exit_gains: Vec<u64>,
}

impl ComponentWalk<'_> {
    /// Arcs that stay inside the component, by position.
    fn inner_edges(&self, node: usize) -> impl Iterator<Item = &LimitedEdge> {
        let arcs = self.reach.outgoing[node].iter().map(|&p| &self.limited.edges[p]);
        arcs.filter(|arc| self.reach.component_of[arc.to] == self.number)
    }

    fn best_from(&self, entry: usize) -> Option<u64> {
        if self.nodes.iter().all(|&n| self.inner_edges(n).count() == 0) {
            return Some(self.exit_gains[entry]);
        }
        if self.nodes.iter().all(|&n| self.inner_edges(n).count() == 1)
            && let Some(best) = self.follow_forced_walk(entry)
        {
            return Some(best);
        }
        self.best_by_flow(entry)
    }

    /// Simulates the only possible walk until a limit stops it; `None` = none does soon enough. Earlier transitions
    /// cannot affect the cycle rule, because no transition from outside the component occurs again.
    fn follow_forced_walk(&self, entry: usize) -> Option<u64> {
        let count = self.limited.names.len();
        let (mut entered, mut rounds) = (vec![0u64; count], vec![0u64; self.limited.parents.len()]);
        let mut trail: Vec<TrailStep> = Vec::new();
        let mut node = entry;
        let mut best = self.exit_gains[entry];
        entered[entry] = 1;
        for steps in 1..=MAX_FORCED_STEPS {
            let arc = self.inner_edges(node).next()?;
            // Each node has one outgoing edge, so its use count follows from the arrivals.
            let taken = entered[node] - 1;
            let closed = arc.anchor.filter(|_| self.limited.iterations.is_some());
            trail.push((arc.from, arc.to));
            let refused = arc.limit.is_some_and(|most| taken >= most)
                || self.limited.visits[arc.to].is_some_and(|most| entered[arc.to] >= most)
                || closed.is_some_and(|l| Some(rounds[l]) >= self.limited.iterations)
                || self.limited.cycle.as_ref().is_some_and(|rule| rule.refuses(&trail));
            if refused {
                return Some(best);
            }
            if let Some(l) = closed {
                rounds[l] += 1;
            }
            node = arc.to;
            entered[node] += 1;
            let turn_refused = self.limited.turns[node].is_some_and(|most| entered[node] > most);
            let prize = if turn_refused { 0 } else { self.exit_gains[node] };
            best = best.max(steps.saturating_add(prize));
            if turn_refused {
                return Some(best);
            }
        }
        None
    }

    /// The best flow: one unit from the entry to the end, plus cycles. Each node is split in three: arrivals (visits),
    /// turns, departures. The last arrival needs no turn: the run ends when the turn is denied.
    fn best_by_flow(&self, entry: usize) -> Option<u64> {
        if find_unlimited_cycle(self.limited, self.reach, self.nodes).is_some() {
            return None;
        }
        let plenty = self.unlimited_capacity()?;
        let limit = |limit: Option<u64>| limit.and_then(|n| i64::try_from(n).ok()).unwrap_or(plenty);
        let mut network = FlowNetwork::new();
        let sink = network.add_node();
        let count = self.limited.names.len();
        let (mut arrive, mut depart) = (vec![usize::MAX; count], vec![usize::MAX; count]);
        for &node in self.nodes {
            let (first, turn, last) = (network.add_node(), network.add_node(), network.add_node());
            network.add_arc(first, turn, limit(self.limited.visits[node]), 0);
            network.add_arc(turn, last, limit(self.limited.turns[node]), 0);
            network.add_arc(turn, sink, 1, 0);
            network.add_arc(last, sink, 1, i64::try_from(self.exit_gains[node]).ok()?);
            (arrive[node], depart[node]) = (first, last);
        }
        // All anchors of a loop enter its header, so one bottleneck in front of it counts them.
        let mut gates: Vec<Option<usize>> = vec![None; self.limited.parents.len()];
        for arc in self.nodes.iter().flat_map(|&n| self.inner_edges(n)) {
            let mut to = arrive[arc.to];
            if let (Some(closed), Some(most)) = (arc.anchor, self.limited.iterations) {
                let gate = gates[closed].unwrap_or_else(|| {
                    let gate = network.add_node();
                    network.add_arc(gate, to, limit(Some(most)), 0);
                    gate
                });
                gates[closed] = Some(gate);
                to = gate;
            }
            network.add_arc(depart[arc.from], to, limit(arc.limit), 1);
        }
        let best = network.max_gain(arrive[entry], sink)?;
        u64::try_from(best).ok()
    }

    /// More than any unlimited arc can carry: every cycle passes a limited one.
    fn unlimited_capacity(&self) -> Option<i64> {
        let mut sum = 1i64;
        let mut add = |limit: Option<u64>| -> Option<()> {
            sum = sum.checked_add(i64::try_from(limit.unwrap_or(0)).ok()?)?;
            Some(())
        };
        for &node in self.nodes {
            add(self.limited.visits[node])?;
            add(self.limited.turns[node])?;
            for arc in self.inner_edges(node) {
                add(arc.limit)?;
                add(arc.anchor.and(self.limited.iterations))?;
            }
        }
        Some(sum)
    }
}

/// A cycle inside the component that no limit of a node, edge or loop ever stops.
pub(super) fn find_unlimited_cycle(
    limited: &LimitedGraph,
    reach: &Reachability,
    nodes: &[usize],
) -> Option<Vec<usize>> {
    let next = |node: usize| {
        let arcs = reach.outgoing[node].iter().map(|&p| &limited.edges[p]);
        let inside = move |arc: &&LimitedEdge| {
            limited.is_unlimited(arc) && reach.component_of[arc.to] == reach.component_of[node]
        };
        arcs.filter(inside).map(|arc| arc.to).collect::<Vec<_>>()
    };
    let mut done = vec![false; limited.names.len()];
    for &start in nodes {
        let mut way = vec![start];
        let mut open = vec![next(start)];
        while let (Some(&node), Some(rest)) = (way.last(), open.last_mut()) {
            let Some(to) = rest.pop() else {
                done[node] = true;
                way.pop();
                open.pop();
                continue;
            };
            if let Some(at) = way.iter().position(|&n| n == to) {
                let mut circle = way.split_off(at);
                circle.push(to);
                return Some(circle);
            }
            if !done[to] {
                way.push(to);
                open.push(next(to));
            }
        }
    }
    None
}
