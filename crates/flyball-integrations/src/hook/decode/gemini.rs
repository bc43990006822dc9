//! Gemini CLI payloads: calls have no ids; every payload has a timestamp, and the end of a call repeats its arguments.

use super::{HookEvent, HookPayload, HookToolResult, PayloadFields};
use flyball::MessageOrigin;
use serde_json::Value;

/// Decodes a payload; `Err` is the name of the missing field.
pub(super) fn decode_gemini<'a>(
    event: &str,
    body: &PayloadFields<'a>,
) -> Result<HookPayload<'a>, &'static str> {
    let tool = || body.text("tool_name").ok_or("tool_name");
    let hook_event = match event {
        "BeforeTool" => HookEvent::BeforeTool { call: None, tool: tool()?, args: body.args("tool_input") },
        "AfterTool" => HookEvent::AfterTool {
            call: None,
            tool: tool()?,
            args: body.args("tool_input"),
            result: result(body),
        },
        "BeforeAgent" => {
            let text = body.text("prompt").unwrap_or_default();
            HookEvent::Prompt { text, origin: MessageOrigin::Human, key: None }
        }
        "AfterAgent" => {
            HookEvent::AssistantMessage { text: body.text("prompt_response"), ends_session: false }
        }
        "SessionStart" => HookEvent::SessionStarted { resumed: body.text("source") != Some("startup") },
        "SessionEnd" => HookEvent::SessionEnded { outcome: body.text("reason") },
        "PreCompress" => HookEvent::Compacted,
        _ => HookEvent::Ignored,
    };
    Ok(HookPayload {
        session: body.text("session_id").ok_or("session_id")?,
        agent: None,
        parent: None,
        cwd: body.text("cwd"),
        timestamp: body.timestamp("timestamp"),
        event: hook_event,
    })
}

/// Reads a result: the text for the model (`llmContent`), the text for the user, and an error if there is one.
fn result(body: &PayloadFields<'_>) -> HookToolResult {
    let response = body.value("tool_response");
    let part = |key: &str| response.and_then(|response| response.get(key)).filter(|value| !value.is_null());
    match part("error") {
        Some(error) => HookToolResult::from_error(Some(error.get("message").unwrap_or(error)), None),
        None => {
            let shown: Option<&Value> = part("llmContent").or(response);
            HookToolResult::from_output(shown, None)
        }
    }
}
