//! Anthropic Messages protocol.

use super::conversation::{ConversationPart, pair_calls_with_results};
use super::http_provider::{EndpointSupport, ReplyError, WireProtocol, check_reported_error};
use super::limits::ANTHROPIC_MAX_TOKENS;
use super::message::{FinishReason, ModelRequest, ModelToolSpec};
use super::provider_key::ProviderKey;
use super::reply_builder::{ReplyBuilder, ReportedTokens};
use serde_json::{Map, Value, json};

/// First user message if the conversation starts with the model, which the protocol does not allow.
const OMITTED_HISTORY_TEXT: &str = "(earlier messages are not shown)";

/// Maximum length of a call id; longer ones are replaced.
const MAX_ID: usize = 64;

/// Wire format of the Anthropic Messages API.
#[derive(Debug)]
pub(super) struct AnthropicProtocol {
    /// Value of the `anthropic-version` header.
    pub(super) version: String,
}

impl WireProtocol for AnthropicProtocol {
    fn headers(&self, key: &ProviderKey) -> Vec<(String, String)> {
        let mut headers = vec![("anthropic-version".to_owned(), self.version.clone())];
        headers.extend(key.reveal().map(|key| ("x-api-key".to_owned(), key.to_owned())));
        headers
    }

    fn request_body(
        &self,
        _: &str,
        adjusted: &EndpointSupport,
        request: &ModelRequest,
        max_tokens: Option<u64>,
    ) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("max_tokens".to_owned(), Value::from(max_tokens.unwrap_or(ANTHROPIC_MAX_TOKENS)));
        body.insert("messages".to_owned(), messages(request));
        if let Some(system) = request.system.as_ref().filter(|system| !system.trim().is_empty()) {
            body.insert("system".to_owned(), Value::from(system.as_str()));
        }
        if !request.tools.is_empty() {
            let tool = |tool: &ModelToolSpec| {
                let (name, schema) = (&tool.name, &tool.schema);
                json!({"name": name, "description": tool.description, "input_schema": schema})
            };
            body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
        }
        if adjusted.stream {
            body.insert("stream".to_owned(), Value::Bool(true));
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
        let event: Value =
            serde_json::from_str(data).map_err(|error| ReplyError::NotJson(error.to_string()))?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
        match text("/type") {
            "message_start" => apply_message_start(event.get("message"), draft),
            "content_block_start" => {
                apply_block(event.get("content_block").unwrap_or(&Value::Null), index, draft, on_text)
                    .map_err(ReplyError::UnexpectedShape)?;
            }
            "content_block_delta" => match text("/delta/type") {
                "text_delta" => draft.push_text(text("/delta/text"), on_text),
                "input_json_delta" => {
                    draft
                        .call_mut(index)
                        .map_err(ReplyError::UnexpectedShape)?
                        .args
                        .push_str(text("/delta/partial_json"));
                }
                // Ignore thinking, signatures, citations and future types.
                _ => {}
            },
            "message_delta" => {
                if let Some(reason) = event.pointer("/delta/stop_reason").and_then(Value::as_str) {
                    draft.stop = Some(FinishReason::from_wire(reason));
                }
                apply_usage(event.get("usage"), draft);
            }
            "message_stop" => draft.saw_end = true,
            "error" => check_reported_error(&event)?,
            // Ignore `ping`, `content_block_stop` and future types.
            _ => {}
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
        apply_message_start(Some(answer), draft);
        let content = answer.get("content").and_then(Value::as_array);
        let content =
            content.ok_or_else(|| ReplyError::UnexpectedShape("the response has no content".to_owned()))?;
        for (index, part) in (0..).zip(content) {
            apply_block(part, index, draft, on_text).map_err(ReplyError::UnexpectedShape)?;
        }
        draft.stop = answer.get("stop_reason").and_then(Value::as_str).map(FinishReason::from_wire);
        draft.saw_end = true;
        Ok(())
    }
}

/// Reads the model name and the initial usage.
fn apply_message_start(message: Option<&Value>, draft: &mut ReplyBuilder) {
    let Some(message) = message else { return };
    if let Some(model) = message.get("model").and_then(Value::as_str).filter(|model| !model.is_empty()) {
        draft.model = Some(model.to_owned());
    }
    apply_usage(message.get("usage"), draft);
}

/// Applies reported usage. The API reports cache reads and writes separately from `input_tokens`.
fn apply_usage(usage: Option<&Value>, draft: &mut ReplyBuilder) {
    let count = |name: &str| usage.and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    let mut tokens = draft.tokens.unwrap_or_default();
    let fresh = tokens.input.saturating_sub(tokens.cached).saturating_sub(tokens.cache_write);
    let fresh = count("input_tokens").unwrap_or(fresh);
    tokens.cached = count("cache_read_input_tokens").unwrap_or(tokens.cached);
    tokens.cache_write = count("cache_creation_input_tokens").unwrap_or(tokens.cache_write);
    tokens.input = fresh.saturating_add(tokens.cached).saturating_add(tokens.cache_write);
    tokens.output = count("output_tokens").unwrap_or(tokens.output);
    if tokens != ReportedTokens::default() {
        draft.tokens = Some(tokens);
    }
}

/// Applies a content block, complete or at its start.
fn apply_block(
    block: &Value,
    index: u64,
    draft: &mut ReplyBuilder,
    on_text: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "text" => draft.push_text(text("text"), on_text),
        "tool_use" => {
            let call = draft.call_mut(index)?;
            call.id = text("id").to_owned();
            call.name = text("name").to_owned();
            // A stream starts with an empty object and sends the arguments in pieces.
            match block.get("input") {
                Some(Value::Object(input)) if input.is_empty() => {}
                Some(input) => call.args = input.to_string(),
                None => {}
            }
        }
        _ => {}
    }
    Ok(())
}

