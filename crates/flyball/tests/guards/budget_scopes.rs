//! `budget` of a turn, a node, a loop, one message, and a tree of sessions.

use crate::budget::budget_policy;
use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, never, ok, quiet, trips,
};
use flyball::SessionPhase;
use serde_json::{Value, json};

const MINUTE: u64 = 60_000;

/// A coder and a verifier in a loop; the edge back to the coder starts a new iteration.
fn loop_history(policy: Value) -> EventHistory {
    EventHistory::with_start_fields(json!({"policy": policy, "workflow": {
        "nodes": ["coder", "verifier"],
        "edges": [{"id": "e1", "from": "coder", "to": "verifier"}, {"id": "e2", "from": "verifier", "to": "coder"}]}}))
}

fn iterate_loop(history: EventHistory, n: usize) -> EventHistory {
    history.times(n, |history, _| history.transition("coder", "verifier").transition("verifier", "coder"))
}

fn turn_trips() -> Vec<GuardCase> {
    vec![
        case(
            "a turn may take ten minutes and not a millisecond longer",
            EventHistory::new().at_time(0).start_turn("a").at_time(10 * MINUTE + 1).finish_turn("a", "x"),
            [trips("budget", "turn_timeout", Halt)
                .at(3)
                .count(10 * MINUTE + 1, 10 * MINUTE)
                .halt_reason("budget_exceeded")],
        ),
        case(
            "the duration measured by the host counts too",
            EventHistory::new()
                .start_turn("a")
                .event("turn.finished", json!({"node": "a", "duration_ms": 600_001})),
            [trips("budget", "turn_timeout", Halt).at(3)],
        ),
        case(
            "tokens of one turn",
            EventHistory::with_policy(budget_policy(json!({"turn": {"tokens": 100}})))
                .start_turn("a")
                .event("turn.finished", json!({"node": "a", "usage": {"tokens_out": 101}})),
            [trips("budget", "max_tokens", Halt).at(3).count(101, 100)],
        ),
        case(
            "a request in the middle of a turn that takes too long is blocked",
            EventHistory::new()
                .at_time(0)
                .start_turn("a")
                .at_time(11 * MINUTE)
                .request("read_file", json!({"path": "x"})),
            [trips("budget", "turn_timeout", Halt).at(3)],
        ),
    ]
}

fn turn_quiet() -> Vec<GuardCase> {
    vec![
        case(
            "ten minutes are allowed",
            EventHistory::new().at_time(0).start_turn("a").at_time(10 * MINUTE).finish_turn("a", "x"),
            [never("budget", Block)],
        ),
        case(
            "each turn has a separate ten minutes",
            EventHistory::new()
                .at_time(0)
                .times(5, |h, i| h.start_turn("a").after_ms(7 * MINUTE).finish_turn("a", &"x".repeat(i + 1))),
            [quiet("budget")],
        ),
        case(
            "turn tokens restart with each turn",
            EventHistory::with_policy(budget_policy(json!({"turn": {"tokens": 100}}))).times(
                5,
                |history, _| {
                    history
                        .start_turn("a")
                        .event("turn.finished", json!({"node": "a", "usage": {"tokens_out": 70}}))
                },
            ),
            [quiet("budget")],
        ),
    ]
}

#[test]
fn turn_budgets_trip_only_when_exceeded() {
    check_all(&turn_trips());
    check_all(&turn_quiet());
}

