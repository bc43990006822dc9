//! `denial`: the same refused action asked again: three in a row, or ten of the last fifty.

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, keep_fixtures, modes, never, ok, only, quiet,
    trips,
};
use serde_json::{Value, json};

fn push() -> Value {
    json!({"command": "git push --force"})
}

fn refused(history: History, n: usize) -> History {
    history.times(n, |history, _| history.denied("human", "bash", push()))
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "a person says no three times, the fourth request does not reach them",
            refused(History::new(), 4),
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
            "asking on and on after that halts",
            refused(History::new(), 6),
            [trips("denial", "repeated_denial", Halt).because("repeated_error")],
        ),
        case(
            "a permission rule says no three times",
            History::new().times(3, |history, _| history.denied("policy", "bash", push())),
            [trips("denial", "repeated_denial", Block).at(7).count(3, 3)],
        ),
        case(
            "ten of the last fifty actions were refused",
            History::new().times(10, |history, i| {
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

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "no twice, then yes twice",
            History::new()
                .denied("human", "bash", push())
                .denied("human", "bash", json!({"command": "rm -r build"}))
                .call("bash", push(), ok("pushed"))
                .call("bash", json!({"command": "rm -r build"}), ok("")),
            [never("denial", Block)],
        ),
        case(
            "our own veto is not a denial",
            History::under(only("denial", json!({})))
                .times(6, |history, _| history.denied("guard", "bash", push())),
            [quiet("denial")],
        ),
        case("two refusals", refused(History::new(), 2), [never("denial", Block)]),
        case(
            "a person speaks between: what is asked then is asked anew",
            History::new().times(4, |history, _| refused(history.human("hm"), 1)),
            [never("denial", Block)],
        ),
        case(
            "nine of fifty",
            History::under(only("denial", json!({}))).times(9, |history, i| {
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
            History::under(only("denial", json!({})))
                .times(12, |history, _| history.call("bash", push(), ok("ok"))),
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
    modes("denial", |keys| refused(History::under(only("denial", keys)), 3), 7);
}

#[test]
fn a_tool_may_be_refused_more_often() {
    let policy = json!({"preset": "off", "guards": {"denial": "staged"}, "tools": {"bash": {"denial": {"consecutive": 5}}}});
    check("four", &refused(History::under(policy.clone()), 4), &[never("denial", Block)]);
    check(
        "five",
        &refused(History::under(policy), 5),
        &[trips("denial", "repeated_denial", Block).at(11).count(5, 5)],
    );
}

#[test]
fn fixtures_of_denial() {
    keep_fixtures("denial", &must_trip()[0], &must_not_trip()[0]);
}
