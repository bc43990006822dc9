//! OpenAI Responses items: messages, calls and outputs. Codex rollouts contain them too.

use super::bounds;
use super::conversation::CallEnd;
use super::lenient_fields::{LenientCount, LenientText, or_default};
use flyball::DeniedBy;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponsesRole {
    /// The user.
    User,
    /// The agent.
    Assistant,
    /// The system or the developer.
    System,
}

/// A parsed item.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ResponsesItem<'a> {
    /// A message.
    Message { role: ResponsesRole, text: Cow<'a, str>, is_final: bool },
    /// A tool request.
    Called { call: Cow<'a, str>, tool: Cow<'a, str>, args: Value },
    /// The end of a call.
    Finished { call: Cow<'a, str>, end: CallEnd<'a> },
    /// A call of a provider tool with its result.
    CalledAndFinished { call: Cow<'a, str>, tool: Cow<'a, str>, args: Value, end: CallEnd<'a> },
    /// An irrelevant item.
    Ignored,
    /// Not a valid item.
    Malformed,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawResponsesItem<'a> {
    #[serde(borrow, rename = "type")]
    kind: LenientText<'a>,
    #[serde(borrow)]
    role: LenientText<'a>,
    #[serde(borrow)]
    phase: LenientText<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow)]
    call_id: LenientText<'a>,
    #[serde(borrow)]
    name: LenientText<'a>,
    #[serde(borrow)]
    namespace: LenientText<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    action: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    status: LenientText<'a>,
    #[serde(borrow)]
    queries: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponsesPart<'a> {
    #[serde(borrow)]
    text: LenientText<'a>,
    #[serde(borrow)]
    refusal: LenientText<'a>,
}

/// Shell output of older Codex versions.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ShellOutput<'a> {
    #[serde(borrow)]
    output: Option<LenientText<'a>>,
    #[serde(deserialize_with = "or_default")]
    metadata: ShellMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ShellMetadata {
    exit_code: LenientCount,
}

/// A result with a success flag.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResultPayload<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    success: Option<bool>,
}

/// Parses an item.
pub(super) fn parse_item(text: &str) -> ResponsesItem<'_> {
    let Ok(raw) = serde_json::from_str::<RawResponsesItem<'_>>(text) else { return ResponsesItem::Malformed };
    match &*raw.kind {
        "message" | "" if !raw.role.is_empty() => {
            let role = match &*raw.role {
                "user" => ResponsesRole::User,
                "assistant" => ResponsesRole::Assistant,
                _ => ResponsesRole::System,
            };
            let is_final = &*raw.phase == "final_answer";
            ResponsesItem::Message { role, text: content_text(raw.content), is_final }
        }
        "function_call" | "custom_tool_call" | "mcp_call" | "tool_search_call" => function_call(raw),
        "local_shell_call" | "computer_call" | "shell_call" | "apply_patch_call" => action_call(raw),
        "web_search_call" | "file_search_call" | "code_interpreter_call" | "image_generation_call" => {
            provider_call(raw)
        }
        kind if kind.ends_with("_output") => {
            let call = raw.call_id.0;
            ResponsesItem::Finished { call, end: call_end(raw.output) }
        }
        _ => ResponsesItem::Ignored,
    }
}

