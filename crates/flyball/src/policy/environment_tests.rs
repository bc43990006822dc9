//! Tests of environment variables and `--set` arguments.

use super::super::{Policy, PolicyErrorCode, Preset, ResolvedPolicy, ValueOrigin, resolve};
use super::{from_environment, from_set};

fn resolve_environment(vars: &[(&str, &str)]) -> ResolvedPolicy {
    let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let layer = from_environment(vars).unwrap().unwrap();
    resolve(&[layer], Preset::Workflow).unwrap()
}

#[test]
fn each_variable_sets_its_value() {
    type EnvironmentCheck = fn(&Policy) -> bool;
    let cases: &[(&str, &str, &str, EnvironmentCheck)] = &[
        ("DEX_MAX_RUNTIME_HOURS", "2", "budgets.session.runtime", |p| {
            p.budgets.session.runtime_ms == Some(7_200_000)
        }),
        ("DEX_MAX_RUNTIME_HOURS", "0.5", "budgets.session.runtime", |p| {
            p.budgets.session.runtime_ms == Some(1_800_000)
        }),
        ("DEX_MAX_RUNTIME_HOURS", "0", "budgets.session.runtime", |p| p.budgets.session.runtime_ms.is_none()),
        ("DEX_MAX_REPETITIONS", "8", "guards.repetition.limit", |p| p.guards.repetition.limit == Some(8)),
        ("DEX_MAX_VALIDATION_FAILURES", "6", "guards.validation.limit", |p| {
            p.guards.validation.limit == Some(6)
        }),
        ("DEX_LARGE_RESPONSE_THRESHOLD", "1000", "guards.large_response.threshold", |p| {
            p.guards.large_response.threshold == Some(1_000)
        }),
        ("DEX_QUALITY_BACKPRESSURE", "false", "guards.gate.backpressure", |p| !p.guards.gate.backpressure),
        ("VUHLP_STALL_THRESHOLD", "20", "guards.stall.diff", |p| {
            let s = &p.guards.stall;
            [s.output, s.structured, s.diff, s.failures] == [Some(20); 4] && s.turns == Some(10)
        }),
        ("FLYBALL_PRESET", "strict", "preset", |p| p.preset == Preset::Strict),
        ("FLYBALL_ON_STALL", "pause", "on_stall", |p| p.on_stall == super::super::OnStallAction::Pause),
        ("FLYBALL_ON_ERROR", "block", "on_error", |p| p.on_error == super::super::OnErrorAction::Block),
        ("FLYBALL_BUDGETS__SESSION__RUNTIME", "2h", "budgets.session.runtime", |p| {
            p.budgets.session.runtime_ms == Some(7_200_000)
        }),
        ("FLYBALL_GUARDS__VISITS", "off", "guards.visits.mode", |p| !p.guards.visits.mode.is_on()),
        ("FLYBALL_NODES__TEST__MAX_VISITS", "4", "nodes.test.visits.limit", |p| {
            p.guards_for_node("test").visits.limit == Some(4)
        }),
        ("FLYBALL_GUARDS__GATE__DEPENDENCIES", "[\"a:b\"]", "guards.gate.dependencies", |p| {
            p.guards.gate.dependencies.len() == 1
        }),
    ];
    for (name, value, path, check) in cases {
        let r = resolve_environment(&[(name, value)]);
        assert!(check(&r.policy), "{name}={value}");
        let variable = (*name).to_owned();
        assert_eq!(r.origins[*path].origin, ValueOrigin::Environment { variable }, "{name}");
    }
}

#[test]
fn unrelated_variables_and_empty_values_are_ignored() {
    let vars = ["FLYBALL_STORE", "FLYBALL_POLICY", "FLYBALL_LOG", "PATH", "DEX_HOME", "FLYBALL_"];
    let layer = from_environment(vars.iter().map(|name| ((*name).to_owned(), "x".to_owned()))).unwrap();
    assert_eq!(layer, None);
    let empty = [("FLYBALL_PRESET".to_owned(), " ".to_owned())];
    assert_eq!(from_environment(empty.into_iter()).unwrap(), None);
}

#[test]
fn flyball_variable_overrides_a_foreign_one() {
    let r = resolve_environment(&[("DEX_MAX_REPETITIONS", "8"), ("FLYBALL_GUARDS__REPETITION__LIMIT", "2")]);
    assert_eq!(r.policy.guards.repetition.limit, Some(2));
}

#[test]
fn invalid_variable_is_rejected_by_name() {
    let bad = [("DEX_MAX_RUNTIME_HOURS".to_owned(), "long".to_owned())];
    let errors = from_environment(bad.into_iter()).unwrap_err();
    assert_eq!(errors.iter().next().unwrap().code, PolicyErrorCode::Type);
    for (name, code) in [
        ("FLYBALL_GUARDS__REPETITON__LIMIT", PolicyErrorCode::UnknownGuard),
        ("DEX_MAX_REPETITIONS", PolicyErrorCode::Type),
        ("FLYBALL_BUDGET__X", PolicyErrorCode::UnknownKey),
    ] {
        let layer = from_environment([(name.to_owned(), "many".to_owned())].into_iter()).unwrap().unwrap();
        let errors = resolve(&[layer], Preset::Workflow).unwrap_err();
        let error = errors.iter().next().unwrap();
        assert_eq!(error.code, code, "{error}");
        assert!(error.to_string().starts_with(name), "{error}");
    }
}

#[test]
fn set_arguments_set_values_by_path() {
    let set = |pairs: &[&str]| from_set(&pairs.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>());
    let layer = set(&[
        "budgets.session.runtime=2h",
        "edges.\"fix->test\".max_transitions = 8",
        "nodes.\"a.b\".turns=3",
        "labels.prefix=a=b",
        "guards.stall=warn",
    ])
    .unwrap();
    let p = resolve(&[layer], Preset::Workflow).unwrap().policy;
    assert_eq!(p.budgets.session.runtime_ms, Some(7_200_000));
    assert_eq!(p.guards_for_edge("fix", "test").transitions.limit, Some(8));
    assert_eq!(p.budget_for_node("a.b").turns, Some(3));
    assert_eq!(p.labels.prefix, "a=b");
    for bad in ["budgets", "=3", "a..b=1", "\"a=1"] {
        assert_eq!(set(&[bad]).unwrap_err().iter().next().unwrap().code, PolicyErrorCode::Syntax, "{bad}");
    }
    let clash = set(&["guards.stall.diff=3", "guards.stall=off"]).unwrap_err();
    assert_eq!(clash.iter().next().unwrap().code, PolicyErrorCode::Contradiction);
    let unknown = resolve(&[set(&["budgets.sesion.turns=3"]).unwrap()], Preset::Workflow).unwrap_err();
    assert!(unknown.to_string().starts_with("--set: policy_unknown_key"), "{unknown}");
}
