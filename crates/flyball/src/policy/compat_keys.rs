//! Translates compatibility keys of other systems. `loop_prevention`, `phases`, `transition_limits`, `resilience` and
//! `loop_policy` may appear alone or alongside Flyball's own keys.

use serde_json::{Map, Value};

use super::canonical_layer::CanonicalLayer;
use super::paths::{KeyPath, child_path, key_path};
use super::policy_error::PolicyErrorCode;
use super::units::is_off;
use super::values::{describe_value, parse_flag};
use super::{GuardMode, Policy};
use super::{TransitionsPolicy, VisitsPolicy};
use crate::rules_version::RulesVersion;

/// A compatibility key and its canonical path.
type KeyMapping = (&'static str, &'static [&'static str]);

const RESILIENCE_KEYS: [KeyMapping; 6] = [
    ("max_runtime", &["budgets", "session", "runtime"]),
    ("max_consecutive_repetitions", &["guards", "repetition", "limit"]),
    ("max_consecutive_validation_failures", &["guards", "validation", "limit"]),
    ("large_response_threshold", &["guards", "large_response", "threshold"]),
    ("enable_backpressure", &["guards", "gate", "backpressure"]),
    ("gate_dependencies", &["guards", "gate", "dependencies"]),
];

const LOOP_POLICY_KEYS: [KeyMapping; 8] = [
    ("turnTimeoutMs", &["budgets", "turn", "timeout"]),
    ("maxTokens", &["budgets", "turn", "tokens"]),
    ("maxTurnsPerNode", &["budgets", "node", "turns"]),
    ("maxRuntimeMsPerNode", &["budgets", "node", "runtime"]),
    ("maxCycleIterations", &["budgets", "loop", "iterations"]),
    ("maxCycleRuntimeMs", &["budgets", "loop", "runtime"]),
    ("maxCycleCost", &["budgets", "loop", "cost_usd"]),
    ("onStall", &["on_stall"]),
];

const LOOP_PREVENTION_KEYS: [&str; 7] = [
    "enabled",
    "max_visits_default",
    "max_transitions_default",
    "cycle_detection_enabled",
    "cycle_detection_length",
    "trigger_hitl",
    "transition_limits",
];

const PHASE_KEYS: [&str; 4] = ["name", "max_visits", "allow_cycles", "transitions"];
/// The possible outcomes of a phase.
const PHASE_OUTCOMES: [&str; 4] = ["on_success", "on_failure", "on_partial_success", "on_unclear"];
/// Keys of a transition that is decided when the phase ends. Who decides, and how, is up to the caller; only the
/// destinations are enforced.
const DECISION_KEYS: [&str; 3] = ["capability", "prompt", "allowed_destinations"];

/// Translates every compatibility key of a layer.
pub(super) fn translate(c: &mut CanonicalLayer<'_>, top: &Map<String, Value>, base: &Policy) {
    if let Some(map) = compat_section(c, top, "resilience") {
        translate_keys(c, map, "resilience", &RESILIENCE_KEYS);
    }
    if let Some(map) = compat_section(c, top, "loop_policy") {
        translate_keys(c, map, "loop_policy", &LOOP_POLICY_KEYS);
    }
    if let Some(map) = compat_section(c, top, "loop_prevention") {
        translate_loop_prevention(c, map, base);
    }
    if let Some(map) = compat_section(c, top, "transition_limits") {
        translate_transition_limits(c, map, &key_path(&["transition_limits"]));
    }
    if let Some(value) = top.get("phases") {
        translate_phases(c, value);
    }
}

fn compat_section<'t>(
    c: &mut CanonicalLayer<'_>,
    top: &'t Map<String, Value>,
    key: &str,
) -> Option<&'t Map<String, Value>> {
    match top.get(key)? {
        Value::Null => None,
        Value::Object(map) => Some(map),
        other => {
            let what = format!("'{key}' must be a map of keys, not {}", describe_value(other));
            c.add_problem(PolicyErrorCode::Type, &key_path(&[key]), &what, "write a map of keys and values");
            None
        }
    }
}

fn translate_keys(c: &mut CanonicalLayer<'_>, map: &Map<String, Value>, name: &str, pairs: &[KeyMapping]) {
    let known: Vec<&str> = pairs.iter().map(|(key, _)| *key).collect();
    for (key, value) in map {
        let here = key_path(&[name, key]);
        match pairs.iter().find(|(known, _)| known == key) {
            Some((_, to)) => c.assign(key_path(to), value.clone(), &here),
            None => c.add_unknown_key(&here, &known),
        }
    }
}

