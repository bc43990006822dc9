//! From the text of a workflow file to a plan, with the place of everything that is wrong.

use super::node::{Common, Node, Work};
use super::{Plan, check};
use crate::fail::Failure;
use flyball::graph::Workflow;
use flyball::policy::{Format, Layer, Origin, PolicyErrors, parse};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// The keys of the file itself.
const KEYS: [&str; 19] = [
    "version",
    "name",
    "goal",
    "start",
    "workspace",
    "providers",
    "tools",
    "gates",
    "signals",
    "risk",
    "policy",
    "nodes",
    "edges",
    "texts",
    "vars",
    "reviewer",
    "fallback_provider",
    "description",
    "labels",
];

/// A file that is being read.
pub(super) struct Source<'a> {
    pub(super) layer: &'a Layer,
    pub(super) file: &'a str,
}

impl Source<'_> {
    /// A complaint about what stands at a path.
    pub(super) fn wrong(&self, path: &[&str], code: &str, what: impl Into<String>, advice: &str) -> Failure {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let place = self.layer.places.find(&path).map_or_else(
            || self.file.to_owned(),
            |place| format!("{}:{}:{}", self.file, place.line, place.column),
        );
        Failure::new(code, what, advice).at(place)
    }

    /// Reads a part of the file; a wrong type is told with its place.
    pub(super) fn take<T: DeserializeOwned>(&self, path: &[&str], value: Value) -> Result<T, Failure> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let inner = error.path().to_string();
            let mut whole: Vec<&str> = path.to_vec();
            whole.extend(inner.split(['.', '[', ']']).filter(|part| !part.is_empty() && *part != "?"));
            let what = error.inner().to_string();
            let (code, advice) = if what.starts_with("unknown field") {
                ("workflow_unknown_key", "remove it, or correct its spelling; the error lists what is known")
            } else if what.starts_with("missing field") {
                ("workflow_missing_key", "add it")
            } else {
                ("workflow_wrong_type", "write it as the schema says: `flyball schema workflow`")
            };
            self.wrong(&whole, code, what, advice)
        })
    }
}

/// Reads a workflow file.
///
/// # Errors
/// Everything that is wrong with it, each with its place.
pub fn read(text: &str, file: &str, folder: &Path) -> Result<Plan, Vec<Failure>> {
    let layer = parse(text, Format::guess(file, text), file).map_err(|errors| syntax(&errors))?;
    let source = Source { layer: &layer, file };
    let plan = plan(&source, folder).map_err(|failure| vec![failure])?;
    let wrong = check::all(&source, &plan);
    if wrong.is_empty() { Ok(plan) } else { Err(wrong) }
}

fn syntax(errors: &PolicyErrors) -> Vec<Failure> {
    let tell = |error: &flyball::policy::PolicyError| {
        let line = error.line.map_or_else(String::new, |line| format!(":{line}"));
        Failure::new("workflow_syntax", error.what.clone(), error.help.clone())
            .at(format!("{}{line}", error.file))
    };
    errors.iter().map(tell).collect()
}

fn plan(source: &Source<'_>, folder: &Path) -> Result<Plan, Failure> {
    let Value::Object(mut map) = source.layer.tree.clone() else {
        return Err(source.wrong(&[], "workflow_wrong_type", "a workflow is a map", "begin with `nodes:`"));
    };
    if let Some(key) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let what = format!("`{key}` is not a key of a workflow");
        return Err(source.wrong(&[key], "workflow_unknown_key", what, "remove it, or correct its spelling"));
    }
    let nodes = nodes(source, map.remove("nodes").unwrap_or_default())?;
    let first = nodes.first().map(|node| node.name.clone()).unwrap_or_default();
    let start: Option<String> = part(source, &mut map, "start")?;
    let signals: Vec<super::spec::Signal> = signals(source, map.remove("signals").unwrap_or_default())?;
    let graph = graph(&nodes, &signals);
    let mut by_name = BTreeMap::new();
    for (at, node) in nodes.into_iter().enumerate() {
        let name = node.name.clone();
        if by_name.insert(name.clone(), node).is_some() {
            let what = format!("node '{name}' is there twice");
            let advice = "remove one of the two, or rename it";
            return Err(source.wrong(&["nodes", &at.to_string()], "workflow_duplicate_node", what, advice));
        }
    }
    let stem = Path::new(source.file).file_stem().and_then(|stem| stem.to_str()).unwrap_or("workflow");
    Ok(Plan {
        name: part::<Option<String>>(source, &mut map, "name")?.unwrap_or_else(|| stem.to_owned()),
        goal: part(source, &mut map, "goal")?,
        folder: folder.to_path_buf(),
        start: start.unwrap_or(first),
        nodes: by_name,
        graph,
        policy: source.layer.below(&["policy"], Origin::Workflow { name: source.file.to_owned() }),
        providers: part::<Option<_>>(source, &mut map, "providers")?.unwrap_or_default(),
        tools: part::<Option<_>>(source, &mut map, "tools")?.unwrap_or_default(),
        gates: part::<Option<_>>(source, &mut map, "gates")?.unwrap_or_default(),
        signals,
        risk: part(source, &mut map, "risk")?,
        workspace: part(source, &mut map, "workspace")?,
        texts: part::<Option<_>>(source, &mut map, "texts")?.unwrap_or_default(),
        vars: part::<Option<_>>(source, &mut map, "vars")?.unwrap_or_default(),
        reviewer: part(source, &mut map, "reviewer")?,
        fallback_provider: part(source, &mut map, "fallback_provider")?,
    })
}

