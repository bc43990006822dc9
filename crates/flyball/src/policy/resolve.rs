//! Layers to one policy: merge leaf by leaf, check, and remember where each value came from.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::rules_version::RulesVersion;

use super::canonical::{Canonical, canonical};
use super::environment::insert;
use super::error::{Code, PolicyError, PolicyErrors};
use super::fields::{Fields, Section, walk};
use super::guards::Guards;
use super::layer::{Layer, Origin, Trust};
use super::leaves::{collect_leaves, collect_values};
use super::lint::{Warning, lint};
use super::paths::{PointerOf, edge_ends};
use super::places::{Place, join};
use super::rule_list::{RuleText, merge_rules, new_rules, read_rules};
use super::rules::Rule;
use super::tighten::{Findings, Ignored, keep_only_tightening};
use super::values::{Problem, Stricter, number, word_of};
use super::{EdgePolicy, Labels, NodePolicy, Policy, Preset, ToolPolicy};

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The source.
    pub origin: Origin,
    /// Line and column, if the source has lines.
    pub place: Option<Place>,
    /// The key as written, which a seed key or a shorthand may make differ from the path.
    pub key: String,
}

/// A policy with everything that is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The policy.
    pub policy: Policy,
    /// Where each effective value came from, by dotted path.
    pub origins: BTreeMap<String, Written>,
    /// What is allowed but probably not meant.
    pub warnings: Vec<Warning>,
    /// The effective policy as it could be written in a policy file.
    pub effective: Value,
    /// Values of layers that may only tighten, which were left out because they would loosen the policy.
    pub ignored: Vec<Ignored>,
    /// What is left of each layer that may only tighten, in their order.
    pub(crate) tightening: Vec<Value>,
}

/// One effective value.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveValue<'r> {
    /// The dotted path; a rule stands under `rules` by its name.
    pub path: String,
    /// The value as it could be written in a policy file.
    pub value: &'r Value,
    /// Where it came from.
    pub written: Option<&'r Written>,
}

impl EffectiveValue<'_> {
    /// The value with its origin, for programs.
    #[must_use]
    pub fn as_json(&self) -> Value {
        let from =
            self.written.map_or_else(|| Origin::Default.to_string(), |written| written.origin.to_string());
        let line = self.written.and_then(|written| written.place).map(|place| place.line);
        serde_json::json!({"value": self.value, "origin": from, "line": line})
    }
}

impl Resolved {
    /// Every effective value with its origin, in the order of the policy.
    #[must_use]
    pub fn values(&self) -> Vec<EffectiveValue<'_>> {
        let mut leaves = Vec::new();
        collect_values(&self.effective, &mut Vec::new(), &mut leaves);
        let with_origin = |(path, value): (Vec<String>, _)| {
            // Its own origin, or that of the map that it stands in.
            let mut around = (1..=path.len()).rev().filter_map(|end| path.get(..end));
            let written = around.find_map(|path| self.origins.get(&join(path)));
            EffectiveValue { path: join(&path), value, written }
        };
        leaves.into_iter().map(with_origin).collect()
    }

    /// An error at one of its values, for whoever finds out only by using it.
    #[must_use]
    pub fn refused(&self, path: &str, what: impl Into<String>, help: impl Into<String>) -> PolicyErrors {
        let written = self.origins.get(path);
        PolicyErrors::one(PolicyError {
            code: Code::Range,
            file: written.map_or_else(String::new, |written| written.origin.to_string()),
            line: written.and_then(|written| Some(written.place?.line)),
            column: written.and_then(|written| Some(written.place?.column)),
            path: written.map_or_else(|| path.to_owned(), |written| written.key.clone()),
            what: what.into(),
            help: help.into(),
        })
    }
}

/// Merges layers, lowest first, over the preset that they name or `default_preset`.
///
/// # Errors
///
/// Everything that is wrong in any layer, sorted by place; also in values that a higher
/// layer would replace, because they would bite when that layer goes away.
pub fn resolve(layers: &[Layer], default_preset: Preset) -> Result<Resolved, PolicyErrors> {
    resolve_under(layers, default_preset, RulesVersion::LATEST)
}

