//! Merges layers into one policy leaf by leaf, validates it, and records the origin of each value.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::rules_version::RulesVersion;

use super::GuardPolicies;
use super::canonical_layer::{CanonicalLayer, canonicalize};
use super::custom_rules::PolicyRule;
use super::environment::insert_at;
use super::layer::{LayerTrust, PolicyLayer, ValueOrigin};
use super::leaves::{collect_leaves, collect_values};
use super::lint::{PolicyWarning, lint};
use super::paths::{PathLookup, edge_ends};
use super::policy_error::{PolicyError, PolicyErrorCode, PolicyErrors};
use super::positions::{SourcePosition, join_path};
use super::rule_list::{RuleEntry, merge_rules, new_rules, read_rules};
use super::section_reader::{PolicySection, SectionReader, read_section};
use super::tighten::{IgnoredValue, SectionFindings, keep_only_tightening};
use super::values::{PolicyProblem, StricterDirection, keyword_of, parse_number};
use super::{EdgePolicy, LabelPolicy, NodePolicy, Policy, Preset, ToolPolicy};

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSource {
    /// The source.
    pub origin: ValueOrigin,
    /// Line and column, if the source has lines.
    pub position: Option<SourcePosition>,
    /// The key as written, which differs from the path for compatibility keys and shorthands.
    pub key: String,
}

/// A resolved policy with its origins and warnings.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedPolicy {
    /// The policy.
    pub policy: Policy,
    /// The origin of each effective value, by dotted path.
    pub origins: BTreeMap<String, ValueSource>,
    /// Warnings about valid but probably unintended settings.
    pub warnings: Vec<PolicyWarning>,
    /// The effective policy, in the form of a policy file.
    pub effective: Value,
    /// Values of tighten-only layers that were ignored because they would loosen the policy.
    pub ignored: Vec<IgnoredValue>,
    /// The remaining values of each tighten-only layer, in order.
    pub(crate) tightening: Vec<Value>,
}

/// One effective value.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveValue<'r> {
    /// The dotted path; a rule is listed under `rules` by its name.
    pub path: String,
    /// The value, in the form of a policy file.
    pub value: &'r Value,
    /// Its origin.
    pub written: Option<&'r ValueSource>,
}

impl EffectiveValue<'_> {
    /// The value with its origin, as JSON.
    #[must_use]
    pub fn as_json(&self) -> Value {
        let from = self
            .written
            .map_or_else(|| ValueOrigin::Default.to_string(), |written| written.origin.to_string());
        let line = self.written.and_then(|written| written.position).map(|place| place.line);
        serde_json::json!({"value": self.value, "origin": from, "line": line})
    }
}

impl ResolvedPolicy {
    /// All effective values with their origins, in the order of the policy.
    #[must_use]
    pub fn values(&self) -> Vec<EffectiveValue<'_>> {
        let mut leaves = Vec::new();
        collect_values(&self.effective, &mut Vec::new(), &mut leaves);
        let with_origin = |(path, value): (Vec<String>, _)| {
            // The value's own origin, or that of the nearest enclosing map.
            let mut around = (1..=path.len()).rev().filter_map(|end| path.get(..end));
            let written = around.find_map(|path| self.origins.get(&join_path(path)));
            EffectiveValue { path: join_path(&path), value, written }
        };
        leaves.into_iter().map(with_origin).collect()
    }

    /// Creates an error at one of the values, for problems that only show when the value is used.
    #[must_use]
    pub fn error_at(&self, path: &str, what: impl Into<String>, help: impl Into<String>) -> PolicyErrors {
        let written = self.origins.get(path);
        PolicyErrors::single(PolicyError {
            code: PolicyErrorCode::Range,
            file: written.map_or_else(String::new, |written| written.origin.to_string()),
            line: written.and_then(|written| Some(written.position?.line)),
            column: written.and_then(|written| Some(written.position?.column)),
            path: written.map_or_else(|| path.to_owned(), |written| written.key.clone()),
            message: what.into(),
            help: help.into(),
        })
    }
}

