//! OpenAI Chat Completions messages, also used by compatible providers.

use super::super::CachedTokens;
use super::super::conversation::{AnswerUsage, CallEnd};
use super::super::lenient_fields::{LenientCount, LenientFlag, LenientText, or_default, parse_timestamp};
use super::super::responses_items::{parse_arguments, text_of};
use super::{MessageRole, TranscriptMessage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiMessage<'a> {
    #[serde(borrow)]
    role: LenientText<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<OpenAiCall<'a>>>,
    #[serde(borrow)]
    function_call: Option<OpenAiFunction<'a>>,
    #[serde(borrow)]
    tool_call_id: LenientText<'a>,
    #[serde(borrow)]
    status: LenientText<'a>,
    is_error: LenientFlag,
    #[serde(borrow)]
    timestamp: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiCall<'a> {
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    function: OpenAiFunction<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiFunction<'a> {
    #[serde(borrow)]
    name: LenientText<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiUsage {
    prompt_tokens: LenientCount,
    completion_tokens: LenientCount,
    input_tokens: LenientCount,
    output_tokens: LenientCount,
    #[serde(deserialize_with = "or_default")]
    prompt_tokens_details: OpenAiUsageDetails,
    #[serde(deserialize_with = "or_default")]
    input_tokens_details: OpenAiUsageDetails,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiUsageDetails {
    cached_tokens: LenientCount,
}

/// Parses token usage of Chat Completions or Responses.
pub(super) fn parse_usage(raw: &str) -> AnswerUsage {
    let usage: OpenAiUsage = serde_json::from_str(raw).unwrap_or_default();
    let read = usage.prompt_tokens_details.cached_tokens.0.max(usage.input_tokens_details.cached_tokens.0);
    AnswerUsage {
        tokens_in: usage.prompt_tokens.0.max(usage.input_tokens.0),
        tokens_out: usage.completion_tokens.0.max(usage.output_tokens.0),
        cost_micro_usd: 0,
        cached: CachedTokens { read, written: 0 },
    }
}

/// Parses a message.
pub(super) fn parse_message(raw: &str) -> Option<TranscriptMessage<'_>> {
    let message: OpenAiMessage<'_> = serde_json::from_str(raw).ok()?;
    let text = message.content.map_or(Cow::Borrowed(""), |content| text_of(content.get()));
    let at = parse_timestamp(&message.timestamp);
    let mut said = TranscriptMessage { at, ..TranscriptMessage::default() };
    match &*message.role {
        "user" | "human" => said.role = MessageRole::User,
        "assistant" | "ai" => said.role = MessageRole::Assistant,
        "tool" | "function" => {
            said.role = MessageRole::Tool;
            let failed = message.is_error.0 || &*message.status == "error";
            let end = if failed { CallEnd::Failed(text) } else { CallEnd::Ok(text) };
            said.ends.push((message.tool_call_id.0, end));
            return Some(said);
        }
        "" => return None,
        _ => return Some(said),
    }
    said.text = text;
    for call in message.tool_calls.into_iter().flatten() {
        let args = call.function.arguments.map_or(Value::Null, |args| parse_arguments(args.get()));
        said.calls.push((call.id.0, call.function.name.0, args));
    }
    if let Some(call) = message.function_call {
        let args = call.arguments.map_or(Value::Null, |args| parse_arguments(args.get()));
        said.calls.push((Cow::Borrowed(""), call.name.0, args));
    }
    Some(said)
}
