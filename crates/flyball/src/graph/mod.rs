//! The workflow graph: what its nodes and edges are, which loops it holds, how long a run
//! through it can last at worst, and how it is drawn.
//!
//! Everything here is pure and deterministic: the same graph gives the same loops, ids,
//! bounds and pictures on every machine.

pub mod bounds;
mod explain;
mod flow;
mod limits;
mod longest;
pub mod loops;
mod reach;
pub mod render;
mod search;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use serde::{Deserialize, Serialize};

pub use bounds::{Bound, Bounds, bounds};
pub use limits::{CycleRule, Limits};
pub use loops::{Loop, carry_over, loops};
pub use render::{Badge, View};

/// The most nodes a workflow may have.
pub const MAX_NODES: usize = 128;
/// The most edges a workflow may have.
pub const MAX_EDGES: usize = 256;
/// The most bytes that all names of a workflow (nodes, edge ids, signals) may take together.
pub const MAX_NAME_BYTES: usize = 6 * 1024;
/// How much of a name an error message shows.
const SHOWN_NAME: usize = 60;

/// A graph of nodes and edges that a runner executes.
///
/// Read with serde, an edge may lack its `id` (it becomes `from->to`, the second parallel
/// one `from->to#2`), and `nodes` may be left out when every node is named by an edge. The
/// order of the lists means nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RawWorkflow")]
pub struct Workflow {
    /// Names of the nodes, in the order they were listed.
    pub nodes: Vec<String>,
    /// The edges, in the order they were listed.
    pub edges: Vec<Edge>,
    /// Names of the progress signals that the loops of this workflow promise to send.
    pub signals: Vec<String>,
    /// The node a run starts at, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
}

/// One way from a node to a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// The edge's own name, unique in its workflow.
    pub id: String,
    /// The node it leaves.
    pub from: String,
    /// The node it enters.
    pub to: String,
}

/// What a file may hold; [`Workflow`] is what it means.
#[derive(Deserialize)]
struct RawWorkflow {
    #[serde(default)]
    nodes: Vec<String>,
    #[serde(default)]
    edges: Vec<RawEdge>,
    #[serde(default)]
    signals: Vec<String>,
    #[serde(default)]
    start: Option<String>,
}

#[derive(Deserialize)]
struct RawEdge {
    #[serde(default)]
    id: Option<String>,
    from: String,
    to: String,
}

impl From<RawWorkflow> for Workflow {
    fn from(raw: RawWorkflow) -> Self {
        let edges = raw.edges.into_iter().map(|e| (e.id, e.from, e.to));
        Workflow { start: raw.start, ..Workflow::new(raw.nodes, edges, raw.signals) }
    }
}

impl Workflow {
    /// Builds a workflow: names edges that lack an id, and takes the nodes from the edges
    /// when none are listed.
    pub fn new(
        mut nodes: Vec<String>,
        edges: impl IntoIterator<Item = (Option<String>, String, String)>,
        signals: Vec<String>,
    ) -> Self {
        let edges: Vec<_> = edges.into_iter().collect();
        if nodes.is_empty() {
            let mut seen = BTreeSet::new();
            for name in edges.iter().flat_map(|(_, from, to)| [from, to]) {
                if seen.insert(name.as_str()) {
                    nodes.push(name.clone());
                }
            }
        }
        // Ids that were given are taken first, so that a made-up id never pushes one aside.
        let mut taken: BTreeSet<String> = edges.iter().filter_map(|e| e.0.clone()).collect();
        let edges = edges
            .into_iter()
            .map(|(id, from, to)| {
                let id = id.unwrap_or_else(|| free_id(&mut taken, &from, &to));
                Edge { id, from, to }
            })
            .collect();
        Workflow { nodes, edges, signals, start: None }
    }

    /// Whether nothing says where a run starts: every node is entered by another, and none is named as the start.
    #[must_use]
    pub(crate) fn start_is_open(&self) -> bool {
        let entered = |node: &String| self.edges.iter().any(|edge| edge.to == *node && edge.from != *node);
        self.start.is_none() && self.nodes.iter().all(entered)
    }

    /// A workflow from pairs of names, each an edge without an id. Handy in tests and examples.
    pub fn from_pairs(pairs: &[(&str, &str)]) -> Self {
        let edges = pairs.iter().map(|(from, to)| (None, (*from).to_owned(), (*to).to_owned()));
        Workflow::new(Vec::new(), edges, Vec::new())
    }

