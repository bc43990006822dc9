//! The most transitions that a run can take through the graph, by the limits on nodes,
//! edges and loops, without trying every walk.
//!
//! A walk passes the strongly connected parts one after the other and never comes back to
//! one it left. So each part is solved on its own: a part that is one simple cycle forces
//! the walk and is simply walked; any other part is a flow problem. What comes after a part
//! is known when the part is solved, and counts as a prize at the node where it is left.

use super::flow::Network;
use super::limits::Step;
use super::reach::{Arc, Field, Reach};

/// How far a forced walk is followed before the flow has to answer.
const FORCED_STEPS: u64 = 4_000;

/// The bound, or the part that can go on for ever.
pub(super) fn longest(field: &Field, reach: &Reach) -> Result<u64, usize> {
    // The best that can follow when a part is entered at this node.
    let mut from_here: Vec<u64> = vec![0; field.names.len()];
    for (number, nodes) in reach.parts.iter().enumerate() {
        let part = Part { field, reach, number, nodes, prizes: prizes(field, reach, number, &from_here) };
        let mut solved = Vec::new();
        for &entry in nodes.iter().filter(|&&n| is_entered(field, reach, n)) {
            solved.push((entry, part.best_from(entry).ok_or(number)?));
        }
        for (entry, best) in solved {
            from_here[entry] = best;
        }
    }
    let starts = reach.starts.iter().map(|&n| from_here[n]);
    Ok(starts.max().unwrap_or(0))
}

/// A walk comes into its part at this node.
fn is_entered(field: &Field, reach: &Reach, node: usize) -> bool {
    let outside = |arc: &Arc| arc.to == node && reach.part_of[arc.from] != reach.part_of[node];
    let mut taken = reach.out.iter().flatten().map(|&p| &field.arcs[p]);
    reach.starts.contains(&node) || taken.any(outside)
}

/// What leaving the part at each node is worth.
fn prizes(field: &Field, reach: &Reach, number: usize, from_here: &[u64]) -> Vec<u64> {
    let mut prizes = vec![0u64; field.names.len()];
    for arc in reach.out.iter().flatten().map(|&p| &field.arcs[p]) {
        if reach.part_of[arc.from] == number && reach.part_of[arc.to] != number {
            prizes[arc.from] = prizes[arc.from].max(from_here[arc.to].saturating_add(1));
        }
    }
    prizes
}

struct Part<'a> {
    field: &'a Field,
    reach: &'a Reach,
    number: usize,
    nodes: &'a [usize],
    prizes: Vec<u64>,
}

