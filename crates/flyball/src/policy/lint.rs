//! Lint warnings for valid but probably unintended settings: unreachable limits, disabled protection, settings that
//! mask each other.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::GuardPolicies;
use super::layer::ValueOrigin;
use super::paths::PathLookup;
use super::positions::{SourcePosition, join_path, split_path};
use super::resolve::{ResolvedPolicy, ValueSource};
use super::{GuardMode, Limit, Policy};
use crate::suggest::closest;

/// The severity of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LintSeverity {
    /// Informational.
    Info,
    /// Probably unintended.
    Warning,
}

/// A warning about a valid but surprising setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyWarning {
    /// The kind of the warning; stable.
    pub code: &'static str,
    /// The severity.
    pub severity: LintSeverity,
    /// The key as written.
    pub path: String,
    /// The source where it was written.
    pub origin: ValueOrigin,
    /// Line and column, if the source has lines.
    pub position: Option<SourcePosition>,
    /// The surprising setting, in one line.
    pub message: String,
    /// The suggested fix.
    pub help: String,
}

impl fmt::Display for PolicyWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if let Some(place) = self.position {
            write!(f, ":{}:{}", place.line, place.column)?;
        }
        write!(f, ": {}: {}\n  {}", self.code, self.message, self.help)
    }
}

/// Collects all warnings about a policy.
pub(super) fn lint(
    policy: &Policy,
    origins: &BTreeMap<String, ValueSource>,
    written: &Value,
) -> Vec<PolicyWarning> {
    let mut l = Linter { origins, warnings: Vec::new() };
    l.check_protection(policy);
    l.check_budgets(policy);
    l.check_guards(&["guards"], &policy.guards);
    for (name, node) in &policy.nodes {
        let at = ["nodes", name.as_str()];
        l.check_guards(&at, &node.guards);
        if l.is_written(&["nodes", name, "turns"]) {
            l.check_node_turns(&["nodes", name, "turns"], node.budget.turns, policy.budgets.loops.iterations);
        }
    }
    for (name, tool) in &policy.tools {
        l.check_guards(&["tools", name], &tool.guards);
    }
    for (from, to, edge) in edge_policies(policy) {
        l.check_guards(&["edges", &format!("{from}->{to}")], &edge.guards);
    }
    l.check_visits(policy);
    l.check_destinations(policy);
    l.check_durations(written);
    l.check_disabled_guards(policy);
    l.warnings
}

/// Finds limits that a known graph makes unreachable: a node whose visit limit exceeds what its incoming edges allow.
/// Edges are given as (from, to).
pub fn lint_graph(resolved: &ResolvedPolicy, graph: &[(&str, &str)]) -> Vec<PolicyWarning> {
    let mut l = Linter { origins: &resolved.origins, warnings: Vec::new() };
    for (name, node) in &resolved.policy.nodes {
        let into: Vec<_> = graph.iter().filter(|(_, to)| to == name).collect();
        let reachable = into.iter().try_fold(1_u64, |sum: u64, (from, to)| {
            let limit = resolved.policy.guards_for_edge(from, to).transitions.limit;
            Some(sum.saturating_add(limit?))
        });
        if let (Some(visits), Some(reachable)) = (node.guards.visits.limit, reachable)
            && !into.is_empty()
            && visits > reachable
        {
            l.warn_unreachable_visits(name, visits, reachable);
        }
    }
    l.warnings
}

fn edge_policies(policy: &Policy) -> impl Iterator<Item = (&String, &String, &super::EdgePolicy)> {
    policy.edges.iter().flat_map(|(from, tos)| tos.iter().map(move |(to, edge)| (from, to, edge)))
}

struct Linter<'a> {
    origins: &'a BTreeMap<String, ValueSource>,
    warnings: Vec<PolicyWarning>,
}