    /// Checks that the graph makes sense and is not too large.
    ///
    /// # Errors
    /// The first problem found, with a stable code, what is wrong and what to do.
    pub fn validate(&self) -> Result<(), GraphError> {
        self.validate_size()?;
        let mut nodes = BTreeSet::new();
        for node in &self.nodes {
            if node.is_empty() {
                return Err(GraphError::EmptyName);
            }
            if !nodes.insert(node.as_str()) {
                return Err(GraphError::DuplicateNode { node: node.clone() });
            }
        }
        let mut ids = BTreeSet::new();
        for edge in &self.edges {
            if edge.id.is_empty() {
                return Err(GraphError::EmptyName);
            }
            if !ids.insert(edge.id.as_str()) {
                return Err(GraphError::DuplicateEdge { edge: edge.id.clone() });
            }
            for node in [&edge.from, &edge.to] {
                if !nodes.contains(node.as_str()) {
                    return Err(GraphError::UnknownNode { edge: edge.id.clone(), node: node.clone() });
                }
            }
        }
        match &self.start {
            Some(start) if !nodes.contains(start.as_str()) => {
                Err(GraphError::UnknownStart { node: start.clone() })
            }
            _ => Ok(()),
        }
    }

    fn validate_size(&self) -> Result<(), GraphError> {
        let named = self.nodes.iter().chain(&self.signals);
        // An id that follows from the ends of its edge costs nothing.
        let own_ids =
            self.edges.iter().filter(|e| e.id != format!("{}->{}", e.from, e.to)).map(|e| e.id.len());
        let bytes: usize = named.map(String::len).sum::<usize>() + own_ids.sum::<usize>();
        let sizes = [
            ("nodes", self.nodes.len(), MAX_NODES),
            ("edges", self.edges.len(), MAX_EDGES),
            ("bytes of names", bytes, MAX_NAME_BYTES),
        ];
        for (what, count, limit) in sizes {
            if count > limit {
                return Err(GraphError::TooLarge { what, count, limit });
            }
        }
        Ok(())
    }
}

/// The first of `from->to`, `from->to#2`, `from->to#3`, … that nobody has yet.
fn free_id(taken: &mut BTreeSet<String>, from: &str, to: &str) -> String {
    let plain = format!("{from}->{to}");
    let mut id = plain.clone();
    let mut number = 2u64;
    while taken.contains(&id) {
        id = format!("{plain}#{number}");
        number += 1;
    }
    taken.insert(id.clone());
    id
}

/// Why a workflow cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphError {
    /// A node or an edge has an empty name.
    EmptyName,
    /// A node is listed twice.
    DuplicateNode {
        /// The name listed twice.
        node: String,
    },
    /// An edge starts or ends at a node that is not listed.
    UnknownNode {
        /// The edge's id.
        edge: String,
        /// The name that no node has.
        node: String,
    },
    /// The start is a node that is not listed.
    UnknownStart {
        /// The name that no node has.
        node: String,
    },
    /// Two edges have the same id.
    DuplicateEdge {
        /// The id used twice.
        edge: String,
    },
    /// The graph is larger than allowed.
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
}

