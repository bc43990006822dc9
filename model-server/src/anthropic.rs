//! Anthropic messages: request validation and replies.

use crate::protocol::{RequestRejection, StreamEvent, model, split_chars};
use crate::request::RecordedRequest;
use crate::script::ReplyBehavior;
use serde_json::{Map, Value, json};

/// Accepted parameters; others are rejected, as by the real API.
const KNOWN_PARAMS: [&str; 12] = [
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
];

/// Rejects what the real API rejects.
pub(crate) fn validate(request: &RecordedRequest) -> Result<(), RequestRejection> {
    if request.header("anthropic-version").is_none_or(str::is_empty) {
        return Err(invalid("anthropic-version: header is required"));
    }
    let body = request.body.as_object().ok_or_else(|| invalid("The request body is not valid JSON"))?;
    if let Some(unknown) = body.keys().find(|key| !KNOWN_PARAMS.contains(&key.as_str())) {
        return Err(invalid(format!("{unknown}: Extra inputs are not permitted")));
    }
    if body.get("model").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(invalid("model: Field required"));
    }
    if body.get("max_tokens").and_then(Value::as_u64).is_none_or(|n| n == 0) {
        return Err(invalid("max_tokens: Field required"));
    }
    if body.get("system").is_some_and(|system| !system.is_string() && !system.is_array()) {
        return Err(invalid("system: Input should be a valid string or list"));
    }
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        let named = tool.get("name").and_then(Value::as_str).is_some_and(is_name);
        if !named || tool.pointer("/input_schema/type") != Some(&Value::from("object")) {
            return Err(invalid("tools.0.custom: name and input_schema.type are required"));
        }
    }
    let messages = body.get("messages").and_then(Value::as_array).filter(|list| !list.is_empty());
    check_messages(messages.ok_or_else(|| invalid("messages: at least one message is required"))?)
}

/// Checks that roles alternate, and that every `tool_use` has a result at the start of the next message.
fn check_messages(messages: &[Value]) -> Result<(), RequestRejection> {
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let wanted = if index % 2 == 0 { "user" } else { "assistant" };
        if message.get("role") != Some(&Value::from(wanted)) {
            return Err(invalid(format!("messages.{index}: roles must alternate; expected '{wanted}'")));
        }
        let blocks = match message.get("content") {
            Some(Value::String(text)) if !text.is_empty() => &[],
            Some(Value::Array(blocks)) if !blocks.is_empty() => blocks.as_slice(),
            _ => return Err(invalid(format!("messages.{index}: all messages must have non-empty content"))),
        };
        let mut results_over = false;
        let mut uses = Vec::new();
        for block in blocks {
            match block.get("type").and_then(Value::as_str).unwrap_or_default() {
                "text" => {
                    results_over = true;
                    if block.get("text").and_then(Value::as_str).is_none_or(|text| text.trim().is_empty()) {
                        return Err(invalid(format!(
                            "messages.{index}: text content blocks must contain non-whitespace text"
                        )));
                    }
                }
                "tool_result" if wanted == "user" && !results_over => {
                    close_tool_use(block, &mut open, index)?
                }
                "tool_use" if wanted == "assistant" => uses.push(check_use(block, index)?),
                other => return Err(invalid(format!("messages.{index}: unexpected block '{other}'"))),
            }
        }
        if let Some(id) = open.first() {
            return Err(invalid(format!(
                "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {id}"
            )));
        }
        open = uses;
    }
    match open.first() {
        Some(id) => Err(invalid(format!(
            "`tool_use` ids were found without `tool_result` blocks immediately after: {id}"
        ))),
        None => Ok(()),
    }
}

fn close_tool_use(block: &Value, open: &mut Vec<&str>, index: usize) -> Result<(), RequestRejection> {
    let id = block.get("tool_use_id").and_then(Value::as_str).unwrap_or_default();
    let at = open.iter().position(|open| *open == id);
    let at = at.ok_or_else(|| {
        invalid(format!("messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {id}"))
    })?;
    open.remove(at);
    Ok(())
}

fn check_use(block: &Value, index: usize) -> Result<&str, RequestRejection> {
    let id = block.get("id").and_then(Value::as_str).filter(|id| is_name(id));
    let id = id.ok_or_else(|| {
        invalid(format!("messages.{index}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"))
    })?;
    let named = block.get("name").and_then(Value::as_str).is_some_and(is_name);
    if !named || !block.get("input").is_some_and(Value::is_object) {
        return Err(invalid(format!("messages.{index}.tool_use.input: Input should be a valid dictionary")));
    }
    Ok(id)
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
}

