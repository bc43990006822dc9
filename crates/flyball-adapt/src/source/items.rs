//! The items of OpenAI's Responses: messages, calls and their outputs. Codex writes them into its rollouts, too.

use super::bounds;
use super::fields::{Count, Text, or_default};
use super::talk::End;
use flyball::Denier;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Whose words a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// The user's.
    User,
    /// The agent's.
    Assistant,
    /// The system's or the developer's.
    System,
}

/// What an item says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item<'a> {
    /// Somebody spoke.
    Said { role: Words, text: Cow<'a, str>, is_final: bool },
    /// A tool is wanted.
    Called { call: Cow<'a, str>, tool: Cow<'a, str>, args: Value },
    /// A call ended.
    Ended { call: Cow<'a, str>, end: End<'a> },
    /// A tool of the provider was wanted, and ended.
    CalledAndEnded { call: Cow<'a, str>, tool: Cow<'a, str>, args: Value, end: End<'a> },
    /// Nothing that is counted.
    Nothing,
    /// No item.
    Bad,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Raw<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    phase: Text<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    call_id: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    namespace: Text<'a>,
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
    status: Text<'a>,
    #[serde(borrow)]
    queries: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    refusal: Text<'a>,
}

/// What a shell of an older Codex gave.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ShellOutput<'a> {
    #[serde(borrow)]
    output: Option<Text<'a>>,
    #[serde(deserialize_with = "or_default")]
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    exit_code: Count,
}

/// A result with a word about its success.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Payload<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    success: Option<bool>,
}

/// Reads an item.
pub(super) fn item(text: &str) -> Item<'_> {
    let Ok(raw) = serde_json::from_str::<Raw<'_>>(text) else { return Item::Bad };
    match &*raw.kind {
        "message" | "" if !raw.role.is_empty() => {
            let role = match &*raw.role {
                "user" => Words::User,
                "assistant" => Words::Assistant,
                _ => Words::System,
            };
            let is_final = &*raw.phase == "final_answer";
            Item::Said { role, text: content(raw.content), is_final }
        }
        "function_call" | "custom_tool_call" | "mcp_call" | "tool_search_call" => called(raw),
        "local_shell_call" | "computer_call" | "shell_call" | "apply_patch_call" => acted(raw),
        "web_search_call" | "file_search_call" | "code_interpreter_call" | "image_generation_call" => {
            provider_tool(raw)
        }
        kind if kind.ends_with("_output") => {
            let call = raw.call_id.0;
            Item::Ended { call, end: ended(raw.output) }
        }
        _ => Item::Nothing,
    }
}

