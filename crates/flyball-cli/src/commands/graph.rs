//! `flyball graph`: a workflow, or the workflow of a session in a file or the store, with its loops and their badges.

use crate::args::{Drawing, Graph};
use crate::commands::check::loop_json;
use crate::commands::replay::fold;
use crate::fail::{Exit, Failure};
use crate::input::Lines;
use crate::load;
use crate::recording::Recording;
use crate::store;
use crate::workflow::{Document, WorkflowFile, read};
use flyball::graph::render::{Badge, View, ascii, dot, mermaid, svg};
use flyball::policy::{Policy, resolve};
use flyball::{Preset, Report, Sessions, State};
use flyball_adapt::source::Format;
use flyball_view::drawing::{add_branches, view_of};
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
    let mut out = crate::terminal::stdout();
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
    if args.session.is_some() {
        let what = "a workflow file has no sessions";
        return Err(Failure::new("no_such_session", "--session", what, "leave --session out"));
    }
    let (layers, preset) = load::layers_of_run(policy.as_ref(), &args.policy)?;
    let limit = resolve(&layers, preset)?.policy.budgets.loops.iterations;
    let mut view = View::new(workflow);
    let badges = view.loops.iter().map(|found| (found.id.clone(), Badge { limit, ..Badge::default() }));
    view.badges = badges.collect();
    Ok(view)
}

fn from_session(args: &Graph) -> Result<(View, Option<Report>), Failure> {
    let mut sessions = Sessions::new(load::source(&args.policy, Preset::Agent)?);
    let mut recording = Recording::open(&args.file, Some(Format::Flyball))?;
    fold(&mut recording, &mut sessions, |_| Ok(()))?;
    let found = sessions.iter().find(|(name, session)| match &args.session {
        Some(wanted) => name == wanted,
        None => session.state().workflow().is_some(),
    });
    let session = found.map(|(_, session)| session);
    let Some((session, workflow)) = session.and_then(|session| Some((session, session.state().workflow()?)))
    else {
        return Err(Failure::new(
            "no_workflow",
            recording.name(),
            "no such session with a workflow is in it",
            "its session.started must carry `workflow: {nodes, edges}`",
        ));
    };
    let (view, report) = view_of(session.state(), session.policy(), workflow);
    Ok((view, Some(report)))
}

/// The workflow of a session of the store.
fn from_store(args: &Graph) -> Result<(View, Option<Report>), Failure> {
    let name = args.file.to_string_lossy();
    let desk = store::for_name(&args.store, &args.file)?;
    let recorder = store::under(desk, &args.policy, &name)?;
    let (state, policy) = store::session(&recorder, &name)?;
    match state.workflow() {
        Some(workflow) => {
            let (mut view, report) = view_of(&state, &policy, workflow);
            add_branches(&mut view, &recorder, &name)?;
            Ok((view, Some(report)))
        }
        None => Err(Failure::new(
            "no_workflow",
            name,
            "this session has no workflow",
            "its session.started must carry `workflow: {nodes, edges}`",
        )),
    }
}

/// The workflow of a session as text for a terminal; nothing if it has none.
pub(crate) fn picture(state: &State, policy: &Policy) -> Option<String> {
    let (view, _) = view_of(state, policy, state.workflow()?);
    Some(ascii(&view))
}
