//! From the text of a workflow file to a plan, with the place of everything that is wrong.

use super::node::{Common, Node, Work};
use super::spec::Signal;
use super::{Plan, check, join_of};
use crate::fail::Failure;
use flyball::graph::Workflow;
use flyball::policy::{Code, Format, Layer, Origin, Place, PolicyError, PolicyErrors, parse};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The keys of the file itself.
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

/// A file that is being read.
pub(super) struct Source<'a> {
    pub(super) layer: &'a Layer,
    pub(super) file: &'a str,
}

impl Source<'_> {
    /// Where a key is written, if the file has lines.
    fn place(&self, path: &[&str]) -> Option<Place> {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        self.layer.places.find(&path)
    }

    /// A complaint about what stands at a path.
    pub(super) fn wrong(&self, path: &[&str], code: &str, what: impl Into<String>, advice: &str) -> Failure {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let place = self.layer.places.find(&path).map_or_else(
            || format!("{}:1:1", self.file),
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
    let plan = plan(&source, folder)?;
    let wrong = check::all(&source, &plan);
    if wrong.is_empty() { Ok(plan) } else { Err(wrong) }
}

fn syntax(errors: &PolicyErrors) -> Vec<Failure> {
    let tell = |error: &PolicyError| {
        let number = |number: Option<u32>| number.map_or_else(String::new, |number| format!(":{number}"));
        let place = format!("{}{}{}", error.file, number(error.line), number(error.column));
        let twice = error.code == Code::DuplicateKey;
        let code = if twice { "workflow_duplicate_key" } else { "workflow_syntax" };
        Failure::new(code, error.what.clone(), error.help.clone()).at(place)
    };
    errors.iter().map(tell).collect()
}

/// Keeps what could be read; what could not is told at the end, together.
struct Gathered<'a> {
    source: &'a Source<'a>,
    map: Map<String, Value>,
    wrong: Vec<Failure>,
}

impl Gathered<'_> {
    fn keep<T>(&mut self, read: Result<T, Failure>) -> Option<T> {
        read.map_err(|failure| self.wrong.push(failure)).ok()
    }

    /// The part under a key; its default if it is not there or cannot be read.
    fn part<T: DeserializeOwned + Default>(&mut self, key: &str) -> T {
        match self.map.remove(key) {
            None | Some(Value::Null) => T::default(),
            Some(value) => {
                let read = self.source.take(&[key], value);
                self.keep(read).unwrap_or_default()
            }
        }
    }

    fn unknown_keys(&mut self) {
        for key in self.map.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            let what = format!("`{key}` is not a key of a workflow");
            let advice = match key.as_str() {
                "edges" => {
                    "where a node leads is said by the node itself: `next`, `on_success`, `on_failure`"
                        .to_owned()
                }
                _ => format!("remove it, or correct its spelling; the keys are {}", KEYS.join(", ")),
            };
            self.wrong.push(self.source.wrong(&[key], "workflow_unknown_key", what, &advice));
        }
    }

    fn version(&mut self) {
        if self.map.remove("version").is_some_and(|version| version != json!(1)) {
            let what = "this version of workflow files is not known";
            self.wrong.push(self.source.wrong(&["version"], "workflow_version", what, "write `version: 1`"));
        }
    }
}

