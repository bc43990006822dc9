//! Workflows for the adversary: random ones, and the graphs of the examples with every node in its hands.

use crate::adversary::Random;
use flyball::policy::{Format, parse};
use flyball_run::workflow::spec::Next;
use flyball_run::workflow::{Plan, Work};
use serde_json::{Map, Value, json};

/// So many turns of a node have an answer of their own; then the last is repeated.
const ANSWERS: u64 = 40;

/// A random workflow, still without what its models say.
pub(crate) fn random(random: &mut Random) -> Value {
    let count = 2 + random.below(5);
    let names: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
    let mut nodes: Vec<Value> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        // A chain holds everything together; further ways lead anywhere, back too.
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

/// A node that the adversary decides in, or one of another kind with the same ways.
fn node(random: &mut Random, name: &str, ways: &[String]) -> Value {
    match random.below(8) {
        // It always fails, and is tried again as often as its file says.
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

/// Two branches side by side, each with a loop of its own, instead of what the first node does.
fn branch(random: &mut Random, names: &[String], nodes: &mut Vec<Value>) {
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

/// Random limits. Everything else is off: nothing but they may stop a run.
fn policy(random: &mut Random) -> Value {
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

/// The graph and the policy of an example; every node that leads to several is the adversary's.
pub(crate) fn of_example(plan: &Plan, text: &str) -> Value {
    let layer = parse(text, Format::Yaml, "example").unwrap_or_else(|errors| panic!("{errors}"));
    let mut nodes: Vec<Value> = Vec::new();
    let mut names: Vec<&String> =
        plan.graph.nodes.iter().filter(|name| plan.nodes.contains_key(*name)).collect();
    names.sort_by_key(|name| **name != plan.start);
    for name in names {
        let node = &plan.nodes[name];
        let ways = node.leads_to();
        let fork = node.common.next.as_ref().filter(|next| matches!(next, Next::Many(_)));
        nodes.push(match (&node.work, fork) {
            (Work::Join(join), _) => {
                let wait = json!({"all": "all", "quorum": "quorum"})[if join.count.is_some() { "quorum" } else { "all" }].clone();
                let (success, failure) = (way(node.way(flyball_run::engine::Status::Success)), way(node.way(flyball_run::engine::Status::Failure)));
                let mut map = json!({"name": name, "kind": "join", "wait": wait, "on_success": success, "on_failure": failure});
                if let Some(count) = join.count {
                    map["count"] = json!(count);
                }
                if join.timeout.is_some() {
                    map["timeout"] = json!("5m");
                }
                map
            }
            (_, Some(Next::Many(branches))) => {
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

fn way(next: Next) -> Value {
    match next {
        Next::One(name) => json!(name),
        Next::Many(names) => json!(names),
    }
}

/// The workflow with what the models say: in each turn another way, and never the same words.
pub(crate) fn with_script(graph: &Value, random: &mut Random, trial: u64) -> Value {
    let mut nodes = Map::new();
    for node in graph["nodes"].as_array().unwrap() {
        let name = node["name"].as_str().unwrap();
        let ways: Vec<&str> =
            node["allowed_destinations"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let on: Vec<&str> = ways.iter().copied().filter(|way| !["done", "failed"].contains(way)).collect();
        let turns: Vec<Value> = (0..ANSWERS)
            .map(|turn| {
                let words = format!("{name} {turn} {}", random.next());
                if ways.is_empty() {
                    return json!([words]);
                }
                let stay = if on.is_empty() { &ways } else { &on };
                let to = match trial % 3 {
                    0 => random.pick(stay),
                    // One after the other, the last first: back before onward.
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
