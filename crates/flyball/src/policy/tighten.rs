//! Layers that may only tighten: what a project brings along, until its user trusts it.
//!
//! A clone brings its policy file with it, so the file is input like any other. Each key declares which change makes it
//! stricter where it is declared (`fields_guards.rs`, [`super::values::Stricter`]); a key without a direction counts
//! as loosening. Values that are not stricter than what all trusted layers say together are left out and reported.

use serde_json::{Map, Value};

use super::Policy;
use super::canonical::Canonical;
use super::layer::{Origin, Trust};
use super::leaves::collect_leaves;
use super::lint::{Severity, Warning};
use super::paths::PointerOf;
use super::places::join;
use super::resolve::{Merged, Resolved, Written, apply, preset_of, written_at};
use super::values::{Problem, kind};

/// What reading a section found out.
#[derive(Default)]
pub(super) struct Findings {
    /// What is wrong with the written values.
    pub(super) problems: Vec<Problem>,
    /// Only values that are stricter than the present ones count.
    pub(super) only_tighten: bool,
    /// With `only_tighten`: the paths of values that would loosen the policy. The present values stay.
    pub(super) loosening: Vec<Vec<String>>,
    /// With `only_tighten`: the paths of values that change nothing.
    pub(super) unchanged: Vec<Vec<String>>,
}

/// A value that was left out, because its layer may only tighten and the value would loosen the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Ignored {
    /// The dotted path of the value.
    pub path: String,
    /// Where it was written.
    pub written: Written,
    /// The value as written.
    pub value: Value,
    /// Why it was left out.
    pub why: String,
}

impl Ignored {
    /// The code of the warning about it.
    pub const CODE: &'static str = "policy_untrusted";

    /// What is wrong, in one line.
    #[must_use]
    pub fn what(&self) -> String {
        format!("'{}: {}' is ignored: {}", self.written.key, shown(&self.value), self.why)
    }

    /// What to do about it, in one line.
    #[must_use]
    pub fn help(&self) -> String {
        match &self.written.origin {
            Origin::File { name } => format!("read the file, and if you agree: flyball trust {name}"),
            Origin::Environment { .. } | Origin::CommandLine => {
                "a hook entry may only tighten: write it into your own policy file, or install the hook with it".to_owned()
            }
            _ => "write it into your own policy file".to_owned(),
        }
    }

