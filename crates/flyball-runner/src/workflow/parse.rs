//! Parses a workflow file into a plan and reports every error with its position.

use super::node::{Node, NodeCommon, NodeKind};
use super::spec::SignalSpec;
use super::{WorkflowPlan, check_graph, join_of};
use crate::run_error::RunError;
use flyball::graph::Workflow;
use flyball::policy::{
    PolicyError, PolicyErrorCode, PolicyErrors, PolicyFormat, PolicyLayer, SourcePosition, ValueOrigin, parse,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Top-level keys of the file.
pub(super) const KEYS: [&str; 19] = [
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
    "texts",
    "vars",
    "reviewer",
    "fallback_provider",
    "description",
    "labels",
    "pass_env",
];

/// A workflow file being parsed.
pub(super) struct WorkflowSource<'a> {
    pub(super) layer: &'a PolicyLayer,
    pub(super) file: &'a str,
}

impl WorkflowSource<'_> {
    /// Position of a key, if the format has positions.
    fn location(&self, path: &[&str]) -> Option<SourcePosition> {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        self.layer.positions.find(&path)
    }

    /// Error about the value at a path.
    pub(super) fn error(&self, path: &[&str], code: &str, what: impl Into<String>, advice: &str) -> RunError {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let place = self.layer.positions.find(&path).map_or_else(
            || format!("{}:1:1", self.file),
            |place| format!("{}:{}:{}", self.file, place.line, place.column),
        );
        RunError::new(code, what, advice).at(place)
    }

    /// Deserializes a part of the file; errors carry the position.
    pub(super) fn deserialize<T: DeserializeOwned>(
        &self,
        path: &[&str],
        value: Value,
    ) -> Result<T, RunError> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let inner = error.path().to_string();
            let mut whole: Vec<&str> = path.to_vec();
            whole.extend(inner.split(['.', '[', ']']).filter(|part| !part.is_empty() && *part != "?"));
            let what = error.inner().to_string();
            let (code, advice) = if what.starts_with("unknown field") {
                ("workflow_unknown_key", "remove it or fix the spelling; the error lists the known keys")
            } else if what.starts_with("missing field") {
                ("workflow_missing_key", "add it")
            } else {
                ("workflow_wrong_type", "see the schema: `flyball schema workflow`")
            };
            self.error(&whole, code, what, advice)
        })
    }
}

/// Parses and validates a workflow file.
///
/// # Errors
/// All errors in the file, each with its position.
pub fn parse_workflow(text: &str, file: &str, folder: &Path) -> Result<WorkflowPlan, Vec<RunError>> {
    let layer =
        parse(text, PolicyFormat::guess(file, text), file).map_err(|errors| syntax_errors(&errors))?;
    let source = WorkflowSource { layer: &layer, file };
    let plan = parse_plan(&source, folder)?;
    let wrong = check_graph::check_plan(&source, &plan);
    if wrong.is_empty() { Ok(plan) } else { Err(wrong) }
}

fn syntax_errors(errors: &PolicyErrors) -> Vec<RunError> {
    let convert = |error: &PolicyError| {
        let number = |number: Option<u32>| number.map_or_else(String::new, |number| format!(":{number}"));
        let place = format!("{}{}{}", error.file, number(error.line), number(error.column));
        let twice = error.code == PolicyErrorCode::DuplicateKey;
        let code = if twice { "workflow_duplicate_key" } else { "workflow_syntax" };
        RunError::new(code, error.message.clone(), error.help.clone()).at(place)
    };
    errors.iter().map(convert).collect()
}

/// Parser state; collects errors so that they are reported together.
struct PlanParser<'a> {
    source: &'a WorkflowSource<'a>,
    map: Map<String, Value>,
    errors: Vec<RunError>,
}

impl PlanParser<'_> {
    fn ok_or_collect<T>(&mut self, read: Result<T, RunError>) -> Option<T> {
        read.map_err(|failure| self.errors.push(failure)).ok()
    }

    /// Removes and reads a top-level key; returns the default if it is missing or invalid.
    fn take_key<T: DeserializeOwned + Default>(&mut self, key: &str) -> T {
        match self.map.remove(key) {
            None | Some(Value::Null) => T::default(),
            Some(value) => {
                let read = self.source.deserialize(&[key], value);
                self.ok_or_collect(read).unwrap_or_default()
            }
        }
    }

    fn check_unknown_keys(&mut self) {
        for key in self.map.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            let what = format!("unknown key `{key}`");
            let advice = match key.as_str() {
                "edges" => "each node names its own edges: `next`, `on_success`, `on_failure`".to_owned(),
                _ => format!("remove it or fix the spelling; known keys: {}", KEYS.join(", ")),
            };
            self.errors.push(self.source.error(&[key], "workflow_unknown_key", what, &advice));
        }
    }

    fn check_version(&mut self) {
        if self.map.remove("version").is_some_and(|version| version != json!(1)) {
            let what = "unsupported workflow version";
            self.errors.push(self.source.error(&["version"], "workflow_version", what, "write `version: 1`"));
        }
    }
}

