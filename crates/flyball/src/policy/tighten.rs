//! Tighten-only layers: a project's own policy, until the user trusts it.
//!
//! A cloned repository brings its policy file along, so the file is untrusted input. Each key declares which direction
//! makes it stricter (`settings.rs`, [`super::values::StricterDirection`]); a change without a direction counts as
//! loosening. Values that are not stricter than the merged trusted layers are ignored and reported.

use serde_json::{Map, Value};

use super::Policy;
use super::canonical_layer::CanonicalLayer;
use super::layer::{LayerTrust, ValueOrigin};
use super::leaves::collect_leaves;
use super::lint::{LintSeverity, PolicyWarning};
use super::paths::PathLookup;
use super::positions::join_path;
use super::resolve::{MergedLayers, ResolvedPolicy, ValueSource, apply_tree, parse_preset, value_source};
use super::values::{PolicyProblem, describe_value};

/// The findings from reading a section.
#[derive(Default)]
pub(crate) struct SectionFindings {
    /// Problems with the written values.
    pub(super) problems: Vec<PolicyProblem>,
    /// Whether only values that are stricter than the current ones apply.
    pub(super) only_tighten: bool,
    /// With `only_tighten`: the paths of values that would loosen the policy and were ignored.
    pub(super) loosening: Vec<Vec<String>>,
    /// With `only_tighten`: the paths of values that change nothing.
    pub(super) unchanged: Vec<Vec<String>>,
}

/// A value that was ignored because it would loosen the policy and its layer may only tighten.
#[derive(Clone, Debug, PartialEq)]
pub struct IgnoredValue {
    /// The dotted path of the value.
    pub path: String,
    /// The source where it was written.
    pub written: ValueSource,
    /// The value as written.
    pub value: Value,
    /// Why it was ignored.
    pub reason: String,
}

impl IgnoredValue {
    /// The code of its warning.
    pub const CODE: &'static str = "policy_untrusted";

    /// The problem, in one line.
    #[must_use]
    pub fn message(&self) -> String {
        format!("'{}: {}' is ignored: {}", self.written.key, display_value(&self.value), self.reason)
    }

    /// The suggested fix, in one line.
    #[must_use]
    pub fn help(&self) -> String {
        match &self.written.origin {
            ValueOrigin::File { name } => format!("review the file, then run: flyball trust {name}"),
            ValueOrigin::Environment { .. } | ValueOrigin::CommandLine => {
                "a hook entry may only tighten: set it in your own policy file, or install the hook with it"
                    .to_owned()
            }
            _ => "set it in your own policy file".to_owned(),
        }
    }

    /// The warning about this value.
    #[must_use]
    pub fn warning(&self) -> PolicyWarning {
        PolicyWarning {
            code: IgnoredValue::CODE,
            severity: LintSeverity::Warning,
            path: self.path.clone(),
            origin: self.written.origin.clone(),
            position: self.written.position,
            message: self.message(),
            help: self.help(),
        }
    }
}

fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.chars().take(60).collect(),
        Value::Array(_) | Value::Object(_) => describe_value(value),
        other => other.to_string(),
    }
}

/// Removes from each tighten-only layer the values that are not stricter than the merged trusted layers, independent of
/// their order: a value for one tool must not undo a higher layer's value for all tools. Returns the rest of each
/// layer, with the rules it adds.
pub(super) fn keep_only_tightening(
    base: &Policy,
    layers: &mut [CanonicalLayer<'_>],
    rules: Vec<Vec<Value>>,
    ignored: &mut Vec<IgnoredValue>,
) -> Vec<Value> {
    if layers.iter().all(|c| c.layer.trust == LayerTrust::Full) {
        return Vec::new();
    }
    let trusted = layers.iter().filter(|c| c.layer.trust == LayerTrust::Full);
    let merged = MergedLayers::from_layers(trusted, base.preset);
    let mut policy = base.clone();
    if merged.tree.as_object().is_some_and(|keys| !keys.is_empty()) {
        apply_tree(&mut policy, &merged.tree, &mut SectionFindings::default());
    }
    let mut left = Vec::new();
    let untrusted = layers.iter_mut().filter(|c| c.layer.trust == LayerTrust::TightenOnly);
    for (c, rules) in untrusted.zip(rules) {
        tighten_layer(&mut policy, c, ignored);
        let mut tree = c.tree.clone();
        if let (Value::Object(keys), false) = (&mut tree, rules.is_empty()) {
            keys.insert("rules".to_owned(), Value::Array(rules));
        }
        left.push(tree);
    }
    left
}

fn tighten_layer(policy: &mut Policy, c: &mut CanonicalLayer<'_>, ignored: &mut Vec<IgnoredValue>) {
    let mut note = |c: &CanonicalLayer<'_>, path: &[String], why: String| {
        let value = c.tree.lookup(path).cloned().unwrap_or_default();
        ignored.push(IgnoredValue {
            path: join_path(path),
            written: value_source(c, path),
            value,
            reason: why,
        });
    };
    for path in shadowing_tools(policy, &c.tree) {
        note(&*c, &path, "naming a tool would exempt it from the limits of its node".to_owned());
        remove_at(&mut c.tree, &path);
    }
    let preset = vec!["preset".to_owned()];
    let mut stricter = None;
    if let Some(named) = c.tree.get("preset").and_then(parse_preset)
        && named != policy.preset
    {
        let wanted = apply_tree(&mut Policy::preset(named), &Value::Null, &mut SectionFindings::default());
        let mut tightened = policy.clone();
        let (values, looser) = stricter_values(&mut tightened, wanted);
        if looser.is_empty() {
            *policy = tightened;
            stricter = Some(values);
        } else {
            // The limits of a preset belong together, so it applies as a whole or not at all.
            let why = format!("a project may only tighten; preset {} is in effect", policy.preset.as_str());
            note(&*c, &preset, why);
        }
    }
    remove_at(&mut c.tree, &preset);
    let mut found = SectionFindings { only_tighten: true, ..SectionFindings::default() };
    apply_tree(policy, &c.tree, &mut found);
    let present = if found.loosening.is_empty() {
        Value::Null
    } else {
        apply_tree(&mut policy.clone(), &Value::Null, &mut SectionFindings::default())
    };
    for path in &found.loosening {
        let why = match present.lookup(path) {
            Some(kept) if !kept.is_object() && !kept.is_array() => {
                format!("a project may only tighten; {} is in effect", display_value(kept))
            }
            _ => "a project may only tighten".to_owned(),
        };
        note(&*c, path, why);
    }
    for path in &found.loosening {
        remove_at(&mut c.tree, path);
    }
    // The file's own values override those of the preset it names.
    if let Some(mut values) = stricter {
        merge_trees(&mut values, std::mem::take(&mut c.tree));
        c.tree = values;
    }
}

