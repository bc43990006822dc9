//! The table itself: a path carries a scenario or the table says why it does not, and everything of the contract is covered.

use crate::table::{Path, Scenario, Want, reasons, scenarios};
use crate::{hook, http, mcp, proxy, runner};
use flyball::policy::Delivery;
use flyball::{GUARDS, REASONS};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Why a path does not carry a scenario, as the path itself says.
fn refuses(path: Path, scenario: &Scenario) -> Option<&'static str> {
    let has_errors = scenario.steps.iter().any(|step| matches!(step.want, Want::Error(_)));
    match path {
        Path::Observe | Path::Sqlite | Path::Restart | Path::Postgres => None,
        Path::Replay if has_errors => Some("ends_at_an_error"),
        Path::Replay => scenario.has_any(&["output.received"]).then_some("stores_nothing"),
        Path::Http => http::refuses(scenario),
        Path::Hook => hook::refuses(scenario),
        Path::Mcp => mcp::refuses(scenario),
        Path::Proxy => proxy::refuses(scenario),
        Path::Run => runner::refuses(scenario),
    }
}

#[test]
fn every_path_carries_a_scenario_or_says_why() {
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for scenario in scenarios() {
        let own: BTreeMap<&str, &str> =
            Path::ALL.iter().filter_map(|path| Some((path.name(), refuses(*path, &scenario)?))).collect();
        let written: BTreeMap<&str, &str> =
            scenario.not.iter().map(|(path, reason)| (path.name(), reason.as_str())).collect();
        if own != written {
            wrong.push(format!("{}: write \"not\": {}", scenario.name, json!(own)));
        }
        used.extend(own.into_values());
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    let known: BTreeMap<String, String> = reasons();
    assert_eq!(
        known.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        used,
        "fixtures/conformance/reasons.json"
    );
}

/// What the table wants of a list, and does not have.
fn missing<'a>(all: impl IntoIterator<Item = &'a str>, covered: &BTreeSet<String>) -> Vec<&'a str> {
    all.into_iter().filter(|name| !covered.contains(*name)).collect()
}

/// Said by those who end a session, not by a guard.
const NOT_TRIPS: [&str; 3] = ["completed", "transition", "error"];

#[test]
fn everything_of_the_contract_is_in_the_table() {
    let all = scenarios();
    let [mut reasons, mut effects, mut states, mut verdicts, mut kinds, mut guards, mut halts] =
        <[BTreeSet<String>; 7]>::default();
    for step in all.iter().flat_map(|scenario| &scenario.steps) {
        kinds.insert(step.kind().to_owned());
        if let Want::Decision { verdict, reasons: own, effects: ours, state } = &step.want {
            reasons.extend(own.iter().cloned());
            effects.extend(ours.iter().cloned());
            states.insert(state.clone());
            verdicts.insert(verdict.clone());
        }
    }
    for (_, answers) in crate::pipe::reference("conformance-coverage", &all) {
        for trip in answers.iter().flat_map(|answer| answer["trips"].as_array().cloned().unwrap_or_default())
        {
            guards.insert(trip["guard"].as_str().unwrap().to_owned());
            halts.extend(trip["halt_reason"].as_str().map(str::to_owned));
        }
    }
    let wanted = [
        ("guards", missing(GUARDS.iter().copied(), &guards)),
        (
            "reasons",
            missing(REASONS.iter().map(|(name, _)| *name).filter(|name| !NOT_TRIPS.contains(name)), &reasons),
        ),
        ("effects", missing(Delivery::EFFECTS, &effects)),
        ("events", missing(flyball::event_types(), &kinds)),
        ("verdicts", missing(["allow", "warn", "block", "halt"], &verdicts)),
        ("states", missing(["running", "awaiting_confirmation", "blocked", "halted", "ended"], &states)),
        (
            "halt reasons",
            missing(["budget_exceeded", "stalled", "oscillating", "repeated_error", "user_stop"], &halts),
        ),
    ];
    let lacking: Vec<String> = wanted
        .iter()
        .filter(|(_, missing)| !missing.is_empty())
        .map(|(what, missing)| format!("no scenario has the {what} {missing:?}"))
        .collect();
    assert!(lacking.is_empty(), "\n{}\n", lacking.join("\n"));
    let deliverable: BTreeSet<String> = Delivery::EFFECTS.iter().map(|name| (*name).to_owned()).collect();
    let kept_back: Vec<&String> = effects.difference(&deliverable).collect();
    assert!(kept_back.is_empty(), "no policy can name these effects for delivery: {kept_back:?}");
}
