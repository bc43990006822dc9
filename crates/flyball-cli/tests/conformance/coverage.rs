//! Checks the table itself: a path supports a scenario or the table gives a reason, and every event type, reason and
//! effect is covered.

use crate::scenario_table::{ConformancePath, ExpectedAnswer, Scenario, load_reasons, load_scenarios};
use crate::{hook, http, mcp, proxy, runner};
use flyball::GUARD_NAMES;
use flyball::policy::Delivery;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The reason why a path does not support a scenario, according to the path itself.
fn unsupported_reason(path: ConformancePath, scenario: &Scenario) -> Option<&'static str> {
    let has_errors = scenario.steps.iter().any(|step| matches!(step.expected, ExpectedAnswer::Error(_)));
    match path {
        ConformancePath::Observe
        | ConformancePath::Sqlite
        | ConformancePath::Restart
        | ConformancePath::Postgres => None,
        ConformancePath::Replay if has_errors => Some("ends_at_an_error"),
        ConformancePath::Replay => scenario.has_any(&["output.received"]).then_some("stores_nothing"),
        ConformancePath::Http => http::unsupported_reason(scenario),
        ConformancePath::Hook => hook::unsupported_reason(scenario),
        ConformancePath::Mcp => mcp::unsupported_reason(scenario),
        ConformancePath::Proxy => proxy::unsupported_reason(scenario),
        ConformancePath::Run => runner::unsupported_reason(scenario),
    }
}

#[test]
fn every_path_supports_a_scenario_or_states_the_reason() {
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for scenario in load_scenarios() {
        let own: BTreeMap<&str, &str> = ConformancePath::ALL
            .iter()
            .filter_map(|path| Some((path.name(), unsupported_reason(*path, &scenario)?)))
            .collect();
        let written: BTreeMap<&str, &str> =
            scenario.unsupported.iter().map(|(path, reason)| (path.name(), reason.as_str())).collect();
        if own != written {
            wrong.push(format!("{}: write \"not\": {}", scenario.name, json!(own)));
        }
        used.extend(own.into_values());
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    let known: BTreeMap<String, String> = load_reasons();
    assert_eq!(
        known.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        used,
        "fixtures/conformance/reasons.json"
    );
}

/// The items of a list that the table does not cover.
fn not_covered<'a>(all: impl IntoIterator<Item = &'a str>, covered: &BTreeSet<String>) -> Vec<&'a str> {
    all.into_iter().filter(|name| !covered.contains(*name)).collect()
}

/// Reasons given by the client that ends a session and not by a guard.
const END_REASONS: [&str; 3] = ["completed", "transition", "error"];

#[test]
fn every_guard_reason_effect_event_and_state_is_covered() {
    let all = load_scenarios();
    let [mut reasons, mut effects, mut states, mut verdicts, mut kinds, mut guards, mut halts] =
        <[BTreeSet<String>; 7]>::default();
    for step in all.iter().flat_map(|scenario| &scenario.steps) {
        kinds.insert(step.kind().to_owned());
        if let ExpectedAnswer::Decision { verdict, reasons: own, effects: ours, state } = &step.expected {
            reasons.extend(own.iter().cloned());
            effects.extend(ours.iter().cloned());
            states.insert(state.clone());
            verdicts.insert(verdict.clone());
        }
    }
    for (_, answers) in crate::pipe::reference_answers("conformance-coverage", &all) {
        for trip in answers.iter().flat_map(|answer| answer["trips"].as_array().cloned().unwrap_or_default())
        {
            guards.insert(trip["guard"].as_str().unwrap().to_owned());
            halts.extend(trip["halt_reason"].as_str().map(str::to_owned));
        }
    }
    let wanted = [
        ("guards", not_covered(GUARD_NAMES.iter().copied(), &guards)),
        (
            "reasons",
            not_covered(
                flyball::reasons().map(|reason| reason.name).filter(|name| !END_REASONS.contains(name)),
                &reasons,
            ),
        ),
        ("effects", not_covered(Delivery::EFFECTS, &effects)),
        ("events", not_covered(flyball::event_types(), &kinds)),
        ("verdicts", not_covered(["allow", "warn", "block", "halt"], &verdicts)),
        ("states", not_covered(["running", "awaiting_confirmation", "blocked", "halted", "ended"], &states)),
        (
            "halt reasons",
            not_covered(["budget_exceeded", "stalled", "oscillating", "repeated_error", "user_stop"], &halts),
        ),
    ];
    let lacking: Vec<String> = wanted
        .iter()
        .filter(|(_, missing)| !missing.is_empty())
        .map(|(what, missing)| format!("no scenario covers the {what} {missing:?}"))
        .collect();
    assert!(lacking.is_empty(), "\n{}\n", lacking.join("\n"));
    let deliverable: BTreeSet<String> = Delivery::EFFECTS.iter().map(|name| (*name).to_owned()).collect();
    let kept_back: Vec<&String> = effects.difference(&deliverable).collect();
    assert!(kept_back.is_empty(), "these effects cannot be named for delivery in a policy: {kept_back:?}");
}