/// Merges layers, lowest first, over the preset they name or over `default_preset`.
///
/// # Errors
///
/// All errors in all layers, sorted by position. This includes values that a higher layer overrides, because they would
/// take effect if that layer were removed.
pub fn resolve(layers: &[PolicyLayer], default_preset: Preset) -> Result<ResolvedPolicy, PolicyErrors> {
    resolve_under(layers, default_preset, RulesVersion::LATEST)
}

/// Like [`resolve`], but new sessions start under this version of the rules unless a layer sets another. The meaning of
/// a key may depend on the version, so that a stored policy keeps giving the same decisions.
pub(crate) fn resolve_under(
    layers: &[PolicyLayer],
    default_preset: Preset,
    rules_version: RulesVersion,
) -> Result<ResolvedPolicy, PolicyErrors> {
    let preset = chosen_preset(layers, default_preset);
    let rules_version = chosen_rules_version(layers).unwrap_or(rules_version);
    let mut base = Policy { rules_version, ..Policy::preset(preset) };
    if rules_version == RulesVersion::V1 {
        base.labels.prefix = LabelPolicy::LOOP_PREVENTION.to_owned();
    }
    let mut errors = Vec::new();
    let mut translated = Vec::new();
    let mut rules: Vec<RuleEntry> = Vec::new();
    // Added after the rules of all trusted layers, so that none of those can be replaced.
    let mut untrusted_rules: Vec<Vec<RuleEntry>> = Vec::new();
    for layer in layers {
        let mut c = canonicalize(layer, &base);
        let mut found = SectionFindings::default();
        apply_tree(&mut base.clone(), &c.tree, &mut found);
        c.problems.append(&mut found.problems);
        let own_rules = read_rules(&mut c, rules_version);
        errors.extend(c.problems.iter().map(|problem| locate_problem(&c, problem)));
        if layer.trust == LayerTrust::TightenOnly {
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
    PolicyErrors::into_result(errors)?;
    let tightening = keep_only_tightening(&base, &mut translated, added_rules, &mut ignored);

    let mut merged = MergedLayers::from_layers(&translated, preset);
    merged.apply_label_prefix(&translated);
    let mut policy = base;
    let mut found = SectionFindings::default();
    let mut effective = apply_tree(&mut policy, &merged.tree, &mut found);
    // Each layer already passed the same checks, so no problems are expected here; check anyway.
    PolicyErrors::into_result(found.problems.iter().map(|p| merged.located(p)).collect())?;
    policy.rules = rules.iter().map(|r| r.rule.clone()).collect();
    set_digest(&mut policy, &mut effective);

    let mut origins = std::mem::take(&mut merged.origins);
    complete_origins(&mut origins, &effective, preset);
    for rule in &rules {
        origins.insert(join_path(&["rules", rule.rule.name()]), rule.written.clone());
    }
    let mut warnings: Vec<PolicyWarning> = ignored.iter().map(IgnoredValue::warning).collect();
    warnings.extend(lint(&policy, &origins, &merged.tree));
    Ok(ResolvedPolicy { policy, origins, warnings, effective, ignored, tightening })
}

/// The preset named by the highest trusted layer. An invalid name is reported later.
fn chosen_preset(layers: &[PolicyLayer], default_preset: Preset) -> Preset {
    layers
        .iter()
        .rev()
        .filter(|layer| layer.trust == LayerTrust::Full)
        .filter_map(|layer| layer.tree.get("preset"))
        .find_map(parse_preset)
        .unwrap_or(default_preset)
}

/// The rules version named by the highest layer. An invalid number is reported later.
fn chosen_rules_version(layers: &[PolicyLayer]) -> Option<RulesVersion> {
    let trusted = layers.iter().rev().filter(|layer| layer.trust == LayerTrust::Full);
    trusted
        .filter_map(|layer| parse_number(layer.tree.get("rules_version")?))
        .find_map(RulesVersion::from_number)
}

/// The preset named by a value.
pub(super) fn parse_preset(value: &Value) -> Option<Preset> {
    match value {
        Value::Bool(false) => Some(Preset::Off),
        Value::String(word) => Preset::from_name(word.trim()),
        _ => None,
    }
}

/// Reads a canonical tree into a policy and returns the effective values.
pub(super) fn apply_tree(policy: &mut Policy, tree: &Value, found: &mut SectionFindings) -> Value {
    read_section(policy, Some(tree), Vec::new(), false, found)
}

impl PolicySection for Policy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("preset", &mut self.preset);
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
            node.guards.cycle.mode = super::GuardMode::Off;
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
        f.keyword("on_stall", &mut self.on_stall);
        f.section("releases", &mut self.releases);
        f.section("labels", &mut self.labels);
        f.flag("escalate", &mut self.escalate, StricterDirection::More);
        f.flag("notify", &mut self.notify, StricterDirection::More);
        f.keyword("on_error", &mut self.on_error);
        f.section("journal", &mut self.journal);
        let mut version = self.rules_version.number();
        f.count("rules_version", &mut version, 1..=RulesVersion::LATEST.number(), StricterDirection::Unknown);
        self.rules_version = RulesVersion::from_number(version).unwrap_or_default();
    }
}

