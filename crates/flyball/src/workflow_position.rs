//! Position in the workflow: the session's workflow, its loops with their counters, and the recent transitions.

use crate::bounded_map::truncate_bytes;
use crate::event::{Event, EventKind, Usage};
use crate::graph::{Loop, Workflow, find_loops, match_loops};
use crate::limits::SHOWN_NAME_BYTES;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Usage of one loop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoopUsage {
    /// Completed iterations: transitions along an anchor edge.
    pub(crate) iterations: u64,
    /// Active time of its nodes.
    pub(crate) runtime_ms: u64,
    /// Cost of its nodes.
    pub(crate) cost_micro_usd: u64,
}

/// The session's position in its workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkflowPosition {
    packed: Option<PackedWorkflow>,
    /// Unpacked from the graph; not stored.
    #[serde(skip)]
    workflow: Option<Workflow>,
    /// Derived from the workflow; not stored.
    #[serde(skip)]
    loops: Vec<Loop>,
    usage: Vec<LoopUsage>,
    /// The node where loops start: the declared start, else the first active node if the graph does not determine it.
    /// Stored separately, because version 1 states have no field for it.
    #[serde(skip)]
    pub(crate) start: Option<String>,
    /// The current node.
    node: Option<String>,
    trail: VecDeque<(String, String)>,
}

/// A workflow in which every name is stored once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PackedWorkflow {
    nodes: Vec<String>,
    /// Id, from, to; an id that can be derived from the end nodes is omitted.
    edges: Vec<(Option<String>, u16, u16)>,
    signals: Vec<String>,
}

impl PackedWorkflow {
    fn new(workflow: &Workflow) -> Self {
        let number = |name: &str| {
            let at = workflow.nodes.iter().position(|node| node == name);
            at.and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX)
        };
        let edges = workflow.edges.iter().map(|edge| {
            let plain = edge.id == format!("{}->{}", edge.from, edge.to);
            ((!plain).then(|| edge.id.clone()), number(&edge.from), number(&edge.to))
        });
        PackedWorkflow {
            nodes: workflow.nodes.clone(),
            edges: edges.collect(),
            signals: workflow.signals.clone(),
        }
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

/// The workflow with the start node of its loops. Under version 1 of the rules that is the first listed node, if the
/// graph does not determine it.
fn with_start(mut workflow: Workflow, start: Option<&str>, rules: RulesVersion) -> Workflow {
    workflow.start = start.map(str::to_owned);
    if rules == RulesVersion::V1 && workflow.is_start_unknown() {
        workflow.start = workflow.nodes.first().cloned();
    }
    workflow
}

fn truncate_name(name: &str) -> String {
    truncate_bytes(name, SHOWN_NAME_BYTES).to_owned()
}

impl WorkflowPosition {
    /// Sets a new or changed workflow; counters move to the best matching loops.
    pub(crate) fn set_workflow(&mut self, workflow: &Workflow, rules: RulesVersion) {
        let known = self.start.take().filter(|start| workflow.nodes.contains(start));
        self.start = workflow.start.clone().or(known).filter(|_| rules > RulesVersion::V1);
        self.packed = Some(PackedWorkflow::new(workflow));
        self.install_workflow(with_start(workflow.clone(), self.start.as_deref(), rules));
    }

    /// Sets the workflow with its start and computes its loops.
    fn install_workflow(&mut self, workflow: Workflow) {
        let found = find_loops(&workflow);
        let from = match_loops(&self.loops, &found);
        let used =
            from.iter().map(|old| old.and_then(|old| self.usage.get(old)).cloned().unwrap_or_default());
        self.usage = used.collect();
        self.loops = found;
        self.workflow = Some(workflow);
    }

    /// Records the first active node as the start, if the workflow does not determine it.
    pub(crate) fn record_start(&mut self, event: &Event) {
        let node = match &event.kind {
            EventKind::TransitionRequested { from, .. } => from,
            EventKind::TurnStarted {} | EventKind::TurnFinished { .. } => match &event.node {
                Some(node) => node,
                None => return,
            },
            _ => return,
        };
        let open = |workflow: &&Workflow| workflow.is_start_unknown() && workflow.nodes.contains(node);
        if let Some(workflow) = self.workflow.as_ref().filter(open) {
            let workflow = Workflow { start: Some(node.clone()), ..workflow.clone() };
            self.start = Some(node.clone());
            self.install_workflow(workflow);
        }
    }

    /// Recomputes the loops after the state was decoded.
    pub(crate) fn rebuild(&mut self, rules: RulesVersion) {
        let workflow = self.packed.as_ref().map(PackedWorkflow::unpack);
        self.workflow = workflow.map(|workflow| with_start(workflow, self.start.as_deref(), rules));
        self.loops = self.workflow.as_ref().map(find_loops).unwrap_or_default();
        self.usage.resize(self.loops.len(), LoopUsage::default());
    }

