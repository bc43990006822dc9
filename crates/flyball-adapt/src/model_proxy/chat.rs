//! OpenAI chat completions: reading a request and its answer, adding a note, answering instead of the model.

use super::dialect::{Asked, event};
use super::draft::{Draft, Tokens};
use super::entry::{Call, Entry, arguments, output, string, text_of};
use crate::splice;
use serde_json::{Value, json};

/// Reads a request.
pub(super) fn read(body: &Value) -> Option<Asked> {
    let mut asked = Asked {
        user: [string(body, "user"), string(body, "prompt_cache_key"), string(body, "safety_identifier")]
            .join("\n"),
        stream_usage: body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true)),
        ..Asked::default()
    };
    for message in body.get("messages")?.as_array()? {
        let content = message.get("content");
        let entry = match message.get("role").and_then(Value::as_str).unwrap_or_default() {
            "system" | "developer" => {
                if asked.entries.is_empty() {
                    asked.system.push_str(&text_of(content));
                }
                None
            }
            "user" => Some(Entry::User { text: text_of(content), beside: false }),
            "assistant" => Entry::answer(text_of(content), calls(message)),
            "tool" => Some(Entry::Result {
                call: string(message, "tool_call_id"),
                ok: None,
                output: output(content),
            }),
            "function" => Some(Entry::Result { call: String::new(), ok: None, output: output(content) }),
            _ => None,
        };
        asked.entries.extend(entry);
    }
    Some(asked)
}

fn calls(message: &Value) -> Vec<Call> {
    let called = |function: &Value, id: String| Call {
        id,
        name: string(function, "name"),
        args: arguments(function.get("arguments").and_then(Value::as_str).unwrap_or_default()),
    };
    if let Some(function) = message.get("function_call").filter(|call| call.is_object()) {
        return vec![called(function, String::new())];
    }
    let all = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|call| match (call.get("function"), call.get("custom")) {
        (Some(function), _) => Some(called(function, string(call, "id"))),
        (None, Some(custom)) => {
            let args = arguments(&string(custom, "input"));
            Some(Call { id: string(call, "id"), name: string(custom, "name"), args })
        }
        (None, None) => None,
    })
    .collect()
}

/// Takes an event of a stream.
pub(super) fn streamed(draft: &mut Draft, data: &str) {
    if data.trim() == "[DONE]" {
        draft.ended = true;
        return;
    }
    let Ok(chunk) = serde_json::from_str::<Value>(data) else { return };
    head(draft, &chunk);
    let Some(choice) = chunk.pointer("/choices/0") else { return };
    // Of several answers the client goes on with one; the first is looked at.
    if choice.get("index").and_then(Value::as_u64).unwrap_or(0) != 0 {
        return;
    }
    draft.stopped |= choice.get("finish_reason").is_some_and(Value::is_string);
    let Some(delta) = choice.get("delta") else { return };
    draft.text.push_str(&text_of(delta.get("content")));
    if let Some(function) = delta.get("function_call").filter(|call| call.is_object())
        && let Some(call) = draft.call(0)
    {
        call.name.push_str(&string(function, "name"));
        call.args.push_str(&string(function, "arguments"));
    }
    for (at, part) in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let index = part.get("index").and_then(Value::as_u64).unwrap_or(at as u64);
        let Some(call) = draft.call(index) else { continue };
        let id = string(part, "id");
        if !id.is_empty() {
            call.id = id;
        }
        if let Some(function) = part.get("function").or_else(|| part.get("custom")) {
            call.name.push_str(&string(function, "name"));
            call.args.push_str(&string(function, "arguments"));
            call.args.push_str(&string(function, "input"));
        }
    }
}

/// Takes an answer that came as a whole.
pub(super) fn whole(draft: &mut Draft, body: &Value) {
    head(draft, body);
    let Some(message) = body.pointer("/choices/0/message") else { return };
    draft.ended = true;
    draft.text = text_of(message.get("content"));
    for (index, said) in calls(message).into_iter().enumerate() {
        let Some(call) = draft.call(index as u64) else { break };
        call.id = said.id;
        call.name = said.name;
        call.args = match said.args {
            Value::String(text) => text,
            args => args.to_string(),
        };
    }
}

fn head(draft: &mut Draft, body: &Value) {
    if draft.model.is_empty() {
        draft.model = string(body, "model");
        draft.id = string(body, "id");
    }
    if let Some(usage) = body.get("usage").filter(|usage| usage.is_object()) {
        let number = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        draft.tokens = Some(Tokens {
            input: number("/prompt_tokens"),
            output: number("/completion_tokens"),
            cached: number("/prompt_tokens_details/cached_tokens"),
            written: 0,
        });
    }
}

/// Adds a note at the end of the last message, if that is not the model's own: a message of its own between a tool's
/// result and the answer is more than some servers take.
pub(super) fn with_note(body: &[u8], note: &str) -> Option<Vec<u8>> {
    let body = std::str::from_utf8(body).ok()?;
    let message = splice::last(splice::field(body, "messages")?)?;
    if splice::field(message, "role")? == "\"assistant\"" {
        return None;
    }
    splice::add(body, splice::field(message, "content")?, note, &json!({"type": "text", "text": note}))
}

/// An answer of our own.
pub(super) fn say(asked: &Asked, text: &str, id: &str, now_s: u64) -> String {
    let usage = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
    if !asked.stream {
        let message = json!({"role": "assistant", "content": text, "refusal": null});
        let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"});
        return json!({"id": format!("chatcmpl-{id}"), "object": "chat.completion", "created": now_s,
            "model": asked.model, "choices": [choice], "usage": usage})
        .to_string();
    }
    let chunk = |choices: Value, usage: Option<&Value>| {
        let mut chunk = json!({"id": format!("chatcmpl-{id}"), "object": "chat.completion.chunk",
            "created": now_s, "model": asked.model, "choices": choices});
        if asked.stream_usage {
            chunk["usage"] = usage.cloned().unwrap_or_default();
        }
        event(None, &chunk)
    };
    let choice = |delta: Value, stop: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": stop}]);
    let mut out = chunk(choice(json!({"role": "assistant", "content": ""}), Value::Null), None);
    out.push_str(&chunk(choice(json!({"content": text}), Value::Null), None));
    out.push_str(&chunk(choice(json!({}), Value::from("stop")), None));
    if asked.stream_usage {
        out.push_str(&chunk(json!([]), Some(&usage)));
    }
    out.push_str("data: [DONE]\n\n");
    out
}
