//! Tests of merging layers into a policy.

use serde_json::{Value, json};

use super::super::{
    BackoffStrategy, GuardMode, LanguageSetting, NewRequestAction, OnErrorAction, OnStallAction, Policy,
    PolicyErrorCode, PolicyErrors, PolicyFormat, ToolEffect, UnverifiedAction, from_environment, from_set,
    parse,
};
use super::{PolicyLayer, Preset, ResolvedPolicy, ValueOrigin, resolve};

const SAMPLE: &str = r#"version: 1
preset: agent                 # workflow, agent, simple, complex, strict, observe, off
budgets:
  session: {runtime: 4h, turns: 0, iterations: 0, tokens: 0, cost_usd: 0}
  turn: {timeout: 10m, tokens: 0}
  node: {turns: 6, runtime: 0}
  loop: {iterations: 8, runtime: 0, cost_usd: 0}
  message: {transitions: 25}
guards:                       # each: mode off/observe/warn/block/halt, plus its own keys
  repetition: {limit: 5, warn_at: 3, blocks: 3, result_aware: true}
  cycle: {calls: {max_period: 64, repeats: 3}, transitions: {max_period: 10, repeats: 3, suffix_length: 3}}
  recurrence: {limit: 6}
  visits: {limit: 10}
  transitions: {limit: 5}
  stall: {output: 3, structured: 3, diff: 2, failures: 3}
  oscillation: {repeats: 2}
  error_streak: {same_error: 4, any: 5}
  validation: {limit: 3}
  retry: {limit: 3, backoff: exponential, cooldown: 60s}
  gate: {attempts: 5, item_blocks: 3, same_failure: 3}
  confirmation: {unclear: 3, ttl: 1h, abort_on_reaching_max: false}
  question: {limit: 3}
  denial: {consecutive: 3, of: 50, total: 10}
  monologue: {limit: 3}
nodes: {test: {max_visits: 5, allow_cycles: false, turns: 12}}
edges: {"fix->test": {max_transitions: 8}}
tools: {job_output: {effect: poll}, delete_task: {effect: destructive}, bash: {repetition: {limit: 3}}}   # effect: read, write, poll, destructive
on_stall: switch_to_interactive
releases: {grant: 3, ceiling: 5}
labels: {prefix: "ashep-"}
rules:                        # custom, in CEL
  - {name: no-prod, when: "event.type == 'tool.requested' && event.tool == 'deploy' && session.calls > 50", decision: block, message: "too late to deploy"}
"#;

fn resolve_yaml(text: &str) -> Result<ResolvedPolicy, PolicyErrors> {
    resolve(&[parse(text, PolicyFormat::Yaml, "flyball.yaml")?], Preset::Workflow)
}

fn resolve_ok(text: &str) -> ResolvedPolicy {
    match resolve_yaml(text) {
        Ok(resolved) => resolved,
        Err(errors) => panic!("{text}\n{errors}"),
    }
}

fn layer(tree: Value) -> PolicyLayer {
    PolicyLayer::from_value(ValueOrigin::File { name: "policy".to_owned() }, tree)
}

