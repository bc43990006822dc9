//! Tests of tighten-only layers, value by value.

use super::*;
use crate::policy::{PolicyLayer, Preset, ToolEffect, resolve};
use crate::{PolicySource, RulesVersion};
use serde_json::json;

fn project_layer(tree: Value) -> PolicyLayer {
    PolicyLayer::from_value(ValueOrigin::File { name: "flyball.yaml".to_owned() }, tree).tighten_only()
}

fn trusted_layer(tree: Value) -> PolicyLayer {
    PolicyLayer::from_value(ValueOrigin::File { name: "user.yaml".to_owned() }, tree)
}

fn ignored_paths(layers: &[PolicyLayer]) -> Vec<String> {
    resolve(layers, Preset::Agent).unwrap().ignored.into_iter().map(|ignored| ignored.path).collect()
}

#[test]
fn loosening_values_of_a_project_are_ignored_and_reported() {
    let cases = [
        (json!({"preset": "off"}), "preset"),
        (json!({"preset": "observe"}), "preset"),
        (json!({"preset": false}), "preset"),
        (json!({"guards": {"repetition": "off"}}), "guards.repetition.mode"),
        (json!({"guards": {"repetition": {"mode": "block"}}}), "guards.repetition.mode"),
        (json!({"guards": {"repetition": {"limit": 6}}}), "guards.repetition.limit"),
        (json!({"guards": {"repetition": {"limit": "off"}}}), "guards.repetition.limit"),
        (json!({"guards": {"repetition": {"result_aware": false}}}), "guards.repetition.result_aware"),
        (json!({"guards": {"cycle": {"calls": {"max_period": 3}}}}), "guards.cycle.calls.max_period"),
        (json!({"guards": {"gate": {"backpressure": false}}}), "guards.gate.backpressure"),
        (json!({"guards": {"retry": {"cooldown": "1s"}}}), "guards.retry.cooldown"),
        (json!({"guards": {"confirmation": {"texts": {"yes": "x"}}}}), "guards.confirmation.texts.yes"),
        (json!({"budgets": {"session": {"runtime": "5h"}}}), "budgets.session.runtime"),
        (json!({"budgets": {"mode": "observe"}}), "budgets.mode"),
        (json!({"tools": {"bash": {"effect": "read"}}}), "tools.bash.effect"),
        (json!({"tools": {"bash": {"effect": "write"}}}), "tools.bash.effect"),
        (json!({"tools": {"bash": {"repetition": "off"}}}), "tools.bash.repetition.mode"),
        (json!({"nodes": {"a": {"allow_cycles": true}}}), "nodes.a.allow_cycles"),
        (
            json!({"edges": {"a->b": {"cycle": {"transitions": {"repeats": 9}}}}}),
            "edges.a->b.cycle.transitions.repeats",
        ),
        (json!({"releases": {"ceiling": 100}}), "releases.ceiling"),
        (json!({"labels": {"prefix": "x-"}}), "labels.prefix"),
        (json!({"escalate": false}), "escalate"),
        (json!({"on_error": "allow"}), "on_error"),
        (json!({"on_stall": "pause"}), "on_stall"),
        (json!({"rules_version": 1}), "rules_version"),
        (json!({"journal": {"redact": false}}), "journal.redact"),
        (json!({"journal": {"patterns": [".*"]}}), "journal.patterns"),
        (json!({"journal": {"deliver": [{"effects": ["*"], "command": ["./x"]}]}}), "journal.deliver"),
        (json!({"journal": {"retention": "1s"}}), "journal.retention"),
        (json!({"loop_prevention": {"enabled": false}}), "guards.visits.mode"),
        (json!({"resilience": {"max_consecutive_repetitions": 500}}), "guards.repetition.limit"),
    ];
    let plain = resolve(&[], Preset::Agent).unwrap();
    for (tree, path) in cases {
        let resolved = resolve(&[project_layer(tree.clone())], Preset::Agent).unwrap();
        let found: Vec<&str> = resolved.ignored.iter().map(|ignored| ignored.path.as_str()).collect();
        assert!(found.contains(&path), "{tree}: {found:?}");
        assert_eq!(resolved.policy.digest, plain.policy.digest, "{tree}");
        assert_eq!(
            (&resolved.policy.journal, resolved.policy.on_error),
            (&plain.policy.journal, plain.policy.on_error)
        );
        assert!(
            resolved
                .warnings
                .iter()
                .any(|warning| warning.code == IgnoredValue::CODE && warning.help.contains("flyball trust"))
        );
        // The same file applies once it is trusted.
        let full = resolve(&[trusted_layer(tree.clone())], Preset::Agent).unwrap();
        assert!(full.ignored.is_empty() && full.policy != plain.policy, "{tree}");
    }
}

