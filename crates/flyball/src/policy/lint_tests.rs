//! Tests of the lint warnings.

use super::super::{PolicyFormat, Preset, ResolvedPolicy, parse, resolve};
use super::{LintSeverity, lint_graph};

fn read(text: &str) -> ResolvedPolicy {
    let layer = parse(text, PolicyFormat::Yaml, "f.yaml").unwrap();
    resolve(&[layer], Preset::Workflow).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn presets_give_no_warnings_except_off() {
    for preset in Preset::ALL {
        let warnings = resolve(&[], preset).unwrap().warnings;
        let codes: Vec<&str> = warnings.iter().map(|w| w.code).collect();
        let expected: &[&str] = if preset == Preset::Off { &["protection_off"] } else { &[] };
        assert_eq!(codes, expected, "{preset:?}");
    }
}

#[test]
fn each_lint_is_reported_at_its_position() {
    let cases = [
        ("budgets: {node: {turns: 8}}", "loop_budget_unreachable", 1, 18),
        ("nodes:\n  a: {turns: 3}", "loop_budget_unreachable", 2, 7),
        ("guards: {cycle: {transitions: {max_history: 5}}}", "history_too_short", 1, 32),
        ("nodes: {t: {max_visits: 9}}\nedges: {f->t: {max_transitions: 2}}", "visits_unreachable", 1, 13),
        ("guards: {repetition: {limit: 2}}", "warning_too_late", 1, 23),
        ("guards: {repetition: {warn_at: 5}}", "warning_too_late", 1, 23),
        ("guards: {error_streak: {warn_at: 4}}", "warning_too_late", 1, 25),
        ("guards: {repetition: {limit: 9}}", "recurrence_trips_first", 1, 23),
        ("guards: {denial: {of: 5}}", "denial_unreachable", 1, 19),
        ("guards: {cycle: {transitions: {suffix_length: 6}}}", "suffix_too_long", 1, 32),
        ("preset: off", "protection_off", 1, 1),
        ("budgets: {turn: {timeout: 5h}}", "turn_longer_than_session", 1, 18),
        ("budgets: {session: {runtime: 5m}}", "turn_longer_than_session", 1, 21),
        ("guards: {transitions: {limit: 8}}", "cycle_trips_first", 1, 24),
        ("resilience: {max_runtime: 14400}", "milliseconds", 1, 14),
        ("guards: {visits: off}\nnodes: {a: {max_visits: 3}}", "guard_is_off", 2, 13),
        ("guards: {repetition: off}\ntools: {a: {repetition: {limit: 3}}}", "guard_is_off", 2, 26),
        ("guards: {transitions: off}\nedges: {a->b: {max_transitions: 3}}", "guard_is_off", 2, 16),
    ];
    for (text, code, line, column) in cases {
        let r = read(text);
        let Some(warning) = r.warnings.iter().find(|w| w.code == code) else {
            panic!("{text}: {:?}", r.warnings);
        };
        let place = warning.position.unwrap();
        assert_eq!((place.line, place.column), (line, column), "{text}");
        assert!(warning.to_string().starts_with("f.yaml:"));
        assert!(!warning.help.is_empty());
    }
}

#[test]
fn sensible_policies_give_no_warnings() {
    for text in [
        "budgets: {node: {turns: 9}}",
        "guards: {repetition: {limit: 4}}",
        "guards: {cycle: {transitions: {max_history: 30}}}",
        "nodes: {t: {max_visits: 3}}\nedges: {f->t: {max_transitions: 2}}",
        "budgets: {session: {runtime: 30m}}",
        "preset: off\nguards: {visits: {limit: 3}}",
    ] {
        let loud: Vec<_> =
            read(text).warnings.into_iter().filter(|w| w.severity == LintSeverity::Warning).collect();
        assert_eq!(loud, [], "{text}");
    }
}

#[test]
fn lint_graph_finds_unreachable_visit_limits() {
    let r = read("nodes: {t: {max_visits: 12}, s: {max_visits: 3}}");
    let graph = [("a", "t"), ("b", "t"), ("t", "s")];
    let found: Vec<String> = lint_graph(&r, &graph).iter().map(|w| w.path.clone()).collect();
    assert_eq!(found, ["nodes.t.max_visits"]);
    assert_eq!(lint_graph(&r, &[("a", "t"), ("b", "t"), ("c", "t")]), []);
}
