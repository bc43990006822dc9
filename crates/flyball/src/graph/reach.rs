//! The workflow and its limits in numbers: what is left to walk on, and in which order the
//! parts of it come. Both the flow and the exhaustive search stand on this.

use std::collections::{BTreeMap, VecDeque};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;

use super::limits::{CycleRule, Limits};
use super::loops::Loop;
use super::{Topology, Workflow};

/// A limit above this counts as no limit: nobody waits for it, and sums stay far from overflow.
const LARGEST_LIMIT: u64 = 1_000_000_000_000;

/// One kind of limit, to be named in an explanation or left out of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    Cycle,
    NodeTurns,
    Visits,
    LoopIterations,
    Transitions,
    LoopRuntime,
    NodeRuntime,
    LoopCost,
    SessionTurns,
    TotalTransitions,
    MessageTransitions,
    SessionCost,
}

/// All edges from one node to another; they share one limit.
#[derive(Clone, Debug)]
pub(super) struct Arc {
    pub from: usize,
    pub to: usize,
    pub limit: Option<u64>,
    /// The loop that this closes.
    pub anchor: Option<usize>,
}

/// The graph with its limits, by number.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub names: Vec<String>,
    pub entries: Vec<usize>,
    pub visits: Vec<Option<u64>>,
    pub turns: Vec<Option<u64>>,
    /// Nobody has a turn there.
    pub turnless: Vec<bool>,
    pub arcs: Vec<Arc>,
    /// The smallest loop around each node.
    pub innermost: Vec<Option<usize>>,
    /// The loop around each loop.
    pub parents: Vec<Option<usize>>,
    /// What is not by node or edge.
    pub iterations: Option<u64>,
    pub total_transitions: Option<u64>,
    pub message_transitions: Option<u64>,
    pub session_turns: Option<u64>,
    pub session_runtime: Option<u64>,
    pub turn_timeout: Option<u64>,
    pub node_runtime: Option<u64>,
    pub loop_runtime: Option<u64>,
    pub session_cost: Option<u64>,
    pub loop_cost: Option<u64>,
    pub cycle: Option<CycleRule>,
}

fn real(limit: Option<u64>) -> Option<u64> {
    limit.filter(|&n| n <= LARGEST_LIMIT)
}

