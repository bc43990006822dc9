//! Every key of a workflow file: two runs that differ only in the key give a different output, event or model request.
//! The proofs are in `workflow.json`.
//!
//! A base is a workflow by name. A key is inserted at its place: in the first node, rule, signal, slot and gate, the
//! provider `main`, the tool `look`. Replies of a scripted model can be written in four places; each key of a reply is
//! proven in all of them.

use crate::command_harness::{repo_root, state_dir, test_dir};
use crate::difference::{Difference, assert_complete, assert_no_errors};
use crate::policy_keys::insert_at;
use crate::schema_keys::workflow_keys;
use flyball_model_server::{ModelServer, ServerScript};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of proofs that run in parallel. Most of the time is spent waiting for processes.
const WORKERS: usize = 4;
/// The places for replies of a scripted model.
const REPLIES: [&str; 4] = [
    "providers.*.replies[]",
    "providers.*.nodes.*.replies[]",
    "providers.*.otherwise",
    "providers.*.rules[].reply",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Proofs {
    bases: BTreeMap<String, Value>,
    proofs: Vec<Proof>,
}

/// The proof that a key has an effect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Proof {
    key: String,
    #[serde(default)]
    value: Value,
    /// The value to compare with; if `None`, the key is omitted there.
    instead: Option<Value>,
    #[serde(default)]
    base: String,
    /// Merged into the base in both runs.
    #[serde(default)]
    with: Value,
    /// Files of the project, by name.
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The behavior of an HTTP model; `$model` in the workflow is its address.
    model: Option<Value>,
    /// The commands; by default, the workflow is run.
    commands: Option<Vec<Vec<String>>>,
    /// Commands after the run.
    #[serde(default)]
    then: Vec<Vec<String>>,
    shows: Option<String>,
    hides: Option<String>,
    /// A separate test that proves it, as file and function: the delay is random, so that no single run can show it.
    elsewhere: Option<[String; 2]>,
}

/// Merges one value into another: objects by key, lists by their first elements.
fn lay(over: &Value, under: &mut Value) {
    match (over, under) {
        (Value::Null, _) => {}
        (Value::Object(keys), Value::Object(map)) => {
            for (key, value) in keys {
                match map.get_mut(key) {
                    Some(under) if !value.is_null() => lay(value, under),
                    _ if value.is_null() => drop(map.remove(key)),
                    _ => drop(map.insert(key.clone(), value.clone())),
                }
            }
        }
        (Value::Array(over), Value::Array(under)) => {
            for (index, value) in over.iter().enumerate() {
                match under.get_mut(index) {
                    Some(under) => lay(value, under),
                    None => under.push(value.clone()),
                }
            }
        }
        (over, under) => *under = over.clone(),
    }
}

/// The path of a key, with the names for `*`.
fn path(key: &str) -> Vec<String> {
    let mut path: Vec<String> = Vec::new();
    for part in key.split('.') {
        let name = match (part, path.last().map(String::as_str)) {
            ("*", Some("providers")) => "main",
            ("*", Some("tools")) => "look",
            ("*", Some("nodes")) => "work",
            ("*", Some("answers")) => "price",
            (part, _) => part,
        };
        path.push(name.to_owned());
    }
    path
}

impl Proof {
    /// The workflow with the key and without it.
    fn workflows(&self, bases: &BTreeMap<String, Value>, place: &str) -> [Value; 2] {
        let mut without = bases.get(&self.base).unwrap_or_else(|| panic!("{}: no base", self.key)).clone();
        lay(&self.with, &mut without);
        let mut with = without.clone();
        let key = path(&self.key);
        let key: Vec<&str> = key.iter().map(String::as_str).collect();
        // Text in one language is placed next to the other languages.
        if let [around @ .., "en" | "es" | "ru"] = key.as_slice()
            && let Some(Value::String(words)) = value_at(&with, around)
        {
            insert_at(&mut with, around, &json!({"en": words}));
        }
        insert_at(&mut with, &key, &self.value);
        if let Some(value) = &self.instead {
            insert_at(&mut without, &key, value);
        }
        [with, without].map(|mut workflow| {
            move_replies(&mut workflow, place);
            workflow
        })
    }

