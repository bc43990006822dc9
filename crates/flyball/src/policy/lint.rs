//! What is allowed but probably not meant: limits that can never be reached, protection
//! that is off, settings that hide one another.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::guards::Guards;
use super::layer::Origin;
use super::paths::PointerOf;
use super::places::{Place, join, split};
use super::resolve::{Resolved, Written};
use super::{Limit, Mode, Policy};
use crate::suggest::closest;

/// How much a warning matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Info,
    /// Probably not what was meant.
    Warning,
}

/// Something in a policy that works but may surprise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The kind of the warning; never changes.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The key as written.
    pub path: String,
    /// Where it was written.
    pub origin: Origin,
    /// Line and column, if the source has lines.
    pub place: Option<Place>,
    /// What is surprising.
    pub what: String,
    /// What to do about it.
    pub help: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if let Some(place) = self.place {
            write!(f, ":{}:{}", place.line, place.column)?;
        }
        write!(f, ": {}: {}\n  {}", self.code, self.what, self.help)
    }
}

/// Finds what is surprising in a policy.
pub(super) fn lint(policy: &Policy, origins: &BTreeMap<String, Written>, written: &Value) -> Vec<Warning> {
    let mut l = Lint { origins, warnings: Vec::new() };
    l.protection(policy);
    l.budgets(policy);
    l.guards(&["guards"], &policy.guards);
    for (name, node) in &policy.nodes {
        let at = ["nodes", name.as_str()];
        l.guards(&at, &node.guards);
        if l.is_written(&["nodes", name, "turns"]) {
            l.node_turns(&["nodes", name, "turns"], node.budget.turns, policy.budgets.loops.iterations);
        }
    }
    for (name, tool) in &policy.tools {
        l.guards(&["tools", name], &tool.guards);
    }
    for (from, to, edge) in edges(policy) {
        l.guards(&["edges", &format!("{from}->{to}")], &edge.guards);
    }
    l.visits(policy);
    l.destinations(policy);
    l.durations(written);
    l.off_but_configured(policy);
    l.warnings
}

/// Finds limits that a known graph makes unreachable: a node that may be visited more
/// often than the edges into it allow. Edges are given as (from, to).
pub fn lint_graph(resolved: &Resolved, graph: &[(&str, &str)]) -> Vec<Warning> {
    let mut l = Lint { origins: &resolved.origins, warnings: Vec::new() };
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
            l.unreachable_visits(name, visits, reachable);
        }
    }
    l.warnings
}

fn edges(policy: &Policy) -> impl Iterator<Item = (&String, &String, &super::EdgePolicy)> {
    policy.edges.iter().flat_map(|(from, tos)| tos.iter().map(move |(to, edge)| (from, to, edge)))
}

struct Lint<'a> {
    origins: &'a BTreeMap<String, Written>,
    warnings: Vec<Warning>,
}

