//! Operator commands: `release`, `approve`, `deny`, `stop`, `send`, `unlabel`.
//!
//! Each becomes an event that is decided and recorded like any other; the result is printed with the next command.

use super::operator_event::{OperatorEvent, has_effect};
use crate::args::{PlanReplyArgs, ReleaseArgs, SendArgs, StopArgs, StoreArgs};
use crate::caller_check;
use crate::error::{CliError, Exit};
use crate::formatting::{plural, single_line, typed};
use crate::plan_printer::with_store;
use flyball::{Decision, SessionPhase, Verdict};
use serde_json::{Value, json};

/// `flyball approve`.
pub(crate) fn approve(args: &PlanReplyArgs) -> Result<Exit, CliError> {
    answer_plan(args, "yes")
}

/// `flyball deny`.
pub(crate) fn deny(args: &PlanReplyArgs) -> Result<Exit, CliError> {
    answer_plan(args, "no")
}

fn answer_plan(args: &PlanReplyArgs, value: &str) -> Result<Exit, CliError> {
    if value == "yes" {
        caller_check::require_person(&args.session)?;
    }
    let mut operator_event = OperatorEvent::open_for_run(&args.common, &args.session, args.by.as_deref())?;
    let revokes = value == "no" && operator_event.state.report(&operator_event.policy).approvals > 0;
    if operator_event.plan.is_none() && !revokes {
        return operator_event
            .print_no_change("Nothing is awaiting approval in this session; nothing was changed.");
    }
    // The digest binds the answer to this plan: a plan that replaces it meanwhile is not answered.
    let digest = operator_event.plan.as_ref().map(|plan| plan.digest.clone());
    let answer = json!({"type": "confirmation.answered", "value": value, "why": args.why, "digest": digest});
    let decision = operator_event.submit(answer)?;
    let means = operator_event
        .halted_text(&decision)
        .unwrap_or_else(|| plan_outcome_lines(&operator_event, &decision));
    let exit = operator_event.print_decision(&decision, &means)?;
    operator_event.continue_run(exit)
}

/// The outcome of an answer to a plan.
fn plan_outcome_lines(operator_event: &OperatorEvent<'_>, decision: &Decision) -> Vec<String> {
    let first = if has_effect(decision, "plan.approved") {
        "Approved: exactly these steps may run now, once.".to_owned()
    } else if has_effect(decision, "plan.rejected") {
        "Denied: no step of the plan may run.".to_owned()
    } else if has_effect(decision, "plan.expired") {
        "Too late: the approval request has expired. Nothing ran; the agent must ask again.".to_owned()
    } else if has_effect(decision, "plan.aborted") {
        "Aborted: there was no clear answer, which counts as a denial. No step of the plan may run."
            .to_owned()
    } else if decision.decision == Verdict::Block {
        let requester = operator_event.plan.as_ref().and_then(|plan| plan.requester.as_deref());
        let Some(requester) = requester.filter(|requester| *requester != operator_event.by) else {
            return vec![
                "Not accepted: another plan has replaced it. Review that plan before you answer.".to_owned(),
            ];
        };
        return vec![
            format!(
                "Not accepted: only {} may answer, and you are {}.",
                single_line(requester, 60),
                single_line(&operator_event.by, 60)
            ),
            "Use --by only if you are that person. The plan is still awaiting approval.".to_owned(),
        ];
    } else if decision.state == SessionPhase::AwaitingConfirmation {
        "Not understood; the plan is still awaiting approval. Answer with a plain yes or no.".to_owned()
    } else if let Some(why) = operator_event.plan.as_ref().and_then(|plan| plan.tampered) {
        format!("Nothing was approved: {why}, so it was discarded. The agent must ask again.")
    } else {
        "No answer is pending; nothing was changed.".to_owned()
    };
    vec![first]
}

/// `flyball send`.
pub(crate) fn send(args: &SendArgs) -> Result<Exit, CliError> {
    caller_check::require_person(&args.session)?;
    if flyball::is_blank(&args.text) {
        let what = "the message is empty";
        return Err(CliError::new("empty_answer", "", what, "write what the session should do"));
    }
    let mut operator_event = OperatorEvent::open_for_run(&args.common, &args.session, args.by.as_deref())?;
    let digest = operator_event.plan.as_ref().map(|plan| plan.digest.clone());
    let decision =
        operator_event.submit(json!({"type": "person.message", "text": args.text, "digest": digest}))?;
    let means = operator_event
        .halted_text(&decision)
        .unwrap_or_else(|| message_outcome_lines(&operator_event, &decision));
    let exit = operator_event.print_decision(&decision, &means)?;
    operator_event.continue_run(exit)
}

