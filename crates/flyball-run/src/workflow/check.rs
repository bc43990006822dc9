//! What is wrong with a plan that can be read: edges to nowhere, nodes that nothing leads to, loops without an end.

use super::dialogue;
use super::node::{Node, Work};
use super::read::Source;
use super::{DONE, FAILED, Plan, names};
use crate::fail::Failure;
use flyball::Preset;
use flyball::graph::{GraphError, loops};
use flyball::policy::{Mode, Rule, RuleNames, resolve};
use std::collections::BTreeSet;

/// Everything that is wrong.
pub(super) fn all(source: &Source<'_>, plan: &Plan) -> Vec<Failure> {
    let mut wrong = Vec::new();
    size(source, plan, &mut wrong);
    edges(source, plan, &mut wrong);
    names::all(source, plan, &mut wrong);
    dialogue::all(source, plan, &mut wrong);
    if !wrong.is_empty() {
        return wrong;
    }
    unreachable(source, plan, &mut wrong);
    conditions(source, plan, &mut wrong);
    forks(source, plan, &mut wrong);
    if wrong.is_empty() {
        endless(source, plan, &mut wrong);
    }
    wrong
}

/// The position of a node in the file.
pub(super) fn position(source: &Source<'_>, name: &str) -> String {
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

pub(super) fn near(plan: &Plan) -> String {
    let known: Vec<&str> = plan.nodes.keys().map(String::as_str).chain([DONE, FAILED]).collect();
    format!("there are {}", known.join(", "))
}

/// A graph that the governor would not take.
fn size(source: &Source<'_>, plan: &Plan, wrong: &mut Vec<Failure>) {
    // Edges to nowhere are told one by one, with their places.
    if let Err(error @ GraphError::TooLarge { .. }) = plan.graph.validate() {
        wrong.push(source.wrong(&["nodes"], error.code(), error.what(), &error.what_to_do()));
    }
}

fn edges(source: &Source<'_>, plan: &Plan, wrong: &mut Vec<Failure>) {
    if !plan.nodes.contains_key(&plan.start) {
        let what = format!("the run would begin at '{}', which is no node", plan.start);
        wrong.push(source.wrong(&["start"], "workflow_unknown_node", what, &near(plan)));
    }
    for node in plan.nodes.values() {
        let at = position(source, &node.name);
        for (key, next) in node.common.ways() {
            for to in next.names() {
                if !plan.nodes.contains_key(to) && !is_end(to) {
                    let what = format!("`{key}` of node '{}' leads to '{to}', which is nowhere", node.name);
                    let place = ["nodes", &at, key];
                    wrong.push(source.wrong(&place, "workflow_edge_to_nowhere", what, &near(plan)));
                }
            }
        }
        let more: Vec<(&str, &str)> = match &node.work {
            Work::Decide(decide) => {
                decide.allowed_destinations.iter().map(|to| ("allowed_destinations", to.as_str())).collect()
            }
            Work::Route(route) => {
                let rules = route.rules.iter().map(|rule| ("rules", rule.to.as_str()));
                rules.chain([("otherwise", route.otherwise.as_str())]).collect()
            }
            _ => Vec::new(),
        };
        for (key, to) in more {
            if !plan.nodes.contains_key(to) && !is_end(to) {
                let what = format!("`{key}` of node '{}' leads to '{to}', which is nowhere", node.name);
                wrong.push(source.wrong(&["nodes", &at, key], "workflow_edge_to_nowhere", what, &near(plan)));
            }
        }
        if node.targets().is_empty() {
            let what = format!("node '{}' leads nowhere", node.name);
            let advice = "write `next: done`, or where it goes on";
            wrong.push(source.wrong(&["nodes", &at], "workflow_no_way_out", what, advice));
        }
    }
}

fn unreachable(source: &Source<'_>, plan: &Plan, wrong: &mut Vec<Failure>) {
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
        let at = position(source, name);
        let what = format!("nothing leads to node '{name}'");
        let advice = "lead a way to it, or remove it";
        wrong.push(source.wrong(&["nodes", &at], "workflow_unreachable_node", what, advice));
    }
}

fn conditions(source: &Source<'_>, plan: &Plan, wrong: &mut Vec<Failure>) {
    for node in plan.nodes.values() {
        let Work::Route(route) = &node.work else { continue };
        for (number, rule) in route.rules.iter().enumerate() {
            let checked = Rule::new(&node.name, &rule.when, Mode::Observe, "")
                .and_then(|rule| rule.check(RuleNames::Route));
            if let Err(error) = checked {
                let at = position(source, &node.name);
                let place = ["nodes", &at, "rules", &number.to_string(), "when"];
                let fields =
                    "write it in CEL over `event`: outcome, output, structured, vars, visits, from, node";
                let advice = format!("{}; {fields}", error.help());
                wrong.push(source.wrong(&place, "workflow_bad_condition", error.to_string(), &advice));
            }
        }
    }
}

