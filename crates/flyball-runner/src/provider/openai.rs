//! OpenAI Chat Completions protocol, as spoken by all compatible endpoints.

use super::conversation::{ConversationPart, pair_calls_with_results};
use super::http_provider::{EndpointSupport, ReplyError, WireProtocol, check_reported_error};
use super::message::{FinishReason, ModelRequest, ModelToolSpec};
use super::provider_key::ProviderKey;
use super::reply_builder::{ReplyBuilder, ReportedTokens};
use serde_json::{Map, Value, json};

/// Maximum length of a call id; some endpoints reject longer ones.
const MAX_ID: usize = 64;
/// Endpoint that uses the newer name of the token limit.
const OPENAI_API_URL: &str = "https://api.openai.com/";

/// Phrases with which endpoints reject an unknown parameter.
const UNSUPPORTED_PARAM_PHRASES: [&str; 7] =
    ["not support", "unsupported", "unrecogni", "unknown", "not permitted", "unexpected", "not allowed"];

/// Wire format of the Chat Completions API.
#[derive(Debug)]
pub(super) struct OpenAiProtocol {
    /// Configured name of the token limit parameter.
    pub(super) max_tokens_field: Option<&'static str>,
}

impl WireProtocol for OpenAiProtocol {
    fn headers(&self, key: &ProviderKey) -> Vec<(String, String)> {
        let bearer = |key: &str| ("Authorization".to_owned(), format!("Bearer {key}"));
        key.reveal().map(bearer).into_iter().collect()
    }

    fn request_body(
        &self,
        url: &str,
        adjusted: &EndpointSupport,
        request: &ModelRequest,
        max_tokens: Option<u64>,
    ) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("messages".to_owned(), messages(request));
        if !request.tools.is_empty() {
            body.insert("tools".to_owned(), tools(request));
        }
        if adjusted.stream {
            body.insert("stream".to_owned(), Value::Bool(true));
            if adjusted.stream_options {
                body.insert("stream_options".to_owned(), json!({"include_usage": true}));
            }
        }
        if let Some(most) = max_tokens {
            let newer = url.starts_with(OPENAI_API_URL) != adjusted.alternate_max_tokens;
            let default = if newer { "max_completion_tokens" } else { "max_tokens" };
            body.insert(self.max_tokens_field.unwrap_or(default).to_owned(), Value::from(most));
        }
        body
    }

    fn handle_event(
        &self,
        _: &str,
        data: &str,
        draft: &mut ReplyBuilder,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), ReplyError> {
        if data.trim() == "[DONE]" {
            draft.saw_end = true;
            return Ok(());
        }
        let chunk: Value =
            serde_json::from_str(data).map_err(|error| ReplyError::NotJson(error.to_string()))?;
        check_reported_error(&chunk)?;
        apply_metadata(&chunk, draft);
        // The last chunk, with the usage, has no choices; some endpoints send null.
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(()) };
        if let Some(delta) = choice.get("delta") {
            apply_message(delta, false, draft, on_text).map_err(ReplyError::UnexpectedShape)?;
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            set_finish_reason(reason, draft);
        }
        Ok(())
    }

    fn handle_document(
        &self,
        answer: &Value,
        draft: &mut ReplyBuilder,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), ReplyError> {
        check_reported_error(answer)?;
        apply_metadata(answer, draft);
        let choice = answer.pointer("/choices/0");
        let choice =
            choice.ok_or_else(|| ReplyError::UnexpectedShape("the response has no choices".to_owned()))?;
        let message = choice.get("message");
        let message =
            message.ok_or_else(|| ReplyError::UnexpectedShape("the response has no message".to_owned()))?;
        apply_message(message, true, draft, on_text).map_err(ReplyError::UnexpectedShape)?;
        set_finish_reason(choice.get("finish_reason").and_then(Value::as_str).unwrap_or("stop"), draft);
        draft.saw_end = true;
        Ok(())
    }

    fn adjust_support(
        &self,
        adjusted: EndpointSupport,
        param: &str,
        message: &str,
    ) -> Option<EndpointSupport> {
        if !UNSUPPORTED_PARAM_PHRASES.iter().any(|phrase| message.contains(phrase)) {
            return None;
        }
        let named = |name: &str| param == name || (param.is_empty() && message.contains(name));
        if adjusted.stream && adjusted.stream_options && named("stream_options") {
            Some(EndpointSupport { stream_options: false, ..adjusted })
        } else if !adjusted.alternate_max_tokens
            && self.max_tokens_field.is_none()
            && (named("max_tokens") || named("max_completion_tokens"))
        {
            Some(EndpointSupport { alternate_max_tokens: true, ..adjusted })
        } else if adjusted.stream && named("stream") {
            Some(EndpointSupport { stream: false, ..adjusted })
        } else {
            None
        }
    }
}

