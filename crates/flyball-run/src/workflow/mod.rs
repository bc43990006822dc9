//! Workflow files: what they say, what is wrong with them, and the graph that the governor sees.

mod check;
mod node;
mod read;
pub mod spec;

pub use node::{Common, Node, Work};
pub use read::read;

use flyball::graph::Workflow;
use flyball::policy::Layer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

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
    /// What is done about each class of risk, as written.
    pub risk: Option<Value>,
    /// Where its tools and commands work.
    pub workspace: Option<spec::Workspace>,
    /// Words for people in place of the built-in ones, by key.
    pub texts: BTreeMap<String, String>,
    /// Values that templates may use.
    pub vars: BTreeMap<String, Value>,
    /// The node that takes over when a loop stalls, for `spawn_reviewer`.
    pub reviewer: Option<String>,
    /// The provider that takes over when a loop stalls, for `retry_with_new_provider`.
    pub fallback_provider: Option<String>,
}

impl Plan {
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
