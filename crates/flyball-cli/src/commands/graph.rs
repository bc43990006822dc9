//! `flyball graph`: draws a workflow file or the workflow of a session, with its loops and their badges.

use crate::args::{GraphArgs, GraphFormatArg};
use crate::commands::check::loop_json;
use crate::commands::replay::replay_events;
use crate::error::{CliError, Exit};
use crate::event_file::EventFileReader;
use crate::event_lines::EventLines;
use crate::policy_loader;
use crate::store;
use crate::workflow_file::{WorkflowFile, WorkflowOrPolicy, read_document};
use flyball::graph::render::{GraphView, LoopBadge, ascii, dot, mermaid, svg};
use flyball::policy::{Policy, resolve};
use flyball::{Preset, SessionReport, SessionState, Sessions};
use flyball_integrations::transcript::TranscriptFormat;
use flyball_view::workflow_view::{add_branches, workflow_view};
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// Runs the command.
pub(crate) fn run(args: &GraphArgs) -> Result<Exit, CliError> {
    let (view, report) = if !args.file.exists() && args.file != Path::new("-") {
        view_of_stored_session(args)?
    } else if is_event_file(args)? {
        view_of_recording(args)?
    } else {
        (view_of_workflow(args)?, None)
    };
    let mut out = crate::terminal::stdout();
    if args.json {
        let loops: Vec<_> = view.loops.iter().map(loop_json).collect();
        let whole = json!({"nodes": view.workflow.nodes, "edges": view.workflow.edges, "loops": loops, "session": report});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Success);
    }
    let drawing = match args.format {
        GraphFormatArg::Ascii => ascii(&view),
        GraphFormatArg::Svg => svg(&view),
        GraphFormatArg::Dot => dot(&view),
        GraphFormatArg::Mermaid => mermaid(&view),
    };
    writeln!(out, "{}", drawing.trim_end())?;
    Ok(Exit::Success)
}

/// Whether a file is an event file: one JSON object per line, each with a `type`.
fn is_event_file(args: &GraphArgs) -> Result<bool, CliError> {
    let mut lines = EventLines::open(&args.file)?;
    let first = lines.next_event()?;
    Ok(matches!(first, Some(Ok(_))))
}

/// The workflow alone, with the loop limits of its policy.
fn view_of_workflow(args: &GraphArgs) -> Result<GraphView, CliError> {
    let WorkflowOrPolicy::Workflow(WorkflowFile { workflow, policy, .. }) = read_document(&args.file)? else {
        return Err(CliError::new(
            "no_workflow",
            args.file.display().to_string(),
            "the file has no nodes and edges",
            "name a workflow file with `nodes:`, or an event file whose session.started has a workflow",
        ));
    };
    if args.session.is_some() {
        let what = "a workflow file has no sessions";
        return Err(CliError::new("no_such_session", "--session", what, "remove --session"));
    }
    let (layers, preset) = policy_loader::layers_for_run(policy.as_ref(), &args.policy)?;
    let limit = resolve(&layers, preset)?.policy.budgets.loops.iterations;
    let mut view = GraphView::new(workflow);
    let badges =
        view.loops.iter().map(|found| (found.id.clone(), LoopBadge { limit, ..LoopBadge::default() }));
    view.badges = badges.collect();
    Ok(view)
}

fn view_of_recording(args: &GraphArgs) -> Result<(GraphView, Option<SessionReport>), CliError> {
    let mut sessions = Sessions::new(policy_loader::source(&args.policy, Preset::Agent)?);
    let mut recording = EventFileReader::open(&args.file, Some(TranscriptFormat::Flyball))?;
    replay_events(&mut recording, &mut sessions, |_| Ok(()))?;
    let found = sessions.iter().find(|(name, session)| match &args.session {
        Some(wanted) => name == wanted,
        None => session.state().workflow().is_some(),
    });
    let session = found.map(|(_, session)| session);
    let Some((session, workflow)) = session.and_then(|session| Some((session, session.state().workflow()?)))
    else {
        return Err(CliError::new(
            "no_workflow",
            recording.name(),
            "the file has no such session with a workflow",
            "its session.started must carry `workflow: {nodes, edges}`",
        ));
    };
    let (view, report) = workflow_view(session.state(), session.policy(), workflow);
    Ok((view, Some(report)))
}

/// The workflow of a stored session.
fn view_of_stored_session(args: &GraphArgs) -> Result<(GraphView, Option<SessionReport>), CliError> {
    let name = args.file.to_string_lossy();
    let store = store::open_for_name(&args.store, &args.file)?;
    let recorder = store::recorder_with_session_policy(store, &args.policy, &name)?;
    let (state, policy) = store::load_session(&recorder, &name)?;
    match state.workflow() {
        Some(workflow) => {
            let (mut view, report) = workflow_view(&state, &policy, workflow);
            add_branches(&mut view, &recorder, &name)?;
            Ok((view, Some(report)))
        }
        None => Err(CliError::new(
            "no_workflow",
            name,
            "this session has no workflow",
            "its session.started must carry `workflow: {nodes, edges}`",
        )),
    }
}

/// The workflow of a session as text for a terminal; `None` if it has none.
pub(crate) fn ascii_graph(state: &SessionState, policy: &Policy) -> Option<String> {
    let (view, _) = workflow_view(state, policy, state.workflow()?);
    Some(ascii(&view))
}
