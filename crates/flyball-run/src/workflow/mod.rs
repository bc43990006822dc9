//! Workflow files: what they say, what is wrong with them, and the graph that the governor sees.

mod check;
mod describe;
mod dialogue;
mod names;
mod node;
mod read;
mod schema;
pub mod spec;
mod tools;
mod worst;

pub use node::{Common, Node, OnInterrupt, Work};
pub use read::read;
pub use schema::json_schema;
pub(crate) use tools::declared;

use crate::gates::{Gate, GateError, depend, validate};
use flyball::graph::Workflow;
use flyball::policy::{Layer, Place};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The end that means success.
pub const DONE: &str = "done";
/// The end that means failure.
pub const FAILED: &str = "failed";

/// A workflow that can be run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub goal: Option<String>,
    /// More about it, for people.
    pub description: Option<String>,
    /// The folder of its file.
    pub folder: PathBuf,
    /// Where it begins.
    pub start: String,
    /// Its nodes, by name.
    pub nodes: BTreeMap<String, Node>,
    /// The graph that the governor sees.
    pub graph: Workflow,
    /// Its own policy.
    pub policy: Option<Layer>,
    /// The providers, by name, as written.
    pub providers: BTreeMap<String, Value>,
    /// The tools of its own, by name, as written.
    pub tools: BTreeMap<String, Value>,
    /// Its quality gates.
    pub gates: crate::gates::GatesConfig,
    /// How progress is measured.
    pub signals: Vec<spec::Signal>,
    /// Where each signal is written in the file.
    pub signal_places: Vec<Option<Place>>,
    /// What is done about each class of risk, as written.
    pub risk: Option<Value>,
    /// Where its tools and commands work.
    pub workspace: Option<spec::Workspace>,
    /// Labels that its sessions begin with.
    pub labels: serde_json::Map<String, Value>,
    /// Words for people in place of the built-in ones, by key.
    pub texts: BTreeMap<String, String>,
    /// Values that templates may use.
    pub vars: BTreeMap<String, Value>,
    /// The node that takes over when a loop stalls, for `spawn_reviewer`.
    pub reviewer: Option<String>,
    /// The provider that takes over when a loop stalls, for `retry_with_new_provider`.
    pub fallback_provider: Option<String>,
    /// Variables of the runner's environment that its programs inherit beside the ordinary ones.
    pub pass_env: Vec<String>,
}

impl Plan {
    /// The gates for a workspace, which together with the dependencies of the policy must not go in circles.
    ///
    /// # Errors
    /// As [`crate::gates::GatesConfig::gates`], and `gate_cycle`.
    pub fn gates_in(
        &self,
        workspace: &Path,
        dependencies: &[(String, String)],
    ) -> Result<Vec<Gate>, GateError> {
        let gates = self.gates.gates(workspace)?;
        let mut related = gates.clone();
        depend(&mut related, dependencies);
        validate(&related)?;
        Ok(gates)
    }

    /// Whether anything in it checks the work.
    #[must_use]
    pub fn uses_gates(&self) -> bool {
        self.nodes.values().any(|node| match &node.work {
            Work::Gate(_) => true,
            Work::Agent(agent) => !agent.gates.is_empty(),
            _ => false,
        })
    }
}

/// The join where branches meet: the first that one of them leads to.
pub(crate) fn join_of(nodes: &BTreeMap<String, Node>, branches: &[impl AsRef<str>]) -> Option<String> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> = branches.iter().map(|name| name.as_ref().to_owned()).collect();
    while let Some(name) = open.pop() {
        let Some(node) = nodes.get(&name) else { continue };
        if matches!(node.work, Work::Join(_)) {
            return Some(name);
        }
        if seen.insert(name) {
            open.extend(node.targets());
        }
    }
    None
}
