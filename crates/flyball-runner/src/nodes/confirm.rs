//! Confirm node: a plan that a person must approve before it runs. The governor keeps the pending state, so it survives
//! restarts.

use super::human_io;
use super::tool::{self, ToolCall};
use crate::engine::{NodeOutcome, NodeStatus, RecordedEvent, RunStop, Turn};
use crate::run_error::RunError;
use crate::workflow::spec::{ConfirmNode, WorkflowDuration};
use flyball::{Decision, EventKind, PlanStep, Verdict};
use serde_json::{Value, json};

/// A person's answer to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfirmAnswer {
    /// Approved.
    Yes,
    /// Denied or cancelled.
    No,
    /// The plan should be changed first.
    Change,
    /// No clear answer, or too late; counts as denied.
    NoAnswer,
}

/// Asks for approval of the plan and runs it once approved.
pub(super) fn run(turn: &mut Turn<'_>, confirm: &ConfirmNode) -> Result<NodeOutcome, RunStop> {
    let plan = turn.walk.vars.render_value(&confirm.plan);
    let plan: Vec<PlanStep> = match &plan {
        Value::String(text) => serde_json::from_str(text),
        other => serde_json::from_value(other.clone()),
    }
    .map_err(|error| {
        let what = format!("the plan must be a list of {{tool, args}}: {error}");
        RunError::new("workflow_bad_plan", what, "write `plan: [{tool: …, args: …}]`")
            .at(format!("node '{}'", turn.node.name))
    })?;
    if plan.is_empty() {
        return Ok(NodeOutcome::success("nothing to do").with_structured(json!({"said": "nothing to do"})));
    }
    let question =
        confirm.question.as_ref().map(|question| turn.walk.vars.render(question)).unwrap_or_default();
    let past = turn.record(EventKind::ConfirmationRequested {
        plan: plan.clone(),
        question: (!question.is_empty()).then(|| question.clone()),
        requester: confirm.requester.as_ref().map(|who| turn.walk.vars.render(who)),
        ttl_ms: confirm.ttl.as_ref().and_then(WorkflowDuration::millis),
        targets: Vec::new(),
    })?;
    match answer_to_request(turn, past, &question)? {
        ConfirmAnswer::Yes if confirm.run => run_plan(turn, &plan),
        ConfirmAnswer::Yes => Ok(NodeOutcome::success("confirmed").with_structured(json!({"said": "yes"}))),
        ConfirmAnswer::No => Ok(NodeOutcome::failed("not confirmed").with_structured(json!({"said": "no"}))),
        ConfirmAnswer::Change => Ok(NodeOutcome::failed("changes requested")
            .with_structured(json!({"said": "change"}))
            .with_status(NodeStatus::PartialSuccess)),
        ConfirmAnswer::NoAnswer => Ok(NodeOutcome::failed("no answer")
            .with_structured(json!({"said": "nothing"}))
            .with_status(NodeStatus::Unclear)),
    }
}

/// Runs the steps of an approved plan once each, in order; stops at the first failure.
fn run_plan(turn: &mut Turn<'_>, plan: &[PlanStep]) -> Result<NodeOutcome, RunStop> {
    let turn_number = turn.number();
    let mut said = Vec::new();
    for (at, step) in plan.iter().enumerate() {
        let id = format!("{}-{turn_number}-{at}", turn.node.name);
        let call = ToolCall { id: &id, tool: &step.tool, args: &step.args, round: None, approved: false };
        match tool::invoke(turn, &call)? {
            Ok(text) => said.push(text),
            Err(text) => {
                let status = if at == 0 { NodeStatus::Failure } else { NodeStatus::PartialSuccess };
                let done = json!({"said": "yes", "done": at, "of": plan.len()});
                return Ok(NodeOutcome::failed(text).with_status(status).with_structured(done));
            }
        }
    }
    let done = json!({"said": "yes", "done": plan.len(), "of": plan.len()});
    Ok(NodeOutcome::success(said.join("\n")).with_structured(done))
}

/// Waits for a clear answer to a recorded request.
pub(super) fn answer_to_request(
    turn: &mut Turn<'_>,
    past: RecordedEvent,
    question: &str,
) -> Result<ConfirmAnswer, RunStop> {
    if past.decision.decision >= Verdict::Block {
        return Ok(ConfirmAnswer::NoAnswer);
    }
    wait_for_answer(turn, past, question)
}

/// Waits for a clear answer to the pending plan.
pub(super) fn wait_for_answer(
    turn: &mut Turn<'_>,
    mut past: RecordedEvent,
    question: &str,
) -> Result<ConfirmAnswer, RunStop> {
    let mut shown = question.to_owned();
    loop {
        if let Some(said) = answer_of(&past) {
            return Ok(said);
        }
        if let Some(text) = say_text(&past.decision) {
            shown = text;
        }
        past = human_io::next_reply(turn, &shown)?;
    }
}

/// The answer in an event; `None` while the question is open.
fn answer_of(past: &RecordedEvent) -> Option<ConfirmAnswer> {
    let has = |name: &str| past.decision.effects.iter().any(|effect| effect.effect == name);
    let change = matches!(&past.event.kind, EventKind::ConfirmationAnswered { value: Some(value), .. } if value == "change");
    if has("plan.approved") {
        Some(ConfirmAnswer::Yes)
    } else if has("plan.rejected") {
        Some(if change { ConfirmAnswer::Change } else { ConfirmAnswer::No })
    } else if has("plan.expired") || has("plan.aborted") || has("plan.replaced") {
        Some(ConfirmAnswer::NoAnswer)
    } else {
        let is_open = past.decision.state == flyball::SessionPhase::AwaitingConfirmation;
        (!is_open).then_some(ConfirmAnswer::NoAnswer)
    }
}

/// Text for the person in a decision.
pub(super) fn say_text(decision: &Decision) -> Option<String> {
    let says = decision.effects.iter().filter(|effect| effect.effect == "say");
    let texts: Vec<&str> = says.filter_map(|effect| effect.fields.get("text")?.as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}