/// The smaller of two limits.
pub(super) fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Field {
    pub(super) fn new(workflow: &Workflow, loops: &[Loop], limits: &Limits) -> Self {
        let topology = Topology::new(workflow);
        let numbers: BTreeMap<&str, usize> =
            topology.names.iter().enumerate().map(|(i, n)| (*n, i)).collect();
        let mut innermost = vec![None; topology.names.len()];
        let mut anchors: BTreeMap<&str, usize> = BTreeMap::new();
        for (position, found) in loops.iter().enumerate() {
            // Outer loops come before inner ones, so the last to claim a node is the smallest.
            for number in found.nodes.iter().filter_map(|n| numbers.get(&**n)) {
                innermost[*number] = Some(position);
            }
            anchors.extend(found.anchors.iter().map(|id| (&**id, position)));
        }
        let turnless: Vec<bool> = topology.names.iter().map(|name| limits.turnless.contains(*name)).collect();
        let entries = topology.entries();
        let visits = topology.names.iter().enumerate().map(|(n, name)| {
            let most = limits.visits.get(*name).copied().unwrap_or(limits.default_visits);
            // Without a turn, the start itself is no visit: there is one more to come.
            let start = turnless[n] && entries.contains(&n);
            real(most.map(|most| most.saturating_add(u64::from(start))))
        });
        let in_loop = limits.loop_iterations.map_or(0, |n| n.saturating_add(1));
        let nodes = topology.names.iter().zip(&innermost).zip(&turnless);
        let turns = nodes.map(|((name, looped), turnless)| {
            if *turnless {
                return None;
            }
            let usual = limits.default_node_turns;
            let usual = if looped.is_some() { usual.map(|n| n.max(in_loop)) } else { usual };
            real(limits.node_turns.get(*name).copied().unwrap_or(usual))
        });
        Field {
            visits: visits.collect(),
            turns: turns.collect(),
            turnless: turnless.clone(),
            entries: entries.clone(),
            arcs: arcs(workflow, &topology, &anchors, limits),
            names: topology.names.iter().map(|n| (*n).to_owned()).collect(),
            innermost,
            parents: loops.iter().map(|l| l.parent).collect(),
            iterations: real(limits.loop_iterations),
            total_transitions: real(limits.total_transitions),
            message_transitions: real(limits.message_transitions),
            session_turns: real(limits.session_turns),
            session_runtime: limits.session_runtime_ms,
            turn_timeout: limits.turn_timeout_ms,
            node_runtime: limits.node_runtime_ms,
            loop_runtime: limits.loop_runtime_ms,
            session_cost: limits.session_cost_micro_usd,
            loop_cost: limits.loop_cost_micro_usd,
            cycle: limits.cycle.clone(),
        }
    }

    /// The same without one kind of limit.
    pub(super) fn without(&self, rule: Rule) -> Self {
        let mut field = self.clone();
        match rule {
            Rule::Cycle => field.cycle = None,
            Rule::NodeTurns => field.turns.fill(None),
            Rule::Visits => field.visits.fill(None),
            Rule::LoopIterations => field.iterations = None,
            Rule::Transitions => field.arcs.iter_mut().for_each(|a| a.limit = None),
            Rule::LoopRuntime => field.loop_runtime = None,
            Rule::NodeRuntime => field.node_runtime = None,
            Rule::LoopCost => field.loop_cost = None,
            Rule::SessionTurns => field.session_turns = None,
            Rule::TotalTransitions => field.total_transitions = None,
            Rule::MessageTransitions => field.message_transitions = None,
            Rule::SessionCost => field.session_cost = None,
        }
        field
    }

    /// The most transitions that the whole run may take, whatever the graph is like.
    pub(super) fn steps(&self) -> Option<u64> {
        least(self.transitions(), self.session_turns.and_then(|turns| self.steps_of(turns)))
    }

    /// The most transitions by the limits on transitions alone.
    pub(super) fn transitions(&self) -> Option<u64> {
        least(self.total_transitions, self.message_transitions)
    }

    /// The most transitions with so many turns. A turn stands before each, unless it leaves a node without turns: of
    /// those there are at most so many in a row. `None` = they can go in a circle.
    fn steps_of(&self, turns: u64) -> Option<u64> {
        let count = self.names.len();
        let passed = |n: usize| self.turnless[n] && self.arcs.iter().any(|arc| arc.from == n);
        let mut rows: Vec<u64> = (0..count).map(|n| u64::from(passed(n))).collect();
        // As in any search for the longest way: when all nodes were seen once, what still grows is a circle.
        for _ in 0..=count {
            let mut grown = false;
            for arc in self.arcs.iter().filter(|arc| passed(arc.from) && passed(arc.to)) {
                let row = rows[arc.from].saturating_add(1);
                if row > rows[arc.to] {
                    rows[arc.to] = row;
                    grown = true;
                }
            }
            if !grown {
                let row = rows.iter().copied().max().unwrap_or(0);
                return turns.saturating_add(1).checked_mul(row.saturating_add(1))?.checked_sub(1);
            }
        }
        None
    }

    /// The most turns on one node: each is a visit.
    pub(super) fn turns_on(&self, node: usize) -> Option<u64> {
        if self.turnless[node] { Some(0) } else { least(self.turns[node], self.visits[node]) }
    }

    /// No limit of a node, an edge or a loop ever stops this arc.
    pub(super) fn endless(&self, arc: &Arc) -> bool {
        let anchored = arc.anchor.is_some() && self.iterations.is_some();
        let entered = least(self.turns[arc.to], self.visits[arc.to]);
        arc.limit.is_none() && !anchored && entered.is_none()
    }

    fn usable(&self, arc: &Arc) -> bool {
        arc.limit != Some(0)
            && self.visits[arc.to] != Some(0)
            && self.turns[arc.from] != Some(0)
            && !(arc.anchor.is_some() && self.iterations == Some(0))
    }
}

/// Parallel edges as one, in a fixed order.
fn arcs(
    workflow: &Workflow,
    topology: &Topology<'_>,
    anchors: &BTreeMap<&str, usize>,
    limits: &Limits,
) -> Vec<Arc> {
    let mut merged: BTreeMap<(usize, usize), Arc> = BTreeMap::new();
    for &(from, to, position) in &topology.edges {
        let Some(edge) = workflow.edges.get(position) else {
            continue;
        };
        let pair = (edge.from.clone(), edge.to.clone());
        let limit = limits.transitions.get(&pair).copied();
        merged.entry((from, to)).or_insert(Arc {
            from,
            to,
            limit: real(limit.unwrap_or(limits.default_transitions)),
            anchor: anchors.get(&*edge.id).copied(),
        });
    }
    merged.into_values().collect()
}

