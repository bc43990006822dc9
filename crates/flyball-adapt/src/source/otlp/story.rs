//! From spans to events: what each span stands for, and in which order it all happened.

use super::super::bounds;
use super::super::outbox::Outbox;
use super::super::peel::{field, fields, items};
use super::super::talk::{End, Talk, Used};
use super::super::{Cached, items::words};
use super::Span;
use flyball::{Denier, Fingerprint, Origin};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a span stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A model was asked.
    Chat,
    /// A tool ran.
    Tool,
    /// An agent, a chain, anything else.
    Other,
}

/// One session while it is told.
struct Thread {
    talk: Talk,
    /// The answer of the model that calls belong to.
    answer: Option<String>,
    /// What the user said last.
    heard: Fingerprint,
}

/// Tells what the spans say, in the order in which it happened.
pub(super) fn tell(out: &mut Outbox<'_>, mut spans: Vec<Span>) {
    spans.retain(|span| role(span) != Role::Other);
    // (when, a beginning before an end, which span)
    let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(spans.len() * 2);
    for (at, span) in spans.iter().enumerate() {
        moments.push((span.start, false, at));
        moments.push((span.end.max(span.start), true, at));
    }
    moments.sort_by_key(|(when, end, at)| {
        (*when, *end && spans.get(*at).is_some_and(|span| span.end > span.start), *at, *end)
    });
    let mut threads: BTreeMap<String, Thread> = BTreeMap::new();
    for (when, end, at) in moments {
        let Some(span) = spans.get(at) else { continue };
        let name = session(span);
        let thread = threads.entry(name).or_insert_with_key(|name| Thread {
            talk: Talk::new(name),
            answer: None,
            heard: Fingerprint::NONE,
        });
        if when > 0 {
            thread.talk.at = Some(when / 1_000_000);
        }
        out.of_line(span.line);
        match (role(span), end) {
            (Role::Chat, false) => thread.asked(out, span),
            (Role::Chat, true) => thread.answered(out, span),
            (Role::Tool, false) => thread.called(out, span),
            (Role::Tool, true) => thread.ended(out, span),
            (Role::Other, _) => {}
        }
        if out.stopped() {
            return;
        }
    }
    for thread in threads.values_mut() {
        thread.talk.closes(out);
    }
}

impl Thread {
    /// The model is asked; if a user spoke last, and said something new, that is told.
    fn asked(&mut self, out: &mut Outbox<'_>, span: &Span) {
        let Some(text) = last_user(span).filter(|text| !text.trim().is_empty()) else { return };
        let print = Fingerprint::of_text(&text);
        if print != self.heard {
            self.heard = print;
            self.talk.hears(out, Cow::Owned(text), Origin::Human);
        }
    }

