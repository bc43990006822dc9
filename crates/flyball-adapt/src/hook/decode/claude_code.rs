//! Claude Code: snake-case fields, an id for each call, sub-agents named inside their session.

use super::{Body, Ended, Told, What};
use flyball::Origin;
use serde_json::Value;

/// Reads a payload; `Err` names the field that is missing.
pub(super) fn read<'a>(event: &str, body: &Body<'a>) -> Result<Told<'a>, &'static str> {
    let what = match event {
        "PreToolUse" => {
            let (call, tool) = call(body)?;
            What::Before { call, tool, args: body.args("tool_input") }
        }
        "PostToolUse" => {
            let (call, tool) = call(body)?;
            let result = Ended::with(body.value("tool_response"), body.number("duration_ms"));
            // Whatever the tool says of itself, the host took it for a success.
            What::After { call, tool, args: body.args("tool_input"), result: Ended { ok: true, ..result } }
        }
        "PostToolUseFailure" => {
            let (call, tool) = call(body)?;
            let args = body.args("tool_input");
            if body.value("is_interrupt").and_then(Value::as_bool) == Some(true) {
                What::Denied { call, tool, args, by: "human" }
            } else {
                let result = Ended::failed(body.value("error"), body.number("duration_ms"));
                What::After { call, tool, args, result }
            }
        }
        "PermissionDenied" => {
            let (call, tool) = call(body)?;
            What::Denied { call, tool, args: body.args("tool_input"), by: "policy" }
        }
        "UserPromptSubmit" => {
            let origin = match body.text("source") {
                None | Some("user") => Origin::Human,
                Some("system" | "loop_wakeup" | "schedule_wakeup" | "poll_event") => Origin::Schedule,
                // `sdk`, and whatever a later version adds: a program speaks.
                Some(_) => Origin::Agent,
            };
            What::Prompt {
                text: body.text("prompt").unwrap_or_default(),
                origin,
                key: body.text("prompt_id"),
            }
        }
        "Stop" => What::Said { text: body.text("last_assistant_message"), leaves: false },
        "SubagentStop" => What::Said { text: body.text("last_assistant_message"), leaves: true },
        "SubagentStart" => What::Started { again: false },
        "SessionStart" => match body.text("source") {
            // The session went on all the time.
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

fn call<'a>(body: &Body<'a>) -> Result<(Option<&'a str>, &'a str), &'static str> {
    Ok((body.text("tool_use_id"), body.text("tool_name").ok_or("tool_name")?))
}
