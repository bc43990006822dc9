//! Anthropic messages.

use super::conversation::{Part, ordered};
use super::draft::{Draft, Tokens};
use super::limits::ANTHROPIC_MAX_TOKENS;
use super::message::{Request, Stop, ToolSpec};
use super::remote::{Adjusted, Protocol, Trouble, reported};
use super::secret::Key;
use serde_json::{Map, Value, json};

/// What the protocol wants to hear first if the conversation begins with the model.
const EARLIER: &str = "(earlier messages are not shown)";

/// Ids longer than this are replaced: no provider makes such, and none is bound to take them.
const MAX_ID: usize = 64;

/// The protocol.
#[derive(Debug)]
pub(super) struct Anthropic {
    /// The header `anthropic-version`.
    pub(super) version: String,
}

impl Protocol for Anthropic {
    fn headers(&self, key: &Key) -> Vec<(String, String)> {
        let mut headers = vec![("anthropic-version".to_owned(), self.version.clone())];
        headers.extend(key.reveal().map(|key| ("x-api-key".to_owned(), key.to_owned())));
        headers
    }

    fn body(
        &self,
        _: &str,
        adjusted: &Adjusted,
        request: &Request,
        max_tokens: Option<u64>,
    ) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("max_tokens".to_owned(), Value::from(max_tokens.unwrap_or(ANTHROPIC_MAX_TOKENS)));
        body.insert("messages".to_owned(), messages(request));
        if let Some(system) = request.system.as_ref().filter(|system| !system.trim().is_empty()) {
            body.insert("system".to_owned(), Value::from(system.as_str()));
        }
        if !request.tools.is_empty() {
            let tool = |tool: &ToolSpec| {
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

    fn event(
        &self,
        _: &str,
        data: &str,
        draft: &mut Draft,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), Trouble> {
        let event: Value = serde_json::from_str(data).map_err(|error| Trouble::NotJson(error.to_string()))?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
        match text("/type") {
            "message_start" => message(event.get("message"), draft),
            "content_block_start" => {
                block(event.get("content_block").unwrap_or(&Value::Null), index, draft, on_text)
                    .map_err(Trouble::Shape)?;
            }
            "content_block_delta" => match text("/delta/type") {
                "text_delta" => draft.say(text("/delta/text"), on_text),
                "input_json_delta" => {
                    draft.call(index).map_err(Trouble::Shape)?.args.push_str(text("/delta/partial_json"));
                }
                // Thoughts, signatures, citations, and what is invented later.
                _ => {}
            },
            "message_delta" => {
                if let Some(reason) = event.pointer("/delta/stop_reason").and_then(Value::as_str) {
                    draft.stop = Some(Stop::from_word(reason));
                }
                counted(event.get("usage"), draft);
            }
            "message_stop" => draft.ended = true,
            "error" => reported(&event)?,
            // `ping`, `content_block_stop`, and what is invented later.
            _ => {}
        }
        Ok(())
    }

    fn whole(&self, answer: &Value, draft: &mut Draft, on_text: &mut dyn FnMut(&str)) -> Result<(), Trouble> {
        reported(answer)?;
        message(Some(answer), draft);
        let content = answer.get("content").and_then(Value::as_array);
        let content = content.ok_or_else(|| Trouble::Shape("the answer has no content".to_owned()))?;
        for (index, part) in (0..).zip(content) {
            block(part, index, draft, on_text).map_err(Trouble::Shape)?;
        }
        draft.stop = answer.get("stop_reason").and_then(Value::as_str).map(Stop::from_word);
        draft.ended = true;
        Ok(())
    }
}

/// Which model it is and what it counted so far.
fn message(message: Option<&Value>, draft: &mut Draft) {
    let Some(message) = message else { return };
    if let Some(model) = message.get("model").and_then(Value::as_str).filter(|model| !model.is_empty()) {
        draft.model = Some(model.to_owned());
    }
    counted(message.get("usage"), draft);
}

/// What is read from the cache or written to it is counted beside the input, not in it.
fn counted(usage: Option<&Value>, draft: &mut Draft) {
    let count = |name: &str| usage.and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    let mut tokens = draft.tokens.unwrap_or_default();
    let fresh = tokens.input.saturating_sub(tokens.cached).saturating_sub(tokens.cache_write);
    let fresh = count("input_tokens").unwrap_or(fresh);
    tokens.cached = count("cache_read_input_tokens").unwrap_or(tokens.cached);
    tokens.cache_write = count("cache_creation_input_tokens").unwrap_or(tokens.cache_write);
    tokens.input = fresh.saturating_add(tokens.cached).saturating_add(tokens.cache_write);
    tokens.output = count("output_tokens").unwrap_or(tokens.output);
    if tokens != Tokens::default() {
        draft.tokens = Some(tokens);
    }
}

/// A block of content, whole or at its beginning.
fn block(block: &Value, index: u64, draft: &mut Draft, on_text: &mut dyn FnMut(&str)) -> Result<(), String> {
    let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "text" => draft.say(text("text"), on_text),
        "tool_use" => {
            let call = draft.call(index)?;
            call.id = text("id").to_owned();
            call.name = text("name").to_owned();
            // A stream begins with an empty object and sends the arguments in pieces.
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

/// The messages, roles in turn: what follows on each other from the same side is one message.
fn messages(request: &Request) -> Value {
    let mut messages = Messages::default();
    for (index, part) in ordered(&request.messages).into_iter().enumerate() {
        match part {
            Part::User(text) => messages.add("user", json!({"type": "text", "text": text})),
            Part::Assistant { text, calls } => {
                if !text.trim().is_empty() {
                    messages.add("assistant", json!({"type": "text", "text": text.trim_end()}));
                }
                for (at, (call, _)) in calls.iter().enumerate() {
                    let input =
                        if call.args.is_object() { call.args.clone() } else { json!({"value": call.args}) };
                    let id = accepted(&call.id, index, at);
                    messages.add(
                        "assistant",
                        json!({"type": "tool_use", "id": id, "name": call.name, "input": input}),
                    );
                }
                for (at, (call, outcome)) in calls.iter().enumerate() {
                    let id = accepted(&call.id, index, at);
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
struct Messages(Vec<Value>);

impl Messages {
    fn add(&mut self, role: &str, block: Value) {
        if self.0.is_empty() && role == "assistant" {
            self.add("user", json!({"type": "text", "text": EARLIER}));
        }
        let last = self.0.last_mut().filter(|message| message.get("role") == Some(&Value::from(role)));
        match last.and_then(|message| message.get_mut("content")).and_then(Value::as_array_mut) {
            Some(content) => content.push(block),
            None => self.0.push(json!({"role": role, "content": [block]})),
        }
    }
}

/// An id that the protocol accepts: another provider's may have signs that it does not.
fn accepted(id: &str, index: usize, at: usize) -> String {
    let plain = (1..=MAX_ID).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if plain { id.to_owned() } else { format!("call_{index}_{at}") }
}
