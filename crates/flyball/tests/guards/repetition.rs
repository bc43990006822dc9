//! `repetition`: five identical calls are allowed, the sixth is blocked, the third block halts.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, check_modes, never,
    ok, only_guard, quiet, trips,
};
use flyball::SessionPhase;
use serde_json::{Value, json};

const WORDS: [&str; 8] = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"];

fn ls() -> Value {
    json!({"command": "ls"})
}

fn repeat_ls(history: EventHistory, n: usize) -> EventHistory {
    history.times(n, |history, _| history.call("bash", ls(), ok("a b c")))
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "five identical calls are allowed, the sixth is blocked",
            repeat_ls(EventHistory::new(), 6),
            [
                trips("repetition", "repetition_loop", Block)
                    .at(12)
                    .count(6, 5)
                    .events(&[2, 4, 6, 8, 10, 12])
                    .state(SessionPhase::Running)
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
            repeat_ls(EventHistory::new(), 8),
            [
                trips("repetition", "repetition_loop", Block).at(12),
                trips("repetition", "repetition_loop", Halt).at(14).halt_reason("stalled").state(SessionPhase::Halted),
            ],
        ),
        case(
            "key order, number spelling and arguments sent as text do not hide the repetition",
            EventHistory::new().times(2, |history, _| {
                history
                    .call("search", json!({"q": "x", "page": 1}), ok("none"))
                    .call("search", json!({"page": 1.0, "q": "x"}), ok("none"))
                    .call("search", json!("{\"page\": 1, \"q\": \"x\"}"), ok("none"))
            }),
            [trips("repetition", "repetition_loop", Block).at(12).count(6, 5)],
        ),
        case(
            "a host that never reports results is guarded too",
            EventHistory::new().times(6, |history, _| history.request("bash", ls())),
            [trips("repetition", "repetition_loop", Block).at(7).events(&[2, 3, 4, 5, 6, 7])],
        ),
        case(
            "results that differ only in a timestamp do not count as new",
            EventHistory::new().times(6, |history, i| {
                history.call("bash", json!({"command": "date; ls"}), ok(format!("2026-01-01T10:00:0{i}Z a b c")))
            }),
            [trips("repetition", "repetition_loop", Block).at(12)],
        ),
        case(
            "a polling tool may be called twenty times, not twenty-one",
            EventHistory::new().times(21, |history, _| history.call("wait_for_job", json!({"id": 7}), ok("running"))),
            [trips("repetition", "repetition_loop", Block).at(42).count(21, 20)],
        ),
        case(
            "with result_aware off a changing result does not help",
            EventHistory::with_policy(only_guard("repetition", json!({"result_aware": false})))
                .times(6, |history, i| history.call("bash", ls(), ok(WORDS[i]))),
            [trips("repetition", "repetition_loop", Block).at(12)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "a call whose result changes is not a repetition",
            EventHistory::new().times(8, |history, i| history.call("bash", ls(), ok(WORDS[i]))),
            [quiet("repetition")],
        ),
        case(
            "five identical calls are allowed",
            repeat_ls(EventHistory::new(), 5),
            [never("repetition", Block)],
        ),
        case(
            "a different call in between restarts the run",
            EventHistory::new().times(10, |history, i| {
                history.call("bash", ls(), ok("a")).call("bash", json!({"command": WORDS[i % 8]}), ok("b"))
            }),
            [quiet("repetition")],
        ),
        case(
            "ten equal calls in one response count once",
            EventHistory::new().round(1).times(10, |history, _| history.call("bash", ls(), ok("a"))),
            [quiet("repetition")],
        ),
        case(
            "a repetition requested by a person does not count",
            EventHistory::new()
                .times(6, |history, _| repeat_ls(history.user_message("once more, please"), 2)),
            [quiet("repetition")],
        ),
        case(
            "a polling tool may be called twenty times",
            EventHistory::new()
                .times(20, |history, _| history.call("wait_for_job", json!({"id": 7}), ok("running"))),
            [quiet("repetition")],
        ),
        case(
            "equal arguments to different tools are different calls",
            EventHistory::new().times(9, |history, i| {
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
    check_modes(
        "repetition",
        |keys| repeat_ls(EventHistory::with_policy(only_guard("repetition", keys)), 6),
        12,
    );
}

#[test]
fn third_block_in_block_mode_does_not_halt() {
    let policy = only_guard("repetition", json!({"mode": "block"}));
    check("block only", &repeat_ls(EventHistory::with_policy(policy), 12), &[never("repetition", Halt)]);
}

#[test]
fn repetition_limit_is_configurable_per_tool() {
    let policy = json!({"tools": {"bash": {"repetition": {"limit": 3}}}});
    check(
        "bash three times",
        &repeat_ls(EventHistory::with_policy(policy), 4),
        &[trips("repetition", "repetition_loop", Block).at(8).count(4, 3)],
    );
    let policy = json!({"tools": {"bash": {"repetition": "off"}, "job_output": {"effect": "poll"}}});
    let history = repeat_ls(EventHistory::with_policy(policy), 8)
        .times(8, |history, _| history.call("job_output", json!({}), ok("running")));
    check("bash off, job_output polls", &history, &[quiet("repetition")]);
}

/// Each guard can be turned off for the whole policy, a node, a tool or an edge.
#[test]
fn repetition_limit_is_configurable_per_node() {
    let policy = json!({"nodes": {"builder": {"repetition": {"limit": 2}}}});
    check(
        "the builder may call twice",
        &repeat_ls(EventHistory::with_policy(policy.clone()).for_node("builder"), 3),
        &[trips("repetition", "repetition_loop", Block).at(6).count(3, 2)],
    );
    check(
        "others keep the shared limit",
        &repeat_ls(EventHistory::with_policy(policy).for_node("reader"), 5),
        &[never("repetition", Block)],
    );
}

#[test]
fn successful_other_call_resets_the_block_count() {
    let history = repeat_ls(EventHistory::new(), 7)
        .call("bash", json!({"command": "cat a"}), ok("text"))
        .times(7, |history, _| history.call("bash", ls(), ok("a b c")));
    check("two blocks, something else, two blocks", &history, &[never("repetition", Halt)]);
}

#[test]
fn repetition_fixtures_are_current() {
    check_fixtures("repetition", &must_trip()[0], &must_not_trip()[0]);
}
