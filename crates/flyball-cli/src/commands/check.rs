//! `flyball check`: errors with their position, contradictions, loops with their ids, and worst-case bounds.

mod phases;

use crate::args::{CheckArgs, PolicyArgs};
use crate::color::{TextStyle, style_stdout};
use crate::error::{CliError, Exit};
use crate::formatting::{format_count, format_dollars, single_line};
use crate::policy_loader;
use crate::trust_list::{self, Caller};
use crate::workflow_file::{WorkflowFile, WorkflowOrPolicy, read_document};
use flyball::Preset;
use flyball::graph::{Loop, WorkflowLimits, WorstCaseBound, WorstCaseBounds, find_loops, worst_case_bounds};
use flyball::policy::{
    IgnoredValue, LintSeverity, OnStallAction, PolicyFormat, PolicyLayer, PolicyWarning, ResolvedPolicy,
    ValueOrigin, from_set, lint_graph, parse, resolve,
};
use flyball::units::exact_duration;
use flyball_runner::workflow::spec::SignalSpec;
use flyball_runner::workflow::{Node, WorkflowPlan};
use flyball_store::RedactingParser;
use phases::PhaseReport;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Runs the command.
pub(crate) fn run(args: &CheckArgs) -> Result<Exit, CliError> {
    let document = read_document(&args.file)?;
    let written = match &document {
        WorkflowOrPolicy::Policy(layer) => Some(layer.clone()),
        WorkflowOrPolicy::Workflow(_) => None,
    };
    let own = PolicyArgs { preset: args.preset.clone(), ..PolicyArgs::default() };
    let (layers, preset, workflow, plan) = match document {
        WorkflowOrPolicy::Policy(layer) => (policy_layers(Some(layer), &own)?, Preset::Agent, None, None),
        WorkflowOrPolicy::Workflow(WorkflowFile { workflow, policy, plan: None }) => {
            (policy_layers(policy, &own)?, Preset::Workflow, Some(workflow), None)
        }
        // The bounds are those of a run here, so the project's policy and the environment apply.
        WorkflowOrPolicy::Workflow(WorkflowFile { workflow, policy, plan }) => {
            let (layers, preset) = policy_loader::layers_for_run(policy.as_ref(), &own)?;
            (layers, preset, Some(workflow), plan)
        }
    };
    let resolved = resolve(&layers, preset)?;
    RedactingParser::validate_policy(&resolved)?;
    if let Some(plan) = &plan {
        check_gate_cycles(plan, &resolved)?;
    }
    let mut warnings = resolved.warnings.clone();
    let graph = workflow.as_ref().map(|workflow| {
        let pairs: Vec<(&str, &str)> =
            workflow.edges.iter().map(|edge| (edge.from.as_str(), edge.to.as_str())).collect();
        warnings.extend(lint_graph(&resolved, &pairs));
        let policy = &resolved.policy;
        let worst = match &plan {
            Some(plan) => plan.bounds(policy),
            None => worst_case_bounds(workflow, &WorkflowLimits::from_policy(policy, workflow)),
        };
        (find_loops(workflow), worst)
    });
    let file = args.file.display().to_string();
    warnings.extend(plan.as_ref().and_then(|plan| missing_helper_warning(plan, &resolved, &file)));
    warnings.extend(plan.iter().flat_map(|plan| missing_direction_warnings(plan, &file)));
    warnings.extend(untrusted_warnings(&args.file)?);
    let phases = written.as_ref().and_then(|layer| PhaseReport::from_layer(layer, &resolved.policy));
    let mut out = crate::terminal::stdout();
    if args.json {
        let mut all = as_json(&file, &resolved, &warnings, graph.as_ref());
        if let (Some(plan), Some(map)) = (&plan, all.as_object_mut()) {
            map.insert("nodes".into(), nodes_json(plan));
        }
        if let (Some(phases), Some(map)) = (&phases, all.as_object_mut()) {
            map.insert("phases".into(), phases.as_json());
        }
        writeln!(out, "{all}")?;
        return Ok(Exit::Success);
    }
    if let Some(plan) = &plan {
        print_nodes(&mut out, plan)?;
    }
    if let Some(phases) = &phases {
        phases.print(&mut out)?;
    }
    print(&mut out, &file, &resolved, &warnings, graph.as_ref())?;
    Ok(Exit::Success)
}

/// Cycles between gates, by their own `needs` and the policy's dependencies together.
fn check_gate_cycles(plan: &WorkflowPlan, resolved: &ResolvedPolicy) -> Result<(), CliError> {
    if !plan.uses_gates() {
        return Ok(());
    }
    match plan.gates_in(&plan.folder, &resolved.policy.guards.gate.dependencies) {
        Err(error) if error.code == "gate_cycle" => Err(flyball_runner::RunError::from(error).into()),
        // Other requirements of a gate are known only where the run works.
        _ => Ok(()),
    }
}

