//! Tests of every compatibility key, alone and combined with Flyball's own keys.

use super::super::{GuardMode, OnStallAction, Policy, PolicyFormat, Preset, ResolvedPolicy, parse, resolve};

fn read(text: &str, preset: Preset) -> ResolvedPolicy {
    let layer = parse(text, PolicyFormat::Yaml, "seed.yaml").unwrap();
    resolve(&[layer], preset).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

#[test]
fn every_compat_key_sets_its_value_and_keeps_its_origin() {
    type CompatCheck = fn(&Policy) -> bool;
    let cases: &[(&str, &str, &str, CompatCheck)] = &[
        ("resilience: {max_runtime: 2h}", "budgets.session.runtime", "resilience.max_runtime", |p| {
            p.budgets.session.runtime_ms == Some(7_200_000)
        }),
        (
            "resilience: {max_consecutive_repetitions: 7}",
            "guards.repetition.limit",
            "resilience.max_consecutive_repetitions",
            |p| p.guards.repetition.limit == Some(7),
        ),
        (
            "resilience: {max_consecutive_validation_failures: 4}",
            "guards.validation.limit",
            "resilience.max_consecutive_validation_failures",
            |p| p.guards.validation.limit == Some(4),
        ),
        (
            "resilience: {large_response_threshold: 9000}",
            "guards.large_response.threshold",
            "resilience.large_response_threshold",
            |p| p.guards.large_response.threshold == Some(9_000),
        ),
        (
            "resilience: {enable_backpressure: false}",
            "guards.gate.backpressure",
            "resilience.enable_backpressure",
            |p| !p.guards.gate.backpressure,
        ),
        (
            "resilience: {gate_dependencies: ['lint:build']}",
            "guards.gate.dependencies",
            "resilience.gate_dependencies",
            |p| p.guards.gate.dependencies == [("lint".to_owned(), "build".to_owned())],
        ),
        ("loop_policy: {turnTimeoutMs: 30000}", "budgets.turn.timeout", "loop_policy.turnTimeoutMs", |p| {
            p.budgets.turn.timeout_ms == Some(30_000)
        }),
        ("loop_policy: {maxTokens: 500}", "budgets.turn.tokens", "loop_policy.maxTokens", |p| {
            p.budgets.turn.tokens == Some(500)
        }),
        ("loop_policy: {maxTurnsPerNode: 9}", "budgets.node.turns", "loop_policy.maxTurnsPerNode", |p| {
            p.budgets.node.turns == Some(9) && p.budgets.node.turns_set
        }),
        (
            "loop_policy: {maxRuntimeMsPerNode: 5000}",
            "budgets.node.runtime",
            "loop_policy.maxRuntimeMsPerNode",
            |p| p.budgets.node.runtime_ms == Some(5_000),
        ),
        (
            "loop_policy: {maxCycleIterations: 4}",
            "budgets.loop.iterations",
            "loop_policy.maxCycleIterations",
            |p| p.budgets.loops.iterations == Some(4),
        ),
        (
            "loop_policy: {maxCycleRuntimeMs: 60000}",
            "budgets.loop.runtime",
            "loop_policy.maxCycleRuntimeMs",
            |p| p.budgets.loops.runtime_ms == Some(60_000),
        ),
        ("loop_policy: {maxCycleCost: 1.5}", "budgets.loop.cost_usd", "loop_policy.maxCycleCost", |p| {
            p.budgets.loops.cost_micro_usd == Some(1_500_000)
        }),
        ("loop_policy: {onStall: spawn_reviewer}", "on_stall", "loop_policy.onStall", |p| {
            p.on_stall == OnStallAction::SpawnReviewer
        }),
        (
            "loop_prevention: {max_visits_default: 7}",
            "guards.visits.limit",
            "loop_prevention.max_visits_default",
            |p| p.guards.visits.limit == Some(7),
        ),
        (
            "loop_prevention: {max_transitions_default: 6}",
            "guards.transitions.limit",
            "loop_prevention.max_transitions_default",
            |p| p.guards.transitions.limit == Some(6),
        ),
        (
            "loop_prevention: {cycle_detection_length: 4}",
            "guards.cycle.transitions.suffix_length",
            "loop_prevention.cycle_detection_length",
            |p| p.guards.cycle.transitions.suffix_length == Some(4),
        ),
        ("loop_prevention: {trigger_hitl: false}", "escalate", "loop_prevention.trigger_hitl", |p| {
            !p.escalate
        }),
        (
            "loop_prevention: {transition_limits: {fix→test: 8}}",
            "edges.fix->test.transitions.limit",
            "loop_prevention.transition_limits.fix→test",
            |p| p.guards_for_edge("fix", "test").transitions.limit == Some(8),
        ),
        (
            "transition_limits: {fix->test: 8}",
            "edges.fix->test.transitions.limit",
            "transition_limits.fix->test",
            |p| p.guards_for_edge("fix", "test").transitions.limit == Some(8),
        ),
        (
            "phases: [{name: plan}, {name: test, max_visits: 5}]",
            "nodes.test.visits.limit",
            "phases.1.max_visits",
            |p| p.guards_for_node("test").visits.limit == Some(5),
        ),
        (
            "phases: [{name: test, allow_cycles: true}]",
            "nodes.test.allow_cycles",
            "phases.0.allow_cycles",
            |p| p.guards_for_node("test").cycle.mode == GuardMode::Off,
        ),
    ];
    for (text, path, key, check) in cases {
        for preset in [Preset::Workflow, Preset::Agent] {
            let r = read(text, preset);
            assert!(check(&r.policy), "{text}");
            assert_eq!(r.origins[*path].key, *key, "{text}");
            assert_eq!(r.origins[*path].position.unwrap().line, 1, "{text}");
        }
    }
}

#[test]
fn loop_prevention_disabled_turns_off_only_its_own_guards() {
    let p = read("loop_prevention: {enabled: false, max_visits_default: 5, cycle_detection_length: 3}\nphases: [{name: a, max_visits: 2}]", Preset::Workflow).policy;
    assert_eq!(p.guards.visits.mode, GuardMode::Off);
    assert_eq!(p.guards_for_node("a").visits.mode, GuardMode::Off);
    assert_eq!(p.guards.transitions.mode, GuardMode::Off);
    let cycles = &p.guards.cycle.transitions;
    assert_eq!((cycles.max_period, cycles.suffix_length, cycles.self_loop), (None, None, None));
    assert_eq!(p.guards.cycle.mode, GuardMode::Staged);
    assert_eq!(p.guards.cycle.calls.max_period, Some(64));
    let p = read("loop_prevention: {cycle_detection_enabled: false}", Preset::Workflow).policy;
    assert_eq!(p.guards.cycle.transitions.suffix_length, None);
    assert_eq!(p.guards.visits.mode, GuardMode::Staged);
}

#[test]
fn loop_prevention_enabled_restores_limits_the_preset_dropped() {
    let of = |text: &str, preset| {
        let p = read(text, preset).policy;
        (p.guards.visits.limit, p.guards.transitions.limit, p.guards.visits.mode)
    };
    let staged = GuardMode::Staged;
    assert_eq!(of("loop_prevention: {enabled: true}", Preset::Agent), (Some(10), Some(5), staged));
    assert_eq!(of("loop_prevention: {enabled: true}", Preset::Simple), (Some(5), Some(3), staged));
    assert_eq!(of("loop_prevention: {enabled: true}", Preset::Off), (Some(10), Some(5), staged));
    assert_eq!(
        of("loop_prevention: {enabled: true, max_visits_default: 3}", Preset::Agent),
        (Some(3), Some(5), staged)
    );
    assert_eq!(
        of("loop_prevention: {enabled: true}\nguards: {visits: {limit: 4}}", Preset::Agent),
        (Some(4), Some(5), staged)
    );
}

#[test]
fn compat_keys_and_native_keys_combine() {
    let p = read(
        "preset: complex\nresilience: {max_runtime: 1h}\nbudgets: {session: {turns: 50}}\nloop_policy: {onStall: pause}\nnodes: {test: {turns: 3}}\nphases: [{name: test, max_visits: 2}]",
        Preset::Agent,
    )
    .policy;
    assert_eq!(p.budgets.session.runtime_ms, Some(3_600_000));
    assert_eq!(p.budgets.session.turns, Some(50));
    assert_eq!(p.budget_for_node("test").turns, Some(3));
    assert_eq!(p.guards_for_node("test").visits.limit, Some(2));
    assert_eq!(p.guards_for_node("other").visits.limit, Some(15));
}

#[test]
fn long_cycle_detection_length_is_a_warning() {
    let r = read("loop_prevention: {cycle_detection_length: 6}", Preset::Workflow);
    let warning = r.warnings.iter().find(|w| w.code == "suffix_too_long").unwrap();
    assert_eq!(warning.path, "loop_prevention.cycle_detection_length");
}
