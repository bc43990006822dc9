//! Values that earlier versions accepted but that never had an effect. A policy read today reports them as errors. In a
//! stored policy they are removed, so that its sessions stay readable and give the same decisions.

use super::GuardPolicies;
use serde_json::{Map, Value};

/// The guards that apply per node, edge and tool; parts of a guard follow a dot.
const SCOPED_GUARDS: [(&str, &[&str]); 3] = [
    (
        "nodes",
        &[
            "repetition",
            "cycle.mode",
            "cycle.calls",
            "cycle.outputs",
            "cycle.blocks",
            "recurrence",
            "visits",
            "stall",
            "oscillation",
            "error_streak",
            "validation",
            "retry",
            "gate",
            "confirmation",
            "question",
            "denial",
            "monologue",
        ],
    ),
    ("edges", &["cycle.mode", "cycle.transitions", "transitions"]),
    (
        "tools",
        &[
            "repetition",
            "cycle.mode",
            "cycle.calls",
            "cycle.blocks",
            "recurrence",
            "error_streak",
            "confirmation.mode",
            "denial",
        ],
    ),
];

/// Numbers above what a guard keeps, with the maximum that had an effect.
const MAX_EFFECTIVE_VALUES: [(&str, &str, u64); 4] = [
    ("recurrence", "window", 64),
    ("error_streak", "window", 64),
    ("denial", "of", 64),
    ("oscillation", "repeats", 4),
];

/// Removes ineffective values from a stored policy.
pub(crate) fn remove_ineffective_keys(tree: &mut Value) {
    if let Some(guards) = tree.get_mut("guards").and_then(Value::as_object_mut) {
        clamp_numbers(guards);
    }
    for (section, kept) in SCOPED_GUARDS {
        let entries = tree.get_mut(section).and_then(Value::as_object_mut);
        for entry in entries.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
            clamp_numbers(entry);
            entry.retain(|guard, value| {
                !GuardPolicies::NAMES.contains(&guard.as_str()) || retain_keys(guard, value, kept)
            });
        }
    }
}

/// Removes ineffective keys of a guard, and returns whether the rest has an effect.
fn retain_keys(guard: &str, value: &mut Value, kept: &[&str]) -> bool {
    if kept.contains(&guard) {
        return true;
    }
    match value {
        Value::Object(parts) => {
            parts.retain(|part, _| kept.contains(&format!("{guard}.{part}").as_str()));
            !parts.is_empty()
        }
        _ => kept.contains(&format!("{guard}.mode").as_str()),
    }
}

fn clamp_numbers(guards: &mut Map<String, Value>) {
    for (guard, key, most) in MAX_EFFECTIVE_VALUES {
        let value = guards.get_mut(guard).and_then(|guard| guard.get_mut(key));
        if let Some(value) = value.filter(|value| value.as_u64().is_some_and(|number| number > most)) {
            *value = most.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PolicyLayer, Preset, ValueOrigin, resolve};
    use super::remove_ineffective_keys;
    use serde_json::{Value, json};

    /// The rest of a policy after removing ineffective values.
    fn remaining(mut tree: Value) -> Value {
        remove_ineffective_keys(&mut tree);
        let layer = PolicyLayer::from_value(ValueOrigin::Inline, tree.clone());
        resolve(&[layer], Preset::Agent).unwrap();
        tree
    }

    #[test]
    fn stored_policies_lose_only_ineffective_keys() {
        let written = json!({
            "nodes": {"a": {"max_visits": 2, "transitions": {"limit": 3}, "cycle": {"transitions": "off", "calls": "off"}, "stall": "off"}},
            "edges": {"a->b": {"max_transitions": 2, "stall": "off", "cycle": {"calls": "off"}, "visits": {"limit": 2}}},
            "tools": {"x": {"effect": "read", "visits": "off", "confirmation": {"mode": "off", "ttl": "1h"}, "cycle": "off"}},
            "guards": {"recurrence": {"window": 500}, "denial": {"of": 10}, "oscillation": {"repeats": 9}},
        });
        let expected = json!({
            "nodes": {"a": {"max_visits": 2, "cycle": {"calls": "off"}, "stall": "off"}},
            "edges": {"a->b": {"max_transitions": 2}},
            "tools": {"x": {"effect": "read", "confirmation": {"mode": "off"}, "cycle": "off"}},
            "guards": {"recurrence": {"window": 64}, "denial": {"of": 10}, "oscillation": {"repeats": 4}},
        });
        assert_eq!(remaining(written.clone()), expected);
        let layer = PolicyLayer::from_value(ValueOrigin::Inline, written);
        let errors = resolve(&[layer], Preset::Agent).unwrap_err();
        let all: Vec<String> = errors.iter().map(|error| error.path.clone()).collect();
        assert_eq!(errors.iter().count(), 9, "{all:?}");
    }
}