/// Adds the values that belong to no section, and computes the digest.
fn set_digest(policy: &mut Policy, effective: &mut Value) {
    if let Value::Object(map) = effective {
        map.insert("version".to_owned(), Value::from(1));
        if !policy.rules.is_empty() {
            map.insert("rules".to_owned(), policy.rules.iter().map(rule_value).collect());
        }
    }
    let mut text = String::new();
    write_sorted(&deciding_values(effective), &mut text);
    policy.digest = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()));
}

fn rule_value(rule: &PolicyRule) -> Value {
    Value::Object(Map::from_iter([
        ("name".to_owned(), Value::from(rule.name())),
        ("when".to_owned(), Value::from(rule.when())),
        ("decision".to_owned(), Value::from(keyword_of(rule.decision()))),
        ("message".to_owned(), Value::from(rule.message())),
    ]))
}

/// The values that affect decisions: everything except `journal` and `on_error`.
fn deciding_values(effective: &Value) -> Value {
    let mut deciding = effective.clone();
    if let Value::Object(map) = &mut deciding {
        map.remove("journal");
        map.remove("on_error");
    }
    deciding
}

/// Computes the digest of a preset, whose values are already set.
pub(super) fn compute_digest(policy: &mut Policy) {
    let mut effective = apply_tree(policy, &Value::Null, &mut SectionFindings::default());
    set_digest(policy, &mut effective);
}

