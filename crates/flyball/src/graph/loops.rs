//! Finds the loops of a workflow, their nested loops, and the edges that close them, so that iterations are counted the
//! same way on every machine and after every edit.
//!
//! A loop is a strongly connected component with two or more nodes, or a self-edge. One component can contain many
//! cycles, and a single anchor edge would miss some of them. So each loop gets a header node, every edge of the loop
//! into the header is an anchor, and the parts that still loop without the header are inner loops with their own
//! headers and anchors. Every cycle of the graph therefore crosses an anchor, and no edge is an anchor of two loops.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use super::{Topology, Workflow};

/// A part of a workflow that can repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loop {
    /// Stable id, derived from the node names and edge ids, independent of their order.
    pub id: String,
    /// Names of the member nodes, sorted.
    pub nodes: Vec<String>,
    /// Ids of the edges between members, sorted.
    pub edges: Vec<String>,
    /// The node where an iteration starts and ends: the first one that a run reaches.
    pub header: String,
    /// Ids of the edges that close the loop, sorted. Each accepted transition on one of them is one iteration. Excludes
    /// a self-edge on the header of a larger loop, which is a separate inner loop.
    pub anchors: Vec<String>,
    /// Index of the enclosing loop in the list of loops.
    pub parent: Option<usize>,
    /// Nesting depth.
    pub depth: usize,
}

/// All loops of a workflow, outer before inner, in a deterministic order.
pub fn find_loops(workflow: &Workflow) -> Vec<Loop> {
    let topology = Topology::new(workflow);
    let distance = topology.distances(&topology.entries());
    let finder = LoopFinder { workflow, topology, distance };
    let all: BTreeSet<usize> = (0..finder.topology.names.len()).collect();
    let mut found: Vec<Loop> = Vec::new();
    // Explicit stack instead of recursion: nesting can be as deep as the graph is large. It is last-in first-out, so
    // the components are pushed in reverse.
    let mut open: Vec<(LoopCandidate, Option<usize>)> = Vec::new();
    open.extend(finder.components(&all).into_iter().rev().map(|p| (p, None)));
    while let Some((part, parent)) = open.pop() {
        let position = found.len();
        let depth = parent.and_then(|p| found.get(p)).map_or(0, |l| l.depth + 1);
        found.push(finder.to_loop(&part, parent, depth));
        let inner = finder.inner_loops(&part);
        open.extend(inner.into_iter().rev().map(|p| (p, Some(position))));
    }
    found
}

/// For each loop of an edited graph, the loop of the old graph whose counters it inherits: the one with the same id,
/// else the one that shares the most nodes. Each old loop is used once; ties go to the smaller id. `None` = a new loop,
/// which starts at zero.
pub fn match_loops(old: &[Loop], new: &[Loop]) -> Vec<Option<usize>> {
    let by_id: BTreeMap<&str, usize> = old.iter().enumerate().map(|(i, l)| (&*l.id, i)).collect();
    let mut used = BTreeSet::new();
    let mut result: Vec<Option<usize>> =
        new.iter().map(|l| by_id.get(&*l.id).copied().filter(|&i| used.insert(i))).collect();
    let mut pairs = Vec::new();
    for (n, after) in new.iter().enumerate() {
        let members: BTreeSet<&String> = after.nodes.iter().collect();
        for (o, before) in old.iter().enumerate() {
            let shared = before.nodes.iter().filter(|x| members.contains(x)).count();
            if shared > 0 {
                pairs.push((std::cmp::Reverse(shared), &before.id, &after.id, n, o));
            }
        }
    }
    pairs.sort();
    for (_, _, _, n, o) in pairs {
        if result[n].is_none() && used.insert(o) {
            result[n] = Some(o);
        }
    }
    result
}

/// A loop candidate, by node number.
struct LoopCandidate {
    nodes: BTreeSet<usize>,
    header: usize,
    /// Only the header's self-edges belong to this loop.
    self_edge_only: bool,
}

