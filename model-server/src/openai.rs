//! OpenAI chat completions: request validation and replies.

use crate::protocol::{RequestRejection, StreamEvent, model, split_chars};
use crate::request::RecordedRequest;
use crate::script::ReplyBehavior;
use serde_json::{Value, json};

/// Accepted parameters; others are rejected, as by the real API.
const KNOWN_PARAMS: [&str; 14] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "reasoning_effort",
];
/// Creation time of every reply.
const CREATED: u64 = 1_700_000_000;

/// Rejects what the real API rejects.
pub(crate) fn validate(request: &RecordedRequest) -> Result<(), RequestRejection> {
    let body =
        request.body.as_object().ok_or_else(|| invalid("We could not parse the JSON body.", "body"))?;
    if let Some(unknown) = body.keys().find(|key| !KNOWN_PARAMS.contains(&key.as_str())) {
        return Err(invalid(format!("Unrecognized request argument supplied: {unknown}"), unknown));
    }
    if body.get("model").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(invalid("you must provide a model parameter", "model"));
    }
    if body.contains_key("stream_options") && body.get("stream") != Some(&Value::Bool(true)) {
        return Err(invalid(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        ));
    }
    if body.contains_key("max_tokens") && body.contains_key("max_completion_tokens") {
        return Err(invalid(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            "max_tokens",
        ));
    }
    for limit in ["max_tokens", "max_completion_tokens"] {
        if body.get(limit).is_some_and(|value| value.as_u64().is_none_or(|n| n == 0)) {
            return Err(invalid(format!("Invalid '{limit}': integer above 0 expected."), limit));
        }
    }
    check_tools(body.get("tools"))?;
    let messages = body.get("messages").and_then(Value::as_array);
    check_messages(
        messages
            .filter(|list| !list.is_empty())
            .ok_or_else(|| invalid("[] is too short - 'messages'", "messages"))?,
    )
}

fn check_tools(tools: Option<&Value>) -> Result<(), RequestRejection> {
    let Some(tools) = tools else { return Ok(()) };
    let tools = tools.as_array().filter(|tools| !tools.is_empty());
    for tool in tools.ok_or_else(|| invalid("[] is too short - 'tools'", "tools"))? {
        let function = tool.get("function").filter(|_| tool.get("type") == Some(&Value::from("function")));
        let function =
            function.ok_or_else(|| invalid("Missing required parameter: 'tools[0].function'.", "tools"))?;
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty()
            || name.len() > 64
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        {
            return Err(invalid(format!("Invalid 'tools[0].function.name': '{name}'."), "tools"));
        }
        if !function.get("parameters").is_none_or(Value::is_object) {
            return Err(invalid(format!("Invalid schema for function '{name}'."), "tools"));
        }
    }
    Ok(())
}

/// Checks roles and contents, and that every tool call is followed by its result.
fn check_messages(messages: &[Value]) -> Result<(), RequestRejection> {
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let content = message.get("content");
        let has_text = content.is_some_and(|content| content.is_string() || content.is_array());
        if role == "tool" {
            let id = message.get("tool_call_id").and_then(Value::as_str).unwrap_or_default();
            let at = open.iter().position(|open| *open == id).ok_or_else(|| {
                let what =
                    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'";
                invalid(what, &format!("messages.[{index}].role"))
            })?;
            open.remove(at);
        } else if let Some(id) = open.first() {
            let what = format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {id}"
            );
            return Err(invalid(what, &format!("messages.[{index}].role")));
        }
        match role {
            "system" | "developer" | "user" | "tool" if has_text => {}
            "assistant" => open = check_calls(message, has_text, index)?,
            "system" | "developer" | "user" | "tool" => {
                return Err(invalid(format!("Missing content in message {index}."), "messages"));
            }
            other => {
                return Err(invalid(
                    format!("Invalid value: '{other}'."),
                    &format!("messages[{index}].role"),
                ));
            }
        }
    }
    match open.first() {
        Some(id) => Err(invalid(format!("No tool output found for function call {id}."), "messages")),
        None => Ok(()),
    }
}