impl Part<'_> {
    /// The arcs that stay inside, by position.
    fn inside(&self, node: usize) -> impl Iterator<Item = &Arc> {
        let arcs = self.reach.out[node].iter().map(|&p| &self.field.arcs[p]);
        arcs.filter(|arc| self.reach.part_of[arc.to] == self.number)
    }

    fn best_from(&self, entry: usize) -> Option<u64> {
        if self.nodes.iter().all(|&n| self.inside(n).count() == 0) {
            return Some(self.prizes[entry]);
        }
        if self.nodes.iter().all(|&n| self.inside(n).count() == 1)
            && let Some(best) = self.forced(entry)
        {
            return Some(best);
        }
        self.flow(entry)
    }

    /// Follows the only way there is until a limit refuses; `None` = none does soon enough.
    /// What happened before the part was entered cannot matter to the cycle rule, because
    /// no transition from outside the part ever occurs again.
    fn forced(&self, entry: usize) -> Option<u64> {
        let count = self.field.names.len();
        let (mut entered, mut rounds) = (vec![0u64; count], vec![0u64; self.field.parents.len()]);
        let mut trail: Vec<Step> = Vec::new();
        let mut node = entry;
        let mut best = self.prizes[entry];
        entered[entry] = 1;
        for steps in 1..=FORCED_STEPS {
            let arc = self.inside(node).next()?;
            // The trail may have turned here only so often; each node has one way out.
            let taken = entered[node] - 1;
            let closed = arc.anchor.filter(|_| self.field.iterations.is_some());
            trail.push((arc.from, arc.to));
            let refused = arc.limit.is_some_and(|most| taken >= most)
                || self.field.visits[arc.to].is_some_and(|most| entered[arc.to] >= most)
                || closed.is_some_and(|l| Some(rounds[l]) >= self.field.iterations)
                || self.field.cycle.as_ref().is_some_and(|rule| rule.refuses(&trail));
            if refused {
                return Some(best);
            }
            if let Some(l) = closed {
                rounds[l] += 1;
            }
            node = arc.to;
            entered[node] += 1;
            let turn_refused = self.field.turns[node].is_some_and(|most| entered[node] > most);
            let prize = if turn_refused { 0 } else { self.prizes[node] };
            best = best.max(steps.saturating_add(prize));
            if turn_refused {
                return Some(best);
            }
        }
        None
    }

    /// The best flow: one unit from the entry to the end, circles beside it. Each node is
    /// three: arrivals (visits), turns, departures. The last arrival needs no turn: the run
    /// ends when the turn is refused.
    fn flow(&self, entry: usize) -> Option<u64> {
        if endless_circle(self.field, self.reach, self.nodes).is_some() {
            return None;
        }
        let plenty = self.plenty()?;
        let limit = |limit: Option<u64>| limit.and_then(|n| i64::try_from(n).ok()).unwrap_or(plenty);
        let mut network = Network::new();
        let sink = network.node();
        let count = self.field.names.len();
        let (mut arrive, mut depart) = (vec![usize::MAX; count], vec![usize::MAX; count]);
        for &node in self.nodes {
            let (first, turn, last) = (network.node(), network.node(), network.node());
            network.arc(first, turn, limit(self.field.visits[node]), 0);
            network.arc(turn, last, limit(self.field.turns[node]), 0);
            network.arc(turn, sink, 1, 0);
            network.arc(last, sink, 1, i64::try_from(self.prizes[node]).ok()?);
            (arrive[node], depart[node]) = (first, last);
        }
        // All anchors of a loop enter its header, so one bottleneck before it counts them.
        let mut gates: Vec<Option<usize>> = vec![None; self.field.parents.len()];
        for arc in self.nodes.iter().flat_map(|&n| self.inside(n)) {
            let mut to = arrive[arc.to];
            if let (Some(closed), Some(most)) = (arc.anchor, self.field.iterations) {
                let gate = gates[closed].unwrap_or_else(|| {
                    let gate = network.node();
                    network.arc(gate, to, limit(Some(most)), 0);
                    gate
                });
                gates[closed] = Some(gate);
                to = gate;
            }
            network.arc(depart[arc.from], to, limit(arc.limit), 1);
        }
        let best = network.best(arrive[entry], sink)?;
        u64::try_from(best).ok()
    }

    /// More than any arc without a limit can carry: every circle passes a limited one.
    fn plenty(&self) -> Option<i64> {
        let mut sum = 1i64;
        let mut add = |limit: Option<u64>| -> Option<()> {
            sum = sum.checked_add(i64::try_from(limit.unwrap_or(0)).ok()?)?;
            Some(())
        };
        for &node in self.nodes {
            add(self.field.visits[node])?;
            add(self.field.turns[node])?;
            for arc in self.inside(node) {
                add(arc.limit)?;
                add(arc.anchor.and(self.field.iterations))?;
            }
        }
        Some(sum)
    }
}

/// A circle inside the part that no limit of a node, an edge or a loop ever stops.
pub(super) fn endless_circle(field: &Field, reach: &Reach, nodes: &[usize]) -> Option<Vec<usize>> {
    let next = |node: usize| {
        let arcs = reach.out[node].iter().map(|&p| &field.arcs[p]);
        let inside = move |arc: &&Arc| field.endless(arc) && reach.part_of[arc.to] == reach.part_of[node];
        arcs.filter(inside).map(|arc| arc.to).collect::<Vec<_>>()
    };
    let mut done = vec![false; field.names.len()];
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
