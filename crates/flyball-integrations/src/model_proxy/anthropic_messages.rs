//! Anthropic Messages API: parses requests and answers, adds notes and renders our own answers.

use super::entry::{ConversationEntry, ProxyToolCall, str_field, text_of, tool_output};
use super::partial_answer::PartialAnswer;
use super::protocol::{ProxyRequest, sse_event};
use crate::json_patch;
use serde_json::{Value, json};

/// Parses a request.
pub(super) fn parse_request(body: &Value) -> Option<ProxyRequest> {
    let user = body.pointer("/metadata/user_id").and_then(Value::as_str).unwrap_or_default();
    let mut request = ProxyRequest {
        system: text_of(body.get("system")),
        user: user.to_owned(),
        conversation_name: session_from_user_id(user),
        ..ProxyRequest::default()
    };
    for message in body.get("messages")?.as_array()? {
        let content = message.get("content");
        match message.get("role").and_then(Value::as_str).unwrap_or_default() {
            "user" => user_entries(content, &mut request.entries),
            "assistant" => {
                let blocks = content.and_then(Value::as_array).into_iter().flatten();
                let calls = blocks.filter(|block| block.get("type") == Some(&Value::from("tool_use")));
                let calls = calls.map(|block| ProxyToolCall {
                    id: str_field(block, "id"),
                    name: str_field(block, "name"),
                    args: block.get("input").cloned().unwrap_or_default(),
                });
                let calls = calls.collect();
                request.entries.extend(ConversationEntry::answer(text_blocks(content), calls));
            }
            _ => {}
        }
    }
    Some(request)
}

/// The session in a coding agent's user id: `…_session_ID`, or an object with `session_id`.
fn session_from_user_id(user: &str) -> Option<String> {
    let named = |id: &str| (!id.is_empty() && id.len() <= 128).then(|| id.to_owned());
    if let Ok(object) = serde_json::from_str::<Value>(user)
        && let Some(id) = object.get("session_id").and_then(Value::as_str)
    {
        return named(id);
    }
    named(user.rsplit_once("_session_")?.1)
}

/// The entries of a user message: tool results first, then text.
fn user_entries(content: Option<&Value>, entries: &mut Vec<ConversationEntry>) {
    let Some(blocks) = content.and_then(Value::as_array) else {
        return entries.push(ConversationEntry::User { text: text_of(content), with_tool_results: false });
    };
    let before = entries.len();
    for block in blocks.iter().filter(|block| block.get("type") == Some(&Value::from("tool_result"))) {
        let ok = block.get("is_error").and_then(Value::as_bool).map(|error| !error);
        entries.push(ConversationEntry::ToolResult {
            call: str_field(block, "tool_use_id"),
            ok,
            output: tool_output(block.get("content")),
        });
    }
    let beside = entries.len() > before;
    let text = text_blocks(content);
    if !beside || !text.is_empty() {
        entries.push(ConversationEntry::User { text, with_tool_results: beside });
    }
}

/// The text blocks of a message, without tool results.
fn text_blocks(content: Option<&Value>) -> String {
    let Some(Value::Array(blocks)) = content else { return text_of(content) };
    let texts = blocks.iter().filter(|block| block.get("type") == Some(&Value::from("text")));
    let texts: Vec<&str> = texts.filter_map(|block| block.get("text").and_then(Value::as_str)).collect();
    texts.join("\n")
}