/// How a message was interpreted.
fn message_outcome_lines(operator_event: &OperatorEvent<'_>, decision: &Decision) -> Vec<String> {
    let read = decision.effects.iter().find(|effect| effect.effect == "person.message");
    let field = |name: &str| read.and_then(|effect| effect.fields.get(name)?.as_str());
    let first = match (field("as"), field("next")) {
        (Some("plan_answer"), Some("change_plan")) => {
            "No step of the plan may run; your message was passed to the session as a change request."
        }
        (Some("plan_answer"), _) => return plan_outcome_lines(operator_event, decision),
        (Some("new_request"), _) => {
            "Recorded as a new request. The pending plan was dropped; no step of it ran."
        }
        (Some("question_answer"), _) => "Recorded as your answer to the session's question.",
        (Some("nothing_pending"), _) => "No answer is pending; nothing was changed.",
        _ => "Recorded as a message to the session.",
    };
    vec![first.to_owned()]
}

/// `flyball stop`.
pub(crate) fn stop(args: &StopArgs) -> Result<Exit, CliError> {
    require_reason(&args.why)?;
    let mut operator_event = OperatorEvent::open(&args.common, &args.session, args.by.as_deref())?;
    let before = operator_event.state.status();
    let decision = operator_event.submit(json!({"type": "human.stopped", "why": args.why}))?;
    let first = if before == SessionPhase::Halted {
        "It was already halted; your stop is recorded as well."
    } else {
        "Stopped: every request of the session gets a halt until a person lifts the stop."
    };
    operator_event.print_decision(&decision, &[first.to_owned()])?;
    // A halted session is the requested outcome here.
    Ok(Exit::Success)
}

/// `flyball release`.
pub(crate) fn release(args: &ReleaseArgs) -> Result<Exit, CliError> {
    caller_check::require_person(&args.session)?;
    require_reason(&args.why)?;
    let mut operator_event = OperatorEvent::open(&args.common, &args.session, args.by.as_deref())?;
    let hold = operator_event.state.guard_hold().map(|hold| hold.guard.to_owned());
    let guard = match (args.guard.clone().or(hold), stop_message(&operator_event)) {
        (Some(guard), _) if guard == "human" => return lift_stop(&mut operator_event, &args.why),
        (Some(guard), _) => guard,
        (None, Some(stop)) => return Err(stopped_by_person(&args.session, &stop, &args.common.store)),
        (None, None) => {
            return operator_event
                .print_no_change("Nothing is holding this session; there is nothing to release.");
        }
    };
    let event = json!({"type": "human.released", "guard": guard, "mode": args.mode.as_str(), "n": args.n, "why": args.why});
    let granted = args.n.unwrap_or(operator_event.policy.releases.grant).clamp(1, 1000);
    let lets = match args.mode {
        crate::args::ReleaseModeArg::Grant => format!("{granted} more allowed before it trips again"),
        crate::args::ReleaseModeArg::Reset => "its counters start over".to_owned(),
        crate::args::ReleaseModeArg::Keep => "its counters are kept".to_owned(),
    };
    submit_release(&mut operator_event, event, &guard, &lets)
}

/// The message of the first operator stop still in effect.
fn stop_message(operator_event: &OperatorEvent<'_>) -> Option<String> {
    operator_event.state.operator_stops().next().map(|stop| single_line(&stop.message, 300))
}

/// The error for a release without a guard, which never lifts an operator's stop.
fn stopped_by_person(session: &str, stop: &str, store: &StoreArgs) -> CliError {
    let what = format!(
        "session '{}' is {stop}; releasing a guard does not lift a person's stop",
        single_line(session, 200)
    );
    let command = with_store(&format!("flyball release {} --guard human --why \"…\"", typed(session)), store);
    CliError::new("stopped_by_person", "", what, format!("to lift the stop: {command}"))
}

