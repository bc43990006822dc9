//! A policy layer in canonical form: shorthands expanded, compatibility keys translated.
//!
//! After this step every value is at its canonical path (`guards.visits.limit`). The key as written
//! (`loop_prevention.max_visits_default`) is kept, so that messages and origins refer to the user's own file.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::environment::insert_at;
use super::layer::{PolicyLayer, ValueOrigin};
use super::paths::{KeyPath, PathLookup, child_path, edge_ends, key_path, within_bounds};
use super::policy_error::PolicyErrorCode;
use super::positions::join_path;
use super::units::same_meaning;
use super::values::{PolicyProblem, describe_value, unknown_help};
use super::{GuardPolicies, Policy, compat_keys};
use crate::guards::guard_info;

/// The supported version of the policy file format.
const POLICY_FILE_VERSION: u64 = 1;

/// All top-level keys of a policy file.
pub(super) const TOP_LEVEL_KEYS: [&str; 22] = [
    "version",
    "preset",
    "budgets",
    "guards",
    "nodes",
    "edges",
    "tools",
    "on_stall",
    "releases",
    "labels",
    "escalate",
    "notify",
    "on_error",
    "journal",
    "rules",
    "rules_version",
    "loop_prevention",
    "phases",
    "transition_limits",
    "resilience",
    "loop_policy",
    "$schema",
];

/// A layer in canonical form.
pub(super) struct CanonicalLayer<'l> {
    pub(super) layer: &'l PolicyLayer,
    /// The written values at their canonical paths.
    pub(super) tree: Value,
    /// The rules as written, with their paths.
    pub(super) rules: Vec<(KeyPath, Value)>,
    pub(super) problems: Vec<PolicyProblem>,
    /// Maps a canonical path to the path as written.
    written_paths: BTreeMap<String, KeyPath>,
}

/// Converts one layer to canonical form. `base` is the preset it applies to.
pub(super) fn canonicalize<'l>(layer: &'l PolicyLayer, base: &Policy) -> CanonicalLayer<'l> {
    let mut c = CanonicalLayer {
        layer,
        tree: Value::Object(Map::new()),
        rules: Vec::new(),
        problems: Vec::new(),
        written_paths: BTreeMap::new(),
    };
    let mut values = 0;
    if !within_bounds(&layer.tree, 0, &mut values) {
        c.add_problem(
            PolicyErrorCode::Syntax,
            &[],
            "the policy is too deep or too large",
            "remove entries that are not part of the policy",
        );
        return c;
    }
    let Value::Object(top) = &layer.tree else {
        let what = format!("a policy must be a map of keys, not {}", describe_value(&layer.tree));
        c.add_problem(PolicyErrorCode::Type, &[], &what, "write keys such as preset: agent");
        return c;
    };
    for (key, value) in top {
        c.top_level_key(key, value);
    }
    // Runs after Flyball's own keys, so that conflicts are found in either order.
    compat_keys::translate(&mut c, top, base);
    c
}

