//! Copilot CLI payloads: camelCase fields, no event name and no call ids; arguments may be JSON in a string.

use super::{HookEvent, HookPayload, HookToolResult, PayloadFields};
use flyball::MessageOrigin;
use serde_json::Value;

/// Decodes a payload; `Err` is the name of the missing field.
pub(super) fn decode_copilot<'a>(
    event: &str,
    body: &PayloadFields<'a>,
) -> Result<HookPayload<'a>, &'static str> {
    let tool = || body.text("toolName").ok_or("toolName");
    let args = || body.args("toolArgs");
    let hook_event = match event {
        "preToolUse" => HookEvent::BeforeTool { call: None, tool: tool()?, args: args() },
        "postToolUse" => {
            HookEvent::AfterTool { call: None, tool: tool()?, args: args(), result: result(body) }
        }
        "postToolUseFailure" => {
            let result = HookToolResult::from_error(body.value("error"), None);
            HookEvent::AfterTool { call: None, tool: tool()?, args: args(), result }
        }
        "permissionRequest" => {
            HookEvent::PermissionRequested { tool: body.text("toolName").unwrap_or_default(), args: args() }
        }
        "userPromptSubmitted" => {
            let text = body.text("prompt").unwrap_or_default();
            HookEvent::Prompt { text, origin: MessageOrigin::Human, key: None }
        }
        "sessionStart" => {
            let source = body.text("source");
            HookEvent::SessionStarted { resumed: !matches!(source, Some("new" | "startup")) }
        }
        "sessionEnd" => HookEvent::SessionEnded { outcome: body.text("reason") },
        _ => HookEvent::Ignored,
    };
    Ok(HookPayload {
        session: body.text("sessionId").ok_or("sessionId")?,
        agent: None,
        parent: None,
        cwd: body.text("cwd").or_else(|| body.text("workingDirectory")),
        timestamp: body.timestamp("timestamp"),
        event: hook_event,
    })
}

/// Reads `{resultType, textResultForLlm}`: the outcome, and the text shown to the model.
fn result(body: &PayloadFields<'_>) -> HookToolResult {
    let result = body.value("toolResult");
    let part = |key: &str| result.and_then(|result| result.get(key));
    let text = part("textResultForLlm").or(result);
    match part("resultType").and_then(Value::as_str) {
        Some("success") => HookToolResult { ok: true, ..HookToolResult::from_output(text, None) },
        Some(_) => HookToolResult::from_error(text, None),
        None => HookToolResult::from_output(text, None),
    }
}
