//! Worst-case bounds against the real governor: adversaries that do whatever keeps a run going longest never exceed
//! what was promised.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use flyball::graph::{Bound, Limits, Workflow, bounds};
use flyball::policy::{Layer, Origin, resolve};
use flyball::{Event, Kind, Preset, Session, Verdict};
use serde_json::{Value, json};
use std::sync::Arc;

/// A small deterministic generator (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn maybe(&mut self, value: Value) -> Value {
        if self.roll(2) == 0 { value } else { Value::Null }
    }
}

fn graph(dice: &mut Dice) -> Workflow {
    let nodes = 2 + dice.roll(5);
    let name = |n: u64| format!("n{n}");
    let mut edges = Vec::new();
    for from in 0..nodes {
        for to in 0..nodes {
            if dice.roll(3) == 0 {
                edges.push((None, name(from), name(to)));
            }
        }
    }
    Workflow::new((0..nodes).map(name).collect(), edges, Vec::new())
}

fn policy(dice: &mut Dice) -> Value {
    let preset = ["workflow", "simple", "complex", "strict", "agent"][dice.roll(5) as usize];
    let mut tree =
        json!({"preset": preset, "budgets": {"session": {}, "node": {}, "loop": {}}, "guards": {}});
    let limits = [
        ("/budgets/session", "turns", 2 + dice.roll(30)),
        ("/budgets/node", "turns", 1 + dice.roll(8)),
        ("/budgets/loop", "iterations", 1 + dice.roll(6)),
    ];
    for (path, key, value) in limits {
        let value = dice.maybe(json!(value));
        if !value.is_null() {
            tree.pointer_mut(path).unwrap()[key] = value;
        }
    }
    for (guard, most) in [("visits", 8), ("transitions", 5)] {
        let limit = 1 + dice.roll(most);
        let value = dice.maybe(json!({ "limit": limit }));
        if !value.is_null() {
            tree["guards"][guard] = value;
        }
    }
    tree
}

/// One run: how many turns and transitions the governor let through.
struct Played {
    turns: u64,
    transitions: u64,
    elapsed_ms: u64,
}

fn play(session: &mut Session, workflow: &Workflow, start: &str, dice: &mut Dice, greedy: bool) -> Played {
    let mut now = 0;
    let ask = |session: &mut Session, kind: Kind, node: &str, at: u64| {
        let event = Event::new("s", kind).node(node).at(at);
        session.step(&event).unwrap().decision < Verdict::Block
    };
    let started = json!({"type": "session.started", "session": "s", "at": 0, "workflow": workflow});
    session.step(&Event::from_json(&started.to_string()).unwrap()).unwrap();
    let mut played = Played { turns: 0, transitions: 0, elapsed_ms: 0 };
    let mut used = vec![0_u64; workflow.edges.len()];
    let mut node = start.to_owned();
    let mut failed = 0;
    while failed < 40 && played.turns < 2000 {
        if !ask(session, Kind::TurnStarted {}, &node, now) {
            // This node has no turn left: only moving on could help, and a move needs a turn to come of it.
            break;
        }
        played.turns += 1;
        // A runner ends a turn at its deadline; no adversary takes longer.
        let took = session.policy().budgets.turn.timeout_ms.unwrap_or(600_000);
        now += took;
        played.elapsed_ms += took;
        ask(session, Kind::TurnFinished { output: None, structured: None, duration_ms: None }, &node, now);
        let mut moved = false;
        for _ in 0..12 {
            if dice.roll(4) == 0 && !greedy {
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
                ways[dice.roll(ways.len().min(2) as u64) as usize]
            } else {
                ways[dice.roll(ways.len() as u64) as usize]
            };
            let edge = &workflow.edges[at];
            let kind = Kind::TransitionRequested {
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

fn holds(bound: &Bound, played: u64) -> bool {
    match bound {
        Bound::AtMost { value, .. } => played <= *value,
        Bound::Unbounded { .. } => true,
    }
}

#[test]
fn no_adversary_takes_more_than_was_promised() {
    let mut dice = Dice(42);
    let (mut games, mut bounded) = (0, 0);
    for _ in 0..600 {
        let workflow = graph(&mut dice);
        let tree = policy(&mut dice);
        let resolved = resolve(&[Layer::from_value(Origin::Inline, tree.clone())], Preset::Workflow).unwrap();
        let promised = bounds(&workflow, &Limits::of(&resolved.policy, &workflow));
        let policy = Arc::new(resolved.policy);
        for greedy in [false, true] {
            for start in &workflow.nodes {
                let mut session = Session::new(Arc::clone(&policy));
                let played = play(&mut session, &workflow, start, &mut dice, greedy);
                let entry = entries(&workflow).contains(start);
                if !entry {
                    continue;
                }
                games += 1;
                bounded += u64::from(promised.turns.value().is_some());
                let about = || format!("{tree}\n{:?}\nfrom {start}\n{promised:?}", workflow.edges);
                assert!(holds(&promised.turns, played.turns), "{} turns\n{}", played.turns, about());
                assert!(
                    holds(&promised.transitions, played.transitions),
                    "{} transitions\n{}",
                    played.transitions,
                    about()
                );
                assert!(
                    holds(&promised.runtime_ms, played.elapsed_ms),
                    "{} ms\n{}",
                    played.elapsed_ms,
                    about()
                );
            }
        }
    }
    assert!(games > 1000 && bounded * 2 > games, "{bounded} of {games} games were bounded");
}

/// Where a run may begin: nodes that no other node leads to, else the first.
fn entries(workflow: &Workflow) -> Vec<String> {
    let led_to = |node: &str| workflow.edges.iter().any(|edge| edge.to == node && edge.from != node);
    let found: Vec<String> = workflow.nodes.iter().filter(|node| !led_to(node)).cloned().collect();
    if found.is_empty() { workflow.nodes.iter().take(1).cloned().collect() } else { found }
}
