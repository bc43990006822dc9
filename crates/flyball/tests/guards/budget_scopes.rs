//! `budget` of a turn, a node, a loop, one message, and a tree of sessions.

use crate::budget::budgets;
use crate::kit::{Block, Case, Halt, History, Warn, case, check, check_all, never, ok, quiet, trips};
use flyball::Status;
use serde_json::{Value, json};

const MINUTE: u64 = 60_000;

/// A coder and a verifier in a loop; the edge back to the coder begins a new iteration.
fn looped(policy: Value) -> History {
    History::started(json!({"policy": policy, "workflow": {
        "nodes": ["coder", "verifier"],
        "edges": [{"id": "e1", "from": "coder", "to": "verifier"}, {"id": "e2", "from": "verifier", "to": "coder"}]}}))
}

fn rounds(history: History, n: usize) -> History {
    history.times(n, |history, _| history.go("coder", "verifier").go("verifier", "coder"))
}

fn turn_trips() -> Vec<Case> {
    vec![
        case(
            "a turn may take ten minutes and not a millisecond longer",
            History::new().clock(0).begins("a").clock(10 * MINUTE + 1).ends("a", "x"),
            [trips("budget", "turn_timeout", Halt)
                .at(3)
                .count(10 * MINUTE + 1, 10 * MINUTE)
                .because("budget_exceeded")],
        ),
        case(
            "the duration that the host measured counts too",
            History::new().begins("a").event("turn.finished", json!({"node": "a", "duration_ms": 600_001})),
            [trips("budget", "turn_timeout", Halt).at(3)],
        ),
        case(
            "tokens of one turn",
            History::under(budgets(json!({"turn": {"tokens": 100}})))
                .begins("a")
                .event("turn.finished", json!({"node": "a", "usage": {"tokens_out": 101}})),
            [trips("budget", "max_tokens", Halt).at(3).count(101, 100)],
        ),
        case(
            "an act in the middle of a turn that is too long is refused",
            History::new().clock(0).begins("a").clock(11 * MINUTE).ask("read_file", json!({"path": "x"})),
            [trips("budget", "turn_timeout", Halt).at(3)],
        ),
    ]
}

fn turn_quiet() -> Vec<Case> {
    vec![
        case(
            "ten minutes are allowed",
            History::new().clock(0).begins("a").clock(10 * MINUTE).ends("a", "x"),
            [never("budget", Block)],
        ),
        case(
            "each turn has its own ten minutes",
            History::new()
                .clock(0)
                .times(5, |h, i| h.begins("a").later(7 * MINUTE).ends("a", &"x".repeat(i + 1))),
            [quiet("budget")],
        ),
        case(
            "tokens begin anew with each turn",
            History::under(budgets(json!({"turn": {"tokens": 100}}))).times(5, |history, _| {
                history.begins("a").event("turn.finished", json!({"node": "a", "usage": {"tokens_out": 70}}))
            }),
            [quiet("budget")],
        ),
    ]
}

#[test]
fn turn_budgets() {
    check_all(&turn_trips());
    check_all(&turn_quiet());
}

fn node_trips() -> Vec<Case> {
    let six = || budgets(json!({"node": {"turns": 6}}));
    vec![
        case(
            "six turns of a node are allowed, the seventh is refused",
            History::under("workflow")
                .times(7, |history, i| history.begins("a").ends("a", &"x".repeat(i + 1))),
            [
                trips("budget", "node_budget", Warn).at(10).count(4, 6),
                trips("budget", "node_budget", Halt)
                    .at(14)
                    .count(6, 6)
                    .because("budget_exceeded")
                    .message("node 'a' has used 6 of 6 turns"),
            ],
        ),
        case(
            "a node with twelve turns of its own",
            History::under(
                json!({"preset": "off", "budgets": {"node": {"turns": 6}}, "nodes": {"test": {"turns": 12}}}),
            )
            .times(13, |history, _| history.begins("test")),
            [trips("budget", "node_budget", Halt).at(14).count(12, 12)],
        ),
        case(
            "turns inside a loop that were written down are obeyed",
            looped(six()).times(7, |history, _| history.begins("coder")),
            [trips("budget", "node_budget", Halt).at(8).count(6, 6)],
        ),
        case(
            "nine turns of a node inside a loop are allowed by default, the tenth is refused",
            looped(json!({"preset": "workflow", "guards": {"visits": "off"}}))
                .times(10, |history, _| history.begins("coder")),
            [trips("budget", "node_budget", Halt).at(11).count(9, 9)],
        ),
        case(
            "time of one node",
            History::under(budgets(json!({"node": {"runtime": "10m"}})))
                .clock(0)
                .times(3, |history, _| history.begins("a").later(6 * MINUTE).ends("a", "x")),
            [trips("budget", "node_budget", Halt).at(6).count(12 * MINUTE, 10 * MINUTE)],
        ),
    ]
}

