//! From the written policy through the toolbox to the verdict about a call.

use crate::kit::Place;
use flyball_run::tools::{CommandTool, Risk, RiskPolicy, ToolboxOptions, Verdict};
use serde_json::{Value, json};

fn place(risk: Value) -> Place {
    let command = |name: &str, risk: Option<Risk>| CommandTool {
        name: name.into(),
        description: "does something".into(),
        schema: json!({"type": "object"}),
        argv: vec!["true".into()],
        risk,
    };
    Place::with(
        "risks",
        ToolboxOptions {
            commands: vec![command("deploy", Some(Risk::Destructive)), command("mystery", None)],
            risk: RiskPolicy::from_json(&risk).expect("a policy"),
            ..ToolboxOptions::default()
        },
    )
}

fn assess(place: &Place, tool: &str, args: Value) -> (Risk, Verdict) {
    let found = place.toolbox.assess(tool, &args).expect("a call that makes sense");
    assert!(!found.why.is_empty());
    (found.risk, found.verdict)
}

#[test]
fn the_defaults() {
    let place = place(json!({}));
    place.put("old.txt", "");
    let shell = |command: &str| assess(&place, "shell", json!({"command": command}));
    assert_eq!(assess(&place, "read", json!({"path": "x"})), (Risk::Safe, Verdict::Allow));
    assert_eq!(assess(&place, "search", json!({"pattern": "x"})), (Risk::Safe, Verdict::Allow));
    assert_eq!(
        assess(&place, "write", json!({"path": "x", "content": ""})),
        (Risk::Moderate, Verdict::Allow)
    );
    let edit = |path: &str| assess(&place, "edit", json!({"path": path, "old": "a", "new": "b"}));
    assert_eq!(edit("x"), (Risk::Moderate, Verdict::Allow));
    assert_eq!(edit(".git/hooks/pre-commit"), (Risk::Unknown, Verdict::Confirm));
    assert_eq!(shell("ls"), (Risk::Safe, Verdict::Allow));
    assert_eq!(shell("cargo test"), (Risk::Moderate, Verdict::Allow));
    assert_eq!(shell("rm -rf build"), (Risk::Destructive, Verdict::Confirm));
    assert_eq!(shell("eval x"), (Risk::Unknown, Verdict::Confirm));
    // A new file is work, an old one written over is gone; the workspace knows which it is.
    assert_eq!(shell("echo x > new.txt"), (Risk::Moderate, Verdict::Allow));
    assert_eq!(shell("echo x > old.txt"), (Risk::Destructive, Verdict::Confirm));
    assert_eq!(
        shell(&format!("echo x > {}/old.txt", place.work.display())),
        (Risk::Destructive, Verdict::Confirm)
    );
    assert_eq!(assess(&place, "deploy", json!({})), (Risk::Destructive, Verdict::Confirm));
    assert_eq!(assess(&place, "mystery", json!({})), (Risk::Unknown, Verdict::Confirm));
}

#[test]
fn what_the_operator_writes_wins() {
    let place = place(json!({"unknown": "refuse", "tools": {"deploy": "allow", "write": "destructive"}}));
    assert_eq!(assess(&place, "mystery", json!({})), (Risk::Unknown, Verdict::Refuse));
    assert_eq!(assess(&place, "deploy", json!({})), (Risk::Destructive, Verdict::Allow));
    let write = assess(&place, "write", json!({"path": "x", "content": ""}));
    assert_eq!(write, (Risk::Destructive, Verdict::Confirm));
}

#[test]
fn a_call_that_makes_no_sense_has_no_risk() {
    let place = place(json!({}));
    assert_eq!(place.toolbox.assess("nothing", &json!({})).expect_err("a mistake").code, "unknown_tool");
    assert_eq!(place.toolbox.assess("shell", &json!({})).expect_err("a mistake").code, "missing_field");
}

#[test]
fn the_effects_of_a_policy_are_classes_too() {
    use flyball::policy::Effect;
    let classes = [Effect::Read, Effect::Poll, Effect::Write, Effect::Destructive].map(Risk::from);
    assert_eq!(classes, [Risk::Safe, Risk::Safe, Risk::Moderate, Risk::Destructive]);
}