fn translate_loop_prevention(c: &mut CanonicalLayer<'_>, map: &Map<String, Value>, base: &Policy) {
    let here = |key: &str| key_path(&["loop_prevention", key]);
    for key in map.keys().filter(|key| !LOOP_PREVENTION_KEYS.contains(&key.as_str())) {
        c.add_unknown_key(&here(key), &LOOP_PREVENTION_KEYS);
    }
    let enabled = read_switch(c, map, "enabled");
    let detection = read_switch(c, map, "cycle_detection_enabled");
    read_limit(c, map, "max_visits_default", &["guards", "visits", "limit"]);
    read_limit(c, map, "max_transitions_default", &["guards", "transitions", "limit"]);
    if enabled == Some(false) {
        for guard in ["visits", "transitions"] {
            c.assign(key_path(&["guards", guard, "mode"]), Value::from("off"), &here("enabled"));
        }
        disable_transition_cycles(c, &here("enabled"));
    } else if detection == Some(false) {
        disable_transition_cycles(c, &here("cycle_detection_enabled"));
    } else {
        if let Some(length) = map.get("cycle_detection_length") {
            translate_suffix_length(c, length, &here("cycle_detection_length"));
        }
        // It considers every transition, including those of loops that the workflow declares.
        if let Some(key) = ["cycle_detection_enabled", "cycle_detection_length", "enabled"]
            .into_iter()
            .find(|key| map.contains_key(*key))
        {
            c.assign(
                key_path(&["guards", "cycle", "transitions", "declared_loops"]),
                Value::Bool(true),
                &here(key),
            );
            // Only the recurring suffix counts, also for self-transitions. A longer suffix is less sensitive.
            if base.rules_version > RulesVersion::V1 {
                for rule in ["max_period", "self_loop"] {
                    let to = key_path(&["guards", "cycle", "transitions", rule]);
                    if !c.has_value(&to) {
                        c.assign(to, Value::from("off"), &here(key));
                    }
                }
            }
        }
    }
    if enabled == Some(true) {
        enable_missing_guards(c, map, base);
    }
    if let Some(value) = map.get("trigger_hitl") {
        c.assign(key_path(&["escalate"]), value.clone(), &here("trigger_hitl"));
    }
    match map.get("transition_limits") {
        Some(Value::Object(limits)) => translate_transition_limits(c, limits, &here("transition_limits")),
        None | Some(Value::Null) => {}
        Some(other) => {
            let what = format!("'transition_limits' must be a map, not {}", describe_value(other));
            c.add_problem(PolicyErrorCode::Type, &here("transition_limits"), &what, "write \"fix->test\": 8");
        }
    }
}

/// Reads a boolean of `loop_prevention`.
fn read_switch(c: &mut CanonicalLayer<'_>, map: &Map<String, Value>, key: &str) -> Option<bool> {
    let value = map.get(key)?;
    let found = parse_flag(value);
    if found.is_none() {
        let what = format!("'{key}' must be true or false, not {}", describe_value(value));
        c.add_problem(
            PolicyErrorCode::Type,
            &key_path(&["loop_prevention", key]),
            &what,
            "write true or false",
        );
    }
    found
}

fn read_limit(c: &mut CanonicalLayer<'_>, map: &Map<String, Value>, key: &str, to: &[&str]) {
    if let Some(value) = map.get(key) {
        c.at_least_one(key_path(to), value, &key_path(&["loop_prevention", key]));
    }
}

/// Disables only the transition detector; this switch does not affect tool calls.
fn disable_transition_cycles(c: &mut CanonicalLayer<'_>, written: &[String]) {
    for key in ["max_period", "suffix_length", "self_loop"] {
        let to = key_path(&["guards", "cycle", "transitions", key]);
        c.assign(to, Value::from("off"), written);
    }
}

fn translate_suffix_length(c: &mut CanonicalLayer<'_>, length: &Value, written: &[String]) {
    if is_off(length) {
        let what = "'cycle_detection_length' must be between 2 and 10";
        let help = "write 2 to 10, or cycle_detection_enabled: false";
        c.add_problem(PolicyErrorCode::Range, written, what, help);
    } else {
        let to = key_path(&["guards", "cycle", "transitions", "suffix_length"]);
        c.assign(to, length.clone(), written);
    }
}

/// `enabled: true` turns on the guards that the preset may have left off.
fn enable_missing_guards(c: &mut CanonicalLayer<'_>, map: &Map<String, Value>, base: &Policy) {
    let here = key_path(&["loop_prevention", "enabled"]);
    let guards = &base.guards;
    let missing = [
        ("visits", "max_visits_default", guards.visits.limit.is_none(), VisitsPolicy::default().limit),
        (
            "transitions",
            "max_transitions_default",
            guards.transitions.limit.is_none(),
            TransitionsPolicy::default().limit,
        ),
    ];
    for (guard, key, absent, default) in missing {
        let to = key_path(&["guards", guard, "limit"]);
        if absent && !map.contains_key(key) && !c.has_value(&to) {
            c.assign(to, default.map_or(Value::Null, Value::from), &here);
        }
    }
    let off = [
        ("visits", guards.visits.mode),
        ("transitions", guards.transitions.mode),
        ("cycle", guards.cycle.mode),
    ];
    for (guard, mode) in off {
        let to = key_path(&["guards", guard, "mode"]);
        if mode == GuardMode::Off && !c.has_value(&to) {
            c.assign(to, Value::from("staged"), &here);
        }
    }
}

