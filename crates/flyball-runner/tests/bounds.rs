//! The worst case that `flyball check` reports holds: no run takes more transitions or turns, regardless of the models'
//! behavior.
//!
//! The adversary is a set of scripted models that choose the next node in each turn. They never repeat a reply, so that
//! repetition guards do not help, and prefer to avoid the end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "bounds/adversary.rs"]
mod adversary;
#[path = "bounds/graphs.rs"]
mod graphs;

use adversary::{AdversaryRng, SessionCounts, run_and_count};
use flyball::Preset;
use flyball::graph::WorstCaseBounds;
use flyball::policy::resolve;
use flyball_runner::workflow::{NodeKind, WorkflowPlan, parse_workflow};
use serde_json::Value;
use std::path::Path;

/// Number of random workflows.
const WORKFLOWS: u64 = 1_000;
/// Attempts of the adversary per workflow.
const TRIES: u64 = 6;

fn plan(workflow: &Value) -> WorkflowPlan {
    let text = workflow.to_string();
    parse_workflow(&text, "w.json", Path::new(env!("CARGO_TARGET_TMPDIR")))
        .unwrap_or_else(|wrong| panic!("{wrong:?}\n{text}"))
}

/// Bounds that `flyball check` reports.
fn worst_case(plan: &WorkflowPlan) -> WorstCaseBounds {
    let layers: Vec<_> = plan.policy.iter().cloned().collect();
    let policy = resolve(&layers, Preset::Workflow).unwrap().policy;
    plan.bounds(&policy)
}

/// Runs a workflow and checks every session against the bounds. Returns the longest session.
fn assert_within_bounds(workflow: &Value, promise: &WorstCaseBounds, what: &str) -> SessionCounts {
    let mut longest = SessionCounts::default();
    for (session, taken) in run_and_count(plan(workflow), what) {
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
fn random_workflows_stay_within_the_worst_case() {
    let (mut bounded, mut reached, mut loops) = (0, 0, 0);
    for number in 1..=WORKFLOWS {
        let mut random = AdversaryRng(number);
        let graph = graphs::random_workflow(&mut random);
        let first = graphs::with_script(&graph, &mut random, 0);
        let promise = worst_case(&plan(&first));
        let Some(most) = promise.transitions.value() else { continue };
        bounded += 1;
        loops += u64::from(!flyball::graph::find_loops(&plan(&first).graph).is_empty());
        let mut best = SessionCounts::default();
        for trial in 0..TRIES {
            let workflow = graphs::with_script(&graph, &mut random, trial);
            let taken =
                assert_within_bounds(&workflow, &promise, &format!("workflow {number}, trial {trial}"));
            best.transitions = best.transitions.max(taken.transitions);
        }
        reached += u64::from(best.transitions == most);
    }
    println!(
        "{bounded} of {WORKFLOWS} workflows are bounded, {loops} of them have loops; the adversary takes all that is promised in {reached}"
    );
    assert!(bounded > WORKFLOWS / 2, "{bounded}");
    assert!(loops > bounded / 2, "{loops} of {bounded}");
    assert!(reached > bounded / 4, "the adversary is too weak: {reached} of {bounded}");
}

#[test]
fn example_graphs_stay_within_the_worst_case() {
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
        let example =
            parse_workflow(&text, file, path.parent().unwrap()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let promise = worst_case(&example);
        let routers = example.nodes.values().any(|node| matches!(node.kind, NodeKind::Route(_)));
        let graph = graphs::from_example(&example, &text);
        let mut longest = SessionCounts::default();
        for trial in 0..40 {
            let workflow = graphs::with_script(&graph, &mut AdversaryRng(trial), trial);
            let mine = worst_case(&plan(&workflow));
            assert_eq!(
                mine.transitions, promise.transitions,
                "{file}: the adversary must run the same graph"
            );
            // The adversary decides in place of a router; a router takes no turns, but the adversary does.
            assert!(routers || mine == promise, "{file}: the adversary must run the same graph");
            let held = WorstCaseBounds { turns: mine.turns, ..promise.clone() };
            let taken = assert_within_bounds(&workflow, &held, &format!("{file}, trial {trial}"));
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
