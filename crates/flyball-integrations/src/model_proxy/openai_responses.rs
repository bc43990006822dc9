//! OpenAI Responses API: parses requests and answers, adds notes and renders our own answers.

use super::entry::{ConversationEntry, ProxyToolCall, parse_arguments, str_field, text_of, tool_output};
use super::partial_answer::{PartialAnswer, ProxyTokens};
use super::protocol::{ProxyRequest, sse_event};
use crate::json_patch;
use serde_json::{Value, json};

/// Parses a request.
pub(super) fn parse_request(body: &Value) -> Option<ProxyRequest> {
    let named =
        |value: &Value| value.as_str().or_else(|| value.get("id").and_then(Value::as_str)).map(str::to_owned);
    let mut request = ProxyRequest {
        system: text_of(body.get("instructions")),
        user: [
            str_field(body, "user"),
            str_field(body, "prompt_cache_key"),
            str_field(body, "safety_identifier"),
        ]
        .join("\n"),
        conversation_name: body.get("conversation").and_then(named),
        history_kept: body.get("conversation").is_some_and(|kept| !kept.is_null()),
        previous_answer: body.get("previous_response_id").and_then(named),
        ..ProxyRequest::default()
    };
    match body.get("input")? {
        Value::String(text) => {
            request.entries.push(ConversationEntry::User { text: text.clone(), with_tool_results: false })
        }
        Value::Array(items) => parse_items(items, &mut request),
        _ => return None,
    }
    Some(request)
}

/// Parses input items. Consecutive output items of the model form one answer.
fn parse_items(items: &[Value], request: &mut ProxyRequest) {
    let mut answer: Option<(String, Vec<ProxyToolCall>)> = None;
    for item in items {
        let content = item.get("content");
        let role = item.get("role").and_then(Value::as_str).unwrap_or_default();
        let kind = item.get("type").and_then(Value::as_str).unwrap_or("message");
        let entry = match (kind, role) {
            ("message", "assistant") => {
                answer.get_or_insert_default().0.push_str(&text_of(content));
                continue;
            }
            ("message", "user") => {
                ConversationEntry::User { text: text_of(content), with_tool_results: false }
            }
            ("message", _) => {
                if request.entries.is_empty() {
                    request.system.push_str(&text_of(content));
                }
                continue;
            }
            _ if tool_call(item).is_some() => {
                answer.get_or_insert_default().1.extend(tool_call(item));
                continue;
            }
            (kind, _) if kind.ends_with("_call_output") => {
                let ok = (item.get("status") == Some(&Value::from("failed"))).then_some(false);
                ConversationEntry::ToolResult {
                    call: str_field(item, "call_id"),
                    ok,
                    output: tool_output(item.get("output")),
                }
            }
            _ => continue,
        };
        let said = answer.take().and_then(|(text, calls)| ConversationEntry::answer(text, calls));
        request.entries.extend(said);
        request.entries.push(entry);
    }
    request.entries.extend(answer.and_then(|(text, calls)| ConversationEntry::answer(text, calls)));
}

/// The call in an item, if the client runs it.
fn tool_call(item: &Value) -> Option<ProxyToolCall> {
    let kind = item.get("type").and_then(Value::as_str)?;
    let (name, args) = match kind {
        "function_call" => (str_field(item, "name"), parse_arguments(&str_field(item, "arguments"))),
        "custom_tool_call" => (str_field(item, "name"), parse_arguments(&str_field(item, "input"))),
        "local_shell_call" | "shell_call" | "apply_patch_call" | "computer_call" => {
            let args = item.get("action").or_else(|| item.get("operation")).cloned().unwrap_or_default();
            (kind.trim_end_matches("_call").to_owned(), args)
        }
        _ => return None,
    };
    Some(ProxyToolCall { id: str_field(item, "call_id"), name, args })
}