/// The file's policy under the requested preset.
fn policy_layers(layer: Option<PolicyLayer>, args: &PolicyArgs) -> Result<Vec<PolicyLayer>, CliError> {
    let preset = args.preset.as_ref().map(|name| from_set(&[format!("preset={name}")])).transpose()?;
    Ok(layer.into_iter().chain(preset).collect())
}

/// Values that would be ignored because the project's policy file is not trusted.
fn untrusted_warnings(file: &Path) -> Result<Vec<PolicyWarning>, CliError> {
    if !policy_loader::is_project_policy(file) {
        return Ok(Vec::new());
    }
    let text = policy_loader::read_text_file(file)?;
    if trust_list::is_trusted(file, text.as_bytes(), Caller::Person) {
        return Ok(Vec::new());
    }
    let name = file.display().to_string();
    let layer = parse(&text, PolicyFormat::guess(&name, &text), &name)?;
    Ok(policy_loader::loosened_by(&layer, Preset::Agent)?.iter().map(IgnoredValue::warning).collect())
}

/// Warns if the policy calls for a helper when a loop stalls and the workflow defines none.
fn missing_helper_warning(
    plan: &WorkflowPlan,
    resolved: &ResolvedPolicy,
    file: &str,
) -> Option<PolicyWarning> {
    let (word, key) = match resolved.policy.on_stall {
        OnStallAction::SpawnReviewer if plan.reviewer.is_none() => ("spawn_reviewer", "reviewer"),
        OnStallAction::RetryWithNewProvider if plan.fallback_provider.is_none() => {
            ("retry_with_new_provider", "fallback_provider")
        }
        _ => return None,
    };
    Some(PolicyWarning {
        code: "workflow_nobody_steps_in",
        severity: LintSeverity::Warning,
        path: "on_stall".to_owned(),
        origin: ValueOrigin::Workflow { name: file.to_owned() },
        position: None,
        message: format!("`on_stall: {word}` without `{key}`: a loop that stalls is halted"),
        help: format!("write `{key}:` at the top of the workflow"),
    })
}

/// Warns about numeric signals without a direction.
fn missing_direction_warnings(plan: &WorkflowPlan, file: &str) -> Vec<PolicyWarning> {
    let unstated = plan.signals.iter().enumerate().filter(|(_, signal)| signal.lacks_direction());
    let warning = |(at, signal): (usize, &SignalSpec)| {
        let name = single_line(&signal.name, 60);
        PolicyWarning {
            code: "workflow_signal_direction",
            severity: LintSeverity::Warning,
            path: format!("signals.{at}.better"),
            origin: ValueOrigin::Workflow { name: file.to_owned() },
            position: plan.signal_locations.get(at).copied().flatten(),
            message: format!(
                "signal '{name}' yields a number without a direction: every change counts as progress"
            ),
            help: "write `better: up` if higher is better, or `better: down` if lower is better".to_owned(),
        }
    };
    unstated.map(warning).collect()
}

fn nodes_json(plan: &WorkflowPlan) -> Value {
    let shown = |node: &Node| json!({"name": node.name, "kind": node.kind.name(), "does": node.describe(), "leads_to": node.possible_targets()});
    nodes_in_run_order(plan).map(shown).collect()
}

/// Prints what each node does.
fn print_nodes(out: &mut impl Write, plan: &WorkflowPlan) -> std::io::Result<()> {
    let title = plan.goal.as_ref().map_or_else(|| plan.name.clone(), |goal| format!("{}: {goal}", plan.name));
    writeln!(out, "{}, starts at {}", single_line(&title, 200), plan.start)?;
    if let Some(description) = &plan.description {
        writeln!(out, "  {}", single_line(description, 400))?;
    }
    let names = nodes_in_run_order(plan).map(|node| node.name.chars().count());
    let width = names.max().unwrap_or(0);
    for node in nodes_in_run_order(plan) {
        let name = style_stdout(TextStyle::Heading, &format!("{:<width$}", node.name));
        let kind = node.kind.name();
        writeln!(
            out,
            "  {name}  {kind:<8} {}; {}",
            single_line(&node.describe(), 120),
            node.describe_edges()
        )?;
    }
    Ok(())
}

/// Nodes in the order a run reaches them; nodes called only when a loop stalls come last.
fn nodes_in_run_order(plan: &WorkflowPlan) -> impl Iterator<Item = &Node> {
    let rest = plan.nodes.values().filter(|node| !plan.graph.nodes.contains(&node.name));
    plan.graph.nodes.iter().filter_map(|name| plan.nodes.get(name)).chain(rest)
}

