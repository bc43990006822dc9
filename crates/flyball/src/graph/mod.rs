//! The workflow graph: nodes, edges, loops, worst-case bounds and rendering.
//!
//! Everything here is pure and deterministic: the same graph gives the same loops, ids, bounds and drawings on every
//! machine.

pub mod bounds;
mod explain;
mod flow_network;
mod longest_walk;
pub mod loops;
mod reachability;
pub mod render;
mod walk_search;
mod workflow_limits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use serde::{Deserialize, Serialize};

pub use bounds::{WorstCaseBound, WorstCaseBounds, worst_case_bounds};
pub use loops::{Loop, find_loops, match_loops};
pub use render::{GraphView, LoopBadge};
pub use workflow_limits::{CycleRule, WorkflowLimits};

/// Maximum number of nodes in a workflow.
pub const MAX_NODES: usize = 128;
/// Maximum number of edges in a workflow.
pub const MAX_EDGES: usize = 256;
/// Maximum total length of all names in a workflow (nodes, edge ids, signals), in bytes.
pub const MAX_NAME_BYTES: usize = 6 * 1024;
/// Maximum length of a name in an error message, in characters.
const MAX_SHOWN_NAME_CHARS: usize = 60;

/// A graph of nodes and edges that a runner executes.
///
/// When deserialized, an edge may omit its `id` (it becomes `from->to`, a second parallel one `from->to#2`), and
/// `nodes` may be omitted if every node is named by an edge. The order of the lists has no meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RawWorkflow")]
pub struct Workflow {
    /// Node names, in listed order.
    pub nodes: Vec<String>,
    /// Edges, in listed order.
    pub edges: Vec<Edge>,
    /// Names of the progress signals that the loops of this workflow send.
    pub signals: Vec<String>,
    /// The start node, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
}

/// An edge between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// Name of the edge, unique in its workflow.
    pub id: String,
    /// Source node.
    pub from: String,
    /// Destination node.
    pub to: String,
}

/// The serialized form of a [`Workflow`].
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
    /// Builds a workflow: assigns missing edge ids, and derives the nodes from the edges if none are listed.
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
        // Explicit ids are reserved first, so that a generated id never collides with one.
        let mut taken: BTreeSet<String> = edges.iter().filter_map(|e| e.0.clone()).collect();
        let edges = edges
            .into_iter()
            .map(|(id, from, to)| {
                let id = id.unwrap_or_else(|| unique_edge_id(&mut taken, &from, &to));
                Edge { id, from, to }
            })
            .collect();
        Workflow { nodes, edges, signals, start: None }
    }

    /// Whether the start is unknown: every node has an incoming edge from another node, and no start is declared.
    #[must_use]
    pub(crate) fn is_start_unknown(&self) -> bool {
        let entered = |node: &String| self.edges.iter().any(|edge| edge.to == *node && edge.from != *node);
        self.start.is_none() && self.nodes.iter().all(entered)
    }

    /// A workflow from pairs of names, each an edge without an id. For tests and examples.
    pub fn from_pairs(pairs: &[(&str, &str)]) -> Self {
        let edges = pairs.iter().map(|(from, to)| (None, (*from).to_owned(), (*to).to_owned()));
        Workflow::new(Vec::new(), edges, Vec::new())
    }

    /// Validates the graph and its size.
    ///
    /// # Errors
    /// The first problem found, with a stable code, a message and a hint.
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
        // An id that can be derived from its edge takes no space.
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

/// The first unused id of `from->to`, `from->to#2`, `from->to#3`, …
fn unique_edge_id(taken: &mut BTreeSet<String>, from: &str, to: &str) -> String {
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

/// Why a workflow is invalid.
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
        /// The unknown node name.
        node: String,
    },
    /// The start node is not listed.
    UnknownStart {
        /// The unknown node name.
        node: String,
    },
    /// Two edges have the same id.
    DuplicateEdge {
        /// The id used twice.
        edge: String,
    },
    /// The graph is larger than allowed.
    TooLarge {
        /// The kind of item that exceeds the limit.
        what: &'static str,
        /// The actual number.
        count: usize,
        /// The allowed number.
        limit: usize,
    },
}