/// Stops and releases must be recorded with a reason.
fn require_reason(why: &str) -> Result<(), CliError> {
    if !flyball::is_blank(why) {
        return Ok(());
    }
    let help = "give the reason with --why TEXT; it is kept in the record";
    Err(CliError::new("reason_missing", "", "the reason is empty", help))
}

/// `flyball release --guard human`: lifts all operator stops and names them.
fn lift_stop(operator_event: &mut OperatorEvent<'_>, why: &str) -> Result<Exit, CliError> {
    let stops: Vec<String> =
        operator_event.state.operator_stops().map(|stop| single_line(&stop.message, 300)).collect();
    if stops.is_empty() {
        return operator_event.print_no_change("No person has stopped this session; nothing was changed.");
    }
    let decision = operator_event.submit(json!({"type": "human.released", "guard": "human", "why": why}))?;
    if let Some(stop) = stop_message(operator_event) {
        return operator_event
            .print_decision(&decision, &[format!("Not lifted: the session is still {stop}.")]);
    }
    let mut means: Vec<String> =
        stops.iter().map(|stop| format!("Lifted: the session was {stop}.")).collect();
    means.push(continuation_text(operator_event));
    operator_event.print_decision(&decision, &means)
}

/// Whether the session may continue after a release, and if not, why.
fn continuation_text(operator_event: &OperatorEvent<'_>) -> String {
    match (operator_event.state.guard_hold(), operator_event.state.status()) {
        (Some(hold), _) => format!("It is still held by {}: {}", hold.guard, single_line(hold.message, 200)),
        (None, SessionPhase::Ended) => {
            "The session has ended; it may continue when it is resumed.".to_owned()
        }
        (None, _) => "The session may continue.".to_owned(),
    }
}

/// `flyball unlabel`.
pub(crate) fn unlabel(args: &StopArgs) -> Result<Exit, CliError> {
    caller_check::require_person(&args.session)?;
    require_reason(&args.why)?;
    let mut operator_event = OperatorEvent::open(&args.common, &args.session, args.by.as_deref())?;
    let Some(guard) = operator_event.state.label_hold().map(|hold| hold.guard.to_owned()) else {
        return operator_event.print_no_change("This session has no label to remove; nothing was changed.");
    };
    let lets = format!("{} more allowed before it trips again", operator_event.policy.releases.grant);
    let event = json!({"type": "human.released", "guard": guard, "why": args.why, "label": "removed"});
    submit_release(&mut operator_event, event, &guard, &lets)
}

/// Submits a release and reports its effect.
fn submit_release(
    operator_event: &mut OperatorEvent<'_>,
    event: Value,
    guard: &str,
    lets: &str,
) -> Result<Exit, CliError> {
    let was_held = operator_event.state.is_held();
    let decision = operator_event.submit(event)?;
    let mut means = Vec::new();
    if decision.decision >= Verdict::Block {
        means
            .push(format!("Not released: {guard} is unchanged. Only the policy file can raise the ceiling."));
        return operator_event.print_decision(&decision, &means);
    }
    let used =
        operator_event.state.report(&operator_event.policy).releases.get(guard).copied().unwrap_or_default();
    let ceiling = operator_event.policy.releases.ceiling;
    // A budget is raised in its own unit; the decision says by how much.
    let raised = decision.effects.iter().filter(|effect| effect.effect == "budget.raised");
    let raised: Vec<&str> = raised.filter_map(|effect| effect.fields.get("text")?.as_str()).collect();
    let lets = if raised.is_empty() { lets.to_owned() } else { single_line(&raised.join("; "), 600) };
    means.push(format!("Released: {guard}, {lets} ({} of {ceiling}).", plural(used, "release")));
    if has_effect(&decision, "label.removed") {
        means.push("The label was removed.".to_owned());
    }
    means.push(match (stop_message(operator_event), operator_event.state.guard_hold()) {
        (Some(stop), _) => {
            format!("The session is still {stop}. Releasing a guard does not lift a person's stop.")
        }
        (None, Some(hold)) => {
            format!("It is still held by {}: {}", hold.guard, single_line(hold.message, 200))
        }
        (None, None) if was_held && operator_event.enqueue_resume()? => {
            "The session may continue; a server worker resumes it.".to_owned()
        }
        (None, None) if was_held => "The session may continue.".to_owned(),
        (None, None) => "It was not stopped; the release applies the next time the guard trips.".to_owned(),
    });
    operator_event.print_decision(&decision, &means)
}