fn node_trips() -> Vec<GuardCase> {
    let six = || budget_policy(json!({"node": {"turns": 6}}));
    vec![
        case(
            "six turns of a node are allowed, the seventh is blocked",
            EventHistory::with_policy("workflow")
                .times(7, |history, i| history.start_turn("a").finish_turn("a", &"x".repeat(i + 1))),
            [
                trips("budget", "node_budget", Warn).at(10).count(4, 6),
                trips("budget", "node_budget", Halt)
                    .at(14)
                    .count(6, 6)
                    .halt_reason("budget_exceeded")
                    .message("node 'a' has used 6 of 6 turns"),
            ],
        ),
        case(
            "a node with a limit of twelve turns",
            EventHistory::with_policy(
                json!({"preset": "off", "budgets": {"node": {"turns": 6}}, "nodes": {"test": {"turns": 12}}}),
            )
            .times(13, |history, _| history.start_turn("test")),
            [trips("budget", "node_budget", Halt).at(14).count(12, 12)],
        ),
        case(
            "an explicit turn limit inside a loop is enforced",
            loop_history(six()).times(7, |history, _| history.start_turn("coder")),
            [trips("budget", "node_budget", Halt).at(8).count(6, 6)],
        ),
        case(
            "nine turns of a node inside a loop are allowed by default, the tenth is blocked",
            loop_history(json!({"preset": "workflow", "guards": {"visits": "off"}}))
                .times(10, |history, _| history.start_turn("coder")),
            [trips("budget", "node_budget", Halt).at(11).count(9, 9)],
        ),
        case(
            "time of one node",
            EventHistory::with_policy(budget_policy(json!({"node": {"runtime": "10m"}})))
                .at_time(0)
                .times(3, |history, _| history.start_turn("a").after_ms(6 * MINUTE).finish_turn("a", "x")),
            [trips("budget", "node_budget", Halt).at(6).count(12 * MINUTE, 10 * MINUTE)],
        ),
    ]
}

fn node_quiet() -> Vec<GuardCase> {
    vec![
        case(
            "six turns",
            EventHistory::with_policy("workflow")
                .times(6, |history, i| history.start_turn("a").finish_turn("a", &"x".repeat(i + 1))),
            [never("budget", Block)],
        ),
        case(
            "each node has a separate limit of six",
            EventHistory::with_policy("workflow")
                .times(4, |history, _| history.start_turn("a").start_turn("b").start_turn("c")),
            [quiet("budget")],
        ),
        case(
            "an agent without a workflow has no node budget",
            EventHistory::new().times(40, |history, _| history.start_turn("main")),
            [quiet("budget")],
        ),
    ]
}

#[test]
fn node_budgets_trip_only_when_exceeded() {
    check_all(&node_trips());
    check_all(&node_quiet());
}

fn loop_trips() -> Vec<GuardCase> {
    let eight = || budget_policy(json!({"loop": {"iterations": 8}}));
    vec![
        case(
            "eight iterations are allowed, the ninth halts",
            iterate_loop(loop_history(eight()), 9),
            [
                trips("budget", "max_cycle_iterations", Warn).at(15),
                trips("budget", "max_cycle_iterations", Halt)
                    .at(19)
                    .count(8, 8)
                    .halt_reason("budget_exceeded")
                    .state(SessionPhase::Halted),
            ],
        ),
        case(
            "eight iterations are the workflow default, and no other limit is reached first",
            loop_history(json!("workflow")).times(9, |history, i| {
                history
                    .transition("coder", "verifier")
                    .diff(&"+".repeat(i + 1))
                    .transition("verifier", "coder")
            }),
            [trips("budget", "max_cycle_iterations", Halt).at(28).count(8, 8)],
        ),
        case(
            "time inside a loop",
            iterate_loop(loop_history(budget_policy(json!({"loop": {"runtime": "10m"}}))).at_time(0), 1)
                .after_ms(11 * MINUTE)
                .transition("coder", "verifier"),
            [trips("budget", "max_runtime", Halt).at(4)],
        ),
        case(
            "money inside a loop",
            iterate_loop(loop_history(budget_policy(json!({"loop": {"cost_usd": 1}}))), 1)
                .event("turn.finished", json!({"node": "coder", "usage": {"cost_usd": 1.5}})),
            [trips("budget", "max_cost", Halt).at(4).count(1_500_000, 1_000_000)],
        ),
    ]
}

fn loop_quiet() -> Vec<GuardCase> {
    vec![
        case(
            "eight iterations",
            iterate_loop(loop_history(budget_policy(json!({"loop": {"iterations": 8}}))), 8),
            [never("budget", Block)],
        ),
        case(
            "without a workflow there is no loop to count",
            iterate_loop(EventHistory::with_policy(budget_policy(json!({"loop": {"iterations": 2}}))), 6),
            [quiet("budget")],
        ),
        case(
            "an edge that does not restart the loop does not count",
            loop_history(budget_policy(json!({"loop": {"iterations": 2}})))
                .times(9, |history, _| history.transition("coder", "verifier")),
            [quiet("budget")],
        ),
    ]
}