fn translate_transition_limits(c: &mut CanonicalLayer<'_>, map: &Map<String, Value>, here: &KeyPath) {
    for (edge, value) in map {
        let written = child_path(here, edge);
        c.edge_limit(edge, value, &written);
    }
}

fn translate_phases(c: &mut CanonicalLayer<'_>, value: &Value) {
    let phases = match value {
        Value::Null => return,
        Value::Array(phases) => phases,
        other => {
            let what = format!("'phases' must be a list, not {}", describe_value(other));
            c.add_problem(
                PolicyErrorCode::Type,
                &key_path(&["phases"]),
                &what,
                "write - {name: test, max_visits: 5}",
            );
            return;
        }
    };
    for (index, phase) in phases.iter().enumerate() {
        let here = key_path(&["phases", &index.to_string()]);
        let name = phase.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let (Value::Object(map), Some(name)) = (phase, name) else {
            c.add_problem(
                PolicyErrorCode::Type,
                &here,
                "a phase requires a name",
                "write - {name: test, max_visits: 5}",
            );
            continue;
        };
        for key in map.keys().filter(|key| !PHASE_KEYS.contains(&key.as_str())) {
            c.add_unknown_key(&child_path(&here, key), &PHASE_KEYS);
        }
        let own = map
            .iter()
            .filter(|(key, _)| *key == "max_visits" || *key == "allow_cycles")
            .map(|(key, value)| (key.clone(), value.clone()));
        c.node(name, &Value::Object(own.collect()), &here);
        if let Some(transitions) = map.get("transitions") {
            let here = child_path(&here, "transitions");
            let destinations = transition_targets(c, transitions, &here);
            if let Some(destinations) = destinations {
                c.assign(
                    key_path(&["nodes", name, "allowed_destinations"]),
                    Value::from(destinations),
                    &here,
                );
            }
        }
    }
}

/// All destinations named by the transitions of a phase, without duplicates, in order.
fn transition_targets(c: &mut CanonicalLayer<'_>, value: &Value, here: &KeyPath) -> Option<Vec<String>> {
    let outcomes = match value {
        Value::Null => return None,
        Value::Object(outcomes) => outcomes,
        other => {
            let what = format!("'transitions' must be a map of outcomes, not {}", describe_value(other));
            c.add_problem(
                PolicyErrorCode::Type,
                here,
                &what,
                "write transitions: {on_success: deploy, on_failure: fix}",
            );
            return None;
        }
    };
    for outcome in outcomes.keys().filter(|outcome| !PHASE_OUTCOMES.contains(&outcome.as_str())) {
        c.add_unknown_key(&child_path(here, outcome), &PHASE_OUTCOMES);
    }
    let mut all: Vec<String> = Vec::new();
    for (outcome, value) in
        PHASE_OUTCOMES.iter().filter_map(|outcome| Some((outcome, outcomes.get(*outcome)?)))
    {
        for name in outcome_targets(c, value, &child_path(here, outcome)) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    Some(all)
}

/// The destinations of one outcome of a phase.
fn outcome_targets(c: &mut CanonicalLayer<'_>, value: &Value, here: &KeyPath) -> Vec<String> {
    let named =
        |value: &Value| value.as_str().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let decision = match value {
        Value::Null => return Vec::new(),
        Value::Object(decision) => decision,
        other => {
            let name = named(other);
            if name.is_none() {
                let what =
                    format!("a transition must be a phase or a decision, not {}", describe_value(other));
                c.add_problem(PolicyErrorCode::Type, here, &what, DECISION_HELP);
            }
            return name.into_iter().collect();
        }
    };
    for (key, value) in decision {
        let here = child_path(here, key);
        if !DECISION_KEYS.contains(&key.as_str()) {
            c.add_unknown_key(&here, &DECISION_KEYS);
        } else if key != "allowed_destinations" && !value.is_string() && !value.is_null() {
            let what = format!("'{key}' must be a string, not {}", describe_value(value));
            c.add_problem(PolicyErrorCode::Type, &here, &what, "write a string");
        }
    }
    let listed = decision.get("allowed_destinations").and_then(Value::as_array);
    let names: Option<Vec<String>> =
        listed.filter(|list| !list.is_empty()).and_then(|list| list.iter().map(named).collect());
    if names.is_none() {
        c.add_problem(
            PolicyErrorCode::Type,
            here,
            "a decision requires a list of allowed destinations",
            DECISION_HELP,
        );
    }
    names.unwrap_or_default()
}

const DECISION_HELP: &str = "write a phase such as deploy, or {allowed_destinations: [deploy, fix]}";

#[cfg(test)]
#[path = "compat_keys_tests.rs"]
mod tests;
