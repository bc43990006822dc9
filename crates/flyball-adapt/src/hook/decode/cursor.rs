//! Cursor: a conversation's id, folders of the workspace, ids of calls; what the agent said comes in an event of its
//! own, before `stop`.

use super::{Body, Ended, Told, What};
use flyball::Origin;
use serde_json::Value;

/// Reads a payload; `Err` names the field that is missing.
pub(super) fn read<'a>(event: &str, body: &Body<'a>) -> Result<Told<'a>, &'static str> {
    let tool = || body.text("tool_name").ok_or("tool_name");
    let args = || body.args("tool_input");
    let call = body.text("tool_use_id");
    let took = body.number("duration");
    let what = match event {
        "preToolUse" => What::Before { call, tool: tool()?, args: args() },
        "postToolUse" => {
            let result = Ended::with(output(body).as_ref(), took);
            What::After { call, tool: tool()?, args: args(), result }
        }
        "postToolUseFailure" => {
            if body.text("failure_type") == Some("permission_denied") {
                What::Denied { call, tool: tool()?, args: args(), by: "human" }
            } else {
                let error = body.value("error_message").or_else(|| body.value("error"));
                What::After { call, tool: tool()?, args: args(), result: Ended::failed(error, took) }
            }
        }
        "beforeSubmitPrompt" => {
            let text = body.text("prompt").unwrap_or_default();
            What::Prompt { text, origin: Origin::Human, key: body.text("generation_id") }
        }
        "afterAgentResponse" => What::Said { text: body.text("text"), leaves: false },
        "sessionStart" => What::Started { again: false },
        "sessionEnd" => What::Ended { outcome: body.text("reason") },
        "preCompact" => What::Compacted,
        _ => What::Nothing,
    };
    let folder = body.value("workspace_roots").and_then(|roots| roots.get(0)).and_then(Value::as_str);
    Ok(Told {
        session: body.text("conversation_id").or_else(|| body.text("session_id")).ok_or("conversation_id")?,
        agent: None,
        parent: None,
        // The root of the workspace, not the folder that the agent moved to.
        cwd: folder.or_else(|| body.text("cwd")),
        stamp: None,
        what,
    })
}

/// The output is JSON in a text.
fn output(body: &Body<'_>) -> Option<Value> {
    let output = body.value("tool_output")?;
    let read = output.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    Some(read.filter(Value::is_object).unwrap_or_else(|| output.clone()))
}