/// The same, where sessions start under this version of the rules unless a layer names another. What a key stands for
/// may depend on the version, so that a stored policy decides as it did.
pub(crate) fn resolve_under(
    layers: &[Layer],
    default_preset: Preset,
    rules_version: RulesVersion,
) -> Result<Resolved, PolicyErrors> {
    let preset = chosen_preset(layers, default_preset);
    let rules_version = chosen_rules_version(layers).unwrap_or(rules_version);
    let mut base = Policy { rules_version, ..Policy::preset(preset) };
    if rules_version == RulesVersion::V1 {
        base.labels.prefix = Labels::LOOP_PREVENTION.to_owned();
    }
    let mut errors = Vec::new();
    let mut translated = Vec::new();
    let mut rules: Vec<RuleText> = Vec::new();
    // After those of all trusted layers, so that none of them can be replaced.
    let mut untrusted_rules: Vec<Vec<RuleText>> = Vec::new();
    for layer in layers {
        let mut c = canonical(layer, &base);
        let mut found = Findings::default();
        apply(&mut base.clone(), &c.tree, &mut found);
        c.problems.append(&mut found.problems);
        let own_rules = read_rules(&mut c, rules_version);
        errors.extend(c.problems.iter().map(|problem| located(&c, problem)));
        if layer.trust == Trust::TightenOnly {
            untrusted_rules.push(own_rules);
        } else if let Err(error) = merge_rules(&mut rules, own_rules) {
            errors.push(error);
        }
        translated.push(c);
    }
    let mut ignored = Vec::new();
    let mut added_rules: Vec<Vec<Value>> = Vec::new();
    for own_rules in untrusted_rules {
        let new = new_rules(&rules, own_rules, &mut ignored);
        added_rules.push(new.iter().map(|text| rule_value(&text.rule)).collect());
        if let Err(error) = merge_rules(&mut rules, new) {
            errors.push(error);
        }
    }
    PolicyErrors::check(errors)?;
    let tightening = keep_only_tightening(&base, &mut translated, added_rules, &mut ignored);

    let mut merged = Merged::of(&translated, preset);
    merged.name_labels(&translated);
    let mut policy = base;
    let mut found = Findings::default();
    let mut effective = apply(&mut policy, &merged.tree, &mut found);
    // Each layer passed the same checks, so nothing is left to find; but never go on blindly.
    PolicyErrors::check(found.problems.iter().map(|p| merged.located(p)).collect())?;
    policy.rules = rules.iter().map(|r| r.rule.clone()).collect();
    finish(&mut policy, &mut effective);

    let mut origins = std::mem::take(&mut merged.origins);
    complete_origins(&mut origins, &effective, preset);
    for rule in &rules {
        origins.insert(join(&["rules", rule.rule.name()]), rule.written.clone());
    }
    let mut warnings: Vec<Warning> = ignored.iter().map(Ignored::warning).collect();
    warnings.extend(lint(&policy, &origins, &merged.tree));
    Ok(Resolved { policy, origins, warnings, effective, ignored, tightening })
}

/// The preset that the highest trusted layer names. A word that is no preset is reported later.
fn chosen_preset(layers: &[Layer], default_preset: Preset) -> Preset {
    layers
        .iter()
        .rev()
        .filter(|layer| layer.trust == Trust::Full)
        .filter_map(|layer| layer.tree.get("preset"))
        .find_map(preset_of)
        .unwrap_or(default_preset)
}

/// The version of the rules that the highest layer names. A number that is none is reported later.
fn chosen_rules_version(layers: &[Layer]) -> Option<RulesVersion> {
    let trusted = layers.iter().rev().filter(|layer| layer.trust == Trust::Full);
    trusted.filter_map(|layer| number(layer.tree.get("rules_version")?)).find_map(RulesVersion::from_number)
}

/// The preset that a value names.
pub(super) fn preset_of(value: &Value) -> Option<Preset> {
    match value {
        Value::Bool(false) => Some(Preset::Off),
        Value::String(word) => Preset::from_word(word.trim()),
        _ => None,
    }
}

/// Reads a translated tree into a policy and returns the effective values.
pub(super) fn apply(policy: &mut Policy, tree: &Value, found: &mut Findings) -> Value {
    walk(policy, Some(tree), Vec::new(), false, found)
}

