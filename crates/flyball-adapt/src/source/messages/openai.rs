//! Messages of OpenAI's chat completions, and of all that speak like it.

use super::super::Cached;
use super::super::fields::{Count, Flag, Text, moment, or_default};
use super::super::items::{arguments, words};
use super::super::talk::{End, Used};
use super::{Role, Said};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
    #[serde(borrow)]
    function_call: Option<Function<'a>>,
    #[serde(borrow)]
    tool_call_id: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
    is_error: Flag,
    #[serde(borrow)]
    timestamp: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Call<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    function: Function<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage {
    prompt_tokens: Count,
    completion_tokens: Count,
    input_tokens: Count,
    output_tokens: Count,
    #[serde(deserialize_with = "or_default")]
    prompt_tokens_details: Details,
    #[serde(deserialize_with = "or_default")]
    input_tokens_details: Details,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Count,
}

/// What an answer used, as chat completions and Responses tell it.
pub(super) fn used(raw: &str) -> Used {
    let usage: Usage = serde_json::from_str(raw).unwrap_or_default();
    let read = usage.prompt_tokens_details.cached_tokens.0.max(usage.input_tokens_details.cached_tokens.0);
    Used {
        tokens_in: usage.prompt_tokens.0.max(usage.input_tokens.0),
        tokens_out: usage.completion_tokens.0.max(usage.output_tokens.0),
        cost_micro_usd: 0,
        cached: Cached { read, written: 0 },
    }
}

/// Reads a message.
pub(super) fn said(raw: &str) -> Option<Said<'_>> {
    let message: Message<'_> = serde_json::from_str(raw).ok()?;
    let text = message.content.map_or(Cow::Borrowed(""), |content| words(content.get()));
    let at = moment(&message.timestamp);
    let mut said = Said { at, ..Said::default() };
    match &*message.role {
        "user" | "human" => said.role = Role::User,
        "assistant" | "ai" => said.role = Role::Assistant,
        "tool" | "function" => {
            said.role = Role::Tool;
            let failed = message.is_error.0 || &*message.status == "error";
            let end = if failed { End::Failed(text) } else { End::Ok(text) };
            said.ends.push((message.tool_call_id.0, end));
            return Some(said);
        }
        "" => return None,
        _ => return Some(said),
    }
    said.text = text;
    for call in message.tool_calls.into_iter().flatten() {
        let args = call.function.arguments.map_or(Value::Null, |args| arguments(args.get()));
        said.calls.push((call.id.0, call.function.name.0, args));
    }
    if let Some(call) = message.function_call {
        let args = call.arguments.map_or(Value::Null, |args| arguments(args.get()));
        said.calls.push((Cow::Borrowed(""), call.name.0, args));
    }
    Some(said)
}
