//! Reads workflow files and reports errors with their position: a runnable workflow or a bare graph of nodes and edges.

use crate::error::{CliError, Diagnostic};
use flyball::graph::Workflow;
use flyball::policy::{PolicyFormat, PolicyLayer, ValueOrigin, parse};
use flyball_runner::workflow::WorkflowPlan;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The workflow file's name in a folder.
const WORKFLOW_FILE_NAME: &str = "workflow.yaml";
/// Keys found only in runnable workflows.
const RUNNABLE_KEYS: [&str; 5] = ["providers", "workspace", "gates", "start", "goal"];

/// A workflow file as the governor sees it.
pub(crate) struct WorkflowFile {
    pub(crate) workflow: Workflow,
    pub(crate) policy: Option<PolicyLayer>,
    /// The full plan, if the workflow is runnable.
    pub(crate) plan: Option<Box<WorkflowPlan>>,
}

/// The kind of document a file contains.
pub(crate) enum WorkflowOrPolicy {
    Policy(PolicyLayer),
    Workflow(WorkflowFile),
}

/// The file itself, or the workflow file of a folder.
pub(crate) fn workflow_path(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(WORKFLOW_FILE_NAME) } else { path.to_owned() }
}

/// Reads a runnable workflow; `name` is the file's name in errors.
pub(crate) fn read_plan(text: &str, name: &str, path: &Path) -> Result<WorkflowPlan, CliError> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    flyball_runner::workflow::parse_workflow(text, name, folder).map_err(|wrong| {
        let diagnostic = |failure: flyball_runner::RunError| Diagnostic {
            code: failure.code,
            location: failure.location,
            message: failure.message,
            help: failure.help,
        };
        CliError::from_diagnostics(wrong.into_iter().map(diagnostic).collect())
    })
}

/// Reads a policy or workflow file.
pub(crate) fn read_document(path: &Path) -> Result<WorkflowOrPolicy, CliError> {
    let path = &workflow_path(path);
    let text = crate::policy_loader::read_text_file(path)?;
    let name = path.display().to_string();
    let layer = parse(&text, PolicyFormat::guess(&name, &text), &name)?;
    if is_runnable(&layer.tree) {
        let plan = read_plan(&text, &name, path)?;
        let (workflow, policy) = (plan.graph.clone(), plan.policy.clone());
        Ok(WorkflowOrPolicy::Workflow(WorkflowFile { workflow, policy, plan: Some(Box::new(plan)) }))
    } else if is_workflow(&layer.tree) {
        parse_workflow(&layer, &name).map(WorkflowOrPolicy::Workflow)
    } else {
        Ok(WorkflowOrPolicy::Policy(layer))
    }
}

/// A workflow lists its nodes or edges; in a policy both are maps.
fn is_workflow(tree: &Value) -> bool {
    ["nodes", "edges"].iter().any(|key| tree.get(key).is_some_and(Value::is_array))
}

/// Whether it can be run: its nodes have a `kind`, or it has keys only runnable workflows have.
fn is_runnable(tree: &Value) -> bool {
    let nodes = tree.get("nodes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    nodes.iter().any(|node| node.get("kind").is_some())
        || RUNNABLE_KEYS.iter().any(|key| tree.get(key).is_some())
}

fn parse_workflow(layer: &PolicyLayer, name: &str) -> Result<WorkflowFile, CliError> {
    let wrong = |path: &[&str], what: &str, help: &str| {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let place = layer
            .positions
            .find(&path)
            .map_or_else(|| name.to_owned(), |place| format!("{name}:{}:{}", place.line, place.column));
        CliError::new("workflow_syntax", place, what, help)
    };
    let list = |key: &str| layer.tree.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut nodes = Vec::new();
    for (at, node) in list("nodes").iter().enumerate() {
        let named =
            node.as_str().or_else(|| node.get("name").or_else(|| node.get("id")).and_then(Value::as_str));
        let named = named.ok_or_else(|| {
            wrong(&["nodes", &at.to_string()], "this node has no name", "write its name, or name: …")
        })?;
        nodes.push(named.to_owned());
    }
    let mut edges = Vec::new();
    for (at, edge) in list("edges").iter().enumerate() {
        let place = ["edges", &at.to_string()];
        edges.push(parse_edge(edge).ok_or_else(|| {
            wrong(&place, "this edge has no `from` and `to`", "write {from: a, to: b}, or \"a->b\"")
        })?);
    }
    let signals = list("signals").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let workflow = Workflow::new(nodes, edges, signals);
    workflow.validate().map_err(|error| {
        let place = error_location(layer, &workflow, &error.message()).unwrap_or_else(|| name.to_owned());
        CliError::new(error.code(), place.replace("<file>", name), error.message(), error.help())
    })?;
    let policy = layer.sublayer(&["policy"], ValueOrigin::Workflow { name: name.to_owned() });
    Ok(WorkflowFile { workflow, policy, plan: None })
}

/// The position of the first node or edge named in the error.
fn error_location(layer: &PolicyLayer, workflow: &Workflow, what: &str) -> Option<String> {
    let quoted = what.split(['\'', '`', '"']).nth(1)?;
    let edge =
        workflow.edges.iter().rposition(|edge| edge.id == quoted || edge.from == quoted || edge.to == quoted);
    let node = workflow.nodes.iter().rposition(|node| node == quoted);
    let path = match (edge, node) {
        (Some(at), None) => ["edges".to_owned(), at.to_string()],
        (_, Some(at)) => ["nodes".to_owned(), at.to_string()],
        (None, None) => return None,
    };
    layer.positions.find(&path).map(|place| format!("<file>:{}:{}", place.line, place.column))
}

fn parse_edge(edge: &Value) -> Option<(Option<String>, String, String)> {
    if let Some(text) = edge.as_str() {
        let (from, to) = text.split_once("->").or_else(|| text.split_once('→'))?;
        return Some((None, from.trim().to_owned(), to.trim().to_owned()));
    }
    let part = |key: &str| edge.get(key).and_then(Value::as_str).map(str::to_owned);
    Some((part("id"), part("from")?, part("to")?))
}