/// The ids of an assistant message's calls.
fn check_calls(message: &Value, has_text: bool, index: usize) -> Result<Vec<&str>, RequestRejection> {
    let Some(calls) = message.get("tool_calls") else {
        let nothing = || {
            invalid(format!("Invalid value for 'content' in message {index}: expected a string."), "messages")
        };
        return if has_text { Ok(Vec::new()) } else { Err(nothing()) };
    };
    let calls = calls.as_array().filter(|calls| !calls.is_empty());
    let calls = calls
        .ok_or_else(|| invalid(format!("[] is too short - 'messages.{index}.tool_calls'"), "messages"))?;
    calls
        .iter()
        .map(|call| {
            let function = call.get("function");
            let text = |key: &str| function.and_then(|function| function.get(key)).and_then(Value::as_str);
            let id = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            let shaped = call.get("type") == Some(&Value::from("function"))
                && text("name").is_some()
                && text("arguments").is_some();
            id.filter(|_| shaped)
                .ok_or_else(|| invalid(format!("Invalid tool call in message {index}."), "messages"))
        })
        .collect()
}

/// The events of a stream.
pub(crate) fn events(said: &ReplyBehavior, request: &Value, number: usize) -> Vec<StreamEvent> {
    let wants_usage =
        request.pointer("/stream_options/include_usage") == Some(&Value::Bool(true)) && !said.no_usage;
    let chunk = |choices: Value, usage: Option<Value>| {
        let mut chunk = json!({"id": format!("chatcmpl-{number}"), "object": "chat.completion.chunk",
            "created": CREATED, "model": model(said, request), "choices": choices});
        if wants_usage {
            chunk["usage"] = usage.unwrap_or_default();
        }
        StreamEvent { name: None, data: chunk.to_string() }
    };
    let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), None);
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}))];
    if !said.text.is_empty() {
        events.extend(
            split_chars(&said.text, said.piece_chars).iter().map(|piece| delta(json!({"content": piece}))),
        );
    }
    for (index, call) in said.calls.iter().enumerate() {
        let id = call.wire_id("call", number, index);
        events.push(delta(json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": call.name, "arguments": ""}}]})));
        for piece in split_chars(&call.wire_args(), said.piece_chars) {
            events.push(delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})));
        }
    }
    events.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(said)}]), None));
    if wants_usage {
        events.push(chunk(json!([]), Some(usage(said))));
    }
    events.push(StreamEvent { name: None, data: "[DONE]".to_owned() });
    events
}

/// The reply as one object.
pub(crate) fn document(said: &ReplyBehavior, request: &Value, number: usize) -> Value {
    let mut message = json!({"role": "assistant", "content": said.text, "refusal": null});
    if !said.calls.is_empty() {
        let calls = said.calls.iter().enumerate().map(|(index, call)| {
            json!({"id": call.wire_id("call", number, index), "type": "function",
                "function": {"name": call.name, "arguments": call.wire_args()}})
        });
        message["tool_calls"] = calls.collect();
    }
    let mut answer = json!({"id": format!("chatcmpl-{number}"), "object": "chat.completion", "created": CREATED,
        "model": model(said, request),
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(said)}]});
    if !said.no_usage {
        answer["usage"] = usage(said);
    }
    answer
}

/// An error in the format of the real API.
pub(crate) fn error(status: u16, kind: Option<&str>, message: &str, param: Option<&str>) -> Value {
    let usual = match status {
        401 => "invalid_api_key",
        429 => "rate_limit_exceeded",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    let kind = kind.unwrap_or(usual);
    json!({"error": {"message": message, "type": kind, "param": param, "code": kind}})
}

fn finish_reason(said: &ReplyBehavior) -> String {
    let usual = if said.calls.is_empty() { "stop" } else { "tool_calls" };
    said.stop.clone().unwrap_or_else(|| usual.to_owned())
}

fn usage(said: &ReplyBehavior) -> Value {
    let used = said.usage;
    json!({"prompt_tokens": used.input, "completion_tokens": used.output, "total_tokens": used.input + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cached}})
}

fn invalid(message: impl Into<String>, param: &str) -> RequestRejection {
    RequestRejection::invalid(message, param)
}