/// Entries for tools that no trusted layer names, if trusted layers set limits for nodes. As soon as the policy names a
/// tool, its calls are checked only against the limits of the tool.
fn shadowing_tools(policy: &Policy, tree: &Value) -> Vec<Vec<String>> {
    let tools = tree.get("tools").and_then(Value::as_object);
    let new = |name: &&String| !policy.nodes.is_empty() && !policy.tools.contains_key(*name);
    let names = tools.into_iter().flat_map(Map::keys).filter(new);
    names.map(|name| vec!["tools".to_owned(), name.clone()]).collect()
}

/// The effective values of another policy that are stricter than this one, which are applied to it, and the paths of
/// those that are looser.
fn stricter_values(policy: &mut Policy, mut wanted: Value) -> (Value, Vec<String>) {
    for key in ["preset", "version", "rules", "rules_version"] {
        remove_at(&mut wanted, &[key.to_owned()]);
    }
    let mut looser: Vec<String> = Vec::new();
    for path in shadowing_tools(policy, &wanted) {
        looser.push(join_path(&path));
        remove_at(&mut wanted, &path);
    }
    let mut found = SectionFindings { only_tighten: true, ..SectionFindings::default() };
    apply_tree(policy, &wanted, &mut found);
    looser.extend(found.loosening.iter().map(|path| join_path(path)));
    // An explicit limit also applies inside loops, so `holds_in_loops` is only kept together with its limit.
    let says_where = |path: &&Vec<String>| path.last().is_none_or(|key| key != "holds_in_loops");
    for path in found.loosening.iter().chain(found.unchanged.iter().filter(says_where)) {
        remove_at(&mut wanted, path);
    }
    drop_orphan_loop_flags(&mut wanted);
    (wanted, looser)
}

/// Removes `holds_in_loops` where the limit itself is missing, because alone it has no effect. Returns whether nothing
/// is left.
fn drop_orphan_loop_flags(tree: &mut Value) -> bool {
    let Value::Object(map) = tree else { return false };
    let had_keys = !map.is_empty();
    map.retain(|_, inner| !drop_orphan_loop_flags(inner));
    if map.len() == 1 {
        map.remove("holds_in_loops");
    }
    had_keys && map.is_empty()
}

/// The changes in a newer policy: the stricter values as a tree, and the paths that are looser or removed. Excludes
/// values that do not affect decisions.
pub(crate) fn compare_policies(old: &ResolvedPolicy, new: &ResolvedPolicy) -> (Value, Vec<String>) {
    let mut wanted = new.effective.clone();
    for key in ["journal", "on_error"] {
        remove_at(&mut wanted, &[key.to_owned()]);
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
            (old, new) if old != new => looser.push(join_path(&["rules", name])),
            _ => {}
        }
    }
    looser.extend(
        old.policy
            .rules
            .iter()
            .filter(|rule| same(rule.name()).1.is_none())
            .map(|rule| join_path(&["rules", rule.name()])),
    );
    for group in ["nodes", "edges", "tools"] {
        let gone =
            leaf_paths(&old.effective, group).into_iter().filter(|path| new.effective.lookup(path).is_none());
        looser.extend(gone.map(|path| join_path(&path)));
    }
    if let (Value::Object(map), false) = (&mut stricter, added.is_empty()) {
        map.insert("rules".to_owned(), Value::Array(added));
    }
    (stricter, looser)
}

fn leaf_paths(effective: &Value, group: &str) -> Vec<Vec<String>> {
    let mut leaves = Vec::new();
    if let Some(values) = effective.get(group) {
        collect_leaves(values, &mut vec![group.to_owned()], &mut leaves);
    }
    leaves.into_iter().map(|(path, _)| path).collect()
}

/// Removes a value from a tree, and the enclosing maps that become empty.
fn remove_at(tree: &mut Value, path: &[String]) {
    let (Some((first, rest)), Value::Object(map)) = (path.split_first(), tree) else { return };
    if rest.is_empty() {
        map.remove(first);
    } else if let Some(inner) = map.get_mut(first) {
        remove_at(inner, rest);
        if inner.as_object().is_some_and(Map::is_empty) {
            map.remove(first);
        }
    }
}

/// Merges the values of one tree over another; lists of rules are concatenated.
pub(crate) fn merge_trees(tree: &mut Value, over: Value) {
    match (tree, over) {
        (Value::Array(rules), Value::Array(more)) => rules.extend(more),
        (Value::Object(map), Value::Object(over)) => {
            for (key, value) in over {
                match map.get_mut(&key) {
                    Some(inner) => merge_trees(inner, value),
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
