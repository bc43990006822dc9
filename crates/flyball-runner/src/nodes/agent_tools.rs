//! Tool calls of a model: assessed for risk, confirmed by a person if required, then run.

use super::confirm::{self, ConfirmAnswer};
use super::model_call::ModelAnswer;
use super::tool::{self, ToolCall};
use crate::engine::{RecordedEvent, RunStop, Turn};
use crate::provider::{ChatMessage, ModelToolCall};
use crate::tools::RiskVerdict;
use flyball::{DeniedBy, Event, EventKind, PlanStep};
use serde_json::{Value, json};

/// Runs all tool calls of a reply in order and adds the results to the conversation.
pub(super) fn call_all(
    turn: &mut Turn<'_>,
    answer: &ModelAnswer,
    round: u64,
    conversation: &mut Vec<ChatMessage>,
) -> Result<(), RunStop> {
    for call in &answer.calls {
        let result = run_call(turn, call, round)?;
        let ok = result.is_ok();
        conversation.push(ChatMessage::result(call.id.clone(), ok, result.unwrap_or_else(|text| text)));
    }
    Ok(())
}

fn run_call(
    turn: &mut Turn<'_>,
    call: &ModelToolCall,
    round: u64,
) -> Result<Result<String, String>, RunStop> {
    let judged = match turn.walk.context.toolbox.assess(&call.name, &call.args) {
        Ok(judged) => judged,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let question = format!("The agent wants to run {} {}: {}. Allow it?", call.name, call.args, judged.why);
    // The assessment depends on the current workspace, so an event records any objection to the call.
    let objection = match judged.verdict {
        RiskVerdict::Allow => None,
        RiskVerdict::Refuse => {
            let feedback = format!("Denied by policy: {}", judged.why);
            Some(denied_event(turn, call, DeniedBy::Policy, &feedback))
        }
        RiskVerdict::Confirm => Some(turn.event(EventKind::ConfirmationRequested {
            plan: vec![PlanStep { tool: call.name.clone(), args: call.args.clone() }],
            question: Some(question.clone()),
            requester: None,
            ttl_ms: None,
            targets: Vec::new(),
        })),
    };
    if let Some(past) =
        turn.walk.step_if(&turn.node.name, &["tool.denied", "confirmation.requested"], objection)?
    {
        if matches!(past.event.kind, EventKind::ToolDenied { .. }) {
            return Ok(Err(denied_text(&past)));
        }
        if confirm::answer_to_request(turn, past, &question)? != ConfirmAnswer::Yes {
            let feedback = "A person denied this call. Try another approach.";
            let denied = denied_event(turn, call, DeniedBy::Human, feedback);
            return Ok(Err(denied_text(&turn.walk.record_event(denied)?)));
        }
    }
    let call =
        ToolCall { id: &call.id, tool: &call.name, args: &call.args, round: Some(round), approved: false };
    tool::invoke(turn, &call)
}

/// A denied call, with the feedback for the model.
fn denied_event(turn: &Turn<'_>, call: &ModelToolCall, by: DeniedBy, feedback: &str) -> Event {
    let mut denied = turn.event(EventKind::ToolDenied {
        call: Some(call.id.clone()),
        by,
        tool: Some(call.name.clone()),
        args: call.args.clone(),
    });
    denied.extra.insert("words".to_owned(), json!(feedback));
    denied
}

/// Feedback for the model, as stored.
fn denied_text(past: &RecordedEvent) -> String {
    past.event.extra.get("words").and_then(Value::as_str).unwrap_or("Tool call denied.").to_owned()
}
