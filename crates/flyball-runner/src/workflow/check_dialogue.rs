//! Validates `collect` nodes and `texts`: slots that cannot be filled and unknown text keys.

use super::node::NodeKind;
use super::parse::WorkflowSource;
use super::spec::{CollectNode, LocalizedText};
use super::{WorkflowPlan, check_graph};
use crate::dialogue::{SlotMatcher, known_text_keys};
use crate::run_error::RunError;
use flyball::policy::{PolicyLayer, ValueOrigin};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Collects all errors in `texts` and `collect` nodes.
pub(super) fn check_dialogues(source: &WorkflowSource<'_>, plan: &WorkflowPlan, wrong: &mut Vec<RunError>) {
    for key in plan.texts.keys().filter(|key| !is_known_text_key(key)) {
        let what = format!("unknown text key `{key}`");
        let advice = format!("known keys: {}; each may end in .en, .ru or .es", known_text_keys().join(", "));
        wrong.push(source.error(&["texts", key], "workflow_unknown_text", what, &advice));
    }
    for node in plan.nodes.values() {
        if let NodeKind::Collect(collect) = &node.kind {
            check_slots(source, &node.name, collect, wrong);
        }
    }
}

fn is_known_text_key(key: &str) -> bool {
    let plain = [".en", ".ru", ".es"].iter().find_map(|end| key.strip_suffix(end)).unwrap_or(key);
    known_text_keys().contains(&plain)
}

fn check_slots(source: &WorkflowSource<'_>, node: &str, collect: &CollectNode, wrong: &mut Vec<RunError>) {
    let at = check_graph::node_position(source, node);
    let mut report = |key: &[&str], code: &str, what: String, advice: &str| {
        let mut path = vec!["nodes", at.as_str()];
        path.extend(key);
        wrong.push(source.error(&path, code, what, advice));
    };
    if collect.slots.is_empty() {
        let what = format!("node '{node}' has no slots");
        report(&["slots"], "workflow_no_slots", what, "write slots: [{name: …, ask: …}]");
    }
    let mut seen = BTreeSet::new();
    for (number, slot) in collect.slots.iter().enumerate() {
        let number = number.to_string();
        if !seen.insert(&slot.name) {
            let what = format!("node '{node}' defines slot '{}' twice", slot.name);
            report(&["slots", &number], "workflow_duplicate_slot", what, "rename one of the two");
        }
        if let Err(failure) = SlotMatcher::new(slot) {
            report(&["slots", &number, "pattern"], &failure.code, failure.message, &failure.help);
        }
        let spoken = [Some(&slot.ask), slot.invalid.as_ref(), slot.label.as_ref()];
        if spoken.into_iter().flatten().any(has_no_text) {
            let what = format!("slot '{}' of node '{node}' has an empty text", slot.name);
            report(
                &["slots", &number],
                "workflow_missing_text",
                what,
                "write a string, or {en: …, ru: …, es: …}",
            );
        }
    }
    if collect.max_turns_without_progress.is_some_and(|most| !(2..=1_000_000).contains(&most)) {
        let what = format!("`max_turns_without_progress` of node '{node}' must be between 2 and 1000000");
        let advice = "a single message without progress is normal, so the minimum is 2";
        report(&["max_turns_without_progress"], "workflow_wrong_type", what, advice);
    }
}

fn has_no_text(words: &LocalizedText) -> bool {
    match words {
        LocalizedText::Single(text) => text.trim().is_empty(),
        LocalizedText::ByLanguage(by) => [&by.en, &by.ru, &by.es].iter().all(|text| text.is_none()),
    }
}

/// Adds the workflow's `confirm.*` texts to its policy, so that the governor uses them too. Texts set in the policy
/// itself take precedence.
pub(super) fn with_texts(
    policy: Option<PolicyLayer>,
    texts: &BTreeMap<String, String>,
    file: &str,
) -> Option<PolicyLayer> {
    let spoken = texts.iter().filter(|(key, _)| key.starts_with("confirm.") && is_known_text_key(key));
    let spoken: Map<String, Value> = spoken.map(|(key, text)| (key.clone(), json!(text))).collect();
    if spoken.is_empty() {
        return policy;
    }
    let mut layer = policy.unwrap_or_else(|| {
        PolicyLayer::from_value(ValueOrigin::Workflow { name: file.to_owned() }, Value::Null)
    });
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
