//! Where the work is: the workflow of the session, its loops with their counters, and the way that was gone.

use crate::event::{Event, Kind, Usage};
use crate::graph::{Loop, Workflow, carry_over, loops};
use crate::limits::SHOWN_NAME_BYTES;
use crate::rules_version::RulesVersion;
use crate::window::cut;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What one loop has used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoopUse {
    /// Completed iterations: deliveries along an anchor edge.
    pub(crate) iterations: u64,
    /// Time in which one of its nodes was at work.
    pub(crate) runtime_ms: u64,
    /// What its nodes cost.
    pub(crate) cost_micro_usd: u64,
}

/// The session's place in its workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flow {
    graph: Option<Packed>,
    /// Unpacked from the graph; not stored.
    #[serde(skip)]
    workflow: Option<Workflow>,
    /// Derived from the workflow; not stored.
    #[serde(skip)]
    loops: Vec<Loop>,
    used: Vec<LoopUse>,
    /// Where loops are counted from: the start that the workflow names, else the first node at work if the graph leaves
    /// it open. Stored beside the rest, because states of version 1 have no place for it.
    #[serde(skip)]
    pub(crate) start: Option<String>,
    /// Where the work is.
    node: Option<String>,
    trail: VecDeque<(String, String)>,
}

/// A workflow with every name written once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Packed {
    nodes: Vec<String>,
    /// Id, from, to; an id that follows from the ends is left out.
    edges: Vec<(Option<String>, u16, u16)>,
    signals: Vec<String>,
}

impl Packed {
    fn new(workflow: &Workflow) -> Self {
        let number = |name: &str| {
            let at = workflow.nodes.iter().position(|node| node == name);
            at.and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX)
        };
        let edges = workflow.edges.iter().map(|edge| {
            let plain = edge.id == format!("{}->{}", edge.from, edge.to);
            ((!plain).then(|| edge.id.clone()), number(&edge.from), number(&edge.to))
        });
        Packed { nodes: workflow.nodes.clone(), edges: edges.collect(), signals: workflow.signals.clone() }
    }

    fn unpack(&self) -> Workflow {
        let name = |at: u16| self.nodes.get(usize::from(at)).cloned().unwrap_or_default();
        let edges = self.edges.iter().map(|(id, from, to)| {
            let (from, to) = (name(*from), name(*to));
            let id = id.clone().unwrap_or_else(|| format!("{from}->{to}"));
            (Some(id), from, to)
        });
        Workflow::new(self.nodes.clone(), edges, self.signals.clone())
    }
}

/// The workflow with the node that its loops are counted from. Under version 1 of the rules that is the first listed
/// one, if the graph leaves it open.
fn started(mut workflow: Workflow, start: Option<&str>, rules: RulesVersion) -> Workflow {
    workflow.start = start.map(str::to_owned);
    if rules == RulesVersion::V1 && workflow.start_is_open() {
        workflow.start = workflow.nodes.first().cloned();
    }
    workflow
}

fn shown(name: &str) -> String {
    cut(name, SHOWN_NAME_BYTES).to_owned()
}

impl Flow {
    /// Takes a new workflow, or a changed one; counters go over to the loops that match best.
    pub(crate) fn set_workflow(&mut self, workflow: &Workflow, rules: RulesVersion) {
        let known = self.start.take().filter(|start| workflow.nodes.contains(start));
        self.start = workflow.start.clone().or(known).filter(|_| rules > RulesVersion::V1);
        self.graph = Some(Packed::new(workflow));
        self.take_loops(started(workflow.clone(), self.start.as_deref(), rules));
    }

    /// Takes the workflow with its start, and works out its loops.
    fn take_loops(&mut self, workflow: Workflow) {
        let found = loops(&workflow);
        let from = carry_over(&self.loops, &found);
        let used = from.iter().map(|old| old.and_then(|old| self.used.get(old)).cloned().unwrap_or_default());
        self.used = used.collect();
        self.loops = found;
        self.workflow = Some(workflow);
    }

    /// The first node at work is where loops are counted from, if the workflow leaves it open.
    pub(crate) fn note_start(&mut self, event: &Event) {
        let node = match &event.kind {
            Kind::TransitionRequested { from, .. } => from,
            Kind::TurnStarted {} | Kind::TurnFinished { .. } => match &event.node {
                Some(node) => node,
                None => return,
            },
            _ => return,
        };
        let open = |workflow: &&Workflow| workflow.start_is_open() && workflow.nodes.contains(node);
        if let Some(workflow) = self.workflow.as_ref().filter(open) {
            let workflow = Workflow { start: Some(node.clone()), ..workflow.clone() };
            self.start = Some(node.clone());
            self.take_loops(workflow);
        }
    }

    /// Works the loops out again after the state was read back.
    pub(crate) fn rebuild(&mut self, rules: RulesVersion) {
        let workflow = self.graph.as_ref().map(Packed::unpack);
        self.workflow = workflow.map(|workflow| started(workflow, self.start.as_deref(), rules));
        self.loops = self.workflow.as_ref().map(loops).unwrap_or_default();
        self.used.resize(self.loops.len(), LoopUse::default());
    }