/// Messages with alternating roles: consecutive blocks of one role become one message.
fn messages(request: &ModelRequest) -> Value {
    let mut messages = AnthropicMessages::default();
    for (index, part) in pair_calls_with_results(&request.messages).into_iter().enumerate() {
        match part {
            ConversationPart::User(text) => messages.add("user", json!({"type": "text", "text": text})),
            ConversationPart::Assistant { text, calls } => {
                if !text.trim().is_empty() {
                    messages.add("assistant", json!({"type": "text", "text": text.trim_end()}));
                }
                for (at, (call, _)) in calls.iter().enumerate() {
                    let input =
                        if call.args.is_object() { call.args.clone() } else { json!({"value": call.args}) };
                    let id = wire_call_id(&call.id, index, at);
                    messages.add(
                        "assistant",
                        json!({"type": "tool_use", "id": id, "name": call.name, "input": input}),
                    );
                }
                for (at, (call, outcome)) in calls.iter().enumerate() {
                    let id = wire_call_id(&call.id, index, at);
                    let mut result =
                        json!({"type": "tool_result", "tool_use_id": id, "content": outcome.text});
                    if !outcome.ok {
                        result["is_error"] = Value::Bool(true);
                    }
                    messages.add("user", result);
                }
            }
        }
    }
    Value::from(messages.0)
}

#[derive(Default)]
struct AnthropicMessages(Vec<Value>);

impl AnthropicMessages {
    fn add(&mut self, role: &str, block: Value) {
        if self.0.is_empty() && role == "assistant" {
            self.add("user", json!({"type": "text", "text": OMITTED_HISTORY_TEXT}));
        }
        let last = self.0.last_mut().filter(|message| message.get("role") == Some(&Value::from(role)));
        match last.and_then(|message| message.get_mut("content")).and_then(Value::as_array_mut) {
            Some(content) => content.push(block),
            None => self.0.push(json!({"role": role, "content": [block]})),
        }
    }
}

/// A call id that the API accepts; ids from other providers may contain invalid characters.
fn wire_call_id(id: &str, index: usize, at: usize) -> String {
    let plain = (1..=MAX_ID).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if plain { id.to_owned() } else { format!("call_{index}_{at}") }
}