#[test]
fn contract_sample_policy_resolves() {
    let r = resolve_ok(SAMPLE);
    let p = &r.policy;
    assert_eq!(p.preset, Preset::Agent);
    assert_eq!(p.budgets.session.runtime_ms, Some(14_400_000));
    assert_eq!(p.budgets.session.cost_micro_usd, None);
    assert_eq!((p.budgets.node.turns, p.budgets.node.turns_set), (Some(6), true));
    assert_eq!(p.budgets.message.transitions, Some(25));
    assert_eq!(p.guards.visits.limit, Some(10));
    assert_eq!(p.guards.cycle.calls.max_period, Some(64));
    assert_eq!(p.guards.retry.limits.backoff, BackoffStrategy::Exponential);
    assert_eq!(p.guards.retry.limits.cooldown_ms, 60_000);
    assert_eq!(p.guards_for_node("test").visits.limit, Some(5));
    assert_eq!(p.guards_for_node("other").visits.limit, Some(10));
    assert_eq!(p.budget_for_node("test").turns, Some(12));
    assert_eq!(p.guards_for_edge("fix", "test").transitions.limit, Some(8));
    assert_eq!(p.guards_for_edge("test", "fix").transitions.limit, Some(5));
    assert_eq!(p.tool_effect("job_output"), Some(ToolEffect::Poll));
    assert_eq!(p.tool_effect("delete_task"), Some(ToolEffect::Destructive));
    assert_eq!(p.guards_for_tool("bash").repetition.limit, Some(3));
    assert_eq!(p.guards_for_tool("bash").repetition.blocks, Some(3));
    assert_eq!(p.rules.len(), 1);
    assert_eq!(p.rules[0].decision(), GuardMode::Block);
    assert_eq!(p.on_stall, OnStallAction::SwitchToInteractive);
}

#[test]
fn toml_and_json_with_the_same_keys_give_the_same_policy() {
    let toml = r#"
preset = "simple"
on_stall = "pause"
[budgets.session]
runtime = "2h"
cost_usd = 2.5
[guards]
visits = "observe"
question = false
[guards.retry]
backoff = "linear"
[guards.retry.operations.validation]
limit = 7
[nodes.test]
max_visits = 4
[edges."fix->test"]
max_transitions = 9
[[rules]]
name = "many"
when = "session.errors > 3"
"#;
    let yaml_text = r#"
preset: simple
on_stall: pause
budgets: {session: {runtime: 2h, cost_usd: 2.5}}
guards:
  visits: observe
  question: off
  retry: {backoff: linear, operations: {validation: {limit: 7}}}
nodes: {test: {max_visits: 4}}
edges: {fix→test: {max_transitions: 9}}
rules: [{name: many, when: session.errors > 3}]
"#;
    let json_text = json!({
        "preset": "simple", "on_stall": "pause",
        "budgets": {"session": {"runtime": 7_200_000, "cost_usd": "2.50"}},
        "guards": {"visits": {"mode": "observe"}, "question": {"mode": "off"},
            "retry": {"backoff": "linear", "operations": {"validation": {"limit": "7"}}}},
        "nodes": {"test": {"visits": {"limit": 4}}},
        "edges": {"fix -> test": {"transitions": {"limit": 9}}},
        "rules": [{"name": "many", "when": "session.errors > 3"}]
    })
    .to_string();
    let from = |text: &str, format| {
        let layer = parse(text, format, "policy").unwrap();
        resolve(&[layer], Preset::Workflow).unwrap()
    };
    let y = from(yaml_text, PolicyFormat::Yaml);
    assert_eq!(y.policy, from(toml, PolicyFormat::Toml).policy);
    assert_eq!(y.policy, from(&json_text, PolicyFormat::Json).policy);
    assert_eq!(y.policy.budgets.session.cost_micro_usd, Some(2_500_000));
    assert_eq!(y.policy.guards.retry.operation("validation").limit, Some(7));
    assert_eq!(y.policy.guards.retry.operation("validation").backoff, BackoffStrategy::Linear);
    assert_eq!(y.policy.guards.retry.operation("other").limit, Some(3));
    assert_eq!(y.policy.guards.question.mode, GuardMode::Off);
    assert_eq!(y.policy.guards_for_node("test").visits.mode, GuardMode::Observe);
}

#[test]
fn effective_policy_round_trips() {
    for preset in Preset::ALL {
        let first = resolve(&[layer(json!(preset.as_str()))], Preset::Agent).unwrap();
        assert_eq!(first.policy, Policy::preset(preset), "{preset:?}");
        let again = resolve(&[layer(first.effective.clone())], Preset::Agent).unwrap().policy;
        assert_eq!(again, first.policy, "{preset:?}");
    }
    let first = resolve_ok(SAMPLE);
    let again = resolve(&[layer(first.effective.clone())], Preset::Workflow).unwrap();
    assert_eq!(first.policy, again.policy);
}