    /// Runs the commands; returns their output, the stored rows and the model requests.
    fn observed(&self, name: &str, mut workflow: Value) -> String {
        let place = test_dir(&format!("wired-workflow-{name}"));
        let server = self.model.clone().map(|script| {
            ModelServer::start(
                ServerScript::from_value(script).unwrap_or_else(|error| panic!("{}: {error}", self.key)),
            )
            .unwrap()
        });
        for (key, value) in [("version", json!(1)), ("name", json!("proof"))] {
            workflow.as_object_mut().unwrap().entry(key).or_insert(value);
        }
        let url = server.as_ref().map(ModelServer::url).unwrap_or_default();
        std::fs::write(place.join("workflow.json"), workflow.to_string().replace("$model", &url)).unwrap();
        for (name, text) in &self.files {
            let file = place.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let run = ["run", "workflow.json", "--session", "s1", "--store", "sqlite:events.db"];
        let run: Vec<String> = run.map(str::to_owned).to_vec();
        let commands = self.commands.clone().unwrap_or_else(|| vec![run]);
        let text =
            commands.iter().chain(&self.then).map(|args| self.command(&place, args)).collect::<String>();
        let asked = server.iter().flat_map(ModelServer::requests);
        let asked: String = asked
            .map(|request| format!("asked {} {:?} {}\n", request.path, request.headers, request.body))
            .collect();
        format!("{text}{asked}{}", stored(&place))
    }

    fn command(&self, place: &Path, args: &[String]) -> String {
        let path = std::env::var("PATH").unwrap();
        let state = state_dir(place);
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(args).current_dir(place).env_clear().stdin(Stdio::null());
        command.env("PATH", path).env("XDG_STATE_HOME", state).envs(&self.env);
        // A program of a run may kill the run.
        let run = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{args:?} {}\n{}{}\n", run.status, text(&run.stdout), text(&run.stderr))
    }

    fn problem(&self, bases: &BTreeMap<String, Value>, place: &str) -> Option<String> {
        if let Some([file, test]) = &self.elsewhere {
            let text = std::fs::read_to_string(repo_root().join(file)).unwrap_or_default();
            let is_there = text.contains(&format!("fn {test}("));
            return (!is_there).then(|| format!("{}: {file} has no test {test}", self.key));
        }
        let name = format!("{}-{}", self.key, place).replace(['.', '[', ']', '*'], "_");
        let [with, without] = self.workflows(bases, place);
        let with = self.observed(&format!("{name}-with"), with);
        let without = self.observed(&format!("{name}-without"), without);
        let difference = Difference { shows: self.shows.clone(), hides: self.hides.clone() };
        let problem = difference.error(&with, &without)?;
        Some(format!("{} ({place}): {problem}\n== with:\n{with}\n== without:\n{without}", self.key))
    }
}

/// The value at a path.
fn value_at(tree: &Value, path: &[&str]) -> Option<Value> {
    let step = |at: Value, part: &&str| match part.strip_suffix("[]") {
        Some(part) => at.get(part)?.get(0).cloned(),
        None => at.get(*part).cloned(),
    };
    path.iter().try_fold(tree.clone(), step)
}

/// Every event and decision in the store, as text.
fn stored(place: &Path) -> String {
    let store = place.join("events.db");
    if !store.exists() {
        return String::new();
    }
    let sql = rusqlite::Connection::open(store).unwrap();
    let query =
        "SELECT text || ' ' || verdict || ' ' || coalesce(decision, '') FROM flyball_events ORDER BY pos";
    let mut statement = sql.prepare(query).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|row| format!("{}\n", row.unwrap())).collect()
}

/// Moves the replies of the scripted model to another allowed place: the first one there, the second after it.
fn move_replies(workflow: &mut Value, place: &str) {
    if place == REPLIES[0] {
        return;
    }
    let main = workflow["providers"]["main"].as_object_mut().unwrap();
    let Some(Value::Array(replies)) = main.remove("replies") else { panic!("no replies") };
    let (first, rest) = (replies[0].clone(), replies.get(1).cloned().unwrap_or_default());
    let later = if rest.is_null() { json!([]) } else { json!([{"when": {"round": 2}, "reply": rest}]) };
    let more = match place {
        "providers.*.nodes.*.replies[]" => json!({"nodes": {"work": {"replies": replies}}}),
        "providers.*.otherwise" => json!({"rules": later, "otherwise": first}),
        _ => json!({"rules": [{"when": {"round": 1}, "reply": first}], "otherwise": rest}),
    };
    main.extend(more.as_object().unwrap().clone().into_iter().filter(|(_, value)| !value.is_null()));
}

/// The proofs, with the place of a reply for those that concern one.
fn jobs(proofs: &[Proof]) -> Vec<(String, &Proof, &'static str)> {
    let mut jobs = Vec::new();
    for proof in proofs {
        jobs.push((proof.key.clone(), proof, REPLIES[0]));
        if let Some(rest) = proof.key.strip_prefix(&format!("{}.", REPLIES[0])) {
            for place in &REPLIES[1..] {
                jobs.push((format!("{place}.{rest}"), proof, place));
            }
        }
    }
    jobs
}

#[test]
fn every_workflow_key_changes_what_a_run_does() {
    let file = repo_root().join("crates/flyball-cli/tests/wired/workflow.json");
    let Proofs { bases, proofs } = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let wanted = std::env::var("FLYBALL_SCENARIO").unwrap_or_default();
    let jobs = jobs(&proofs);
    let chosen: Vec<_> = jobs.iter().filter(|(key, ..)| key.contains(&wanted)).collect();
    let (next, errors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((_, proof, place)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let problem = proof.problem(&bases, place);
                    errors.lock().unwrap().extend(problem);
                }
            });
        }
    });
    assert_no_errors(errors.into_inner().unwrap());
    let proven: BTreeSet<&str> = jobs.iter().map(|(key, ..)| key.as_str()).collect();
    assert_complete("workflow keys", workflow_keys().iter().map(String::as_str), proven);
}