    /// The loops with what they have used.
    pub(crate) fn loops(&self) -> impl Iterator<Item = (&Loop, &LoopUse)> {
        self.loops.iter().zip(&self.used)
    }

    /// The loops that hold the node at work, outer before inner.
    pub(crate) fn loops_here(&self) -> impl Iterator<Item = (&Loop, &LoopUse)> {
        let node = self.node.as_deref();
        self.loops().filter(move |(shape, _)| node.is_some_and(|node| holds(shape, node)))
    }

    /// The id of the innermost loop that holds the node at work.
    pub(crate) fn loop_here(&self) -> Option<&str> {
        self.loops_here().last().map(|(shape, _)| shape.id.as_str())
    }

    /// Whether a node belongs to any loop.
    pub(crate) fn in_loop(&self, node: &str) -> bool {
        self.loops.iter().any(|shape| holds(shape, node))
    }

    /// Whether a transition stays inside a loop that the workflow declares.
    pub(crate) fn inside_a_loop(&self, from: &str, to: &str) -> bool {
        self.loops.iter().any(|shape| holds(shape, from) && holds(shape, to))
    }

    /// The loop that a transition would begin anew.
    pub(crate) fn closes<'a>(&'a self, event: &Event) -> Option<(&'a Loop, &'a LoopUse)> {
        let at = self.closes_at(event)?;
        Some((self.loops.get(at)?, self.used.get(at)?))
    }

    fn closes_at(&self, event: &Event) -> Option<usize> {
        let Kind::TransitionRequested { from, to, edge } = &event.kind else { return None };
        let workflow = self.workflow.as_ref()?;
        let known = workflow.edges.iter().find(|known| match edge {
            Some(edge) => known.id == *edge,
            None => known.from == *from && known.to == *to,
        })?;
        self.loops.iter().position(|shape| shape.anchors.contains(&known.id))
    }

    /// The signals that the workflow declares.
    pub(crate) fn signals(&self) -> &[String] {
        self.workflow.as_ref().map_or(&[], |workflow| &workflow.signals)
    }

    /// The workflow, if the session has one.
    pub(crate) const fn workflow(&self) -> Option<&Workflow> {
        self.workflow.as_ref()
    }

    /// The node at work.
    pub(crate) fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Time passed and something was used while the current node was at work.
    pub(crate) fn spend(&mut self, elapsed_ms: u64, usage: &Usage) {
        let Some(node) = self.node.as_deref() else { return };
        for (shape, used) in self.loops.iter().zip(&mut self.used) {
            if holds(shape, node) {
                used.runtime_ms = used.runtime_ms.saturating_add(elapsed_ms);
                used.cost_micro_usd = used.cost_micro_usd.saturating_add(usage.cost_micro_usd);
            }
        }
    }

    /// An act was accepted or a fact arrived: move on.
    /// Remembers `history` transitions.
    pub(crate) fn apply(&mut self, event: &Event, history: usize) {
        match &event.kind {
            Kind::TransitionRequested { from, to, .. } => {
                if let Some(used) = self.closes_at(event).and_then(|at| self.used.get_mut(at)) {
                    used.iterations = used.iterations.saturating_add(1);
                }
                self.trail.push_back((shown(from), shown(to)));
                self.trail.drain(..self.trail.len().saturating_sub(history));
                self.node = Some(shown(to));
            }
            Kind::TurnStarted {} | Kind::TurnFinished { .. } => {
                if let Some(node) = &event.node {
                    self.node = Some(shown(node));
                }
            }
            _ => {}
        }
    }

    /// Sets the loops' counters back.
    pub(crate) fn reset(&mut self) {
        self.used.fill(LoopUse::default());
    }

    /// The last transitions, oldest first, at most `most`.
    pub(crate) fn recent(&self, most: usize) -> impl Iterator<Item = (&str, &str)> {
        let from = self.trail.len().saturating_sub(most);
        self.trail.iter().skip(from).map(|(from, to)| (from.as_str(), to.as_str()))
    }

    /// The nodes that these transitions went through, oldest first.
    pub(crate) fn trail(&self, most: usize) -> Vec<String> {
        chain(self.recent(most))
    }

    /// All that is remembered, with one more transition.
    pub(crate) fn trail_with(&self, from: &str, to: &str) -> Vec<String> {
        let gone = self.trail.iter().map(|(from, to)| (from.as_str(), to.as_str()));
        chain(gone.chain([(cut(from, SHOWN_NAME_BYTES), cut(to, SHOWN_NAME_BYTES))]))
    }
}

fn holds(shape: &Loop, node: &str) -> bool {
    shape.nodes.iter().any(|known| cut(known, SHOWN_NAME_BYTES) == node)
}

/// Joins transitions into a chain of nodes; a jump shows both ends.
fn chain<'a>(transitions: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut nodes: Vec<String> = Vec::new();
    for (from, to) in transitions {
        if nodes.last().is_none_or(|last| last != from) {
            nodes.push(from.to_owned());
        }
        nodes.push(to.to_owned());
    }
    nodes
}