fn set_finish_reason(reason: &str, draft: &mut ReplyBuilder) {
    if draft.stop != Some(FinishReason::Refused) {
        draft.stop = Some(FinishReason::from_wire(reason));
    }
}

/// Applies the model name and the usage.
fn apply_metadata(answer: &Value, draft: &mut ReplyBuilder) {
    if let Some(model) = answer.get("model").and_then(Value::as_str).filter(|model| !model.is_empty()) {
        draft.model = Some(model.to_owned());
    }
    let Some(usage) = answer.get("usage").filter(|usage| usage.is_object()) else { return };
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    if let (Some(input), Some(output)) = (count("/prompt_tokens"), count("/completion_tokens")) {
        let cached = count("/prompt_tokens_details/cached_tokens").unwrap_or(0);
        draft.tokens = Some(ReportedTokens { input, output, cached, cache_write: 0 });
    }
}

/// Applies a message or a delta of one.
fn apply_message(
    message: &Value,
    whole: bool,
    draft: &mut ReplyBuilder,
    on_text: &mut dyn FnMut(&str),
) -> Result<(), String> {
    if let Some(text) = message.get("content").and_then(Value::as_str) {
        draft.push_text(text, on_text);
    }
    if let Some(refusal) = message.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()) {
        draft.stop = Some(FinishReason::Refused);
        draft.push_text(refusal, on_text);
    }
    for (at, piece) in (0..).zip(message.get("tool_calls").and_then(Value::as_array).into_iter().flatten()) {
        let text = |pointer: &str| piece.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (id, name) = (text("/id"), text("/function/name"));
        let call = draft.call_mut(if whole { at } else { call_index(piece, id, draft) })?;
        if call.id.is_empty() {
            call.id = id.to_owned();
        }
        if call.name.is_empty() {
            call.name = name.to_owned();
        }
        match piece.pointer("/function/arguments") {
            Some(Value::String(args)) => call.args.push_str(args),
            // Not in the protocol, but some endpoints send an object.
            Some(args @ Value::Object(_)) => call.args.push_str(&args.to_string()),
            _ => {}
        }
    }
    Ok(())
}

/// Index of the call that a delta belongs to. Some endpoints omit the index or repeat it for every call.
fn call_index(piece: &Value, id: &str, draft: &ReplyBuilder) -> u64 {
    let next = draft.calls.iter().map(|call| call.index + 1).max().unwrap_or(0);
    let same_id = draft.calls.iter().find(|call| !id.is_empty() && call.id == id);
    let numbered = piece.get("index").and_then(Value::as_u64).filter(|index| *index < u64::from(u32::MAX));
    match (numbered, same_id) {
        (_, Some(call)) => call.index,
        (Some(index), None) => {
            let taken = draft.calls.iter().any(|call| call.index == index && !call.id.is_empty());
            if taken && !id.is_empty() { next } else { index }
        }
        (None, None) if id.is_empty() => next.saturating_sub(1),
        (None, None) => next,
    }
}

fn messages(request: &ModelRequest) -> Value {
    let mut messages = Vec::new();
    if let Some(system) = &request.system {
        messages.push(json!({"role": "system", "content": system}));
    }
    for (index, part) in pair_calls_with_results(&request.messages).into_iter().enumerate() {
        match part {
            ConversationPart::User(text) => messages.push(json!({"role": "user", "content": text})),
            ConversationPart::Assistant { text, calls } if calls.is_empty() => {
                messages.push(json!({"role": "assistant", "content": text}));
            }
            ConversationPart::Assistant { text, calls } => {
                let id = |call: usize, id: &str| match id.len() {
                    1..=MAX_ID => id.to_owned(),
                    _ => format!("call_{index}_{call}"),
                };
                let made = calls.iter().enumerate().map(|(at, (call, _))| {
                    json!({"id": id(at, &call.id), "type": "function",
                        "function": {"name": call.name, "arguments": call.args.to_string()}})
                });
                let content = if text.is_empty() { Value::Null } else { Value::from(text) };
                let made: Vec<Value> = made.collect();
                messages.push(json!({"role": "assistant", "content": content, "tool_calls": made}));
                for (at, (call, outcome)) in calls.iter().enumerate() {
                    let content = outcome.text;
                    messages
                        .push(json!({"role": "tool", "tool_call_id": id(at, &call.id), "content": content}));
                }
            }
        }
    }
    Value::from(messages)
}

fn tools(request: &ModelRequest) -> Value {
    let tool = |tool: &ModelToolSpec| {
        json!({"type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema}})
    };
    request.tools.iter().map(tool).collect()
}