/// Applies a stream event.
pub(super) fn apply_stream_event(draft: &mut PartialAnswer, data: &str) {
    let Ok(event) = serde_json::from_str::<Value>(data) else { return };
    let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
    match event.get("type").and_then(Value::as_str).unwrap_or_default() {
        "message_start" => {
            if let Some(message) = event.get("message") {
                apply_header(draft, message);
            }
        }
        "content_block_start" => {
            let Some(block) = event.get("content_block") else { return };
            match block.get("type").and_then(Value::as_str) {
                Some("tool_use") => {
                    let Some(call) = draft.call(index) else { return };
                    call.id = str_field(block, "id");
                    call.name = str_field(block, "name");
                    // Some servers send the complete input at once, without deltas.
                    if let Some(input) =
                        block.get("input").and_then(Value::as_object).filter(|i| !i.is_empty())
                    {
                        call.args = Value::Object(input.clone()).to_string();
                    }
                }
                Some("text") if !draft.text.is_empty() => draft.text.push('\n'),
                _ => {}
            }
        }
        "content_block_delta" => {
            let Some(delta) = event.get("delta") else { return };
            match delta.get("type").and_then(Value::as_str) {
                Some("text_delta") => draft.text.push_str(&str_field(delta, "text")),
                Some("input_json_delta") => {
                    // Server-side tools send deltas too, but have no call here.
                    if let Some(call) = draft.calls.iter_mut().find(|call| call.index == index) {
                        call.args.push_str(&str_field(delta, "partial_json"));
                    }
                }
                _ => {}
            }
        }
        "message_delta" => apply_usage(draft, event.get("usage")),
        "message_stop" => draft.complete = true,
        _ => {}
    }
}

/// Applies a complete answer.
pub(super) fn apply_full_answer(draft: &mut PartialAnswer, body: &Value) {
    apply_header(draft, body);
    let Some(blocks) = body.get("content").and_then(Value::as_array) else { return };
    draft.complete = true;
    draft.text = text_blocks(body.get("content"));
    for (index, block) in blocks.iter().enumerate() {
        if block.get("type") != Some(&Value::from("tool_use")) {
            continue;
        }
        let Some(call) = draft.call(index as u64) else { break };
        call.id = str_field(block, "id");
        call.name = str_field(block, "name");
        call.args = block.get("input").map(Value::to_string).unwrap_or_default();
    }
}

fn apply_header(draft: &mut PartialAnswer, message: &Value) {
    draft.id = str_field(message, "id");
    draft.model = str_field(message, "model");
    apply_usage(draft, message.get("usage"));
}

/// Applies token usage; later values replace earlier ones. `input_tokens` does not include cache reads and writes.
fn apply_usage(draft: &mut PartialAnswer, usage: Option<&Value>) {
    let Some(usage) = usage.and_then(Value::as_object).filter(|usage| !usage.is_empty()) else { return };
    let number = |name: &str| usage.get(name).and_then(Value::as_u64);
    let mut tokens = draft.tokens.unwrap_or_default();
    let mut fresh = tokens.input.saturating_sub(tokens.cache_read).saturating_sub(tokens.cache_written);
    fresh = number("input_tokens").unwrap_or(fresh);
    tokens.cache_read = number("cache_read_input_tokens").unwrap_or(tokens.cache_read);
    tokens.cache_written = number("cache_creation_input_tokens").unwrap_or(tokens.cache_written);
    tokens.output = number("output_tokens").unwrap_or(tokens.output);
    tokens.input = fresh.saturating_add(tokens.cache_read).saturating_add(tokens.cache_written);
    draft.tokens = Some(tokens);
}

/// Appends a note as the last text of the last message, after the tool results, if it is a user message.
pub(super) fn with_note(body: &[u8], note: &str) -> Option<Vec<u8>> {
    let body = std::str::from_utf8(body).ok()?;
    let message = json_patch::last_element(json_patch::field(body, "messages")?)?;
    if json_patch::field(message, "role")? != "\"user\"" {
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
pub(super) fn render_answer(request: &ProxyRequest, text: &str, id: &str) -> String {
    let usage = json!({"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        "output_tokens": 0});
    let message = |content: Value, stop: Value| {
        json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": request.model,
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage})
    };
    if !request.stream {
        return message(json!([{"type": "text", "text": text}]), json!("end_turn")).to_string();
    }
    let block = json!({"type": "text", "text": ""});
    let events = [
        ("message_start", json!({"message": message(json!([]), Value::Null)})),
        ("content_block_start", json!({"index": 0, "content_block": block})),
        ("content_block_delta", json!({"index": 0, "delta": {"type": "text_delta", "text": text}})),
        ("content_block_stop", json!({"index": 0})),
        (
            "message_delta",
            json!({"delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": usage}),
        ),
        ("message_stop", json!({})),
    ];
    let written = events.into_iter().map(|(name, mut data)| {
        data["type"] = Value::from(name);
        sse_event(Some(name), &data)
    });
    written.collect()
}
