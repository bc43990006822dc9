//! Every policy key, including those of single nodes, edges and tools and the keys of other systems: two sessions that
//! differ only in the key get different decisions. The proofs are in `policy.json`; those of `journal:` are in
//! `storage_keys.rs`.

use crate::command_harness::{run_flyball, test_dir};
use crate::compare::answer_text;
use crate::difference::{Difference, assert_complete, assert_no_errors};
use crate::labels;
use crate::scenario_table::{RawScenarioStep, events_of};
use crate::schema_keys::policy_keys;
use crate::storage_keys;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The proof that a key has an effect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyProof {
    key: String,
    /// The node, edge, tool or operation for `*`.
    name: Option<String>,
    /// The key with the same proof.
    like: Option<String>,
    #[serde(default)]
    value: Value,
    /// The policy without the key.
    #[serde(default)]
    base: Value,
    /// Additional fields of `session.started`.
    #[serde(default)]
    start: Map<String, Value>,
    #[serde(default)]
    steps: Vec<RawScenarioStep>,
    shows: Option<String>,
    hides: Option<String>,
}

/// Sections in which a guard may have separate values.
const GUARD_SCOPES: [&str; 3] = ["nodes", "edges", "tools"];
/// The acting node of events that name none.
const DEFAULT_NODE: &str = "n1";

fn load_proofs() -> BTreeMap<String, KeyProof> {
    let all: Vec<KeyProof> = serde_json::from_str(include_str!("policy.json")).unwrap();
    let mut proofs: BTreeMap<String, KeyProof> = BTreeMap::new();
    for proof in all {
        let proof = match &proof.like {
            Some(like) => KeyProof { key: proof.key.clone(), ..proofs[like].clone() },
            None => proof,
        };
        let key = proof.key.clone();
        assert!(proofs.insert(key.clone(), proof).is_none(), "two proofs of {key}");
    }
    proofs
}

/// One session with the key and one without.
struct SessionPair {
    key: String,
    difference: Difference,
    with: Vec<Value>,
    without: Vec<Value>,
}

impl KeyProof {
    fn difference(&self) -> Difference {
        Difference { shows: self.shows.clone(), hides: self.hides.clone() }
    }

    fn events(&self, session: &str, policy: &Value, node: Option<&str>) -> Vec<Value> {
        let mut start = json!({"type": "session.started"});
        start.as_object_mut().unwrap().extend(self.start.clone());
        if !policy.is_null() {
            start["policy"] = policy.clone();
        }
        let mut events = events_of(start, &self.steps, session);
        for event in events.iter_mut().skip(1).filter(|event| event["type"] != "transition.requested") {
            if let (Some(node), None) = (node, event.get("node")) {
                event["node"] = json!(node);
            }
        }
        events
    }

    /// The pair for the key at its own path.
    fn pair(&self) -> SessionPair {
        let name = self.name.as_deref().unwrap_or_default();
        let path: Vec<&str> = self.key.split('.').map(|part| if part == "*" { name } else { part }).collect();
        self.pair_at(&self.key, &[path], None)
    }

    /// The pair for the same key of single nodes, edges or tools: of all that occur in the events.
    fn scoped_pair(&self, key: &str, rest: &str) -> SessionPair {
        let scope = key.split('.').next().unwrap();
        let node = (scope == "nodes").then_some(DEFAULT_NODE);
        let mut names: BTreeSet<String> = node.map(str::to_owned).into_iter().collect();
        for event in self.events("x", &Value::Null, None) {
            let text = |key: &str| event[key].as_str().map(str::to_owned);
            match scope {
                "tools" => names.extend(text("tool")),
                "edges" => {
                    names.extend(text("from").zip(text("to")).map(|(from, to)| format!("{from}->{to}")));
                }
                _ => names.extend([text("node"), text("from"), text("to")].into_iter().flatten()),
            }
        }
        let operation = self.name.as_deref().unwrap_or_default();
        let paths: Vec<Vec<&str>> = names
            .iter()
            .map(|name| {
                let rest = rest.split('.').map(|part| if part == "*" { operation } else { part });
                [scope, name.as_str()].into_iter().chain(rest).collect()
            })
            .collect();
        self.pair_at(key, &paths, node)
    }

    fn pair_at(&self, key: &str, paths: &[Vec<&str>], node: Option<&str>) -> SessionPair {
        let mut policy = if self.base.is_null() { json!({}) } else { self.base.clone() };
        paths.iter().for_each(|path| insert_at(&mut policy, path, &self.value));
        SessionPair {
            key: key.to_owned(),
            difference: self.difference(),
            with: self.events(&format!("{key} with"), &policy, node),
            without: self.events(&format!("{key} without"), &self.base, node),
        }
    }
}

/// Inserts a value at a path. `rules[]` is the first element of a list, and a guard given as one word becomes its mode.
pub(crate) fn insert_at(tree: &mut Value, path: &[&str], value: &Value) {
    let mut at = tree;
    for (index, part) in path.iter().enumerate() {
        let (part, is_list) = part.strip_suffix("[]").map_or((*part, false), |part| (part, true));
        if at.is_string() {
            *at = json!({"mode": at.clone()});
        }
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[part];
        if is_list {
            at = &mut at[0];
        }
        if index + 1 == path.len() {
            *at = value.clone();
        }
    }
}

/// The proof of a key: its own, that of the guard's global key, or that of the mode for a guard given as one word.
fn pair_of(key: &str, proofs: &BTreeMap<String, KeyProof>) -> Option<SessionPair> {
    if let Some(proof) = proofs.get(key) {
        return Some(proof.pair());
    }
    let mode = format!("{key}.mode");
    if let Some(proof) = proofs.get(&mode) {
        return Some(KeyProof { key: key.to_owned(), ..proof.clone() }.pair());
    }
    let (scope, rest) = key.split_once(".*.")?;
    let common = format!("guards.{rest}");
    let proof = proofs.get(&common).or_else(|| proofs.get(&format!("{common}.mode")));
    proof.filter(|_| GUARD_SCOPES.contains(&scope)).map(|proof| proof.scoped_pair(key, rest))
}

