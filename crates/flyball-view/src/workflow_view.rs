//! A session's state drawn on its workflow graph: badges on nodes and loops.

use crate::formatting::plural;
use crate::trend;
use flyball::graph::Workflow;
use flyball::graph::render::{GraphView, LoopBadge};
use flyball::policy::Policy;
use flyball::{SessionPhase, SessionReport, SessionState};
use flyball_store::{RecordError, Recorder, SessionFilter};
use std::collections::BTreeMap;

/// Number of sessions searched for branches.
const MAX_SESSIONS: usize = 1_000;

/// Builds the graph view of a session.
#[must_use]
pub fn workflow_view(
    state: &SessionState,
    policy: &Policy,
    workflow: &Workflow,
) -> (GraphView, SessionReport) {
    let report = state.report(policy);
    let mut view = GraphView::new(workflow.clone());
    let here = current_loop(&report);
    for (at, found) in report.loops.iter().enumerate() {
        let here = here == Some(at);
        let badge = LoopBadge {
            iterations: found.iterations,
            limit: found.limit,
            halt_reason: report.halt_reason.map(|reason| reason.as_str().to_owned()).filter(|_| here),
            trend: trend::main_trend(&report).filter(|_| here),
        };
        view.badges.insert(found.id.clone(), badge);
    }
    for (node, visits) in report.visits.iter().filter(|(_, visits)| **visits > 0) {
        view.node_marks.insert(node.clone(), plural(u64::from(*visits), "visit"));
    }
    // A halt inside a loop is shown on the loop's badge.
    let on_badge = report.halt_reason.is_some() && here.is_some();
    if let (Some(node), Some(word)) = (&report.node, stop_label(&report).filter(|_| !on_badge)) {
        view.node_marks
            .entry(node.clone())
            .and_modify(|mark| *mark = format!("{mark}, {word}"))
            .or_insert(word);
    }
    view.current.clone_from(&report.node);
    (view, report)
}

/// Adds the visits of a run's branches and marks stopped ones: the run's own session did not visit these nodes.
///
/// # Errors
/// If they cannot be read.
pub fn add_branches(view: &mut GraphView, recorder: &Recorder, name: &str) -> Result<(), RecordError> {
    let heads = recorder.store().list_sessions(SessionFilter::All, MAX_SESSIONS)?;
    let mut visits: BTreeMap<String, u64> = BTreeMap::new();
    let mut stopped: BTreeMap<String, String> = BTreeMap::new();
    for head in heads.iter().filter(|head| head.summary.parent.as_deref() == Some(name)) {
        let Some((state, policy)) = recorder.session(&head.session)? else { continue };
        let report = state.report(&policy);
        report
            .visits
            .iter()
            .for_each(|(node, count)| *visits.entry(node.clone()).or_default() += u64::from(*count));
        if let (Some(node), Some(word)) = (&report.node, stop_label(&report)) {
            let branch = head.session.strip_prefix(name).unwrap_or(&head.session).trim_start_matches('/');
            stopped.insert(node.clone(), format!("{branch} {word}"));
        }
    }
    for (node, count) in visits.into_iter().filter(|(_, count)| *count > 0) {
        view.node_marks.entry(node).or_insert_with(|| plural(count, "visit"));
    }
    for (node, word) in stopped {
        view.node_marks.entry(node).and_modify(|mark| *mark = format!("{mark}, {word}")).or_insert(word);
    }
    Ok(())
}

/// The loop that contains the current node, or the last active loop. Inner loops come after the loops around them.
fn current_loop(report: &SessionReport) -> Option<usize> {
    let inside = |nodes: &[String]| report.node.as_ref().is_some_and(|node| nodes.contains(node));
    let now = report.loops.iter().rposition(|found| inside(&found.nodes));
    let is_active = report.halt_reason.is_none();
    now.or_else(|| report.loops.iter().rposition(|found| is_active && found.iterations > 0))
}

/// Why the current node is stopped.
fn stop_label(report: &SessionReport) -> Option<String> {
    match (report.status, report.halt_reason) {
        (SessionPhase::Halted, Some(reason)) => Some(format!("halted: {}", reason.as_str())),
        (SessionPhase::Blocked, _) => {
            let guard = report.stopped_by.as_deref().and_then(|why| why.split(':').next());
            Some(format!("blocked: {}", guard.unwrap_or_default()))
        }
        (SessionPhase::AwaitingConfirmation, _) => Some("awaiting approval".to_owned()),
        _ => None,
    }
}