/// Applies a stream event. The last event contains the whole answer; earlier ones matter only if it is cut off.
pub(super) fn apply_stream_event(draft: &mut PartialAnswer, data: &str) {
    let Ok(event) = serde_json::from_str::<Value>(data) else { return };
    match event.get("type").and_then(Value::as_str).unwrap_or_default() {
        "response.created" => {
            if let Some(response) = event.get("response") {
                draft.id = str_field(response, "id");
                draft.model = str_field(response, "model");
            }
        }
        "response.output_item.done" => {
            if let Some(item) = event.get("item") {
                apply_item(draft, item);
            }
        }
        "response.completed" | "response.incomplete" | "response.failed" => {
            let Some(response) = event.get("response") else { return };
            // Some servers omit the output in the last event.
            let listed =
                response.get("output").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
            if listed {
                draft.text.clear();
                draft.calls.clear();
            }
            apply_full_answer(draft, response);
            draft.complete = true;
        }
        _ => {}
    }
}

/// Applies a complete answer.
pub(super) fn apply_full_answer(draft: &mut PartialAnswer, body: &Value) {
    draft.id = str_field(body, "id");
    draft.model = str_field(body, "model");
    if let Some(items) = body.get("output").and_then(Value::as_array) {
        items.iter().for_each(|item| apply_item(draft, item));
        draft.complete = true;
    }
    if let Some(usage) = body.get("usage").filter(|usage| usage.is_object()) {
        let number = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        draft.tokens = Some(ProxyTokens {
            input: number("/input_tokens"),
            output: number("/output_tokens"),
            cache_read: number("/input_tokens_details/cached_tokens"),
            cache_written: 0,
        });
    }
}

fn apply_item(draft: &mut PartialAnswer, item: &Value) {
    if item.get("type") == Some(&Value::from("message")) {
        draft.text.push_str(&text_of(item.get("content")));
    } else if let Some(said) = tool_call(item)
        && let Some(call) = draft.call(draft.calls.len() as u64)
    {
        call.id = said.id;
        call.name = said.name;
        call.args = match said.args {
            Value::String(text) => text,
            args => args.to_string(),
        };
    }
}

/// Appends a note as a separate item at the end of the input, or to the text if the input is a string.
pub(super) fn with_note(body: &[u8], note: &str) -> Option<Vec<u8>> {
    let body = std::str::from_utf8(body).ok()?;
    let item = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": note}]});
    json_patch::append_text(body, json_patch::field(body, "input")?, note, &item)
}

/// Renders our own answer.
pub(super) fn render_answer(request: &ProxyRequest, text: &str, id: &str, now_s: u64) -> String {
    let item_id = format!("msg_{id}");
    let part = |text: &str| json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
    let item = |status: &str, content: Value| json!({"type": "message", "id": item_id, "status": status, "role": "assistant", "content": content});
    let response = |status: &str, output: Value, usage: Value| {
        json!({"id": format!("resp_{id}"), "object": "response", "created_at": now_s, "status": status,
            "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
            "model": request.model, "output": output, "parallel_tool_calls": true, "temperature": null,
            "tool_choice": "auto", "tools": [], "top_p": null, "previous_response_id": request.previous_answer,
            "usage": usage})
    };
    let usage = json!({"input_tokens": 0, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0});
    let done = response("completed", json!([item("completed", json!([part(text)]))]), usage);
    if !request.stream {
        return done.to_string();
    }
    let begun = response("in_progress", json!([]), Value::Null);
    let at = json!({"item_id": item_id, "output_index": 0, "content_index": 0});
    let events = [
        ("response.created", json!({"response": begun})),
        ("response.in_progress", json!({"response": begun})),
        ("response.output_item.added", json!({"output_index": 0, "item": item("in_progress", json!([]))})),
        ("response.content_part.added", with(&at, "part", part(""))),
        ("response.output_text.delta", with(&with(&at, "delta", json!(text)), "logprobs", json!([]))),
        ("response.output_text.done", with(&with(&at, "text", json!(text)), "logprobs", json!([]))),
        ("response.content_part.done", with(&at, "part", part(text))),
        (
            "response.output_item.done",
            json!({"output_index": 0, "item": item("completed", json!([part(text)]))}),
        ),
        ("response.completed", json!({"response": done})),
    ];
    let written = events.into_iter().enumerate().map(|(number, (name, mut data))| {
        data["type"] = Value::from(name);
        data["sequence_number"] = Value::from(number);
        sse_event(Some(name), &data)
    });
    written.collect()
}

fn with(object: &Value, key: &str, value: Value) -> Value {
    let mut object = object.clone();
    object[key] = value;
    object
}
