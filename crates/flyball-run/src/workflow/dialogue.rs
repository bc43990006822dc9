//! What is wrong with the conversations of a plan: slots that cannot be filled, words that nobody says.

use super::node::Work;
use super::read::Source;
use super::spec::{Collect, Words};
use super::{Plan, check};
use crate::dialogue::{Form, known_keys};
use crate::fail::Failure;
use flyball::policy::{Layer, Origin};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that is wrong with them.
pub(super) fn all(source: &Source<'_>, plan: &Plan, wrong: &mut Vec<Failure>) {
    for key in plan.texts.keys().filter(|key| !is_known(key)) {
        let what = format!("`{key}` is not a text that is said anywhere");
        let advice = format!("there are {}; each may end in .en, .ru or .es", known_keys().join(", "));
        wrong.push(source.wrong(&["texts", key], "workflow_unknown_text", what, &advice));
    }
    for node in plan.nodes.values() {
        if let Work::Collect(collect) = &node.work {
            slots(source, &node.name, collect, wrong);
        }
    }
}

fn is_known(key: &str) -> bool {
    let plain = [".en", ".ru", ".es"].iter().find_map(|end| key.strip_suffix(end)).unwrap_or(key);
    known_keys().contains(&plain)
}

fn slots(source: &Source<'_>, node: &str, collect: &Collect, wrong: &mut Vec<Failure>) {
    let at = check::position(source, node);
    let mut tell = |key: &[&str], code: &str, what: String, advice: &str| {
        let mut path = vec!["nodes", at.as_str()];
        path.extend(key);
        wrong.push(source.wrong(&path, code, what, advice));
    };
    if collect.slots.is_empty() {
        let what = format!("node '{node}' has nothing to find out");
        tell(&["slots"], "workflow_no_slots", what, "write slots: [{name: …, ask: …}]");
    }
    let mut seen = BTreeSet::new();
    for (number, slot) in collect.slots.iter().enumerate() {
        let number = number.to_string();
        if !seen.insert(&slot.name) {
            let what = format!("slot '{}' of node '{node}' is there twice", slot.name);
            tell(&["slots", &number], "workflow_duplicate_slot", what, "rename one of the two");
        }
        if let Err(failure) = Form::new(slot) {
            tell(&["slots", &number, "pattern"], &failure.code, failure.what, &failure.advice);
        }
        let spoken = [Some(&slot.ask), slot.invalid.as_ref(), slot.label.as_ref()];
        if spoken.into_iter().flatten().any(is_silent) {
            let what = format!("slot '{}' of node '{node}' has words in no language", slot.name);
            tell(&["slots", &number], "workflow_no_words", what, "write a text, or {en: …, ru: …, es: …}");
        }
    }
    if collect.max_turns_without_progress.is_some_and(|most| !(2..=1_000_000).contains(&most)) {
        let what = format!("`max_turns_without_progress` of node '{node}' is not from 2 to 1000000");
        let advice = "one message without progress is no sign of anything";
        tell(&["max_turns_without_progress"], "workflow_wrong_type", what, advice);
    }
}

fn is_silent(words: &Words) -> bool {
    match words {
        Words::Same(text) => text.trim().is_empty(),
        Words::ByLanguage(by) => [&by.en, &by.ru, &by.es].iter().all(|text| text.is_none()),
    }
}

/// The workflow's policy with the workflow's own words in it, so that the governor says them too. What the policy says
/// itself stays.
pub(super) fn with_texts(
    policy: Option<Layer>,
    texts: &BTreeMap<String, String>,
    file: &str,
) -> Option<Layer> {
    let spoken = texts.iter().filter(|(key, _)| key.starts_with("confirm.") && is_known(key));
    let spoken: Map<String, Value> = spoken.map(|(key, text)| (key.clone(), json!(text))).collect();
    if spoken.is_empty() {
        return policy;
    }
    let mut layer =
        policy.unwrap_or_else(|| Layer::from_value(Origin::Workflow { name: file.to_owned() }, Value::Null));
    let mut at = &mut layer.tree;
    for key in ["guards", "confirmation", "texts"] {
        let Value::Object(map) = at else { return Some(layer) };
        at = map.entry(key).or_insert_with(|| json!({}));
    }
    if let Value::Object(map) = at {
        for (key, text) in spoken {
            map.entry(key).or_insert(text);
        }
    }
    Some(layer)
}
