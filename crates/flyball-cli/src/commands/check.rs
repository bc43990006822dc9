//! `flyball check`: errors with their place, contradictions, loops and their ids, worst-case bounds.

mod phases;

use crate::args::{Check, PolicyArgs};
use crate::fail::{Exit, Failure};
use crate::load;
use crate::paint::{Style, paint_out};
use crate::trust::{self, Caller};
use crate::words::line;
use crate::workflow::{Document, WorkflowFile, read};
use flyball::Preset;
use flyball::graph::{Bound, Bounds, Limits, Loop, bounds, loops};
use flyball::policy::{
    Format, Ignored, Layer, OnStall, Origin, Resolved, Severity, Warning, from_set, lint_graph, parse,
    resolve,
};
use flyball_journal::Door;
use flyball_run::workflow::spec::Signal;
use flyball_run::workflow::{Node, Plan};
use phases::Phases;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Runs the command.
pub(crate) fn run(args: &Check) -> Result<Exit, Failure> {
    let document = read(&args.file)?;
    let written = match &document {
        Document::Policy(layer) => Some(layer.clone()),
        Document::Workflow(_) => None,
    };
    let own = PolicyArgs { preset: args.preset.clone(), ..PolicyArgs::default() };
    let (layers, preset, workflow, plan) = match document {
        Document::Policy(layer) => (with_preset(Some(layer), &own)?, Preset::Agent, None, None),
        Document::Workflow(WorkflowFile { workflow, policy, plan: None }) => {
            (with_preset(policy, &own)?, Preset::Workflow, Some(workflow), None)
        }
        // What is promised is what a run would be held to here: the project's policy and the environment count.
        Document::Workflow(WorkflowFile { workflow, policy, plan }) => {
            let (layers, preset) = load::layers_of_run(policy.as_ref(), &own)?;
            (layers, preset, Some(workflow), plan)
        }
    };
    let resolved = resolve(&layers, preset)?;
    Door::check(&resolved)?;
    if let Some(plan) = &plan {
        check_gates(plan, &resolved)?;
    }
    let mut warnings = resolved.warnings.clone();
    let graph = workflow.as_ref().map(|workflow| {
        let pairs: Vec<(&str, &str)> =
            workflow.edges.iter().map(|edge| (edge.from.as_str(), edge.to.as_str())).collect();
        warnings.extend(lint_graph(&resolved, &pairs));
        let policy = &resolved.policy;
        let worst = match &plan {
            Some(plan) => plan.bounds(policy),
            None => bounds(workflow, &Limits::of(policy, workflow)),
        };
        (loops(workflow), worst)
    });
    let file = args.file.display().to_string();
    warnings.extend(plan.as_ref().and_then(|plan| without_helper(plan, &resolved, &file)));
    warnings.extend(plan.iter().flat_map(|plan| without_direction(plan, &file)));
    warnings.extend(untrusted(&args.file)?);
    let phases = written.as_ref().and_then(|layer| Phases::of(layer, &resolved.policy));
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
        return Ok(Exit::Done);
    }
    if let Some(plan) = &plan {
        print_nodes(&mut out, plan)?;
    }
    if let Some(phases) = &phases {
        phases.print(&mut out)?;
    }
    print(&mut out, &file, &resolved, &warnings, graph.as_ref())?;
    Ok(Exit::Done)
}

/// Gates that need each other in a circle, by their own `needs` and the dependencies of the policy together.
fn check_gates(plan: &Plan, resolved: &Resolved) -> Result<(), Failure> {
    if !plan.uses_gates() {
        return Ok(());
    }
    match plan.gates_in(&plan.folder, &resolved.policy.guards.gate.dependencies) {
        Err(error) if error.code == "gate_cycle" => Err(flyball_run::Failure::from(error).into()),
        // What else a gate needs is known where the run works.
        _ => Ok(()),
    }
}

