//! Converts spans to events, in chronological order.

use super::super::bounds;
use super::super::conversation::{AnswerUsage, CallEnd, Conversation};
use super::super::emitter::EventEmitter;
use super::super::raw_json::{field, fields, items};
use super::super::{CachedTokens, responses_items::text_of};
use super::TraceSpan;
use flyball::{DeniedBy, Fingerprint, MessageOrigin};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The role of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpanRole {
    /// A model call.
    Chat,
    /// A tool call.
    Tool,
    /// An agent, a chain, or anything else.
    Other,
}

/// State of one session while its events are emitted.
struct SpanThread {
    conversation: Conversation,
    /// The answer that calls belong to.
    answer: Option<String>,
    /// The last user message.
    last_user_message: Fingerprint,
}

/// Emits the events of spans in chronological order.
pub(super) fn emit_events(out: &mut EventEmitter<'_>, mut spans: Vec<TraceSpan>) {
    spans.retain(|span| span_role(span) != SpanRole::Other);
    // (time, start before end, span index)
    let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(spans.len() * 2);
    for (at, span) in spans.iter().enumerate() {
        moments.push((span.start, false, at));
        moments.push((span.end.max(span.start), true, at));
    }
    moments.sort_by_key(|(when, end, at)| {
        (*when, *end && spans.get(*at).is_some_and(|span| span.end > span.start), *at, *end)
    });
    let mut threads: BTreeMap<String, SpanThread> = BTreeMap::new();
    for (when, end, at) in moments {
        let Some(span) = spans.get(at) else { continue };
        let name = session_name(span);
        let thread = threads.entry(name).or_insert_with_key(|name| SpanThread {
            conversation: Conversation::new(name),
            answer: None,
            last_user_message: Fingerprint::NONE,
        });
        if when > 0 {
            thread.conversation.at = Some(when / 1_000_000);
        }
        out.set_line(span.line);
        match (span_role(span), end) {
            (SpanRole::Chat, false) => thread.on_chat_start(out, span),
            (SpanRole::Chat, true) => thread.on_chat_end(out, span),
            (SpanRole::Tool, false) => thread.on_tool_start(out, span),
            (SpanRole::Tool, true) => thread.on_tool_end(out, span),
            (SpanRole::Other, _) => {}
        }
        if out.is_stopped() {
            return;
        }
    }
    for thread in threads.values_mut() {
        thread.conversation.finish(out);
    }
}

impl SpanThread {
    /// Handles the start of a model call: emits the last user message if it is new.
    fn on_chat_start(&mut self, out: &mut EventEmitter<'_>, span: &TraceSpan) {
        let Some(text) = last_user_text(span).filter(|text| !text.trim().is_empty()) else { return };
        let print = Fingerprint::of_text(&text);
        if print != self.last_user_message {
            self.last_user_message = print;
            self.conversation.user_message(out, Cow::Owned(text), MessageOrigin::Human);
        }
    }