    /// The warning about it.
    #[must_use]
    pub fn warning(&self) -> Warning {
        Warning {
            code: Ignored::CODE,
            severity: Severity::Warning,
            path: self.path.clone(),
            origin: self.written.origin.clone(),
            place: self.written.place,
            what: self.what(),
            help: self.help(),
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.chars().take(60).collect(),
        Value::Array(_) | Value::Object(_) => kind(value),
        other => other.to_string(),
    }
}

/// Takes out of each layer that may only tighten what is not stricter than the policy of all trusted layers, whatever
/// their order: a value for one tool must not undo what a higher layer says for all tools. Returns what is left of each
/// of them, with the rules that it adds.
pub(super) fn keep_only_tightening(
    base: &Policy,
    layers: &mut [Canonical<'_>],
    rules: Vec<Vec<Value>>,
    ignored: &mut Vec<Ignored>,
) -> Vec<Value> {
    if layers.iter().all(|c| c.layer.trust == Trust::Full) {
        return Vec::new();
    }
    let trusted = layers.iter().filter(|c| c.layer.trust == Trust::Full);
    let merged = Merged::of(trusted, base.preset);
    let mut policy = base.clone();
    if merged.tree.as_object().is_some_and(|keys| !keys.is_empty()) {
        apply(&mut policy, &merged.tree, &mut Findings::default());
    }
    let mut left = Vec::new();
    let untrusted = layers.iter_mut().filter(|c| c.layer.trust == Trust::TightenOnly);
    for (c, rules) in untrusted.zip(rules) {
        tighten(&mut policy, c, ignored);
        let mut tree = c.tree.clone();
        if let (Value::Object(keys), false) = (&mut tree, rules.is_empty()) {
            keys.insert("rules".to_owned(), Value::Array(rules));
        }
        left.push(tree);
    }
    left
}

fn tighten(policy: &mut Policy, c: &mut Canonical<'_>, ignored: &mut Vec<Ignored>) {
    let mut note = |c: &Canonical<'_>, path: &[String], why: String| {
        let value = c.tree.pointer_of(path).cloned().unwrap_or_default();
        ignored.push(Ignored { path: join(path), written: written_at(c, path), value, why });
    };
    for path in shadowing(policy, &c.tree) {
        note(&*c, &path, "naming a tool would take it out of the limits of its node".to_owned());
        remove(&mut c.tree, &path);
    }
    let preset = vec!["preset".to_owned()];
    let mut stricter = None;
    if let Some(named) = c.tree.get("preset").and_then(preset_of)
        && named != policy.preset
    {
        let wanted = apply(&mut Policy::preset(named), &Value::Null, &mut Findings::default());
        let mut tightened = policy.clone();
        let (values, looser) = stricter_values(&mut tightened, wanted);
        if looser.is_empty() {
            *policy = tightened;
            stricter = Some(values);
        } else {
            // The limits of a preset belong together, so it is taken as a whole or not at all.
            let why = format!("a project may only tighten, and preset {} holds", policy.preset.as_str());
            note(&*c, &preset, why);
        }
    }
    remove(&mut c.tree, &preset);
    let mut found = Findings { only_tighten: true, ..Findings::default() };
    apply(policy, &c.tree, &mut found);
    let present = if found.loosening.is_empty() {
        Value::Null
    } else {
        apply(&mut policy.clone(), &Value::Null, &mut Findings::default())
    };
    for path in &found.loosening {
        let why = match present.pointer_of(path) {
            Some(kept) if !kept.is_object() && !kept.is_array() => {
                format!("a project may only tighten, and {} holds", shown(kept))
            }
            _ => "a project may only tighten".to_owned(),
        };
        note(&*c, path, why);
    }
    for path in &found.loosening {
        remove(&mut c.tree, path);
    }
    // The file's own values stand above those of the preset that it names.
    if let Some(mut values) = stricter {
        overlay(&mut values, std::mem::take(&mut c.tree));
        c.tree = values;
    }
}

/// Entries for tools that no trusted layer names, where trusted layers have limits for nodes: a call is held to the
/// limits of its tool alone as soon as the policy names the tool.
fn shadowing(policy: &Policy, tree: &Value) -> Vec<Vec<String>> {
    let tools = tree.get("tools").and_then(Value::as_object);
    let new = |name: &&String| !policy.nodes.is_empty() && !policy.tools.contains_key(*name);
    let names = tools.into_iter().flat_map(Map::keys).filter(new);
    names.map(|name| vec!["tools".to_owned(), name.clone()]).collect()
}

/// The effective values of another policy that are stricter than this one, which has them afterwards, and the paths of
/// those that are looser.
fn stricter_values(policy: &mut Policy, mut wanted: Value) -> (Value, Vec<String>) {
    for key in ["preset", "version", "rules", "rules_version"] {
        remove(&mut wanted, &[key.to_owned()]);
    }
    let mut looser: Vec<String> = Vec::new();
    for path in shadowing(policy, &wanted) {
        looser.push(join(&path));
        remove(&mut wanted, &path);
    }
    let mut found = Findings { only_tighten: true, ..Findings::default() };
    apply(policy, &wanted, &mut found);
    looser.extend(found.loosening.iter().map(|path| join(path)));
    // A limit that is written holds in loops, so what the policy says about that goes with the limit.
    let says_where = |path: &&Vec<String>| path.last().is_none_or(|key| key != "holds_in_loops");
    for path in found.loosening.iter().chain(found.unchanged.iter().filter(says_where)) {
        remove(&mut wanted, path);
    }
    drop_lone_scopes(&mut wanted);
    (wanted, looser)
}

/// Removes where a limit holds if the limit itself is not there: alone it changes nothing. Says whether nothing is left.
fn drop_lone_scopes(tree: &mut Value) -> bool {
    let Value::Object(map) = tree else { return false };
    let had_keys = !map.is_empty();
    map.retain(|_, inner| !drop_lone_scopes(inner));
    if map.len() == 1 {
        map.remove("holds_in_loops");
    }
    had_keys && map.is_empty()
}

/// What a newer policy changes: the values that are stricter, as a tree, and the paths that are looser or gone. What
/// no decision depends on is left out.
pub(crate) fn compare(old: &Resolved, new: &Resolved) -> (Value, Vec<String>) {
    let mut wanted = new.effective.clone();
    for key in ["journal", "on_error"] {
        remove(&mut wanted, &[key.to_owned()]);
    }
    let (mut stricter, mut looser) = stricter_values(&mut old.policy.clone(), wanted);
    let same = |name: &str| {
        let find = |policy: &Policy| policy.rules.iter().find(|rule| rule.name() == name).cloned();
        (find(&old.policy), find(&new.policy))
    };
    let mut added: Vec<Value> = Vec::new();
    let written = new.effective.get("rules").and_then(Value::as_array);
    for rule in written.into_iter().flatten() {
        let name = rule.get("name").and_then(Value::as_str).unwrap_or_default();
        match same(name) {
            (None, _) => added.push(rule.clone()),
            (old, new) if old != new => looser.push(join(&["rules", name])),
            _ => {}
        }
    }
    looser.extend(
        old.policy
            .rules
            .iter()
            .filter(|rule| same(rule.name()).1.is_none())
            .map(|rule| join(&["rules", rule.name()])),
    );
    for group in ["nodes", "edges", "tools"] {
        let gone = leaves_of(&old.effective, group)
            .into_iter()
            .filter(|path| new.effective.pointer_of(path).is_none());
        looser.extend(gone.map(|path| join(&path)));
    }
    if let (Value::Object(map), false) = (&mut stricter, added.is_empty()) {
        map.insert("rules".to_owned(), Value::Array(added));
    }
    (stricter, looser)
}

fn leaves_of(effective: &Value, group: &str) -> Vec<Vec<String>> {
    let mut leaves = Vec::new();
    if let Some(values) = effective.get(group) {
        collect_leaves(values, &mut vec![group.to_owned()], &mut leaves);
    }
    leaves.into_iter().map(|(path, _)| path).collect()
}

/// Takes a value out of a tree, with the maps around it that become empty.
fn remove(tree: &mut Value, path: &[String]) {
    let (Some((first, rest)), Value::Object(map)) = (path.split_first(), tree) else { return };
    if rest.is_empty() {
        map.remove(first);
    } else if let Some(inner) = map.get_mut(first) {
        remove(inner, rest);
        if inner.as_object().is_some_and(Map::is_empty) {
            map.remove(first);
        }
    }
}

/// Puts the values of one tree over those of another; lists of rules are joined.
pub(crate) fn overlay(tree: &mut Value, over: Value) {
    match (tree, over) {
        (Value::Array(rules), Value::Array(more)) => rules.extend(more),
        (Value::Object(map), Value::Object(over)) => {
            for (key, value) in over {
                match map.get_mut(&key) {
                    Some(inner) => overlay(inner, value),
                    None => {
                        map.insert(key, value);
                    }
                }
            }
        }
        (tree, over) => *tree = over,
    }
}

#[cfg(test)]
#[path = "tighten_tests.rs"]
mod tests;
