//! Worst-case bounds against the real governor: adversaries that prolong a run as much as possible never exceed the
//! bounds.
#![allow(clippy::unwrap_used, reason = "a test stops at the first unexpected result")]

use flyball::graph::{Workflow, WorkflowLimits, WorstCaseBound, worst_case_bounds};
use flyball::policy::{PolicyLayer, ValueOrigin, resolve};
use flyball::{Event, EventKind, Preset, Session, Verdict};
use serde_json::{Value, json};
use std::sync::Arc;

/// A small deterministic generator (splitmix64).
struct WorkflowRng(u64);

impl WorkflowRng {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn maybe(&mut self, value: Value) -> Value {
        if self.below(2) == 0 { value } else { Value::Null }
    }
}

fn random_workflow(dice: &mut WorkflowRng) -> Workflow {
    let nodes = 2 + dice.below(5);
    let name = |n: u64| format!("n{n}");
    let mut edges = Vec::new();
    for from in 0..nodes {
        for to in 0..nodes {
            if dice.below(3) == 0 {
                edges.push((None, name(from), name(to)));
            }
        }
    }
    Workflow::new((0..nodes).map(name).collect(), edges, Vec::new())
}

fn random_policy(dice: &mut WorkflowRng) -> Value {
    let preset = ["workflow", "simple", "complex", "strict", "agent"][dice.below(5) as usize];
    let mut tree =
        json!({"preset": preset, "budgets": {"session": {}, "node": {}, "loop": {}}, "guards": {}});
    let limits = [
        ("/budgets/session", "turns", 2 + dice.below(30)),
        ("/budgets/node", "turns", 1 + dice.below(8)),
        ("/budgets/loop", "iterations", 1 + dice.below(6)),
    ];
    for (path, key, value) in limits {
        let value = dice.maybe(json!(value));
        if !value.is_null() {
            tree.pointer_mut(path).unwrap()[key] = value;
        }
    }
    for (guard, most) in [("visits", 8), ("transitions", 5)] {
        let limit = 1 + dice.below(most);
        let value = dice.maybe(json!({ "limit": limit }));
        if !value.is_null() {
            tree["guards"][guard] = value;
        }
    }
    tree
}

/// One run: the number of turns and transitions that the governor allowed.
struct RunTotals {
    turns: u64,
    transitions: u64,
    elapsed_ms: u64,
}

fn play_adversary(
    session: &mut Session,
    workflow: &Workflow,
    start: &str,
    dice: &mut WorkflowRng,
    greedy: bool,
) -> RunTotals {
    let mut now = 0;
    let ask = |session: &mut Session, kind: EventKind, node: &str, at: u64| {
        let event = Event::new("s", kind).node(node).at(at);
        session.step(&event).unwrap().decision < Verdict::Block
    };
    let started = json!({"type": "session.started", "session": "s", "at": 0, "workflow": workflow});
    session.step(&Event::from_json(&started.to_string()).unwrap()).unwrap();
    let mut played = RunTotals { turns: 0, transitions: 0, elapsed_ms: 0 };
    let mut used = vec![0_u64; workflow.edges.len()];
    let mut node = start.to_owned();
    let mut failed = 0;
    while failed < 40 && played.turns < 2000 {
        if !ask(session, EventKind::TurnStarted {}, &node, now) {
            // This node has no turn left, so only a transition could help, and that needs a turn after it.
            break;
        }
        played.turns += 1;
        // A runner ends a turn at its deadline; no adversary takes longer.
        let took = session.policy().budgets.turn.timeout_ms.unwrap_or(600_000);
        now += took;
        played.elapsed_ms += took;
        ask(
            session,
            EventKind::TurnFinished { output: None, structured: None, duration_ms: None },
            &node,
            now,
        );
        let mut moved = false;
        for _ in 0..12 {
            if dice.below(4) == 0 && !greedy {
                break;
            }
            let mut ways: Vec<usize> =
                (0..workflow.edges.len()).filter(|at| workflow.edges[*at].from == node).collect();
            if ways.is_empty() {
                break;
            }
            if greedy {
                ways.sort_by_key(|at| (used[*at], *at));
            }
            let at = if greedy {
                ways[dice.below(ways.len().min(2) as u64) as usize]
            } else {
                ways[dice.below(ways.len() as u64) as usize]
            };
            let edge = &workflow.edges[at];
            let kind = EventKind::TransitionRequested {
                from: edge.from.clone(),
                to: edge.to.clone(),
                edge: Some(edge.id.clone()),
            };
            if ask(session, kind, &node, now) {
                used[at] += 1;
                played.transitions += 1;
                node.clone_from(&edge.to);
                moved = true;
                break;
            }
        }
        failed = if moved { 0 } else { failed + 1 };
    }
    played
}

fn within_bound(bound: &WorstCaseBound, played: u64) -> bool {
    match bound {
        WorstCaseBound::AtMost { value, .. } => played <= *value,
        WorstCaseBound::Unbounded { .. } => true,
    }
}

#[test]
fn no_adversary_exceeds_the_worst_case_bounds() {
    let mut dice = WorkflowRng(42);
    let (mut games, mut bounded) = (0, 0);
    for _ in 0..600 {
        let workflow = random_workflow(&mut dice);
        let tree = random_policy(&mut dice);
        let resolved =
            resolve(&[PolicyLayer::from_value(ValueOrigin::Inline, tree.clone())], Preset::Workflow).unwrap();
        let promised =
            worst_case_bounds(&workflow, &WorkflowLimits::from_policy(&resolved.policy, &workflow));
        let policy = Arc::new(resolved.policy);
        for greedy in [false, true] {
            for start in &workflow.nodes {
                let mut session = Session::new(Arc::clone(&policy));
                let played = play_adversary(&mut session, &workflow, start, &mut dice, greedy);
                let entry = entries(&workflow).contains(start);
                if !entry {
                    continue;
                }
                games += 1;
                bounded += u64::from(promised.turns.value().is_some());
                let about = || format!("{tree}\n{:?}\nfrom {start}\n{promised:?}", workflow.edges);
                assert!(within_bound(&promised.turns, played.turns), "{} turns\n{}", played.turns, about());
                assert!(
                    within_bound(&promised.transitions, played.transitions),
                    "{} transitions\n{}",
                    played.transitions,
                    about()
                );
                assert!(
                    within_bound(&promised.runtime_ms, played.elapsed_ms),
                    "{} ms\n{}",
                    played.elapsed_ms,
                    about()
                );
            }
        }
    }
    assert!(games > 1000 && bounded * 2 > games, "{bounded} of {games} games were bounded");
}

/// Possible start nodes: nodes without incoming edges from other nodes, else the first.
fn entries(workflow: &Workflow) -> Vec<String> {
    let led_to = |node: &str| workflow.edges.iter().any(|edge| edge.to == node && edge.from != node);
    let found: Vec<String> = workflow.nodes.iter().filter(|node| !led_to(node)).cloned().collect();
    if found.is_empty() { workflow.nodes.iter().take(1).cloned().collect() } else { found }
}
