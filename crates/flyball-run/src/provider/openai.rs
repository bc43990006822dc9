//! OpenAI chat completions, as every compatible endpoint speaks them.

use super::conversation::{Part, ordered};
use super::draft::{Draft, Tokens};
use super::message::{Request, Stop, ToolSpec};
use super::remote::{Adjusted, Protocol, Trouble, reported};
use super::secret::Key;
use serde_json::{Map, Value, json};

/// Ids longer than this are refused by some endpoints.
const MAX_ID: usize = 64;
/// The endpoint that takes the newer name for the most tokens.
const ORIGINAL: &str = "https://api.openai.com/";

/// How endpoints say that they do not know a parameter.
const UNKNOWN: [&str; 7] =
    ["not support", "unsupported", "unrecogni", "unknown", "not permitted", "unexpected", "not allowed"];

/// The protocol.
#[derive(Debug)]
pub(super) struct OpenAi {
    /// The name of the parameter for the most tokens, if the file gives it.
    pub(super) max_tokens_field: Option<&'static str>,
}

impl Protocol for OpenAi {
    fn headers(&self, key: &Key) -> Vec<(String, String)> {
        let bearer = |key: &str| ("Authorization".to_owned(), format!("Bearer {key}"));
        key.reveal().map(bearer).into_iter().collect()
    }

    fn body(
        &self,
        url: &str,
        adjusted: &Adjusted,
        request: &Request,
        max_tokens: Option<u64>,
    ) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("messages".to_owned(), messages(request));
        if !request.tools.is_empty() {
            body.insert("tools".to_owned(), tools(request));
        }
        if adjusted.stream {
            body.insert("stream".to_owned(), Value::Bool(true));
            if adjusted.stream_options {
                body.insert("stream_options".to_owned(), json!({"include_usage": true}));
            }
        }
        if let Some(most) = max_tokens {
            let newer = url.starts_with(ORIGINAL) != adjusted.other_max_tokens;
            let usual = if newer { "max_completion_tokens" } else { "max_tokens" };
            body.insert(self.max_tokens_field.unwrap_or(usual).to_owned(), Value::from(most));
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
        if data.trim() == "[DONE]" {
            draft.ended = true;
            return Ok(());
        }
        let chunk: Value = serde_json::from_str(data).map_err(|error| Trouble::NotJson(error.to_string()))?;
        reported(&chunk)?;
        facts(&chunk, draft);
        // The last chunk, with the usage, has no choices; some endpoints write null.
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(()) };
        if let Some(delta) = choice.get("delta") {
            said(delta, false, draft, on_text).map_err(Trouble::Shape)?;
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            stopped(reason, draft);
        }
        Ok(())
    }

    fn whole(&self, answer: &Value, draft: &mut Draft, on_text: &mut dyn FnMut(&str)) -> Result<(), Trouble> {
        reported(answer)?;
        facts(answer, draft);
        let choice = answer.pointer("/choices/0");
        let choice = choice.ok_or_else(|| Trouble::Shape("the answer has no choices".to_owned()))?;
        let message = choice.get("message");
        let message = message.ok_or_else(|| Trouble::Shape("the answer has no message".to_owned()))?;
        said(message, true, draft, on_text).map_err(Trouble::Shape)?;
        stopped(choice.get("finish_reason").and_then(Value::as_str).unwrap_or("stop"), draft);
        draft.ended = true;
        Ok(())
    }

    fn adjust(&self, adjusted: Adjusted, param: &str, message: &str) -> Option<Adjusted> {
        if !UNKNOWN.iter().any(|words| message.contains(words)) {
            return None;
        }
        let named = |name: &str| param == name || (param.is_empty() && message.contains(name));
        if adjusted.stream && adjusted.stream_options && named("stream_options") {
            Some(Adjusted { stream_options: false, ..adjusted })
        } else if !adjusted.other_max_tokens
            && self.max_tokens_field.is_none()
            && (named("max_tokens") || named("max_completion_tokens"))
        {
            Some(Adjusted { other_max_tokens: true, ..adjusted })
        } else if adjusted.stream && named("stream") {
            Some(Adjusted { stream: false, ..adjusted })
        } else {
            None
        }
    }
}

fn stopped(reason: &str, draft: &mut Draft) {
    if draft.stop != Some(Stop::Refused) {
        draft.stop = Some(Stop::from_word(reason));
    }
}

