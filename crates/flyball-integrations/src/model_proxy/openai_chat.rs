//! OpenAI Chat Completions API: parses requests and answers, adds notes and renders our own answers.

use super::entry::{ConversationEntry, ProxyToolCall, parse_arguments, str_field, text_of, tool_output};
use super::partial_answer::{PartialAnswer, ProxyTokens};
use super::protocol::{ProxyRequest, sse_event};
use crate::json_patch;
use serde_json::{Value, json};

/// Parses a request.
pub(super) fn parse_request(body: &Value) -> Option<ProxyRequest> {
    let mut request = ProxyRequest {
        user: [
            str_field(body, "user"),
            str_field(body, "prompt_cache_key"),
            str_field(body, "safety_identifier"),
        ]
        .join("\n"),
        stream_usage: body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true)),
        ..ProxyRequest::default()
    };
    for message in body.get("messages")?.as_array()? {
        let content = message.get("content");
        let entry = match message.get("role").and_then(Value::as_str).unwrap_or_default() {
            "system" | "developer" => {
                if request.entries.is_empty() {
                    request.system.push_str(&text_of(content));
                }
                None
            }
            "user" => Some(ConversationEntry::User { text: text_of(content), with_tool_results: false }),
            "assistant" => ConversationEntry::answer(text_of(content), tool_calls(message)),
            "tool" => Some(ConversationEntry::ToolResult {
                call: str_field(message, "tool_call_id"),
                ok: None,
                output: tool_output(content),
            }),
            "function" => Some(ConversationEntry::ToolResult {
                call: String::new(),
                ok: None,
                output: tool_output(content),
            }),
            _ => None,
        };
        request.entries.extend(entry);
    }
    Some(request)
}

fn tool_calls(message: &Value) -> Vec<ProxyToolCall> {
    let called = |function: &Value, id: String| ProxyToolCall {
        id,
        name: str_field(function, "name"),
        args: parse_arguments(function.get("arguments").and_then(Value::as_str).unwrap_or_default()),
    };
    if let Some(function) = message.get("function_call").filter(|call| call.is_object()) {
        return vec![called(function, String::new())];
    }
    let all = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|call| match (call.get("function"), call.get("custom")) {
        (Some(function), _) => Some(called(function, str_field(call, "id"))),
        (None, Some(custom)) => {
            let args = parse_arguments(&str_field(custom, "input"));
            Some(ProxyToolCall { id: str_field(call, "id"), name: str_field(custom, "name"), args })
        }
        (None, None) => None,
    })
    .collect()
}

/// Applies a stream event.
pub(super) fn apply_stream_event(draft: &mut PartialAnswer, data: &str) {
    if data.trim() == "[DONE]" {
        draft.complete = true;
        return;
    }
    let Ok(chunk) = serde_json::from_str::<Value>(data) else { return };
    apply_header(draft, &chunk);
    let Some(choice) = chunk.pointer("/choices/0") else { return };
    // If there are several choices, only the first one is evaluated.
    if choice.get("index").and_then(Value::as_u64).unwrap_or(0) != 0 {
        return;
    }
    draft.stopped |= choice.get("finish_reason").is_some_and(Value::is_string);
    let Some(delta) = choice.get("delta") else { return };
    draft.text.push_str(&text_of(delta.get("content")));
    if let Some(function) = delta.get("function_call").filter(|call| call.is_object())
        && let Some(call) = draft.call(0)
    {
        call.name.push_str(&str_field(function, "name"));
        call.args.push_str(&str_field(function, "arguments"));
    }
    for (at, part) in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let index = part.get("index").and_then(Value::as_u64).unwrap_or(at as u64);
        let Some(call) = draft.call(index) else { continue };
        let id = str_field(part, "id");
        if !id.is_empty() {
            call.id = id;
        }
        if let Some(function) = part.get("function").or_else(|| part.get("custom")) {
            call.name.push_str(&str_field(function, "name"));
            call.args.push_str(&str_field(function, "arguments"));
            call.args.push_str(&str_field(function, "input"));
        }
    }
}

/// Applies a complete answer.
pub(super) fn apply_full_answer(draft: &mut PartialAnswer, body: &Value) {
    apply_header(draft, body);
    let Some(message) = body.pointer("/choices/0/message") else { return };
    draft.complete = true;
    draft.text = text_of(message.get("content"));
    for (index, said) in tool_calls(message).into_iter().enumerate() {
        let Some(call) = draft.call(index as u64) else { break };
        call.id = said.id;
        call.name = said.name;
        call.args = match said.args {
            Value::String(text) => text,
            args => args.to_string(),
        };
    }
}

fn apply_header(draft: &mut PartialAnswer, body: &Value) {
    if draft.model.is_empty() {
        draft.model = str_field(body, "model");
        draft.id = str_field(body, "id");
    }
    if let Some(usage) = body.get("usage").filter(|usage| usage.is_object()) {
        let number = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        draft.tokens = Some(ProxyTokens {
            input: number("/prompt_tokens"),
            output: number("/completion_tokens"),
            cache_read: number("/prompt_tokens_details/cached_tokens"),
            cache_written: 0,
        });
    }
}

/// Appends a note to the last message, unless the model wrote it. Some servers reject a separate message between a tool
/// result and the answer.
pub(super) fn with_note(body: &[u8], note: &str) -> Option<Vec<u8>> {
    let body = std::str::from_utf8(body).ok()?;
    let message = json_patch::last_element(json_patch::field(body, "messages")?)?;
    if json_patch::field(message, "role")? == "\"assistant\"" {
        return None;
    }
    json_patch::append_text(
        body,
        json_patch::field(message, "content")?,
        note,
        &json!({"type": "text", "text": note}),
    )
}

/// Renders our own answer.
pub(super) fn render_answer(request: &ProxyRequest, text: &str, id: &str, now_s: u64) -> String {
    let usage = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
    if !request.stream {
        let message = json!({"role": "assistant", "content": text, "refusal": null});
        let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"});
        return json!({"id": format!("chatcmpl-{id}"), "object": "chat.completion", "created": now_s,
            "model": request.model, "choices": [choice], "usage": usage})
        .to_string();
    }
    let chunk = |choices: Value, usage: Option<&Value>| {
        let mut chunk = json!({"id": format!("chatcmpl-{id}"), "object": "chat.completion.chunk",
            "created": now_s, "model": request.model, "choices": choices});
        if request.stream_usage {
            chunk["usage"] = usage.cloned().unwrap_or_default();
        }
        sse_event(None, &chunk)
    };
    let choice = |delta: Value, stop: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": stop}]);
    let mut out = chunk(choice(json!({"role": "assistant", "content": ""}), Value::Null), None);
    out.push_str(&chunk(choice(json!({"content": text}), Value::Null), None));
    out.push_str(&chunk(choice(json!({}), Value::from("stop")), None));
    if request.stream_usage {
        out.push_str(&chunk(json!([]), Some(&usage)));
    }
    out.push_str("data: [DONE]\n\n");
    out
}