#[test]
fn untrusted_off_and_observe_presets_loosen_nothing() {
    let plain = resolve(&[], Preset::Agent).unwrap();
    for preset in [Preset::Off, Preset::Observe] {
        let tree = resolve(&[], preset).unwrap().effective;
        let resolved = resolve(&[project_layer(tree)], Preset::Agent).unwrap();
        assert_eq!(compare_policies(&plain, &resolved).1, [] as [String; 0], "{preset:?}");
        assert_eq!(resolved.policy.guards.repetition, plain.policy.guards.repetition);
        assert_eq!(
            (resolved.policy.on_error, &resolved.policy.journal),
            (plain.policy.on_error, &plain.policy.journal)
        );
    }
}

#[test]
fn stricter_values_of_a_project_apply() {
    let tree = json!({
        "guards": {"repetition": {"limit": 2, "mode": "halt"}, "visits": {"limit": 3}},
        "budgets": {"session": {"turns": 5, "cost_usd": 1}},
        "on_error": "block", "releases": {"ceiling": 1}, "notify": true,
        "tools": {"bash": {"repetition": {"limit": 1}}, "deploy": {"effect": "destructive"}},
        "rules": [{"name": "no-prod", "when": "event.tool == 'deploy'", "decision": "block"}],
    });
    let resolved = resolve(&[project_layer(tree.clone())], Preset::Agent).unwrap();
    assert_eq!(resolved.ignored, []);
    assert_eq!(resolved.policy, resolve(&[trusted_layer(tree)], Preset::Agent).unwrap().policy);
}

#[test]
fn a_destructive_tool_tightens_only_where_approvals_are_required() {
    let tool = json!({"tools": {"deploy": {"effect": "destructive"}}});
    for (mode, ignored) in [("staged", 0), ("block", 0), ("halt", 0), ("warn", 1), ("observe", 1), ("off", 1)]
    {
        let user = trusted_layer(json!({"guards": {"confirmation": mode}}));
        let resolved = resolve(&[user, project_layer(tool.clone())], Preset::Agent).unwrap();
        assert_eq!(resolved.ignored.len(), ignored, "{mode}");
    }
    let declared = trusted_layer(tool);
    let looser = project_layer(json!({"tools": {"deploy": {"effect": "read"}}}));
    let resolved = resolve(&[declared, looser], Preset::Agent).unwrap();
    assert_eq!(
        (resolved.ignored.len(), resolved.policy.tool_effect("deploy")),
        (1, Some(ToolEffect::Destructive))
    );
}

#[test]
fn stricter_project_preset_tightens_without_replacing_the_preset() {
    let resolved = resolve(&[project_layer(json!({"preset": "strict"}))], Preset::Agent).unwrap();
    let strict = Policy::preset(Preset::Strict);
    assert_eq!(resolved.ignored, []);
    assert_eq!(resolved.policy.preset, Preset::Agent);
    assert_eq!(resolved.policy.guards.repetition, strict.guards.repetition);
    assert_eq!(resolved.policy.budgets.session, strict.budgets.session);
}

#[test]
fn project_rules_are_added_but_replace_none() {
    let own = json!({"rules": [{"name": "a", "when": "event.tool == 'x'", "decision": "halt"}]});
    let theirs = json!({"rules": [
        {"name": "a", "when": "false", "decision": "observe"},
        {"name": "b", "when": "event.tool == 'y'", "decision": "block"},
    ]});
    // In either order of the layers.
    for layers in [
        [trusted_layer(own.clone()), project_layer(theirs.clone())],
        [project_layer(theirs.clone()), trusted_layer(own.clone())],
    ] {
        let resolved = resolve(&layers, Preset::Agent).unwrap();
        let rules: Vec<_> = resolved.policy.rules.iter().map(|rule| (rule.name(), rule.when())).collect();
        assert_eq!(rules, [("a", "event.tool == 'x'"), ("b", "event.tool == 'y'")]);
        assert_eq!(ignored_paths(&layers), ["rules.a"]);
    }
}

