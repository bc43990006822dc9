//! Gemini CLI: calls have no ids; each payload has a time, and the end of a call repeats its arguments.

use super::{Body, Ended, Told, What};
use flyball::Origin;
use serde_json::Value;

/// Reads a payload; `Err` names the field that is missing.
pub(super) fn read<'a>(event: &str, body: &Body<'a>) -> Result<Told<'a>, &'static str> {
    let tool = || body.text("tool_name").ok_or("tool_name");
    let what = match event {
        "BeforeTool" => What::Before { call: None, tool: tool()?, args: body.args("tool_input") },
        "AfterTool" => {
            What::After { call: None, tool: tool()?, args: body.args("tool_input"), result: result(body) }
        }
        "BeforeAgent" => {
            let text = body.text("prompt").unwrap_or_default();
            What::Prompt { text, origin: Origin::Human, key: None }
        }
        "AfterAgent" => What::Said { text: body.text("prompt_response"), leaves: false },
        "SessionStart" => What::Started { again: body.text("source") != Some("startup") },
        "SessionEnd" => What::Ended { outcome: body.text("reason") },
        "PreCompress" => What::Compacted,
        _ => What::Nothing,
    };
    Ok(Told {
        session: body.text("session_id").ok_or("session_id")?,
        agent: None,
        parent: None,
        cwd: body.text("cwd"),
        stamp: body.stamp("timestamp"),
        what,
    })
}

/// A result holds what the model is shown (`llmContent`), what the user is shown, and an error if there was one.
fn result(body: &Body<'_>) -> Ended {
    let response = body.value("tool_response");
    let part = |key: &str| response.and_then(|response| response.get(key)).filter(|value| !value.is_null());
    match part("error") {
        Some(error) => Ended::failed(Some(error.get("message").unwrap_or(error)), None),
        None => {
            let shown: Option<&Value> = part("llmContent").or(response);
            Ended::with(shown, None)
        }
    }
}
