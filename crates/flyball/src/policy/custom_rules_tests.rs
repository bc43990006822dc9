//! Tests of rule conditions: true, false and rejected ones.

use serde_json::{Value, json};

use super::{GuardMode, PolicyRule, RuleError, RuleNames, SessionCounters};

fn event() -> Value {
    json!({
        "type": "tool.requested", "tool": "bash", "at": 5,
        "args": {"command": "rm -rf /", "tags": ["a", "b"], "z": 1, "b": 2, "big": u64::MAX, "ratio": 0.5}
    })
}

fn counters() -> SessionCounters {
    SessionCounters {
        calls: 51,
        errors: 3,
        state: "running".to_owned(),
        node: "coder".to_owned(),
        ..SessionCounters::default()
    }
}

fn eval(when: &str) -> Result<bool, RuleError> {
    PolicyRule::new("r", when, GuardMode::Block, "m")?.eval(&event(), &counters())
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
        // A missing field makes a comparison false.
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
fn map_iteration_order_is_fixed() {
    for _ in 0..20 {
        assert_eq!(eval("event.args.map(k, k)[0] == 'b'"), Ok(true));
    }
}

#[test]
fn unusable_conditions_are_rejected_at_load() {
    let nested = "event.a.exists(x, event.b.exists(y, x == y))";
    let parts = vec!["1 < 2"; 80].join("||");
    let deep = format!("{}true{}", "(".repeat(60), ")".repeat(60));
    let minus = format!("{}1 > 0", "-".repeat(200));
    let long = format!("event.tool == '{}'", "x".repeat(1_000));
    type RuleErrorCheck = fn(&RuleError) -> bool;
    let cases: &[(&str, RuleErrorCheck)] = &[
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
        let error = PolicyRule::new("r", when, GuardMode::Block, "m").unwrap_err();
        assert!(expected(&error), "{when}: {error:?}");
        assert!(!error.to_string().is_empty());
    }
    assert!(PolicyRule::new("r", "true", GuardMode::Staged, "").is_err());
}

#[test]
fn evaluation_error_does_not_leak_event_content() {
    let error = eval("event.tool + 1 == 2").unwrap_err();
    assert!(!error.to_string().contains("bash"), "{error}");
    assert_eq!(
        eval("1 / (session.turns) == 1").unwrap_err(),
        RuleError::Failed("division by zero".to_owned())
    );
    assert!(matches!(eval("event.args.tags[7] == 'a'"), Err(RuleError::Failed(_))));
}

#[test]
fn one_rule_input_serves_many_rules() {
    let facts = super::RuleInput::new(&event(), &counters());
    let rule = PolicyRule::new("r", "session.calls == 51", GuardMode::Warn, "m").unwrap();
    assert_eq!(rule.matches(&facts), Ok(true));
    assert_eq!(rule.matches(&facts), Ok(true));
    assert_eq!((rule.name(), rule.decision(), rule.message()), ("r", GuardMode::Warn, "m"));
    assert_eq!(rule, rule.clone());
    assert!(format!("{rule:?}").contains("session.calls == 51"));
}

fn check(when: &str) -> Result<(), RuleError> {
    PolicyRule::new("r", when, GuardMode::Block, "m")?.check(RuleNames::Policy)
}

#[test]
fn conditions_that_can_hold_pass_the_check() {
    for when in [
        "true",
        "event.type == 'tool.requested' && event.tool == 'bash' && session.calls > 50",
        "event.args.command.contains('rm -rf') || event.args.anything.deeper[0] > 3",
        "event.type in ['tool.requested', 'tool.finished'] && event.tool.startsWith('mcp__')",
        "event.type.startsWith('tool.') && size(event.tool) > 5",
        "has(event.node) && event.node != 'test'",
        "event.usage.tokens_in + event.usage.tokens_out > 1000 || event.usage.cost_usd > 0.5",
        "event['my_own_field'] == 3 && 'my_own_field' in event",
        "event.failing.exists(t, t.contains('auth')) || size(event.failing) > 3",
        "event.checks.exists(c, c.name == 'tests' && !c.passed)",
        "event.labels.exists(k, k == 'team')",
        "session.state == 'blocked' ? event.final : event.ok",
        "event.at > 5 && event.at % 2 == 0 && -event.at < 0",
        "event.round == 3 || event.round == 'a'",
        "event.type == 'turn.finished' && event.outcome == 'failure'",
        "event.type == 'user.message' && event.origin == 'human' && event.text.endsWith('?')",
        "event.type == 'tool.requested' || event.text == 'x'",
        "!(event.type == 'tool.requested') && event.text == 'x'",
        "string(event.at) == '5' || int(event.text) > 3",
        "event.value > 3 && event.value > 3.5",
        "event.node == null",
    ] {
        assert_eq!(check(when), Ok(()), "{when}");
    }
}

#[test]
fn conditions_that_never_hold_or_always_fail_are_rejected() {
    for (when, what, help) in [
        ("event.tools == 'bash'", "unknown field 'event.tools'", "did you mean 'event.tool'?"),
        ("event.nothing.like.it == 1", "unknown field 'event.nothing'", "event['nothing']"),
        ("has(event.nod)", "unknown field 'event.nod'", "did you mean 'event.node'?"),
        ("event.text.exists(t, event.tol == t)", "cannot iterate over a string", ""),
        ("event.failing.exists(t, event.tol == t)", "unknown field 'event.tol'", "did you mean"),
        ("session.cals > 1", "unknown counter 'session.cals'", "did you mean 'session.calls'?"),
        (
            "event.type == 'tool.request'",
            "'event.type' is never 'tool.request'",
            "did you mean 'tool.requested'?",
        ),
        ("event.type in ['tool.requested', 'x']", "'event.type' is never 'x'", "expected one of"),
        ("'tool.request' == event.type", "'event.type' is never 'tool.request'", ""),
        ("session.state == 'stopped'", "'session.state' is never 'stopped'", "expected one of running"),
        ("event.origin == 'humn'", "'event.origin' is never 'humn'", "did you mean 'human'?"),
        (
            "event.type == 'tool.requested' && event.text == 'x'",
            "an event of type 'tool.requested' has no field 'text'",
            "call, tool, args",
        ),
        (
            "event.text == 'x' && (session.calls > 3 && event.type == 'tool.requested')",
            "an event of type 'tool.requested' has no field 'text'",
            "",
        ),
        ("event.type == 'compaction' && event.type == 'api.retry'", "an event cannot have two types", ""),
        ("event.tool == 5", "a string is never equal to a number", ""),
        ("session.calls == '5'", "a number is never equal to a string", ""),
        ("event.tool > 5", "cannot be applied to a string and a number", "compare values of the same type"),
        ("event.tool + 1 == 2", "cannot be applied to a string and a number", ""),
        ("session.calls > 5 && event.tool > 5", "cannot be applied to a string and a number", ""),
        ("event.at.contains('x')", "'contains' cannot be applied to a number and a string", ""),
        ("size(event.at) > 3", "'size' cannot be applied to a number", ""),
        ("event.tool && true", "expected a boolean, found a string", ""),
        ("!event.tool", "expected a boolean, found a string", ""),
        ("event.tool.name == 'x'", "a string has no field 'name'", ""),
        ("event.tool['x'] == 1", "a string has no elements", ""),
        ("event.usage.tokens > 3", "'usage' has no field 'tokens'", ""),
        ("event.failing['a'] == 'x'", "a list cannot be indexed with a string", ""),
    ] {
        let error = check(when).expect_err(when);
        assert!(error.to_string().contains(what), "{when}: {error}");
        assert!(error.help().contains(help), "{when}: {}", error.help());
    }
}

/// A condition that passes the check never fails on an event with all its fields.
#[test]
fn checked_conditions_evaluate_on_every_event_type() {
    let events = [
        event(),
        json!({"type": "user.message", "session": "s", "text": "hi", "origin": "human", "at": 7}),
        json!({"type": "progress", "session": "s", "signal": "tests", "failing": ["a"], "at": 7}),
        json!({"type": "turn.finished", "session": "s", "node": "n", "output": "o", "duration_ms": 3}),
    ];
    let operands = [
        "event.tool",
        "event.at",
        "event.failing",
        "event.final",
        "session.calls",
        "session.state",
        "'a'",
        "3",
        "1.5",
        "event.usage",
    ];
    let (mut passed, mut refused) = (0, 0);
    for operator in ["==", "!=", "<", ">=", "+", "-", "*", "in", "&&", "||"] {
        for left in operands {
            for right in operands {
                let when = format!("({left} {operator} {right}) == ({left} {operator} {right})");
                let Ok(rule) = PolicyRule::new("r", &when, GuardMode::Block, "m") else { continue };
                if rule.check(RuleNames::Policy).is_err() {
                    refused += 1;
                    continue;
                }
                passed += 1;
                for event in &events {
                    let answer = rule.eval(event, &counters());
                    assert!(answer.is_ok(), "{when}: {answer:?}");
                }
            }
        }
    }
    assert!(passed > 100 && refused > 300, "{passed}, {refused}");
}

#[test]
fn route_conditions_have_their_own_names() {
    let checked = |when: &str| PolicyRule::new("r", when, GuardMode::Observe, "")?.check(RuleNames::Route);
    for when in [
        "event.output.contains('x')",
        "event.vars.a.structured.b == 3",
        "event.visits.test >= 2",
        "event.outcome == 'failure'",
    ] {
        assert_eq!(checked(when), Ok(()), "{when}");
    }
    for when in
        ["event.tool == 'x'", "session.calls > 3", "event.outcome == 'failed'", "event.outputs == 'x'"]
    {
        assert!(checked(when).is_err(), "{when}");
    }
}
