//! Values that earlier versions accepted and that never had an effect. They are errors in a policy that is read today; in
//! a stored one they are left out, so that the sessions decided under it stay readable and decide as before.

use super::guards::Guards;
use serde_json::{Map, Value};

/// The guards that look at single nodes, edges and tools; parts of a guard after a dot.
const SCOPED: [(&str, &[&str]); 3] = [
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

/// Numbers beyond what a guard keeps, with the most that had an effect.
const MOST: [(&str, &str, u64); 4] = [
    ("recurrence", "window", 64),
    ("error_streak", "window", 64),
    ("denial", "of", 64),
    ("oscillation", "repeats", 4),
];

/// Leaves out of a stored policy what never had an effect.
pub(crate) fn forget_without_effect(tree: &mut Value) {
    if let Some(guards) = tree.get_mut("guards").and_then(Value::as_object_mut) {
        limit(guards);
    }
    for (section, kept) in SCOPED {
        let entries = tree.get_mut(section).and_then(Value::as_object_mut);
        for entry in entries.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
            limit(entry);
            entry.retain(|guard, value| !Guards::NAMES.contains(&guard.as_str()) || keep(guard, value, kept));
        }
    }
}

/// Whether a guard, or what is left of it, has an effect.
fn keep(guard: &str, value: &mut Value, kept: &[&str]) -> bool {
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

fn limit(guards: &mut Map<String, Value>) {
    for (guard, key, most) in MOST {
        let value = guards.get_mut(guard).and_then(|guard| guard.get_mut(key));
        if let Some(value) = value.filter(|value| value.as_u64().is_some_and(|number| number > most)) {
            *value = most.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Layer, Origin, Preset, resolve};
    use super::forget_without_effect;
    use serde_json::{Value, json};

    /// A policy as it was accepted, and what is left of it.
    fn left(mut tree: Value) -> Value {
        forget_without_effect(&mut tree);
        let layer = Layer::from_value(Origin::Inline, tree.clone());
        resolve(&[layer], Preset::Agent).unwrap();
        tree
    }

    #[test]
    fn stored_policies_lose_what_never_had_an_effect_and_nothing_else() {
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
        assert_eq!(left(written.clone()), expected);
        let layer = Layer::from_value(Origin::Inline, written);
        let errors = resolve(&[layer], Preset::Agent).unwrap_err();
        let all: Vec<String> = errors.iter().map(|error| error.path.clone()).collect();
        assert_eq!(errors.iter().count(), 9, "{all:?}");
    }
}
