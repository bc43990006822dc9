//! What a plan uses by name must be there and must make sense: providers, tools, gates, signals, the reviewer.

use super::check::{near, position};
use super::read::Source;
use super::spec::{Line, Next, Wait};
use super::{Node, Plan, Work, tools};
use crate::fail::Failure;
use crate::provider::{ProviderConfig, build};
use crate::tools::{RiskPolicy, builtin_names};
use serde_json::Value;

/// Everything that is named and not there, or cannot be used.
pub(super) fn all(source: &Source<'_>, plan: &Plan, wrong: &mut Vec<Failure>) {
    providers(source, plan, wrong);
    declared(source, plan, wrong);
    for node in plan.nodes.values() {
        used(source, plan, node, wrong);
    }
    for (at, signal) in plan.signals.iter().enumerate() {
        if let Some(after) = signal.after.as_ref().filter(|after| !plan.nodes.contains_key(*after)) {
            let what = format!("signal '{}' is measured after '{after}', which is no node", signal.name);
            let place = ["signals", &at.to_string(), "after"];
            wrong.push(source.wrong(&place, "workflow_unknown_node", what, &near(plan)));
        }
    }
    if let Some(reviewer) = plan.reviewer.as_ref().filter(|name| !plan.nodes.contains_key(*name)) {
        let what = format!("the reviewer '{reviewer}' is no node");
        wrong.push(source.wrong(&["reviewer"], "workflow_unknown_node", what, &near(plan)));
    }
    if let Some(name) = plan.fallback_provider.as_ref().filter(|name| !plan.providers.contains_key(*name)) {
        let what = format!("the fallback provider '{name}' is not there");
        let advice = add_provider(plan);
        wrong.push(source.wrong(&["fallback_provider"], "workflow_unknown_provider", what, &advice));
    }
}

fn add_provider(plan: &Plan) -> String {
    let known: Vec<&str> = plan.providers.keys().map(String::as_str).collect();
    format!("add it under `providers:`; there are {}", known.join(", "))
}

/// Whether the providers could be built; keys are not looked for, they may be set where the run is.
fn providers(source: &Source<'_>, plan: &Plan, wrong: &mut Vec<Failure>) {
    let any_key = |name: &str| (!name.to_ascii_lowercase().contains("proxy")).then(|| "a-key".to_owned());
    for (name, value) in &plan.providers {
        let built = ProviderConfig::from_value(name, value).and_then(|config| build(&config, name, &any_key));
        if let Err(error) = built {
            wrong.push(source.wrong(&["providers", name], error.code(), error.what.clone(), &error.advice));
        }
    }
}

/// Whether the declared tools, the rules about risk and the gates make sense.
fn declared(source: &Source<'_>, plan: &Plan, wrong: &mut Vec<Failure>) {
    for (name, value) in &plan.tools {
        if let Err(failure) = tools::one(name, value) {
            wrong.push(source.wrong(&["tools", name], &failure.code, failure.what, &failure.advice));
        } else if builtin_names().contains(&name.as_str()) {
            let what = format!("'{name}' is the name of a built-in tool");
            wrong.push(source.wrong(&["tools", name], "workflow_bad_tool", what, "give it another name"));
        }
    }
    if let Some(Err(error)) = plan.risk.as_ref().map(RiskPolicy::from_json) {
        wrong.push(source.wrong(&["risk"], error.code, error.what, &error.hint));
    }
    if !plan.gates.detects()
        && let Err(error) = plan.gates.gates(&plan.folder)
    {
        wrong.push(source.wrong(&["gates"], error.code, error.what, &error.hint));
    }
}

/// What a node uses.
fn used(source: &Source<'_>, plan: &Plan, node: &Node, wrong: &mut Vec<Failure>) {
    let at = position(source, &node.name);
    let mut tell = |key: &str, code: &str, what: String, advice: &str| {
        wrong.push(source.wrong(&["nodes", &at, key], code, what, advice));
    };
    let name = &node.name;
    let provider = match &node.work {
        Work::Agent(agent) => Some(&agent.provider),
        Work::Decide(decide) => Some(&decide.provider),
        Work::Collect(collect) => collect.provider.as_ref(),
        _ => None,
    };
    if let Some(provider) = provider.filter(|name| !plan.providers.contains_key(*name)) {
        let what = format!("node '{name}' wants the provider '{provider}', which is not there");
        tell("provider", "workflow_unknown_provider", what, &add_provider(plan));
    }
    for (key, tool) in tools_of(node) {
        if !plan.tools.contains_key(&tool) && !builtin_names().contains(&tool.as_str()) {
            let what = format!("node '{name}' uses the tool '{tool}', which is not there");
            let known: Vec<&str> =
                builtin_names().into_iter().chain(plan.tools.keys().map(String::as_str)).collect();
            let advice = format!("declare it under `tools:`; there are {}", known.join(", "));
            tell(key, "workflow_unknown_tool", what, &advice);
        }
    }
    let gates: &[String] = match &node.work {
        Work::Gate(gate) => &gate.gates,
        Work::Agent(agent) => &agent.gates,
        _ => &[],
    };
    for gate in gates.iter().filter(|gate| !plan.gates.may_have(gate)) {
        let what = format!("node '{name}' wants the gate '{gate}', which is not there");
        tell("gates", "workflow_unknown_gate", what, "declare it under `gates:`");
    }
    match &node.work {
        Work::Decide(decide) if decide.allowed_destinations.is_empty() => {
            let what = format!("node '{name}' has nowhere to go");
            tell("allowed_destinations", "workflow_no_way_out", what, "name at least one destination");
        }
        Work::Command(command) if empty(&command.run) => {
            tell("run", "workflow_wrong_type", format!("node '{name}' runs nothing"), "name a program");
        }
        Work::Join(join) if join.wait == Wait::Quorum => {
            let most = branches_to(plan, name);
            if !join.count.is_some_and(|count| (1..=most).contains(&count)) {
                let what = format!("the quorum of join '{name}' is no number from 1 to {most}");
                tell("count", "workflow_bad_quorum", what, "write `count:`, how many branches are enough");
            }
        }
        _ => {}
    }
}

fn empty(line: &Line) -> bool {
    match line {
        Line::Shell(line) => line.trim().is_empty(),
        Line::Words(words) => words.first().is_none_or(String::is_empty),
    }
}

/// The tools that a node names, with the key that names them.
fn tools_of(node: &Node) -> Vec<(&'static str, String)> {
    match &node.work {
        Work::Agent(agent) => agent.tools.iter().map(|tool| ("tools", tool.clone())).collect(),
        Work::Tool(tool) => vec![("tool", tool.tool.clone())],
        Work::Collect(collect) => {
            collect.action.iter().map(|action| ("action", action.tool.clone())).collect()
        }
        Work::Confirm(confirm) if confirm.run => {
            let steps = confirm.plan.as_array().map_or(&[][..], Vec::as_slice);
            let named = steps.iter().filter_map(|step| step.get("tool").and_then(Value::as_str));
            // A template is filled in when it is known.
            named.filter(|tool| !tool.contains("{{")).map(|tool| ("plan", tool.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// The most branches that may meet at a join.
fn branches_to(plan: &Plan, join: &str) -> u64 {
    let many = plan.nodes.values().flat_map(|node| node.common.ways()).filter_map(|(_, next)| match next {
        Next::Many(branches) => Some(branches),
        Next::One(_) => None,
    });
    let here = many
        .filter(|branches| branches.iter().any(|branch| super::check::joins_of(plan, branch).contains(join)));
    here.map(|branches| branches.len() as u64).max().unwrap_or(0)
}
