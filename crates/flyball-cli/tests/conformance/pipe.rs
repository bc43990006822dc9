//! The pipe: `observe` without a store, with a store, with a process per event, and `replay` of the same events.

use crate::command_harness::{run_flyball, test_dir};
use crate::compare::{answer_error, assert_no_errors};
use crate::database::PostgresTestDatabase;
use crate::scenario_table::{ConformancePath, Scenario, supported_scenarios};
use crate::store_rows::{self, DELIVERY_POLICY};
use serde_json::Value;
use std::collections::BTreeMap;

/// Each scenario with the answers to its events.
pub(crate) type ScenarioAnswers<'a> = Vec<(&'a Scenario, Vec<Value>)>;

/// The events of a scenario, with its session's policy.
fn event_lines(scenario: &Scenario) -> Vec<String> {
    let mut events = scenario.events(&scenario.name, true);
    if !scenario.policy.is_null() {
        events[0]["policy"] = scenario.policy.clone();
    }
    events.iter().map(Value::to_string).collect()
}

fn parse_lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// Runs all events of all scenarios in one process.
fn in_one_process<'a>(name: &str, args: &[&str], scenarios: &'a [Scenario]) -> ScenarioAnswers<'a> {
    let place = test_dir(name);
    std::fs::write(place.join("deliver.yaml"), DELIVERY_POLICY).unwrap();
    let all: Vec<Vec<String>> = scenarios.iter().map(event_lines).collect();
    let input = all.concat().join("\n");
    let run = run_flyball(&place, args, input.as_bytes(), &[("PATH", &std::env::var("PATH").unwrap())]);
    let mut answers = parse_lines(&run.out).into_iter();
    let take = |(scenario, lines): (&'a Scenario, &Vec<String>)| {
        (scenario, answers.by_ref().take(lines.len()).collect::<Vec<_>>())
    };
    let answered: ScenarioAnswers<'_> = scenarios.iter().zip(&all).map(take).collect();
    assert!(answers.next().is_none(), "more answers than events: {}", run.err);
    answered
}

/// Runs the first events of all scenarios in one process, the second events in the next, and so on. Sessions are
/// independent, so each one is closed and reopened between any two of its events.
fn one_process_per_event<'a>(name: &str, store: &str, scenarios: &'a [Scenario]) -> ScenarioAnswers<'a> {
    let place = test_dir(name);
    std::fs::write(place.join("deliver.yaml"), DELIVERY_POLICY).unwrap();
    let all: Vec<Vec<String>> = scenarios.iter().map(event_lines).collect();
    let mut answered: ScenarioAnswers<'_> = scenarios.iter().map(|scenario| (scenario, Vec::new())).collect();
    let path = std::env::var("PATH").unwrap();
    for turn in 0..all.iter().map(Vec::len).max().unwrap_or(0) {
        let input: Vec<&str> = all.iter().filter_map(|lines| lines.get(turn)).map(String::as_str).collect();
        let args = ["observe", "--store", store, "--policy", "deliver.yaml"];
        let run = run_flyball(&place, &args, input.join("\n").as_bytes(), &[("PATH", &path)]);
        let answers = parse_lines(&run.out);
        assert_eq!(answers.len(), input.len(), "event {turn}: {}", run.err);
        let waiting = answered.iter_mut().zip(&all).filter(|(_, lines)| turn < lines.len());
        for (((_, own), _), answer) in waiting.zip(answers) {
            own.push(answer);
        }
    }
    answered
}

/// The errors in the answers to one scenario.
pub(crate) fn scenario_errors(scenario: &Scenario, answers: &[Value]) -> Vec<String> {
    let mut by_id: BTreeMap<String, &Value> = BTreeMap::new();
    let mut found = Vec::new();
    for (step, answer) in scenario.steps.iter().zip(answers) {
        let id = step.event.get("id").map(Value::to_string);
        let before = id.as_ref().and_then(|id| by_id.get(id).copied());
        found.extend(answer_error(step, answer, before));
        // A reevaluated denial is answered with its latest decision.
        if let Some(id) = id.filter(|_| answer.get("error").is_none()) {
            by_id.insert(id, answer);
        }
    }
    if answers.len() != scenario.steps.len() {
        found.push(format!("{} answers to {} events", answers.len(), scenario.steps.len()));
    }
    found
}

