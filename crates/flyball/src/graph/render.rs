//! Draws a workflow with its loops: as text for a terminal, as SVG for a page, as DOT and
//! Mermaid for other tools. The same view gives the same bytes everywhere.

use std::collections::BTreeMap;

use super::loops::{Loop, loops};
use super::{MAX_EDGES, MAX_NODES, Topology, Workflow, shown};

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

/// How much of a node's name is drawn.
const SHOWN_NAME: usize = 36;
/// How much of a badge, mark or reason is drawn.
const SHOWN_TEXT: usize = 60;

/// What to draw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The graph.
    pub workflow: Workflow,
    /// Its loops, as [`loops`] finds them.
    pub loops: Vec<Loop>,
    /// What is known about loops, by loop id.
    pub badges: BTreeMap<String, Badge>,
    /// A short note on a node, for example `5/10 visits`, by name.
    pub node_marks: BTreeMap<String, String>,
    /// The node the session is at.
    pub current: Option<String>,
}

/// How a loop is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Badge {
    /// Iterations completed.
    pub iterations: u64,
    /// Iterations allowed; `None` = no limit.
    pub limit: Option<u64>,
    /// Why the loop was halted, if it was.
    pub halt_reason: Option<String>,
    /// How progress went, for example `failing tests 7 → 4 → 2`.
    pub trend: Option<String>,
}

impl View {
    /// The bare graph with its loops, nothing known about a session.
    pub fn new(workflow: Workflow) -> Self {
        View { loops: loops(&workflow), workflow, ..View::default() }
    }
}

/// The words beside a loop.
struct Label {
    /// `Loop 3/8`.
    badge: String,
    /// Why it was halted.
    halt: Option<String>,
    /// How progress went.
    trend: Option<String>,
}

/// The view by number: which node is in which loop, and what is written where.
struct Scene<'a> {
    view: &'a View,
    /// Whole names, as they were given.
    full_names: Vec<&'a str>,
    /// Names, ready to be shown.
    names: Vec<String>,
    /// Notes on nodes, ready to be shown.
    marks: Vec<Option<String>>,
    current: Option<usize>,
    /// (from, to, position in the workflow's edges).
    edges: Vec<(usize, usize, usize)>,
    /// The loop that each edge closes, by place in `edges`.
    closes: Vec<Option<usize>>,
    /// The smallest loop around each node.
    innermost: Vec<Option<usize>>,
    /// The header of each loop.
    headers: Vec<usize>,
    /// Steps from where a run starts.
    distance: Vec<usize>,
}

impl<'a> Scene<'a> {
    /// `Err` = what to say instead of a drawing.
    fn new(view: &'a View) -> Result<Self, String> {
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
        let mark = |name: &&str| view.node_marks.get(*name).map(|m| shown(m, SHOWN_TEXT));
        Ok(Scene {
            names: topology.names.iter().map(|n| shown(n, SHOWN_NAME)).collect(),
            marks: topology.names.iter().map(mark).collect(),
            current: view.current.as_deref().and_then(number),
            closes: topology.edges.iter().map(|e| close(e.2)).collect(),
            distance: topology.distances(&topology.entries()),
            edges: topology.edges,
            full_names: topology.names,
            innermost,
            headers,
            view,
        })
    }

    /// The loops around a node, the outermost first.
    fn around(&self, node: usize) -> Vec<usize> {
        let mut around = Vec::new();
        let mut next = self.innermost[node];
        while let Some(inside) = next {
            around.push(inside);
            next = self.view.loops[inside].parent;
        }
        around.reverse();
        around
    }

    /// Parallel edges are drawn once, as the first of them.
    fn is_drawn_before(&self, edge: usize) -> bool {
        let ends = |e: &(usize, usize, usize)| (e.0, e.1);
        let own = self.edges.get(edge).map(ends);
        self.edges.iter().take(edge).any(|e| Some(ends(e)) == own)
    }

    fn label(&self, position: usize) -> Label {
        let id = &self.view.loops[position].id;
        let Some(badge) = self.view.badges.get(id) else {
            return Label { badge: "Loop".to_owned(), halt: None, trend: None };
        };
        let of = badge.limit.map_or_else(String::new, |limit| format!("/{limit}"));
        let short = |text: &String| shown(text, SHOWN_TEXT);
        Label {
            badge: format!("Loop {}{of}", badge.iterations),
            halt: badge.halt_reason.as_ref().map(short),
            trend: badge.trend.as_ref().map(short),
        }
    }

    /// The words beside a loop, one line each.
    fn label_lines(&self, position: usize) -> Vec<String> {
        let label = self.label(position);
        let first = match label.halt {
            Some(halt) => format!("{} · halted: {halt}", label.badge),
            None => label.badge,
        };
        [Some(first), label.trend].into_iter().flatten().collect()
    }
}

/// Columns that a text takes in a terminal, near enough: wide East Asian letters and
/// pictures take two.
fn columns(text: &str) -> usize {
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
