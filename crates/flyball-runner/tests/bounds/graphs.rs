//! Workflows for the adversary: random ones, and the graphs of the examples with all nodes under its control.

use crate::adversary::AdversaryRng;
use flyball::policy::{PolicyFormat, parse};
use flyball_runner::workflow::spec::NextNodes;
use flyball_runner::workflow::{NodeKind, WorkflowPlan};
use serde_json::{Map, Value, json};

/// Number of distinct replies per node; then the last one repeats.
const ANSWERS_PER_NODE: u64 = 40;

/// A random workflow, without the replies of its models.
pub(crate) fn random_workflow(random: &mut AdversaryRng) -> Value {
    let count = 2 + random.below(5);
    let names: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
    let mut nodes: Vec<Value> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        // A chain connects all nodes; additional edges lead anywhere, including back.
        let onward = names.get(at + 1).cloned().unwrap_or_else(|| "done".to_owned());
        let mut ways = vec![onward];
        for _ in 0..random.below(3) {
            let way = if random.below(8) == 0 { "failed".to_owned() } else { random.pick(&names).clone() };
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        nodes.push(node(random, name, &ways));
    }
    if random.below(5) == 0 {
        branch(random, &names, &mut nodes);
    }
    json!({"name": "random", "policy": policy(random), "nodes": nodes})
}

/// A node in which the adversary decides, or one of another kind with the same edges.
fn node(random: &mut AdversaryRng, name: &str, ways: &[String]) -> Value {
    match random.below(8) {
        // It always fails, and is retried as configured.
        0 => json!({"name": name, "kind": "agent", "provider": "failing", "prompt": "x", "next": ways[0],
                    "retry": {"attempts": 1 + random.below(3), "initial": 0}, "on_success": ways.last()}),
        1 => {
            let rules: Vec<Value> = ways
                .iter()
                .skip(1)
                .enumerate()
                .map(|(at, way)| json!({"when": format!("event.visits.{name} % {} == 1", at + 2), "to": way}))
                .collect();
            json!({"name": name, "kind": "route", "rules": rules, "otherwise": ways[0]})
        }
        _ => json!({"name": name, "kind": "decide", "provider": "adversary", "allowed_destinations": ways,
                    "on_unclear": ways[0], "on_failure": ways[0]}),
    }
}

/// Replaces the first node's edge with two parallel branches, each with a loop.
fn branch(random: &mut AdversaryRng, names: &[String], nodes: &mut Vec<Value>) {
    let after = random.pick(names).clone();
    let onward = names.get(1).cloned().unwrap_or_else(|| "done".to_owned());
    if let Some(first) = nodes.first_mut() {
        *first = json!({"name": names[0], "kind": "agent", "provider": "adversary", "prompt": "x", "next": ["a", "b"]});
    }
    for (one, two) in [("a", "a2"), ("b", "b2")] {
        for (name, other) in [(one, two), (two, one)] {
            nodes.push(json!({"name": name, "kind": "decide", "provider": "adversary",
                              "allowed_destinations": [other, "meet"], "on_unclear": "meet", "on_failure": "meet"}));
        }
    }
    let ways = if after == onward { vec![onward] } else { vec![onward, after] };
    nodes.push(json!({"name": "meet", "kind": "join", "on_success": "fork", "on_failure": "fork"}));
    nodes.push(
        json!({"name": "fork", "kind": "decide", "provider": "adversary", "allowed_destinations": ways,
                      "on_unclear": "failed", "on_failure": "failed"}),
    );
}

/// Random limits. All other guards are off, so that only these can stop a run.
fn policy(random: &mut AdversaryRng) -> Value {
    let mut limit = |most: u64, off: u64| {
        if random.below(off) == 0 { json!("off") } else { json!(1 + random.below(most)) }
    };
    let budgets = json!({
        "node": {"turns": limit(6, 2)},
        "loop": {"iterations": limit(8, 3)},
        "message": {"transitions": limit(25, 2)},
        "session": {"turns": limit(30, 2)},
    });
    let (visits, transitions, total) = (limit(10, 2), limit(5, 2), limit(30, 2));
    let mut guards =
        json!({"visits": {"limit": visits}, "transitions": {"limit": transitions, "total": total}});
    if random.below(3) == 0 {
        let all = random.below(2) == 0;
        let (period, repeats) = (2 + random.below(4), 2 + random.below(3));
        let cycle = json!({"transitions": {"declared_loops": all, "max_period": period, "repeats": repeats}});
        if let Some(map) = guards.as_object_mut() {
            map.insert("cycle".to_owned(), cycle);
        }
    }
    json!({"preset": "off", "budgets": budgets, "guards": guards})
}

