//! `denial`: the same denied action requested again: three in a row, or ten of the last fifty.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, check_modes, never,
    ok, only_guard, quiet, trips,
};
use serde_json::{Value, json};

fn force_push() -> Value {
    json!({"command": "git push --force"})
}

fn deny_push(history: EventHistory, n: usize) -> EventHistory {
    history.times(n, |history, _| history.denied("human", "bash", force_push()))
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "a person denies three times, the fourth request does not reach them",
            deny_push(EventHistory::new(), 4),
            [
                trips("denial", "repeated_denial", Warn).at(6).count(2, 3),
                trips("denial", "repeated_denial", Block)
                    .at(7)
                    .count(3, 3)
                    .events(&[3, 5, 7])
                    .message("'bash' was refused 3 times"),
            ],
        ),
        case(
            "further requests after that halt",
            deny_push(EventHistory::new(), 6),
            [trips("denial", "repeated_denial", Halt).halt_reason("repeated_error")],
        ),
        case(
            "a permission rule denies three times",
            EventHistory::new().times(3, |history, _| history.denied("policy", "bash", force_push())),
            [trips("denial", "repeated_denial", Block).at(7).count(3, 3)],
        ),
        case(
            "ten of the last fifty actions were denied",
            EventHistory::new().times(10, |history, i| {
                history.denied("human", "bash", json!({"command": format!("rm {}", "x".repeat(i + 1))})).call(
                    "bash",
                    json!({"command": format!("ls {}", "x".repeat(i + 1))}),
                    ok("fine"),
                )
            }),
            [trips("denial", "repeated_denial", Block)
                .at(39)
                .count(10, 10)
                .message("10 of the last 50 actions were refused")],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "denied twice, then allowed twice",
            EventHistory::new()
                .denied("human", "bash", force_push())
                .denied("human", "bash", json!({"command": "rm -r build"}))
                .call("bash", force_push(), ok("pushed"))
                .call("bash", json!({"command": "rm -r build"}), ok("")),
            [never("denial", Block)],
        ),
        case(
            "our own block is not a denial",
            EventHistory::with_policy(only_guard("denial", json!({})))
                .times(6, |history, _| history.denied("guard", "bash", force_push())),
            [quiet("denial")],
        ),
        case("two refusals", deny_push(EventHistory::new(), 2), [never("denial", Block)]),
        case(
            "a user message in between: requests after it count from zero",
            EventHistory::new().times(4, |history, _| deny_push(history.user_message("hm"), 1)),
            [never("denial", Block)],
        ),
        case(
            "nine of fifty",
            EventHistory::with_policy(only_guard("denial", json!({}))).times(9, |history, i| {
                history.denied("human", "bash", json!({"command": format!("rm {}", "x".repeat(i + 1))})).call(
                    "bash",
                    json!({"command": format!("ls {}", "x".repeat(i + 1))}),
                    ok("fine"),
                )
            }),
            [quiet("denial")],
        ),
        case(
            "approved repeats never count",
            EventHistory::with_policy(only_guard("denial", json!({})))
                .times(12, |history, _| history.call("bash", force_push(), ok("ok"))),
            [quiet("denial")],
        ),
    ]
}

#[test]
fn denial_trips() {
    check_all(&must_trip());
}

#[test]
fn denial_does_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn denial_obeys_its_mode() {
    check_modes("denial", |keys| deny_push(EventHistory::with_policy(only_guard("denial", keys)), 3), 7);
}

#[test]
fn denial_limit_is_configurable_per_tool() {
    let policy = json!({"preset": "off", "guards": {"denial": "staged"}, "tools": {"bash": {"denial": {"consecutive": 5}}}});
    check("four", &deny_push(EventHistory::with_policy(policy.clone()), 4), &[never("denial", Block)]);
    check(
        "five",
        &deny_push(EventHistory::with_policy(policy), 5),
        &[trips("denial", "repeated_denial", Block).at(11).count(5, 5)],
    );
}

#[test]
fn denial_fixtures_are_current() {
    check_fixtures("denial", &must_trip()[0], &must_not_trip()[0]);
}
