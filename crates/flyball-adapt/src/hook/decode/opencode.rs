//! opencode: what our own plugin sends; a sub-agent is a session of its own that names its parent.

use super::{Body, Ended, Told, What};
use flyball::Origin;
use serde_json::Value;

/// Reads a payload; `Err` names the field that is missing.
pub(super) fn read<'a>(event: &str, body: &Body<'a>) -> Result<Told<'a>, &'static str> {
    let tool = || body.text("tool").ok_or("tool");
    let args = || body.args("args");
    let call = body.text("call_id");
    let what = match event {
        "tool.execute.before" => What::Before { call, tool: tool()?, args: args() },
        "tool.execute.after" => {
            let mut result = Ended::with(body.value("output"), None);
            let exit =
                body.value("metadata").and_then(|metadata| metadata.get("exit")).and_then(Value::as_i64);
            result.ok &= exit.unwrap_or(0) == 0;
            What::After { call, tool: tool()?, args: args(), result }
        }
        "permission.ask" => What::Permission { tool: body.text("tool").unwrap_or_default(), args: args() },
        "chat.message" => {
            let text = body.text("text").unwrap_or_default();
            What::Prompt { text, origin: Origin::Human, key: body.text("message_id") }
        }
        "session.idle" => What::Said { text: body.text("text"), leaves: false },
        "session.created" => What::Started { again: false },
        "session.compacted" => What::Compacted,
        _ => What::Nothing,
    };
    Ok(Told {
        session: body.text("session_id").ok_or("session_id")?,
        agent: None,
        parent: body.text("parent_id"),
        cwd: body.text("directory"),
        stamp: None,
        what,
    })
}