    fn answered(&mut self, out: &mut Outbox<'_>, span: &Span) {
        if let Some(model) =
            span.text(&["gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "model"])
        {
            self.talk.by(&model);
        }
        self.node(span);
        self.talk.answers(&span.id);
        self.answer = Some(span.id.clone());
        self.talk.uses(used(span));
        let (text, calls) = spoken(span);
        self.talk.says(out, Cow::Owned(text), !calls);
    }

    fn called(&mut self, out: &mut Outbox<'_>, span: &Span) {
        self.node(span);
        if let Some(answer) = &self.answer {
            self.talk.answers(answer);
        }
        let tool = span.text(&["gen_ai.tool.name", "tool.name", "tool_name"]);
        let tool = tool.unwrap_or_else(|| span.name.trim_start_matches("execute_tool ").to_owned());
        let args = span.text(&["gen_ai.tool.call.arguments", "tool.parameters", "input.value", "tool_input"]);
        let args = args.map_or(Value::Null, |text| bounds::args_text(&text));
        self.talk.calls(out, &call(span), &tool, args);
    }

    fn ended(&mut self, out: &mut Outbox<'_>, span: &Span) {
        let output =
            span.text(&["gen_ai.tool.call.result", "output.value", "tool_result"]).unwrap_or_default();
        let failed = span.failed || span.attributes.contains_key("error.type");
        let end = if let Some(by) = refused_by(span) {
            End::Denied(by)
        } else if failed {
            let said = [span.message.clone(), span.text(&["exception.message"]).unwrap_or_default(), output];
            let kind = span.text(&["error.type"]).unwrap_or_else(|| "failed".to_owned());
            End::Failed(Cow::Owned(said.into_iter().find(|text| !text.is_empty()).unwrap_or(kind)))
        } else {
            End::Ok(Cow::Owned(output))
        };
        let took = span.end.saturating_sub(span.start) / 1_000_000;
        self.talk.ended_in(out, &call(span), end, Some(took));
    }

    fn node(&mut self, span: &Span) {
        let name = span.text(&["gen_ai.agent.name", "agent.name"]);
        self.talk.node = name.map(|name| bounds::name(&name)).or(self.talk.node.take());
    }
}

/// Who refused a call, in a trace of our own.
fn refused_by(span: &Span) -> Option<Denier> {
    if span.attributes.get("flyball.refused") == Some(&Value::Bool(true)) {
        return Some(Denier::Guard);
    }
    let by = span.attributes.get("flyball.denied_by")?;
    serde_json::from_value(by.clone()).ok()
}

fn role(span: &Span) -> Role {
    let kind = |key| span.attributes.get(key).and_then(Value::as_str).unwrap_or_default();
    match kind("gen_ai.operation.name") {
        "execute_tool" => return Role::Tool,
        "chat" | "generate_content" | "text_completion" => return Role::Chat,
        _ => {}
    }
    match kind("openinference.span.kind") {
        "TOOL" => return Role::Tool,
        "LLM" => return Role::Chat,
        _ => {}
    }
    match span.name.as_str() {
        "claude_code.tool" => Role::Tool,
        "claude_code.llm_request" => Role::Chat,
        _ => Role::Other,
    }
}

fn session(span: &Span) -> String {
    let named = span.text(&["gen_ai.conversation.id", "session.id"]);
    named.unwrap_or_else(|| span.trace.clone())
}

fn call(span: &Span) -> String {
    span.text(&["gen_ai.tool.call.id", "tool.id", "tool_use_id"]).unwrap_or_else(|| span.id.clone())
}

fn used(span: &Span) -> Used {
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
    // Most tools count what the cache had among the input; what is smaller than its part cannot.
    let cached = read.saturating_add(written);
    let tokens_in = if given < cached { given.saturating_add(cached) } else { given };
    Used {
        tokens_in,
        tokens_out: count(&[
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "llm.token_count.completion",
            "output_tokens",
        ]),
        cost_micro_usd: bounds::micro_dollars(span.number(&["llm.cost.total", "gen_ai.usage.cost"])),
        cached: Cached { read, written },
    }
}

/// What the user said, if that was the last thing before the model was asked.
fn last_user(span: &Span) -> Option<String> {
    if let Some(list) = span.text(&["gen_ai.input.messages", "gen_ai.prompt"]) {
        let last = items(&list).last()?;
        return (field(last, "role") == Some("\"user\"")).then(|| parts(last).0);
    }
    let number =
        |key: &String| key.strip_prefix("llm.input_messages.")?.split('.').next()?.parse::<u64>().ok();
    let last = span.attributes.keys().filter_map(number).max()?;
    let message = format!("llm.input_messages.{last}.message");
    let role = span.text(&[&format!("{message}.role")])?;
    let text = span.text(&[&format!("{message}.content")])?;
    (role == "user").then_some(text)
}

/// What the model said, and whether it asked for tools.
fn spoken(span: &Span) -> (String, bool) {
    if let Some(list) = span.text(&["gen_ai.output.messages", "gen_ai.completion"]) {
        return items(&list).last().map(parts).unwrap_or_default();
    }
    let text = span.text(&["llm.output_messages.0.message.content"]).unwrap_or_default();
    let calls = span.attributes.keys().any(|key| key.contains(".tool_calls."));
    (text, calls)
}

/// The texts of a message, and whether it holds calls.
fn parts(message: &str) -> (String, bool) {
    if let Some(content) = field(message, "content") {
        return (words(content).into_owned(), fields(message).any(|field| field.key == "tool_calls"));
    }
    let list = field(message, "parts").unwrap_or("");
    let (mut texts, mut calls) = (Vec::new(), false);
    for part in items(list) {
        match field(part, "type") {
            Some("\"text\"") => texts.push(words(field(part, "content").unwrap_or("\"\"")).into_owned()),
            Some("\"tool_call\"") => calls = true,
            _ => {}
        }
    }
    (texts.join("\n"), calls)
}