#[test]
fn project_tool_value_never_undoes_a_stricter_global_value() {
    let tool = project_layer(json!({"tools": {"bash": {"repetition": {"limit": 4}}}}));
    let caller =
        PolicyLayer::from_value(ValueOrigin::CommandLine, json!({"guards": {"repetition": {"limit": 2}}}));
    let resolved = resolve(&[tool.clone(), caller], Preset::Agent).unwrap();
    assert_eq!(resolved.policy.guards_for_tool("bash").repetition.limit, Some(2));
    assert_eq!(resolved.ignored.len(), 1);
    // Naming a tool would exempt its calls from the limits of a node.
    let nodes = trusted_layer(json!({"nodes": {"deploy": {"repetition": {"limit": 1}}}}));
    assert_eq!(ignored_paths(&[nodes, tool]), ["tools.bash"]);
}

#[test]
fn caller_values_override_project_values() {
    let file = project_layer(json!({"guards": {"repetition": {"limit": 3}}}));
    let caller =
        PolicyLayer::from_value(ValueOrigin::CommandLine, json!({"guards": {"repetition": {"limit": 10}}}));
    let resolved = resolve(&[file, caller], Preset::Agent).unwrap();
    assert_eq!(resolved.policy.guards.repetition.limit, Some(10));
}

#[test]
fn stored_policy_source_keeps_tighten_only_layers() {
    let tree = json!({"preset": "off", "guards": {"repetition": {"limit": 2}},
        "rules": [{"name": "r", "when": "event.tool == 'x'"}]});
    let source = PolicySource::new(vec![project_layer(tree)], Preset::Agent).unwrap();
    let back = PolicySource::from_json(&source.to_json()).unwrap();
    assert_eq!(back.base(), source.base());
    assert_eq!(back.to_json(), source.to_json());
    assert_eq!(back.base().guards.repetition.limit, Some(2));
    // Ignored values are not stored, so a reader without the notion of trust gives the same decisions.
    let unaware =
        source.to_json().replace(r#","tightens":"project""#, "").replace(r#""tightens":"project","#, "");
    assert!(!unaware.contains("tightens") && !unaware.contains(r#""preset":"off""#), "{unaware}");
    assert_eq!(PolicySource::from_json(&unaware).unwrap().base(), source.base());
}

#[test]
fn newer_policy_tightens_at_once_and_loosening_waits_for_a_person() {
    let old = PolicySource::new(
        vec![trusted_layer(
            json!({"guards": {"repetition": {"limit": 4}}, "tools": {"x": {"repetition": {"limit": 1}}}}),
        )],
        Preset::Agent,
    )
    .unwrap();
    let newer = PolicySource::new(
        vec![trusted_layer(json!({"guards": {"repetition": {"limit": 9}, "recurrence": {"limit": 3}}}))],
        Preset::Agent,
    )
    .unwrap();
    let change = old.tightened_by(&newer, ["a", "b"]).unwrap();
    let policy = change.source.base();
    assert_eq!(policy.guards.repetition.limit, Some(4));
    assert_eq!(policy.guards.recurrence.limit, Some(3));
    assert_eq!(policy.guards_for_tool("x").repetition.limit, Some(1));
    assert_eq!(change.waiting, ["guards.repetition.limit", "tools.x.repetition.limit"]);
    assert!(change.source.was_compared_with("a") && change.source.was_compared_with("b"));
    let back = PolicySource::from_json(&change.source.to_json()).unwrap();
    assert_eq!((back.to_json(), back.base()), (change.source.to_json(), policy));
    assert_eq!(back.base().rules_version, RulesVersion::LATEST);
    // Tightened values also apply to sessions with an inline policy.
    let inline = back.resolve_inline(&json!({"guards": {"recurrence": {"limit": 50}}})).unwrap();
    assert_eq!(inline.policy.guards.recurrence.limit, Some(3));
    // A third policy still adds only one layer of changes.
    let third = PolicySource::new(
        vec![trusted_layer(json!({"guards": {"recurrence": {"limit": 2}}}))],
        Preset::Agent,
    )
    .unwrap();
    let again = back.tightened_by(&third, ["b", "c"]).unwrap();
    assert_eq!(again.source.base().guards.recurrence.limit, Some(2));
    assert_eq!(again.source.to_json().matches("tightens").count(), 1);
}