fn parse_plan(source: &WorkflowSource<'_>, folder: &Path) -> Result<WorkflowPlan, Vec<RunError>> {
    let Value::Object(map) = source.layer.tree.clone() else {
        let (what, advice) = ("a workflow must be a map", "start with `nodes:`");
        return Err(vec![source.error(&[], "workflow_wrong_type", what, advice)]);
    };
    let mut file = PlanParser { source, map, errors: Vec::new() };
    file.check_unknown_keys();
    file.check_version();
    let nodes = parse_nodes(&mut file);
    let signals = parse_signals(&mut file);
    let order: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let nodes: BTreeMap<String, Node> = nodes.into_iter().map(|node| (node.name.clone(), node)).collect();
    let first = order.first().cloned().unwrap_or_default();
    let stem = Path::new(source.file).file_stem().and_then(|stem| stem.to_str()).unwrap_or("workflow");
    let start = file.take_key::<Option<String>>("start").unwrap_or(first);
    let texts: BTreeMap<String, String> = file.take_key("texts");
    let policy = source.layer.sublayer(&["policy"], ValueOrigin::Workflow { name: source.file.to_owned() });
    let plan = WorkflowPlan {
        name: file.take_key::<Option<String>>("name").unwrap_or_else(|| stem.to_owned()),
        goal: file.take_key("goal"),
        description: file.take_key("description"),
        folder: folder.to_path_buf(),
        graph: build_graph(&start, &order, &nodes, &signals),
        start,
        nodes,
        policy: super::check_dialogue::with_texts(policy, &texts, source.file),
        providers: file.take_key("providers"),
        tools: file.take_key("tools"),
        gates: file.take_key("gates"),
        signal_locations: (0..signals.len())
            .map(|at| source.location(&["signals", &at.to_string()]))
            .collect(),
        signals,
        risk: file.take_key("risk"),
        workspace: file.take_key("workspace"),
        labels: file.take_key("labels"),
        texts,
        vars: file.take_key("vars"),
        reviewer: file.take_key("reviewer"),
        fallback_provider: file.take_key("fallback_provider"),
        pass_env: file.take_key("pass_env"),
    };
    if file.errors.is_empty() { Ok(plan) } else { Err(file.errors) }
}

/// Parses `nodes`: a list of maps, each with a unique `name` and a `kind`.
fn parse_nodes(file: &mut PlanParser<'_>) -> Vec<Node> {
    let list = match file.map.remove("nodes") {
        Some(Value::Array(list)) if !list.is_empty() => list,
        None | Some(Value::Array(_) | Value::Null) => {
            let advice = "write `nodes:` as a list, each with `name` and `kind`";
            let what = "the workflow has no nodes";
            file.errors.push(file.source.error(&["nodes"], "workflow_no_nodes", what, advice));
            return Vec::new();
        }
        Some(_) => {
            let advice = "write `nodes:` as a list: `- {name: …, kind: …}`";
            let what = "`nodes` must be a list";
            file.errors.push(file.source.error(&["nodes"], "workflow_wrong_type", what, advice));
            return Vec::new();
        }
    };
    let mut nodes: Vec<Node> = Vec::new();
    for (at, value) in list.into_iter().enumerate() {
        let read = parse_node(file.source, at, value);
        let Some(node) = file.ok_or_collect(read) else { continue };
        if nodes.iter().any(|known| known.name == node.name) {
            let what = format!("node '{}' is defined twice", node.name);
            let (place, advice) = (["nodes", &at.to_string()], "remove one of the two, or rename it");
            file.errors.push(file.source.error(&place, "workflow_duplicate_node", what, advice));
        } else {
            nodes.push(node);
        }
    }
    nodes
}

