//! One layer in the words of the contract: shorthands written out, seed keys translated.
//!
//! After this step every value sits at its one true path (`guards.visits.limit`), and a mark
//! remembers the key that was really written (`loop_prevention.max_visits_default`), so that
//! messages and origins point at what the person sees.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::environment::insert;
use super::error::Code;
use super::guards::Guards;
use super::layer::{Layer, Origin};
use super::paths::{Path, PointerOf, edge_ends, path, with, within_bounds};
use super::places::join;
use super::units::same_meaning;
use super::values::{Problem, kind, unknown_help};
use super::{Policy, seeds};

/// The version of the policy file that is understood.
const VERSION: u64 = 1;

/// Every key at the top of a policy file.
pub(super) const TOP: [&str; 22] = [
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

/// A layer after translation.
pub(super) struct Canonical<'l> {
    pub(super) layer: &'l Layer,
    /// The written values at their true paths.
    pub(super) tree: Value,
    /// The rules as written, with their paths.
    pub(super) rules: Vec<(Path, Value)>,
    pub(super) problems: Vec<Problem>,
    /// True path to the path as written.
    marks: BTreeMap<String, Path>,
}

/// Translates one layer. `base` is the preset that it changes.
pub(super) fn canonical<'l>(layer: &'l Layer, base: &Policy) -> Canonical<'l> {
    let mut c = Canonical {
        layer,
        tree: Value::Object(Map::new()),
        rules: Vec::new(),
        problems: Vec::new(),
        marks: BTreeMap::new(),
    };
    let mut values = 0;
    if !within_bounds(&layer.tree, 0, &mut values) {
        c.problem(Code::Syntax, &[], "the policy is too deep or too large", "remove what is not policy");
        return c;
    }
    let Value::Object(top) = &layer.tree else {
        let what = format!("a policy must be a map of keys, not {}", kind(&layer.tree));
        c.problem(Code::Type, &[], &what, "write keys such as preset: agent");
        return c;
    };
    for (key, value) in top {
        c.top(key, value);
    }
    // After our own keys, so that a difference is found whichever was written first.
    seeds::translate(&mut c, top, base);
    c
}

