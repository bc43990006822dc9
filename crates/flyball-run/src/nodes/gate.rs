//! Checks of the work: what failed is the output, in the words of the gate.

use crate::engine::{Outcome, Status, Stop, Turn};
use crate::fail::Failure;
use crate::gates::{self, Gate as Check, Options, Report, Verdict};
use crate::workflow::spec::Gate;
use flyball::backpressure::{BlockingEvent, TASK_COMPLETE};
use flyball::{Decision, Kind};
use serde_json::{Value, json};

/// Runs them all.
pub(super) fn run(turn: &mut Turn<'_>, gate: &Gate) -> Result<Outcome, Stop> {
    check(turn, &gate.gates, TASK_COMPLETE, &[])
}

/// Runs gates by name, tells the governor, and gives what to say to whoever asked. `skip` are those that the agent asks to
/// leave out.
pub(super) fn check(
    turn: &mut Turn<'_>,
    names: &[String],
    request: &str,
    skip: &[String],
) -> Result<Outcome, Stop> {
    let report = loop {
        if !turn.was_interrupted() {
            match measure(turn, names, skip)? {
                Some(report) if was_cut_short(turn, &report) => {}
                report => break report,
            }
        }
        turn.interrupted("gate")?;
    };
    // In the past there is no report: the event that follows has it.
    let checks = report.as_ref().map(|report| report.checks.clone()).unwrap_or_default();
    let mut event = turn.event(Kind::GateChecked { request: Some(request.to_owned()), checks });
    if let Some(report) = &report {
        let about = json!({
            "verdict": report.verdict,
            "failing": report.counted.then_some(&report.failing),
            "warnings": report.warnings,
        });
        event.extra.insert("report".to_owned(), about);
    }
    let past = turn.walk.tell(event)?;
    let about = past.event.extra.get("report").cloned().unwrap_or_default();
    turn.walk.failing = about.get("failing").and_then(|list| serde_json::from_value(list.clone()).ok());
    let verdict = about.get("verdict").and_then(Value::as_str).unwrap_or_default();
    let words = text_of(&past.decision).or_else(|| {
        let stored = about.get("words").and_then(Value::as_str).map(str::to_owned);
        stored.or_else(|| unasked(turn, &past.event.kind))
    });
    let status = match verdict {
        "passed" => Status::Success,
        "unverified" => Status::Unclear,
        _ => Status::Failure,
    };
    let words = words.unwrap_or_else(|| format!("the checks are {verdict}"));
    let outcome = Outcome::success(words).with_status(status);
    Ok(match &turn.walk.failing {
        Some(failing) => outcome.with(json!({ "failing": failing })),
        None => outcome,
    })
}

/// What the governor says to an agent whose completion it refuses.
fn text_of(decision: &Decision) -> Option<String> {
    let effect = decision.effects.iter().find(|effect| effect.effect == "completion.blocked")?;
    effect.fields.get("text")?.as_str().map(str::to_owned)
}

/// The same where the governor says nothing: it does not refuse, or the session is under the first version of the rules.
fn unasked(turn: &Turn<'_>, kind: &Kind) -> Option<String> {
    let Kind::GateChecked { request, checks } = kind else { return None };
    let limits = &turn.walk.world.book.policy().guards.gate;
    let request = request.as_deref().unwrap_or(TASK_COMPLETE);
    BlockingEvent::of(checks, request, limits).map(|blocking| blocking.text())
}

/// Whether a budget of time ended a gate, so that the report says nothing.
fn was_cut_short(turn: &Turn<'_>, report: &Report) -> bool {
    let ended = |run: &gates::GateRun| run.outcome.is_failed() && run.exit.is_none();
    turn.is_out_of_budget() && report.gates.iter().any(ended)
}

/// The report, unless it lies in the past.
fn measure(turn: &mut Turn<'_>, names: &[String], skip: &[String]) -> Result<Option<Report>, Stop> {
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
    gates::depend(&mut wanted, &world.book.policy().guards.gate.dependencies);
    let left = turn.left();
    for gate in &mut wanted {
        gate.env.extend(turn.about());
        gate.deadline = left.map_or(gate.deadline, |left| left.min(gate.deadline));
    }
    let (session, node) = (turn.walk.lane.session(), &turn.node.name);
    let options = Options { asked_to_skip: skip.to_vec(), ..world.plan.gates.options() };
    let report = gates::run(&wanted, &world.workspace, &options, &turn.walk.cancel, &mut |line| {
        world.watcher.output(session, node, &format!("{}\n", line.text));
    });
    let report = report.map_err(Failure::from)?;
    if report.is_cancelled() || report.verdict == Verdict::Unverified && turn.walk.cancel.is_cancelled() {
        return Err(Stop::Interrupted);
    }
    Ok(Some(report))
}
