//! Custom CEL rules over the event and the session's counters.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Observe, Warn, case, check, check_all, check_fixtures, ok, quiet,
    trips,
};
use flyball::{SessionPhase, Verdict};
use serde_json::{Value, json};

fn rule_policy(decision: &str, when: &str) -> Value {
    json!({"preset": "off", "rules": [{"name": "no-prod", "when": when, "decision": decision, "message": "too late to deploy"}]})
}

/// The documented example, with a smaller number.
const LATE_DEPLOY: &str = "event.type == 'tool.requested' && event.tool == 'deploy' && session.calls > 2";

fn read_calls(history: EventHistory, calls: usize) -> EventHistory {
    history.times(calls, |history, i| history.call("read_file", json!({"path": i}), ok("text")))
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "no deployment after the third call",
            read_calls(EventHistory::with_policy(rule_policy("block", LATE_DEPLOY)), 3)
                .request("deploy", json!({})),
            [trips("rule", "rule", Block)
                .at(8)
                .events(&[8])
                .state(SessionPhase::Running)
                .message("too late to deploy")
                .feedback("too late to deploy")],
        ),
        case(
            "a rule on the arguments of a call",
            EventHistory::with_policy(rule_policy(
                "halt",
                "event.type == 'tool.requested' && event.args.command.contains('rm -rf')",
            ))
            .request("bash", json!({"command": "sudo rm -rf /"})),
            [trips("rule", "rule", Halt).at(2).halt_reason("user_stop").state(SessionPhase::Halted)],
        ),
        case(
            "a rule on usage",
            EventHistory::with_policy(rule_policy("warn", "session.tokens > 100"))
                .event("assistant.message", json!({"text": "x", "usage": {"tokens_out": 101}}))
                .assistant_message("y"),
            [trips("rule", "rule", Warn).at(3)],
        ),
        case(
            "a rule on the current node",
            EventHistory::with_policy(rule_policy(
                "block",
                "event.type == 'transition.requested' && event.to == 'prod' && session.node != 'review'",
            ))
            .transitions_along("build>test>prod"),
            [trips("rule", "rule", Block).at(3)],
        ),
        case(
            "a phase that does not converge is closed after three visits",
            EventHistory::with_policy(rule_policy(
                "halt",
                "event.type == 'turn.finished' && event.node == 'optimize' && session.visits >= 3",
            ))
            .times(3, |history, _| {
                history.transition("measure", "optimize").start_turn("optimize").finish_turn("optimize", "")
            }),
            [trips("rule", "rule", Halt).at(10).halt_reason("user_stop").state(SessionPhase::Halted)],
        ),
        case(
            "a rule that cannot be evaluated blocks",
            EventHistory::with_policy(rule_policy(
                "warn",
                "event.type == 'tool.requested' && event.args.n / 0 == 1",
            ))
            .request("bash", json!({"n": 1})),
            [trips("rule", "rule", Block).at(2)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "an early deployment",
            read_calls(EventHistory::with_policy(rule_policy("block", LATE_DEPLOY)), 2).request("deploy", json!({})),
            [quiet("rule")],
        ),
        case(
            "another tool",
            read_calls(EventHistory::with_policy(rule_policy("block", LATE_DEPLOY)), 9),
            [quiet("rule")],
        ),
        case(
            "a field missing from the event decides nothing",
            EventHistory::with_policy(rule_policy("block", "event.args.command == 'x'")).user_message("hello").request("bash", json!({})),
            [quiet("rule")],
        ),
        case(
            "a blocked call is not counted",
            EventHistory::with_policy(json!({"preset": "off", "rules": [
                {"name": "never", "when": "event.type == 'tool.requested' && event.tool == 'bad'", "decision": "block"},
                {"name": "late", "when": "event.type == 'tool.requested' && session.calls > 2", "decision": "halt"}]}))
                .request("good", json!({}))
                .request("good", json!({})),
            [quiet("rule")],
        ),
    ]
}

#[test]
fn rules_trip() {
    check_all(&must_trip());
}

#[test]
fn rules_do_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn rule_decision_follows_the_policy() {
    for (decision, severity, verdict) in [
        ("observe", Observe, Verdict::Allow),
        ("warn", Warn, Verdict::Warn),
        ("block", Block, Verdict::Block),
        ("halt", Halt, Verdict::Halt),
    ] {
        let run = EventHistory::with_policy(rule_policy(decision, "event.type == 'tool.requested'"))
            .request("x", json!({}))
            .run();
        assert_eq!(run.last().trips[0].severity, severity);
        assert_eq!(run.last().decision, verdict);
    }
}

#[test]
fn rule_without_a_message_names_itself() {
    let policy = json!({"preset": "off", "rules": [{"name": "quiet-hours", "when": "event.type == 'question.asked'"}]});
    let run = check(
        "named",
        &EventHistory::with_policy(policy).ask_question("Now?"),
        &[trips("rule", "rule", Block).at(2)],
    );
    let trip = &run.last().trips[0];
    assert_eq!((trip.scope["rule"].as_str(), trip.message.contains("quiet-hours")), ("quiet-hours", true));
}

#[test]
fn rules_and_guards_combine_and_the_strictest_wins() {
    let policy =
        json!({"rules": [{"name": "look", "when": "event.type == 'tool.requested'", "decision": "warn"}]});
    let history =
        EventHistory::with_policy(policy).times(6, |h, _| h.call("bash", json!({"command": "ls"}), ok("a")));
    check(
        "both",
        &history,
        &[trips("rule", "rule", Warn).at(2), trips("repetition", "repetition_loop", Block).at(12)],
    );
}

#[test]
fn rule_fixtures_are_current() {
    check_fixtures("rule", &must_trip()[0], &must_not_trip()[0]);
}