impl Section for Policy {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("preset", &mut self.preset);
        f.section("budgets", &mut self.budgets);
        f.section("guards", &mut self.guards);
        let node = NodePolicy {
            guards: self.guards.clone(),
            budget: self.budgets.node.clone(),
            allow_cycles: false,
            allowed_destinations: None,
        };
        f.sections("nodes", &node, &mut self.nodes);
        for node in self.nodes.values_mut().filter(|node| node.allow_cycles) {
            node.guards.cycle.mode = super::Mode::Off;
        }
        let edge = EdgePolicy { guards: self.guards.clone() };
        let mut edges = BTreeMap::new();
        for (from, tos) in &self.edges {
            edges.extend(tos.iter().map(|(to, edge)| (format!("{from}->{to}"), edge.clone())));
        }
        f.sections("edges", &edge, &mut edges);
        for (name, edge) in edges {
            if let Some((from, to)) = edge_ends(&name) {
                let tos = self.edges.entry(from.to_owned()).or_default();
                tos.insert(to.to_owned(), edge);
            }
        }
        let tool = ToolPolicy { effect: None, guards: self.guards.clone(), has_own_guards: false };
        f.sections("tools", &tool, &mut self.tools);
        for tool in self.tools.values_mut() {
            tool.has_own_guards = tool.guards != self.guards;
        }
        f.word("on_stall", &mut self.on_stall);
        f.section("releases", &mut self.releases);
        f.section("labels", &mut self.labels);
        f.flag("escalate", &mut self.escalate, Stricter::More);
        f.flag("notify", &mut self.notify, Stricter::More);
        f.word("on_error", &mut self.on_error);
        f.section("journal", &mut self.journal);
        let mut version = self.rules_version.number();
        f.count("rules_version", &mut version, 1..=RulesVersion::LATEST.number(), Stricter::Unknown);
        self.rules_version = RulesVersion::from_number(version).unwrap_or_default();
    }
}

/// Adds what no section has, and the digest over all of it.
fn finish(policy: &mut Policy, effective: &mut Value) {
    if let Value::Object(map) = effective {
        map.insert("version".to_owned(), Value::from(1));
        if !policy.rules.is_empty() {
            map.insert("rules".to_owned(), policy.rules.iter().map(rule_value).collect());
        }
    }
    let mut text = String::new();
    sorted_text(&without_journal(effective), &mut text);
    policy.digest = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()));
}

fn rule_value(rule: &Rule) -> Value {
    Value::Object(Map::from_iter([
        ("name".to_owned(), Value::from(rule.name())),
        ("when".to_owned(), Value::from(rule.when())),
        ("decision".to_owned(), Value::from(word_of(rule.decision()))),
        ("message".to_owned(), Value::from(rule.message())),
    ]))
}

/// What decides: everything but what the journal does with it, and what is answered when nothing can be decided.
fn without_journal(effective: &Value) -> Value {
    let mut deciding = effective.clone();
    if let Value::Object(map) = &mut deciding {
        map.remove("journal");
        map.remove("on_error");
    }
    deciding
}

/// A preset's own digest; its values are already in place.
pub(super) fn seal(policy: &mut Policy) {
    let mut effective = apply(policy, &Value::Null, &mut Findings::default());
    finish(policy, &mut effective);
}

