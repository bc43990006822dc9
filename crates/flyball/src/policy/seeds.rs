//! Keys of other systems, translated to our own: `loop_prevention`, `phases` and `transition_limits`, `resilience`, and
//! `loop_policy` may stand alone or beside our keys.

use serde_json::{Map, Value};

use super::canonical::Canonical;
use super::error::Code;
use super::guards::{Transitions, Visits};
use super::paths::{Path, path, with};
use super::units::is_off;
use super::values::{flag, kind};
use super::{Mode, Policy};
use crate::rules_version::RulesVersion;

/// A key of a seed and the path it stands for.
type Pair = (&'static str, &'static [&'static str]);

const RESILIENCE: [Pair; 6] = [
    ("max_runtime", &["budgets", "session", "runtime"]),
    ("max_consecutive_repetitions", &["guards", "repetition", "limit"]),
    ("max_consecutive_validation_failures", &["guards", "validation", "limit"]),
    ("large_response_threshold", &["guards", "large_response", "threshold"]),
    ("enable_backpressure", &["guards", "gate", "backpressure"]),
    ("gate_dependencies", &["guards", "gate", "dependencies"]),
];

const LOOP_POLICY: [Pair; 8] = [
    ("turnTimeoutMs", &["budgets", "turn", "timeout"]),
    ("maxTokens", &["budgets", "turn", "tokens"]),
    ("maxTurnsPerNode", &["budgets", "node", "turns"]),
    ("maxRuntimeMsPerNode", &["budgets", "node", "runtime"]),
    ("maxCycleIterations", &["budgets", "loop", "iterations"]),
    ("maxCycleRuntimeMs", &["budgets", "loop", "runtime"]),
    ("maxCycleCost", &["budgets", "loop", "cost_usd"]),
    ("onStall", &["on_stall"]),
];

const LOOP_PREVENTION: [&str; 7] = [
    "enabled",
    "max_visits_default",
    "max_transitions_default",
    "cycle_detection_enabled",
    "cycle_detection_length",
    "trigger_hitl",
    "transition_limits",
];

const PHASE: [&str; 4] = ["name", "max_visits", "allow_cycles", "transitions"];
/// How a phase may end.
const OUTCOMES: [&str; 4] = ["on_success", "on_failure", "on_partial_success", "on_unclear"];
/// A transition that is decided when the phase ends. Who decides, and with which words, is the caller's business; where
/// it may lead is enforced.
const DECISION: [&str; 3] = ["capability", "prompt", "allowed_destinations"];

/// Translates every seed key of a layer.
pub(super) fn translate(c: &mut Canonical<'_>, top: &Map<String, Value>, base: &Policy) {
    if let Some(map) = section(c, top, "resilience") {
        pairs(c, map, "resilience", &RESILIENCE);
    }
    if let Some(map) = section(c, top, "loop_policy") {
        pairs(c, map, "loop_policy", &LOOP_POLICY);
    }
    if let Some(map) = section(c, top, "loop_prevention") {
        loop_prevention(c, map, base);
    }
    if let Some(map) = section(c, top, "transition_limits") {
        transition_limits(c, map, &path(&["transition_limits"]));
    }
    if let Some(value) = top.get("phases") {
        phases(c, value);
    }
}

fn section<'t>(
    c: &mut Canonical<'_>,
    top: &'t Map<String, Value>,
    key: &str,
) -> Option<&'t Map<String, Value>> {
    match top.get(key)? {
        Value::Null => None,
        Value::Object(map) => Some(map),
        other => {
            let what = format!("'{key}' must be a map of keys, not {}", kind(other));
            c.problem(Code::Type, &path(&[key]), &what, "write its keys, each with a value");
            None
        }
    }
}

fn pairs(c: &mut Canonical<'_>, map: &Map<String, Value>, name: &str, pairs: &[Pair]) {
    let known: Vec<&str> = pairs.iter().map(|(key, _)| *key).collect();
    for (key, value) in map {
        let here = path(&[name, key]);
        match pairs.iter().find(|(known, _)| known == key) {
            Some((_, to)) => c.assign(path(to), value.clone(), &here),
            None => c.unknown(&here, &known),
        }
    }
}

