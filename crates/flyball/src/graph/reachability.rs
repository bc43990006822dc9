//! The workflow and its limits by number: which parts are reachable, and their topological order. Both the flow bound
//! and the exhaustive search build on this.

use std::collections::{BTreeMap, VecDeque};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;

use super::loops::Loop;
use super::workflow_limits::{CycleRule, WorkflowLimits};
use super::{Topology, Workflow};

/// Limits above this count as no limit: they are never reached in practice, and sums stay far from overflow.
const LARGEST_LIMIT: u64 = 1_000_000_000_000;

/// A kind of limit, to be named in an explanation or excluded from a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LimitKind {
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
pub(super) struct LimitedEdge {
    pub from: usize,
    pub to: usize,
    pub limit: Option<u64>,
    /// The loop that this edge closes.
    pub anchor: Option<usize>,
}

/// The graph with its limits, by number.
#[derive(Clone, Debug)]
pub(super) struct LimitedGraph {
    pub names: Vec<String>,
    pub entries: Vec<usize>,
    pub visits: Vec<Option<u64>>,
    pub turns: Vec<Option<u64>>,
    /// Whether each node has no turns.
    pub nodes_without_turns: Vec<bool>,
    pub edges: Vec<LimitedEdge>,
    /// Innermost loop of each node.
    pub innermost: Vec<Option<usize>>,
    /// Parent of each loop.
    pub parents: Vec<Option<usize>>,
    /// Limits that do not belong to a node or an edge.
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

fn effective_limit(limit: Option<u64>) -> Option<u64> {
    limit.filter(|&n| n <= LARGEST_LIMIT)
}

/// The smaller of two limits.
pub(super) fn min_limit(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl LimitedGraph {
    pub(super) fn new(workflow: &Workflow, loops: &[Loop], limits: &WorkflowLimits) -> Self {
        let topology = Topology::new(workflow);
        let numbers: BTreeMap<&str, usize> =
            topology.names.iter().enumerate().map(|(i, n)| (*n, i)).collect();
        let mut innermost = vec![None; topology.names.len()];
        let mut anchors: BTreeMap<&str, usize> = BTreeMap::new();
        for (position, found) in loops.iter().enumerate() {
            // Outer loops come before inner ones, so the last one to claim a node is the innermost.
            for number in found.nodes.iter().filter_map(|n| numbers.get(&**n)) {
                innermost[*number] = Some(position);
            }
            anchors.extend(found.anchors.iter().map(|id| (&**id, position)));
        }
        let turnless: Vec<bool> =
            topology.names.iter().map(|name| limits.nodes_without_turns.contains(*name)).collect();
        let entries = topology.entries();
        let visits = topology.names.iter().enumerate().map(|(n, name)| {
            let most = limits.visits.get(*name).copied().unwrap_or(limits.default_visits);
            // A start without a turn is not a visit, so one more visit is left.
            let start = turnless[n] && entries.contains(&n);
            effective_limit(most.map(|most| most.saturating_add(u64::from(start))))
        });
        let in_loop = limits.loop_iterations.map_or(0, |n| n.saturating_add(1));
        let nodes = topology.names.iter().zip(&innermost).zip(&turnless);
        let turns = nodes.map(|((name, looped), turnless)| {
            if *turnless {
                return None;
            }
            let usual = limits.default_node_turns;
            let usual = if looped.is_some() { usual.map(|n| n.max(in_loop)) } else { usual };
            effective_limit(limits.node_turns.get(*name).copied().unwrap_or(usual))
        });
        LimitedGraph {
            visits: visits.collect(),
            turns: turns.collect(),
            nodes_without_turns: turnless.clone(),
            entries: entries.clone(),
            edges: merge_parallel_edges(workflow, &topology, &anchors, limits),
            names: topology.names.iter().map(|n| (*n).to_owned()).collect(),
            innermost,
            parents: loops.iter().map(|l| l.parent).collect(),
            iterations: effective_limit(limits.loop_iterations),
            total_transitions: effective_limit(limits.total_transitions),
            message_transitions: effective_limit(limits.message_transitions),
            session_turns: effective_limit(limits.session_turns),
            session_runtime: limits.session_runtime_ms,
            turn_timeout: limits.turn_timeout_ms,
            node_runtime: limits.node_runtime_ms,
            loop_runtime: limits.loop_runtime_ms,
            session_cost: limits.session_cost_micro_usd,
            loop_cost: limits.loop_cost_micro_usd,
            cycle: limits.cycle.clone(),
        }
    }

    /// A copy without one kind of limit.
    pub(super) fn without(&self, rule: LimitKind) -> Self {
        let mut field = self.clone();
        match rule {
            LimitKind::Cycle => field.cycle = None,
            LimitKind::NodeTurns => field.turns.fill(None),
            LimitKind::Visits => field.visits.fill(None),
            LimitKind::LoopIterations => field.iterations = None,
            LimitKind::Transitions => field.edges.iter_mut().for_each(|a| a.limit = None),
            LimitKind::LoopRuntime => field.loop_runtime = None,
            LimitKind::NodeRuntime => field.node_runtime = None,
            LimitKind::LoopCost => field.loop_cost = None,
            LimitKind::SessionTurns => field.session_turns = None,
            LimitKind::TotalTransitions => field.total_transitions = None,
            LimitKind::MessageTransitions => field.message_transitions = None,
            LimitKind::SessionCost => field.session_cost = None,
        }
        field
    }

    /// Maximum number of transitions of the whole run, independent of the graph.
    pub(super) fn step_limit(&self) -> Option<u64> {
        min_limit(
            self.transition_limit(),
            self.session_turns.and_then(|turns| self.steps_within_turns(turns)),
        )
    }

    /// Maximum number of transitions by the transition limits alone.
    pub(super) fn transition_limit(&self) -> Option<u64> {
        min_limit(self.total_transitions, self.message_transitions)
    }

    /// Maximum number of transitions with this many turns. Each transition follows a turn, unless it leaves a node
    /// without turns; at most so many of those occur in a row. `None` = they can form a cycle.
    fn steps_within_turns(&self, turns: u64) -> Option<u64> {
        let count = self.names.len();
        let passed = |n: usize| self.nodes_without_turns[n] && self.edges.iter().any(|arc| arc.from == n);
        let mut rows: Vec<u64> = (0..count).map(|n| u64::from(passed(n))).collect();
        // Longest-path relaxation: a path that still grows after as many rounds as there are nodes contains a cycle.
        for _ in 0..=count {
            let mut grown = false;
            for arc in self.edges.iter().filter(|arc| passed(arc.from) && passed(arc.to)) {
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

    /// Maximum number of turns on one node: each is a visit.
    pub(super) fn turns_on(&self, node: usize) -> Option<u64> {
        if self.nodes_without_turns[node] { Some(0) } else { min_limit(self.turns[node], self.visits[node]) }
    }

    /// Whether no limit of a node, edge or loop ever stops this arc.
    pub(super) fn is_unlimited(&self, arc: &LimitedEdge) -> bool {
        let anchored = arc.anchor.is_some() && self.iterations.is_some();
        let entered = min_limit(self.turns[arc.to], self.visits[arc.to]);
        arc.limit.is_none() && !anchored && entered.is_none()
    }

    fn is_usable(&self, arc: &LimitedEdge) -> bool {
        arc.limit != Some(0)
            && self.visits[arc.to] != Some(0)
            && self.turns[arc.from] != Some(0)
            && !(arc.anchor.is_some() && self.iterations == Some(0))
    }
}

/// Merges parallel edges, in a fixed order.
fn merge_parallel_edges(
    workflow: &Workflow,
    topology: &Topology<'_>,
    anchors: &BTreeMap<&str, usize>,
    limits: &WorkflowLimits,
) -> Vec<LimitedEdge> {
    let mut merged: BTreeMap<(usize, usize), LimitedEdge> = BTreeMap::new();
    for &(from, to, position) in &topology.edges {
        let Some(edge) = workflow.edges.get(position) else {
            continue;
        };
        let pair = (edge.from.clone(), edge.to.clone());
        let limit = limits.transitions.get(&pair).copied();
        merged.entry((from, to)).or_insert(LimitedEdge {
            from,
            to,
            limit: effective_limit(limit.unwrap_or(limits.default_transitions)),
            anchor: anchors.get(&*edge.id).copied(),
        });
    }
    merged.into_values().collect()
}

/// The part of the graph that a run can reach under the limits.
pub(super) struct Reachability {
    /// Nodes where a run can actually start.
    pub starts: Vec<usize>,
    /// Number of steps from a start; `None` = unreachable.
    pub distance: Vec<Option<u64>>,
    /// The predecessor of each node on a shortest path.
    predecessor: Vec<Option<usize>>,
    /// Usable arcs of each node, by position.
    pub outgoing: Vec<Vec<usize>>,
    /// Strongly connected components, each after all components it leads to.
    pub components: Vec<Vec<usize>>,
    /// The component of each node.
    pub component_of: Vec<usize>,
}

impl Reachability {
    pub(super) fn new(limited: &LimitedGraph) -> Self {
        let count = limited.names.len();
        let may_start = |n: &usize| {
            let turns = if limited.nodes_without_turns[*n] {
                None
            } else {
                min_limit(limited.turns_on(*n), limited.session_turns)
            };
            turns != Some(0)
        };
        let starts: Vec<usize> = limited.entries.iter().copied().filter(may_start).collect();
        let mut outgoing = vec![Vec::new(); count];
        for (position, arc) in limited.edges.iter().enumerate() {
            if limited.is_usable(arc) {
                outgoing[arc.from].push(position);
            }
        }
        let mut distance = vec![None; count];
        let mut predecessor = vec![None; count];
        let mut queue: VecDeque<(usize, u64)> = starts.iter().map(|&n| (n, 0)).collect();
        for &start in &starts {
            distance[start] = Some(0);
        }
        while let Some((node, steps)) = queue.pop_front() {
            if limited.step_limit().is_some_and(|most| steps >= most) {
                continue;
            }
            for &position in &outgoing[node] {
                let to = limited.edges[position].to;
                if distance[to].is_none() {
                    distance[to] = Some(steps + 1);
                    predecessor[to] = Some(node);
                    queue.push_back((to, steps + 1));
                }
            }
        }
        for (node, arcs) in outgoing.iter_mut().enumerate() {
            let reached = distance[node].is_some();
            arcs.retain(|&p| reached && distance[limited.edges[p].to].is_some());
        }
        let (components, component_of) = strong_components(limited, &outgoing, &distance);
        Reachability { starts, distance, predecessor, outgoing, components, component_of }
    }

    /// The reachable nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> {
        self.distance.iter().enumerate().filter(|(_, d)| d.is_some()).map(|(n, _)| n)
    }

    /// A shortest path from a start to `node`.
    pub(super) fn shortest_path(&self, node: usize) -> Vec<usize> {
        let mut way = vec![node];
        while let Some(before) = way.last().and_then(|&n| self.predecessor[n]) {
            way.push(before);
        }
        way.reverse();
        way
    }

    /// The heaviest chain of components, each with weight `weight`; `Err` = the component with unlimited weight.
    pub(super) fn heaviest_chain(
        &self,
        limited: &LimitedGraph,
        weight: impl Fn(&[usize]) -> Option<u64>,
    ) -> Result<u64, usize> {
        let mut best = vec![0u64; self.components.len()];
        for (number, nodes) in self.components.iter().enumerate() {
            let own = weight(nodes).ok_or(number)?;
            let arcs = nodes.iter().flat_map(|&n| &self.outgoing[n]);
            let next = arcs.map(|&p| self.component_of[limited.edges[p].to]);
            let after = next.filter(|&p| p != number).map(|p| best[p]).max();
            best[number] = own.checked_add(after.unwrap_or(0)).ok_or(number)?;
        }
        let starts = self.starts.iter().map(|&n| best[self.component_of[n]]);
        Ok(starts.max().unwrap_or(0))
    }
}

fn strong_components(
    limited: &LimitedGraph,
    out: &[Vec<usize>],
    distance: &[Option<u64>],
) -> (Vec<Vec<usize>>, Vec<usize>) {
    let mut graph: DiGraph<usize, ()> = DiGraph::new();
    let places: Vec<_> = (0..out.len()).map(|n| graph.add_node(n)).collect();
    for &position in out.iter().flatten() {
        let arc = &limited.edges[position];
        graph.add_edge(places[arc.from], places[arc.to], ());
    }
    let mut part_of = vec![usize::MAX; out.len()];
    let mut parts = Vec::new();
    // The components are in reverse topological order: successors come first.
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
