//! `flyball graph`: a workflow, or the workflow of a session in a file or the store, with its loops and their badges.

use crate::args::{Drawing, Graph};
use crate::commands::check::loop_json;
use crate::commands::replay::fold;
use crate::fail::{Exit, Failure};
use crate::input::Lines;
use crate::load;
use crate::recording::Recording;
use crate::store;
use crate::trend;
use crate::words::plural;
use crate::workflow::{Document, WorkflowFile, read};
use flyball::graph::Workflow;
use flyball::graph::render::{Badge, View, ascii, dot, mermaid, svg};
use flyball::policy::{Layer, Policy, resolve};
use flyball::{Preset, Report, Sessions, State, Status};
use flyball_adapt::source::Format;
use flyball_journal::{Recorder, Which};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// How many sessions are looked over for branches.
const BRANCHES: usize = 1_000;

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
    Ok(view_of(session.state(), session.policy(), workflow))
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
            Ok((view, report))
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

/// What is known of a session, drawn onto its workflow.
fn view_of(state: &State, policy: &Policy, workflow: &Workflow) -> (View, Option<Report>) {
    let report = state.report(policy);
    let mut view = View::new(workflow.clone());
    let here = here(&report);
    for (at, found) in report.loops.iter().enumerate() {
        let here = here == Some(at);
        let badge = Badge {
            iterations: found.iterations,
            limit: found.limit,
            halt_reason: report.halt_reason.map(|reason| reason.as_str().to_owned()).filter(|_| here),
            trend: trend::first(&report).filter(|_| here),
        };
        view.badges.insert(found.id.clone(), badge);
    }
    for (node, visits) in report.visits.iter().filter(|(_, visits)| **visits > 0) {
        view.node_marks.insert(node.clone(), plural(u64::from(*visits), "visit"));
    }
    // A halt in a loop is told beside the loop.
    let told = report.halt_reason.is_some() && here.is_some();
    if let (Some(node), Some(word)) = (&report.node, stands(&report).filter(|_| !told)) {
        view.node_marks
            .entry(node.clone())
            .and_modify(|mark| *mark = format!("{mark}, {word}"))
            .or_insert(word);
    }
    view.current.clone_from(&report.node);
    (view, Some(report))
}

/// What the branches of a run have visited, and where one of them stands still: the run itself was not there.
fn add_branches(view: &mut View, recorder: &Recorder, name: &str) -> Result<(), Failure> {
    let heads = recorder.journal().heads(Which::All, BRANCHES)?;
    let mut visits: BTreeMap<String, u64> = BTreeMap::new();
    let mut standing: BTreeMap<String, String> = BTreeMap::new();
    for head in heads.iter().filter(|head| head.glance.parent.as_deref() == Some(name)) {
        let Some((state, policy)) = recorder.session(&head.session)? else { continue };
        let report = state.report(&policy);
        report
            .visits
            .iter()
            .for_each(|(node, count)| *visits.entry(node.clone()).or_default() += u64::from(*count));
        if let (Some(node), Some(word)) = (&report.node, stands(&report)) {
            let branch = head.session.strip_prefix(name).unwrap_or(&head.session).trim_start_matches('/');
            standing.insert(node.clone(), format!("{branch} {word}"));
        }
    }
    for (node, count) in visits.into_iter().filter(|(_, count)| *count > 0) {
        view.node_marks.entry(node).or_insert_with(|| plural(count, "visit"));
    }
    for (node, word) in standing {
        view.node_marks.entry(node).and_modify(|mark| *mark = format!("{mark}, {word}")).or_insert(word);
    }
    Ok(())
}

/// The loop that the work is in, or was in last. Inner loops come after the loops around them.
fn here(report: &Report) -> Option<usize> {
    let inside = |nodes: &[String]| report.node.as_ref().is_some_and(|node| nodes.contains(node));
    let now = report.loops.iter().rposition(|found| inside(&found.nodes));
    let goes_on = report.halt_reason.is_none();
    now.or_else(|| report.loops.iter().rposition(|found| goes_on && found.iterations > 0))
}

/// Why the node at work stands still.
fn stands(report: &Report) -> Option<String> {
    match (report.status, report.halt_reason) {
        (Status::Halted, Some(reason)) => Some(format!("halted: {}", reason.as_str())),
        (Status::Blocked, _) => {
            let guard = report.stopped_by.as_deref().and_then(|why| why.split(':').next());
            Some(format!("blocked: {}", guard.unwrap_or_default()))
        }
        (Status::AwaitingConfirmation, _) => Some("waits for a yes".to_owned()),
        _ => None,
    }
}