/// Branches meet at one join, and do not branch again before.
fn forks(source: &Source<'_>, plan: &Plan, wrong: &mut Vec<Failure>) {
    for node in plan.nodes.values() {
        for (key, next) in node.common.ways() {
            let branches = next.names();
            if branches.len() < 2 {
                continue;
            }
            let at = position(source, &node.name);
            let joins: Vec<BTreeSet<&str>> = branches.iter().map(|branch| joins_of(plan, branch)).collect();
            let mut all: BTreeSet<&str> = joins.iter().flatten().copied().collect();
            let alone = joins.iter().any(BTreeSet::is_empty);
            if all.len() != 1 || alone {
                let what = format!("the branches of node '{}' do not meet at one join", node.name);
                let advice = "lead every branch to the same node of kind `join`";
                wrong.push(source.wrong(&["nodes", &at, key], "workflow_no_join", what, advice));
            } else if let Some(join) = all.pop_first()
                && branches.iter().any(|branch| branches_again(plan, branch, join))
            {
                let what = format!("a branch of node '{}' branches again before they meet", node.name);
                let advice = "let the branches meet first, or put all of them side by side";
                wrong.push(source.wrong(&["nodes", &at, key], "workflow_nested_fork", what, advice));
            } else if let Some(name) = branches.iter().find_map(|start| ends_in(plan, start)) {
                let what = format!("a branch of node '{}' ends the run at node '{name}'", node.name);
                let advice =
                    "lead it to the join; `failed` gives the branch up, and the join goes on without it";
                wrong.push(source.wrong(&["nodes", &at, key], "workflow_branch_ends", what, advice));
            }
        }
    }
}

/// The nodes of a branch, up to its join.
fn branch<'a>(plan: &'a Plan, start: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<String> = vec![start.to_owned()];
    while let Some(name) = open.pop() {
        let Some((name, node)) = plan.nodes.get_key_value(&name) else { continue };
        if seen.insert(name.as_str()) && !matches!(node.work, Work::Join(_)) {
            open.extend(node.targets());
        }
    }
    seen
}

/// The node of a branch that leads to `done` before the branches have met.
fn ends_in<'a>(plan: &'a Plan, start: &str) -> Option<&'a str> {
    let ends = |name: &&str| {
        let node = plan.nodes.get(*name).filter(|node| !matches!(node.work, Work::Join(_)));
        node.is_some_and(|node| node.leads_to().iter().any(|to| to == DONE))
    };
    branch(plan, start).into_iter().find(ends)
}

pub(super) fn joins_of<'a>(plan: &'a Plan, start: &str) -> BTreeSet<&'a str> {
    let is_join = |name: &&str| matches!(plan.nodes.get(*name).map(|node| &node.work), Some(Work::Join(_)));
    branch(plan, start).into_iter().filter(is_join).collect()
}

fn branches_again(plan: &Plan, start: &str, join: &str) -> bool {
    let many = |node: &Node| node.common.ways().any(|(_, next)| next.names().len() > 1);
    branch(plan, start)
        .into_iter()
        .filter(|name| *name != join)
        .any(|name| plan.nodes.get(name).is_some_and(many))
}

/// A loop that no edge leaves, under a policy that never stops it.
fn endless(source: &Source<'_>, plan: &Plan, wrong: &mut Vec<Failure>) {
    let layers: Vec<_> = plan.policy.iter().cloned().collect();
    let Ok(resolved) = resolve(&layers, Preset::Workflow) else { return };
    let worst = plan.bounds(&resolved.policy);
    if worst.transitions.value().is_some() {
        return;
    }
    for found in loops(&plan.graph) {
        let inside = |name: &String| found.nodes.contains(name);
        let leaves = plan.graph.edges.iter().any(|edge| inside(&edge.from) && !inside(&edge.to));
        if !leaves {
            let at = position(source, &found.header);
            let what = format!("the loop {} has no way out, and no limit stops it", found.nodes.join(", "));
            let advice =
                "lead an edge out of it, or leave one limit on: budgets.loop.iterations, guards.visits";
            wrong.push(source.wrong(&["nodes", &at], "workflow_endless_loop", what, advice));
        }
    }
}