/// A policy key as an environment variable.
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) events: Vec<Value>,
    pub(crate) difference: Difference,
}

impl Variable {
    /// The answers in the form that the proofs of policy keys use; other text is unchanged.
    pub(crate) fn outlined(&self, out: &str) -> String {
        let answers = out.lines().filter(|line| line.starts_with('{')).enumerate();
        let lines = answers.map(|(number, line)| {
            let answer: Value = serde_json::from_str(line).unwrap_or_default();
            format!("{number}: {} {line}\n", answer_text(&answer))
        });
        lines.collect::<String>()
    }
}

/// The keys that a variable can set, with their proofs: `FLYBALL_BUDGETS__SESSION__TURNS` is `budgets.session.turns`.
/// Names with capital letters and list elements cannot be set this way.
pub(crate) fn variables(keys: &BTreeSet<String>) -> Vec<Variable> {
    /// Keys without a dot that a variable may set; other names belong to the program.
    const SINGLE: [&str; 5] = ["preset", "on_stall", "escalate", "notify", "rules_version"];
    let proofs = load_proofs();
    let can = |key: &&String| {
        let plain = !key.contains(['*', '[']) && !key.contains(|c: char| c.is_ascii_uppercase());
        plain && (key.contains('.') || SINGLE.contains(&key.as_str()))
    };
    let variable = |key: &String| {
        let mode = format!("{key}.mode");
        let proof = proofs.get(key).or_else(|| proofs.get(&mode))?;
        let value = match &proof.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let name = format!("FLYBALL_{}", key.to_ascii_uppercase().replace('.', "__"));
        let events = proof.events("s1", &proof.base, None);
        Some(Variable { name, value, events, difference: proof.difference() })
    };
    keys.iter().filter(can).filter_map(variable).collect()
}

/// Evaluates all events in one process. Returns the answers to each list as text: number, outline, decision.
fn decide_all(lists: &[&Vec<Value>]) -> Vec<String> {
    let place = test_dir("wired-policy");
    let input: Vec<String> = lists.iter().copied().flatten().map(Value::to_string).collect();
    let run = run_flyball(&place, &["observe"], input.join("\n").as_bytes(), &[]);
    let mut answers = run.out.lines();
    let text = |list: &&Vec<Value>| {
        let session = list[0]["session"].as_str().unwrap();
        let lines = answers.by_ref().take(list.len()).enumerate().map(|(number, line)| {
            let answer: Value = serde_json::from_str(line).unwrap();
            format!("{number}: {} {}\n", answer_text(&answer), line.replace(session, "S"))
        });
        lines.collect::<String>()
    };
    lists.iter().map(text).collect()
}

#[test]
fn every_policy_key_changes_a_decision_an_effect_or_what_is_stored() {
    let (keys, proofs) = (policy_keys(), load_proofs());
    let checked = keys_of_client_decisions();
    let elsewhere = storage_keys::STORAGE_KEYS
        .iter()
        .chain(&labels::KEYS)
        .copied()
        .chain(checked.iter().map(String::as_str));
    let pairs: Vec<SessionPair> = keys.iter().filter_map(|key| pair_of(key, &proofs)).collect();
    let lists: Vec<&Vec<Value>> = pairs.iter().flat_map(|pair| [&pair.with, &pair.without]).collect();
    let texts = decide_all(&lists);
    let mut errors = Vec::new();
    for (pair, texts) in pairs.iter().zip(texts.chunks(2)) {
        if let Some(problem) = pair.difference.error(&texts[0], &texts[1]) {
            errors.push(format!("{}: {problem}\n{}", pair.key, texts[0]));
        }
    }
    assert_no_errors(errors);
    let own = proofs.keys().map(String::as_str);
    let proven = pairs.iter().map(|pair| pair.key.as_str()).chain(elsewhere).chain(own);
    assert_complete("policy keys", keys.iter().map(String::as_str), proven);
}

/// The results that a phase may have transitions for.
const RESULTS: [&str; 4] = ["on_success", "on_failure", "on_partial_success", "on_unclear"];

/// Keys of questions that a client decides itself. Flyball only passes them on; `flyball check` prints them.
fn keys_of_client_decisions() -> Vec<String> {
    let keys =
        |result: &str| ["capability", "prompt"].map(|key| format!("phases[].transitions.{result}.{key}"));
    RESULTS.into_iter().flat_map(keys).collect()
}

#[test]
fn check_shows_the_approval_question() {
    let place = test_dir("wired-phases");
    let checked = |decision: &Value, result: &str| {
        let policy = json!({"phases": [{"name": "a", "transitions": {result: decision}}, {"name": "b"}]});
        std::fs::write(place.join("policy.json"), policy.to_string()).unwrap();
        let run = run_flyball(&place, &["check", "policy.json"], b"", &[]);
        assert_eq!(run.code, 0, "{}{}", run.out, run.err);
        run.out
    };
    let mut errors = Vec::new();
    for result in RESULTS {
        let plain = json!({"allowed_destinations": ["b"]});
        for (key, words) in [("capability", "the judge of it"), ("prompt", "where does it lead?")] {
            let mut with = plain.clone();
            with[key] = json!(words);
            let problem = Difference::shows(words).error(&checked(&with, result), &checked(&plain, result));
            errors.extend(problem.map(|problem| format!("{result}.{key}: {problem}")));
        }
    }
    assert_no_errors(errors);
}