fn parse_node(source: &WorkflowSource<'_>, at: usize, value: Value) -> Result<Node, RunError> {
    let at = at.to_string();
    let path = ["nodes", at.as_str()];
    let Value::Object(mut map) = value else {
        let advice = "write {name: …, kind: …}; `flyball check` accepts a bare name, but a run does not";
        return Err(source.error(&path, "workflow_wrong_type", "a node must be a map", advice));
    };
    let name: String = match map.remove("name").or_else(|| map.remove("id")) {
        Some(name) => source.deserialize(&["nodes", &at, "name"], name)?,
        None => {
            let (what, advice) = ("this node has no name", "write name: …");
            return Err(source.error(&path, "workflow_missing_name", what, advice));
        }
    };
    if [super::DONE, super::FAILED].contains(&name.as_str()) || name.is_empty() {
        let what = format!("a node cannot be called '{name}'");
        return Err(source.error(
            &path,
            "workflow_reserved_name",
            what,
            "`done` and `failed` are reserved: they end a run",
        ));
    }
    let kind: String = match map.remove("kind") {
        Some(kind) => source.deserialize(&["nodes", &at, "kind"], kind)?,
        None => {
            let what = format!("node '{name}' has no kind");
            let advice = format!("add `kind:` with one of {}", NodeKind::KINDS.join(", "));
            return Err(source.error(&path, "workflow_missing_key", what, &advice));
        }
    };
    let mut common = Map::new();
    for key in NodeCommon::KEYS {
        if let Some(value) = map.remove(key) {
            common.insert(key.to_owned(), value);
        }
    }
    let common: NodeCommon = source.deserialize(&path, Value::Object(common))?;
    let work = parse_node_kind(source, &path, &name, &kind, Value::Object(map))?;
    Ok(Node { name, kind: work, common })
}

fn parse_node_kind(
    source: &WorkflowSource<'_>,
    path: &[&str],
    name: &str,
    kind: &str,
    rest: Value,
) -> Result<NodeKind, RunError> {
    Ok(match kind {
        "command" => NodeKind::Command(source.deserialize(path, rest)?),
        "agent" => NodeKind::Agent(source.deserialize(path, rest)?),
        "decide" => NodeKind::Decide(source.deserialize(path, rest)?),
        "gate" => NodeKind::Gate(source.deserialize(path, rest)?),
        "confirm" => NodeKind::Confirm(source.deserialize(path, rest)?),
        "collect" => NodeKind::Collect(source.deserialize(path, rest)?),
        "say" => NodeKind::Say(source.deserialize(path, rest)?),
        "tool" => NodeKind::Tool(source.deserialize(path, rest)?),
        "human" => NodeKind::Human(source.deserialize(path, rest)?),
        "join" => NodeKind::Join(source.deserialize(path, rest)?),
        "route" => NodeKind::Route(source.deserialize(path, rest)?),
        other => {
            let what = format!("node '{name}' has unknown kind '{other}'");
            let advice = format!("use one of {}", NodeKind::KINDS.join(", "));
            let mut whole = path.to_vec();
            whole.push("kind");
            return Err(source.error(&whole, "workflow_unknown_kind", what, &advice));
        }
    })
}

/// Parses `signals`: names, or maps that say how to measure them.
fn parse_signals(file: &mut PlanParser<'_>) -> Vec<SignalSpec> {
    let list: Vec<Value> = file.take_key("signals");
    let mut signals = Vec::new();
    for (at, value) in list.into_iter().enumerate() {
        let value = match value {
            Value::String(name) => json!({ "name": name }),
            other => other,
        };
        let read = file.source.deserialize(&["signals", &at.to_string()], value);
        signals.extend(file.ok_or_collect(read));
    }
    signals
}

/// Builds the graph that the governor sees: the nodes reachable from the start, on which loops are counted. It excludes
/// a reviewer that only runs when a loop stalls. A fork also has an edge to its join, which is the transition that the
/// main session takes while the branches run in their own sessions.
fn build_graph(
    start: &str,
    order: &[String],
    nodes: &BTreeMap<String, Node>,
    signals: &[SignalSpec],
) -> Workflow {
    let leads_to = |node: &Node| {
        let mut all = node.possible_targets();
        for branches in node.common.edges().map(|(_, next)| next.names()).filter(|names| names.len() > 1) {
            all.extend(join_of(nodes, &branches).filter(|join| !all.contains(join)));
        }
        all
    };
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut open = vec![start.to_owned()];
    while let Some(name) = open.pop() {
        if reached.insert(name.clone()) {
            open.extend(nodes.get(&name).map(&leads_to).unwrap_or_default());
        }
    }
    let mut names: Vec<String> = order.iter().filter(|name| reached.contains(*name)).cloned().collect();
    names.sort_by_key(|name| name != start);
    let mut edges = Vec::new();
    for node in order.iter().filter(|name| reached.contains(*name)).filter_map(|name| nodes.get(name)) {
        for to in leads_to(node) {
            if [super::DONE, super::FAILED].contains(&to.as_str()) && !names.contains(&to) {
                names.push(to.clone());
            }
            edges.push((None, node.name.clone(), to));
        }
    }
    let signals = signals.iter().map(|signal| signal.name.clone()).collect();
    Workflow { start: Some(start.to_owned()), ..Workflow::new(names, edges, signals) }
}
