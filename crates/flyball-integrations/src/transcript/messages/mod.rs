//! Message lists as sent to a model API: requests, responses, and logs of both.
//!
//! A request log contains the same conversation repeatedly, each time a little longer. A list that starts with a known
//! conversation continues it, and only its new messages become events.

mod anthropic;
mod openai;
mod responses;

use super::conversation::{AnswerUsage, CallEnd, Conversation};
use super::emitter::{EventEmitter, LineOutcome};
use super::lenient_fields::{LenientText, parse_timestamp};
use super::lines::{TranscriptReader, each_value};
use super::raw_json::{fields, items};
use super::{TranscriptError, TranscriptFormat, TranscriptSink, TranscriptSummary, bounds};
use flyball::{Fingerprint, MessageOrigin};
use serde_json::Value;
use std::borrow::Cow;

/// Maximum number of conversations tracked per file.
const MAX_THREADS: usize = 256;

/// The format of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageFormat {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
}

impl MessageFormat {
    const fn format(self) -> TranscriptFormat {
        match self {
            MessageFormat::Chat => TranscriptFormat::OpenAiChat,
            MessageFormat::Responses => TranscriptFormat::OpenAiResponses,
            MessageFormat::Anthropic => TranscriptFormat::Anthropic,
        }
    }

    fn parse_message(self, raw: &str) -> Option<TranscriptMessage<'_>> {
        match self {
            MessageFormat::Chat => openai::parse_message(raw),
            MessageFormat::Responses => responses::parse_message(raw),
            MessageFormat::Anthropic => anthropic::parse_message(raw),
        }
    }

    fn parse_usage(self, raw: &str) -> AnswerUsage {
        match self {
            MessageFormat::Chat | MessageFormat::Responses => openai::parse_usage(raw),
            MessageFormat::Anthropic => anthropic::parse_usage(raw),
        }
    }
}

/// The role of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum MessageRole {
    User,
    Assistant,
    /// A tool result.
    Tool,
    /// System or developer messages, and anything irrelevant.
    #[default]
    Other,
}

/// One message.
#[derive(Debug, Default)]
struct TranscriptMessage<'a> {
    role: MessageRole,
    text: Cow<'a, str>,
    calls: Vec<(Cow<'a, str>, Cow<'a, str>, Value)>,
    ends: Vec<(Cow<'a, str>, CallEnd<'a>)>,
    at: Option<u64>,
}

impl TranscriptMessage<'_> {
    /// A fingerprint of the message that does not depend on its encoding.
    fn fingerprint(&self) -> Fingerprint {
        let mut print = Fingerprint::of(&[self.role as u8]).combine(Fingerprint::of_text(self.text.trim()));
        for (call, tool, _) in &self.calls {
            print = print.combine(Fingerprint::of_text(call)).combine(Fingerprint::of_text(tool));
        }
        for (call, _) in &self.ends {
            print = print.combine(Fingerprint::of_text(call));
        }
        print
    }
}

/// One conversation.
struct MessageThread {
    conversation: Conversation,
    /// Fingerprint of all messages so far.
    head: Fingerprint,
    /// Its last answer, for requests that refer to it instead of repeating the history.
    answer: Fingerprint,
}

struct MessageThreads<'a> {
    name: &'a str,
    dialect: MessageFormat,
    all: Vec<MessageThread>,
    /// The most recently used conversation.
    current: usize,
    count: u64,
}

/// The fields around an entry's messages.
#[derive(Default)]
struct MessageLogEntry<'a> {
    model: LenientText<'a>,
    session: LenientText<'a>,
    previous_response: LenientText<'a>,
    id: LenientText<'a>,
    at: Option<u64>,
    sent_messages: Option<&'a str>,
    answer: Option<&'a str>,
    usage: Option<&'a str>,
}

/// Reads messages.
pub(super) fn read(
    mut reader: TranscriptReader<'_>,
    dialect: MessageFormat,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let mut out = EventEmitter::new(dialect.format(), sink);
    let mut threads = MessageThreads { name: reader.name, dialect, all: Vec::new(), current: 0, count: 0 };
    each_value(&mut reader, &mut out, &mut |out, text, _| threads.handle_value(out, text))?;
    for thread in &mut threads.all {
        thread.conversation.finish(&mut out);
    }
    Ok(out.finish())
}

