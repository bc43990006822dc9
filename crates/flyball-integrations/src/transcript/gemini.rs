//! Gemini CLI chats: one JSON document with all messages, or (newer) JSON lines after a first line that names the
//! session. An extended message is written again under the same id; only its new parts become events.

use super::conversation::{AnswerUsage, CallEnd, Conversation};
use super::emitter::{EventEmitter, LineOutcome};
use super::lenient_fields::{LenientCount, LenientText, parse_timestamp};
use super::lines::{TranscriptReader, each_value};
use super::raw_json::{field, fields, items};
use super::responses_items::text_of;
use super::{CachedTokens, TranscriptError, TranscriptFormat, TranscriptSink, TranscriptSummary, bounds};
use flyball::{DeniedBy, Fingerprint, MessageOrigin};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::VecDeque;

/// Number of messages, calls and results remembered for deduplication.
const MAX_SEEN: usize = 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiMessage<'a> {
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow)]
    timestamp: LenientText<'a>,
    #[serde(borrow, rename = "type")]
    kind: LenientText<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<GeminiCall<'a>>>,
    tokens: Option<GeminiTokens>,
    #[serde(borrow)]
    model: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiCall<'a> {
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow)]
    name: LenientText<'a>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    status: LenientText<'a>,
    #[serde(borrow)]
    timestamp: LenientText<'a>,
    #[serde(borrow)]
    result_display: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GeminiTokens {
    input: LenientCount,
    output: LenientCount,
    cached: LenientCount,
    thoughts: LenientCount,
    tool: LenientCount,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiPart<'a> {
    #[serde(borrow)]
    function_response: Option<GeminiFunctionResponse<'a>>,
    #[serde(borrow)]
    text: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GeminiFunctionResponse<'a> {
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

struct GeminiChat {
    conversation: Conversation,
    named: bool,
    seen: VecDeque<Fingerprint>,
}

/// Reads a chat.
pub(super) fn read(
    mut reader: TranscriptReader<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let mut out = EventEmitter::new(TranscriptFormat::Gemini, sink);
    let mut chat =
        GeminiChat { conversation: Conversation::new(reader.name), named: false, seen: VecDeque::new() };
    each_value(&mut reader, &mut out, &mut |out, text, _| chat.handle_value(out, text))?;
    chat.conversation.finish(&mut out);
    Ok(out.finish())
}

impl GeminiChat {
    fn handle_value(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        if let Some(id) = field(text, "sessionId").filter(|_| !self.named) {
            let id = serde_json::from_str::<LenientText<'_>>(id).unwrap_or_default();
            self.conversation = Conversation::new(&id);
            self.named = true;
        }
        if let Some(list) = fields(text).find(|field| field.key == "messages") {
            for message in items(list.value) {
                out.next_entry();
                let step = self.handle_message(out, message);
                out.count_entry(step);
            }
            return LineOutcome::Counted;
        }
        self.handle_message(out, text)
    }

    fn handle_message(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        let Ok(message) = serde_json::from_str::<GeminiMessage<'_>>(text) else {
            return LineOutcome::Malformed;
        };
        self.conversation.at = parse_timestamp(&message.timestamp).or(self.conversation.at);
        let words = message.content.map_or(Cow::Borrowed(""), content_text);
        match &*message.kind {
            "user" if !words.trim().is_empty() => {
                if self.is_new(&message.id, "said") {
                    self.conversation.user_message(out, words, MessageOrigin::Human);
                }
            }
            "gemini" => self.handle_answer(out, message, words),
            _ => return LineOutcome::Skipped,
        }
        LineOutcome::Counted
    }

    fn handle_answer(&mut self, out: &mut EventEmitter<'_>, message: GeminiMessage<'_>, words: Cow<'_, str>) {
        self.conversation.set_model(&message.model);
        self.conversation.set_answer(&message.id);
        if let Some(tokens) = &message.tokens {
            self.conversation.set_answer_usage(&message.id, tokens.to_usage());
        }
        let calls = message.tool_calls.unwrap_or_default();
        if !words.trim().is_empty() && self.is_new(&message.id, "said") {
            self.conversation.assistant_message(out, words, calls.is_empty());
        }
        for call in &calls {
            if self.is_new(&call.id, "called") {
                let args = call.args.map_or(Value::Null, |args| bounds::args(args.get()));
                self.conversation.tool_requested(out, &call.id, &call.name, args);
            }
        }
        for call in &calls {
            if let Some(end) = call_end(call)
                && self.is_new(&call.id, "ended")
            {
                self.conversation.at = parse_timestamp(&call.timestamp).or(self.conversation.at);
                self.conversation.tool_finished(out, &call.id, end);
            }
        }
    }

    /// Whether this is new. Anything without an id is always new.
    fn is_new(&mut self, id: &str, what: &str) -> bool {
        if id.is_empty() {
            return true;
        }
        let print = Fingerprint::of_text(id).combine(Fingerprint::of_text(what));
        if self.seen.contains(&print) {
            return false;
        }
        if self.seen.len() == MAX_SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(print);
        true
    }
}

impl GeminiTokens {
    fn to_usage(&self) -> AnswerUsage {
        AnswerUsage {
            tokens_in: self.input.0.saturating_add(self.tool.0),
            tokens_out: self.output.0.saturating_add(self.thoughts.0),
            cost_micro_usd: 0,
            cached: CachedTokens { read: self.cached.0.min(self.input.0), written: 0 },
        }
    }
}

/// The text of a message: a string, a part, or a list of parts.
fn content_text(raw: &RawValue) -> Cow<'_, str> {
    if !raw.get().starts_with('{') {
        return text_of(raw.get());
    }
    let part: GeminiPart<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    part.text.0
}

/// The outcome of a call, if it has finished.
fn call_end<'a>(call: &'a GeminiCall<'a>) -> Option<CallEnd<'a>> {
    let text = || result_text(call);
    match &*call.status {
        "success" => Some(CallEnd::Ok(text())),
        "error" => Some(CallEnd::Failed(text())),
        "cancelled" => Some(CallEnd::Denied(DeniedBy::Human)),
        // Older chats have no status: a call with a result has finished.
        "" if call.result.is_some_and(|result| result.get() != "null") => Some(CallEnd::Ok(text())),
        _ => None,
    }
}

fn result_text<'a>(call: &'a GeminiCall<'a>) -> Cow<'a, str> {
    let raw = call.result.map_or("", RawValue::get);
    let parts: Vec<Cow<'a, str>> = items(raw)
        .map(|item| {
            let part: GeminiPart<'a> = serde_json::from_str(item).unwrap_or_default();
            match part.function_response.and_then(|response| response.response) {
                Some(response) => response_text(response.get()),
                None => part.text.0,
            }
        })
        .filter(|text| !text.is_empty())
        .collect();
    if parts.is_empty() { Cow::Borrowed(&*call.result_display) } else { Cow::Owned(parts.join("\n")) }
}

/// The `output` or `error` of a response, or else the whole response.
fn response_text(raw: &str) -> Cow<'_, str> {
    let inner = field(raw, "output").or_else(|| field(raw, "error")).unwrap_or(raw);
    if inner.starts_with('"') { text_of(inner) } else { Cow::Borrowed(inner) }
}