/// JSON with sorted keys, whatever order the map type keeps.
fn sorted_text(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            text.push('{');
            for (key, value) in sorted {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                sorted_text(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                sorted_text(item, text);
                text.push(',');
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// An error with its place, from a problem of one layer.
pub(super) fn located(c: &Canonical<'_>, problem: &Problem) -> PolicyError {
    let written = if problem.as_written { problem.path.clone() } else { c.written(&problem.path) };
    let place = c.layer.places.find(&written);
    PolicyError {
        code: problem.code,
        file: c.layer.file(&join(&written)),
        line: place.map(|p| p.line),
        column: place.map(|p| p.column),
        path: join(&written),
        what: problem.what.clone(),
        help: problem.help.clone(),
    }
}

/// Where a path of a layer was written.
pub(super) fn written_at(c: &Canonical<'_>, path: &[String]) -> Written {
    let written = c.written(path);
    let key = join(&written);
    Written { origin: c.layer.origin_of(&key), place: c.layer.places.find(&written), key }
}

/// The layers on top of each other.
pub(super) struct Merged {
    pub(super) tree: Value,
    origins: BTreeMap<String, Written>,
}

impl Default for Merged {
    fn default() -> Self {
        Merged { tree: Value::Object(Map::new()), origins: BTreeMap::new() }
    }
}

impl Merged {
    /// The layers, lowest first, over a preset.
    pub(super) fn of<'c, 'l: 'c>(
        layers: impl IntoIterator<Item = &'c Canonical<'l>>,
        preset: Preset,
    ) -> Self {
        let mut merged = Merged::default();
        for c in layers {
            merged.add(c, &c.tree, &mut Vec::new());
        }
        if preset == Preset::Off {
            merged.switch_on_what_is_written();
        }
        merged
    }

    /// A policy that speaks of `loop_prevention` names its labels as that system does, unless it says otherwise.
    fn name_labels(&mut self, layers: &[Canonical<'_>]) {
        let here = vec!["loop_prevention".to_owned()];
        let speaks = |c: &&Canonical<'_>| {
            c.layer.trust == Trust::Full && c.layer.tree.get("loop_prevention").is_some_and(Value::is_object)
        };
        let to = ["labels".to_owned(), "prefix".to_owned()];
        if let (Some(c), None) = (layers.iter().rev().find(speaks), self.tree.pointer_of(&to))
            && insert(&mut self.tree, &to, Value::from(Labels::LOOP_PREVENTION))
        {
            self.origins.insert(join(&to), written_at(c, &here));
        }
    }

    /// Puts every single value of a layer over what is there.
    fn add(&mut self, c: &Canonical<'_>, value: &Value, path: &mut Vec<String>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    path.push(key.clone());
                    self.add(c, value, path);
                    path.pop();
                }
            }
            // Nothing written inside: it must not replace what a lower layer wrote there.
            Value::Object(_) if self.tree.pointer_of(path).is_some() => {}
            value => {
                if insert(&mut self.tree, path, value.clone()) {
                    self.origins.insert(join(path), written_at(c, path));
                }
            }
        }
    }

    /// Under preset `off` a guard is on as soon as somebody writes a limit for it.
    fn switch_on_what_is_written(&mut self) {
        let mut sections: Vec<Vec<String>> = vec![vec!["guards".to_owned()]];
        for group in ["nodes", "edges", "tools"] {
            if let Some(map) = self.tree.get(group).and_then(Value::as_object) {
                sections.extend(map.keys().map(|name| vec![group.to_owned(), name.clone()]));
            }
        }
        for section in sections {
            for guard in Guards::NAMES {
                let path = [section.as_slice(), &[guard.to_owned()]].concat();
                let Some(map) = self.tree.pointer_of(&path).and_then(Value::as_object) else {
                    continue;
                };
                if map.is_empty() || map.contains_key("mode") {
                    continue;
                }
                let prefix = format!("{}.", join(&path));
                let first = self.origins.range(prefix.clone()..).next();
                let written =
                    first.filter(|(key, _)| key.starts_with(&prefix)).map(|(_, written)| written.clone());
                let mode = [path.as_slice(), &["mode".to_owned()]].concat();
                insert(&mut self.tree, &mode, Value::from("staged"));
                if let Some(written) = written {
                    self.origins.insert(join(&mode), written);
                }
            }
        }
    }

    fn located(&self, problem: &Problem) -> PolicyError {
        let path = join(&problem.path);
        let written = self.origins.get(&path);
        let place = written.and_then(|w| w.place);
        PolicyError {
            code: problem.code,
            file: written.map_or_else(|| "policy".to_owned(), |w| w.origin.to_string()),
            line: place.map(|p| p.line),
            column: place.map(|p| p.column),
            path: written.map_or(path, |w| w.key.clone()),
            what: problem.what.clone(),
            help: problem.help.clone(),
        }
    }
}

/// Gives every effective value that nobody wrote its origin: built in, or the preset.
fn complete_origins(origins: &mut BTreeMap<String, Written>, effective: &Value, preset: Preset) {
    let mut plain = Policy::preset(Preset::Workflow);
    let defaults = apply(&mut plain, &Value::Null, &mut Findings::default());
    let mut leaves = Vec::new();
    collect_leaves(effective, &mut Vec::new(), &mut leaves);
    for (path, value) in leaves {
        let origin = if defaults.pointer_of(&path) == Some(value) || path == ["version"] {
            Origin::Default
        } else {
            Origin::Preset(preset)
        };
        let key = join(&path);
        origins.entry(key.clone()).or_insert(Written { origin, place: None, key });
    }
}

/// A rule error with its place.
pub(super) fn rule_error(c: &Canonical<'_>, path: Vec<String>, what: String, help: &str) -> PolicyError {
    located(c, &Problem { code: Code::Rule, path, as_written: true, what, help: help.to_owned() })
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
