//! Tool calls of a model: assessed for risk, confirmed by a person if required, then run.

use super::confirm::{self, ConfirmAnswer};
use super::model_call::ModelAnswer;
use super::tool::{self, ToolCallOutcome};
use crate::engine::{RunStop, Turn};
use crate::provider::{ChatMessage, ModelToolCall};
use crate::tools::{Assessment, RiskVerdict, ToolError};
use flyball::{DeniedBy, EventKind, PlanStep};
use serde_json::{Value, json};

/// Runs all tool calls of a reply in order and adds the results to the conversation.
pub(super) fn call_all(
    turn: &mut Turn<'_>,
    answer: &ModelAnswer,
    round: u64,
    conversation: &mut Vec<ChatMessage>,
) -> Result<(), RunStop> {
    for call in &answer.calls {
        let (ok, text) = run_call(turn, call, round)?;
        conversation.push(ChatMessage::result(call.id.clone(), ok, text));
    }
    Ok(())
}

fn run_call(turn: &mut Turn<'_>, call: &ModelToolCall, round: u64) -> Result<(bool, String), RunStop> {
    let judged = match assess_call(turn, call) {
        Ok(judged) => judged,
        Err(error) => return Ok((false, error.to_string())),
    };
    match judged.verdict {
        RiskVerdict::Allow => {}
        RiskVerdict::Refuse => {
            return Ok((
                false,
                record_denied(turn, call, DeniedBy::Policy, &format!("Denied by policy: {}", judged.why))?,
            ));
        }
        RiskVerdict::Confirm => {
            let plan = vec![PlanStep { tool: call.name.clone(), args: call.args.clone() }];
            let question =
                format!("The agent wants to run {} {}: {}. Allow it?", call.name, call.args, judged.why);
            if confirm::request_confirmation(turn, plan, &question, None, None)? != ConfirmAnswer::Yes {
                let feedback = "A person denied this call. Try another approach.";
                return Ok((false, record_denied(turn, call, DeniedBy::Human, feedback)?));
            }
        }
    }
    Ok(match tool::invoke(turn, &call.id, &call.name, &call.args, Some(round))? {
        ToolCallOutcome::Ran { ok, text } => (ok, text),
        ToolCallOutcome::Refused { text } => (false, text),
    })
}

/// Assesses the risk of a call. The assessment depends on the current workspace, so a replayed call takes its verdict
/// from the history.
fn assess_call(turn: &Turn<'_>, call: &ModelToolCall) -> Result<Assessment, ToolError> {
    let judged = turn.walk.context.toolbox.assess(&call.name, &call.args)?;
    let verdict = match turn.walk.log.next_event_type() {
        None => judged.verdict,
        Some("tool.denied") => RiskVerdict::Refuse,
        Some("confirmation.requested") => RiskVerdict::Confirm,
        Some(_) => RiskVerdict::Allow,
    };
    Ok(Assessment { verdict, ..judged })
}

/// Records a denied call and returns the feedback for the model, as stored.
fn record_denied(
    turn: &mut Turn<'_>,
    call: &ModelToolCall,
    by: DeniedBy,
    feedback: &str,
) -> Result<String, RunStop> {
    let mut denied = turn.event(EventKind::ToolDenied {
        call: Some(call.id.clone()),
        by,
        tool: Some(call.name.clone()),
        args: call.args.clone(),
    });
    denied.extra.insert("words".to_owned(), json!(feedback));
    let past = turn.walk.record_event(denied)?;
    let stored = past.event.extra.get("words").and_then(Value::as_str);
    Ok(stored.unwrap_or(feedback).to_owned())
}