/// The events of a stream.
pub(crate) fn events(said: &ReplyBehavior, request: &Value, number: usize) -> Vec<StreamEvent> {
    let event = |name: &'static str, mut data: Value| {
        data["type"] = Value::from(name);
        StreamEvent { name: Some(name), data: data.to_string() }
    };
    let mut start = message(said, request, number, json!([]), Value::Null);
    let mut first = usage(said);
    first.insert("output_tokens".to_owned(), Value::from(u64::from(!said.no_usage)));
    if said.no_usage {
        first = Map::new();
    }
    start["usage"] = Value::Object(first);
    let mut events = vec![event("message_start", json!({"message": start}))];
    let mut index = 0;
    if !said.text.is_empty() {
        let block = json!({"type": "text", "text": ""});
        events.push(event("content_block_start", json!({"index": index, "content_block": block})));
        for piece in split_chars(&said.text, said.piece_chars) {
            let delta = json!({"type": "text_delta", "text": piece});
            events.push(event("content_block_delta", json!({"index": index, "delta": delta})));
        }
        events.push(event("content_block_stop", json!({"index": index})));
        index += 1;
    }
    for (at, call) in said.calls.iter().enumerate() {
        let id = call.wire_id("toolu", number, at);
        let block = json!({"type": "tool_use", "id": id, "name": call.name, "input": {}});
        events.push(event("content_block_start", json!({"index": index, "content_block": block})));
        for piece in split_chars(&call.wire_args(), said.piece_chars) {
            let delta = json!({"type": "input_json_delta", "partial_json": piece});
            events.push(event("content_block_delta", json!({"index": index, "delta": delta})));
        }
        events.push(event("content_block_stop", json!({"index": index})));
        index += 1;
    }
    let mut last = json!({"delta": {"stop_reason": stop_reason(said), "stop_sequence": null}});
    last["usage"] = if said.no_usage { json!({}) } else { json!({"output_tokens": said.usage.output}) };
    events.push(event("message_delta", last));
    events.push(event("message_stop", json!({})));
    events
}

/// The reply as one object.
pub(crate) fn document(said: &ReplyBehavior, request: &Value, number: usize) -> Value {
    let mut content = Vec::new();
    if !said.text.is_empty() {
        content.push(json!({"type": "text", "text": said.text}));
    }
    for (at, call) in said.calls.iter().enumerate() {
        let input = match &call.raw_args {
            Some(raw) => Value::from(raw.as_str()),
            None if call.args.is_null() => json!({}),
            None => call.args.clone(),
        };
        let id = call.wire_id("toolu", number, at);
        content.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": input}));
    }
    let mut answer = message(said, request, number, Value::from(content), Value::from(stop_reason(said)));
    if !said.no_usage {
        answer["usage"] = Value::Object(usage(said));
    }
    answer
}

/// An error in the format of the real API.
pub(crate) fn error(status: u16, kind: Option<&str>, message: &str) -> Value {
    let usual = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind.unwrap_or(usual), "message": message}})
}

fn message(
    said: &ReplyBehavior,
    request: &Value,
    number: usize,
    content: Value,
    stop_reason: Value,
) -> Value {
    json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": model(said, request),
        "content": content, "stop_reason": stop_reason, "stop_sequence": null})
}

fn stop_reason(said: &ReplyBehavior) -> String {
    let usual = if said.calls.is_empty() { "end_turn" } else { "tool_use" };
    said.stop.clone().unwrap_or_else(|| usual.to_owned())
}

/// Tokens read from or written to the cache are not part of `input_tokens`.
fn usage(said: &ReplyBehavior) -> Map<String, Value> {
    let used = said.usage;
    let fresh = used.input.saturating_sub(used.cached).saturating_sub(used.cache_write);
    let all = [
        ("input_tokens", fresh),
        ("cache_read_input_tokens", used.cached),
        ("cache_creation_input_tokens", used.cache_write),
        ("output_tokens", used.output),
    ];
    all.into_iter().map(|(name, tokens)| (name.to_owned(), Value::from(tokens))).collect()
}

fn invalid(message: impl Into<String>) -> RequestRejection {
    RequestRejection { status: 400, message: message.into(), param: None }
}