fn called(raw: Raw<'_>) -> Item<'_> {
    let tool = if raw.namespace.is_empty() {
        raw.name.0
    } else {
        Cow::Owned(format!("{}{}", &*raw.namespace, &*raw.name))
    };
    let args = raw.arguments.or(raw.input).map_or(Value::Null, |given| arguments(given.get()));
    let call = if raw.call_id.is_empty() { raw.id.0 } else { raw.call_id.0 };
    if &*raw.kind != "mcp_call" {
        return Item::Called { call, tool, args };
    }
    let error = raw.error.filter(|error| error.get() != "null");
    let end = match error {
        Some(error) => End::Failed(words(error.get())),
        None => ended(raw.output),
    };
    Item::CalledAndEnded { call, tool, args, end }
}

/// A tool that is known by its kind, with an `action`.
fn acted(raw: Raw<'_>) -> Item<'_> {
    let call = if raw.call_id.is_empty() { raw.id.0 } else { raw.call_id.0 };
    let tool = match raw.kind.0 {
        Cow::Borrowed(kind) => Cow::Borrowed(kind.strip_suffix("_call").unwrap_or(kind)),
        Cow::Owned(kind) => Cow::Owned(kind.strip_suffix("_call").unwrap_or(&kind).to_owned()),
    };
    let args = raw.action.map_or(Value::Null, |action| bounds::args(action.get()));
    Item::Called { call, tool, args }
}

/// A tool that the provider ran itself: it has ended, and its result went to the model unseen.
fn provider_tool(raw: Raw<'_>) -> Item<'_> {
    let tool = raw.kind.strip_suffix("_call").unwrap_or(&raw.kind).to_owned();
    let args = raw.action.or(raw.queries).map_or(Value::Null, |action| bounds::args(action.get()));
    if args == Value::Null || raw.id.is_empty() {
        // Without arguments every call would look like the one before.
        return Item::Nothing;
    }
    let end = if &*raw.status == "failed" { End::Failed("failed".into()) } else { End::Ok("".into()) };
    Item::CalledAndEnded { call: raw.id.0, tool: tool.into(), args, end }
}

/// Arguments: JSON inside a text, a bare text, or JSON.
pub(super) fn arguments(raw: &str) -> Value {
    match serde_json::from_str::<Text<'_>>(raw) {
        Ok(text) if raw.starts_with('"') => bounds::args_text(&text),
        _ => bounds::args(raw),
    }
}

fn content(raw: Option<&RawValue>) -> Cow<'_, str> {
    raw.map_or(Cow::Borrowed(""), |raw| words(raw.get()))
}

/// A text, or the texts of a list of parts.
pub(super) fn words(raw: &str) -> Cow<'_, str> {
    if raw.starts_with('"') {
        return serde_json::from_str::<Text<'_>>(raw).map(|text| text.0).unwrap_or_default();
    }
    if raw.starts_with('[')
        && let Ok(parts) = serde_json::from_str::<Vec<Part<'_>>>(raw)
    {
        let text = |part: Part<'_>| {
            if part.text.is_empty() { part.refusal.0.into_owned() } else { part.text.0.into_owned() }
        };
        let mut texts: Vec<String> = parts.into_iter().map(text).filter(|text| !text.is_empty()).collect();
        return Cow::Owned(if texts.len() == 1 { texts.remove(0) } else { texts.join("\n") });
    }
    if raw == "null" { Cow::Borrowed("") } else { Cow::Borrowed(raw) }
}

fn ended(raw: Option<&RawValue>) -> End<'_> {
    let Some(raw) = raw.map(RawValue::get) else { return End::Ok("".into()) };
    if raw.starts_with('{')
        && let Ok(payload) = serde_json::from_str::<Payload<'_>>(raw)
        && payload.content.is_some()
    {
        let text = content(payload.content);
        return if payload.success == Some(false) { End::Failed(text) } else { judged(text) };
    }
    judged(words(raw))
}

/// What a result says about how it ended: a shell's wrapping is taken off, a refusal is told from a failure.
fn judged(text: Cow<'_, str>) -> End<'_> {
    if let Some(by) = refusal(&text) {
        return End::Denied(by);
    }
    if text.starts_with('{')
        && let Ok(shell) = serde_json::from_str::<ShellOutput<'_>>(&text)
        && let Some(output) = shell.output
    {
        return exited(shell.metadata.exit_code.0, Cow::Owned(output.0.into_owned()));
    }
    let Some((code, at)) = wrapping(&text) else { return End::Ok(text) };
    let inner = match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(at..).unwrap_or_default()),
        Cow::Owned(text) => Cow::Owned(text.get(at..).unwrap_or_default().to_owned()),
    };
    exited(code, inner)
}

fn exited(code: u64, output: Cow<'_, str>) -> End<'_> {
    match code {
        0 => End::Ok(output),
        code if output.trim().is_empty() => End::Failed(Cow::Owned(format!("exit code {code}"))),
        _ => End::Failed(output),
    }
}

/// The exit code that stands above the output of a command, and where the output begins.
fn wrapping(text: &str) -> Option<(u64, usize)> {
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

fn refusal(text: &str) -> Option<Denier> {
    let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    if text.contains("rejected by user approval settings") && text.len() < 400 {
        return Some(Denier::Policy);
    }
    begins(&[
        "exec command rejected by user",
        "patch rejected by user",
        "rejected by user",
        "aborted by user",
    ])
    .then_some(Denier::Human)
}
