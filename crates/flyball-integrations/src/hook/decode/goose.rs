//! goose payloads: the event name is in `event`, calls have ids, and results may be incomplete.

use super::{HookEvent, HookPayload, HookToolResult, PayloadFields};
use flyball::MessageOrigin;

/// Decodes a payload; `Err` is the name of the missing field.
pub(super) fn decode_goose<'a>(
    event: &str,
    body: &PayloadFields<'a>,
) -> Result<HookPayload<'a>, &'static str> {
    let tool = || body.text("tool_name").ok_or("tool_name");
    let args = || body.args("tool_input");
    let call = body.text("tool_call_id");
    let output = ["tool_output", "tool_response", "output"].iter().find_map(|key| body.value(key));
    let hook_event = match event {
        "PreToolUse" => HookEvent::BeforeTool { call, tool: tool()?, args: args() },
        "PostToolUse" => HookEvent::AfterTool {
            call,
            tool: tool()?,
            args: args(),
            result: HookToolResult::from_output(output, None),
        },
        "PostToolUseFailure" => {
            let result = HookToolResult::from_error(body.value("error").or(output), None);
            HookEvent::AfterTool { call, tool: tool()?, args: args(), result }
        }
        "UserPromptSubmit" => {
            let text = body.text("message").unwrap_or_default();
            HookEvent::Prompt { text, origin: MessageOrigin::Human, key: None }
        }
        "Stop" => {
            HookEvent::AssistantMessage { text: body.text("last_assistant_message"), ends_session: false }
        }
        // goose sends the same event for new and resumed sessions.
        "SessionStart" => HookEvent::SessionStarted { resumed: true },
        "SessionEnd" => HookEvent::SessionEnded { outcome: None },
        _ => HookEvent::Ignored,
    };
    Ok(HookPayload {
        session: body.text("session_id").ok_or("session_id")?,
        agent: None,
        parent: None,
        cwd: body.text("working_dir"),
        timestamp: None,
        event: hook_event,
    })
}