fn loop_prevention(c: &mut Canonical<'_>, map: &Map<String, Value>, base: &Policy) {
    let here = |key: &str| path(&["loop_prevention", key]);
    for key in map.keys().filter(|key| !LOOP_PREVENTION.contains(&key.as_str())) {
        c.unknown(&here(key), &LOOP_PREVENTION);
    }
    let enabled = switch(c, map, "enabled");
    let detection = switch(c, map, "cycle_detection_enabled");
    limit(c, map, "max_visits_default", &["guards", "visits", "limit"]);
    limit(c, map, "max_transitions_default", &["guards", "transitions", "limit"]);
    if enabled == Some(false) {
        for guard in ["visits", "transitions"] {
            c.assign(path(&["guards", guard, "mode"]), Value::from("off"), &here("enabled"));
        }
        transition_cycles_off(c, &here("enabled"));
    } else if detection == Some(false) {
        transition_cycles_off(c, &here("cycle_detection_enabled"));
    } else {
        if let Some(length) = map.get("cycle_detection_length") {
            suffix_length(c, length, &here("cycle_detection_length"));
        }
        // It looks at every transition, also of loops that the workflow declares.
        if let Some(key) = ["cycle_detection_enabled", "cycle_detection_length", "enabled"]
            .into_iter()
            .find(|key| map.contains_key(*key))
        {
            c.assign(
                path(&["guards", "cycle", "transitions", "declared_loops"]),
                Value::Bool(true),
                &here(key),
            );
            // Its rule is the recurring suffix alone, for self-transitions as well: a longer one is less sensitive.
            if base.rules_version > RulesVersion::V1 {
                for rule in ["max_period", "self_loop"] {
                    let to = path(&["guards", "cycle", "transitions", rule]);
                    if !c.has(&to) {
                        c.assign(to, Value::from("off"), &here(key));
                    }
                }
            }
        }
    }
    if enabled == Some(true) {
        switch_on(c, map, base);
    }
    if let Some(value) = map.get("trigger_hitl") {
        c.assign(path(&["escalate"]), value.clone(), &here("trigger_hitl"));
    }
    match map.get("transition_limits") {
        Some(Value::Object(limits)) => transition_limits(c, limits, &here("transition_limits")),
        None | Some(Value::Null) => {}
        Some(other) => {
            let what = format!("'transition_limits' must be a map, not {}", kind(other));
            c.problem(Code::Type, &here("transition_limits"), &what, "write \"fix->test\": 8");
        }
    }
}

/// A true or false of `loop_prevention`.
fn switch(c: &mut Canonical<'_>, map: &Map<String, Value>, key: &str) -> Option<bool> {
    let value = map.get(key)?;
    let found = flag(value);
    if found.is_none() {
        let what = format!("'{key}' must be true or false, not {}", kind(value));
        c.problem(Code::Type, &path(&["loop_prevention", key]), &what, "write true or false");
    }
    found
}

fn limit(c: &mut Canonical<'_>, map: &Map<String, Value>, key: &str, to: &[&str]) {
    if let Some(value) = map.get(key) {
        c.at_least_one(path(to), value, &path(&["loop_prevention", key]));
    }
}

/// Only the detector on transitions: the seed's switch knows nothing of tool calls.
fn transition_cycles_off(c: &mut Canonical<'_>, written: &[String]) {
    for key in ["max_period", "suffix_length", "self_loop"] {
        let to = path(&["guards", "cycle", "transitions", key]);
        c.assign(to, Value::from("off"), written);
    }
}

fn suffix_length(c: &mut Canonical<'_>, length: &Value, written: &[String]) {
    if is_off(length) {
        let what = "'cycle_detection_length' is outside 2 to 10";
        let help = "write 2 to 10, or cycle_detection_enabled: false";
        c.problem(Code::Range, written, what, help);
    } else {
        let to = path(&["guards", "cycle", "transitions", "suffix_length"]);
        c.assign(to, length.clone(), written);
    }
}

/// `enabled: true` asks for the protection that the preset may have left out.
fn switch_on(c: &mut Canonical<'_>, map: &Map<String, Value>, base: &Policy) {
    let here = path(&["loop_prevention", "enabled"]);
    let guards = &base.guards;
    let missing = [
        ("visits", "max_visits_default", guards.visits.limit.is_none(), Visits::default().limit),
        (
            "transitions",
            "max_transitions_default",
            guards.transitions.limit.is_none(),
            Transitions::default().limit,
        ),
    ];
    for (guard, key, absent, default) in missing {
        let to = path(&["guards", guard, "limit"]);
        if absent && !map.contains_key(key) && !c.has(&to) {
            c.assign(to, default.map_or(Value::Null, Value::from), &here);
        }
    }
    let off = [
        ("visits", guards.visits.mode),
        ("transitions", guards.transitions.mode),
        ("cycle", guards.cycle.mode),
    ];
    for (guard, mode) in off {
        let to = path(&["guards", guard, "mode"]);
        if mode == Mode::Off && !c.has(&to) {
            c.assign(to, Value::from("staged"), &here);
        }
    }
}