fn as_json(
    file: &str,
    resolved: &ResolvedPolicy,
    warnings: &[PolicyWarning],
    graph: Option<&(Vec<Loop>, WorstCaseBounds)>,
) -> Value {
    let warnings: Vec<Value> = warnings
        .iter()
        .map(|warning| {
            let severity = if warning.severity == LintSeverity::Warning { "warning" } else { "info" };
            let (line, column) = warning.position.map_or((None, None), |place| (Some(place.line), Some(place.column)));
            json!({"code": warning.code, "severity": severity, "path": warning.path, "origin": warning.origin.to_string(),
                   "line": line, "column": column, "what": warning.message, "help": warning.help})
        })
        .collect();
    let mut all = json!({"file": file, "ok": true, "preset": resolved.policy.preset.as_str(), "policy_digest": resolved.policy.digest,
                         "warnings": warnings});
    if let (Some((loops, bounds)), Some(map)) = (graph, all.as_object_mut()) {
        map.insert("loops".into(), loops.iter().map(loop_json).collect());
        map.insert("bounds".into(), json!(bounds));
    }
    all
}

/// A loop as JSON.
pub(crate) fn loop_json(found: &Loop) -> Value {
    json!({"id": found.id, "header": found.header, "nodes": found.nodes, "edges": found.edges, "anchors": found.anchors,
           "depth": found.depth, "parent": found.parent})
}

fn print(
    out: &mut impl Write,
    file: &str,
    resolved: &ResolvedPolicy,
    warnings: &[PolicyWarning],
    graph: Option<&(Vec<Loop>, WorstCaseBounds)>,
) -> std::io::Result<()> {
    for warning in warnings {
        let (style, word) = match warning.severity {
            LintSeverity::Warning => (TextStyle::Warning, "warning"),
            LintSeverity::Info => (TextStyle::Dim, "note"),
        };
        let place =
            warning.position.map_or_else(String::new, |place| format!(":{}:{}", place.line, place.column));
        writeln!(
            out,
            "{}[{}]: {}{place}: {}",
            style_stdout(style, word),
            warning.code,
            warning.origin,
            warning.message
        )?;
        writeln!(out, "  help: {}", warning.help)?;
    }
    if let Some((loops, bounds)) = graph {
        print_graph(out, loops, bounds)?;
    }
    let grave = warnings.iter().filter(|warning| warning.severity == LintSeverity::Warning).count();
    let count = match grave {
        0 => "no warnings".to_owned(),
        1 => "1 warning".to_owned(),
        more => format!("{more} warnings"),
    };
    writeln!(
        out,
        "{} {file}: preset {}, {count}",
        style_stdout(TextStyle::Success, "ok"),
        resolved.policy.preset.as_str()
    )
}

fn print_graph(out: &mut impl Write, loops: &[Loop], bounds: &WorstCaseBounds) -> std::io::Result<()> {
    if loops.is_empty() {
        writeln!(out, "No loops: every path ends.")?;
    }
    for found in loops {
        let indent = "  ".repeat(found.depth);
        writeln!(out, "{indent}{}  {}", style_stdout(TextStyle::Heading, &found.id), found.nodes.join(", "))?;
        writeln!(out, "{indent}  restarts at {} via {}", found.header, found.anchors.join(", "))?;
    }
    writeln!(out, "Worst case without human intervention:")?;
    let count = format_count;
    print_bound(out, "turns", &bounds.turns, count)?;
    print_bound(out, "transitions", &bounds.transitions, count)?;
    print_bound(out, "time", &bounds.runtime_ms, exact_duration)?;
    print_bound(out, "cost", &bounds.cost_micro_usd, cost_at_most)
}

fn print_bound(
    out: &mut impl Write,
    name: &str,
    bound: &WorstCaseBound,
    show: impl Fn(u64) -> String,
) -> std::io::Result<()> {
    match bound {
        WorstCaseBound::AtMost { value, because } => {
            writeln!(out, "  {name:<12} at most {}: {because}", show(*value))
        }
        WorstCaseBound::Unbounded { because, path } => {
            let way = if path.is_empty() { String::new() } else { format!(" ({})", path.join(" → ")) };
            writeln!(
                out,
                "  {name:<12} {}, because {because}{way}",
                style_stdout(TextStyle::Warning, "unbounded")
            )
        }
    }
}

/// A bound must not be rounded down.
fn cost_at_most(micro: u64) -> String {
    format_dollars(micro.div_ceil(10_000).saturating_mul(10_000))
}
