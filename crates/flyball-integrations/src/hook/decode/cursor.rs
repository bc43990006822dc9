//! Cursor payloads: a conversation id, workspace folders and call ids. The agent's message arrives in a separate event
//! before `stop`.

use super::{HookEvent, HookPayload, HookToolResult, PayloadFields};
use flyball::MessageOrigin;
use serde_json::Value;

/// Decodes a payload; `Err` is the name of the missing field.
pub(super) fn decode_cursor<'a>(
    event: &str,
    body: &PayloadFields<'a>,
) -> Result<HookPayload<'a>, &'static str> {
    let tool = || body.text("tool_name").ok_or("tool_name");
    let args = || body.args("tool_input");
    let call = body.text("tool_use_id");
    let took = body.number("duration");
    let hook_event = match event {
        "preToolUse" => HookEvent::BeforeTool { call, tool: tool()?, args: args() },
        "postToolUse" => {
            let result = HookToolResult::from_output(output(body).as_ref(), took);
            HookEvent::AfterTool { call, tool: tool()?, args: args(), result }
        }
        "postToolUseFailure" => {
            if body.text("failure_type") == Some("permission_denied") {
                HookEvent::ToolDenied { call, tool: tool()?, args: args(), by: "human" }
            } else {
                let error = body.value("error_message").or_else(|| body.value("error"));
                HookEvent::AfterTool {
                    call,
                    tool: tool()?,
                    args: args(),
                    result: HookToolResult::from_error(error, took),
                }
            }
        }
        "beforeSubmitPrompt" => {
            let text = body.text("prompt").unwrap_or_default();
            HookEvent::Prompt { text, origin: MessageOrigin::Human, key: body.text("generation_id") }
        }
        "afterAgentResponse" => HookEvent::AssistantMessage { text: body.text("text"), ends_session: false },
        "sessionStart" => HookEvent::SessionStarted { resumed: false },
        "sessionEnd" => HookEvent::SessionEnded { outcome: body.text("reason") },
        "preCompact" => HookEvent::Compacted,
        _ => HookEvent::Ignored,
    };
    let folder = body.value("workspace_roots").and_then(|roots| roots.get(0)).and_then(Value::as_str);
    Ok(HookPayload {
        session: body.text("conversation_id").or_else(|| body.text("session_id")).ok_or("conversation_id")?,
        agent: None,
        parent: None,
        // The workspace root, not the directory the agent changed to.
        cwd: folder.or_else(|| body.text("cwd")),
        timestamp: None,
        event: hook_event,
    })
}

/// The output, which is JSON in a string.
fn output(body: &PayloadFields<'_>) -> Option<Value> {
    let output = body.value("tool_output")?;
    let read = output.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    Some(read.filter(Value::is_object).unwrap_or_else(|| output.clone()))
}
