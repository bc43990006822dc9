//! Whether an answer is the one that the table wants, and the outcome of a whole path.

use crate::table::{Path, Scenario, Step, Want};
use serde_json::Value;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many scenarios of one path run at a time. Most of the time is spent waiting for processes.
const WORKERS: usize = 4;

/// What is wrong with the answer to a step: a decision, or an object with `error`. `before` is the first answer to the same id.
pub(crate) fn fault(step: &Step, answer: &Value, before: Option<&Value>) -> Option<String> {
    let found = match &step.want {
        Want::Error(code) => {
            let found = answer.pointer("/error/code").and_then(Value::as_str);
            (found != Some(code)).then(|| format!("wanted error {code}, found {}", shown(answer)))
        }
        Want::Again => (before != Some(answer))
            .then(|| format!("wanted the answer from before, found {}", shown(answer))),
        Want::Decision { verdict, reasons, effects, state } => {
            let wanted = outline(verdict, reasons.iter().map(String::as_str), effects.iter(), state);
            let found = shown(answer);
            (wanted != found).then(|| format!("wanted {wanted}, found {found}"))
        }
    };
    let found = found.or_else(|| {
        lacks(&step.has, answer, "")
            .map(|what| format!("{what} (in {})", serde_json::to_string(answer).unwrap()))
    });
    found.map(|what| format!("{}: {what}", brief(&step.event)))
}

/// An answer in the words of the table.
pub(crate) fn shown(answer: &Value) -> String {
    if let Some(code) = answer.pointer("/error/code").and_then(Value::as_str) {
        return format!("error {code}");
    }
    let names = |list: &str, key: &str| -> Vec<String> {
        let list = answer[list].as_array().cloned().unwrap_or_default();
        list.iter().map(|one| one[key].as_str().unwrap_or("?").to_owned()).collect()
    };
    let text = |key: &str| answer[key].as_str().unwrap_or("?").to_owned();
    let (reasons, effects) = (names("trips", "reason"), names("effects", "effect"));
    outline(&text("decision"), reasons.iter().map(String::as_str), effects.iter(), &text("state"))
}

fn outline<'a>(
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
pub(crate) fn brief(event: &Value) -> String {
    let text: String = event.to_string().chars().take(160).collect();
    text
}

/// What a value lacks of a pattern: every key of an object, and for every element of a list one that has it.
pub(crate) fn lacks(pattern: &Value, value: &Value, at: &str) -> Option<String> {
    match (pattern, value) {
        (Value::Null, _) => None,
        (Value::Object(keys), Value::Object(map)) => keys.iter().find_map(|(key, pattern)| {
            let at = format!("{at}/{key}");
            map.get(key).map_or_else(|| Some(format!("{at} is missing")), |value| lacks(pattern, value, &at))
        }),
        (Value::Array(patterns), Value::Array(values)) => patterns.iter().find_map(|pattern| {
            let there = values.iter().any(|value| lacks(pattern, value, at).is_none());
            (!there).then(|| format!("{at} has nothing like {pattern}"))
        }),
        (pattern, value) => (pattern != value).then(|| format!("{at} is {value}, wanted {pattern}")),
    }
}

/// Runs all scenarios that a path carries, some at a time, and fails with what is wrong.
pub(crate) fn run(path: Path, scenarios: &[Scenario], one: impl Fn(&Scenario) -> Vec<String> + Sync) {
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS.min(scenarios.len()) {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = one(scenario);
                    faults.lock().unwrap().push((scenario, found));
                }
            });
        }
    });
    settle(path, faults.into_inner().unwrap());
}

/// Fails with what is wrong.
pub(crate) fn settle(path: Path, outcomes: Vec<(&Scenario, Vec<String>)>) {
    let count = outcomes.len();
    let mut wrong = Vec::new();
    for (scenario, faults) in outcomes {
        wrong.extend(faults.into_iter().map(|fault| format!("{}: {fault}", scenario.name)));
    }
    wrong.sort();
    assert!(wrong.is_empty(), "{path}:\n{}\n", wrong.join("\n"));
    println!("{path}: {count} scenarios");
}