/// What a run can get to under the limits.
pub(super) struct Reach {
    /// Where the run can really start.
    pub starts: Vec<usize>,
    /// Steps from a start; `None` = out of reach.
    pub distance: Vec<Option<u64>>,
    /// The node before each on a shortest way.
    before: Vec<Option<usize>>,
    /// The arcs that can be taken, by position, for each node.
    pub out: Vec<Vec<usize>>,
    /// Strongly connected parts, each after everything that it leads to.
    pub parts: Vec<Vec<usize>>,
    /// The part of each node.
    pub part_of: Vec<usize>,
}

impl Reach {
    pub(super) fn new(field: &Field) -> Self {
        let count = field.names.len();
        let may_start = |n: &usize| {
            let turns =
                if field.turnless[*n] { None } else { least(field.turns_on(*n), field.session_turns) };
            turns != Some(0)
        };
        let starts: Vec<usize> = field.entries.iter().copied().filter(may_start).collect();
        let mut out = vec![Vec::new(); count];
        for (position, arc) in field.arcs.iter().enumerate() {
            if field.usable(arc) {
                out[arc.from].push(position);
            }
        }
        let mut distance = vec![None; count];
        let mut before = vec![None; count];
        let mut queue: VecDeque<(usize, u64)> = starts.iter().map(|&n| (n, 0)).collect();
        for &start in &starts {
            distance[start] = Some(0);
        }
        while let Some((node, steps)) = queue.pop_front() {
            if field.steps().is_some_and(|most| steps >= most) {
                continue;
            }
            for &position in &out[node] {
                let to = field.arcs[position].to;
                if distance[to].is_none() {
                    distance[to] = Some(steps + 1);
                    before[to] = Some(node);
                    queue.push_back((to, steps + 1));
                }
            }
        }
        for (node, arcs) in out.iter_mut().enumerate() {
            let reached = distance[node].is_some();
            arcs.retain(|&p| reached && distance[field.arcs[p].to].is_some());
        }
        let (parts, part_of) = parts(field, &out, &distance);
        Reach { starts, distance, before, out, parts, part_of }
    }

    /// The nodes that a run can get to.
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> {
        self.distance.iter().enumerate().filter(|(_, d)| d.is_some()).map(|(n, _)| n)
    }

    /// A shortest way from a start to `node`.
    pub(super) fn way(&self, node: usize) -> Vec<usize> {
        let mut way = vec![node];
        while let Some(before) = way.last().and_then(|&n| self.before[n]) {
            way.push(before);
        }
        way.reverse();
        way
    }

    /// The heaviest chain of parts, where each part weighs `weight`; `Err` = the part that
    /// weighs without limit.
    pub(super) fn heaviest(
        &self,
        field: &Field,
        weight: impl Fn(&[usize]) -> Option<u64>,
    ) -> Result<u64, usize> {
        let mut best = vec![0u64; self.parts.len()];
        for (number, nodes) in self.parts.iter().enumerate() {
            let own = weight(nodes).ok_or(number)?;
            let arcs = nodes.iter().flat_map(|&n| &self.out[n]);
            let next = arcs.map(|&p| self.part_of[field.arcs[p].to]);
            let after = next.filter(|&p| p != number).map(|p| best[p]).max();
            best[number] = own.checked_add(after.unwrap_or(0)).ok_or(number)?;
        }
        let starts = self.starts.iter().map(|&n| best[self.part_of[n]]);
        Ok(starts.max().unwrap_or(0))
    }
}

fn parts(field: &Field, out: &[Vec<usize>], distance: &[Option<u64>]) -> (Vec<Vec<usize>>, Vec<usize>) {
    let mut graph: DiGraph<usize, ()> = DiGraph::new();
    let places: Vec<_> = (0..out.len()).map(|n| graph.add_node(n)).collect();
    for &position in out.iter().flatten() {
        let arc = &field.arcs[position];
        graph.add_edge(places[arc.from], places[arc.to], ());
    }
    let mut part_of = vec![usize::MAX; out.len()];
    let mut parts = Vec::new();
    // The parts come in reverse topological order: what a part leads to stands before it.
    for component in kosaraju_scc(&graph) {
        let mut nodes: Vec<usize> = component.iter().map(|&i| graph[i]).collect();
        nodes.retain(|&n| distance[n].is_some());
        nodes.sort_unstable();
        for &node in &nodes {
            part_of[node] = parts.len();
        }
        if !nodes.is_empty() {
            parts.push(nodes);
        }
    }
    (parts, part_of)
}
