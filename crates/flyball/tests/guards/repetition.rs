//! `repetition`: five identical calls run, the sixth is blocked, the third block halts.

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, keep_fixtures, modes, never, ok, only, quiet,
    trips,
};
use flyball::Status;
use serde_json::{Value, json};

const WORDS: [&str; 8] = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"];

fn ls() -> Value {
    json!({"command": "ls"})
}

fn listing(history: History, n: usize) -> History {
    history.times(n, |history, _| history.call("bash", ls(), ok("a b c")))
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "five identical calls run, the sixth is blocked",
            listing(History::new(), 6),
            [
                trips("repetition", "repetition_loop", Block)
                    .at(12)
                    .count(6, 5)
                    .events(&[2, 4, 6, 8, 10, 12])
                    .state(Status::Running)
                    .message("tool 'bash' called 6 times consecutively with identical parameters")
                    .feedback(
                        "Tool call blocked: tool 'bash' called 6 times consecutively with identical parameters. \
                         Try a different approach or parameters.",
                    ),
                trips("repetition", "repetition_loop", Warn).at(6).count(3, 5),
            ],
        ),
        case(
            "the third block halts",
            listing(History::new(), 8),
            [
                trips("repetition", "repetition_loop", Block).at(12),
                trips("repetition", "repetition_loop", Halt).at(14).because("stalled").state(Status::Halted),
            ],
        ),
        case(
            "key order, number spelling and arguments sent as text do not hide the repetition",
            History::new().times(2, |history, _| {
                history
                    .call("search", json!({"q": "x", "page": 1}), ok("none"))
                    .call("search", json!({"page": 1.0, "q": "x"}), ok("none"))
                    .call("search", json!("{\"page\": 1, \"q\": \"x\"}"), ok("none"))
            }),
            [trips("repetition", "repetition_loop", Block).at(12).count(6, 5)],
        ),
        case(
            "a host that never tells results is guarded all the same",
            History::new().times(6, |history, _| history.ask("bash", ls())),
            [trips("repetition", "repetition_loop", Block).at(7).events(&[2, 3, 4, 5, 6, 7])],
        ),
        case(
            "results that differ in the time of day only do not count as new",
            History::new().times(6, |history, i| {
                history.call("bash", json!({"command": "date; ls"}), ok(format!("2026-01-01T10:00:0{i}Z a b c")))
            }),
            [trips("repetition", "repetition_loop", Block).at(12)],
        ),
        case(
            "a tool that waits may be called twenty times, not twenty-one",
            History::new().times(21, |history, _| history.call("wait_for_job", json!({"id": 7}), ok("running"))),
            [trips("repetition", "repetition_loop", Block).at(42).count(21, 20)],
        ),
        case(
            "with result_aware off a changing result does not help",
            History::under(only("repetition", json!({"result_aware": false})))
                .times(6, |history, i| history.call("bash", ls(), ok(WORDS[i]))),
            [trips("repetition", "repetition_loop", Block).at(12)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "a call whose result changes is not a repetition",
            History::new().times(8, |history, i| history.call("bash", ls(), ok(WORDS[i]))),
            [quiet("repetition")],
        ),
        case("five identical calls run", listing(History::new(), 5), [never("repetition", Block)]),
        case(
            "another call between begins the row again",
            History::new().times(10, |history, i| {
                history.call("bash", ls(), ok("a")).call("bash", json!({"command": WORDS[i % 8]}), ok("b"))
            }),
            [quiet("repetition")],
        ),
        case(
            "ten equal calls of one answer count once",
            History::new().round(1).times(10, |history, _| history.call("bash", ls(), ok("a"))),
            [quiet("repetition")],
        ),
        case(
            "what a person asks for again is no repetition",
            History::new().times(6, |history, _| listing(history.human("once more, please"), 2)),
            [quiet("repetition")],
        ),
        case(
            "a tool that waits may be called twenty times",
            History::new()
                .times(20, |history, _| history.call("wait_for_job", json!({"id": 7}), ok("running"))),
            [quiet("repetition")],
        ),
        case(
            "equal arguments to different tools are different calls",
            History::new().times(9, |history, i| {
                history.call(["read_a", "read_b", "read_c"][i % 3], json!({"path": "x"}), ok("same"))
            }),
            [quiet("repetition")],
        ),
    ]
}

#[test]
fn repetition_trips() {
    check_all(&must_trip());
}

#[test]
fn repetition_does_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn repetition_obeys_its_mode() {
    modes("repetition", |keys| listing(History::under(only("repetition", keys)), 6), 12);
}

#[test]
fn in_mode_block_the_third_block_does_not_halt() {
    let policy = only("repetition", json!({"mode": "block"}));
    check("block only", &listing(History::under(policy), 12), &[never("repetition", Halt)]);
}

#[test]
fn a_tool_has_limits_of_its_own() {
    let policy = json!({"tools": {"bash": {"repetition": {"limit": 3}}}});
    check(
        "bash three times",
        &listing(History::under(policy), 4),
        &[trips("repetition", "repetition_loop", Block).at(8).count(4, 3)],
    );
    let policy = json!({"tools": {"bash": {"repetition": "off"}, "job_output": {"effect": "poll"}}});
    let history = listing(History::under(policy), 8)
        .times(8, |history, _| history.call("job_output", json!({}), ok("running")));
    check("bash off, job_output polls", &history, &[quiet("repetition")]);
}

/// The contract, section 4: each guard can be off "for the whole policy, a node, a tool or an edge".
#[test]
fn a_node_has_limits_of_its_own() {
    let policy = json!({"nodes": {"builder": {"repetition": {"limit": 2}}}});
    check(
        "the builder may call twice",
        &listing(History::under(policy.clone()).by("builder"), 3),
        &[trips("repetition", "repetition_loop", Block).at(6).count(3, 2)],
    );
    check(
        "others keep the common limit",
        &listing(History::under(policy).by("reader"), 5),
        &[never("repetition", Block)],
    );
}

#[test]
fn a_different_call_that_succeeds_forgets_the_blocks() {
    let history = listing(History::new(), 7)
        .call("bash", json!({"command": "cat a"}), ok("text"))
        .times(7, |history, _| history.call("bash", ls(), ok("a b c")));
    check("two blocks, something else, two blocks", &history, &[never("repetition", Halt)]);
}

#[test]
fn fixtures_of_repetition() {
    keep_fixtures("repetition", &must_trip()[0], &must_not_trip()[0]);
}
