//! Validates references by name: providers, tools, gates, signals and the reviewer.

use super::check_graph::{known_nodes_help, node_position};
use super::parse::WorkflowSource;
use super::spec::{CommandLine, JoinWait, NextNodes};
use super::{Node, NodeKind, WorkflowPlan, declared_tools};
use crate::provider::{ProviderConfig, build_provider};
use crate::run_error::RunError;
use crate::tools::{RiskPolicy, builtin_names};
use serde_json::Value;

/// Collects references to names that do not exist or cannot be used.
pub(super) fn check_references(source: &WorkflowSource<'_>, plan: &WorkflowPlan, wrong: &mut Vec<RunError>) {
    check_providers(source, plan, wrong);
    check_declarations(source, plan, wrong);
    for node in plan.nodes.values() {
        check_node(source, plan, node, wrong);
    }
    for (at, signal) in plan.signals.iter().enumerate() {
        if let Some(after) = signal.after.as_ref().filter(|after| !plan.nodes.contains_key(*after)) {
            let what = format!("signal '{}' is measured after unknown node '{after}'", signal.name);
            let place = ["signals", &at.to_string(), "after"];
            wrong.push(source.error(&place, "workflow_unknown_node", what, &known_nodes_help(plan)));
        }
    }
    if let Some(reviewer) = plan.reviewer.as_ref().filter(|name| !plan.nodes.contains_key(*name)) {
        let what = format!("reviewer '{reviewer}' is not a node");
        wrong.push(source.error(&["reviewer"], "workflow_unknown_node", what, &known_nodes_help(plan)));
    }
    if let Some(name) = plan.fallback_provider.as_ref().filter(|name| !plan.providers.contains_key(*name)) {
        let what = format!("unknown fallback provider '{name}'");
        let advice = add_provider_help(plan);
        wrong.push(source.error(&["fallback_provider"], "workflow_unknown_provider", what, &advice));
    }
}

fn add_provider_help(plan: &WorkflowPlan) -> String {
    let known: Vec<&str> = plan.providers.keys().map(String::as_str).collect();
    format!("add it under `providers:`; known providers: {}", known.join(", "))
}

/// Checks that each provider can be built. API keys are not checked: they may be set only where the run executes.
fn check_providers(source: &WorkflowSource<'_>, plan: &WorkflowPlan, wrong: &mut Vec<RunError>) {
    let any_key = |name: &str| (!name.to_ascii_lowercase().contains("proxy")).then(|| "a-key".to_owned());
    for (name, value) in &plan.providers {
        let built = ProviderConfig::from_value(name, value)
            .and_then(|config| build_provider(&config, name, &any_key));
        if let Err(error) = built {
            wrong.push(source.error(&["providers", name], error.code(), error.message.clone(), &error.help));
        }
    }
}

/// Checks the declared tools, the risk rules and the gates.
fn check_declarations(source: &WorkflowSource<'_>, plan: &WorkflowPlan, wrong: &mut Vec<RunError>) {
    for (name, value) in &plan.tools {
        if let Err(failure) = declared_tools::parse_tool(name, value) {
            wrong.push(source.error(&["tools", name], &failure.code, failure.message, &failure.help));
        } else if builtin_names().contains(&name.as_str()) {
            let what = format!("'{name}' is the name of a built-in tool");
            wrong.push(source.error(&["tools", name], "workflow_bad_tool", what, "give it another name"));
        }
    }
    if let Some(Err(error)) = plan.risk.as_ref().map(RiskPolicy::from_json) {
        wrong.push(source.error(&["risk"], error.code, error.message, &error.help));
    }
    if !plan.gates.detects()
        && let Err(error) = plan.gates.gates(&plan.folder)
    {
        wrong.push(source.error(&["gates"], error.code, error.message, &error.help));
    }
}

