//! `flyball check`: errors with their place, contradictions, loops and their ids, worst-case bounds.

use crate::args::Check;
use crate::fail::{Exit, Failure};
use crate::paint::{Style, paint_out};
use crate::workflow::{Document, WorkflowFile, read};
use flyball::Preset;
use flyball::graph::{Bound, Bounds, Limits, Loop, bounds, loops};
use flyball::policy::{Layer, Resolved, Severity, Warning, from_set, lint_graph, resolve};
use serde_json::{Value, json};
use std::io::Write;

/// Runs the command.
pub(crate) fn run(args: &Check) -> Result<Exit, Failure> {
    let document = read(&args.file)?;
    let mut layers: Vec<Layer> = Vec::new();
    let (preset, workflow) = match document {
        Document::Policy(layer) => {
            layers.push(layer);
            (Preset::Agent, None)
        }
        Document::Workflow(WorkflowFile { workflow, policy }) => {
            layers.extend(policy);
            (Preset::Workflow, Some(workflow))
        }
    };
    if let Some(name) = &args.preset {
        layers.push(from_set(&[format!("preset={name}")])?);
    }
    let resolved = resolve(&layers, preset)?;
    let mut warnings = resolved.warnings.clone();
    let graph = workflow.as_ref().map(|workflow| {
        let pairs: Vec<(&str, &str)> =
            workflow.edges.iter().map(|edge| (edge.from.as_str(), edge.to.as_str())).collect();
        warnings.extend(lint_graph(&resolved, &pairs));
        (loops(workflow), bounds(workflow, &Limits::of(&resolved.policy, workflow)))
    });
    let mut out = std::io::stdout().lock();
    let file = args.file.display().to_string();
    if args.json {
        writeln!(out, "{}", as_json(&file, &resolved, &warnings, graph.as_ref()))?;
        return Ok(Exit::Done);
    }
    print(&mut out, &file, &resolved, &warnings, graph.as_ref())?;
    Ok(Exit::Done)
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
