//! Compares answers with the table and reports the result of a path.

use crate::scenario_table::{ConformancePath, ExpectedAnswer, Scenario, ScenarioStep};
use serde_json::Value;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of scenarios of one path that run in parallel. Most of the time is spent waiting for processes.
const PARALLEL_SCENARIOS: usize = 4;

/// The error in the answer to a step, if any: a decision, or an object with `error`. `before` is the first answer to
/// the same id.
pub(crate) fn answer_error(step: &ScenarioStep, answer: &Value, before: Option<&Value>) -> Option<String> {
    let found = match &step.expected {
        ExpectedAnswer::Error(code) => {
            let found = answer.pointer("/error/code").and_then(Value::as_str);
            (found != Some(code)).then(|| format!("expected error {code}, found {}", answer_text(answer)))
        }
        ExpectedAnswer::SameAsBefore => (before != Some(answer))
            .then(|| format!("expected the earlier answer, found {}", answer_text(answer))),
        ExpectedAnswer::Decision { verdict, reasons, effects, state } => {
            let wanted = answer_outline(verdict, reasons.iter().map(String::as_str), effects.iter(), state);
            let found = answer_text(answer);
            (wanted != found).then(|| format!("expected {wanted}, found {found}"))
        }
    };
    let found = found.or_else(|| {
        missing_part(&step.expected_fields, answer, "")
            .map(|what| format!("{what} (in {})", serde_json::to_string(answer).unwrap()))
    });
    found.map(|what| format!("{}: {what}", event_text(&step.event)))
}

/// An answer in the table's notation.
pub(crate) fn answer_text(answer: &Value) -> String {
    if let Some(code) = answer.pointer("/error/code").and_then(Value::as_str) {
        return format!("error {code}");
    }
    let names = |list: &str, key: &str| -> Vec<String> {
        let list = answer[list].as_array().cloned().unwrap_or_default();
        list.iter().map(|one| one[key].as_str().unwrap_or("?").to_owned()).collect()
    };
    let text = |key: &str| answer[key].as_str().unwrap_or("?").to_owned();
    let (reasons, effects) = (names("trips", "reason"), names("effects", "effect"));
    answer_outline(&text("decision"), reasons.iter().map(String::as_str), effects.iter(), &text("state"))
}

fn answer_outline<'a>(
    verdict: &str,
    reasons: impl Iterator<Item = &'a str>,
    effects: impl Iterator<Item = &'a String>,
    state: &str,
) -> String {
    let mut words = vec![verdict.to_owned()];
    words.extend(reasons.map(str::to_owned));
    words.extend(effects.map(|effect| format!("+{effect}")));
    words.push(format!("state={state}"));
    words.join(" ")
}

/// An event on one line.
pub(crate) fn event_text(event: &Value) -> String {
    let text: String = event.to_string().chars().take(160).collect();
    text
}

/// The part of a pattern that a value lacks: every key of an object must match, and every list element must match some
/// element.
pub(crate) fn missing_part(pattern: &Value, value: &Value, at: &str) -> Option<String> {
    match (pattern, value) {
        (Value::Null, _) => None,
        (Value::Object(keys), Value::Object(map)) => keys.iter().find_map(|(key, pattern)| {
            let at = format!("{at}/{key}");
            map.get(key)
                .map_or_else(|| Some(format!("{at} is missing")), |value| missing_part(pattern, value, &at))
        }),
        (Value::Array(patterns), Value::Array(values)) => patterns.iter().find_map(|pattern| {
            let there = values.iter().any(|value| missing_part(pattern, value, at).is_none());
            (!there).then(|| format!("{at} has nothing like {pattern}"))
        }),
        (pattern, value) => (pattern != value).then(|| format!("{at} is {value}, expected {pattern}")),
    }
}

/// Runs all scenarios that a path supports, several in parallel, and fails with the errors.
pub(crate) fn run_scenarios(
    path: ConformancePath,
    scenarios: &[Scenario],
    one: impl Fn(&Scenario) -> Vec<String> + Sync,
) {
    let (next, errors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_SCENARIOS.min(scenarios.len()) {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = one(scenario);
                    errors.lock().unwrap().push((scenario, found));
                }
            });
        }
    });
    assert_no_errors(path, errors.into_inner().unwrap());
}

/// Fails with the errors, if any.
pub(crate) fn assert_no_errors(path: ConformancePath, outcomes: Vec<(&Scenario, Vec<String>)>) {
    let count = outcomes.len();
    let mut wrong = Vec::new();
    for (scenario, errors) in outcomes {
        wrong.extend(errors.into_iter().map(|problem| format!("{}: {problem}", scenario.name)));
    }
    wrong.sort();
    assert!(wrong.is_empty(), "{path}:\n{}\n", wrong.join("\n"));
    println!("{path}: {count} scenarios");
}