#[test]
fn loop_budgets_trip_only_when_exceeded() {
    check_all(&loop_trips());
    check_all(&loop_quiet());
    let run = iterate_loop(loop_history(budget_policy(json!({"loop": {"iterations": 1}}))), 2).run();
    let halted = &run.last().effects[0];
    assert_eq!(halted.effect, "loop.halted");
    assert!(halted.fields.contains_key("cycleId"), "{:?}", halted.fields);
}

fn message_trips() -> Vec<GuardCase> {
    let node = |i: usize| format!("n{}", "x".repeat(i));
    let along = move |history: EventHistory, n: usize| {
        history.times(n, |history, i| history.transition(&node(i), &node(i + 1)))
    };
    vec![
        case(
            "twenty-five transitions for one message are allowed, the twenty-sixth is blocked",
            along(EventHistory::with_policy("workflow").user_message("go"), 26),
            [
                trips("budget", "max_steps", Warn).at(26),
                trips("budget", "max_steps", Block)
                    .at(28)
                    .count(25, 25)
                    .state(SessionPhase::Running)
                    .message("one message has used 25 of 25 transitions"),
            ],
        ),
        case(
            "ten calls for one message",
            EventHistory::with_policy(budget_policy(json!({"message": {"tool_calls": 10}})))
                .user_message("go")
                .times(11, |history, i| history.call("read_file", json!({"path": i}), ok("x"))),
            [trips("budget", "max_steps", Block).at(23).count(10, 10)],
        ),
        case(
            "a scheduler's message does not start a new budget",
            along(
                along(EventHistory::with_policy("workflow"), 20)
                    .event("user.message", json!({"origin": "schedule"})),
                6,
            ),
            [trips("budget", "max_steps", Block)],
        ),
    ]
}

fn message_quiet() -> Vec<GuardCase> {
    let node = |i: usize| format!("n{}", "x".repeat(i));
    let along = move |history: EventHistory, n: usize| {
        history.times(n, |history, i| history.transition(&node(i), &node(i + 1)))
    };
    let policy = || budget_policy(json!({"message": {"transitions": 25}}));
    vec![
        case(
            "twenty-five transitions",
            along(EventHistory::with_policy(policy()).user_message("go"), 25),
            [never("budget", Block)],
        ),
        case(
            "each user message has a separate budget",
            EventHistory::with_policy(policy())
                .times(5, |history, _| along(history.user_message("go on"), 20)),
            [quiet("budget")],
        ),
        case(
            "an agent without a workflow has no such budget",
            along(EventHistory::new().user_message("go"), 60),
            [quiet("budget")],
        ),
    ]
}

#[test]
fn message_budgets_trip_only_when_exceeded() {
    check_all(&message_trips());
    check_all(&message_quiet());
}

/// A halt reports what a recursion error would log: the limit, and the trail that led there.
#[test]
fn step_limit_evidence_has_the_trail() {
    let run = message_trips()[0].history.run();
    let trip = run.last().trips.iter().find(|trip| trip.reason == "max_steps").unwrap();
    let budget = trip.budget.clone().unwrap();
    assert_eq!((budget.scope.as_str(), budget.name.as_str(), budget.limit), ("message", "transitions", 25));
    let trail = &trip.evidence.trail;
    let shown = flyball::Policy::preset(flyball::Preset::Workflow).guards.cycle.transitions.max_history;
    assert_eq!(trail.len() as u64, shown + 1, "{trail:?}");
    assert_eq!(trail.last().map(String::len), Some(26), "the node after 25 transitions: {trail:?}");
}

/// A raise by a person is shown in the loop badge.
#[test]
fn loop_badge_includes_released_iterations() {
    let halted = iterate_loop(loop_history(budget_policy(json!({"loop": {"iterations": 3}}))), 4);
    let run = halted.release("budget", "grant").run();
    let session = run.sessions.get("s1").unwrap();
    let report = session.state().report(session.policy());
    assert_eq!(report.loops.iter().map(|known| known.badge.as_str()).collect::<Vec<_>>(), ["Loop 3/6"]);
}