impl<'a> MessageThreads<'a> {
    fn handle_value(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        if !text.trim_start().starts_with('[') {
            return self.handle_entry(out, text);
        }
        let messages = items(text).next().is_none_or(|first| {
            fields(first).any(|field| matches!(field.key, "role" | "type")) && !is_log_entry(first)
        });
        if messages {
            self.handle_list(out, text, &MessageLogEntry::default());
            return LineOutcome::Counted;
        }
        items(text).fold(LineOutcome::Skipped, |step, entry| match self.handle_entry(out, entry) {
            LineOutcome::Counted => LineOutcome::Counted,
            _ => step,
        })
    }

    fn handle_entry(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        if !is_log_entry(text) && self.dialect.parse_message(text).is_some() {
            self.handle_messages(out, std::iter::once(text), None);
            return LineOutcome::Counted;
        }
        let mut took = LineOutcome::Skipped;
        let mut entry = MessageLogEntry::default();
        for field in fields(text) {
            match field.key {
                "request" | "response" | "body" | "kwargs" if field.value.starts_with('{') => {
                    took = if self.handle_entry(out, field.value) == LineOutcome::Counted {
                        LineOutcome::Counted
                    } else {
                        took
                    };
                }
                _ => entry.set_field(field.key, field.value),
            }
        }
        if let Some(sent) = entry.sent_messages {
            self.handle_list(out, sent, &entry);
            took = LineOutcome::Counted;
        }
        if let Some(answer) = entry.answer {
            self.handle_answer(out, text, answer, &entry);
            took = LineOutcome::Counted;
        }
        took
    }

    /// Handles a list of messages, or a string that is the user's message.
    fn handle_list(&mut self, out: &mut EventEmitter<'_>, sent: &str, entry: &MessageLogEntry<'_>) {
        self.set_time(entry);
        if sent.starts_with('"') {
            // A truncated string is not a message yet.
            if let Ok(text) = serde_json::from_str::<LenientText<'_>>(sent) {
                self.thread_at(None, entry).conversation.user_message(out, text.0, MessageOrigin::Human);
            }
            return;
        }
        self.handle_messages(out, items(sent), Some(entry));
    }

    /// Handles an answer of the model.
    fn handle_answer(
        &mut self,
        out: &mut EventEmitter<'_>,
        whole: &str,
        answer: &str,
        entry: &MessageLogEntry<'_>,
    ) {
        let dialect = self.dialect;
        let thread = self.thread_at(Some(self.current), entry);
        thread.conversation.set_model(&entry.model);
        thread.conversation.at = entry.at.or(thread.conversation.at);
        thread.conversation.new_answer();
        if let Some(usage) = entry.usage {
            thread.conversation.add_usage(dialect.parse_usage(usage));
        }
        match dialect {
            MessageFormat::Chat => {
                let first = items(answer).next().and_then(|choice| super::raw_json::field(choice, "message"));
                self.handle_messages(out, first.into_iter(), None);
            }
            MessageFormat::Responses => self.handle_messages(out, items(answer), None),
            MessageFormat::Anthropic => self.handle_messages(out, std::iter::once(whole), None),
        }
        let now = self.current;
        if let (Some(id), Some(thread)) = (entry.id.non_empty(), self.all.get_mut(now)) {
            thread.answer = Fingerprint::of_text(id);
        }
    }

    /// Handles messages: of a known conversation, of a new one, or (without an entry) of the last one.
    fn handle_messages<'m>(
        &mut self,
        out: &mut EventEmitter<'_>,
        messages: impl Iterator<Item = &'m str> + Clone,
        entry: Option<&MessageLogEntry<'_>>,
    ) {
        let dialect = self.dialect;
        let (mut known, mut which) = (0, Some(self.current));
        if let Some(entry) = entry {
            (known, which) = self.match_known(messages.clone(), entry);
        }
        let none = MessageLogEntry::default();
        let thread = self.thread_at(which, entry.unwrap_or(&none));
        if let Some(entry) = entry {
            thread.conversation.set_model(&entry.model);
        }
        for (at, raw) in messages.enumerate() {
            let Some(said) = dialect.parse_message(raw) else { continue };
            thread.head = thread.head.combine(said.fingerprint());
            if at < known {
                continue;
            }
            if entry.is_some() {
                out.next_entry();
            }
            emit_message(&mut thread.conversation, out, said);
        }
    }

    /// The number of messages already known, and their conversation.
    fn match_known<'m>(
        &mut self,
        messages: impl Iterator<Item = &'m str>,
        entry: &MessageLogEntry<'_>,
    ) -> (usize, Option<usize>) {
        if let Some(before) = entry.previous_response.non_empty().map(Fingerprint::of_text)
            && let Some(at) = self.all.iter().rposition(|thread| thread.answer == before)
        {
            return (0, Some(at));
        }
        let mut best = (0, None);
        if self.all.is_empty() {
            return best;
        }
        let mut head = Fingerprint::NONE;
        for (at, raw) in messages.enumerate() {
            let Some(said) = self.dialect.parse_message(raw) else { continue };
            head = head.combine(said.fingerprint());
            if let Some(which) = self.all.iter().rposition(|thread| thread.head == head) {
                best = (at + 1, Some(which));
            }
        }
        if let Some(thread) = best.1.and_then(|which| self.all.get_mut(which)) {
            // Recomputed while the messages are processed.
            thread.head = Fingerprint::NONE;
        }
        best
    }

    fn set_time(&mut self, entry: &MessageLogEntry<'_>) {
        if let (Some(at), Some(thread)) = (entry.at, self.all.get_mut(self.current)) {
            thread.conversation.at = Some(at);
        }
    }

    /// The conversation at an index, or a new one.
    fn thread_at(&mut self, which: Option<usize>, entry: &MessageLogEntry<'_>) -> &mut MessageThread {
        let which = which.filter(|which| *which < self.all.len()).unwrap_or_else(|| {
            self.count += 1;
            let name = match (entry.session.non_empty(), self.count) {
                (Some(session), _)
                    if self.all.iter().all(|thread| thread.conversation.session() != session) =>
                {
                    session.to_owned()
                }
                (Some(session), count) => format!("{session}#{count}"),
                (None, 1) => self.name.to_owned(),
                (None, count) => format!("{}#{count}", self.name),
            };
            if self.all.len() == MAX_THREADS {
                self.all.remove(0);
            }
            let mut conversation = Conversation::new(&name);
            conversation.at = entry.at;
            self.all.push(MessageThread { conversation, head: Fingerprint::NONE, answer: Fingerprint::NONE });
            self.all.len() - 1
        });
        self.current = which;
        &mut self.all[which]
    }
}

