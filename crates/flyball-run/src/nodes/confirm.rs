//! A plan that a person must confirm before anything of it is done. The state is the governor's, and survives.

use super::talk;
use super::tool::{self, Called};
use crate::engine::{Outcome, Past, Status, Stop, Turn};
use crate::fail::Failure;
use crate::workflow::spec::{Confirm, Span};
use flyball::{Decision, Kind, PlanStep, Verdict};
use serde_json::{Value, json};

/// What a person said to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// Yes.
    Yes,
    /// No, or cancelled.
    No,
    /// Something is to be changed first.
    Change,
    /// Nothing that could be understood, or too late: that means no.
    Nothing,
}

/// Puts the plan of the file, and runs it after a yes.
pub(super) fn run(turn: &mut Turn<'_>, confirm: &Confirm) -> Result<Outcome, Stop> {
    let plan = turn.walk.vars.fill_value(&confirm.plan);
    let plan: Vec<PlanStep> = match &plan {
        Value::String(text) => serde_json::from_str(text),
        other => serde_json::from_value(other.clone()),
    }
    .map_err(|error| {
        let what = format!("the plan is no list of {{tool, args}}: {error}");
        Failure::new("workflow_bad_plan", what, "write plan: [{tool: …, args: …}]")
            .at(format!("node '{}'", turn.node.name))
    })?;
    if plan.is_empty() {
        return Ok(Outcome::success("there is nothing to do").with(json!({"said": "nothing to do"})));
    }
    let question =
        confirm.question.as_ref().map(|question| turn.walk.vars.fill(question)).unwrap_or_default();
    let requester = confirm.requester.as_ref().map(|who| turn.walk.vars.fill(who));
    let ttl = confirm.ttl.as_ref().and_then(Span::millis);
    match put(turn, plan.clone(), &question, requester, ttl)? {
        Said::Yes if confirm.run => carry_out(turn, &plan),
        Said::Yes => Ok(Outcome::success("confirmed").with(json!({"said": "yes"}))),
        Said::No => Ok(Outcome::failure("not confirmed").with(json!({"said": "no"}))),
        Said::Change => Ok(Outcome::failure("to be changed")
            .with(json!({"said": "change"}))
            .with_status(Status::PartialSuccess)),
        Said::Nothing => {
            Ok(Outcome::failure("no answer").with(json!({"said": "nothing"})).with_status(Status::Unclear))
        }
    }
}

/// Runs the steps of a confirmed plan, each once, in order; stops at the first that fails.
fn carry_out(turn: &mut Turn<'_>, plan: &[PlanStep]) -> Result<Outcome, Stop> {
    let turn_number = turn.number();
    let mut said = Vec::new();
    for (at, step) in plan.iter().enumerate() {
        let call = format!("{}-{turn_number}-{at}", turn.node.name);
        match tool::invoke(turn, &call, &step.tool, &step.args, None)? {
            Called::Ran { ok: true, text } => said.push(text),
            Called::Ran { ok: false, text } | Called::Refused { text } => {
                let status = if at == 0 { Status::Failure } else { Status::PartialSuccess };
                let done = json!({"said": "yes", "done": at, "of": plan.len()});
                return Ok(Outcome::failure(text).with_status(status).with(done));
            }
        }
    }
    let done = json!({"said": "yes", "done": plan.len(), "of": plan.len()});
    Ok(Outcome::success(said.join("\n")).with(done))
}

/// Puts a plan to a person and waits for a clear word.
pub(super) fn put(
    turn: &mut Turn<'_>,
    plan: Vec<PlanStep>,
    question: &str,
    requester: Option<String>,
    ttl_ms: Option<u64>,
) -> Result<Said, Stop> {
    let asked = turn.event(Kind::ConfirmationRequested {
        plan,
        question: (!question.is_empty()).then(|| question.to_owned()),
        requester,
        ttl_ms,
        targets: Vec::new(),
    });
    let past = turn.walk.tell(asked)?;
    if past.decision.decision >= Verdict::Block {
        return Ok(Said::Nothing);
    }
    wait_for_answer(turn, past, question)
}

/// Waits for a clear answer to the plan that the last event put.
pub(super) fn wait_for_answer(turn: &mut Turn<'_>, mut past: Past, question: &str) -> Result<Said, Stop> {
    let mut words = question.to_owned();
    loop {
        if let Some(said) = answered(&past) {
            return Ok(said);
        }
        if let Some(text) = spoken(&past.decision) {
            words = text;
        }
        past = talk::hear(turn, &words)?;
    }
}

/// What an answer came to; nothing while the question stands.
fn answered(past: &Past) -> Option<Said> {
    let has = |name: &str| past.decision.effects.iter().any(|effect| effect.effect == name);
    let change = matches!(&past.event.kind, Kind::ConfirmationAnswered { value: Some(value), .. } if value == "change");
    if has("plan.approved") {
        Some(Said::Yes)
    } else if has("plan.rejected") {
        Some(if change { Said::Change } else { Said::No })
    } else if has("plan.expired") || has("plan.aborted") || has("plan.replaced") {
        Some(Said::Nothing)
    } else {
        let stands = past.decision.state == flyball::Status::AwaitingConfirmation;
        (!stands).then_some(Said::Nothing)
    }
}

/// The words for the person that came with a decision.
pub(super) fn spoken(decision: &Decision) -> Option<String> {
    let says = decision.effects.iter().filter(|effect| effect.effect == "say");
    let texts: Vec<&str> = says.filter_map(|effect| effect.fields.get("text")?.as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}
