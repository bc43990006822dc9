//! Validates the graph of a parsed plan: unknown targets, unreachable nodes, forks without a join, endless loops.

use super::check_dialogue;
use super::node::{Node, NodeKind};
use super::parse::WorkflowSource;
use super::{DONE, FAILED, WorkflowPlan, check_references};
use crate::run_error::RunError;
use flyball::Preset;
use flyball::graph::{GraphError, find_loops};
use flyball::policy::{GuardMode, PolicyRule, RuleNames, resolve};
use std::collections::BTreeSet;

/// Collects all errors.
pub(super) fn check_plan(source: &WorkflowSource<'_>, plan: &WorkflowPlan) -> Vec<RunError> {
    let mut wrong = Vec::new();
    check_size(source, plan, &mut wrong);
    check_edges(source, plan, &mut wrong);
    check_references::check_references(source, plan, &mut wrong);
    check_dialogue::check_dialogues(source, plan, &mut wrong);
    if !wrong.is_empty() {
        return wrong;
    }
    check_reachability(source, plan, &mut wrong);
    check_conditions(source, plan, &mut wrong);
    check_forks(source, plan, &mut wrong);
    if wrong.is_empty() {
        check_endless_loops(source, plan, &mut wrong);
    }
    wrong
}

/// Index of a node in the `nodes` list of the file, as a path segment.
pub(super) fn node_position(source: &WorkflowSource<'_>, name: &str) -> String {
    let nodes = source.layer.tree.get("nodes").and_then(serde_json::Value::as_array);
    let found = nodes.and_then(|nodes| {
        nodes.iter().position(|node| {
            node.get("name").or_else(|| node.get("id")).and_then(serde_json::Value::as_str) == Some(name)
        })
    });
    found.unwrap_or(0).to_string()
}

fn is_end(name: &str) -> bool {
    [DONE, FAILED].contains(&name)
}

pub(super) fn known_nodes_help(plan: &WorkflowPlan) -> String {
    let known: Vec<&str> = plan.nodes.keys().map(String::as_str).chain([DONE, FAILED]).collect();
    format!("known nodes: {}", known.join(", "))
}

/// Rejects graphs over the governor's size limit.
fn check_size(source: &WorkflowSource<'_>, plan: &WorkflowPlan, wrong: &mut Vec<RunError>) {
    // Unknown targets are reported one by one with their positions, in `check_edges`.
    if let Err(error @ GraphError::TooLarge { .. }) = plan.graph.validate() {
        wrong.push(source.error(&["nodes"], error.code(), error.message(), &error.help()));
    }
}

fn check_edges(source: &WorkflowSource<'_>, plan: &WorkflowPlan, wrong: &mut Vec<RunError>) {
    if !plan.nodes.contains_key(&plan.start) {
        let what = format!("start node '{}' does not exist", plan.start);
        wrong.push(source.error(&["start"], "workflow_unknown_node", what, &known_nodes_help(plan)));
    }
    for node in plan.nodes.values() {
        let at = node_position(source, &node.name);
        for (key, next) in node.common.edges() {
            for to in next.names() {
                if !plan.nodes.contains_key(to) && !is_end(to) {
                    let what = format!("`{key}` of node '{}' points to unknown node '{to}'", node.name);
                    let place = ["nodes", &at, key];
                    wrong.push(source.error(
                        &place,
                        "workflow_unknown_target",
                        what,
                        &known_nodes_help(plan),
                    ));
                }
            }
        }
        let more: Vec<(&str, &str)> = match &node.kind {
            NodeKind::Decide(decide) => {
                decide.allowed_destinations.iter().map(|to| ("allowed_destinations", to.as_str())).collect()
            }
            NodeKind::Route(route) => {
                let rules = route.rules.iter().map(|rule| ("rules", rule.to.as_str()));
                rules.chain([("otherwise", route.otherwise.as_str())]).collect()
            }
            _ => Vec::new(),
        };
        for (key, to) in more {
            if !plan.nodes.contains_key(to) && !is_end(to) {
                let what = format!("`{key}` of node '{}' points to unknown node '{to}'", node.name);
                wrong.push(source.error(
                    &["nodes", &at, key],
                    "workflow_unknown_target",
                    what,
                    &known_nodes_help(plan),
                ));
            }
        }
        if node.targets().is_empty() {
            let what = format!("node '{}' has no next node", node.name);
            let advice = "write `next: done`, or name the next node";
            wrong.push(source.error(&["nodes", &at], "workflow_dead_end", what, advice));
        }
    }
}

fn check_reachability(source: &WorkflowSource<'_>, plan: &WorkflowPlan, wrong: &mut Vec<RunError>) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = vec![plan.start.as_str()];
    open.extend(plan.reviewer.as_deref());
    while let Some(name) = open.pop() {
        let Some((name, node)) = plan.nodes.get_key_value(name) else { continue };
        if seen.insert(name) {
            for to in node.targets() {
                open.extend(plan.nodes.get_key_value(&to).map(|(to, _)| to.as_str()));
            }
        }
    }
    for name in plan.nodes.keys().filter(|name| !seen.contains(name.as_str())) {
        let at = node_position(source, name);
        let what = format!("node '{name}' is unreachable");
        let advice = "add an edge to it, or remove it";
        wrong.push(source.error(&["nodes", &at], "workflow_unreachable_node", what, advice));
    }
}

