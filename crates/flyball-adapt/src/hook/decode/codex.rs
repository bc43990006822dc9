//! Codex: the fields of Claude Code, with a turn's id; there is no event for a failure, so results say it themselves.

use super::{Body, Ended, Told, What};
use flyball::Origin;
use serde_json::Value;

/// Reads a payload; `Err` names the field that is missing.
pub(super) fn read<'a>(event: &str, body: &Body<'a>) -> Result<Told<'a>, &'static str> {
    let tool = || body.text("tool_name").ok_or("tool_name");
    let call = body.text("tool_use_id");
    let what = match event {
        "PreToolUse" => What::Before { call, tool: tool()?, args: body.args("tool_input") },
        "PostToolUse" => {
            let mut result = Ended::with(body.value("tool_response"), body.number("duration_ms"));
            result.ok &= exit_code(&result.output).unwrap_or(0) == 0;
            What::After { call, tool: tool()?, args: body.args("tool_input"), result }
        }
        "UserPromptSubmit" => {
            let text = body.text("prompt").unwrap_or_default();
            What::Prompt { text, origin: Origin::Human, key: body.text("turn_id") }
        }
        "Stop" => What::Said { text: body.text("last_assistant_message"), leaves: false },
        "SubagentStop" => What::Said { text: body.text("last_assistant_message"), leaves: true },
        "SubagentStart" => What::Started { again: false },
        "SessionStart" => match body.text("source") {
            Some("compact") => What::Nothing,
            source => What::Started { again: source != Some("startup") },
        },
        "SessionEnd" => What::Ended { outcome: body.text("reason") },
        "PreCompact" => What::Compacted,
        _ => What::Nothing,
    };
    Ok(Told {
        session: body.text("session_id").ok_or("session_id")?,
        agent: body.text("agent_id"),
        parent: None,
        cwd: body.text("cwd"),
        stamp: None,
        what,
    })
}

/// A shell's result may be a text that begins with its exit code.
fn exit_code(output: &Value) -> Option<i64> {
    let rest = output.as_str()?.strip_prefix("Exit code: ")?;
    rest.lines().next()?.trim().parse().ok()
}