/// The file's own policy, under the preset that was asked for.
fn with_preset(layer: Option<Layer>, args: &PolicyArgs) -> Result<Vec<Layer>, Failure> {
    let preset = args.preset.as_ref().map(|name| from_set(&[format!("preset={name}")])).transpose()?;
    Ok(layer.into_iter().chain(preset).collect())
}

/// What would be ignored of a project's policy file that is not trusted.
fn untrusted(file: &Path) -> Result<Vec<Warning>, Failure> {
    if !load::is_project_policy(file) {
        return Ok(Vec::new());
    }
    let text = load::read(file)?;
    if trust::is_trusted(file, text.as_bytes(), Caller::Person) {
        return Ok(Vec::new());
    }
    let name = file.display().to_string();
    let layer = parse(&text, Format::guess(&name, &text), &name)?;
    Ok(load::loosened_by(&layer, Preset::Agent)?.iter().map(Ignored::warning).collect())
}

/// A policy that wants somebody to step in when a loop stalls, and nobody is there.
fn without_helper(plan: &Plan, resolved: &Resolved, file: &str) -> Option<Warning> {
    let (word, key) = match resolved.policy.on_stall {
        OnStall::SpawnReviewer if plan.reviewer.is_none() => ("spawn_reviewer", "reviewer"),
        OnStall::RetryWithNewProvider if plan.fallback_provider.is_none() => {
            ("retry_with_new_provider", "fallback_provider")
        }
        _ => return None,
    };
    Some(Warning {
        code: "workflow_nobody_steps_in",
        severity: Severity::Warning,
        path: "on_stall".to_owned(),
        origin: Origin::Workflow { name: file.to_owned() },
        place: None,
        what: format!("`on_stall: {word}` without `{key}`: a loop that stalls is halted"),
        help: format!("write `{key}:` at the top of the workflow"),
    })
}

/// Signals that yield a number, of which nobody has said whether it should rise or fall.
fn without_direction(plan: &Plan, file: &str) -> Vec<Warning> {
    let unstated = plan.signals.iter().enumerate().filter(|(_, signal)| signal.lacks_direction());
    let warning = |(at, signal): (usize, &Signal)| {
        let name = line(&signal.name, 60);
        Warning {
            code: "workflow_signal_direction",
            severity: Severity::Warning,
            path: format!("signals.{at}.better"),
            origin: Origin::Workflow { name: file.to_owned() },
            place: plan.signal_places.get(at).copied().flatten(),
            what: format!(
                "signal '{name}' yields a number without a direction: every change counts as progress"
            ),
            help: "write `better: up` if higher is better, or `better: down` if lower is better".to_owned(),
        }
    };
    unstated.map(warning).collect()
}

fn nodes_json(plan: &Plan) -> Value {
    let shown = |node: &Node| json!({"name": node.name, "kind": node.work.kind(), "does": node.does(), "leads_to": node.leads_to()});
    in_order(plan).map(shown).collect()
}

/// What each node does.
fn print_nodes(out: &mut impl Write, plan: &Plan) -> std::io::Result<()> {
    let title = plan.goal.as_ref().map_or_else(|| plan.name.clone(), |goal| format!("{}: {goal}", plan.name));
    writeln!(out, "{}, begins at {}", line(&title, 200), plan.start)?;
    if let Some(description) = &plan.description {
        writeln!(out, "  {}", line(description, 400))?;
    }
    let names = in_order(plan).map(|node| node.name.chars().count());
    let width = names.max().unwrap_or(0);
    for node in in_order(plan) {
        let name = paint_out(Style::Strong, &format!("{:<width$}", node.name));
        let kind = node.work.kind();
        writeln!(out, "  {name}  {kind:<8} {}; {}", line(&node.does(), 120), node.ways())?;
    }
    Ok(())
}

/// As a run comes to them; one that is only called when a loop stalls stands at the end.
fn in_order(plan: &Plan) -> impl Iterator<Item = &Node> {
    let rest = plan.nodes.values().filter(|node| !plan.graph.nodes.contains(&node.name));
    plan.graph.nodes.iter().filter_map(|name| plan.nodes.get(name)).chain(rest)
}

