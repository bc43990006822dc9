//! The workflow of a session as it is drawn: what is known of the session, on its nodes and loops.

use crate::trend;
use crate::words::plural;
use flyball::graph::Workflow;
use flyball::graph::render::{Badge, View};
use flyball::policy::Policy;
use flyball::{Report, State, Status};
use flyball_journal::{Recorder, Refusal, Which};
use std::collections::BTreeMap;

/// How many sessions are looked over for branches.
const BRANCHES: usize = 1_000;

/// What is known of a session, drawn onto its workflow.
#[must_use]
pub fn view_of(state: &State, policy: &Policy, workflow: &Workflow) -> (View, Report) {
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
    (view, report)
}

/// What the branches of a run have visited, and where one of them stands still: the run itself was not there.
///
/// # Errors
/// If they cannot be read.
pub fn add_branches(view: &mut View, recorder: &Recorder, name: &str) -> Result<(), Refusal> {
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