/// Checks the names that a node refers to.
fn check_node(source: &WorkflowSource<'_>, plan: &WorkflowPlan, node: &Node, wrong: &mut Vec<RunError>) {
    let at = node_position(source, &node.name);
    let mut report = |key: &str, code: &str, what: String, advice: &str| {
        wrong.push(source.error(&["nodes", &at, key], code, what, advice));
    };
    let name = &node.name;
    let provider = match &node.kind {
        NodeKind::Agent(agent) => Some(&agent.provider),
        NodeKind::Decide(decide) => Some(&decide.provider),
        NodeKind::Collect(collect) => collect.provider.as_ref(),
        _ => None,
    };
    if let Some(provider) = provider.filter(|name| !plan.providers.contains_key(*name)) {
        let what = format!("node '{name}' uses unknown provider '{provider}'");
        report("provider", "workflow_unknown_provider", what, &add_provider_help(plan));
    }
    for (key, tool) in tools_of(node) {
        if !plan.tools.contains_key(&tool) && !builtin_names().contains(&tool.as_str()) {
            let what = format!("node '{name}' uses unknown tool '{tool}'");
            let known: Vec<&str> =
                builtin_names().into_iter().chain(plan.tools.keys().map(String::as_str)).collect();
            let advice = format!("declare it under `tools:`; known tools: {}", known.join(", "));
            report(key, "workflow_unknown_tool", what, &advice);
        }
    }
    let gates: &[String] = match &node.kind {
        NodeKind::Gate(gate) => &gate.gates,
        NodeKind::Agent(agent) => &agent.gates,
        _ => &[],
    };
    for gate in gates.iter().filter(|gate| !plan.gates.may_contain(gate)) {
        let what = format!("node '{name}' uses unknown gate '{gate}'");
        report("gates", "workflow_unknown_gate", what, "declare it under `gates:`");
    }
    match &node.kind {
        NodeKind::Decide(decide) if decide.allowed_destinations.is_empty() => {
            let what = format!("node '{name}' has no destinations");
            report("allowed_destinations", "workflow_dead_end", what, "name at least one destination");
        }
        NodeKind::Command(command) if is_empty_command(&command.run) => {
            report(
                "run",
                "workflow_wrong_type",
                format!("node '{name}' has an empty command"),
                "name a program",
            );
        }
        NodeKind::Join(join) if join.wait == JoinWait::Quorum => {
            let most = branches_to(plan, name);
            if !join.count.is_some_and(|count| (1..=most).contains(&count)) {
                let what = format!("the quorum of join '{name}' must be between 1 and {most}");
                report(
                    "count",
                    "workflow_bad_quorum",
                    what,
                    "set `count:` to the number of branches to wait for",
                );
            }
        }
        _ => {}
    }
}

fn is_empty_command(line: &CommandLine) -> bool {
    match line {
        CommandLine::Shell(line) => line.trim().is_empty(),
        CommandLine::Argv(words) => words.first().is_none_or(String::is_empty),
    }
}

/// Tools that a node refers to, each with the key that names it.
fn tools_of(node: &Node) -> Vec<(&'static str, String)> {
    match &node.kind {
        NodeKind::Agent(agent) => agent.tools.iter().map(|tool| ("tools", tool.clone())).collect(),
        NodeKind::Tool(tool) => vec![("tool", tool.tool.clone())],
        NodeKind::Collect(collect) => {
            collect.action.iter().map(|action| ("action", action.tool.clone())).collect()
        }
        NodeKind::Confirm(confirm) if confirm.run => {
            let steps = confirm.plan.as_array().map_or(&[][..], Vec::as_slice);
            let named = steps.iter().filter_map(|step| step.get("tool").and_then(Value::as_str));
            // Template values are unknown until the run.
            named.filter(|tool| !tool.contains("{{")).map(|tool| ("plan", tool.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// Largest number of branches that can meet at a join.
fn branches_to(plan: &WorkflowPlan, join: &str) -> u64 {
    let many = plan.nodes.values().flat_map(|node| node.common.edges()).filter_map(|(_, next)| match next {
        NextNodes::Many(branches) => Some(branches),
        NextNodes::One(_) => None,
    });
    let here = many.filter(|branches| {
        branches.iter().any(|branch| super::check_graph::joins_of(plan, branch).contains(join))
    });
    here.map(|branches| branches.len() as u64).max().unwrap_or(0)
}