fn as_json(
    file: &str,
    resolved: &Resolved,
    warnings: &[Warning],
    graph: Option<&(Vec<Loop>, Bounds)>,
) -> Value {
    let warnings: Vec<Value> = warnings
        .iter()
        .map(|warning| {
            let severity = if warning.severity == Severity::Warning { "warning" } else { "info" };
            let (line, column) = warning.place.map_or((None, None), |place| (Some(place.line), Some(place.column)));
            json!({"code": warning.code, "severity": severity, "path": warning.path, "origin": warning.origin.to_string(),
                   "line": line, "column": column, "what": warning.what, "help": warning.help})
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

/// A loop for reports.
pub(crate) fn loop_json(found: &Loop) -> Value {
    json!({"id": found.id, "header": found.header, "nodes": found.nodes, "edges": found.edges, "anchors": found.anchors,
           "depth": found.depth, "parent": found.parent})
}

fn print(
    out: &mut impl Write,
    file: &str,
    resolved: &Resolved,
    warnings: &[Warning],
    graph: Option<&(Vec<Loop>, Bounds)>,
) -> std::io::Result<()> {
    for warning in warnings {
        let (style, word) = match warning.severity {
            Severity::Warning => (Style::Warn, "warning"),
            Severity::Info => (Style::Dim, "note"),
        };
        let place =
            warning.place.map_or_else(String::new, |place| format!(":{}:{}", place.line, place.column));
        writeln!(
            out,
            "{}[{}]: {}{place}: {}",
            paint_out(style, word),
            warning.code,
            warning.origin,
            warning.what
        )?;
        writeln!(out, "  help: {}", warning.help)?;
    }
    if let Some((loops, bounds)) = graph {
        print_graph(out, loops, bounds)?;
    }
    let grave = warnings.iter().filter(|warning| warning.severity == Severity::Warning).count();
    let count = match grave {
        0 => "no warnings".to_owned(),
        1 => "1 warning".to_owned(),
        more => format!("{more} warnings"),
    };
    writeln!(
        out,
        "{} {file}: preset {}, {count}",
        paint_out(Style::Good, "ok"),
        resolved.policy.preset.as_str()
    )
}

fn print_graph(out: &mut impl Write, loops: &[Loop], bounds: &Bounds) -> std::io::Result<()> {
    if loops.is_empty() {
        writeln!(out, "No loops: every path ends.")?;
    }
    for found in loops {
        let indent = "  ".repeat(found.depth);
        writeln!(out, "{indent}{}  {}", paint_out(Style::Strong, &found.id), found.nodes.join(", "))?;
        writeln!(out, "{indent}  begins again at {} over {}", found.header, found.anchors.join(", "))?;
    }
    writeln!(out, "Worst case, while no person acts:")?;
    let count = |value: u64| value.to_string();
    print_bound(out, "turns", &bounds.turns, count)?;
    print_bound(out, "transitions", &bounds.transitions, count)?;
    print_bound(out, "time", &bounds.runtime_ms, minutes)?;
    print_bound(out, "cost", &bounds.cost_micro_usd, dollars)
}

fn print_bound(
    out: &mut impl Write,
    name: &str,
    bound: &Bound,
    show: impl Fn(u64) -> String,
) -> std::io::Result<()> {
    match bound {
        Bound::AtMost { value, because } => writeln!(out, "  {name:<12} at most {}: {because}", show(*value)),
        Bound::Unbounded { because, path } => {
            let way = if path.is_empty() { String::new() } else { format!(" ({})", path.join(" → ")) };
            writeln!(out, "  {name:<12} {}, because {because}{way}", paint_out(Style::Warn, "unbounded"))
        }
    }
}

fn minutes(ms: u64) -> String {
    let minutes = ms.div_ceil(60_000);
    if minutes < 60 { format!("{minutes} min") } else { format!("{} h {} min", minutes / 60, minutes % 60) }
}

fn dollars(micro: u64) -> String {
    format!("${}.{:02}", micro / 1_000_000, micro % 1_000_000 / 10_000)
}
