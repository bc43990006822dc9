//! Custom rules in CEL, over the event and the session's counters.

use crate::kit::{
    Block, Case, Halt, History, Observe, Warn, case, check, check_all, keep_fixtures, ok, quiet, trips,
};
use flyball::{Status, Verdict};
use serde_json::{Value, json};

fn rule(decision: &str, when: &str) -> Value {
    json!({"preset": "off", "rules": [{"name": "no-prod", "when": when, "decision": decision, "message": "too late to deploy"}]})
}

/// The contract's own example, with a smaller number.
const LATE: &str = "event.type == 'tool.requested' && event.tool == 'deploy' && session.calls > 2";

fn work(history: History, calls: usize) -> History {
    history.times(calls, |history, i| history.call("read_file", json!({"path": i}), ok("text")))
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "no deployment after the third call",
            work(History::under(rule("block", LATE)), 3).ask("deploy", json!({})),
            [trips("rule", "rule", Block)
                .at(8)
                .events(&[8])
                .state(Status::Running)
                .message("too late to deploy")
                .feedback("too late to deploy")],
        ),
        case(
            "a rule on the arguments of a call",
            History::under(rule(
                "halt",
                "event.type == 'tool.requested' && event.args.command.contains('rm -rf')",
            ))
            .ask("bash", json!({"command": "sudo rm -rf /"})),
            [trips("rule", "rule", Halt).at(2).because("user_stop").state(Status::Halted)],
        ),
        case(
            "a rule on what was used",
            History::under(rule("warn", "session.tokens > 100"))
                .event("assistant.message", json!({"text": "x", "usage": {"tokens_out": 101}}))
                .says("y"),
            [trips("rule", "rule", Warn).at(3)],
        ),
        case(
            "a rule on the way through the nodes",
            History::under(rule(
                "block",
                "event.type == 'transition.requested' && event.to == 'prod' && session.node != 'review'",
            ))
            .walk("build>test>prod"),
            [trips("rule", "rule", Block).at(3)],
        ),
        case(
            "the seed's own hook: a phase that does not converge is closed after three visits",
            History::under(rule(
                "halt",
                "event.type == 'turn.finished' && event.node == 'optimize' && session.visits >= 3",
            ))
            .times(3, |history, _| history.go("measure", "optimize").begins("optimize").ends("optimize", "")),
            [trips("rule", "rule", Halt).at(10).because("user_stop").state(Status::Halted)],
        ),
        case(
            "a rule that cannot be worked out refuses",
            History::under(rule("warn", "event.type == 'tool.requested' && event.args.n / 0 == 1"))
                .ask("bash", json!({"n": 1})),
            [trips("rule", "rule", Block).at(2)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "an early deployment",
            work(History::under(rule("block", LATE)), 2).ask("deploy", json!({})),
            [quiet("rule")],
        ),
        case(
            "another tool",
            work(History::under(rule("block", LATE)), 9),
            [quiet("rule")],
        ),
        case(
            "a field that the event does not have decides nothing",
            History::under(rule("block", "event.args.command == 'x'")).human("hello").ask("bash", json!({})),
            [quiet("rule")],
        ),
        case(
            "a refused call is not counted",
            History::under(json!({"preset": "off", "rules": [
                {"name": "never", "when": "event.type == 'tool.requested' && event.tool == 'bad'", "decision": "block"},
                {"name": "late", "when": "event.type == 'tool.requested' && session.calls > 2", "decision": "halt"}]}))
                .ask("good", json!({}))
                .ask("good", json!({})),
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
fn a_rule_decides_what_its_policy_says() {
    for (decision, severity, verdict) in [
        ("observe", Observe, Verdict::Allow),
        ("warn", Warn, Verdict::Warn),
        ("block", Block, Verdict::Block),
        ("halt", Halt, Verdict::Halt),
    ] {
        let run = History::under(rule(decision, "event.type == 'tool.requested'")).ask("x", json!({})).run();
        assert_eq!(run.last().trips[0].severity, severity);
        assert_eq!(run.last().decision, verdict);
    }
}

#[test]
fn a_rule_without_words_names_itself() {
    let policy = json!({"preset": "off", "rules": [{"name": "quiet-hours", "when": "event.type == 'question.asked'"}]});
    let run = check("named", &History::under(policy).question("Now?"), &[trips("rule", "rule", Block).at(2)]);
    let trip = &run.last().trips[0];
    assert_eq!((trip.scope["rule"].as_str(), trip.message.contains("quiet-hours")), ("quiet-hours", true));
}

#[test]
fn a_rule_works_beside_the_guards_and_the_strictest_wins() {
    let policy =
        json!({"rules": [{"name": "look", "when": "event.type == 'tool.requested'", "decision": "warn"}]});
    let history = History::under(policy).times(6, |h, _| h.call("bash", json!({"command": "ls"}), ok("a")));
    check(
        "both",
        &history,
        &[trips("rule", "rule", Warn).at(2), trips("repetition", "repetition_loop", Block).at(12)],
    );
}

#[test]
fn fixtures_of_rule() {
    keep_fixtures("rule", &must_trip()[0], &must_not_trip()[0]);
}