impl Linter<'_> {
    fn is_written<S: AsRef<str>>(&self, path: &[S]) -> bool {
        let written = self.origins.get(&join_path(path)).map(|w| &w.origin);
        !matches!(written, None | Some(ValueOrigin::Default | ValueOrigin::Preset(_)))
    }

    fn warn<S: AsRef<str>>(
        &mut self,
        severity: LintSeverity,
        code: &'static str,
        path: &[S],
        what: String,
        help: &str,
    ) {
        let written = self.origins.get(&join_path(path));
        self.warnings.push(PolicyWarning {
            code,
            severity,
            path: written.map_or_else(|| join_path(path), |w| w.key.clone()),
            origin: written.map_or(ValueOrigin::Default, |w| w.origin.clone()),
            position: written.and_then(|w| w.position),
            message: what,
            help: help.to_owned(),
        });
    }

    fn check_protection(&mut self, policy: &Policy) {
        let off = |guards: &GuardPolicies| guards.modes().all(|(_, mode)| mode == GuardMode::Off);
        let others = policy.nodes.values().map(|n| &n.guards);
        let others = others.chain(policy.tools.values().map(|t| &t.guards));
        let others = others.chain(edge_policies(policy).map(|(_, _, e)| &e.guards));
        if off(&policy.guards) && others.into_iter().all(off) {
            let what = "all guards are off: this session is not protected".to_owned();
            self.warn(
                LintSeverity::Warning,
                "protection_off",
                &["preset"],
                what,
                "choose another preset or turn guards on",
            );
        }
    }

    fn check_budgets(&mut self, policy: &Policy) {
        let budgets = &policy.budgets;
        if budgets.node.turns_set {
            self.check_node_turns(
                &["budgets", "node", "turns"],
                budgets.node.turns,
                budgets.loops.iterations,
            );
        }
        if let (Some(turn), Some(session)) = (budgets.turn.timeout_ms, budgets.session.runtime_ms)
            && turn > session
        {
            let what = "the turn timeout is longer than the session's runtime budget".to_owned();
            let path = if self.is_written(&["budgets", "turn", "timeout"]) {
                ["budgets", "turn", "timeout"]
            } else {
                ["budgets", "session", "runtime"]
            };
            self.warn(
                LintSeverity::Warning,
                "turn_longer_than_session",
                &path,
                what,
                "lower budgets.turn.timeout",
            );
        }
    }

    fn check_node_turns(&mut self, path: &[&str], turns: Limit, iterations: Limit) {
        if let (Some(turns), Some(iterations)) = (turns, iterations)
            && turns <= iterations
        {
            let what = format!("{turns} turns per node end a loop before its {iterations} iterations");
            let help = format!("allow at least {} turns, or lower budgets.loop.iterations", iterations + 1);
            self.warn(LintSeverity::Warning, "loop_budget_unreachable", path, what, &help);
        }
    }

    /// Checks one set of guards; for a node, tool or edge, only the keys written there.
    fn check_guards(&mut self, at: &[&str], guards: &GuardPolicies) {
        let path = |keys: [&'static str; 2]| [at, &keys].concat();
        self.check_warn_below_limit(
            &path(["repetition", "warn_at"]),
            &path(["repetition", "limit"]),
            guards.repetition.warn_at,
            guards.repetition.limit,
        );
        self.check_warn_below_limit(
            &path(["error_streak", "warn_at"]),
            &path(["error_streak", "same_error"]),
            guards.error_streak.warn_at,
            guards.error_streak.same_error,
        );
        self.check_recurrence(at, guards);
        self.check_cycles(at, guards);
        let denial = &guards.denial;
        let paths = [path(["denial", "total"]), path(["denial", "of"])];
        if let Some(total) = denial.total.filter(|total| *total > denial.of)
            && let Some(at) = paths.iter().find(|path| self.is_written(path))
        {
            let what = format!("'total' ({total}) is more than the last {} requests can contain", denial.of);
            self.warn(LintSeverity::Warning, "denial_unreachable", at, what, "lower total, or raise of");
        }
    }

    fn check_warn_below_limit(&mut self, warn: &[&str], limit: &[&str], warn_at: Limit, at: Limit) {
        let (Some(warn_at), Some(limit_at)) = (warn_at, at) else {
            return;
        };
        let written = [warn, limit].into_iter().find(|path| self.is_written(path));
        if let Some(path) = written.filter(|_| warn_at >= limit_at) {
            let what = format!("the warning at {warn_at} does not come before the limit of {limit_at}");
            self.warn(
                LintSeverity::Warning,
                "warning_too_late",
                path,
                what,
                "lower warn_at, or write warn_at: off",
            );
        }
    }

    fn check_recurrence(&mut self, at: &[&str], guards: &GuardPolicies) {
        let (repetition, recurrence) = (&guards.repetition, &guards.recurrence);
        let path = [at, &["repetition", "limit"]].concat();
        let on = repetition.mode.is_on() && recurrence.mode.is_on();
        if let (true, Some(limit), Some(other)) = (on, repetition.limit, recurrence.limit)
            && limit > other
            && self.is_written(&path)
        {
            let what = format!("recurrence trips at {other} identical calls, before {limit} repetitions");
            self.warn(
                LintSeverity::Info,
                "recurrence_trips_first",
                &path,
                what,
                "raise recurrence.limit as well",
            );
        }
    }

    fn check_cycles(&mut self, at: &[&str], guards: &GuardPolicies) {
        let cycles = &guards.cycle.transitions;
        let path = |key: &'static str| [at, &["cycle", "transitions", key]].concat();
        let needed = cycles.max_period.map_or(0, |period| period.saturating_mul(cycles.repeats));
        if self.is_written(&path("max_history")) && cycles.max_history < needed {
            let what =
                format!("a history of {} is shorter than the longest cycle ({needed})", cycles.max_history);
            self.warn(
                LintSeverity::Warning,
                "history_too_short",
                &path("max_history"),
                what,
                "detection is not affected, but reports show only part of the cycle",
            );
        }
        if let Some(length) = cycles.suffix_length.filter(|length| *length > 5)
            && self.is_written(&path("suffix_length"))
        {
            let what = format!("a suffix length of {length} finds only very long cycles");
            self.warn(
                LintSeverity::Warning,
                "suffix_too_long",
                &path("suffix_length"),
                what,
                "the usual range is 2 to 5",
            );
        }
        let limit_path = [at, &["transitions", "limit"]].concat();
        let periodic = cycles.max_period.map(|_| cycles.repeats);
        let suffix = cycles.suffix_length.map(|length| length.div_ceil(2) + 2);
        let first = [periodic, suffix].into_iter().flatten().min();
        if let (Some(limit), Some(first)) = (guards.transitions.limit, first)
            && guards.cycle.mode.is_on()
            && limit >= first
            && self.is_written(&limit_path)
        {
            let what = format!("the cycle guard stops two alternating nodes before {limit} uses of an edge");
            self.warn(
                LintSeverity::Info,
                "cycle_trips_first",
                &limit_path,
                what,
                "this is intended; set allow_cycles: true for a node that may cycle",
            );
        }
    }

    /// Without a graph, only the edges named by the policy are known.
    fn check_visits(&mut self, policy: &Policy) {
        for (name, node) in &policy.nodes {
            let into: Vec<Limit> = edge_policies(policy)
                .filter(|(_, to, _)| *to == name)
                .map(|(_, _, edge)| edge.guards.transitions.limit)
                .collect();
            let reachable =
                into.iter().try_fold(1_u64, |sum: u64, limit| Some(sum.saturating_add((*limit)?)));
            if let (Some(visits), Some(reachable)) = (node.guards.visits.limit, reachable)
                && !into.is_empty()
                && visits > reachable
            {
                self.warn_unreachable_visits(name, visits, reachable);
            }
        }
    }

    fn warn_unreachable_visits(&mut self, name: &str, visits: u64, reachable: u64) {
        let path = ["nodes", name, "visits", "limit"];
        if self.is_written(&path) {
            let what = format!(
                "the known edges into '{name}' allow only {reachable} of {visits} visits without retries"
            );
            self.warn(
                LintSeverity::Info,
                "visits_unreachable",
                &path,
                what,
                "raise max_transitions of an edge, or lower max_visits",
            );
        }
    }

    /// Warns about destinations that are not nodes of the policy, which may be typos.
    fn check_destinations(&mut self, policy: &Policy) {
        /// Built-in end nodes, which no policy describes.
        const END_NODES: [&str; 3] = ["close", "done", "failed"];
        for (name, node) in &policy.nodes {
            for to in node.allowed_destinations.iter().flatten() {
                if policy.nodes.contains_key(to) || END_NODES.contains(&to.as_str()) {
                    continue;
                }
                let near = closest(to, policy.nodes.keys().map(String::as_str));
                let help = near.map_or_else(
                    || "no action needed if it has no limits".to_owned(),
                    |near| format!("did you mean '{near}'?"),
                );
                let severity = if near.is_some() { LintSeverity::Warning } else { LintSeverity::Info };
                let what = format!("'{name}' may lead to '{to}', which is not a node of this policy");
                let path = ["nodes", name.as_str(), "allowed_destinations"];
                self.warn(severity, "destination_unknown", &path, what, &help);
            }
        }
    }

    /// Warns about plain numbers, which are milliseconds: `runtime: 4` is rarely intended.
    fn check_durations(&mut self, written: &Value) {
        const DURATIONS: [&str; 4] = ["runtime", "wall", "timeout", "ttl"];
        let found: Vec<Vec<String>> = self
            .origins
            .keys()
            .filter_map(|key| split_path(key))
            .filter(|path| path.last().is_some_and(|last| DURATIONS.contains(&last.as_str())))
            .collect();
        for path in found {
            let number = written.lookup(&path).and_then(Value::as_u64);
            let session =
                path.first().is_some_and(|p| p == "budgets") && path.get(1).is_some_and(|p| p == "session");
            let least = if session { 60_000 } else { 1_000 };
            if let Some(ms) = number.filter(|ms| *ms > 0 && *ms < least) {
                let what = format!("{ms} means {ms} milliseconds");
                self.warn(
                    LintSeverity::Warning,
                    "milliseconds",
                    &path,
                    what,
                    "write a unit, for example 10m or 4h",
                );
            }
        }
    }

    /// Warns about limits for a node, tool or edge whose guard is off.
    fn check_disabled_guards(&mut self, policy: &Policy) {
        let mut found = Vec::new();
        for (name, node) in &policy.nodes {
            let off = node.guards.visits.mode == GuardMode::Off;
            found.extend(
                off.then(|| vec!["nodes".to_owned(), name.clone(), "visits".to_owned(), "limit".to_owned()]),
            );
        }
        for (name, tool) in &policy.tools {
            let off = tool.guards.repetition.mode == GuardMode::Off;
            found.extend(off.then(|| {
                vec!["tools".to_owned(), name.clone(), "repetition".to_owned(), "limit".to_owned()]
            }));
        }
        for (from, to, edge) in edge_policies(policy) {
            let off = edge.guards.transitions.mode == GuardMode::Off;
            found.extend(off.then(|| {
                vec![
                    "edges".to_owned(),
                    format!("{from}->{to}"),
                    "transitions".to_owned(),
                    "limit".to_owned(),
                ]
            }));
        }
        for path in found.iter().filter(|path| self.is_written(path)).cloned().collect::<Vec<_>>() {
            let what = "this limit has no effect: its guard is off".to_owned();
            self.warn(
                LintSeverity::Warning,
                "guard_is_off",
                &path,
                what,
                "turn the guard on, or remove the limit",
            );
        }
    }
}

#[cfg(test)]
#[path = "lint_tests.rs"]
mod tests;
