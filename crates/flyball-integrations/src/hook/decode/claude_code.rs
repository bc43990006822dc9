//! Claude Code payloads: snake_case fields, an id per call, sub-agents named within their session.

use super::{HookEvent, HookPayload, HookToolResult, PayloadFields};
use flyball::MessageOrigin;
use serde_json::Value;

/// Decodes a payload; `Err` is the name of the missing field.
pub(super) fn decode_claude_code<'a>(
    event: &str,
    body: &PayloadFields<'a>,
) -> Result<HookPayload<'a>, &'static str> {
    let hook_event = match event {
        "PreToolUse" => {
            let (call, tool) = call_and_tool(body)?;
            HookEvent::BeforeTool { call, tool, args: body.args("tool_input") }
        }
        "PostToolUse" => {
            let (call, tool) = call_and_tool(body)?;
            let result = HookToolResult::from_output(body.value("tool_response"), body.number("duration_ms"));
            // The host reported success, so the output's own error markers are ignored.
            HookEvent::AfterTool {
                call,
                tool,
                args: body.args("tool_input"),
                result: HookToolResult { ok: true, ..result },
            }
        }
        "PostToolUseFailure" => {
            let (call, tool) = call_and_tool(body)?;
            let args = body.args("tool_input");
            if body.value("is_interrupt").and_then(Value::as_bool) == Some(true) {
                HookEvent::ToolDenied { call, tool, args, by: "human" }
            } else {
                let result = HookToolResult::from_error(body.value("error"), body.number("duration_ms"));
                HookEvent::AfterTool { call, tool, args, result }
            }
        }
        "PermissionDenied" => {
            let (call, tool) = call_and_tool(body)?;
            HookEvent::ToolDenied { call, tool, args: body.args("tool_input"), by: "policy" }
        }
        "UserPromptSubmit" => {
            let (text, origin) = (body.text("prompt").unwrap_or_default(), prompt_origin(body));
            HookEvent::Prompt { text, origin, key: body.text("prompt_id") }
        }
        "Stop" => {
            HookEvent::AssistantMessage { text: body.text("last_assistant_message"), ends_session: false }
        }
        "SubagentStop" => {
            HookEvent::AssistantMessage { text: body.text("last_assistant_message"), ends_session: true }
        }
        "SubagentStart" => HookEvent::SessionStarted { resumed: false },
        "SessionStart" => match body.text("source") {
            // Compaction does not interrupt the session.
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

fn prompt_origin(body: &PayloadFields<'_>) -> MessageOrigin {
    match body.text("source") {
        None | Some("user") => MessageOrigin::Human,
        Some("system" | "loop_wakeup" | "schedule_wakeup" | "poll_event") => MessageOrigin::Schedule,
        // `sdk` and unknown future sources: the prompt comes from a program.
        Some(_) => MessageOrigin::Agent,
    }
}

fn call_and_tool<'a>(body: &PayloadFields<'a>) -> Result<(Option<&'a str>, &'a str), &'static str> {
    Ok((body.text("tool_use_id"), body.text("tool_name").ok_or("tool_name")?))
}
