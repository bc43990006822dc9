//! Reading a workflow file, with the place of what is wrong: one that can be run, or a bare graph of nodes and edges.

use crate::fail::{Complaint, Failure};
use flyball::graph::Workflow;
use flyball::policy::{Format, Layer, Origin, parse};
use flyball_run::workflow::Plan;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The file that is looked for in a folder.
const FILE: &str = "workflow.yaml";
/// Keys that only a workflow that can be run has.
const RUN_KEYS: [&str; 5] = ["providers", "workspace", "gates", "start", "goal"];

/// A workflow file as far as the governor is concerned.
pub(crate) struct WorkflowFile {
    pub(crate) workflow: Workflow,
    pub(crate) policy: Option<Layer>,
    /// Everything else, if it can be run.
    pub(crate) plan: Option<Box<Plan>>,
}

/// What a file turned out to be.
pub(crate) enum Document {
    Policy(Layer),
    Workflow(WorkflowFile),
}

/// The file that is meant: itself, or the workflow of a folder.
pub(crate) fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE) } else { path.to_owned() }
}

/// Reads a workflow that can be run; `name` is how the file is called in complaints.
pub(crate) fn plan(text: &str, name: &str, path: &Path) -> Result<Plan, Failure> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    flyball_run::workflow::read(text, name, folder).map_err(|wrong| {
        let complaint = |failure: flyball_run::Failure| Complaint {
            code: failure.code,
            place: failure.place,
            what: failure.what,
            advice: failure.advice,
        };
        Failure { complaints: wrong.into_iter().map(complaint).collect() }
    })
}

/// Reads a policy or workflow file.
pub(crate) fn read(path: &Path) -> Result<Document, Failure> {
    let path = &file(path);
    let text = crate::load::read(path)?;
    let name = path.display().to_string();
    let layer = parse(&text, Format::guess(&name, &text), &name)?;
    if can_be_run(&layer.tree) {
        let plan = plan(&text, &name, path)?;
        let (workflow, policy) = (plan.graph.clone(), plan.policy.clone());
        Ok(Document::Workflow(WorkflowFile { workflow, policy, plan: Some(Box::new(plan)) }))
    } else if is_workflow(&layer.tree) {
        workflow(&layer, &name).map(Document::Workflow)
    } else {
        Ok(Document::Policy(layer))
    }
}

/// A workflow lists its nodes or edges; in a policy both are maps.
fn is_workflow(tree: &Value) -> bool {
    ["nodes", "edges"].iter().any(|key| tree.get(key).is_some_and(Value::is_array))
}

/// What a node of it does is said by its `kind`.
fn can_be_run(tree: &Value) -> bool {
    let nodes = tree.get("nodes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    nodes.iter().any(|node| node.get("kind").is_some()) || RUN_KEYS.iter().any(|key| tree.get(key).is_some())
}

fn workflow(layer: &Layer, name: &str) -> Result<WorkflowFile, Failure> {
    let wrong = |path: &[&str], what: &str, advice: &str| {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let place = layer
            .places
            .find(&path)
            .map_or_else(|| name.to_owned(), |place| format!("{name}:{}:{}", place.line, place.column));
        Failure::new("workflow_syntax", place, what, advice)
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
        edges.push(read_edge(edge).ok_or_else(|| {
            wrong(&place, "this edge has no `from` and `to`", "write {from: a, to: b}, or \"a->b\"")
        })?);
    }
    let signals = list("signals").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let workflow = Workflow::new(nodes, edges, signals);
    workflow.validate().map_err(|error| {
        let place = offender(layer, &workflow, &error.what()).unwrap_or_else(|| name.to_owned());
        Failure::new(error.code(), place.replace("<file>", name), error.what(), error.what_to_do())
    })?;
    let policy = layer.below(&["policy"], Origin::Workflow { name: name.to_owned() });
    Ok(WorkflowFile { workflow, policy, plan: None })
}

/// The line of the first node or edge that the complaint names.
fn offender(layer: &Layer, workflow: &Workflow, what: &str) -> Option<String> {
    let quoted = what.split(['\'', '`', '"']).nth(1)?;
    let edge =
        workflow.edges.iter().rposition(|edge| edge.id == quoted || edge.from == quoted || edge.to == quoted);
    let node = workflow.nodes.iter().rposition(|node| node == quoted);
    let path = match (edge, node) {
        (Some(at), None) => ["edges".to_owned(), at.to_string()],
        (_, Some(at)) => ["nodes".to_owned(), at.to_string()],
        (None, None) => return None,
    };
    layer.places.find(&path).map(|place| format!("<file>:{}:{}", place.line, place.column))
}

fn read_edge(edge: &Value) -> Option<(Option<String>, String, String)> {
    if let Some(text) = edge.as_str() {
        let (from, to) = text.split_once("->").or_else(|| text.split_once('→'))?;
        return Some((None, from.trim().to_owned(), to.trim().to_owned()));
    }
    let part = |key: &str| edge.get(key).and_then(Value::as_str).map(str::to_owned);
    Some((part("id"), part("from")?, part("to")?))
}