impl Lint<'_> {
    fn is_written<S: AsRef<str>>(&self, path: &[S]) -> bool {
        let written = self.origins.get(&join(path)).map(|w| &w.origin);
        !matches!(written, None | Some(Origin::Default | Origin::Preset(_)))
    }

    fn say<S: AsRef<str>>(
        &mut self,
        severity: Severity,
        code: &'static str,
        path: &[S],
        what: String,
        help: &str,
    ) {
        let written = self.origins.get(&join(path));
        self.warnings.push(Warning {
            code,
            severity,
            path: written.map_or_else(|| join(path), |w| w.key.clone()),
            origin: written.map_or(Origin::Default, |w| w.origin.clone()),
            place: written.and_then(|w| w.place),
            what,
            help: help.to_owned(),
        });
    }

    fn protection(&mut self, policy: &Policy) {
        let off = |guards: &Guards| guards.modes().iter().all(|mode| *mode == Mode::Off);
        let others = policy.nodes.values().map(|n| &n.guards);
        let others = others.chain(policy.tools.values().map(|t| &t.guards));
        let others = others.chain(edges(policy).map(|(_, _, e)| &e.guards));
        if off(&policy.guards) && others.into_iter().all(off) {
            let what = "all guards are off: nothing protects this session".to_owned();
            self.say(
                Severity::Warning,
                "protection_off",
                &["preset"],
                what,
                "choose another preset or switch guards on",
            );
        }
    }

    fn budgets(&mut self, policy: &Policy) {
        let budgets = &policy.budgets;
        if budgets.node.turns_set {
            self.node_turns(&["budgets", "node", "turns"], budgets.node.turns, budgets.loops.iterations);
        }
        if let (Some(turn), Some(session)) = (budgets.turn.timeout_ms, budgets.session.runtime_ms)
            && turn > session
        {
            let what = "a turn may take longer than the whole session".to_owned();
            let path = if self.is_written(&["budgets", "turn", "timeout"]) {
                ["budgets", "turn", "timeout"]
            } else {
                ["budgets", "session", "runtime"]
            };
            self.say(
                Severity::Warning,
                "turn_longer_than_session",
                &path,
                what,
                "lower budgets.turn.timeout",
            );
        }
    }

    fn node_turns(&mut self, path: &[&str], turns: Limit, iterations: Limit) {
        if let (Some(turns), Some(iterations)) = (turns, iterations)
            && turns <= iterations
        {
            let what = format!("{turns} turns a node end a loop before its {iterations} iterations");
            let help = format!("write at least {} turns, or lower budgets.loop.iterations", iterations + 1);
            self.say(Severity::Warning, "loop_budget_unreachable", path, what, &help);
        }
    }

    /// Checks one set of guards; below a node, tool or edge only what was written there.
    fn guards(&mut self, at: &[&str], guards: &Guards) {
        let path = |keys: [&'static str; 2]| [at, &keys].concat();
        self.below(
            &path(["repetition", "warn_at"]),
            &path(["repetition", "limit"]),
            guards.repetition.warn_at,
            guards.repetition.limit,
        );
        self.below(
            &path(["error_streak", "warn_at"]),
            &path(["error_streak", "same_error"]),
            guards.error_streak.warn_at,
            guards.error_streak.same_error,
        );
        self.recurrence(at, guards);
        self.cycles(at, guards);
        let denial = &guards.denial;
        let paths = [path(["denial", "total"]), path(["denial", "of"])];
        if let Some(total) = denial.total.filter(|total| *total > denial.of)
            && let Some(at) = paths.iter().find(|path| self.is_written(path))
        {
            let what = format!("{total} refusals can never be among the last {}", denial.of);
            self.say(Severity::Warning, "denial_unreachable", at, what, "lower total, or raise of");
        }
    }

    fn below(&mut self, warn: &[&str], limit: &[&str], warn_at: Limit, at: Limit) {
        let (Some(warn_at), Some(limit_at)) = (warn_at, at) else {
            return;
        };
        let written = [warn, limit].into_iter().find(|path| self.is_written(path));
        if let Some(path) = written.filter(|_| warn_at >= limit_at) {
            let what = format!("the warning at {warn_at} comes no earlier than the limit {limit_at}");
            self.say(
                Severity::Warning,
                "warning_too_late",
                path,
                what,
                "lower warn_at, or write warn_at: off",
            );
        }
    }

    fn recurrence(&mut self, at: &[&str], guards: &Guards) {
        let (repetition, recurrence) = (&guards.repetition, &guards.recurrence);
        let path = [at, &["repetition", "limit"]].concat();
        let on = repetition.mode.is_on() && recurrence.mode.is_on();
        if let (true, Some(limit), Some(other)) = (on, repetition.limit, recurrence.limit)
            && limit > other
            && self.is_written(&path)
        {
            let what = format!("recurrence trips at {other} equal calls, before {limit} repetitions");
            self.say(Severity::Info, "recurrence_first", &path, what, "raise recurrence.limit too");
        }
    }

    fn cycles(&mut self, at: &[&str], guards: &Guards) {
        let cycles = &guards.cycle.transitions;
        let path = |key: &'static str| [at, &["cycle", "transitions", key]].concat();
        let needed = cycles.max_period.map_or(0, |period| period.saturating_mul(cycles.repeats));
        if self.is_written(&path("max_history")) && cycles.max_history < needed {
            let what = format!(
                "a history of {} is shorter than {needed}, the longest cycle looked for",
                cycles.max_history
            );
            self.say(
                Severity::Warning,
                "history_too_short",
                &path("max_history"),
                what,
                "the detector keeps as many as it needs; reports show the shorter list",
            );
        }
        if let Some(length) = cycles.suffix_length.filter(|length| *length > 5)
            && self.is_written(&path("suffix_length"))
        {
            let what = format!("with a length of {length} only very long cycles are found");
            self.say(
                Severity::Warning,
                "suffix_too_long",
                &path("suffix_length"),
                what,
                "2 to 5 is the usual range",
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
            let what = format!(
                "two nodes that take turns are stopped by the cycle guard before {limit} uses of an edge"
            );
            self.say(
                Severity::Info,
                "cycle_first",
                &limit_path,
                what,
                "this is the intended order; write allow_cycles: true for a node that may cycle",
            );
        }
    }

    /// Without a graph, only the edges that the policy names are known.
    fn visits(&mut self, policy: &Policy) {
        for (name, node) in &policy.nodes {
            let into: Vec<Limit> = edges(policy)
                .filter(|(_, to, _)| *to == name)
                .map(|(_, _, edge)| edge.guards.transitions.limit)
                .collect();
            let reachable =
                into.iter().try_fold(1_u64, |sum: u64, limit| Some(sum.saturating_add((*limit)?)));
            if let (Some(visits), Some(reachable)) = (node.guards.visits.limit, reachable)
                && !into.is_empty()
                && visits > reachable
            {
                self.unreachable_visits(name, visits, reachable);
            }
        }
    }

    fn unreachable_visits(&mut self, name: &str, visits: u64, reachable: u64) {
        let path = ["nodes", name, "visits", "limit"];
        if self.is_written(&path) {
            let what = format!(
                "the known edges into '{name}' allow {reachable} visits without retries, fewer than {visits}"
            );
            self.say(
                Severity::Info,
                "visits_unreachable",
                &path,
                what,
                "raise max_transitions of an edge, or lower max_visits",
            );
        }
    }

    /// Destinations that no node of the policy has: perhaps a slip, if it names others.
    fn destinations(&mut self, policy: &Policy) {
        /// Ends that no policy describes.
        const ENDS: [&str; 3] = ["close", "done", "failed"];
        for (name, node) in &policy.nodes {
            for to in node.allowed_destinations.iter().flatten() {
                if policy.nodes.contains_key(to) || ENDS.contains(&to.as_str()) {
                    continue;
                }
                let near = closest(to, policy.nodes.keys().map(String::as_str));
                let help = near.map_or_else(
                    || "fine if it needs no limits of its own".to_owned(),
                    |near| format!("did you mean '{near}'?"),
                );
                let severity = if near.is_some() { Severity::Warning } else { Severity::Info };
                let what = format!("'{name}' may lead to '{to}', which this policy does not describe");
                let path = ["nodes", name.as_str(), "allowed_destinations"];
                self.say(severity, "destination_unknown", &path, what, &help);
            }
        }
    }

    /// A bare number is milliseconds; `runtime: 4` is hardly ever meant.
    fn durations(&mut self, written: &Value) {
        const DURATIONS: [&str; 4] = ["runtime", "wall", "timeout", "ttl"];
        let found: Vec<Vec<String>> = self
            .origins
            .keys()
            .filter_map(|key| split(key))
            .filter(|path| path.last().is_some_and(|last| DURATIONS.contains(&last.as_str())))
            .collect();
        for path in found {
            let number = written.pointer_of(&path).and_then(Value::as_u64);
            let session =
                path.first().is_some_and(|p| p == "budgets") && path.get(1).is_some_and(|p| p == "session");
            let least = if session { 60_000 } else { 1_000 };
            if let Some(ms) = number.filter(|ms| *ms > 0 && *ms < least) {
                let what = format!("{ms} is read as {ms} milliseconds");
                self.say(
                    Severity::Warning,
                    "milliseconds",
                    &path,
                    what,
                    "write a unit, for example 10m or 4h",
                );
            }
        }
    }

    /// A limit for one node, tool or edge does nothing while its guard is off.
    fn off_but_configured(&mut self, policy: &Policy) {
        let mut found = Vec::new();
        for (name, node) in &policy.nodes {
            let off = node.guards.visits.mode == Mode::Off;
            found.extend(
                off.then(|| vec!["nodes".to_owned(), name.clone(), "visits".to_owned(), "limit".to_owned()]),
            );
        }
        for (name, tool) in &policy.tools {
            let off = tool.guards.repetition.mode == Mode::Off;
            found.extend(off.then(|| {
                vec!["tools".to_owned(), name.clone(), "repetition".to_owned(), "limit".to_owned()]
            }));
        }
        for (from, to, edge) in edges(policy) {
            let off = edge.guards.transitions.mode == Mode::Off;
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
            let what = "this limit does nothing: its guard is off".to_owned();
            self.say(
                Severity::Warning,
                "guard_is_off",
                &path,
                what,
                "switch the guard on, or remove the limit",
            );
        }
    }
}

#[cfg(test)]
#[path = "lint_tests.rs"]
mod tests;
