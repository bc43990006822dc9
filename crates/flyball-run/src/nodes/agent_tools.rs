//! The tool calls of a model: judged by their risk, confirmed by a person if need be, then run.

use super::confirm::{self, Said};
use super::model::Answer;
use super::tool::{self, Called};
use crate::engine::{Stop, Turn};
use crate::provider::{Call, Message};
use crate::tools::{Assessment, ToolError, Verdict};
use flyball::{Denier, Kind, PlanStep};
use serde_json::{Value, json};

/// Calls all tools of an answer, in order, and adds the results to the conversation.
pub(super) fn call_all(
    turn: &mut Turn<'_>,
    answer: &Answer,
    round: u64,
    talk: &mut Vec<Message>,
) -> Result<(), Stop> {
    for call in &answer.calls {
        let (ok, text) = one(turn, call, round)?;
        talk.push(Message::result(call.id.clone(), ok, text));
    }
    Ok(())
}

fn one(turn: &mut Turn<'_>, call: &Call, round: u64) -> Result<(bool, String), Stop> {
    let judged = match judge(turn, call) {
        Ok(judged) => judged,
        Err(error) => return Ok((false, error.to_string())),
    };
    match judged.verdict {
        Verdict::Allow => {}
        Verdict::Refuse => {
            return Ok((
                false,
                deny(turn, call, Denier::Policy, &format!("Refused by the policy: {}", judged.why))?,
            ));
        }
        Verdict::Confirm => {
            let plan = vec![PlanStep { tool: call.name.clone(), args: call.args.clone() }];
            let question =
                format!("The agent wants to run {} {}. {}. May it?", call.name, call.args, judged.why);
            if confirm::put(turn, plan, &question, None, None)? != Said::Yes {
                let words = "A person has refused this call. Find another way.";
                return Ok((false, deny(turn, call, Denier::Human, words)?));
            }
        }
    }
    Ok(match tool::invoke(turn, &call.id, &call.name, &call.args, Some(round))? {
        Called::Ran { ok, text } => (ok, text),
        Called::Refused { text } => (false, text),
    })
}

/// How dangerous a call is. The judgement looks at the workspace as it is, so what lies in the past is not judged again:
/// what followed from it is in the history.
fn judge(turn: &Turn<'_>, call: &Call) -> Result<Assessment, ToolError> {
    let judged = turn.walk.world.toolbox.assess(&call.name, &call.args)?;
    let verdict = match turn.walk.lane.next_name() {
        None => judged.verdict,
        Some("tool.denied") => Verdict::Refuse,
        Some("confirmation.requested") => Verdict::Confirm,
        Some(_) => Verdict::Allow,
    };
    Ok(Assessment { verdict, ..judged })
}

/// Tells that a call was refused, and gives the words for the model, as they are stored.
fn deny(turn: &mut Turn<'_>, call: &Call, by: Denier, words: &str) -> Result<String, Stop> {
    let mut denied = turn.event(Kind::ToolDenied {
        call: Some(call.id.clone()),
        by,
        tool: Some(call.name.clone()),
        args: call.args.clone(),
    });
    denied.extra.insert("words".to_owned(), json!(words));
    let past = turn.walk.tell(denied)?;
    let stored = past.event.extra.get("words").and_then(Value::as_str);
    Ok(stored.unwrap_or(words).to_owned())
}