impl GraphError {
    /// Stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            GraphError::EmptyName => "workflow_empty_name",
            GraphError::DuplicateNode { .. } => "workflow_duplicate_node",
            GraphError::UnknownNode { .. } | GraphError::UnknownStart { .. } => "workflow_unknown_node",
            GraphError::DuplicateEdge { .. } => "workflow_duplicate_edge",
            GraphError::TooLarge { .. } => "workflow_too_large",
        }
    }

    /// Message: what is wrong, in one line.
    pub fn message(&self) -> String {
        match self {
            GraphError::EmptyName => "a node or an edge has an empty name".to_owned(),
            GraphError::DuplicateNode { node } => {
                format!("node '{}' is listed twice", display_name(node, MAX_SHOWN_NAME_CHARS))
            }
            GraphError::UnknownNode { edge, node } => format!(
                "edge '{}' names node '{}', which is not listed",
                display_name(edge, MAX_SHOWN_NAME_CHARS),
                display_name(node, MAX_SHOWN_NAME_CHARS)
            ),
            GraphError::UnknownStart { node } => {
                format!("the start '{}' is not a listed node", display_name(node, MAX_SHOWN_NAME_CHARS))
            }
            GraphError::DuplicateEdge { edge } => {
                format!("two edges have the id '{}'", display_name(edge, MAX_SHOWN_NAME_CHARS))
            }
            GraphError::TooLarge { what, count, limit } => {
                format!("the workflow has {count} {what}; at most {limit} are allowed")
            }
        }
    }

    /// Hint: how to fix it, in one line.
    pub fn help(&self) -> String {
        match self {
            GraphError::EmptyName => "give every node and edge a name".to_owned(),
            GraphError::DuplicateNode { .. } => {
                "remove one of the two, or rename it together with its edges".to_owned()
            }
            GraphError::UnknownNode { node, .. } => {
                format!("add '{}' to nodes, or correct the edge", display_name(node, MAX_SHOWN_NAME_CHARS))
            }
            GraphError::UnknownStart { node } => {
                format!("add '{}' to nodes, or correct start", display_name(node, MAX_SHOWN_NAME_CHARS))
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
        write!(f, "{}: {}; {}", self.code(), self.message(), self.help())
    }
}

impl std::error::Error for GraphError {}

/// A name made safe for one line of text: no control or bidirectional characters, at most `limit` characters.
pub(crate) fn display_name(name: &str, limit: usize) -> String {
    let mut text: String = name
        .chars()
        .take(limit.saturating_add(1))
        .map(|c| if is_unprintable(c) { '\u{b7}' } else { c })
        .collect();
    if text.chars().count() > limit {
        text = text.chars().take(limit.saturating_sub(1)).collect();
        text.push('…');
    }
    text
}

/// Characters that would break a line, a layout or the reading direction.
fn is_unprintable(c: char) -> bool {
    crate::is_deceptive(c) || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// The graph with node numbers instead of names. Edges with unlisted nodes are omitted, so that an unvalidated workflow
/// is harmless.
pub(crate) struct Topology<'a> {
    /// Names by number.
    pub names: Vec<&'a str>,
    /// (from, to, position in the workflow's edges).
    pub edges: Vec<(usize, usize, usize)>,
    /// The declared start node.
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

    /// Entry nodes: the declared start, else the nodes without incoming edges from other nodes, else the first by name.
    /// Independent of list order, so that equivalent workflows have the same loops.
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

    /// Number of steps from the nearest of `starts` to each node; `usize::MAX` = unreachable.
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
#[path = "graph_tests.rs"]
mod tests;