#[test]
fn presets_have_their_own_limits() {
    let p = |preset| Policy::preset(preset);
    let of = |preset| (p(preset).guards.visits.limit, p(preset).guards.transitions.limit);
    assert_eq!(of(Preset::Workflow), (Some(10), Some(5)));
    assert_eq!(of(Preset::Agent), (None, None));
    assert_eq!(of(Preset::Simple), (Some(5), Some(3)));
    assert_eq!(of(Preset::Complex), (Some(15), Some(8)));
    assert_eq!(of(Preset::Strict), (Some(5), Some(3)));
    let agent = p(Preset::Agent);
    assert_eq!(agent.budgets.node.turns, None);
    assert_eq!(agent.budgets.message.transitions, None);
    assert_eq!(agent.budgets.loops.iterations, Some(8));
    assert_eq!(agent.guards.stall.turns, None);
    assert!(p(Preset::Observe).guards.modes().all(|(_, mode)| mode == GuardMode::Observe));
    assert_eq!(p(Preset::Observe).budgets.mode, GuardMode::Observe);
    assert!(p(Preset::Off).guards.modes().all(|(_, mode)| mode == GuardMode::Off));
    assert_eq!(p(Preset::Off).budgets.session.runtime_ms, None);
    let digests: std::collections::BTreeSet<String> =
        Preset::ALL.iter().map(|preset| p(*preset).digest).collect();
    assert_eq!(digests.len(), 7);
}

#[test]
fn strict_is_never_looser_than_workflow_and_never_below_two() {
    let strict = resolve(&[layer(json!("strict"))], Preset::Agent).unwrap().effective;
    let workflow = resolve(&[layer(json!("workflow"))], Preset::Agent).unwrap().effective;
    let mut lower = 0;
    for guard in super::GuardPolicies::NAMES {
        let Value::Object(map) = &strict["guards"][guard] else {
            continue;
        };
        for (key, value) in map {
            if let (Some(a), Some(b)) = (value.as_u64(), workflow["guards"][guard][key].as_u64()) {
                assert!(a <= b && a >= 2, "{guard}.{key}: {a} {b}");
                lower += usize::from(a < b);
            }
        }
    }
    assert!(lower > 20, "{lower}");
}

#[test]
fn under_preset_off_a_configured_guard_is_on() {
    let p = resolve_ok("preset: off\nguards: {repetition: {limit: 3}}\nnodes: {a: {max_visits: 4}}\nbudgets: {session: {turns: 9}}").policy;
    assert_eq!(p.guards.repetition.mode, GuardMode::Staged);
    assert_eq!(p.guards.cycle.mode, GuardMode::Off);
    assert_eq!(p.guards.visits.mode, GuardMode::Off);
    assert_eq!(p.guards_for_node("a").visits.mode, GuardMode::Staged);
    assert_eq!(p.budgets.session.turns, Some(9));
    assert_eq!(p.budgets.session.runtime_ms, None);
}

