//! Suggests a larger value for the policy limit that stopped a run.

use flyball::{BudgetUsage, Trip};

/// `KEY=VALUE` for `--set`, twice the current limit; `None` if the trip is not due to a single policy value.
pub(super) fn suggest_limit(trip: &Trip) -> Option<String> {
    if let Some(budget) = &trip.budget {
        return suggest_budget_limit(budget);
    }
    let more = trip.limit.max(1).saturating_mul(2);
    // The limit of the node or edge itself takes precedence over any general one.
    let (room, key, name) = match trip.guard.as_str() {
        "visits" => ("nodes", "max_visits", trip.scope.get("node")?),
        "transitions" if trip.suggested_actions.iter().any(|action| action == "raise_max_transitions") => {
            ("edges", "max_transitions", trip.scope.get("edge")?)
        }
        _ => return None,
    };
    (!name.contains('"')).then(|| format!("{room}.\"{name}\".{key}={more}"))
}

fn suggest_budget_limit(budget: &BudgetUsage) -> Option<String> {
    // A child uses the budget of its parent session.
    let scope = if budget.scope == "tree" { "session" } else { budget.scope.as_str() };
    let more = budget.limit.max(1).saturating_mul(2);
    let seconds = || format!("{}s", more.div_ceil(1000));
    let (name, value) = match budget.name.as_str() {
        "runtime_ms" => ("runtime", seconds()),
        "wall_ms" => ("wall", seconds()),
        "timeout_ms" => ("timeout", seconds()),
        "cost_micro_usd" => ("cost_usd", format!("{}.{:02}", more / 1_000_000, more % 1_000_000 / 10_000)),
        name @ ("turns" | "iterations" | "tokens" | "transitions" | "tool_calls") => (name, more.to_string()),
        _ => return None,
    };
    Some(format!("budgets.{scope}.{name}={value}"))
}

#[cfg(test)]
mod tests {
    //! Checks that every suggested key exists in the policy.

    use super::suggest_limit;
    use flyball::policy::{from_set, resolve};
    use flyball::{BudgetUsage, Decision, Preset, Trip, TripSeverity};

    fn trip(guard: &str, scope: (&str, &str), budget: Option<(&str, &str)>) -> Trip {
        let text = format!(
            r#"{{"guard":"{guard}","reason":"x","halt_reason":null,"severity":"halt","scope":{{"{}":"{}"}},"count":9,
                "limit":8,"message":"","evidence":{{"events":[]}},"suggested_actions":["raise_max_transitions"]}}"#,
            scope.0, scope.1
        );
        let mut trip: Trip = serde_json::from_str(&text).expect("a trip");
        trip.budget = budget.map(|(scope, name)| BudgetUsage {
            scope: scope.to_owned(),
            name: name.to_owned(),
            limit: 90_000,
            used: 90_001,
        });
        trip
    }

    /// The suggestion, checked to be a valid policy.
    fn valid_suggestion(trip: &Trip) -> String {
        let set = suggest_limit(trip).unwrap_or_else(|| panic!("{trip:?}"));
        let layer = from_set(std::slice::from_ref(&set)).unwrap_or_else(|_| panic!("{set}"));
        assert!(resolve(&[layer], Preset::Workflow).is_ok(), "{set}");
        set
    }

    #[test]
    fn every_suggestion_is_a_valid_policy() {
        for (scope, names) in [
            (
                "session",
                &["runtime_ms", "wall_ms", "tokens", "cost_micro_usd", "turns", "iterations", "tool_calls"][..],
            ),
            ("tree", &["tokens", "cost_micro_usd"]),
            ("turn", &["timeout_ms", "tokens"]),
            ("node", &["turns", "runtime_ms"]),
            ("loop", &["iterations", "runtime_ms", "cost_micro_usd"]),
            ("message", &["transitions", "tool_calls"]),
        ] {
            for name in names {
                valid_suggestion(&trip("budget", ("x", ""), Some((scope, name))));
            }
        }
        let loops = trip("budget", ("loop", "loop-1"), Some(("loop", "iterations")));
        assert_eq!(valid_suggestion(&loops), "budgets.loop.iterations=180000");
        assert_eq!(
            valid_suggestion(&trip("visits", ("node", "fix it"), None)),
            r#"nodes."fix it".max_visits=16"#
        );
        assert_eq!(
            valid_suggestion(&trip("transitions", ("edge", "fix->test"), None)),
            r#"edges."fix->test".max_transitions=16"#
        );
        assert_eq!(suggest_limit(&trip("stall", ("loop", "loop-1"), None)), None);
    }

    #[test]
    fn every_recorded_budget_trip_has_a_suggestion() {
        let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/guards");
        for guard in ["budget", "visits", "transitions"] {
            let path = fixtures.join(format!("{guard}.decisions.jsonl"));
            let text = std::fs::read_to_string(path).expect("a fixture");
            let decisions =
                text.lines().map(|line| serde_json::from_str::<Decision>(line).expect("a decision"));
            let trips: Vec<Trip> = decisions.flat_map(|decision| decision.trips).collect();
            // Answers of an already halted session repeat the reason without the value.
            let own = |trip: &&Trip| trip.guard == guard && (trip.budget.is_some() || trip.limit > 0);
            let stopped = trips.iter().filter(own).filter(|trip| trip.severity >= TripSeverity::Block);
            assert!(stopped.map(valid_suggestion).count() > 0, "{guard}");
        }
    }
}