fn transition_limits(c: &mut Canonical<'_>, map: &Map<String, Value>, here: &Path) {
    for (edge, value) in map {
        let written = with(here, edge);
        c.edge_limit(edge, value, &written);
    }
}

fn phases(c: &mut Canonical<'_>, value: &Value) {
    let phases = match value {
        Value::Null => return,
        Value::Array(phases) => phases,
        other => {
            let what = format!("'phases' must be a list, not {}", kind(other));
            c.problem(Code::Type, &path(&["phases"]), &what, "write - {name: test, max_visits: 5}");
            return;
        }
    };
    for (index, phase) in phases.iter().enumerate() {
        let here = path(&["phases", &index.to_string()]);
        let name = phase.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let (Value::Object(map), Some(name)) = (phase, name) else {
            c.problem(Code::Type, &here, "a phase needs a name", "write - {name: test, max_visits: 5}");
            continue;
        };
        for key in map.keys().filter(|key| !PHASE.contains(&key.as_str())) {
            c.unknown(&with(&here, key), &PHASE);
        }
        let own = map
            .iter()
            .filter(|(key, _)| *key == "max_visits" || *key == "allow_cycles")
            .map(|(key, value)| (key.clone(), value.clone()));
        c.node(name, &Value::Object(own.collect()), &here);
        if let Some(transitions) = map.get("transitions") {
            let here = with(&here, "transitions");
            let destinations = transition_targets(c, transitions, &here);
            if let Some(destinations) = destinations {
                c.assign(path(&["nodes", name, "allowed_destinations"]), Value::from(destinations), &here);
            }
        }
    }
}

/// Every destination that the transitions of a phase name, each once, in their order.
fn transition_targets(c: &mut Canonical<'_>, value: &Value, here: &Path) -> Option<Vec<String>> {
    let outcomes = match value {
        Value::Null => return None,
        Value::Object(outcomes) => outcomes,
        other => {
            let what = format!("'transitions' must be a map of outcomes, not {}", kind(other));
            c.problem(Code::Type, here, &what, "write transitions: {on_success: deploy, on_failure: fix}");
            return None;
        }
    };
    for outcome in outcomes.keys().filter(|outcome| !OUTCOMES.contains(&outcome.as_str())) {
        c.unknown(&with(here, outcome), &OUTCOMES);
    }
    let mut all: Vec<String> = Vec::new();
    for (outcome, value) in OUTCOMES.iter().filter_map(|outcome| Some((outcome, outcomes.get(*outcome)?))) {
        for name in outcome_targets(c, value, &with(here, outcome)) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    Some(all)
}

/// Where one outcome of a phase may lead.
fn outcome_targets(c: &mut Canonical<'_>, value: &Value, here: &Path) -> Vec<String> {
    let named =
        |value: &Value| value.as_str().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let decision = match value {
        Value::Null => return Vec::new(),
        Value::Object(decision) => decision,
        other => {
            let name = named(other);
            if name.is_none() {
                let what = format!("a transition must be a phase or a decision, not {}", kind(other));
                c.problem(Code::Type, here, &what, DECISION_HELP);
            }
            return name.into_iter().collect();
        }
    };
    for (key, value) in decision {
        let here = with(here, key);
        if !DECISION.contains(&key.as_str()) {
            c.unknown(&here, &DECISION);
        } else if key != "allowed_destinations" && !value.is_string() && !value.is_null() {
            let what = format!("'{key}' must be a text, not {}", kind(value));
            c.problem(Code::Type, &here, &what, "write a text");
        }
    }
    let listed = decision.get("allowed_destinations").and_then(Value::as_array);
    let names: Option<Vec<String>> =
        listed.filter(|list| !list.is_empty()).and_then(|list| list.iter().map(named).collect());
    if names.is_none() {
        c.problem(Code::Type, here, "a decision needs a list of allowed destinations", DECISION_HELP);
    }
    names.unwrap_or_default()
}

const DECISION_HELP: &str = "write a phase such as deploy, or {allowed_destinations: [deploy, fix]}";

#[cfg(test)]
#[path = "seeds_tests.rs"]
mod tests;
