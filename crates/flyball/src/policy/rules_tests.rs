//! Conditions that hold, conditions that do not, and conditions that are refused.

use serde_json::{Value, json};

use super::{Counters, Mode, Rule, RuleError};

fn event() -> Value {
    json!({
        "type": "tool.requested", "tool": "bash", "at": 5,
        "args": {"command": "rm -rf /", "tags": ["a", "b"], "z": 1, "b": 2, "big": u64::MAX, "ratio": 0.5}
    })
}

fn counters() -> Counters {
    Counters {
        calls: 51,
        errors: 3,
        state: "running".to_owned(),
        node: "coder".to_owned(),
        ..Counters::default()
    }
}

fn eval(when: &str) -> Result<bool, RuleError> {
    Rule::new("r", when, Mode::Block, "m")?.eval(&event(), &counters())
}

#[test]
fn conditions_give_true_or_false() {
    let cases = [
        ("true", true),
        ("event.type == 'tool.requested' && event.tool == 'bash' && session.calls > 50", true),
        ("event.tool == 'deploy'", false),
        ("event.args.command.contains('rm -rf')", true),
        ("event.args.command.startsWith('ls') || session.errors >= 3", true),
        ("event.args.tags.exists(t, t == 'b')", true),
        ("event.args.tags.all(t, t == 'b')", false),
        ("size(event.args.tags.filter(t, t != 'a')) == 1", true),
        ("'a' in event.args.tags", true),
        ("'command' in event.args", true),
        ("has(event.args.command) && !has(event.args.nothing)", true),
        ("event.at + 1 == 6", true),
        ("event.args.big > 5", true),
        ("event.args.ratio < 1.0", true),
        ("event['tool'] == 'bash'", true),
        ("session.state == 'running' && session.node == 'coder'", true),
        ("event.args.exists(k, k == 'z')", true),
        ("event.args == event.args", true),
        ("session.calls > 10 ? event.tool == 'bash' : false", true),
        // A field that the event lacks decides nothing.
        ("event.nothing == 1", false),
        ("event.args.nothing.deeper == 1", false),
        ("event.nothing == 1 || event.tool == 'bash'", true),
        ("!(event.nothing == 1)", false),
    ];
    for (when, expected) in cases {
        assert_eq!(eval(when), Ok(expected), "{when}");
    }
}

#[test]
fn walking_a_map_has_a_fixed_order() {
    for _ in 0..20 {
        assert_eq!(eval("event.args.map(k, k)[0] == 'b'"), Ok(true));
    }
}

#[test]
fn conditions_that_cannot_be_used_are_refused_when_loaded() {
    let nested = "event.a.exists(x, event.b.exists(y, x == y))";
    let parts = vec!["1 < 2"; 80].join("||");
    let deep = format!("{}true{}", "(".repeat(60), ")".repeat(60));
    let minus = format!("{}1 > 0", "-".repeat(200));
    let long = format!("event.tool == '{}'", "x".repeat(1_000));
    type Check = fn(&RuleError) -> bool;
    let cases: &[(&str, Check)] = &[
        ("", |e| matches!(e, RuleError::Syntax(_))),
        ("event.", |e| matches!(e, RuleError::Syntax(_))),
        ("event.tool = 'x'", |e| matches!(e, RuleError::Syntax(_))),
        (&long, |e| *e == RuleError::TooLong),
        (&parts, |e| *e == RuleError::TooLarge),
        (&deep, |e| *e == RuleError::TooLarge),
        (&minus, |e| *e == RuleError::TooLarge),
        (nested, |e| *e == RuleError::Nested),
        ("{'a': 1}.a == 1", |e| *e == RuleError::Literal),
        ("foo == 1", |e| *e == RuleError::UnknownName("foo".to_owned())),
        ("session.call > 1", |e| *e == RuleError::UnknownCounter("call".to_owned())),
        ("now() > 1", |e| *e == RuleError::UnknownFunction("now".to_owned())),
        ("event.tool.matches('a')", |e| *e == RuleError::UnknownFunction("matches".to_owned())),
        ("timestamp('x') == 1", |e| *e == RuleError::UnknownFunction("timestamp".to_owned())),
        ("1 + 1", |e| matches!(e, RuleError::NotBool(_))),
        ("event.tool", |e| matches!(e, RuleError::NotBool(_))),
    ];
    for (when, expected) in cases {
        let error = Rule::new("r", when, Mode::Block, "m").unwrap_err();
        assert!(expected(&error), "{when}: {error:?}");
        assert!(!error.to_string().is_empty());
    }
    assert!(Rule::new("r", "true", Mode::Staged, "").is_err());
}

#[test]
fn a_condition_that_fails_on_an_event_says_so_without_showing_the_event() {
    let error = eval("event.tool + 1 == 2").unwrap_err();
    assert!(!error.to_string().contains("bash"), "{error}");
    assert_eq!(
        eval("1 / (session.turns) == 1").unwrap_err(),
        RuleError::Failed("division by zero".to_owned())
    );
    assert!(matches!(eval("event.args.tags[7] == 'a'"), Err(RuleError::Failed(_))));
}

#[test]
fn many_rules_are_asked_about_one_event() {
    let facts = super::Facts::new(&event(), &counters());
    let rule = Rule::new("r", "session.calls == 51", Mode::Warn, "m").unwrap();
    assert_eq!(rule.holds(&facts), Ok(true));
    assert_eq!(rule.holds(&facts), Ok(true));
    assert_eq!((rule.name(), rule.decision(), rule.message()), ("r", Mode::Warn, "m"));
    assert_eq!(rule, rule.clone());
    assert!(format!("{rule:?}").contains("session.calls == 51"));
}
