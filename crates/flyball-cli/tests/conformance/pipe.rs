//! The pipe: `observe` without a store, with one, with a process for every event, and `replay` of the same events.

use crate::compare::{fault, settle};
use crate::database::Database;
use crate::kit::{flyball, folder};
use crate::rows::{self, EVERYTHING_IS_DELIVERED};
use crate::table::{Path, Scenario, carried_by};
use serde_json::Value;
use std::collections::BTreeMap;

/// Each scenario with the answers to its events.
pub(crate) type Answered<'a> = Vec<(&'a Scenario, Vec<Value>)>;

/// The events of a scenario, with the policy that its session brings.
fn lines(scenario: &Scenario) -> Vec<String> {
    let mut events = scenario.events(&scenario.name, true);
    if !scenario.policy.is_null() {
        events[0]["policy"] = scenario.policy.clone();
    }
    events.iter().map(Value::to_string).collect()
}

fn parsed(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// Puts all events of all scenarios into one process.
fn in_one_process<'a>(name: &str, args: &[&str], scenarios: &'a [Scenario]) -> Answered<'a> {
    let place = folder(name);
    std::fs::write(place.join("deliver.yaml"), EVERYTHING_IS_DELIVERED).unwrap();
    let all: Vec<Vec<String>> = scenarios.iter().map(lines).collect();
    let input = all.concat().join("\n");
    let run = flyball(&place, args, input.as_bytes(), &[("PATH", &std::env::var("PATH").unwrap())]);
    let mut answers = parsed(&run.out).into_iter();
    let take = |(scenario, lines): (&'a Scenario, &Vec<String>)| {
        (scenario, answers.by_ref().take(lines.len()).collect::<Vec<_>>())
    };
    let answered: Answered<'_> = scenarios.iter().zip(&all).map(take).collect();
    assert!(answers.next().is_none(), "more answers than events: {}", run.err);
    answered
}

/// Puts the first events of all scenarios into one process, the second events into the next one, and so on: sessions are
/// independent of each other, so each is stopped and reopened between any two of its events.
fn a_process_for_every_event<'a>(name: &str, store: &str, scenarios: &'a [Scenario]) -> Answered<'a> {
    let place = folder(name);
    std::fs::write(place.join("deliver.yaml"), EVERYTHING_IS_DELIVERED).unwrap();
    let all: Vec<Vec<String>> = scenarios.iter().map(lines).collect();
    let mut answered: Answered<'_> = scenarios.iter().map(|scenario| (scenario, Vec::new())).collect();
    let path = std::env::var("PATH").unwrap();
    for turn in 0..all.iter().map(Vec::len).max().unwrap_or(0) {
        let input: Vec<&str> = all.iter().filter_map(|lines| lines.get(turn)).map(String::as_str).collect();
        let args = ["observe", "--store", store, "--policy", "deliver.yaml"];
        let run = flyball(&place, &args, input.join("\n").as_bytes(), &[("PATH", &path)]);
        let answers = parsed(&run.out);
        assert_eq!(answers.len(), input.len(), "event {turn}: {}", run.err);
        let waiting = answered.iter_mut().zip(&all).filter(|(_, lines)| turn < lines.len());
        for (((_, own), _), answer) in waiting.zip(answers) {
            own.push(answer);
        }
    }
    answered
}

/// What is wrong with the answers to one scenario.
pub(crate) fn faults(scenario: &Scenario, answers: &[Value]) -> Vec<String> {
    let mut by_id: BTreeMap<String, &Value> = BTreeMap::new();
    let mut found = Vec::new();
    for (step, answer) in scenario.steps.iter().zip(answers) {
        let id = step.event.get("id").map(Value::to_string);
        let before = id.as_ref().and_then(|id| by_id.get(id).copied());
        found.extend(fault(step, answer, before));
        // A refusal that was judged anew is answered as it was judged last.
        if let Some(id) = id.filter(|_| answer.get("error").is_none()) {
            by_id.insert(id, answer);
        }
    }
    if answers.len() != scenario.steps.len() {
        found.push(format!("{} answers to {} events", answers.len(), scenario.steps.len()));
    }
    found
}

fn outcomes<'a>(answered: &Answered<'a>) -> Vec<(&'a Scenario, Vec<String>)> {
    answered.iter().map(|(scenario, answers)| (*scenario, faults(scenario, answers))).collect()
}

/// The answers of the plain pipe, which all others must give byte for byte.
pub(crate) fn reference<'a>(name: &str, scenarios: &'a [Scenario]) -> Answered<'a> {
    in_one_process(name, &["observe"], scenarios)
}

/// The answers must be those of the plain pipe, and the stored rows those that follow from them.
fn compared<'a>(
    answered: &Answered<'a>,
    reference: &Answered<'_>,
    store: Option<&rows::Store>,
) -> Vec<(&'a Scenario, Vec<String>)> {
    let mut outcomes = outcomes(answered);
    for (((_, found), (scenario, answers)), (_, expected)) in outcomes.iter_mut().zip(answered).zip(reference)
    {
        for (answer, expected) in answers.iter().zip(expected) {
            // An error names the place of the line in the input, which is another one for another input.
            if answer != expected && answer.get("error").is_none() {
                found.push(format!("answered {answer}, and without a store {expected}"));
            }
        }
        if let Some(store) = store {
            found.extend(store.faults(scenario, &scenario.name, answers));
        }
    }
    outcomes
}

#[test]
fn observe() {
    let scenarios = carried_by(Path::Observe);
    settle(Path::Observe, outcomes(&reference("conformance-observe", &scenarios)));
}

#[test]
fn sqlite() {
    let scenarios = carried_by(Path::Sqlite);
    let args = ["observe", "--store", "sqlite:events.db", "--policy", "deliver.yaml"];
    let answered = in_one_process("conformance-sqlite", &args, &scenarios);
    let store = rows::Store::sqlite("conformance-sqlite", "events.db");
    settle(
        Path::Sqlite,
        compared(&answered, &reference("conformance-sqlite-reference", &scenarios), Some(&store)),
    );
}

#[test]
fn restart() {
    let scenarios = carried_by(Path::Restart);
    let answered = a_process_for_every_event("conformance-restart", "sqlite:events.db", &scenarios);
    let store = rows::Store::sqlite("conformance-restart", "events.db");
    settle(
        Path::Restart,
        compared(&answered, &reference("conformance-restart-reference", &scenarios), Some(&store)),
    );
}

#[test]
fn postgres() {
    let Some(database) = Database::new() else { return };
    let scenarios = carried_by(Path::Postgres);
    let answered = a_process_for_every_event("conformance-postgres", &database.url, &scenarios);
    let store = rows::Store::open(&database.url);
    settle(
        Path::Postgres,
        compared(&answered, &reference("conformance-postgres-reference", &scenarios), Some(&store)),
    );
}

#[test]
fn replay() {
    let scenarios = carried_by(Path::Replay);
    let place = folder("conformance-replay");
    let replayed = |scenario: &Scenario| {
        let file = format!("{}.jsonl", scenario.name);
        std::fs::write(place.join(&file), lines(scenario).join("\n")).unwrap();
        parsed(&flyball(&place, &["replay", "--json", &file], b"", &[]).out)
    };
    let answered: Answered<'_> = scenarios.iter().map(|scenario| (scenario, replayed(scenario))).collect();
    settle(Path::Replay, compared(&answered, &reference("conformance-replay-reference", &scenarios), None));
}