impl Canonical<'_> {
    pub(super) fn problem(&mut self, code: Code, path: &[String], what: &str, help: &str) {
        self.problems.push(Problem {
            code,
            path: path.to_vec(),
            as_written: true,
            what: what.to_owned(),
            help: help.to_owned(),
        });
    }

    pub(super) fn unknown(&mut self, path: &[String], known: &[&str]) {
        let key = path.last().map_or("", String::as_str);
        let around = path.split_last().map_or(String::new(), |(_, around)| join(around));
        let what = if around.is_empty() {
            format!("unknown key '{key}'")
        } else {
            format!("unknown key '{key}' in {around}")
        };
        let help = unknown_help(key, known, "key");
        self.problem(Code::UnknownKey, path, &what, &help);
    }

    /// The path as written of a true path.
    pub(super) fn written(&self, path: &[String]) -> Path {
        self.marks.get(&join(path)).cloned().unwrap_or_else(|| path.to_vec())
    }

    /// Puts a value at its true path. The same value twice is fine, two different ones are not.
    pub(super) fn assign(&mut self, to: Path, value: Value, written: &[String]) {
        let name = join(&to);
        let before = self.tree.pointer_of(&to);
        if let (Some(before), Some(first)) = (before, self.marks.get(&name))
            && !(before.is_object() && value.is_object())
        {
            if !same_meaning(before, &value) {
                let what = format!(
                    "{} is {}{}, but {} is {}",
                    join(first),
                    kind(before),
                    self.layer.places.find(first).map_or(String::new(), |p| format!(" (line {})", p.line)),
                    join(written),
                    kind(&value)
                );
                self.problem(
                    Code::Contradiction,
                    written,
                    &what,
                    "both set the same value: keep one of the two",
                );
            }
            return;
        }
        if insert(&mut self.tree, &to, value) {
            self.marks.insert(name, written.to_vec());
        } else {
            let what = format!("'{}' is written both as a value and as a map", join(written));
            self.problem(Code::Contradiction, written, &what, "keep one of the two");
        }
    }

    /// Copies a value, map by map down to the single values.
    pub(super) fn copy(&mut self, to: Path, value: &Value, written: &[String]) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.marks.entry(join(&to)).or_insert_with(|| written.to_vec());
                for (key, value) in map {
                    self.copy(with(&to, key), value, &with(written, key));
                }
            }
            Value::Object(_) => {
                let there = self.tree.pointer_of(&to);
                if there.is_none() {
                    self.assign(to, value.clone(), written);
                }
            }
            _ => self.assign(to, value.clone(), written),
        }
    }

    fn top(&mut self, key: &str, value: &Value) {
        let here = path(&[key]);
        match key {
            "version" => self.version(value),
            "guards" => self.named(value, &here, |c, name, value, here| {
                c.guard_or_key(path(&["guards", name]), name, value, here);
            }),
            "nodes" => self.named(value, &here, |c, name, value, here| c.node(name, value, here)),
            "edges" => self.named(value, &here, |c, name, value, here| c.edge(name, value, here)),
            "tools" => self.named(value, &here, |c, name, value, here| {
                let to = path(&["tools", name]);
                c.entry(to, value, here, "", Path::new);
            }),
            "rules" => self.rule_list(value),
            "journal" if self.layer.origin == Origin::Inline && !value.is_null() => {
                let what =
                    "a session cannot bring a journal of its own: it could run commands or hide what it did";
                self.problem(Code::Forbidden, &here, what, "write 'journal' into the policy file");
            }
            "on_error" if self.layer.origin == Origin::Inline && !value.is_null() => {
                let what = "a session cannot say what happens when Flyball fails: it could not be asked then";
                self.problem(Code::Forbidden, &here, what, "write 'on_error' into the policy file");
            }
            "$schema" | "loop_prevention" | "phases" | "transition_limits" | "resilience" | "loop_policy" => {
            }
            // Nothing written after `budgets:` is how people comment a section out.
            _ if value.is_null() && TOP.contains(&key) => {}
            _ if TOP.contains(&key) => self.copy(here.clone(), value, &here),
            _ => self.unknown(&here, &TOP),
        }
    }

    fn version(&mut self, value: &Value) {
        let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
        if number != Some(VERSION) {
            let what = format!("version {} of the policy file is not known", kind(value));
            self.problem(Code::Version, &path(&["version"]), &what, "write version: 1");
        }
    }

    /// Calls `each` for every entry of a map; nothing at all counts as an empty map.
    fn named(
        &mut self,
        value: &Value,
        here: &[String],
        mut each: impl FnMut(&mut Self, &str, &Value, &[String]),
    ) {
        match value {
            Value::Null => {}
            Value::Object(map) => {
                for (name, value) in map {
                    each(self, name, value, &with(here, name));
                }
            }
            other => {
                let key = join(here);
                let what = format!("'{key}' must be a map of keys, not {}", kind(other));
                let help = match key.as_str() {
                    "guards" => "to switch all guards off write preset: off",
                    _ => "write one entry for each name",
                };
                self.problem(Code::Type, here, &what, help);
            }
        }
    }

    /// A guard's value, where a bare word is its mode.
    pub(super) fn guard_or_key(&mut self, to: Path, name: &str, value: &Value, written: &[String]) {
        match value {
            Value::Null if Guards::NAMES.contains(&name) => {}
            Value::String(_) | Value::Bool(_) if Guards::NAMES.contains(&name) => {
                let mode = if *value == Value::Bool(true) { Value::from("staged") } else { value.clone() };
                self.assign(with(&to, "mode"), mode, written);
            }
            Value::Object(map) if name == "cycle" => {
                for (key, value) in map {
                    self.cycle_part(with(&to, key), key, value, &with(written, key));
                }
            }
            _ => self.copy(to, value, written),
        }
    }

    /// `calls: off` inside `cycle` switches that detector off.
    fn cycle_part(&mut self, to: Path, key: &str, value: &Value, written: &[String]) {
        let switches: &[&str] = match key {
            "calls" | "outputs" => &["max_period"],
            "transitions" => &["max_period", "suffix_length", "self_loop"],
            _ => return self.copy(to, value, written),
        };
        let off = *value == Value::Bool(false) || value.as_str() == Some("off");
        if off {
            for switch in switches {
                self.assign(with(&to, switch), Value::from("off"), written);
            }
        } else if !value.is_null() {
            self.copy(to, value, written);
        }
    }

    pub(super) fn node(&mut self, name: &str, value: &Value, written: &[String]) {
        let to = path(&["nodes", name]);
        let visits = || path(&["nodes", name, "visits", "limit"]);
        self.entry(to.clone(), value, written, "max_visits", visits);
        let allowed = self.tree.pointer_of(&with(&to, "allow_cycles")) == Some(&Value::Bool(true));
        let mode = with(&with(&to, "cycle"), "mode");
        let explicit = self.tree.pointer_of(&mode).filter(|m| m.as_str() != Some("off")).is_some();
        if allowed && explicit {
            let what = format!("node '{name}' allows cycles and has a mode for the cycle guard");
            let at = self.written(&mode);
            self.problem(Code::Contradiction, &at, &what, "remove allow_cycles or the cycle guard's mode");
        }
    }

    pub(super) fn edge(&mut self, name: &str, value: &Value, written: &[String]) {
        let Some((from, to)) = edge_ends(name) else {
            let what = format!("'{name}' is not an edge");
            self.problem(Code::Type, written, &what, "write from->to, for example \"fix->test\"");
            return;
        };
        let name = format!("{from}->{to}");
        let limit = || path(&["edges", &name, "transitions", "limit"]);
        self.entry(path(&["edges", &name]), value, written, "max_transitions", limit);
    }

    /// An edge's limit from `transition_limits`, where the value stands at the edge's own key.
    pub(super) fn edge_limit(&mut self, name: &str, value: &Value, written: &[String]) {
        match edge_ends(name) {
            Some((from, to)) => {
                let to = path(&["edges", &format!("{from}->{to}"), "transitions", "limit"]);
                self.at_least_one(to, value, written);
            }
            None => self.edge(name, value, written),
        }
    }

    /// Whether this layer has a value at a true path.
    pub(super) fn has(&self, path: &[String]) -> bool {
        self.tree.pointer_of(path).is_some()
    }

    /// One node, edge or tool: its own keys, guards, and one limit with a short name.
    fn entry(&mut self, to: Path, value: &Value, written: &[String], short: &str, long: impl Fn() -> Path) {
        if value.is_null() {
            return;
        }
        let Value::Object(map) = value else {
            let what = format!("'{}' must be a map of keys, not {}", join(written), kind(value));
            self.problem(Code::Type, written, &what, "write its keys, each with a value");
            return;
        };
        if map.is_empty() {
            self.copy(to, value, written);
            return;
        }
        self.marks.entry(join(&to)).or_insert_with(|| written.to_vec());
        for (key, value) in map {
            let here = with(written, key);
            if key == short {
                self.at_least_one(long(), value, &here);
            } else {
                self.guard_or_key(with(&to, key), key, value, &here);
            }
        }
    }

    /// A limit where 0 is more likely a slip than the wish for no limit.
    pub(super) fn at_least_one(&mut self, to: Path, value: &Value, written: &[String]) {
        let number = match value {
            Value::String(text) => text.trim().parse::<i64>().ok(),
            other => other.as_i64(),
        };
        if number.is_some_and(|n| n < 1) {
            let key = written.last().map_or("", String::as_str);
            let what = format!("'{key}' must be at least 1");
            self.problem(Code::Range, written, &what, "write off for no limit");
        } else {
            self.assign(to, value.clone(), written);
        }
    }

    fn rule_list(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::Array(rules) => {
                for (index, rule) in rules.iter().enumerate() {
                    self.rules.push((path(&["rules", &index.to_string()]), rule.clone()));
                }
            }
            other => {
                let what = format!("'rules' must be a list, not {}", kind(other));
                self.problem(Code::Type, &path(&["rules"]), &what, "write - {name: …, when: …, decision: …}");
            }
        }
    }
}