struct LoopFinder<'a> {
    workflow: &'a Workflow,
    topology: Topology<'a>,
    distance: Vec<usize>,
}

impl LoopFinder<'_> {
    /// Sort key of a node: how early a run reaches it.
    fn rank(&self, node: usize) -> (usize, &str) {
        (self.distance[node], self.topology.names[node])
    }

    /// The maximal loops among `members`, in the order in which a run reaches them.
    fn components(&self, members: &BTreeSet<usize>) -> Vec<LoopCandidate> {
        let mut graph: DiGraph<usize, ()> = DiGraph::new();
        let place: BTreeMap<usize, NodeIndex> = members.iter().map(|&n| (n, graph.add_node(n))).collect();
        let mut selfish = BTreeSet::new();
        for &(from, to, _) in &self.topology.edges {
            if let (Some(&a), Some(&b)) = (place.get(&from), place.get(&to)) {
                graph.add_edge(a, b, ());
                if a == b {
                    selfish.insert(from);
                }
            }
        }
        let mut parts = Vec::new();
        for component in kosaraju_scc(&graph) {
            let nodes: BTreeSet<usize> = component.iter().map(|&i| graph[i]).collect();
            let header = nodes.iter().copied().min_by_key(|&n| self.rank(n));
            if let Some(header) = header
                && (nodes.len() > 1 || selfish.contains(&header))
            {
                parts.push(LoopCandidate { self_edge_only: nodes.len() == 1, nodes, header });
            }
        }
        parts.sort_by_key(|part| self.rank(part.header));
        parts
    }

    /// The loops that remain without the header.
    fn inner_loops(&self, part: &LoopCandidate) -> Vec<LoopCandidate> {
        if part.self_edge_only {
            return Vec::new();
        }
        let mut rest = part.nodes.clone();
        rest.remove(&part.header);
        let mut parts = self.components(&rest);
        let own = |&(from, to, _): &(usize, usize, usize)| from == part.header && to == from;
        if self.topology.edges.iter().any(own) {
            let header = LoopCandidate {
                nodes: BTreeSet::from([part.header]),
                header: part.header,
                self_edge_only: true,
            };
            parts.insert(0, header);
        }
        parts
    }

    fn to_loop(&self, part: &LoopCandidate, parent: Option<usize>, depth: usize) -> Loop {
        let mut edges = Vec::new();
        let mut anchors = Vec::new();
        for &(from, to, position) in &self.topology.edges {
            if !(part.nodes.contains(&from) && part.nodes.contains(&to)) {
                continue;
            }
            let Some(edge) = self.workflow.edges.get(position) else {
                continue;
            };
            edges.push(edge.id.clone());
            if to == part.header && (from != to || part.self_edge_only) {
                anchors.push(edge.id.clone());
            }
        }
        let names = part.nodes.iter().map(|&n| self.topology.names[n]);
        let mut nodes: Vec<String> = names.map(str::to_owned).collect();
        nodes.sort();
        edges.sort();
        anchors.sort();
        Loop {
            id: stable_id(&nodes, &edges),
            nodes,
            edges,
            header: self.topology.names[part.header].to_owned(),
            anchors,
            parent,
            depth,
        }
    }
}

/// `loop-` and 12 hexadecimal digits over the sorted names. Each name is prefixed with its length, so that different
/// lists never give the same bytes.
fn stable_id(nodes: &[String], edges: &[String]) -> String {
    let mut bytes = Vec::new();
    for list in [nodes, edges] {
        bytes.extend((list.len() as u64).to_le_bytes());
        for name in list {
            bytes.extend((name.len() as u64).to_le_bytes());
            bytes.extend(name.as_bytes());
        }
    }
    format!("loop-{:012x}", xxh3_64(&bytes) >> 16)
}

#[cfg(test)]
#[path = "loops_tests.rs"]
mod tests;