impl GraphError {
    /// A stable word for programs and for searching.
    pub fn code(&self) -> &'static str {
        match self {
            GraphError::EmptyName => "workflow_empty_name",
            GraphError::DuplicateNode { .. } => "workflow_duplicate_node",
            GraphError::UnknownNode { .. } | GraphError::UnknownStart { .. } => "workflow_unknown_node",
            GraphError::DuplicateEdge { .. } => "workflow_duplicate_edge",
            GraphError::TooLarge { .. } => "workflow_too_large",
        }
    }

    /// One line: what is wrong.
    pub fn what(&self) -> String {
        match self {
            GraphError::EmptyName => "a node or an edge has an empty name".to_owned(),
            GraphError::DuplicateNode { node } => {
                format!("node '{}' is listed twice", shown(node, SHOWN_NAME))
            }
            GraphError::UnknownNode { edge, node } => format!(
                "edge '{}' names node '{}', which is not listed",
                shown(edge, SHOWN_NAME),
                shown(node, SHOWN_NAME)
            ),
            GraphError::UnknownStart { node } => {
                format!("the start '{}' is not a listed node", shown(node, SHOWN_NAME))
            }
            GraphError::DuplicateEdge { edge } => {
                format!("two edges have the id '{}'", shown(edge, SHOWN_NAME))
            }
            GraphError::TooLarge { what, count, limit } => {
                format!("the workflow has {count} {what}; at most {limit} are allowed")
            }
        }
    }

    /// One line: what to do about it.
    pub fn what_to_do(&self) -> String {
        match self {
            GraphError::EmptyName => "give every node and edge a name".to_owned(),
            GraphError::DuplicateNode { .. } => {
                "remove one of the two, or rename it together with its edges".to_owned()
            }
            GraphError::UnknownNode { node, .. } => {
                format!("add '{}' to nodes, or correct the edge", shown(node, SHOWN_NAME))
            }
            GraphError::UnknownStart { node } => {
                format!("add '{}' to nodes, or correct start", shown(node, SHOWN_NAME))
            }
            GraphError::DuplicateEdge { .. } => "give each edge its own id, or leave the ids out".to_owned(),
            GraphError::TooLarge { what, .. } => {
                format!("split the workflow, or use fewer {what}")
            }
        }
    }
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.code(), self.what(), self.what_to_do())
    }
}

impl std::error::Error for GraphError {}

/// A name made safe for one line of text: no control or direction-changing characters,
/// at most `limit` characters.
pub(crate) fn shown(name: &str, limit: usize) -> String {
    let mut text: String = name
        .chars()
        .take(limit.saturating_add(1))
        .map(|c| if unprintable(c) { '\u{b7}' } else { c })
        .collect();
    if text.chars().count() > limit {
        text = text.chars().take(limit.saturating_sub(1)).collect();
        text.push('…');
    }
    text
}

/// Characters that would break a line, a layout or the reading direction.
fn unprintable(c: char) -> bool {
    crate::is_deceptive(c) || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// The graph with numbers for names. Edges that name no listed node are left out, so that
/// a workflow that was never validated cannot do harm.
pub(crate) struct Topology<'a> {
    /// Names by number.
    pub names: Vec<&'a str>,
    /// (from, to, position in the workflow's edges).
    pub edges: Vec<(usize, usize, usize)>,
    /// The node that the workflow says a run starts at.
    start: Option<usize>,
}

impl<'a> Topology<'a> {
    pub(crate) fn new(workflow: &'a Workflow) -> Self {
        let mut numbers = BTreeMap::new();
        let mut names = Vec::new();
        for name in &workflow.nodes {
            if !numbers.contains_key(name.as_str()) {
                numbers.insert(name.as_str(), names.len());
                names.push(name.as_str());
            }
        }
        let mut edges = Vec::new();
        for (position, edge) in workflow.edges.iter().enumerate() {
            let ends = (numbers.get(&*edge.from), numbers.get(&*edge.to));
            if let (Some(&from), Some(&to)) = ends {
                edges.push((from, to, position));
            }
        }
        let start = workflow.start.as_deref().and_then(|start| numbers.get(start)).copied();
        Topology { names, edges, start }
    }

    /// Where a run starts: the start that the workflow names, else the nodes that no other node leads to, else the
    /// first by name. Never by the order of the lists: two that say the same must give the same loops.
    pub(crate) fn entries(&self) -> Vec<usize> {
        if let Some(start) = self.start {
            return vec![start];
        }
        let mut entered = vec![false; self.names.len()];
        for &(from, to, _) in &self.edges {
            entered[to] |= from != to;
        }
        let free: Vec<usize> = (0..entered.len()).filter(|&n| !entered[n]).collect();
        if free.is_empty() {
            return (0..self.names.len()).min_by_key(|&n| self.names[n]).into_iter().collect();
        }
        free
    }

    /// Steps from the nearest of `starts` to each node; `usize::MAX` = not reachable.
    pub(crate) fn distances(&self, starts: &[usize]) -> Vec<usize> {
        let mut next = vec![Vec::new(); self.names.len()];
        for &(from, to, _) in &self.edges {
            next[from].push(to);
        }
        let mut distance = vec![usize::MAX; self.names.len()];
        let mut queue = VecDeque::new();
        for &start in starts {
            distance[start] = 0;
            queue.push_back(start);
        }
        while let Some(node) = queue.pop_front() {
            for &to in &next[node] {
                if distance[to] == usize::MAX {
                    distance[to] = distance[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        distance
    }
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