fn part<T: DeserializeOwned>(
    source: &Source<'_>,
    map: &mut Map<String, Value>,
    key: &str,
) -> Result<T, Failure> {
    source.take(&[key], map.remove(key).unwrap_or_default())
}

/// Nodes are a list of maps with a `name`, or a map by name.
fn nodes(source: &Source<'_>, value: Value) -> Result<Vec<Node>, Failure> {
    let empty = || {
        let advice = "write `nodes:` as a list, each with `name` and `kind`";
        source.wrong(&["nodes"], "workflow_no_nodes", "the workflow has no nodes", advice)
    };
    let Value::Array(list) = value else { return Err(empty()) };
    if list.is_empty() {
        return Err(empty());
    }
    list.into_iter().enumerate().map(|(at, value)| node(source, at, value)).collect()
}

fn node(source: &Source<'_>, at: usize, value: Value) -> Result<Node, Failure> {
    let at = at.to_string();
    let path = ["nodes", at.as_str()];
    let Value::Object(mut map) = value else {
        let advice = "write {name: …, kind: …}; a bare name can be checked and drawn, but not run";
        return Err(source.wrong(&path, "workflow_wrong_type", "this node is not a map", advice));
    };
    let name: String = match map.remove("name").or_else(|| map.remove("id")) {
        Some(name) => source.take(&["nodes", &at, "name"], name)?,
        None => {
            return Err(source.wrong(
                &path,
                "workflow_missing_key",
                "this node has no name",
                "write name: …",
            ));
        }
    };
    if [super::DONE, super::FAILED].contains(&name.as_str()) || name.is_empty() {
        let what = format!("a node cannot be called '{name}'");
        return Err(source.wrong(&path, "workflow_reserved_name", what, "`done` and `failed` end a run"));
    }
    let kind: String = match map.remove("kind") {
        Some(kind) => source.take(&["nodes", &at, "kind"], kind)?,
        None => {
            let what = format!("node '{name}' has no kind");
            let advice = format!("write kind: one of {}", Work::KINDS.join(", "));
            return Err(source.wrong(&path, "workflow_missing_key", what, &advice));
        }
    };
    let mut common = Map::new();
    for key in Common::KEYS {
        if let Some(value) = map.remove(key) {
            common.insert(key.to_owned(), value);
        }
    }
    let common: Common = source.take(&path, Value::Object(common))?;
    if common.deadline.as_ref().is_some_and(|span| span.millis().is_none()) {
        let advice = "write 90s, 10m, 4h, or milliseconds";
        return Err(source.wrong(
            &["nodes", &at, "deadline"],
            "workflow_wrong_type",
            "this is no length of time",
            advice,
        ));
    }
    let work = work(source, &path, &name, &kind, Value::Object(map))?;
    Ok(Node { name, work, common })
}

fn work(source: &Source<'_>, path: &[&str], name: &str, kind: &str, rest: Value) -> Result<Work, Failure> {
    Ok(match kind {
        "command" => Work::Command(source.take(path, rest)?),
        "agent" => Work::Agent(source.take(path, rest)?),
        "decide" => Work::Decide(source.take(path, rest)?),
        "gate" => Work::Gate(source.take(path, rest)?),
        "confirm" => Work::Confirm(source.take(path, rest)?),
        "collect" => Work::Collect(source.take(path, rest)?),
        "say" => Work::Say(source.take(path, rest)?),
        "tool" => Work::Tool(source.take(path, rest)?),
        "human" => Work::Human(source.take(path, rest)?),
        "join" => Work::Join(source.take(path, rest)?),
        "route" => Work::Route(source.take(path, rest)?),
        other => {
            let what = format!("node '{name}' has the unknown kind '{other}'");
            let advice = format!("write one of {}", Work::KINDS.join(", "));
            let mut whole = path.to_vec();
            whole.push("kind");
            return Err(source.wrong(&whole, "workflow_unknown_kind", what, &advice));
        }
    })
}

/// Signals are names, or maps that say how they are measured.
fn signals(source: &Source<'_>, value: Value) -> Result<Vec<super::spec::Signal>, Failure> {
    let Value::Array(list) = value else { return Ok(Vec::new()) };
    let read = |(at, value): (usize, Value)| {
        let value = match value {
            Value::String(name) => serde_json::json!({ "name": name }),
            other => other,
        };
        source.take(&["signals", &at.to_string()], value)
    };
    list.into_iter().enumerate().map(read).collect()
}

fn graph(nodes: &[Node], signals: &[super::spec::Signal]) -> Workflow {
    let mut names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let mut edges = Vec::new();
    for node in nodes {
        for to in node.targets() {
            if [super::DONE, super::FAILED].contains(&to.as_str()) && !names.contains(&to) {
                names.push(to.clone());
            }
            edges.push((None, node.name.clone(), to));
        }
    }
    Workflow::new(names, edges, signals.iter().map(|signal| signal.name.clone()).collect())
}