fn plan(source: &Source<'_>, folder: &Path) -> Result<Plan, Vec<Failure>> {
    let Value::Object(map) = source.layer.tree.clone() else {
        let (what, advice) = ("a workflow is a map", "begin with `nodes:`");
        return Err(vec![source.wrong(&[], "workflow_wrong_type", what, advice)]);
    };
    let mut file = Gathered { source, map, wrong: Vec::new() };
    file.unknown_keys();
    file.version();
    let nodes = nodes(&mut file);
    let signals = signals(&mut file);
    let order: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let nodes: BTreeMap<String, Node> = nodes.into_iter().map(|node| (node.name.clone(), node)).collect();
    let first = order.first().cloned().unwrap_or_default();
    let stem = Path::new(source.file).file_stem().and_then(|stem| stem.to_str()).unwrap_or("workflow");
    let start = file.part::<Option<String>>("start").unwrap_or(first);
    let texts: BTreeMap<String, String> = file.part("texts");
    let policy = source.layer.below(&["policy"], Origin::Workflow { name: source.file.to_owned() });
    let plan = Plan {
        name: file.part::<Option<String>>("name").unwrap_or_else(|| stem.to_owned()),
        goal: file.part("goal"),
        description: file.part("description"),
        folder: folder.to_path_buf(),
        graph: graph(&start, &order, &nodes, &signals),
        start,
        nodes,
        policy: super::dialogue::with_texts(policy, &texts, source.file),
        providers: file.part("providers"),
        tools: file.part("tools"),
        gates: file.part("gates"),
        signal_places: (0..signals.len()).map(|at| source.place(&["signals", &at.to_string()])).collect(),
        signals,
        risk: file.part("risk"),
        workspace: file.part("workspace"),
        labels: file.part("labels"),
        texts,
        vars: file.part("vars"),
        reviewer: file.part("reviewer"),
        fallback_provider: file.part("fallback_provider"),
        pass_env: file.part("pass_env"),
    };
    if file.wrong.is_empty() { Ok(plan) } else { Err(file.wrong) }
}

/// Nodes are a list of maps, each with a `name` of its own and a `kind`.
fn nodes(file: &mut Gathered<'_>) -> Vec<Node> {
    let list = match file.map.remove("nodes") {
        Some(Value::Array(list)) if !list.is_empty() => list,
        None | Some(Value::Array(_) | Value::Null) => {
            let advice = "write `nodes:` as a list, each with `name` and `kind`";
            let what = "the workflow has no nodes";
            file.wrong.push(file.source.wrong(&["nodes"], "workflow_no_nodes", what, advice));
            return Vec::new();
        }
        Some(_) => {
            let advice = "write `nodes:` as a list: `- {name: …, kind: …}`";
            let what = "`nodes` is not a list";
            file.wrong.push(file.source.wrong(&["nodes"], "workflow_wrong_type", what, advice));
            return Vec::new();
        }
    };
    let mut nodes: Vec<Node> = Vec::new();
    for (at, value) in list.into_iter().enumerate() {
        let read = node(file.source, at, value);
        let Some(node) = file.keep(read) else { continue };
        if nodes.iter().any(|known| known.name == node.name) {
            let what = format!("node '{}' is there twice", node.name);
            let (place, advice) = (["nodes", &at.to_string()], "remove one of the two, or rename it");
            file.wrong.push(file.source.wrong(&place, "workflow_duplicate_node", what, advice));
        } else {
            nodes.push(node);
        }
    }
    nodes
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
            let (what, advice) = ("this node has no name", "write name: …");
            return Err(source.wrong(&path, "workflow_missing_name", what, advice));
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
fn signals(file: &mut Gathered<'_>) -> Vec<Signal> {
    let list: Vec<Value> = file.part("signals");
    let mut signals = Vec::new();
    for (at, value) in list.into_iter().enumerate() {
        let value = match value {
            Value::String(name) => json!({ "name": name }),
            other => other,
        };
        let read = file.source.take(&["signals", &at.to_string()], value);
        signals.extend(file.keep(read));
    }
    signals
}

/// The graph that the governor sees: what can be reached from the start, from which loops are counted. A reviewer that is only called when a loop stalls is no part of it. Where the run branches there is also
/// an edge to the join: that is the step that the run itself takes, while others walk the branches.
fn graph(start: &str, order: &[String], nodes: &BTreeMap<String, Node>, signals: &[Signal]) -> Workflow {
    let leads_to = |node: &Node| {
        let mut all = node.leads_to();
        for branches in node.common.ways().map(|(_, next)| next.names()).filter(|names| names.len() > 1) {
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