fn function_call(raw: RawResponsesItem<'_>) -> ResponsesItem<'_> {
    let tool = if raw.namespace.is_empty() {
        raw.name.0
    } else {
        Cow::Owned(format!("{}{}", &*raw.namespace, &*raw.name))
    };
    let args = raw.arguments.or(raw.input).map_or(Value::Null, |given| parse_arguments(given.get()));
    let call = if raw.call_id.is_empty() { raw.id.0 } else { raw.call_id.0 };
    if &*raw.kind != "mcp_call" {
        return ResponsesItem::Called { call, tool, args };
    }
    let error = raw.error.filter(|error| error.get() != "null");
    let end = match error {
        Some(error) => CallEnd::Failed(text_of(error.get())),
        None => call_end(raw.output),
    };
    ResponsesItem::CalledAndFinished { call, tool, args, end }
}

/// Parses a call of a tool identified by its type, with an `action`.
fn action_call(raw: RawResponsesItem<'_>) -> ResponsesItem<'_> {
    let call = if raw.call_id.is_empty() { raw.id.0 } else { raw.call_id.0 };
    let tool = match raw.kind.0 {
        Cow::Borrowed(kind) => Cow::Borrowed(kind.strip_suffix("_call").unwrap_or(kind)),
        Cow::Owned(kind) => Cow::Owned(kind.strip_suffix("_call").unwrap_or(&kind).to_owned()),
    };
    let args = raw.action.map_or(Value::Null, |action| bounds::args(action.get()));
    ResponsesItem::Called { call, tool, args }
}

/// Parses a call that the provider ran. It has finished, and its result is not in the item.
fn provider_call(raw: RawResponsesItem<'_>) -> ResponsesItem<'_> {
    let tool = raw.kind.strip_suffix("_call").unwrap_or(&raw.kind).to_owned();
    let args = raw.action.or(raw.queries).map_or(Value::Null, |action| bounds::args(action.get()));
    if args == Value::Null || raw.id.is_empty() {
        // Without arguments, all calls would look identical.
        return ResponsesItem::Ignored;
    }
    let end =
        if &*raw.status == "failed" { CallEnd::Failed("failed".into()) } else { CallEnd::Ok("".into()) };
    ResponsesItem::CalledAndFinished { call: raw.id.0, tool: tool.into(), args, end }
}

/// Parses arguments: JSON in a string, plain text, or JSON.
pub(super) fn parse_arguments(raw: &str) -> Value {
    match serde_json::from_str::<LenientText<'_>>(raw) {
        Ok(text) if raw.starts_with('"') => bounds::args_from_text(&text),
        _ => bounds::args(raw),
    }
}

fn content_text(raw: Option<&RawValue>) -> Cow<'_, str> {
    raw.map_or(Cow::Borrowed(""), |raw| text_of(raw.get()))
}

/// A string, or the joined texts of a list of parts.
pub(super) fn text_of(raw: &str) -> Cow<'_, str> {
    if raw.starts_with('"') {
        return serde_json::from_str::<LenientText<'_>>(raw).map(|text| text.0).unwrap_or_default();
    }
    if raw.starts_with('[')
        && let Ok(parts) = serde_json::from_str::<Vec<ResponsesPart<'_>>>(raw)
    {
        let text = |part: ResponsesPart<'_>| {
            if part.text.is_empty() { part.refusal.0.into_owned() } else { part.text.0.into_owned() }
        };
        let mut texts: Vec<String> = parts.into_iter().map(text).filter(|text| !text.is_empty()).collect();
        return Cow::Owned(if texts.len() == 1 { texts.remove(0) } else { texts.join("\n") });
    }
    if raw == "null" { Cow::Borrowed("") } else { Cow::Borrowed(raw) }
}

fn call_end(raw: Option<&RawValue>) -> CallEnd<'_> {
    let Some(raw) = raw.map(RawValue::get) else { return CallEnd::Ok("".into()) };
    if raw.starts_with('{')
        && let Ok(payload) = serde_json::from_str::<ResultPayload<'_>>(raw)
        && payload.content.is_some()
    {
        let text = content_text(payload.content);
        return if payload.success == Some(false) { CallEnd::Failed(text) } else { classify_result(text) };
    }
    classify_result(text_of(raw))
}

/// Derives a call's outcome from its result: strips the shell header and distinguishes denials from failures.
fn classify_result(text: Cow<'_, str>) -> CallEnd<'_> {
    if let Some(by) = denied_by(&text) {
        return CallEnd::Denied(by);
    }
    if text.starts_with('{')
        && let Ok(shell) = serde_json::from_str::<ShellOutput<'_>>(&text)
        && let Some(output) = shell.output
    {
        return end_for_exit_code(shell.metadata.exit_code.0, Cow::Owned(output.0.into_owned()));
    }
    let Some((code, at)) = shell_wrapper(&text) else { return CallEnd::Ok(text) };
    let inner = match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(at..).unwrap_or_default()),
        Cow::Owned(text) => Cow::Owned(text.get(at..).unwrap_or_default().to_owned()),
    };
    end_for_exit_code(code, inner)
}

fn end_for_exit_code(code: u64, output: Cow<'_, str>) -> CallEnd<'_> {
    match code {
        0 => CallEnd::Ok(output),
        code if output.trim().is_empty() => CallEnd::Failed(Cow::Owned(format!("exit code {code}"))),
        _ => CallEnd::Failed(output),
    }
}

/// The exit code in the header of a command's output, and the offset of the output.
fn shell_wrapper(text: &str) -> Option<(u64, usize)> {
    let begins = ["Exit code: ", "Chunk ID: ", "Wall time: ", "Process exited with code "];
    if !begins.iter().any(|begin| text.starts_with(begin)) {
        return None;
    }
    let at = text.find("Output:\n").map_or(text.len(), |at| at + "Output:\n".len());
    let head = text.get(..at)?;
    let code = head.lines().find_map(|line| {
        let code =
            line.strip_prefix("Exit code: ").or_else(|| line.strip_prefix("Process exited with code "))?;
        code.trim().parse::<i64>().ok()
    });
    Some((code.unwrap_or(0).unsigned_abs(), at))
}

fn denied_by(text: &str) -> Option<DeniedBy> {
    let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    if text.contains("rejected by user approval settings") && text.len() < 400 {
        return Some(DeniedBy::Policy);
    }
    begins(&[
        "exec command rejected by user",
        "patch rejected by user",
        "rejected by user",
        "aborted by user",
    ])
    .then_some(DeniedBy::Human)
}