    /// The loops with their usage.
    pub(crate) fn loops(&self) -> impl Iterator<Item = (&Loop, &LoopUsage)> {
        self.loops.iter().zip(&self.usage)
    }

    /// The loops that contain the current node, outer before inner.
    pub(crate) fn active_loops(&self) -> impl Iterator<Item = (&Loop, &LoopUsage)> {
        let node = self.node.as_deref();
        self.loops().filter(move |(shape, _)| node.is_some_and(|node| loop_contains(shape, node)))
    }

    /// Id of the innermost loop that contains the current node.
    pub(crate) fn innermost_loop(&self) -> Option<&str> {
        self.active_loops().last().map(|(shape, _)| shape.id.as_str())
    }

    /// Whether a node belongs to any loop.
    pub(crate) fn in_loop(&self, node: &str) -> bool {
        self.loops.iter().any(|shape| loop_contains(shape, node))
    }

    /// Whether a transition stays inside a declared loop.
    pub(crate) fn stays_in_loop(&self, from: &str, to: &str) -> bool {
        self.loops.iter().any(|shape| loop_contains(shape, from) && loop_contains(shape, to))
    }

    /// The loop that a transition would restart.
    pub(crate) fn loop_closed_by<'a>(&'a self, event: &Event) -> Option<(&'a Loop, &'a LoopUsage)> {
        let at = self.loop_index_closed_by(event)?;
        Some((self.loops.get(at)?, self.usage.get(at)?))
    }

    fn loop_index_closed_by(&self, event: &Event) -> Option<usize> {
        let EventKind::TransitionRequested { from, to, edge } = &event.kind else { return None };
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

    /// The current node.
    pub(crate) fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Adds elapsed time and usage to the loops of the current node.
    pub(crate) fn add_usage(&mut self, elapsed_ms: u64, usage: &Usage) {
        let Some(node) = self.node.as_deref() else { return };
        for (shape, used) in self.loops.iter().zip(&mut self.usage) {
            if loop_contains(shape, node) {
                used.runtime_ms = used.runtime_ms.saturating_add(elapsed_ms);
                used.cost_micro_usd = used.cost_micro_usd.saturating_add(usage.cost_micro_usd);
            }
        }
    }

    /// Applies an accepted request or a fact. Keeps `history` transitions.
    pub(crate) fn apply(&mut self, event: &Event, history: usize) {
        match &event.kind {
            EventKind::TransitionRequested { from, to, .. } => {
                if let Some(used) = self.loop_index_closed_by(event).and_then(|at| self.usage.get_mut(at)) {
                    used.iterations = used.iterations.saturating_add(1);
                }
                self.trail.push_back((truncate_name(from), truncate_name(to)));
                self.trail.drain(..self.trail.len().saturating_sub(history));
                self.node = Some(truncate_name(to));
            }
            EventKind::TurnStarted {} | EventKind::TurnFinished { .. } => {
                if let Some(node) = &event.node {
                    self.node = Some(truncate_name(node));
                }
            }
            _ => {}
        }
    }

    /// Resets the loop counters.
    pub(crate) fn reset(&mut self) {
        self.usage.fill(LoopUsage::default());
    }

    /// The most recent transitions, oldest first, at most `most`.
    pub(crate) fn recent_transitions(&self, most: usize) -> impl Iterator<Item = (&str, &str)> {
        let from = self.trail.len().saturating_sub(most);
        self.trail.iter().skip(from).map(|(from, to)| (from.as_str(), to.as_str()))
    }

    /// The nodes of the most recent transitions, oldest first.
    pub(crate) fn trail(&self, most: usize) -> Vec<String> {
        join_transitions(self.recent_transitions(most))
    }

    /// The nodes of all remembered transitions plus one more.
    pub(crate) fn trail_with(&self, from: &str, to: &str) -> Vec<String> {
        let gone = self.trail.iter().map(|(from, to)| (from.as_str(), to.as_str()));
        join_transitions(
            gone.chain([(truncate_bytes(from, SHOWN_NAME_BYTES), truncate_bytes(to, SHOWN_NAME_BYTES))]),
        )
    }
}

fn loop_contains(shape: &Loop, node: &str) -> bool {
    shape.nodes.iter().any(|known| truncate_bytes(known, SHOWN_NAME_BYTES) == node)
}

/// Joins transitions into a chain of nodes; a discontinuity shows both ends.
fn join_transitions<'a>(transitions: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut nodes: Vec<String> = Vec::new();
    for (from, to) in transitions {
        if nodes.last().is_none_or(|last| last != from) {
            nodes.push(from.to_owned());
        }
        nodes.push(to.to_owned());
    }
    nodes
}
