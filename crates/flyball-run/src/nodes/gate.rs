//! Checks of the work: what failed is the output, in the words of the gate.

use crate::engine::{Outcome, Status, Stop, Turn};
use crate::fail::Failure;
use crate::gates::{self, BlockingEvent, Gate as Check, Report, TASK_COMPLETE, Verdict};
use crate::workflow::spec::Gate;
use flyball::Kind;
use serde_json::{Value, json};

/// Runs them all.
pub(super) fn run(turn: &mut Turn<'_>, gate: &Gate) -> Result<Outcome, Stop> {
    let outcome = check(turn, &gate.gates, TASK_COMPLETE)?;
    Ok(outcome)
}

/// Runs gates by name, tells the governor, and gives what to say to whoever asked.
pub(super) fn check(turn: &mut Turn<'_>, names: &[String], request: &str) -> Result<Outcome, Stop> {
    let report = measure(turn, names)?;
    // In the past there is no report: the event that follows has it.
    let checks = report.as_ref().map(|report| report.checks.clone()).unwrap_or_default();
    let mut event = turn.event(Kind::GateChecked { request: Some(request.to_owned()), checks });
    if let Some(report) = &report {
        let words = BlockingEvent::of(report, request, &turn.walk.world.book.policy().guards.gate);
        let about = json!({
            "verdict": report.verdict,
            "failing": report.counted.then_some(&report.failing),
            "words": words.map(|words| words.text()),
            "warnings": report.warnings,
        });
        event.extra.insert("report".to_owned(), about);
    }
    let past = turn.walk.tell(event)?;
    let about = past.event.extra.get("report").cloned().unwrap_or_default();
    turn.walk.failing = about.get("failing").and_then(|list| serde_json::from_value(list.clone()).ok());
    let verdict = about.get("verdict").and_then(Value::as_str).unwrap_or_default();
    let words = about.get("words").and_then(Value::as_str).unwrap_or_default().to_owned();
    let status = match verdict {
        "passed" => Status::Success,
        "unverified" => Status::Unclear,
        _ => Status::Failure,
    };
    let words = if words.is_empty() { format!("the checks are {verdict}") } else { words };
    let outcome = Outcome::success(words).with_status(status);
    Ok(match &turn.walk.failing {
        Some(failing) => outcome.with(json!({ "failing": failing })),
        None => outcome,
    })
}

/// The report, unless it lies in the past.
fn measure(turn: &mut Turn<'_>, names: &[String]) -> Result<Option<Report>, Stop> {
    if !turn.walk.lane.is_live() {
        return Ok(None);
    }
    let world = &turn.walk.world;
    let mut wanted: Vec<Check> = world
        .gates
        .iter()
        .filter(|gate| names.is_empty() || names.contains(&gate.name) || names.contains(&gate.check))
        .cloned()
        .collect();
    if let Some(missing) =
        names.iter().find(|name| !wanted.iter().any(|gate| gate.name == **name || gate.check == **name))
    {
        let what = format!("there is no gate '{missing}'");
        let failure = Failure::new("workflow_unknown_gate", what, "declare it under `gates:`");
        return Err(failure.at(format!("node '{}'", turn.node.name)).into());
    }
    wanted.iter_mut().for_each(|gate| gate.env.extend(turn.about()));
    let (session, node) = (turn.walk.lane.session(), &turn.node.name);
    let options = world.plan.gates.options();
    let report = gates::run(&wanted, &world.workspace, &options, &turn.walk.cancel, &mut |line| {
        world.watcher.output(session, node, &format!("{}\n", line.text));
    });
    let report = report.map_err(Failure::from)?;
    if report.is_cancelled() || report.verdict == Verdict::Unverified && turn.walk.cancel.is_cancelled() {
        return Err(Stop::Interrupted);
    }
    Ok(Some(report))
}
