//! OpenAI responses: reading a request and its answer, adding a note, answering instead of the model.

use super::dialect::{Asked, event};
use super::draft::{Draft, Tokens};
use super::entry::{Call, Entry, arguments, output, string, text_of};
use crate::splice;
use serde_json::{Value, json};

/// Reads a request.
pub(super) fn read(body: &Value) -> Option<Asked> {
    let named =
        |value: &Value| value.as_str().or_else(|| value.get("id").and_then(Value::as_str)).map(str::to_owned);
    let mut asked = Asked {
        system: text_of(body.get("instructions")),
        user: [string(body, "user"), string(body, "prompt_cache_key"), string(body, "safety_identifier")]
            .join("\n"),
        name: body.get("conversation").and_then(named),
        kept: body.get("conversation").is_some_and(|kept| !kept.is_null()),
        previous: body.get("previous_response_id").and_then(named),
        ..Asked::default()
    };
    match body.get("input")? {
        Value::String(text) => asked.entries.push(Entry::User { text: text.clone(), beside: false }),
        Value::Array(items) => items_of(items, &mut asked),
        _ => return None,
    }
    Some(asked)
}

/// What the items say. What the model said and called in one go is one answer.
fn items_of(items: &[Value], asked: &mut Asked) {
    let mut answer: Option<(String, Vec<Call>)> = None;
    for item in items {
        let content = item.get("content");
        let role = item.get("role").and_then(Value::as_str).unwrap_or_default();
        let kind = item.get("type").and_then(Value::as_str).unwrap_or("message");
        let entry = match (kind, role) {
            ("message", "assistant") => {
                answer.get_or_insert_default().0.push_str(&text_of(content));
                continue;
            }
            ("message", "user") => Entry::User { text: text_of(content), beside: false },
            ("message", _) => {
                if asked.entries.is_empty() {
                    asked.system.push_str(&text_of(content));
                }
                continue;
            }
            _ if call(item).is_some() => {
                answer.get_or_insert_default().1.extend(call(item));
                continue;
            }
            (kind, _) if kind.ends_with("_call_output") => {
                let ok = (item.get("status") == Some(&Value::from("failed"))).then_some(false);
                Entry::Result { call: string(item, "call_id"), ok, output: output(item.get("output")) }
            }
            _ => continue,
        };
        let said = answer.take().and_then(|(text, calls)| Entry::answer(text, calls));
        asked.entries.extend(said);
        asked.entries.push(entry);
    }
    asked.entries.extend(answer.and_then(|(text, calls)| Entry::answer(text, calls)));
}

/// The call that an item is, if the client runs it.
fn call(item: &Value) -> Option<Call> {
    let kind = item.get("type").and_then(Value::as_str)?;
    let (name, args) = match kind {
        "function_call" => (string(item, "name"), arguments(&string(item, "arguments"))),
        "custom_tool_call" => (string(item, "name"), arguments(&string(item, "input"))),
        "local_shell_call" | "shell_call" | "apply_patch_call" | "computer_call" => {
            let args = item.get("action").or_else(|| item.get("operation")).cloned().unwrap_or_default();
            (kind.trim_end_matches("_call").to_owned(), args)
        }
        _ => return None,
    };
    Some(Call { id: string(item, "call_id"), name, args })
}

/// Takes an event of a stream. The last event brings the whole answer; those before it are for answers that break off.
pub(super) fn streamed(draft: &mut Draft, data: &str) {
    let Ok(event) = serde_json::from_str::<Value>(data) else { return };
    match event.get("type").and_then(Value::as_str).unwrap_or_default() {
        "response.created" => {
            if let Some(response) = event.get("response") {
                draft.id = string(response, "id");
                draft.model = string(response, "model");
            }
        }
        "response.output_item.done" => {
            if let Some(item) = event.get("item") {
                take_item(draft, item);
            }
        }
        "response.completed" | "response.incomplete" | "response.failed" => {
            let Some(response) = event.get("response") else { return };
            // Some servers leave the output out at the end.
            let listed =
                response.get("output").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
            if listed {
                draft.text.clear();
                draft.calls.clear();
            }
            whole(draft, response);
            draft.ended = true;
        }
        _ => {}
    }
}

/// Takes an answer that came as a whole.
pub(super) fn whole(draft: &mut Draft, body: &Value) {
    draft.id = string(body, "id");
    draft.model = string(body, "model");
    if let Some(items) = body.get("output").and_then(Value::as_array) {
        items.iter().for_each(|item| take_item(draft, item));
        draft.ended = true;
    }
    if let Some(usage) = body.get("usage").filter(|usage| usage.is_object()) {
        let number = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        draft.tokens = Some(Tokens {
            input: number("/input_tokens"),
            output: number("/output_tokens"),
            cached: number("/input_tokens_details/cached_tokens"),
            written: 0,
        });
    }
}

fn take_item(draft: &mut Draft, item: &Value) {
    if item.get("type") == Some(&Value::from("message")) {
        draft.text.push_str(&text_of(item.get("content")));
    } else if let Some(said) = call(item)
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

/// Adds a note as an item of its own at the end of the input, or at the end of an input that is one text.
pub(super) fn with_note(body: &[u8], note: &str) -> Option<Vec<u8>> {
    let body = std::str::from_utf8(body).ok()?;
    let item = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": note}]});
    splice::add(body, splice::field(body, "input")?, note, &item)
}

/// An answer of our own.
pub(super) fn say(asked: &Asked, text: &str, id: &str, now_s: u64) -> String {
    let item_id = format!("msg_{id}");
    let part = |text: &str| json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
    let item = |status: &str, content: Value| json!({"type": "message", "id": item_id, "status": status, "role": "assistant", "content": content});
    let response = |status: &str, output: Value, usage: Value| {
        json!({"id": format!("resp_{id}"), "object": "response", "created_at": now_s, "status": status,
            "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
            "model": asked.model, "output": output, "parallel_tool_calls": true, "temperature": null,
            "tool_choice": "auto", "tools": [], "top_p": null, "previous_response_id": asked.previous,
            "usage": usage})
    };
    let usage = json!({"input_tokens": 0, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0});
    let done = response("completed", json!([item("completed", json!([part(text)]))]), usage);
    if !asked.stream {
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
        event(Some(name), &data)
    });
    written.collect()
}

fn with(object: &Value, key: &str, value: Value) -> Value {
    let mut object = object.clone();
    object[key] = value;
    object
}
