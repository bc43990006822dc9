//! Codex payloads: Claude Code's fields plus a turn id. There is no failure event, so failures are read from the
//! result.

use super::{HookEvent, HookPayload, HookToolResult, PayloadFields};
use flyball::MessageOrigin;
use serde_json::Value;

/// Decodes a payload; `Err` is the name of the missing field.
pub(super) fn decode_codex<'a>(
    event: &str,
    body: &PayloadFields<'a>,
) -> Result<HookPayload<'a>, &'static str> {
    let tool = || body.text("tool_name").ok_or("tool_name");
    let call = body.text("tool_use_id");
    let hook_event = match event {
        "PreToolUse" => HookEvent::BeforeTool { call, tool: tool()?, args: body.args("tool_input") },
        "PostToolUse" => {
            let mut result =
                HookToolResult::from_output(body.value("tool_response"), body.number("duration_ms"));
            result.ok &= exit_code(&result.output).unwrap_or(0) == 0;
            HookEvent::AfterTool { call, tool: tool()?, args: body.args("tool_input"), result }
        }
        "UserPromptSubmit" => {
            let text = body.text("prompt").unwrap_or_default();
            HookEvent::Prompt { text, origin: MessageOrigin::Human, key: body.text("turn_id") }
        }
        "Stop" => {
            HookEvent::AssistantMessage { text: body.text("last_assistant_message"), ends_session: false }
        }
        "SubagentStop" => {
            HookEvent::AssistantMessage { text: body.text("last_assistant_message"), ends_session: true }
        }
        "SubagentStart" => HookEvent::SessionStarted { resumed: false },
        "SessionStart" => match body.text("source") {
            Some("compact") => HookEvent::Ignored,
            source => HookEvent::SessionStarted { resumed: source != Some("startup") },
        },
        "SessionEnd" => HookEvent::SessionEnded { outcome: body.text("reason") },
        "PreCompact" => HookEvent::Compacted,
        _ => HookEvent::Ignored,
    };
    Ok(HookPayload {
        session: body.text("session_id").ok_or("session_id")?,
        agent: body.text("agent_id"),
        parent: None,
        cwd: body.text("cwd"),
        timestamp: None,
        event: hook_event,
    })
}

/// Exit code of a shell result, which may be text that starts with it.
fn exit_code(output: &Value) -> Option<i64> {
    let rest = output.as_str()?.strip_prefix("Exit code: ")?;
    rest.lines().next()?.trim().parse().ok()
}
