//! opencode payloads, as sent by our plugin. A sub-agent has a separate session that names its parent.

use super::{HookEvent, HookPayload, HookToolResult, PayloadFields};
use flyball::MessageOrigin;
use serde_json::Value;

/// Decodes a payload; `Err` is the name of the missing field.
pub(super) fn decode_opencode<'a>(
    event: &str,
    body: &PayloadFields<'a>,
) -> Result<HookPayload<'a>, &'static str> {
    let tool = || body.text("tool").ok_or("tool");
    let args = || body.args("args");
    let call = body.text("call_id");
    let hook_event = match event {
        "tool.execute.before" => HookEvent::BeforeTool { call, tool: tool()?, args: args() },
        "tool.execute.after" => {
            let mut result = HookToolResult::from_output(body.value("output"), None);
            let exit =
                body.value("metadata").and_then(|metadata| metadata.get("exit")).and_then(Value::as_i64);
            result.ok &= exit.unwrap_or(0) == 0;
            HookEvent::AfterTool { call, tool: tool()?, args: args(), result }
        }
        "permission.ask" => {
            HookEvent::PermissionRequested { tool: body.text("tool").unwrap_or_default(), args: args() }
        }
        "chat.message" => {
            let text = body.text("text").unwrap_or_default();
            HookEvent::Prompt { text, origin: MessageOrigin::Human, key: body.text("message_id") }
        }
        "session.idle" => HookEvent::AssistantMessage { text: body.text("text"), ends_session: false },
        "session.created" => HookEvent::SessionStarted { resumed: false },
        "session.compacted" => HookEvent::Compacted,
        _ => HookEvent::Ignored,
    };
    Ok(HookPayload {
        session: body.text("session_id").ok_or("session_id")?,
        agent: None,
        parent: body.text("parent_id"),
        cwd: body.text("directory"),
        timestamp: None,
        event: hook_event,
    })
}
