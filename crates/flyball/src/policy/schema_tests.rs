//! Tests that the schema and the parser have the same keys.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{GuardPolicies, PolicyFormat, PolicyLayer, Preset, ValueOrigin, parse, resolve};
use super::json_schema;
use crate::units::parse_duration_ms;

fn schema() -> Value {
    serde_json::from_str(&json_schema()).unwrap()
}

/// The keys of a schema definition, following references.
fn schema_keys(schema: &Value, definition: &str) -> BTreeSet<String> {
    let at = if definition.is_empty() { schema } else { &schema["$defs"][definition] };
    let map = at["properties"].as_object().unwrap_or_else(|| panic!("{definition}"));
    assert_eq!(at["additionalProperties"], Value::Bool(false), "{definition}");
    map.keys().cloned().collect()
}

fn object_keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn schema_keys_match_the_keys_the_reader_accepts() {
    let schema = schema();
    let written =
        r#"{"guards": {"retry": {"operations": {"x": {}}}, "confirmation": {"texts": {"a": "b"}}}}"#;
    let layer = PolicyLayer::from_value(ValueOrigin::Inline, serde_json::from_str(written).unwrap());
    let effective = resolve(&[layer], Preset::Workflow).unwrap().effective;
    assert_eq!(
        schema_keys(&schema, ""),
        super::super::canonical_layer::TOP_LEVEL_KEYS.map(str::to_owned).into()
    );
    assert_eq!(
        schema_keys(&schema, "GuardsFile"),
        GuardPolicies::NAMES.iter().map(|name| (*name).to_owned()).collect()
    );
    for (definition, path) in [
        ("BudgetsFile", "/budgets"),
        ("SessionFile", "/budgets/session"),
        ("TurnFile", "/budgets/turn"),
        ("NodeBudgetFile", "/budgets/node"),
        ("LoopFile", "/budgets/loop"),
        ("MessageFile", "/budgets/message"),
        ("ReleasesFile", "/releases"),
        ("LabelsFile", "/labels"),
        ("JournalFile", "/journal"),
        ("LabelSyncFile", "/journal/labels"),
        ("RepetitionFile", "/guards/repetition"),
        ("CycleFile", "/guards/cycle"),
        ("PeriodsFile", "/guards/cycle/calls"),
        ("TransitionCyclesFile", "/guards/cycle/transitions"),
        ("RecurrenceFile", "/guards/recurrence"),
        ("DeclaredWorkflowFile", "/guards/workflow"),
        ("VisitsFile", "/guards/visits"),
        ("TransitionsFile", "/guards/transitions"),
        ("StallFile", "/guards/stall"),
        ("OscillationFile", "/guards/oscillation"),
        ("ErrorStreakFile", "/guards/error_streak"),
        ("ValidationFile", "/guards/validation"),
        ("RetryFile", "/guards/retry"),
        ("GateFile", "/guards/gate"),
        ("ConfirmationFile", "/guards/confirmation"),
        ("QuestionFile", "/guards/question"),
        ("DenialFile", "/guards/denial"),
        ("MonologueFile", "/guards/monologue"),
        ("LargeResponseFile", "/guards/large_response"),
    ] {
        assert_eq!(
            schema_keys(&schema, definition),
            object_keys(effective.pointer(path).unwrap()),
            "{definition}"
        );
    }
}

#[test]
fn every_schema_key_is_described_and_accepted() {
    let schema = schema();
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        for (key, property) in definition["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{name}.{key}");
        }
    }
    for (section, definition) in [
        ("loop_prevention", "LoopPreventionFile"),
        ("resilience", "ResilienceFile"),
        ("loop_policy", "LoopPolicyFile"),
        ("nodes: {n", "NodeFile"),
        ("edges: {a->b", "EdgeFile"),
        ("tools: {t", "ToolFile"),
    ] {
        for key in schema_keys(&schema, definition) {
            let end = if section.contains('{') { "}" } else { "" };
            let text = format!("{section}: {{{key}: ~}}{end}");
            let layer = parse(&text, PolicyFormat::Yaml, "f").unwrap();
            if let Err(errors) = resolve(&[layer], Preset::Workflow) {
                assert!(
                    errors.iter().all(|e| e.code != super::super::PolicyErrorCode::UnknownKey),
                    "{text}: {errors}"
                );
            }
        }
    }
}

/// Some descriptions state their default themselves, because more is to be said about it.
#[test]
fn described_defaults_are_the_defaults() {
    let schema = schema();
    let effective = resolve(&[], Preset::Workflow).unwrap().effective;
    let mut checked = 0;
    for (definition, path) in [
        ("NodeBudgetFile", "/budgets/node"),
        ("LabelsFile", "/labels"),
        ("VisitsFile", "/guards/visits"),
        ("RetryFile", "/guards/retry"),
        ("TransitionCyclesFile", "/guards/cycle/transitions"),
    ] {
        let values = effective.pointer(path).unwrap();
        for (key, property) in schema["$defs"][definition]["properties"].as_object().unwrap() {
            let description = property["description"].as_str().unwrap();
            let Some((_, stated)) = description.split_once("Default: ") else { continue };
            if stated.starts_with("true if the limit is set") {
                continue;
            }
            let stated = stated.split(['.', ';', ',']).next().unwrap().trim_matches('`');
            let value = values[key].as_str().map_or_else(|| values[key].to_string(), str::to_owned);
            let same = stated == value
                || parse_duration_ms(stated).is_some_and(|ms| parse_duration_ms(&value) == Some(ms));
            assert!(same, "{definition}.{key}: {stated}, not {value}");
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked}");
}