/// Writes JSON with sorted keys, independent of the map type's order.
fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            text.push('{');
            for (key, value) in sorted {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write_sorted(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_sorted(item, text);
                text.push(',');
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// Converts a problem of one layer into an error with a position.
pub(super) fn locate_problem(c: &CanonicalLayer<'_>, problem: &PolicyProblem) -> PolicyError {
    let written = if problem.as_written { problem.path.clone() } else { c.written_path(&problem.path) };
    let place = c.layer.positions.find(&written);
    PolicyError {
        code: problem.code,
        file: c.layer.source_name(&join_path(&written)),
        line: place.map(|p| p.line),
        column: place.map(|p| p.column),
        path: join_path(&written),
        message: problem.message.clone(),
        help: problem.help.clone(),
    }
}

/// Where a path of a layer was written.
pub(super) fn value_source(c: &CanonicalLayer<'_>, path: &[String]) -> ValueSource {
    let written = c.written_path(path);
    let key = join_path(&written);
    ValueSource { origin: c.layer.origin_of(&key), position: c.layer.positions.find(&written), key }
}

/// The merged layers.
pub(super) struct MergedLayers {
    pub(super) tree: Value,
    origins: BTreeMap<String, ValueSource>,
}

impl Default for MergedLayers {
    fn default() -> Self {
        MergedLayers { tree: Value::Object(Map::new()), origins: BTreeMap::new() }
    }
}

impl MergedLayers {
    /// Merges the layers, lowest first, over a preset.
    pub(super) fn from_layers<'c, 'l: 'c>(
        layers: impl IntoIterator<Item = &'c CanonicalLayer<'l>>,
        preset: Preset,
    ) -> Self {
        let mut merged = MergedLayers::default();
        for c in layers {
            merged.add(c, &c.tree, &mut Vec::new());
        }
        if preset == Preset::Off {
            merged.enable_configured_guards();
        }
        merged
    }

    /// A policy with `loop_prevention` uses that system's label prefix, unless it sets one.
    fn apply_label_prefix(&mut self, layers: &[CanonicalLayer<'_>]) {
        let here = vec!["loop_prevention".to_owned()];
        let speaks = |c: &&CanonicalLayer<'_>| {
            c.layer.trust == LayerTrust::Full
                && c.layer.tree.get("loop_prevention").is_some_and(Value::is_object)
        };
        let to = ["labels".to_owned(), "prefix".to_owned()];
        if let (Some(c), None) = (layers.iter().rev().find(speaks), self.tree.lookup(&to))
            && insert_at(&mut self.tree, &to, Value::from(LabelPolicy::LOOP_PREVENTION))
        {
            self.origins.insert(join_path(&to), value_source(c, &here));
        }
    }

    /// Merges every leaf of a layer over the current values.
    fn add(&mut self, c: &CanonicalLayer<'_>, value: &Value, path: &mut Vec<String>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    path.push(key.clone());
                    self.add(c, value, path);
                    path.pop();
                }
            }
            // An empty map must not replace the values of a lower layer.
            Value::Object(_) if self.tree.lookup(path).is_some() => {}
            value => {
                if insert_at(&mut self.tree, path, value.clone()) {
                    self.origins.insert(join_path(path), value_source(c, path));
                }
            }
        }
    }

    /// Under preset `off`, setting a limit of a guard turns the guard on.
    fn enable_configured_guards(&mut self) {
        let mut sections: Vec<Vec<String>> = vec![vec!["guards".to_owned()]];
        for group in ["nodes", "edges", "tools"] {
            if let Some(map) = self.tree.get(group).and_then(Value::as_object) {
                sections.extend(map.keys().map(|name| vec![group.to_owned(), name.clone()]));
            }
        }
        for section in sections {
            for guard in GuardPolicies::NAMES {
                let path = [section.as_slice(), &[(*guard).to_owned()]].concat();
                let Some(map) = self.tree.lookup(&path).and_then(Value::as_object) else {
                    continue;
                };
                if map.is_empty() || map.contains_key("mode") {
                    continue;
                }
                let prefix = format!("{}.", join_path(&path));
                let first = self.origins.range(prefix.clone()..).next();
                let written =
                    first.filter(|(key, _)| key.starts_with(&prefix)).map(|(_, written)| written.clone());
                let mode = [path.as_slice(), &["mode".to_owned()]].concat();
                insert_at(&mut self.tree, &mode, Value::from("staged"));
                if let Some(written) = written {
                    self.origins.insert(join_path(&mode), written);
                }
            }
        }
    }

    fn located(&self, problem: &PolicyProblem) -> PolicyError {
        let path = join_path(&problem.path);
        let written = self.origins.get(&path);
        let place = written.and_then(|w| w.position);
        PolicyError {
            code: problem.code,
            file: written.map_or_else(|| "policy".to_owned(), |w| w.origin.to_string()),
            line: place.map(|p| p.line),
            column: place.map(|p| p.column),
            path: written.map_or(path, |w| w.key.clone()),
            message: problem.message.clone(),
            help: problem.help.clone(),
        }
    }
}

/// Sets the origin of every value that no layer set: the built-in default or the preset.
fn complete_origins(origins: &mut BTreeMap<String, ValueSource>, effective: &Value, preset: Preset) {
    let mut plain = Policy::preset(Preset::Workflow);
    let defaults = apply_tree(&mut plain, &Value::Null, &mut SectionFindings::default());
    let mut leaves = Vec::new();
    collect_leaves(effective, &mut Vec::new(), &mut leaves);
    for (path, value) in leaves {
        let origin = if defaults.lookup(&path) == Some(value) || path == ["version"] {
            ValueOrigin::Default
        } else {
            ValueOrigin::Preset(preset)
        };
        let key = join_path(&path);
        origins.entry(key.clone()).or_insert(ValueSource { origin, position: None, key });
    }
}

/// A rule error with its position.
pub(super) fn rule_error(c: &CanonicalLayer<'_>, path: Vec<String>, what: String, help: &str) -> PolicyError {
    locate_problem(
        c,
        &PolicyProblem {
            code: PolicyErrorCode::Rule,
            path,
            as_written: true,
            message: what,
            help: help.to_owned(),
        },
    )
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
