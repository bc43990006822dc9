//! Gate node: runs quality gates; its output is the gate feedback.

use crate::engine::{Effect, NodeOutcome, NodeStatus, RunStop, Step, Turn};
use crate::gates::{self, GateOptions, GateReport, GateVerdict, QualityGate};
use crate::run_error::RunError;
use crate::workflow::spec::GateNode;
use flyball::backpressure::{BlockingEvent, TASK_COMPLETE};
use flyball::{Decision, EventKind};
use serde_json::{Value, json};

/// Runs the configured gates.
pub(super) fn run(turn: &mut Turn<'_>, gate: &GateNode) -> Result<NodeOutcome, RunStop> {
    check_gates(turn, &gate.gates, TASK_COMPLETE, &[])
}

/// Runs gates by name, reports them to the governor, and returns the feedback. `skip` lists gates that the agent asks
/// to skip.
pub(super) fn check_gates(
    turn: &mut Turn<'_>,
    names: &[String],
    request: &str,
    skip: &[String],
) -> Result<NodeOutcome, RunStop> {
    let step = Step { kind: "gate", result: Some("gate.checked"), report: None, once: None };
    let past = turn.step(&step, |turn, _| {
        let report = run_gates(turn, names, skip)?;
        if was_killed_by_budget(turn, &report) {
            return Ok(Effect::OutOfBudget);
        }
        let about = json!({
            "verdict": report.verdict,
            "failing": report.counted.then_some(&report.failing),
            "warnings": report.warnings,
        });
        let kind = EventKind::GateChecked { request: Some(request.to_owned()), checks: report.checks };
        let mut event = turn.event(kind);
        event.extra.insert("report".to_owned(), about);
        Ok(Effect::Result(event))
    })?;
    let past = past.ok_or(RunStop::Skipped)?;
    let about = past.event.extra.get("report").cloned().unwrap_or_default();
    turn.walk.failing_tests = about.get("failing").and_then(|list| serde_json::from_value(list.clone()).ok());
    let verdict = about.get("verdict").and_then(Value::as_str).unwrap_or_default();
    let feedback = blocking_text(&past.decision).or_else(|| {
        let stored = about.get("words").and_then(Value::as_str).map(str::to_owned);
        stored.or_else(|| fallback_text(turn, &past.event.kind))
    });
    let status = match verdict {
        "passed" => NodeStatus::Success,
        "unverified" => NodeStatus::Unclear,
        _ => NodeStatus::Failure,
    };
    let feedback = feedback.unwrap_or_else(|| format!("checks: {verdict}"));
    let outcome = NodeOutcome::success(feedback).with_status(status);
    Ok(match &turn.walk.failing_tests {
        Some(failing) => outcome.with_structured(json!({ "failing": failing })),
        None => outcome,
    })
}

/// Feedback of the governor to an agent whose completion it denied.
fn blocking_text(decision: &Decision) -> Option<String> {
    let effect = decision.effects.iter().find(|effect| effect.effect == "completion.blocked")?;
    effect.fields.get("text")?.as_str().map(str::to_owned)
}

/// Feedback where the governor gives none: it did not deny, or the session uses rules version 1.
fn fallback_text(turn: &Turn<'_>, kind: &EventKind) -> Option<String> {
    let EventKind::GateChecked { request, checks } = kind else { return None };
    let limits = &turn.walk.context.sink.policy().guards.gate;
    let request = request.as_deref().unwrap_or(TASK_COMPLETE);
    BlockingEvent::from_checks(checks, request, limits).map(|blocking| blocking.text())
}

/// Whether a time budget killed a gate, which makes the report meaningless.
fn was_killed_by_budget(turn: &Turn<'_>, report: &GateReport) -> bool {
    let ended = |run: &gates::GateRun| run.outcome.is_failed() && run.exit.is_none();
    turn.is_out_of_budget() && report.gates.iter().any(ended)
}

/// Runs the gates.
fn run_gates(turn: &Turn<'_>, names: &[String], skip: &[String]) -> Result<GateReport, RunStop> {
    let world = &turn.walk.context;
    let mut wanted: Vec<QualityGate> = world
        .gates
        .iter()
        .filter(|gate| names.is_empty() || names.contains(&gate.name) || names.contains(&gate.check))
        .cloned()
        .collect();
    if let Some(missing) =
        names.iter().find(|name| !wanted.iter().any(|gate| gate.name == **name || gate.check == **name))
    {
        let what = format!("unknown gate '{missing}'");
        let failure = RunError::new("workflow_unknown_gate", what, "declare it under `gates:`");
        return Err(failure.at(format!("node '{}'", turn.node.name)).into());
    }
    gates::add_dependencies(&mut wanted, &world.sink.policy().guards.gate.dependencies);
    let left = turn.left();
    for gate in &mut wanted {
        gate.env.extend(turn.about());
        gate.deadline = left.map_or(gate.deadline, |left| left.min(gate.deadline));
    }
    let (session, node) = (turn.walk.log.session(), &turn.node.name);
    let options = GateOptions { skip_requests: skip.to_vec(), ..world.plan.gates.options() };
    let report = gates::run_gates(&wanted, &world.workspace, &options, &turn.walk.cancel, &mut |line| {
        world.listener.on_output(session, node, &format!("{}\n", line.text));
    });
    let report = report.map_err(RunError::from)?;
    if report.is_cancelled() || report.verdict == GateVerdict::Unverified && turn.walk.cancel.is_cancelled() {
        return Err(RunStop::Interrupted);
    }
    Ok(report)
}