impl<'a> MessageLogEntry<'a> {
    fn set_field(&mut self, key: &str, value: &'a str) {
        let text = || serde_json::from_str::<LenientText<'a>>(value).unwrap_or_default();
        match key {
            "messages" | "input" => self.sent_messages = Some(value),
            "choices" | "output" => self.answer = Some(value).filter(|value| value.starts_with('[')),
            "content" => self.answer = self.answer.or(Some(value)),
            "usage" => self.usage = Some(value),
            "model" => self.model = text(),
            "id" => self.id = text(),
            "previous_response_id" => self.previous_response = text(),
            "session_id" | "conversation_id" | "thread_id" | "session" | "conversation"
                if self.session.is_empty() =>
            {
                self.session = text();
            }
            "timestamp" | "created" | "created_at" | "time" => {
                self.at = self.at.or_else(|| parse_timestamp(value.trim_matches('"')));
            }
            _ => {}
        }
    }
}

/// Whether an object is a request or response and not a single message.
fn is_log_entry(text: &str) -> bool {
    let mut message = false;
    for field in fields(text) {
        match field.key {
            "messages" | "choices" | "input" if field.value.starts_with('[') => return true,
            "request" | "response" | "output" if field.value.starts_with(['{', '[']) => return true,
            "stop_reason" | "usage" => return true,
            "role" | "type" => message = true,
            _ => {}
        }
    }
    !message
}

fn emit_message(conversation: &mut Conversation, out: &mut EventEmitter<'_>, said: TranscriptMessage<'_>) {
    conversation.at = said.at.or(conversation.at);
    for (call, end) in said.ends {
        conversation.tool_finished(out, &call, end);
    }
    match said.role {
        MessageRole::User if !said.text.trim().is_empty() => {
            conversation.user_message(out, said.text, MessageOrigin::Human)
        }
        MessageRole::Assistant => {
            let last = said.calls.is_empty();
            conversation.assistant_message(out, said.text, last);
        }
        _ => {}
    }
    for (call, tool, args) in said.calls {
        conversation.tool_requested(out, &call, &tool, args);
    }
    if said.role == MessageRole::User {
        conversation.new_answer();
    }
}

/// Parses the arguments of a call in any encoding.
fn args(raw: Option<&serde_json::value::RawValue>) -> Value {
    raw.map_or(Value::Null, |raw| bounds::args(raw.get()))
}
