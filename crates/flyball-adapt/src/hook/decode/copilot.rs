//! Copilot CLI: camel-case fields, no name of the event and no ids of calls; arguments may come as a text.

use super::{Body, Ended, Told, What};
use flyball::Origin;
use serde_json::Value;

/// Reads a payload; `Err` names the field that is missing.
pub(super) fn read<'a>(event: &str, body: &Body<'a>) -> Result<Told<'a>, &'static str> {
    let tool = || body.text("toolName").ok_or("toolName");
    let args = || body.args("toolArgs");
    let what = match event {
        "preToolUse" => What::Before { call: None, tool: tool()?, args: args() },
        "postToolUse" => What::After { call: None, tool: tool()?, args: args(), result: result(body) },
        "postToolUseFailure" => {
            let result = Ended::failed(body.value("error"), None);
            What::After { call: None, tool: tool()?, args: args(), result }
        }
        "permissionRequest" => {
            What::Permission { tool: body.text("toolName").unwrap_or_default(), args: args() }
        }
        "userPromptSubmitted" => {
            let text = body.text("prompt").unwrap_or_default();
            What::Prompt { text, origin: Origin::Human, key: None }
        }
        "sessionStart" => {
            let source = body.text("source");
            What::Started { again: !matches!(source, Some("new" | "startup")) }
        }
        "sessionEnd" => What::Ended { outcome: body.text("reason") },
        _ => What::Nothing,
    };
    Ok(Told {
        session: body.text("sessionId").ok_or("sessionId")?,
        agent: None,
        parent: None,
        cwd: body.text("cwd").or_else(|| body.text("workingDirectory")),
        stamp: body.stamp("timestamp"),
        what,
    })
}

/// `{resultType, textResultForLlm}`: the type says how it ended, the text is what the model is shown.
fn result(body: &Body<'_>) -> Ended {
    let result = body.value("toolResult");
    let part = |key: &str| result.and_then(|result| result.get(key));
    let text = part("textResultForLlm").or(result);
    match part("resultType").and_then(Value::as_str) {
        Some("success") => Ended { ok: true, ..Ended::with(text, None) },
        Some(_) => Ended::failed(text, None),
        None => Ended::with(text, None),
    }
}