fn node_quiet() -> Vec<Case> {
    vec![
        case(
            "six turns",
            History::under("workflow")
                .times(6, |history, i| history.begins("a").ends("a", &"x".repeat(i + 1))),
            [never("budget", Block)],
        ),
        case(
            "each node has its own six",
            History::under("workflow").times(4, |history, _| history.begins("a").begins("b").begins("c")),
            [quiet("budget")],
        ),
        case(
            "an agent on its own has no node budget",
            History::new().times(40, |history, _| history.begins("main")),
            [quiet("budget")],
        ),
    ]
}

#[test]
fn node_budgets() {
    check_all(&node_trips());
    check_all(&node_quiet());
}

fn loop_trips() -> Vec<Case> {
    let eight = || budgets(json!({"loop": {"iterations": 8}}));
    vec![
        case(
            "eight iterations are allowed, the ninth delivery halts",
            rounds(looped(eight()), 9),
            [
                trips("budget", "max_cycle_iterations", Warn).at(15),
                trips("budget", "max_cycle_iterations", Halt)
                    .at(19)
                    .count(8, 8)
                    .because("budget_exceeded")
                    .state(Status::Halted),
            ],
        ),
        case(
            "eight iterations are the default of a workflow, and no other limit comes first",
            looped(json!("workflow")).times(9, |history, i| {
                history.go("coder", "verifier").diff(&"+".repeat(i + 1)).go("verifier", "coder")
            }),
            [trips("budget", "max_cycle_iterations", Halt).at(28).count(8, 8)],
        ),
        case(
            "time inside a loop",
            rounds(looped(budgets(json!({"loop": {"runtime": "10m"}}))).clock(0), 1)
                .later(11 * MINUTE)
                .go("coder", "verifier"),
            [trips("budget", "max_runtime", Halt).at(4)],
        ),
        case(
            "money inside a loop",
            rounds(looped(budgets(json!({"loop": {"cost_usd": 1}}))), 1)
                .event("turn.finished", json!({"node": "coder", "usage": {"cost_usd": 1.5}})),
            [trips("budget", "max_cost", Halt).at(4).count(1_500_000, 1_000_000)],
        ),
    ]
}

fn loop_quiet() -> Vec<Case> {
    vec![
        case(
            "eight iterations",
            rounds(looped(budgets(json!({"loop": {"iterations": 8}}))), 8),
            [never("budget", Block)],
        ),
        case(
            "without a workflow there is no loop to count",
            rounds(History::under(budgets(json!({"loop": {"iterations": 2}}))), 6),
            [quiet("budget")],
        ),
        case(
            "an edge that does not begin the loop again does not count",
            looped(budgets(json!({"loop": {"iterations": 2}})))
                .times(9, |history, _| history.go("coder", "verifier")),
            [quiet("budget")],
        ),
    ]
}

#[test]
fn loop_budgets() {
    check_all(&loop_trips());
    check_all(&loop_quiet());
    let run = rounds(looped(budgets(json!({"loop": {"iterations": 1}}))), 2).run();
    let halted = &run.last().effects[0];
    assert_eq!(halted.effect, "loop.halted");
    assert!(halted.fields.contains_key("cycleId"), "{:?}", halted.fields);
}

fn message_trips() -> Vec<Case> {
    let node = |i: usize| format!("n{}", "x".repeat(i));
    let along =
        move |history: History, n: usize| history.times(n, |history, i| history.go(&node(i), &node(i + 1)));
    vec![
        case(
            "twenty-five transitions for one message are allowed, the twenty-sixth is refused",
            along(History::under("workflow").human("go"), 26),
            [
                trips("budget", "max_steps", Warn).at(26),
                trips("budget", "max_steps", Block)
                    .at(28)
                    .count(25, 25)
                    .state(Status::Running)
                    .message("25 of 25 transitions for one message are used"),
            ],
        ),
        case(
            "ten calls for one message",
            History::under(budgets(json!({"message": {"tool_calls": 10}})))
                .human("go")
                .times(11, |history, i| history.call("read_file", json!({"path": i}), ok("x"))),
            [trips("budget", "max_steps", Block).at(23).count(10, 10)],
        ),
        case(
            "a scheduler's message does not begin a new budget",
            along(
                along(History::under("workflow"), 20).event("user.message", json!({"origin": "schedule"})),
                6,
            ),
            [trips("budget", "max_steps", Block)],
        ),
    ]
}

fn message_quiet() -> Vec<Case> {
    let node = |i: usize| format!("n{}", "x".repeat(i));
    let along =
        move |history: History, n: usize| history.times(n, |history, i| history.go(&node(i), &node(i + 1)));
    let policy = || budgets(json!({"message": {"transitions": 25}}));
    vec![
        case(
            "twenty-five transitions",
            along(History::under(policy()).human("go"), 25),
            [never("budget", Block)],
        ),
        case(
            "each message of a person has its own",
            History::under(policy()).times(5, |history, _| along(history.human("go on"), 20)),
            [quiet("budget")],
        ),
        case("an agent on its own has none", along(History::new().human("go"), 60), [quiet("budget")]),
    ]
}

