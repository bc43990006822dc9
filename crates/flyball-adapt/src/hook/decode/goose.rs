//! goose: the event is called `event`, a call has an id, and results are told only as far as goose tells them.

use super::{Body, Ended, Told, What};
use flyball::Origin;

/// Reads a payload; `Err` names the field that is missing.
pub(super) fn read<'a>(event: &str, body: &Body<'a>) -> Result<Told<'a>, &'static str> {
    let tool = || body.text("tool_name").ok_or("tool_name");
    let args = || body.args("tool_input");
    let call = body.text("tool_call_id");
    let output = ["tool_output", "tool_response", "output"].iter().find_map(|key| body.value(key));
    let what = match event {
        "PreToolUse" => What::Before { call, tool: tool()?, args: args() },
        "PostToolUse" => What::After { call, tool: tool()?, args: args(), result: Ended::with(output, None) },
        "PostToolUseFailure" => {
            let result = Ended::failed(body.value("error").or(output), None);
            What::After { call, tool: tool()?, args: args(), result }
        }
        "UserPromptSubmit" => {
            let text = body.text("message").unwrap_or_default();
            What::Prompt { text, origin: Origin::Human, key: None }
        }
        "Stop" => What::Said { text: body.text("last_assistant_message"), leaves: false },
        // goose tells the same when a session is taken up again.
        "SessionStart" => What::Started { again: true },
        "SessionEnd" => What::Ended { outcome: None },
        _ => What::Nothing,
    };
    Ok(Told {
        session: body.text("session_id").ok_or("session_id")?,
        agent: None,
        parent: None,
        cwd: body.text("working_dir"),
        stamp: None,
        what,
    })
}