fn scenario_outcomes<'a>(answered: &ScenarioAnswers<'a>) -> Vec<(&'a Scenario, Vec<String>)> {
    answered.iter().map(|(scenario, answers)| (*scenario, scenario_errors(scenario, answers))).collect()
}

/// The answers of the plain pipe, which all other paths must match byte for byte.
pub(crate) fn reference_answers<'a>(name: &str, scenarios: &'a [Scenario]) -> ScenarioAnswers<'a> {
    in_one_process(name, &["observe"], scenarios)
}

/// Compares the answers with those of the plain pipe, and the stored rows with the answers.
fn compare_with_reference<'a>(
    answered: &ScenarioAnswers<'a>,
    reference: &ScenarioAnswers<'_>,
    store: Option<&store_rows::StoreRows>,
) -> Vec<(&'a Scenario, Vec<String>)> {
    let mut outcomes = scenario_outcomes(answered);
    for (((_, found), (scenario, answers)), (_, expected)) in outcomes.iter_mut().zip(answered).zip(reference)
    {
        for (answer, expected) in answers.iter().zip(expected) {
            // An error names the input line, which differs between inputs.
            if answer != expected && answer.get("error").is_none() {
                found.push(format!("answered {answer}, but without a store {expected}"));
            }
        }
        if let Some(store) = store {
            found.extend(store.row_errors(scenario, &scenario.name, answers));
        }
    }
    outcomes
}

#[test]
fn observe() {
    let scenarios = supported_scenarios(ConformancePath::Observe);
    assert_no_errors(
        ConformancePath::Observe,
        scenario_outcomes(&reference_answers("conformance-observe", &scenarios)),
    );
}

#[test]
fn sqlite() {
    let scenarios = supported_scenarios(ConformancePath::Sqlite);
    let args = ["observe", "--store", "sqlite:events.db", "--policy", "deliver.yaml"];
    let answered = in_one_process("conformance-sqlite", &args, &scenarios);
    let store = store_rows::StoreRows::sqlite("conformance-sqlite", "events.db");
    assert_no_errors(
        ConformancePath::Sqlite,
        compare_with_reference(
            &answered,
            &reference_answers("conformance-sqlite-reference", &scenarios),
            Some(&store),
        ),
    );
}

#[test]
fn restart() {
    let scenarios = supported_scenarios(ConformancePath::Restart);
    let answered = one_process_per_event("conformance-restart", "sqlite:events.db", &scenarios);
    let store = store_rows::StoreRows::sqlite("conformance-restart", "events.db");
    assert_no_errors(
        ConformancePath::Restart,
        compare_with_reference(
            &answered,
            &reference_answers("conformance-restart-reference", &scenarios),
            Some(&store),
        ),
    );
}

#[test]
fn postgres() {
    let Some(database) = PostgresTestDatabase::new() else { return };
    let scenarios = supported_scenarios(ConformancePath::Postgres);
    let answered = one_process_per_event("conformance-postgres", &database.url, &scenarios);
    let store = store_rows::StoreRows::open(&database.url);
    assert_no_errors(
        ConformancePath::Postgres,
        compare_with_reference(
            &answered,
            &reference_answers("conformance-postgres-reference", &scenarios),
            Some(&store),
        ),
    );
}

#[test]
fn replay() {
    let scenarios = supported_scenarios(ConformancePath::Replay);
    let place = test_dir("conformance-replay");
    let replayed = |scenario: &Scenario| {
        let file = format!("{}.jsonl", scenario.name);
        std::fs::write(place.join(&file), event_lines(scenario).join("\n")).unwrap();
        parse_lines(&run_flyball(&place, &["replay", "--json", &file], b"", &[]).out)
    };
    let answered: ScenarioAnswers<'_> =
        scenarios.iter().map(|scenario| (scenario, replayed(scenario))).collect();
    assert_no_errors(
        ConformancePath::Replay,
        compare_with_reference(
            &answered,
            &reference_answers("conformance-replay-reference", &scenarios),
            None,
        ),
    );
}