/// Which model it was and what it counted.
fn facts(answer: &Value, draft: &mut Draft) {
    if let Some(model) = answer.get("model").and_then(Value::as_str).filter(|model| !model.is_empty()) {
        draft.model = Some(model.to_owned());
    }
    let Some(usage) = answer.get("usage").filter(|usage| usage.is_object()) else { return };
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    if let (Some(input), Some(output)) = (count("/prompt_tokens"), count("/completion_tokens")) {
        let cached = count("/prompt_tokens_details/cached_tokens").unwrap_or(0);
        draft.tokens = Some(Tokens { input, output, cached, cache_write: 0 });
    }
}

/// What a message says, or a piece of one.
fn said(
    message: &Value,
    whole: bool,
    draft: &mut Draft,
    on_text: &mut dyn FnMut(&str),
) -> Result<(), String> {
    if let Some(text) = message.get("content").and_then(Value::as_str) {
        draft.say(text, on_text);
    }
    if let Some(refusal) = message.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()) {
        draft.stop = Some(Stop::Refused);
        draft.say(refusal, on_text);
    }
    for (at, piece) in (0..).zip(message.get("tool_calls").and_then(Value::as_array).into_iter().flatten()) {
        let text = |pointer: &str| piece.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (id, name) = (text("/id"), text("/function/name"));
        let call = draft.call(if whole { at } else { place(piece, id, draft) })?;
        if call.id.is_empty() {
            call.id = id.to_owned();
        }
        if call.name.is_empty() {
            call.name = name.to_owned();
        }
        match piece.pointer("/function/arguments") {
            Some(Value::String(args)) => call.args.push_str(args),
            // Not in the protocol but seen: the arguments as an object.
            Some(args @ Value::Object(_)) => call.args.push_str(&args.to_string()),
            _ => {}
        }
    }
    Ok(())
}

/// Which call a piece belongs to: by its number, but some endpoints give none, or give every call the same.
fn place(piece: &Value, id: &str, draft: &Draft) -> u64 {
    let next = draft.calls.iter().map(|call| call.index + 1).max().unwrap_or(0);
    let same_id = draft.calls.iter().find(|call| !id.is_empty() && call.id == id);
    let numbered = piece.get("index").and_then(Value::as_u64).filter(|index| *index < u64::from(u32::MAX));
    match (numbered, same_id) {
        (_, Some(call)) => call.index,
        (Some(index), None) => {
            let taken = draft.calls.iter().any(|call| call.index == index && !call.id.is_empty());
            if taken && !id.is_empty() { next } else { index }
        }
        (None, None) if id.is_empty() => next.saturating_sub(1),
        (None, None) => next,
    }
}

fn messages(request: &Request) -> Value {
    let mut messages = Vec::new();
    if let Some(system) = &request.system {
        messages.push(json!({"role": "system", "content": system}));
    }
    for (index, part) in ordered(&request.messages).into_iter().enumerate() {
        match part {
            Part::User(text) => messages.push(json!({"role": "user", "content": text})),
            Part::Assistant { text, calls } if calls.is_empty() => {
                messages.push(json!({"role": "assistant", "content": text}));
            }
            Part::Assistant { text, calls } => {
                let id = |call: usize, id: &str| match id.len() {
                    1..=MAX_ID => id.to_owned(),
                    _ => format!("call_{index}_{call}"),
                };
                let made = calls.iter().enumerate().map(|(at, (call, _))| {
                    json!({"id": id(at, &call.id), "type": "function",
                        "function": {"name": call.name, "arguments": call.args.to_string()}})
                });
                let content = if text.is_empty() { Value::Null } else { Value::from(text) };
                let made: Vec<Value> = made.collect();
                messages.push(json!({"role": "assistant", "content": content, "tool_calls": made}));
                for (at, (call, outcome)) in calls.iter().enumerate() {
                    let content = outcome.text;
                    messages
                        .push(json!({"role": "tool", "tool_call_id": id(at, &call.id), "content": content}));
                }
            }
        }
    }
    Value::from(messages)
}

fn tools(request: &Request) -> Value {
    let tool = |tool: &ToolSpec| {
        json!({"type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema}})
    };
    request.tools.iter().map(tool).collect()
}