/// A graph may change during a run; the loop that shares the most nodes keeps the counters.
#[test]
fn a_loop_keeps_its_count_when_the_workflow_changes() {
    let policy = budget_policy(json!({"loop": {"iterations": 3}}));
    let edges = |pairs: &[(&str, &str)]| -> Vec<Value> {
        pairs.iter().map(|(from, to)| json!({"from": from, "to": to})).collect()
    };
    let changed = json!({"workflow": {"nodes": ["coder", "linter", "verifier"],
        "edges": edges(&[("coder", "linter"), ("linter", "verifier"), ("verifier", "coder")])}});
    let history = iterate_loop(loop_history(policy), 2).event("session.started", changed);
    let run = history.run();
    let session = run.sessions.get("s1").unwrap();
    let report = session.state().report(session.policy());
    assert_eq!(report.loops.iter().map(|known| known.badge.as_str()).collect::<Vec<_>>(), ["Loop 2/3"]);
    let on = history.times(2, |history, _| history.transitions_along("coder>linter>verifier>coder"));
    check("two more", &on, &[trips("budget", "max_cycle_iterations", Halt).at(12).count(3, 3)]);
}

fn child(history: EventHistory, name: &str, parent: &str) -> EventHistory {
    history.session(name).event("session.started", json!({"parent": parent}))
}

fn spends(history: EventHistory, tokens: u64) -> EventHistory {
    history.event("tool.finished", json!({"call": "x", "tool": "t", "usage": {"tokens_in": tokens}}))
}

fn parent() -> EventHistory {
    EventHistory::with_policy(json!({"budgets": {"session": {"tokens": 1000}}}))
}

fn tree_trips() -> Vec<GuardCase> {
    vec![
        case(
            "a child draws on its parent's remaining budget",
            spends(child(spends(parent(), 600), "kid", "s1"), 401).assistant_message("and now?"),
            [trips("budget", "max_tokens", Halt)
                .at(5)
                .count(1001, 1000)
                .halt_reason("budget_exceeded")
                .message("the ancestor session 's1' has used 1001 of 1000 tokens")],
        ),
        case(
            "a child's usage counts against its parent",
            spends(child(parent(), "kid", "s1"), 1_001).session("s1").assistant_message("and now?"),
            [trips("budget", "max_tokens", Halt)],
        ),
        case(
            "two children share one budget",
            spends(child(spends(child(parent(), "a", "s1"), 600), "b", "s1"), 600)
                .assistant_message("and now?"),
            [trips("budget", "max_tokens", Halt).at(6)],
        ),
        case(
            "a grandchild draws on the grandparent",
            spends(child(child(parent(), "a", "s1"), "b", "a"), 1_001).assistant_message("and now?"),
            [trips("budget", "max_tokens", Halt).at(5)],
        ),
    ]
}

fn tree_quiet() -> Vec<GuardCase> {
    vec![
        case(
            "a child within its parent's budget",
            spends(child(spends(parent(), 300), "kid", "s1"), 400).assistant_message("and now?"),
            [quiet("budget")],
        ),
        case(
            "an unrelated session draws on nothing",
            spends(spends(parent(), 700).session("other").event("session.started", json!({})), 5_000)
                .assistant_message("x"),
            [quiet("budget")],
        ),
        case(
            "an unknown parent",
            spends(child(parent(), "kid", "nobody"), 5_000).assistant_message("x"),
            [quiet("budget")],
        ),
    ]
}

#[test]
fn tree_budgets_trip_only_when_exceeded() {
    check_all(&tree_trips());
    check_all(&tree_quiet());
}

#[test]
fn cyclic_parents_do_not_hang() {
    let history = child(child(EventHistory::new(), "a", "b"), "b", "a")
        .assistant_message("x")
        .session("a")
        .assistant_message("y");
    check("a ring", &history, &[quiet("budget")]);
}