/// Graph and policy of an example; the adversary controls every node with several edges.
pub(crate) fn from_example(plan: &WorkflowPlan, text: &str) -> Value {
    let layer = parse(text, PolicyFormat::Yaml, "example").unwrap_or_else(|errors| panic!("{errors}"));
    let mut nodes: Vec<Value> = Vec::new();
    let mut names: Vec<&String> =
        plan.graph.nodes.iter().filter(|name| plan.nodes.contains_key(*name)).collect();
    names.sort_by_key(|name| **name != plan.start);
    for name in names {
        let node = &plan.nodes[name];
        let ways = node.possible_targets();
        let fork = node.common.next.as_ref().filter(|next| matches!(next, NextNodes::Many(_)));
        nodes.push(match (&node.kind, fork) {
            (NodeKind::Join(join), _) => {
                let wait = json!({"all": "all", "quorum": "quorum"})[if join.count.is_some() { "quorum" } else { "all" }].clone();
                let (success, failure) = (next_node(node.next_for(flyball_runner::engine::NodeStatus::Success)), next_node(node.next_for(flyball_runner::engine::NodeStatus::Failure)));
                let mut map = json!({"name": name, "kind": "join", "wait": wait, "on_success": success, "on_failure": failure});
                if let Some(count) = join.count {
                    map["count"] = json!(count);
                }
                if join.timeout.is_some() {
                    map["timeout"] = json!("5m");
                }
                map
            }
            (_, Some(NextNodes::Many(branches))) => {
                json!({"name": name, "kind": "agent", "provider": "adversary", "prompt": "x", "next": branches})
            }
            _ => json!({"name": name, "kind": "decide", "provider": "adversary", "allowed_destinations": ways,
                        "on_failure": ways[0], "on_unclear": ways[0]}),
        });
    }
    let signals = Value::Array(Vec::new());
    let mut policy = layer.tree.get("policy").cloned().unwrap_or_else(|| json!({}));
    if policy.is_null() {
        policy = json!({});
    }
    json!({"name": plan.name, "policy": policy, "nodes": nodes, "signals": signals})
}

fn next_node(next: NextNodes) -> Value {
    match next {
        NextNodes::One(name) => json!(name),
        NextNodes::Many(names) => json!(names),
    }
}

/// Adds the replies of the models: a different target in each turn, and never the same text.
pub(crate) fn with_script(graph: &Value, random: &mut AdversaryRng, trial: u64) -> Value {
    let mut nodes = Map::new();
    for node in graph["nodes"].as_array().unwrap() {
        let name = node["name"].as_str().unwrap();
        let ways: Vec<&str> =
            node["allowed_destinations"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let on: Vec<&str> = ways.iter().copied().filter(|way| !["done", "failed"].contains(way)).collect();
        let turns: Vec<Value> = (0..ANSWERS_PER_NODE)
            .map(|turn| {
                let words = format!("{name} {turn} {}", random.next());
                if ways.is_empty() {
                    return json!([words]);
                }
                let stay = if on.is_empty() { &ways } else { &on };
                let to = match trial % 3 {
                    0 => random.pick(stay),
                    // Round robin in reverse order: back edges before forward edges.
                    1 => &stay[stay.len() - 1 - usize::try_from(turn).unwrap() % stay.len()],
                    _ => random.pick(&ways),
                };
                json!([json!({"decision": to, "confidence": 1, "reasoning": words}).to_string()])
            })
            .collect();
        nodes.insert(name.to_owned(), json!({ "turns": turns }));
    }
    let mut workflow = graph.clone();
    let failing = json!({"kind": "script", "retry": {"attempts": 1},
                         "otherwise": {"fail": {"status": 503, "message": "no"}}});
    workflow["providers"] =
        json!({"adversary": {"kind": "script", "repeat": "last", "nodes": nodes}, "failing": failing});
    workflow
}
