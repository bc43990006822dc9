//! Workflow files: format, validation, and the graph that the governor sees.

mod bounds;
mod check_dialogue;
mod check_graph;
mod check_references;
mod declared_tools;
mod describe;
mod node;
mod parse;
mod schema;
pub mod spec;

pub(crate) use declared_tools::declared_tools;
pub use node::{Node, NodeCommon, NodeKind, OnInterrupt};
pub use parse::parse_workflow;
pub use schema::json_schema;

use crate::gates::{GateError, QualityGate, add_dependencies, validate};
use flyball::graph::Workflow;
use flyball::policy::{PolicyLayer, SourcePosition};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Pseudo-node that ends the run successfully.
pub const DONE: &str = "done";
/// Pseudo-node that ends the run as failed.
pub const FAILED: &str = "failed";

/// A validated workflow, ready to run.
#[derive(Debug, Clone)]
pub struct WorkflowPlan {
    /// The workflow's name.
    pub name: String,
    /// The goal.
    pub goal: Option<String>,
    /// A longer description for people.
    pub description: Option<String>,
    /// Folder of the workflow file.
    pub folder: PathBuf,
    /// First node.
    pub start: String,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Node>,
    /// Graph that the governor sees.
    pub graph: Workflow,
    /// The workflow's own policy layer.
    pub policy: Option<PolicyLayer>,
    /// Provider declarations by name, unparsed.
    pub providers: BTreeMap<String, Value>,
    /// Tool declarations by name, unparsed.
    pub tools: BTreeMap<String, Value>,
    /// Quality gates.
    pub gates: crate::gates::GatesConfig,
    /// Progress signals.
    pub signals: Vec<spec::SignalSpec>,
    /// Position of each signal in the file.
    pub signal_locations: Vec<Option<SourcePosition>>,
    /// Risk policy, unparsed.
    pub risk: Option<Value>,
    /// Working directory of tools and commands.
    pub workspace: Option<spec::WorkspaceSpec>,
    /// Initial labels of its sessions.
    pub labels: serde_json::Map<String, Value>,
    /// Replacements for built-in texts, by key.
    pub texts: BTreeMap<String, String>,
    /// Values available to templates.
    pub vars: BTreeMap<String, Value>,
    /// Node that runs when a loop stalls, for `spawn_reviewer`.
    pub reviewer: Option<String>,
    /// Provider that replaces the current one when a loop stalls, for `retry_with_new_provider`.
    pub fallback_provider: Option<String>,
    /// Environment variables of the runner that its programs inherit in addition to the default set.
    pub pass_env: Vec<String>,
}

impl WorkflowPlan {
    /// Gates for a workspace. Fails if they form a cycle together with the policy's dependencies.
    ///
    /// # Errors
    /// As [`crate::gates::GatesConfig::gates`], and `gate_cycle`.
    pub fn gates_in(
        &self,
        workspace: &Path,
        dependencies: &[(String, String)],
    ) -> Result<Vec<QualityGate>, GateError> {
        let gates = self.gates.gates(workspace)?;
        let mut related = gates.clone();
        add_dependencies(&mut related, dependencies);
        validate(&related)?;
        Ok(gates)
    }

    /// Whether any node runs gates.
    #[must_use]
    pub fn uses_gates(&self) -> bool {
        self.nodes.values().any(|node| match &node.kind {
            NodeKind::Gate(_) => true,
            NodeKind::Agent(agent) => !agent.gates.is_empty(),
            _ => false,
        })
    }
}

/// The join where branches meet: the first one reachable from any of them.
pub(crate) fn join_of(nodes: &BTreeMap<String, Node>, branches: &[impl AsRef<str>]) -> Option<String> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> = branches.iter().map(|name| name.as_ref().to_owned()).collect();
    while let Some(name) = open.pop() {
        let Some(node) = nodes.get(&name) else { continue };
        if matches!(node.kind, NodeKind::Join(_)) {
            return Some(name);
        }
        if seen.insert(name) {
            open.extend(node.targets());
        }
    }
    None
}
