//! `flyball graph`: a workflow, or the workflow of a session in a file or the store, with its loops and their badges.

use crate::args::{Drawing, Graph};
use crate::commands::check::loop_json;
use crate::commands::replay::fold;
use crate::fail::{Exit, Failure};
use crate::input::Lines;
use crate::load;
use crate::store;
use crate::workflow::{Document, WorkflowFile, read};
use flyball::graph::Workflow;
use flyball::graph::render::{Badge, View, ascii, dot, mermaid, svg};
use flyball::policy::{Layer, Policy, resolve};
use flyball::{Preset, Report, Sessions, State};
use flyball_journal::{Recorder, RecorderOptions};
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// Runs the command.
pub(crate) fn run(args: &Graph) -> Result<Exit, Failure> {
    let (view, report) = if !args.file.exists() && args.file != Path::new("-") {
        from_store(args)?
    } else if is_recorded(args)? {
        from_session(args)?
    } else {
        (from_file(args)?, None)
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        let loops: Vec<_> = view.loops.iter().map(loop_json).collect();
        let whole = json!({"nodes": view.workflow.nodes, "edges": view.workflow.edges, "loops": loops, "session": report});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Done);
    }
    let drawing = match args.format {
        Drawing::Ascii => ascii(&view),
        Drawing::Svg => svg(&view),
        Drawing::Dot => dot(&view),
        Drawing::Mermaid => mermaid(&view),
    };
    writeln!(out, "{}", drawing.trim_end())?;
    Ok(Exit::Done)
}

/// A file of events has one object a line, each with a `type`.
fn is_recorded(args: &Graph) -> Result<bool, Failure> {
    let mut lines = Lines::open(&args.file)?;
    let first = lines.next_event()?;
    Ok(matches!(first, Some(Ok(_))))
}

/// The bare workflow, with the loops' limits as its policy sets them.
fn from_file(args: &Graph) -> Result<View, Failure> {
    let Document::Workflow(WorkflowFile { workflow, policy, .. }) = read(&args.file)? else {
        return Err(Failure::new(
            "no_workflow",
            args.file.display().to_string(),
            "there are no nodes and edges in it",
            "name a workflow file with `nodes:`, or a file of events whose session.started has a workflow",
        ));
    };
    let layers: Vec<Layer> = policy.into_iter().collect();
    let limit = resolve(&layers, Preset::Workflow)?.policy.budgets.loops.iterations;
    let mut view = View::new(workflow);
    let badges = view.loops.iter().map(|found| (found.id.clone(), Badge { limit, ..Badge::default() }));
    view.badges = badges.collect();
    Ok(view)
}

fn from_session(args: &Graph) -> Result<(View, Option<Report>), Failure> {
    let mut sessions = Sessions::new(load::source(&args.policy, Preset::Agent)?);
    let mut lines = Lines::open(&args.file)?;
    fold(&mut lines, &mut sessions, |_, _| Ok(()))?;
    let found = sessions.iter().find(|(name, session)| match &args.session {
        Some(wanted) => name == wanted,
        None => session.state().workflow().is_some(),
    });
    let session = found.map(|(_, session)| session);
    let Some((session, workflow)) = session.and_then(|session| Some((session, session.state().workflow()?)))
    else {
        return Err(Failure::new(
            "no_workflow",
            lines.name(),
            "no such session with a workflow is in it",
            "its session.started must carry `workflow: {nodes, edges}`",
        ));
    };
    Ok(view_of(session.state(), session.policy(), workflow))
}

/// The workflow of a session of the store.
fn from_store(args: &Graph) -> Result<(View, Option<Report>), Failure> {
    let name = args.file.to_string_lossy();
    let desk = store::for_name(&args.store, &args.file)?;
    let source = load::source(&args.policy, Preset::Agent)?;
    let recorder = Recorder::new(desk, source, RecorderOptions::default());
    let (state, policy) = store::session(&recorder, &name)?;
    match state.workflow() {
        Some(workflow) => Ok(view_of(&state, &policy, workflow)),
        None => Err(Failure::new(
            "no_workflow",
            name,
            "this session has no workflow",
            "its session.started must carry `workflow: {nodes, edges}`",
        )),
    }
}

/// What is known of a session, drawn onto its workflow.
fn view_of(state: &State, policy: &Policy, workflow: &Workflow) -> (View, Option<Report>) {
    let report = state.report(policy);
    let mut view = View::new(workflow.clone());
    let trend = report.trends.iter().find(|(_, values)| values.len() > 1).map(|(name, values)| {
        let values: Vec<String> = values.iter().map(i64::to_string).collect();
        let name = if name == "tests" { "failing tests" } else { name };
        format!("{name} {}", values.join(" → "))
    });
    // Inner loops come after the loops around them, so the last one is the loop that the work is in.
    let inside = |nodes: &[String]| report.node.as_ref().is_some_and(|node| nodes.contains(node));
    let here = report.loops.iter().rposition(|found| inside(&found.nodes));
    for (at, found) in report.loops.iter().enumerate() {
        let here = here == Some(at);
        let badge = Badge {
            iterations: found.iterations,
            limit: found.limit,
            halt_reason: report.halt_reason.map(|reason| reason.as_str().to_owned()).filter(|_| here),
            trend: trend.clone().filter(|_| here),
        };
        view.badges.insert(found.id.clone(), badge);
    }
    for (node, visits) in report.visits.iter().filter(|(_, visits)| **visits > 0) {
        view.node_marks.insert(node.clone(), format!("{visits} visits"));
    }
    view.current.clone_from(&report.node);
    (view, Some(report))
}