    fn on_chat_end(&mut self, out: &mut EventEmitter<'_>, span: &TraceSpan) {
        if let Some(model) =
            span.text(&["gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "model"])
        {
            self.conversation.set_model(&model);
        }
        self.set_node(span);
        self.conversation.set_answer(&span.id);
        self.answer = Some(span.id.clone());
        self.conversation.add_usage(span_usage(span));
        let (text, calls) = assistant_output(span);
        self.conversation.assistant_message(out, Cow::Owned(text), !calls);
    }

    fn on_tool_start(&mut self, out: &mut EventEmitter<'_>, span: &TraceSpan) {
        self.set_node(span);
        if let Some(answer) = &self.answer {
            self.conversation.set_answer(answer);
        }
        let tool = span.text(&["gen_ai.tool.name", "tool.name", "tool_name"]);
        let tool = tool.unwrap_or_else(|| span.name.trim_start_matches("execute_tool ").to_owned());
        let args = span.text(&["gen_ai.tool.call.arguments", "tool.parameters", "input.value", "tool_input"]);
        let args = args.map_or(Value::Null, |text| bounds::args_from_text(&text));
        self.conversation.tool_requested(out, &call_id(span), &tool, args);
    }

    fn on_tool_end(&mut self, out: &mut EventEmitter<'_>, span: &TraceSpan) {
        let output =
            span.text(&["gen_ai.tool.call.result", "output.value", "tool_result"]).unwrap_or_default();
        let failed = span.failed || span.attributes.contains_key("error.type");
        let end = if let Some(by) = denied_by(span) {
            CallEnd::Denied(by)
        } else if failed {
            let said = [span.message.clone(), span.text(&["exception.message"]).unwrap_or_default(), output];
            let kind = span.text(&["error.type"]).unwrap_or_else(|| "failed".to_owned());
            CallEnd::Failed(Cow::Owned(said.into_iter().find(|text| !text.is_empty()).unwrap_or(kind)))
        } else {
            CallEnd::Ok(Cow::Owned(output))
        };
        let took = span.end.saturating_sub(span.start) / 1_000_000;
        self.conversation.tool_finished_in(out, &call_id(span), end, Some(took));
    }

    fn set_node(&mut self, span: &TraceSpan) {
        let name = span.text(&["gen_ai.agent.name", "agent.name"]);
        self.conversation.node = name.map(|name| bounds::name(&name)).or(self.conversation.node.take());
    }
}

/// Who denied a call, in a trace written by Flyball.
fn denied_by(span: &TraceSpan) -> Option<DeniedBy> {
    if span.attributes.get("flyball.refused") == Some(&Value::Bool(true)) {
        return Some(DeniedBy::Guard);
    }
    let by = span.attributes.get("flyball.denied_by")?;
    serde_json::from_value(by.clone()).ok()
}

fn span_role(span: &TraceSpan) -> SpanRole {
    let kind = |key| span.attributes.get(key).and_then(Value::as_str).unwrap_or_default();
    match kind("gen_ai.operation.name") {
        "execute_tool" => return SpanRole::Tool,
        "chat" | "generate_content" | "text_completion" => return SpanRole::Chat,
        _ => {}
    }
    match kind("openinference.span.kind") {
        "TOOL" => return SpanRole::Tool,
        "LLM" => return SpanRole::Chat,
        _ => {}
    }
    match span.name.as_str() {
        "claude_code.tool" => SpanRole::Tool,
        "claude_code.llm_request" => SpanRole::Chat,
        _ => SpanRole::Other,
    }
}

fn session_name(span: &TraceSpan) -> String {
    let named = span.text(&["gen_ai.conversation.id", "session.id"]);
    named.unwrap_or_else(|| span.trace.clone())
}

fn call_id(span: &TraceSpan) -> String {
    span.text(&["gen_ai.tool.call.id", "tool.id", "tool_use_id"]).unwrap_or_else(|| span.id.clone())
}

fn span_usage(span: &TraceSpan) -> AnswerUsage {
    let count = |keys: &[&str]| {
        let number = span.number(keys);
        if (0.0..1e15).contains(&number) { number as u64 } else { 0 }
    };
    let read = count(&[
        "gen_ai.usage.cache_read.input_tokens",
        "llm.token_count.prompt_details.cache_read",
        "cache_read_tokens",
    ]);
    let written = count(&[
        "gen_ai.usage.cache_creation.input_tokens",
        "llm.token_count.prompt_details.cache_write",
        "cache_creation_tokens",
    ]);
    let given = count(&[
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.token_count.prompt",
        "input_tokens",
    ]);
    // Most tools include cached tokens in the input count. If the input is smaller than the cached part, it cannot
    // include it.
    let cached = read.saturating_add(written);
    let tokens_in = if given < cached { given.saturating_add(cached) } else { given };
    AnswerUsage {
        tokens_in,
        tokens_out: count(&[
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "llm.token_count.completion",
            "output_tokens",
        ]),
        cost_micro_usd: bounds::micro_dollars(span.number(&["llm.cost.total", "gen_ai.usage.cost"])),
        cached: CachedTokens { read, written },
    }
}

/// The user's text, if it is the last message of the request.
fn last_user_text(span: &TraceSpan) -> Option<String> {
    if let Some(list) = span.text(&["gen_ai.input.messages", "gen_ai.prompt"]) {
        let last = items(&list).last()?;
        return (field(last, "role") == Some("\"user\"")).then(|| message_parts(last).0);
    }
    let number =
        |key: &String| key.strip_prefix("llm.input_messages.")?.split('.').next()?.parse::<u64>().ok();
    let last = span.attributes.keys().filter_map(number).max()?;
    let message = format!("llm.input_messages.{last}.message");
    let role = span.text(&[&format!("{message}.role")])?;
    let text = span.text(&[&format!("{message}.content")])?;
    (role == "user").then_some(text)
}

/// The model's text, and whether it called tools.
fn assistant_output(span: &TraceSpan) -> (String, bool) {
    if let Some(list) = span.text(&["gen_ai.output.messages", "gen_ai.completion"]) {
        return items(&list).last().map(message_parts).unwrap_or_default();
    }
    let text = span.text(&["llm.output_messages.0.message.content"]).unwrap_or_default();
    let calls = span.attributes.keys().any(|key| key.contains(".tool_calls."));
    (text, calls)
}

/// The texts of a message, and whether it contains calls.
fn message_parts(message: &str) -> (String, bool) {
    if let Some(content) = field(message, "content") {
        return (text_of(content).into_owned(), fields(message).any(|field| field.key == "tool_calls"));
    }
    let list = field(message, "parts").unwrap_or("");
    let (mut texts, mut calls) = (Vec::new(), false);
    for part in items(list) {
        match field(part, "type") {
            Some("\"text\"") => texts.push(text_of(field(part, "content").unwrap_or("\"\"")).into_owned()),
            Some("\"tool_call\"") => calls = true,
            _ => {}
        }
    }
    (texts.join("\n"), calls)
}
