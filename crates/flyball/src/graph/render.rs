//! Renders a workflow with its loops: as text for a terminal, as SVG, DOT and Mermaid. The same view always gives the
//! same bytes.

use std::collections::BTreeMap;

use super::loops::{Loop, find_loops};
use super::{MAX_EDGES, MAX_NODES, Topology, Workflow, display_name};

mod ascii;
mod dot;
mod layout;
mod mermaid;
mod order;
mod routes;
mod svg;

pub use ascii::ascii;
pub use dot::dot;
pub use mermaid::mermaid;
pub use svg::svg;

/// Maximum length of a node name, in characters.
const MAX_NAME_CHARS: usize = 36;
/// Maximum length of a badge, mark or reason, in characters.
const MAX_TEXT_CHARS: usize = 60;

/// A graph to render.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphView {
    /// The graph.
    pub workflow: Workflow,
    /// Its loops, as returned by [`find_loops`].
    pub loops: Vec<Loop>,
    /// Loop badges, by loop id.
    pub badges: BTreeMap<String, LoopBadge>,
    /// Short notes on nodes, by name; for example `5/10 visits`.
    pub node_marks: BTreeMap<String, String>,
    /// The current node of the session.
    pub current: Option<String>,
}

/// Status of a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopBadge {
    /// Completed iterations.
    pub iterations: u64,
    /// Iteration limit; `None` = no limit.
    pub limit: Option<u64>,
    /// Why the loop was halted, if it was.
    pub halt_reason: Option<String>,
    /// Progress trend, for example `failing tests 7 → 4 → 2`.
    pub trend: Option<String>,
}

impl GraphView {
    /// A graph with its loops, without session data.
    pub fn new(workflow: Workflow) -> Self {
        GraphView { loops: find_loops(&workflow), workflow, ..GraphView::default() }
    }
}

/// The text next to a loop.
struct LoopLabel {
    /// `Loop 3/8`.
    badge: String,
    /// Halt reason.
    halt: Option<String>,
    /// Progress trend.
    trend: Option<String>,
}

/// The view by node number: nodes, loops and their texts.
struct GraphScene<'a> {
    view: &'a GraphView,
    /// Full names.
    full_names: Vec<&'a str>,
    /// Names prepared for display.
    names: Vec<String>,
    /// Notes on nodes prepared for display.
    marks: Vec<Option<String>>,
    current: Option<usize>,
    /// (from, to, position in the workflow's edges).
    edges: Vec<(usize, usize, usize)>,
    /// The loop that each edge closes, by index in `edges`.
    closed_loop: Vec<Option<usize>>,
    /// Innermost loop of each node.
    innermost: Vec<Option<usize>>,
    /// The header of each loop.
    headers: Vec<usize>,
    /// Number of steps from the start.
    distance: Vec<usize>,
}

impl<'a> GraphScene<'a> {
    /// Builds the scene; `Err` = text to show instead of a drawing.
    fn new(view: &'a GraphView) -> Result<Self, String> {
        let (nodes, edges) = (view.workflow.nodes.len(), view.workflow.edges.len());
        if nodes > MAX_NODES || edges > MAX_EDGES {
            return Err(format!(
                "too large to draw: {nodes} nodes and {edges} edges; at most {MAX_NODES} and {MAX_EDGES}"
            ));
        }
        let topology = Topology::new(&view.workflow);
        let number = |name: &str| topology.names.iter().position(|n| *n == name);
        let mut innermost = vec![None; topology.names.len()];
        let mut closed: BTreeMap<&str, usize> = BTreeMap::new();
        let mut headers = Vec::new();
        for (position, found) in view.loops.iter().enumerate() {
            for node in found.nodes.iter().filter_map(|n| number(n)) {
                innermost[node] = Some(position);
            }
            closed.extend(found.anchors.iter().map(|id| (&**id, position)));
            let header = number(&found.header);
            let nested = found.parent.is_none_or(|parent| parent < position);
            headers.push(header.filter(|_| nested).ok_or("the loops belong to another graph")?);
        }
        let close = |position: usize| {
            let edge = view.workflow.edges.get(position)?;
            closed.get(&*edge.id).copied()
        };
        let mark = |name: &&str| view.node_marks.get(*name).map(|m| display_name(m, MAX_TEXT_CHARS));
        Ok(GraphScene {
            names: topology.names.iter().map(|n| display_name(n, MAX_NAME_CHARS)).collect(),
            marks: topology.names.iter().map(mark).collect(),
            current: view.current.as_deref().and_then(number),
            closed_loop: topology.edges.iter().map(|e| close(e.2)).collect(),
            distance: topology.distances(&topology.entries()),
            edges: topology.edges,
            full_names: topology.names,
            innermost,
            headers,
            view,
        })
    }

    /// The loops around a node, outermost first.
    fn enclosing_loops(&self, node: usize) -> Vec<usize> {
        let mut around = Vec::new();
        let mut next = self.innermost[node];
        while let Some(inside) = next {
            around.push(inside);
            next = self.view.loops[inside].parent;
        }
        around.reverse();
        around
    }

    /// Whether a parallel edge was already drawn; only the first is.
    fn is_drawn_before(&self, edge: usize) -> bool {
        let ends = |e: &(usize, usize, usize)| (e.0, e.1);
        let own = self.edges.get(edge).map(ends);
        self.edges.iter().take(edge).any(|e| Some(ends(e)) == own)
    }

    fn label(&self, position: usize) -> LoopLabel {
        let id = &self.view.loops[position].id;
        let Some(badge) = self.view.badges.get(id) else {
            return LoopLabel { badge: "Loop".to_owned(), halt: None, trend: None };
        };
        let of = badge.limit.map_or_else(String::new, |limit| format!("/{limit}"));
        let short = |text: &String| display_name(text, MAX_TEXT_CHARS);
        LoopLabel {
            badge: format!("Loop {}{of}", badge.iterations),
            halt: badge.halt_reason.as_ref().map(short),
            trend: badge.trend.as_ref().map(short),
        }
    }

    /// The text next to a loop, one line each.
    fn label_lines(&self, position: usize) -> Vec<String> {
        let label = self.label(position);
        let first = match label.halt {
            Some(halt) => format!("{} · halted: {halt}", label.badge),
            None => label.badge,
        };
        [Some(first), label.trend].into_iter().flatten().collect()
    }
}

/// Approximate terminal width of a text: wide East Asian characters and emoji take two columns.
fn display_width(text: &str) -> usize {
    text.chars()
        .map(|c| match u32::from(c) {
            0x0300..=0x036f | 0xfe00..=0xfe0f => 0,
            0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff => 2,
            0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff => 2,
            0x20000..=0x3fffd => 2,
            _ => 1,
        })
        .sum()
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