fn check_conditions(source: &WorkflowSource<'_>, plan: &WorkflowPlan, wrong: &mut Vec<RunError>) {
    for node in plan.nodes.values() {
        let NodeKind::Route(route) = &node.kind else { continue };
        for (number, rule) in route.rules.iter().enumerate() {
            let checked = PolicyRule::new(&node.name, &rule.when, GuardMode::Observe, "")
                .and_then(|rule| rule.check(RuleNames::Route));
            if let Err(error) = checked {
                let at = node_position(source, &node.name);
                let place = ["nodes", &at, "rules", &number.to_string(), "when"];
                let fields =
                    "write it in CEL over `event`: outcome, output, structured, vars, visits, from, node";
                let advice = format!("{}; {fields}", error.help());
                wrong.push(source.error(&place, "workflow_bad_condition", error.to_string(), &advice));
            }
        }
    }
}

/// Branches must end at one common join and must not fork again before it.
fn check_forks(source: &WorkflowSource<'_>, plan: &WorkflowPlan, wrong: &mut Vec<RunError>) {
    for node in plan.nodes.values() {
        for (key, next) in node.common.edges() {
            let branches = next.names();
            if branches.len() < 2 {
                continue;
            }
            let at = node_position(source, &node.name);
            let joins: Vec<BTreeSet<&str>> = branches.iter().map(|branch| joins_of(plan, branch)).collect();
            let mut all: BTreeSet<&str> = joins.iter().flatten().copied().collect();
            let alone = joins.iter().any(BTreeSet::is_empty);
            if all.len() != 1 || alone {
                let what = format!("the branches of node '{}' do not meet at one join", node.name);
                let advice = "connect every branch to the same `join` node";
                wrong.push(source.error(&["nodes", &at, key], "workflow_no_join", what, advice));
            } else if let Some(join) = all.pop_first()
                && branches.iter().any(|branch| branches_again(plan, branch, join))
            {
                let what = format!("a branch of node '{}' forks again before the join", node.name);
                let advice = "join the branches first, or list all of them in one fork";
                wrong.push(source.error(&["nodes", &at, key], "workflow_nested_fork", what, advice));
            } else if let Some(name) = branches.iter().find_map(|start| branch_node_ending_run(plan, start)) {
                let what = format!("a branch of node '{}' ends the run at node '{name}'", node.name);
                let advice = "connect it to the join, or use `failed` to abandon only this branch";
                wrong.push(source.error(&["nodes", &at, key], "workflow_branch_ends", what, advice));
            }
        }
    }
}

/// Nodes of a branch, including its join.
fn branch_nodes<'a>(plan: &'a WorkflowPlan, start: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<String> = vec![start.to_owned()];
    while let Some(name) = open.pop() {
        let Some((name, node)) = plan.nodes.get_key_value(&name) else { continue };
        if seen.insert(name.as_str()) && !matches!(node.kind, NodeKind::Join(_)) {
            open.extend(node.targets());
        }
    }
    seen
}

/// First node of a branch that leads to `done` before the join.
fn branch_node_ending_run<'a>(plan: &'a WorkflowPlan, start: &str) -> Option<&'a str> {
    let ends = |name: &&str| {
        let node = plan.nodes.get(*name).filter(|node| !matches!(node.kind, NodeKind::Join(_)));
        node.is_some_and(|node| node.possible_targets().iter().any(|to| to == DONE))
    };
    branch_nodes(plan, start).into_iter().find(ends)
}

pub(super) fn joins_of<'a>(plan: &'a WorkflowPlan, start: &str) -> BTreeSet<&'a str> {
    let is_join =
        |name: &&str| matches!(plan.nodes.get(*name).map(|node| &node.kind), Some(NodeKind::Join(_)));
    branch_nodes(plan, start).into_iter().filter(is_join).collect()
}

fn branches_again(plan: &WorkflowPlan, start: &str, join: &str) -> bool {
    let many = |node: &Node| node.common.edges().any(|(_, next)| next.names().len() > 1);
    branch_nodes(plan, start)
        .into_iter()
        .filter(|name| *name != join)
        .any(|name| plan.nodes.get(name).is_some_and(many))
}

/// Reports loops that no edge leaves, under a policy that never stops them.
fn check_endless_loops(source: &WorkflowSource<'_>, plan: &WorkflowPlan, wrong: &mut Vec<RunError>) {
    let layers: Vec<_> = plan.policy.iter().cloned().collect();
    let Ok(resolved) = resolve(&layers, Preset::Workflow) else { return };
    let worst = plan.bounds(&resolved.policy);
    if worst.transitions.value().is_some() {
        return;
    }
    for found in find_loops(&plan.graph) {
        let inside = |name: &String| found.nodes.contains(name);
        let leaves = plan.graph.edges.iter().any(|edge| inside(&edge.from) && !inside(&edge.to));
        if !leaves {
            let at = node_position(source, &found.header);
            let what = format!("the loop {} has no exit, and no limit stops it", found.nodes.join(", "));
            let advice = "add an edge out of it, or enable a limit: budgets.loop.iterations or guards.visits";
            wrong.push(source.error(&["nodes", &at], "workflow_endless_loop", what, advice));
        }
    }
}
