//! Anthropic messages: reading a request and its answer, adding a note, answering instead of the model.

use super::dialect::{Asked, event};
use super::draft::Draft;
use super::entry::{Call, Entry, output, string, text_of};
use crate::splice;
use serde_json::{Value, json};

/// Reads a request.
pub(super) fn read(body: &Value) -> Option<Asked> {
    let user = body.pointer("/metadata/user_id").and_then(Value::as_str).unwrap_or_default();
    let mut asked = Asked {
        system: text_of(body.get("system")),
        user: user.to_owned(),
        name: session_in(user),
        ..Asked::default()
    };
    for message in body.get("messages")?.as_array()? {
        let content = message.get("content");
        match message.get("role").and_then(Value::as_str).unwrap_or_default() {
            "user" => user_entries(content, &mut asked.entries),
            "assistant" => {
                let blocks = content.and_then(Value::as_array).into_iter().flatten();
                let calls = blocks.filter(|block| block.get("type") == Some(&Value::from("tool_use")));
                let calls = calls.map(|block| Call {
                    id: string(block, "id"),
                    name: string(block, "name"),
                    args: block.get("input").cloned().unwrap_or_default(),
                });
                let calls = calls.collect();
                asked.entries.extend(Entry::answer(said(content), calls));
            }
            _ => {}
        }
    }
    Some(asked)
}

/// The session inside the user id of a coding agent: `…_session_ID`, or an object with a `session_id`.
fn session_in(user: &str) -> Option<String> {
    let named = |id: &str| (!id.is_empty() && id.len() <= 128).then(|| id.to_owned());
    if let Ok(object) = serde_json::from_str::<Value>(user)
        && let Some(id) = object.get("session_id").and_then(Value::as_str)
    {
        return named(id);
    }
    named(user.rsplit_once("_session_")?.1)
}

/// What a message of the user brings: results first, then what was said.
fn user_entries(content: Option<&Value>, entries: &mut Vec<Entry>) {
    let Some(blocks) = content.and_then(Value::as_array) else {
        return entries.push(Entry::User { text: text_of(content), beside: false });
    };
    let before = entries.len();
    for block in blocks.iter().filter(|block| block.get("type") == Some(&Value::from("tool_result"))) {
        let ok = block.get("is_error").and_then(Value::as_bool).map(|error| !error);
        entries.push(Entry::Result {
            call: string(block, "tool_use_id"),
            ok,
            output: output(block.get("content")),
        });
    }
    let beside = entries.len() > before;
    let text = said(content);
    if !beside || !text.is_empty() {
        entries.push(Entry::User { text, beside });
    }
}

/// The texts among the blocks of a content, and nothing of what tools gave back.
fn said(content: Option<&Value>) -> String {
    let Some(Value::Array(blocks)) = content else { return text_of(content) };
    let texts = blocks.iter().filter(|block| block.get("type") == Some(&Value::from("text")));
    let texts: Vec<&str> = texts.filter_map(|block| block.get("text").and_then(Value::as_str)).collect();
    texts.join("\n")
}

/// Takes an event of a stream.
pub(super) fn streamed(draft: &mut Draft, data: &str) {
    let Ok(event) = serde_json::from_str::<Value>(data) else { return };
    let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
    match event.get("type").and_then(Value::as_str).unwrap_or_default() {
        "message_start" => {
            if let Some(message) = event.get("message") {
                head(draft, message);
            }
        }
        "content_block_start" => {
            let Some(block) = event.get("content_block") else { return };
            match block.get("type").and_then(Value::as_str) {
                Some("tool_use") => {
                    let Some(call) = draft.call(index) else { return };
                    call.id = string(block, "id");
                    call.name = string(block, "name");
                    // Some servers send it whole, and no pieces.
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
                Some("text_delta") => draft.text.push_str(&string(delta, "text")),
                Some("input_json_delta") => {
                    // Tools that the provider runs itself have pieces too, but no call.
                    if let Some(call) = draft.calls.iter_mut().find(|call| call.index == index) {
                        call.args.push_str(&string(delta, "partial_json"));
                    }
                }
                _ => {}
            }
        }
        "message_delta" => usage(draft, event.get("usage")),
        "message_stop" => draft.ended = true,
        _ => {}
    }
}

/// Takes an answer that came as a whole.
pub(super) fn whole(draft: &mut Draft, body: &Value) {
    head(draft, body);
    let Some(blocks) = body.get("content").and_then(Value::as_array) else { return };
    draft.ended = true;
    draft.text = said(body.get("content"));
    for (index, block) in blocks.iter().enumerate() {
        if block.get("type") != Some(&Value::from("tool_use")) {
            continue;
        }
        let Some(call) = draft.call(index as u64) else { break };
        call.id = string(block, "id");
        call.name = string(block, "name");
        call.args = block.get("input").map(Value::to_string).unwrap_or_default();
    }
}

fn head(draft: &mut Draft, message: &Value) {
    draft.id = string(message, "id");
    draft.model = string(message, "model");
    usage(draft, message.get("usage"));
}

/// Later numbers replace earlier ones; what is read from the cache or written to it is not among the `input_tokens`.
fn usage(draft: &mut Draft, usage: Option<&Value>) {
    let Some(usage) = usage.and_then(Value::as_object).filter(|usage| !usage.is_empty()) else { return };
    let number = |name: &str| usage.get(name).and_then(Value::as_u64);
    let mut tokens = draft.tokens.unwrap_or_default();
    let mut fresh = tokens.input.saturating_sub(tokens.cached).saturating_sub(tokens.written);
    fresh = number("input_tokens").unwrap_or(fresh);
    tokens.cached = number("cache_read_input_tokens").unwrap_or(tokens.cached);
    tokens.written = number("cache_creation_input_tokens").unwrap_or(tokens.written);
    tokens.output = number("output_tokens").unwrap_or(tokens.output);
    tokens.input = fresh.saturating_add(tokens.cached).saturating_add(tokens.written);
    draft.tokens = Some(tokens);
}

/// Adds a note as the last text of the last message, after the tool results, if that message is the user's.
pub(super) fn with_note(body: &[u8], note: &str) -> Option<Vec<u8>> {
    let body = std::str::from_utf8(body).ok()?;
    let message = splice::last(splice::field(body, "messages")?)?;
    if splice::field(message, "role")? != "\"user\"" {
        return None;
    }
    splice::add(body, splice::field(message, "content")?, note, &json!({"type": "text", "text": note}))
}

/// An answer of our own.
pub(super) fn say(asked: &Asked, text: &str, id: &str) -> String {
    let usage = json!({"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        "output_tokens": 0});
    let message = |content: Value, stop: Value| {
        json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": asked.model,
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage})
    };
    if !asked.stream {
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
        event(Some(name), &data)
    });
    written.collect()
}