impl CanonicalLayer<'_> {
    pub(super) fn add_problem(&mut self, code: PolicyErrorCode, path: &[String], what: &str, help: &str) {
        self.problems.push(PolicyProblem {
            code,
            path: path.to_vec(),
            as_written: true,
            message: what.to_owned(),
            help: help.to_owned(),
        });
    }

    pub(super) fn add_unknown_key(&mut self, path: &[String], known: &[&str]) {
        let key = path.last().map_or("", String::as_str);
        let around = path.split_last().map_or(String::new(), |(_, around)| join_path(around));
        let what = if around.is_empty() {
            format!("unknown key '{key}'")
        } else {
            format!("unknown key '{key}' in {around}")
        };
        let help = unknown_help(key, known, "key");
        self.add_problem(PolicyErrorCode::UnknownKey, path, &what, &help);
    }

    /// The path as written for a canonical path.
    pub(super) fn written_path(&self, path: &[String]) -> KeyPath {
        self.written_paths.get(&join_path(path)).cloned().unwrap_or_else(|| path.to_vec())
    }

    /// Sets a value at its canonical path. Setting it again is an error unless both values are equivalent.
    pub(super) fn assign(&mut self, to: KeyPath, value: Value, written: &[String]) {
        let name = join_path(&to);
        let before = self.tree.lookup(&to);
        if let (Some(before), Some(first)) = (before, self.written_paths.get(&name))
            && !(before.is_object() && value.is_object())
        {
            if !same_meaning(before, &value) {
                let what = format!(
                    "{} is {}{}, but {} is {}",
                    join_path(first),
                    describe_value(before),
                    self.layer.positions.find(first).map_or(String::new(), |p| format!(" (line {})", p.line)),
                    join_path(written),
                    describe_value(&value)
                );
                self.add_problem(
                    PolicyErrorCode::Contradiction,
                    written,
                    &what,
                    "both set the same value; keep one of them",
                );
            }
            return;
        }
        if insert_at(&mut self.tree, &to, value) {
            self.written_paths.insert(name, written.to_vec());
        } else {
            let what = format!("'{}' is written both as a value and as a map", join_path(written));
            self.add_problem(PolicyErrorCode::Contradiction, written, &what, "keep one of them");
        }
    }

    /// Copies a value recursively, down to the leaves.
    pub(super) fn copy(&mut self, to: KeyPath, value: &Value, written: &[String]) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.written_paths.entry(join_path(&to)).or_insert_with(|| written.to_vec());
                for (key, value) in map {
                    self.copy(child_path(&to, key), value, &child_path(written, key));
                }
            }
            Value::Object(_) => {
                let there = self.tree.lookup(&to);
                if there.is_none() {
                    self.assign(to, value.clone(), written);
                }
            }
            _ => self.assign(to, value.clone(), written),
        }
    }

    fn top_level_key(&mut self, key: &str, value: &Value) {
        let here = key_path(&[key]);
        match key {
            "version" => self.check_version(value),
            "guards" => self.for_each_entry(value, &here, |c, name, value, here| {
                c.guard_or_key(key_path(&["guards", name]), name, value, here);
            }),
            "nodes" => self.for_each_entry(value, &here, |c, name, value, here| c.node(name, value, here)),
            "edges" => self.for_each_entry(value, &here, |c, name, value, here| c.edge(name, value, here)),
            "tools" => self.for_each_entry(value, &here, |c, name, value, here| {
                let to = key_path(&["tools", name]);
                c.entry(to, value, here, "", KeyPath::new);
            }),
            "rules" => self.rule_list(value),
            "journal" if self.layer.origin == ValueOrigin::Inline && !value.is_null() => {
                let what = "a session cannot set 'journal': it could run commands or hide its actions";
                self.add_problem(PolicyErrorCode::Forbidden, &here, what, "set 'journal' in the policy file");
            }
            "on_error" if self.layer.origin == ValueOrigin::Inline && !value.is_null() => {
                let what = "a session cannot set 'on_error': its policy cannot be read when Flyball fails";
                self.add_problem(
                    PolicyErrorCode::Forbidden,
                    &here,
                    what,
                    "set 'on_error' in the policy file",
                );
            }
            "$schema" | "loop_prevention" | "phases" | "transition_limits" | "resilience" | "loop_policy" => {
            }
            // An empty section, such as `budgets:` with its keys commented out, is not an error.
            _ if value.is_null() && TOP_LEVEL_KEYS.contains(&key) => {}
            _ if TOP_LEVEL_KEYS.contains(&key) => self.copy(here.clone(), value, &here),
            _ => self.add_unknown_key(&here, &TOP_LEVEL_KEYS),
        }
    }

    fn check_version(&mut self, value: &Value) {
        let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
        if number != Some(POLICY_FILE_VERSION) {
            let what = format!("unsupported policy file version {}", describe_value(value));
            self.add_problem(PolicyErrorCode::Version, &key_path(&["version"]), &what, "write version: 1");
        }
    }

    /// Calls `each` for every entry of a map; null counts as an empty map.
    fn for_each_entry(
        &mut self,
        value: &Value,
        here: &[String],
        mut each: impl FnMut(&mut Self, &str, &Value, &[String]),
    ) {
        match value {
            Value::Null => {}
            Value::Object(map) => {
                for (name, value) in map {
                    each(self, name, value, &child_path(here, name));
                }
            }
            other => {
                let key = join_path(here);
                let what = format!("'{key}' must be a map of keys, not {}", describe_value(other));
                let help = match key.as_str() {
                    "guards" => "write preset: off to turn all guards off",
                    _ => "write one entry per name",
                };
                self.add_problem(PolicyErrorCode::Type, here, &what, help);
            }
        }
    }

    /// Sets a guard; a string or boolean is its mode.
    pub(super) fn guard_or_key(&mut self, to: KeyPath, name: &str, value: &Value, written: &[String]) {
        let parts = guard_info(name).map_or(&[][..], |info| info.parts);
        match value {
            Value::Null if GuardPolicies::NAMES.contains(&name) => {}
            Value::String(_) | Value::Bool(_) if GuardPolicies::NAMES.contains(&name) => {
                let mode = if *value == Value::Bool(true) { Value::from("staged") } else { value.clone() };
                self.assign(child_path(&to, "mode"), mode, written);
            }
            Value::Object(map) if !parts.is_empty() => {
                for (key, value) in map {
                    let (to, written) = (child_path(&to, key), child_path(written, key));
                    match parts.iter().find(|(part, _)| part == key) {
                        Some((_, switches)) => self.guard_part(to, switches, value, &written),
                        None => self.copy(to, value, &written),
                    }
                }
            }
            _ => self.copy(to, value, written),
        }
    }

    /// `calls: off` inside `cycle` turns that detector off.
    fn guard_part(&mut self, to: KeyPath, switches: &[&str], value: &Value, written: &[String]) {
        let off = *value == Value::Bool(false) || value.as_str() == Some("off");
        if off {
            for switch in switches {
                self.assign(child_path(&to, switch), Value::from("off"), written);
            }
        } else if !value.is_null() {
            self.copy(to, value, written);
        }
    }

    pub(super) fn node(&mut self, name: &str, value: &Value, written: &[String]) {
        let to = key_path(&["nodes", name]);
        let visits = || key_path(&["nodes", name, "visits", "limit"]);
        self.entry(to.clone(), value, written, "max_visits", visits);
        let allowed = self.tree.lookup(&child_path(&to, "allow_cycles")) == Some(&Value::Bool(true));
        let mode = child_path(&child_path(&to, "cycle"), "mode");
        let explicit = self.tree.lookup(&mode).filter(|m| m.as_str() != Some("off")).is_some();
        if allowed && explicit {
            let what = format!("node '{name}' allows cycles but also sets a mode for the cycle guard");
            let at = self.written_path(&mode);
            self.add_problem(
                PolicyErrorCode::Contradiction,
                &at,
                &what,
                "remove allow_cycles or the cycle guard's mode",
            );
        }
    }

    pub(super) fn edge(&mut self, name: &str, value: &Value, written: &[String]) {
        let Some((from, to)) = edge_ends(name) else {
            let what = format!("'{name}' is not a valid edge");
            self.add_problem(
                PolicyErrorCode::Type,
                written,
                &what,
                "write from->to, for example \"fix->test\"",
            );
            return;
        };
        let name = format!("{from}->{to}");
        let limit = || key_path(&["edges", &name, "transitions", "limit"]);
        self.entry(key_path(&["edges", &name]), value, written, "max_transitions", limit);
    }

    /// Sets an edge's limit from an entry of `transition_limits`.
    pub(super) fn edge_limit(&mut self, name: &str, value: &Value, written: &[String]) {
        match edge_ends(name) {
            Some((from, to)) => {
                let to = key_path(&["edges", &format!("{from}->{to}"), "transitions", "limit"]);
                self.at_least_one(to, value, written);
            }
            None => self.edge(name, value, written),
        }
    }

    /// Whether this layer has a value at a canonical path.
    pub(super) fn has_value(&self, path: &[String]) -> bool {
        self.tree.lookup(path).is_some()
    }

    /// Reads one node, edge or tool: its keys, its guards, and one limit with a short name.
    fn entry(
        &mut self,
        to: KeyPath,
        value: &Value,
        written: &[String],
        short: &str,
        long: impl Fn() -> KeyPath,
    ) {
        if value.is_null() {
            return;
        }
        let Value::Object(map) = value else {
            let what =
                format!("'{}' must be a map of keys, not {}", join_path(written), describe_value(value));
            self.add_problem(PolicyErrorCode::Type, written, &what, "write its keys, each with a value");
            return;
        };
        if map.is_empty() {
            self.copy(to, value, written);
            return;
        }
        self.written_paths.entry(join_path(&to)).or_insert_with(|| written.to_vec());
        for (key, value) in map {
            let here = child_path(written, key);
            if key == short {
                self.at_least_one(long(), value, &here);
            } else {
                self.guard_or_key(child_path(&to, key), key, value, &here);
            }
        }
    }

    /// Sets a limit for which 0 is more likely a mistake than a request for no limit.
    pub(super) fn at_least_one(&mut self, to: KeyPath, value: &Value, written: &[String]) {
        let number = match value {
            Value::String(text) => text.trim().parse::<i64>().ok(),
            other => other.as_i64(),
        };
        if number.is_some_and(|n| n < 1) {
            let key = written.last().map_or("", String::as_str);
            let what = format!("'{key}' must be at least 1");
            self.add_problem(PolicyErrorCode::Range, written, &what, "write off for no limit");
        } else {
            self.assign(to, value.clone(), written);
        }
    }

    fn rule_list(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::Array(rules) => {
                for (index, rule) in rules.iter().enumerate() {
                    self.rules.push((key_path(&["rules", &index.to_string()]), rule.clone()));
                }
            }
            other => {
                let what = format!("'rules' must be a list, not {}", describe_value(other));
                self.add_problem(
                    PolicyErrorCode::Type,
                    &key_path(&["rules"]),
                    &what,
                    "write - {name: …, when: …, decision: …}",
                );
            }
        }
    }
}