#[test]
fn message_budgets() {
    check_all(&message_trips());
    check_all(&message_quiet());
}

/// What a recursion error would leave in a log, as data: which limit, and the way that led there.
#[test]
fn the_step_limit_tells_the_way_that_led_there() {
    let run = message_trips()[0].history.run();
    let trip = run.last().trips.iter().find(|trip| trip.reason == "max_steps").unwrap();
    let budget = trip.budget.clone().unwrap();
    assert_eq!((budget.scope.as_str(), budget.name.as_str(), budget.limit), ("message", "transitions", 25));
    let trail = &trip.evidence.trail;
    let shown = flyball::Policy::preset(flyball::Preset::Workflow).guards.cycle.transitions.max_history;
    assert_eq!(trail.len() as u64, shown + 1, "{trail:?}");
    assert_eq!(trail.last().map(String::len), Some(26), "the node after 25 transitions: {trail:?}");
}

/// What a person adds to a loop is in its badge.
#[test]
fn the_badge_of_a_loop_shows_what_a_release_has_added() {
    let halted = rounds(looped(budgets(json!({"loop": {"iterations": 3}}))), 4);
    let run = halted.release("budget", "grant").run();
    let session = run.sessions.get("s1").unwrap();
    let report = session.state().report(session.policy());
    assert_eq!(report.loops.iter().map(|known| known.badge.as_str()).collect::<Vec<_>>(), ["Loop 3/6"]);
}

/// A graph may change while it is worked on; the loop that shares most nodes goes on counting.
#[test]
fn a_loop_keeps_its_count_when_the_workflow_changes() {
    let policy = budgets(json!({"loop": {"iterations": 3}}));
    let edges = |pairs: &[(&str, &str)]| -> Vec<Value> {
        pairs.iter().map(|(from, to)| json!({"from": from, "to": to})).collect()
    };
    let changed = json!({"workflow": {"nodes": ["coder", "linter", "verifier"],
        "edges": edges(&[("coder", "linter"), ("linter", "verifier"), ("verifier", "coder")])}});
    let history = rounds(looped(policy), 2).event("session.started", changed);
    let run = history.run();
    let session = run.sessions.get("s1").unwrap();
    let report = session.state().report(session.policy());
    assert_eq!(report.loops.iter().map(|known| known.badge.as_str()).collect::<Vec<_>>(), ["Loop 2/3"]);
    let on = history.times(2, |history, _| history.walk("coder>linter>verifier>coder"));
    check("two more", &on, &[trips("budget", "max_cycle_iterations", Halt).at(12).count(3, 3)]);
}

fn child(history: History, name: &str, parent: &str) -> History {
    history.session(name).event("session.started", json!({"parent": parent}))
}

fn spends(history: History, tokens: u64) -> History {
    history.event("tool.finished", json!({"call": "x", "tool": "t", "usage": {"tokens_in": tokens}}))
}

fn parent() -> History {
    History::under(json!({"budgets": {"session": {"tokens": 1000}}}))
}

fn tree_trips() -> Vec<Case> {
    vec![
        case(
            "a child draws on what its parent has left",
            spends(child(spends(parent(), 600), "kid", "s1"), 401).says("and now?"),
            [trips("budget", "max_tokens", Halt)
                .at(5)
                .count(1001, 1000)
                .because("budget_exceeded")
                .message("the session 's1' above this one has used 1001 of 1000 tokens")],
        ),
        case(
            "what a child used is missing to the parent",
            spends(child(parent(), "kid", "s1"), 1_001).session("s1").says("and now?"),
            [trips("budget", "max_tokens", Halt)],
        ),
        case(
            "two children share one budget",
            spends(child(spends(child(parent(), "a", "s1"), 600), "b", "s1"), 600).says("and now?"),
            [trips("budget", "max_tokens", Halt).at(6)],
        ),
        case(
            "a grandchild draws on the grandparent",
            spends(child(child(parent(), "a", "s1"), "b", "a"), 1_001).says("and now?"),
            [trips("budget", "max_tokens", Halt).at(5)],
        ),
    ]
}

fn tree_quiet() -> Vec<Case> {
    vec![
        case(
            "a child within its parent's budget",
            spends(child(spends(parent(), 300), "kid", "s1"), 400).says("and now?"),
            [quiet("budget")],
        ),
        case(
            "a session beside draws on nothing",
            spends(spends(parent(), 700).session("other").event("session.started", json!({})), 5_000)
                .says("x"),
            [quiet("budget")],
        ),
        case(
            "a parent that nobody knows",
            spends(child(parent(), "kid", "nobody"), 5_000).says("x"),
            [quiet("budget")],
        ),
    ]
}

#[test]
fn tree_budgets() {
    check_all(&tree_trips());
    check_all(&tree_quiet());
}

#[test]
fn two_sessions_that_call_each_other_parent_do_not_hang() {
    let history = child(child(History::new(), "a", "b"), "b", "a").says("x").session("a").says("y");
    check("a ring", &history, &[quiet("budget")]);
}
