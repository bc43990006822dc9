//! Verdicts on calls, from the configured policy through the toolbox.

use crate::harness::ToolHarness;
use flyball_runner::tools::{CommandTool, Risk, RiskPolicy, RiskVerdict, ToolboxOptions};
use serde_json::{Value, json};

fn harness(risk: Value) -> ToolHarness {
    let command = |name: &str, risk: Option<Risk>| CommandTool {
        name: name.into(),
        description: "does something".into(),
        schema: json!({"type": "object"}),
        argv: vec!["true".into()],
        risk,
    };
    ToolHarness::with(
        "risks",
        ToolboxOptions {
            commands: vec![command("deploy", Some(Risk::Destructive)), command("mystery", None)],
            risk: RiskPolicy::from_json(&risk).expect("a policy"),
            ..ToolboxOptions::default()
        },
    )
}

fn assess(place: &ToolHarness, tool: &str, args: Value) -> (Risk, RiskVerdict) {
    let found = place.toolbox.assess(tool, &args).expect("a valid call");
    assert!(!found.why.is_empty());
    (found.risk, found.verdict)
}

#[test]
fn default_risk_verdicts_apply() {
    let place = harness(json!({}));
    place.put("old.txt", "");
    let shell = |command: &str| assess(&place, "shell", json!({"command": command}));
    assert_eq!(assess(&place, "read", json!({"path": "x"})), (Risk::Safe, RiskVerdict::Allow));
    assert_eq!(assess(&place, "search", json!({"pattern": "x"})), (Risk::Safe, RiskVerdict::Allow));
    assert_eq!(
        assess(&place, "write", json!({"path": "x", "content": ""})),
        (Risk::Moderate, RiskVerdict::Allow)
    );
    let edit = |path: &str| assess(&place, "edit", json!({"path": path, "old": "a", "new": "b"}));
    assert_eq!(edit("x"), (Risk::Moderate, RiskVerdict::Allow));
    assert_eq!(edit(".git/hooks/pre-commit"), (Risk::Unknown, RiskVerdict::Confirm));
    assert_eq!(shell("ls"), (Risk::Safe, RiskVerdict::Allow));
    assert_eq!(shell("cargo test"), (Risk::Moderate, RiskVerdict::Allow));
    assert_eq!(shell("rm -rf build"), (Risk::Destructive, RiskVerdict::Confirm));
    assert_eq!(shell("eval x"), (Risk::Unknown, RiskVerdict::Confirm));
    // Creating a file is ordinary work; overwriting one is destructive.
    assert_eq!(shell("echo x > new.txt"), (Risk::Moderate, RiskVerdict::Allow));
    assert_eq!(shell("echo x > old.txt"), (Risk::Destructive, RiskVerdict::Confirm));
    assert_eq!(
        shell(&format!("echo x > {}/old.txt", place.work.display())),
        (Risk::Destructive, RiskVerdict::Confirm)
    );
    assert_eq!(assess(&place, "deploy", json!({})), (Risk::Destructive, RiskVerdict::Confirm));
    assert_eq!(assess(&place, "mystery", json!({})), (Risk::Unknown, RiskVerdict::Confirm));
}

#[test]
fn configured_risk_policy_wins() {
    let place = harness(json!({"unknown": "refuse", "tools": {"deploy": "allow", "write": "destructive"}}));
    assert_eq!(assess(&place, "mystery", json!({})), (Risk::Unknown, RiskVerdict::Refuse));
    assert_eq!(assess(&place, "deploy", json!({})), (Risk::Destructive, RiskVerdict::Allow));
    let write = assess(&place, "write", json!({"path": "x", "content": ""}));
    assert_eq!(write, (Risk::Destructive, RiskVerdict::Confirm));
}

#[test]
fn invalid_call_is_not_assessed() {
    let place = harness(json!({}));
    assert_eq!(place.toolbox.assess("nothing", &json!({})).expect_err("an error").code, "unknown_tool");
    assert_eq!(place.toolbox.assess("shell", &json!({})).expect_err("an error").code, "missing_field");
}

#[test]
fn policy_effects_map_to_risk_classes() {
    use flyball::policy::ToolEffect;
    let classes =
        [ToolEffect::Read, ToolEffect::Poll, ToolEffect::Write, ToolEffect::Destructive].map(Risk::from);
    assert_eq!(classes, [Risk::Safe, Risk::Safe, Risk::Moderate, Risk::Destructive]);
}
