//! What `flyball check` promises holds: no run takes more transitions or turns than the worst case says, whatever the
//! models do.
//!
//! The adversary is a set of scripted models that decide where to go in each of their turns. They never say the same
//! thing twice, so that no guard against repetition helps, and prefer to stay away from the end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

#[path = "bounds/adversary.rs"]
mod adversary;
#[path = "bounds/graphs.rs"]
mod graphs;

use adversary::{Random, Taken, play};
use flyball::Preset;
use flyball::graph::Bounds;
use flyball::policy::resolve;
use flyball_run::workflow::{Plan, Work, read};
use serde_json::Value;
use std::path::Path;

/// How many random workflows.
const WORKFLOWS: u64 = 1_000;
/// How often the adversary tries each.
const TRIES: u64 = 6;

fn plan(workflow: &Value) -> Plan {
    let text = workflow.to_string();
    read(&text, "w.json", Path::new(env!("CARGO_TARGET_TMPDIR")))
        .unwrap_or_else(|wrong| panic!("{wrong:?}\n{text}"))
}

/// What `flyball check` says about it.
fn promised(plan: &Plan) -> Bounds {
    let layers: Vec<_> = plan.policy.iter().cloned().collect();
    let policy = resolve(&layers, Preset::Workflow).unwrap().policy;
    plan.bounds(&policy)
}

/// Plays a workflow and holds every session of the run to the promise. Gives the longest session.
fn hold(workflow: &Value, promise: &Bounds, what: &str) -> Taken {
    let mut longest = Taken::default();
    for (session, taken) in play(plan(workflow), what) {
        for (name, took, most) in [
            ("transitions", taken.transitions, promise.transitions.value()),
            ("turns", taken.turns, promise.turns.value()),
        ] {
            let most = most.unwrap_or(u64::MAX);
            let (nodes, policy) = (&workflow["nodes"], &workflow["policy"]);
            assert!(
                took <= most,
                "{what}, session {session}: {took} {name}, promised {most}\n{policy}\n{nodes:#}"
            );
        }
        longest.transitions = longest.transitions.max(taken.transitions);
        longest.turns = longest.turns.max(taken.turns);
    }
    longest
}

#[test]
fn no_adversary_exceeds_the_promise_on_random_workflows() {
    let (mut bounded, mut reached, mut loops) = (0, 0, 0);
    for number in 1..=WORKFLOWS {
        let mut random = Random(number);
        let graph = graphs::random(&mut random);
        let first = graphs::with_script(&graph, &mut random, 0);
        let promise = promised(&plan(&first));
        let Some(most) = promise.transitions.value() else { continue };
        bounded += 1;
        loops += u64::from(!flyball::graph::loops(&plan(&first).graph).is_empty());
        let mut best = Taken::default();
        for trial in 0..TRIES {
            let workflow = graphs::with_script(&graph, &mut random, trial);
            let taken = hold(&workflow, &promise, &format!("workflow {number}, trial {trial}"));
            best.transitions = best.transitions.max(taken.transitions);
        }
        reached += u64::from(best.transitions == most);
    }
    println!(
        "{bounded} of {WORKFLOWS} workflows are bounded, {loops} of them have loops; the adversary takes all that is promised in {reached}"
    );
    assert!(bounded > WORKFLOWS / 2, "{bounded}");
    assert!(loops > bounded / 2, "{loops} of {bounded}");
    assert!(reached > bounded / 4, "the adversary is too tame: {reached} of {bounded}");
}

#[test]
fn no_adversary_exceeds_the_promise_on_the_graphs_of_the_examples() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for file in [
        "fix-until-green/workflow.yaml",
        "fix-until-green/stuck/workflow.yaml",
        "ralph/workflow.yaml",
        "ralph/never.yaml",
        "issues/workflow.yaml",
        "issues/bounce.yaml",
        "coder-verifier/workflow.yaml",
        "planner-reviewer/workflow.yaml",
        "planner-reviewer/quorum.yaml",
        "docs-writer/workflow.yaml",
    ] {
        let path = examples.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let example = read(&text, file, path.parent().unwrap()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let promise = promised(&example);
        let routers = example.nodes.values().any(|node| matches!(node.work, Work::Route(_)));
        let graph = graphs::of_example(&example, &text);
        let mut longest = Taken::default();
        for trial in 0..40 {
            let workflow = graphs::with_script(&graph, &mut Random(trial), trial);
            let mine = promised(&plan(&workflow));
            assert_eq!(mine.transitions, promise.transitions, "{file}: the adversary plays the same graph");
            // The adversary decides where a router would; a router has no turns, and the adversary has.
            assert!(routers || mine == promise, "{file}: the adversary plays the same graph");
            let held = Bounds { turns: mine.turns, ..promise.clone() };
            let taken = hold(&workflow, &held, &format!("{file}, trial {trial}"));
            longest.transitions = longest.transitions.max(taken.transitions);
            longest.turns = longest.turns.max(taken.turns);
        }
        println!(
            "{file}: {} of at most {:?} transitions, {} of at most {:?} turns",
            longest.transitions,
            promise.transitions.value(),
            longest.turns,
            promise.turns.value()
        );
    }
}
