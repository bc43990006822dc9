//! Chats of Gemini CLI: one JSON document with all messages, or (newer) one message a line behind a first line that
//! names the session. A message that grew is written again under the same id; only what is new of it is told.

use super::fields::{Count, Text, moment};
use super::items::words;
use super::lines::{Reader, each_value};
use super::outbox::{Outbox, Step};
use super::peel::{field, fields, items};
use super::talk::{End, Talk, Used};
use super::{Broken, Cached, Format, Sink, Summary, bounds};
use flyball::{Denier, Fingerprint, Origin};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::VecDeque;

/// How many messages, calls and results are remembered, to know what was told.
const TOLD: usize = 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
    tokens: Option<Tokens>,
    #[serde(borrow)]
    model: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Call<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    result_display: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input: Count,
    output: Count,
    cached: Count,
    thoughts: Count,
    tool: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    function_response: Option<Response<'a>>,
    #[serde(borrow)]
    text: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Response<'a> {
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

struct Chat {
    talk: Talk,
    named: bool,
    told: VecDeque<Fingerprint>,
}

/// Reads a chat.
pub(super) fn read(mut reader: Reader<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut out = Outbox::new(Format::Gemini, sink);
    let mut chat = Chat { talk: Talk::new(reader.name), named: false, told: VecDeque::new() };
    each_value(&mut reader, &mut out, &mut |out, text, _| chat.value(out, text))?;
    chat.talk.closes(&mut out);
    Ok(out.finish())
}

impl Chat {
    fn value(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        if let Some(id) = field(text, "sessionId").filter(|_| !self.named) {
            let id = serde_json::from_str::<Text<'_>>(id).unwrap_or_default();
            self.talk = Talk::new(&id);
            self.named = true;
        }
        if let Some(list) = fields(text).find(|field| field.key == "messages") {
            for message in items(list.value) {
                out.next_entry();
                let step = self.message(out, message);
                out.count_entry(step);
            }
            return Step::Took;
        }
        self.message(out, text)
    }

    fn message(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        let Ok(message) = serde_json::from_str::<Message<'_>>(text) else { return Step::Bad };
        self.talk.at = moment(&message.timestamp).or(self.talk.at);
        let words = message.content.map_or(Cow::Borrowed(""), content);
        match &*message.kind {
            "user" if !words.trim().is_empty() => {
                if self.is_new(&message.id, "said") {
                    self.talk.hears(out, words, Origin::Human);
                }
            }
            "gemini" => self.answer(out, message, words),
            _ => return Step::Nothing,
        }
        Step::Took
    }

    fn answer(&mut self, out: &mut Outbox<'_>, message: Message<'_>, words: Cow<'_, str>) {
        self.talk.by(&message.model);
        self.talk.answers(&message.id);
        if let Some(tokens) = &message.tokens {
            self.talk.answer_used(&message.id, tokens.used());
        }
        let calls = message.tool_calls.unwrap_or_default();
        if !words.trim().is_empty() && self.is_new(&message.id, "said") {
            self.talk.says(out, words, calls.is_empty());
        }
        for call in &calls {
            if self.is_new(&call.id, "called") {
                let args = call.args.map_or(Value::Null, |args| bounds::args(args.get()));
                self.talk.calls(out, &call.id, &call.name, args);
            }
        }
        for call in &calls {
            if let Some(end) = ended(call)
                && self.is_new(&call.id, "ended")
            {
                self.talk.at = moment(&call.timestamp).or(self.talk.at);
                self.talk.ended(out, &call.id, end);
            }
        }
    }

    /// Whether this was not told before. What has no id is always new.
    fn is_new(&mut self, id: &str, what: &str) -> bool {
        if id.is_empty() {
            return true;
        }
        let print = Fingerprint::of_text(id).with(Fingerprint::of_text(what));
        if self.told.contains(&print) {
            return false;
        }
        if self.told.len() == TOLD {
            self.told.pop_front();
        }
        self.told.push_back(print);
        true
    }
}

impl Tokens {
    fn used(&self) -> Used {
        Used {
            tokens_in: self.input.0.saturating_add(self.tool.0),
            tokens_out: self.output.0.saturating_add(self.thoughts.0),
            cost_micro_usd: 0,
            cached: Cached { read: self.cached.0.min(self.input.0), written: 0 },
        }
    }
}

/// The words of a message: a text, a part, or a list of parts.
fn content(raw: &RawValue) -> Cow<'_, str> {
    if !raw.get().starts_with('{') {
        return words(raw.get());
    }
    let part: Part<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    part.text.0
}

/// How a call ended, if it did.
fn ended<'a>(call: &'a Call<'a>) -> Option<End<'a>> {
    let text = || result(call);
    match &*call.status {
        "success" => Some(End::Ok(text())),
        "error" => Some(End::Failed(text())),
        "cancelled" => Some(End::Denied(Denier::Human)),
        // Older chats have no status: what has a result has ended.
        "" if call.result.is_some_and(|result| result.get() != "null") => Some(End::Ok(text())),
        _ => None,
    }
}

fn result<'a>(call: &'a Call<'a>) -> Cow<'a, str> {
    let raw = call.result.map_or("", RawValue::get);
    let parts: Vec<Cow<'a, str>> = items(raw)
        .map(|item| {
            let part: Part<'a> = serde_json::from_str(item).unwrap_or_default();
            match part.function_response.and_then(|response| response.response) {
                Some(response) => response_text(response.get()),
                None => part.text.0,
            }
        })
        .filter(|text| !text.is_empty())
        .collect();
    if parts.is_empty() { Cow::Borrowed(&*call.result_display) } else { Cow::Owned(parts.join("\n")) }
}

/// `output` or `error` of a response if it has one, else all of it.
fn response_text(raw: &str) -> Cow<'_, str> {
    let inner = field(raw, "output").or_else(|| field(raw, "error")).unwrap_or(raw);
    if inner.starts_with('"') { words(inner) } else { Cow::Borrowed(inner) }
}
