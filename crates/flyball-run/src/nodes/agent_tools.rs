//! The tool calls of a model: judged by their risk, confirmed by a person if need be, then run.

use super::confirm::{self, Said};
use super::model::Answer;
use super::tool::{self, Called};
use crate::engine::{Stop, Turn};
use crate::provider::{Call, Message};
use crate::tools::Verdict;
use flyball::{Denier, Kind, PlanStep};

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
    let judged = match turn.walk.world.toolbox.assess(&call.name, &call.args) {
        Ok(judged) => judged,
        Err(error) => return Ok((false, error.to_string())),
    };
    match judged.verdict {
        Verdict::Allow => {}
        Verdict::Refuse => {
            deny(turn, call, Denier::Policy)?;
            return Ok((false, format!("Refused by the policy: {}", judged.why)));
        }
        Verdict::Confirm => {
            let plan = vec![PlanStep { tool: call.name.clone(), args: call.args.clone() }];
            let question =
                format!("The agent wants to run {} {}. {}. May it?", call.name, call.args, judged.why);
            if confirm::put(turn, plan, &question, None, None)? != Said::Yes {
                deny(turn, call, Denier::Human)?;
                return Ok((false, "A person has refused this call. Find another way.".to_owned()));
            }
        }
    }
    Ok(match tool::invoke(turn, &call.id, &call.name, &call.args, Some(round))? {
        Called::Ran { ok, text } => (ok, text),
        Called::Refused { text } => (false, text),
    })
}

fn deny(turn: &mut Turn<'_>, call: &Call, by: Denier) -> Result<(), Stop> {
    let denied = turn.event(Kind::ToolDenied {
        call: Some(call.id.clone()),
        by,
        tool: Some(call.name.clone()),
        args: call.args.clone(),
    });
    turn.walk.tell(denied).map(drop)
}