#[test]
fn higher_layers_override_single_values_and_origins_are_tracked() {
    let file = parse(
        "budgets:\n  session: {runtime: 1h, turns: 10}\n  turn: {timeout: 5m}\nrules: [{name: a, when: 'true'}, {name: b, when: 'true'}]\n",
        PolicyFormat::Yaml,
        "flyball.yaml",
    )
    .unwrap();
    let workflow = PolicyLayer::from_value(
        ValueOrigin::Workflow { name: "build".into() },
        json!({"budgets": {"session": {"turns": 20}}, "nodes": {"n": {"turns": 2}},
            "rules": [{"name": "b", "when": "false"}, {"name": "c", "when": "true"}]}),
    );
    let vars = [("FLYBALL_BUDGETS__TURN__TIMEOUT", "2m"), ("DEX_MAX_REPETITIONS", "9")];
    let vars = vars.map(|(k, v)| (k.to_owned(), v.to_owned()));
    let env = from_environment(vars.into_iter()).unwrap().unwrap();
    let set = from_set(&["guards.repetition.limit=4".to_owned(), "preset=simple".to_owned()]).unwrap();
    let r = resolve(&[file, workflow, env, set], Preset::Workflow).unwrap();
    let budgets = &r.policy.budgets;
    assert_eq!(budgets.session.runtime_ms, Some(3_600_000));
    assert_eq!(budgets.session.turns, Some(20));
    assert_eq!(budgets.turn.timeout_ms, Some(120_000));
    assert_eq!(r.policy.guards.repetition.limit, Some(4));
    let names: Vec<&str> = r.policy.rules.iter().map(super::super::PolicyRule::name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(r.policy.rules[1].when(), "false");
    let origin = |path: &str| r.origins[path].origin.to_string();
    assert_eq!(origin("budgets.session.runtime"), "flyball.yaml");
    assert_eq!(r.origins["budgets.session.runtime"].position.unwrap().line, 2);
    assert_eq!(r.origins["budgets.session.runtime"].position.unwrap().column, 13);
    assert_eq!(origin("budgets.session.turns"), "build");
    assert_eq!(origin("budgets.turn.timeout"), "FLYBALL_BUDGETS__TURN__TIMEOUT");
    assert_eq!(origin("guards.repetition.limit"), "--set");
    assert_eq!(origin("guards.repetition.blocks"), "default");
    assert_eq!(origin("guards.visits.limit"), "preset simple");
    assert_eq!(origin("preset"), "--set");
    assert_eq!(origin("nodes.n.turns"), "build");
    assert_eq!(origin("rules.b"), "build");
    assert_eq!(origin("rules.a"), "flyball.yaml");
}

#[test]
fn every_effective_value_has_an_origin() {
    let r = resolve_ok(SAMPLE);
    let mut leaves = Vec::new();
    super::collect_leaves(&r.effective, &mut Vec::new(), &mut leaves);
    assert!(leaves.len() > 80, "{}", leaves.len());
    for (path, _) in leaves {
        assert!(r.origins.contains_key(&super::join_path(&path)), "{path:?}");
    }
}

#[test]
fn guard_mode_may_be_a_bare_keyword() {
    let p = resolve_ok("guards: {visits: off, cycle: observe, stall: false, denial: {mode: halt}, gate: true}\ntools: {bash: {repetition: warn}}\nnodes: {loop: {allow_cycles: true}}").policy;
    assert_eq!(p.guards.visits.mode, GuardMode::Off);
    assert_eq!(p.guards.cycle.mode, GuardMode::Observe);
    assert_eq!(p.guards.stall.mode, GuardMode::Off);
    assert_eq!(p.guards.denial.mode, GuardMode::Halt);
    assert_eq!(p.guards.gate.mode, GuardMode::Staged);
    assert_eq!(p.guards_for_tool("bash").repetition.mode, GuardMode::Warn);
    assert_eq!(p.guards_for_node("loop").cycle.mode, GuardMode::Off);
    assert!(p.node("loop").unwrap().allow_cycles);
}

#[test]
fn every_key_can_be_changed() {
    let p = resolve_ok(
        r#"
budgets: {mode: observe, warn_percent: 90, session: {wall: 1d, tool_calls: 100, tokens: 1_000}, loop: {runtime: 1h30m, cost_usd: $0.25}, message: {tool_calls: 10}}
guards:
  repetition: {result_aware: false, poll_limit: off}
  cycle: {calls: off, transitions: {self_loop: 4, max_history: 40}, outputs: {max_period: 8, repeats: 4}, blocks: 2}
  recurrence: {window: 20, stale: off, drift: 5, blocks: 1}
  transitions: {total: 50}
  stall: {turns: 20}
  error_streak: {window: 10, rate_percent: 50, warn_at: 2, blocks: off}
  retry: {base: 500, cap: 30s, jitter_percent: 0, max_cooldown: 5m, probe: 10s, trips: 2}
  gate: {unverified: block, order: seed, backpressure: false, dependencies: ["lint:build", "tests:build"]}
  confirmation: {language: ru, abort_on_reaching_max: true, aborts: 5, on_new_request: keep, ttl: off, texts: {ask: "Sure?"}}
  monologue: {similarity: 90, chant: 6}
  large_response: {threshold: 100, preview: 10}
escalate: false
notify: true
releases: {grant: 1, ceiling: 0}
labels: {prefix: x-}
"#,
    )
    .policy;
    assert_eq!(p.budgets.session.wall_ms, Some(86_400_000));
    assert_eq!(p.budgets.session.tokens, Some(1_000));
    assert_eq!(p.budgets.loops.runtime_ms, Some(5_400_000));
    assert_eq!(p.budgets.loops.cost_micro_usd, Some(250_000));
    assert_eq!(p.guards.repetition.poll_limit, None);
    assert_eq!(p.guards.cycle.calls.max_period, None);
    assert_eq!(p.guards.cycle.outputs.repeats, 4);
    assert_eq!(p.guards.recurrence.stale, None);
    assert_eq!(p.guards.error_streak.blocks, None);
    assert_eq!(p.guards.retry.limits.base_ms, 500);
    assert_eq!(p.guards.retry.limits.jitter_percent, 0);
    assert_eq!(p.guards.gate.unverified, UnverifiedAction::Block);
    assert_eq!(p.guards.gate.dependencies.len(), 2);
    assert_eq!(p.guards.confirmation.language, LanguageSetting::Ru);
    assert_eq!(p.guards.confirmation.ttl_ms, None);
    assert_eq!(p.guards.confirmation.aborts, Some(5));
    assert_eq!(p.guards.confirmation.on_new_request, NewRequestAction::Keep);
    assert_eq!(p.guards.confirmation.texts["ask"], "Sure?");
    assert_eq!(p.guards.monologue.similarity_percent, 90);
    assert_eq!(p.guards.large_response.preview, 10);
    assert!(!p.escalate && p.notify);
    assert_eq!((p.releases.grant, p.releases.ceiling), (1, 0));
    assert_eq!(p.labels.prefix, "x-");
}

#[test]
fn all_errors_are_reported_in_position_order() {
    let errors =
        resolve_yaml("nodes: {a: {max_visits: 0}}\nguards: {visit: off, stall: {diff: 1}}\npreset: none\n")
            .unwrap_err();
    let found: Vec<(Option<u32>, &str)> = errors.iter().map(|e| (e.line, e.code.as_str())).collect();
    assert_eq!(
        found,
        [
            (Some(1), "policy_range"),
            (Some(2), "policy_unknown_guard"),
            (Some(2), "policy_range"),
            (Some(3), "policy_type")
        ]
    );
    assert!(
        errors
            .to_string()
            .starts_with("flyball.yaml:1:13: policy_range: 'max_visits' must be at least 1\n  write off")
    );
}

#[test]
fn error_in_an_overridden_value_is_still_reported() {
    let low = parse("budgets: {turn: {timeout: soon}}", PolicyFormat::Yaml, "low.yaml").unwrap();
    let high = layer(json!({"budgets": {"turn": {"timeout": "1m"}}}));
    let errors = resolve(&[low, high], Preset::Agent).unwrap_err();
    assert_eq!(errors.iter().next().unwrap().file, "low.yaml");
}

#[test]
fn equal_values_under_two_keys_do_not_conflict() {
    resolve_ok("resilience: {max_runtime: 4h}\nbudgets: {session: {runtime: 14400000}}");
    resolve_ok("edges: {a->b: {max_transitions: 3}, a→b: {transitions: {limit: 3}}}");
}

#[test]
fn empty_sections_and_files_change_nothing() {
    for text in [
        "",
        "# nothing\n",
        "guards:\nnodes:\nbudgets:\nrules:\nphases:\nloop_policy:\n",
        "nodes: {a: {}}",
        "guards: {visits: }",
        "{}",
    ] {
        let p = resolve_ok(text).policy;
        assert_eq!(p.guards, Policy::preset(Preset::Workflow).guards, "{text}");
    }
}

#[test]
fn policy_may_be_a_preset_name_or_a_workflow_section() {
    assert_eq!(
        resolve(&[layer(json!("strict"))], Preset::Agent).unwrap().policy,
        Policy::preset(Preset::Strict)
    );
    let file =
        parse("name: x\npolicy:\n  guards: {visits: {limt: 1}}\n", PolicyFormat::Yaml, "w.yaml").unwrap();
    let below = file.sublayer(&["policy"], ValueOrigin::Workflow { name: "w.yaml".into() }).unwrap();
    let errors = resolve(&[below], Preset::Workflow).unwrap_err();
    let error = errors.iter().next().unwrap();
    assert_eq!((error.line, error.column, error.path.as_str()), (Some(3), Some(21), "guards.visits.limt"));
    assert!(file.sublayer(&["nothing"], ValueOrigin::Inline).is_none());
}

#[test]
fn malformed_trees_are_errors_not_panics() {
    for tree in [
        json!(5),
        json!([1]),
        json!({"guards": [1]}),
        json!({"nodes": {"a": []}}),
        json!({"budgets": 3}),
        json!({"rules": [1]}),
    ] {
        assert!(resolve(&[layer(tree.clone())], Preset::Agent).is_err(), "{tree}");
    }
    let mut deep = json!({});
    for _ in 0..60 {
        deep = json!({ "a": deep });
    }
    assert!(resolve(&[layer(json!({ "guards": deep }))], Preset::Agent).is_err());
}

#[test]
fn digest_depends_on_values_not_spelling() {
    let a = resolve_ok("budgets: {session: {runtime: 2h}}\nguards: {visits: off}");
    let b = resolve_ok("guards: {visits: {mode: off}}\nbudgets: {session: {runtime: 7200000}}");
    let c = resolve_ok("budgets: {session: {runtime: 3h}}");
    assert_eq!(a.policy.digest, b.policy.digest);
    assert_ne!(a.policy.digest, c.policy.digest);
    assert_eq!(a.policy.digest.len(), 32);
}

#[test]
fn at_most_64_rules_over_all_layers() {
    let rules = |prefix: &str, n: usize| {
        let list: Vec<Value> =
            (0..n).map(|i| json!({"name": format!("{prefix}{i}"), "when": "true"})).collect();
        layer(json!({ "rules": list }))
    };
    assert!(resolve(&[rules("a", 40), rules("a", 40)], Preset::Agent).is_ok());
    let errors = resolve(&[rules("a", 40), rules("b", 40)], Preset::Agent).unwrap_err();
    assert_eq!(errors.iter().next().unwrap().code, PolicyErrorCode::Rule);
}

#[test]
fn on_error_does_not_change_the_policy_digest() {
    let of = |text: &str| resolve(&[parse(text, PolicyFormat::Yaml, "flyball.yaml").unwrap()], Preset::Agent);
    let plain = of("preset: agent").unwrap().policy;
    assert_eq!(plain.on_error, OnErrorAction::Reads);
    for (word, value) in
        [("allow", OnErrorAction::Allow), ("reads", OnErrorAction::Reads), ("block", OnErrorAction::Block)]
    {
        let policy = of(&format!("on_error: {word}")).unwrap().policy;
        assert_eq!((policy.on_error, &policy.digest), (value, &plain.digest));
    }
    let wrong = of("on_error: panic").unwrap_err();
    assert!(wrong.iter().any(|error| error.help.contains("reads")), "{wrong:?}");
    let layer = PolicyLayer::from_value(ValueOrigin::Inline, json!({"on_error": "allow"}));
    let brought = resolve(&[layer], Preset::Agent).unwrap_err();
    assert!(brought.iter().all(|error| error.code == PolicyErrorCode::Forbidden), "{brought:?}");
}
