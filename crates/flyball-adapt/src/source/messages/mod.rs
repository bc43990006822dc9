//! Lists of messages as they are sent to a model: requests, answers, logs of both.
//!
//! A log of requests tells the same conversation again and again, each time a little longer. A list that begins as a
//! known conversation ends is that conversation going on, and only what is new of it becomes events.

mod anthropic;
mod openai;
mod responses;

use super::fields::{Text, moment};
use super::lines::{Reader, each_value};
use super::outbox::{Outbox, Step};
use super::peel::{fields, items};
use super::talk::{End, Talk, Used};
use super::{Broken, Format, Sink, Summary, bounds};
use flyball::{Fingerprint, Origin};
use serde_json::Value;
use std::borrow::Cow;

/// How many conversations of one file are followed at once.
const THREADS: usize = 256;

/// How the messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's messages.
    Anthropic,
}

impl Dialect {
    const fn format(self) -> Format {
        match self {
            Dialect::Chat => Format::OpenAiChat,
            Dialect::Responses => Format::OpenAiResponses,
            Dialect::Anthropic => Format::Anthropic,
        }
    }

    fn said(self, raw: &str) -> Option<Said<'_>> {
        match self {
            Dialect::Chat => openai::said(raw),
            Dialect::Responses => responses::said(raw),
            Dialect::Anthropic => anthropic::said(raw),
        }
    }

    fn used(self, raw: &str) -> Used {
        match self {
            Dialect::Chat | Dialect::Responses => openai::used(raw),
            Dialect::Anthropic => anthropic::used(raw),
        }
    }
}

/// Whose message it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
    /// The result of a tool.
    Tool,
    /// The system, the developer, or what has nothing to say.
    #[default]
    Other,
}

/// One message.
#[derive(Debug, Default)]
struct Said<'a> {
    role: Role,
    text: Cow<'a, str>,
    calls: Vec<(Cow<'a, str>, Cow<'a, str>, Value)>,
    ends: Vec<(Cow<'a, str>, End<'a>)>,
    at: Option<u64>,
}

impl Said<'_> {
    /// Stands for the message, however it is written.
    fn print(&self) -> Fingerprint {
        let mut print = Fingerprint::of(&[self.role as u8]).with(Fingerprint::of_text(self.text.trim()));
        for (call, tool, _) in &self.calls {
            print = print.with(Fingerprint::of_text(call)).with(Fingerprint::of_text(tool));
        }
        for (call, _) in &self.ends {
            print = print.with(Fingerprint::of_text(call));
        }
        print
    }
}

/// One conversation.
struct Thread {
    talk: Talk,
    /// Stands for all of its messages so far.
    head: Fingerprint,
    /// The answer that it ended with, for those who name it instead of sending everything again.
    answer: Fingerprint,
}

struct Threads<'a> {
    name: &'a str,
    dialect: Dialect,
    all: Vec<Thread>,
    /// The conversation that was spoken in last.
    now: usize,
    count: u64,
}

/// What stands around the messages of an entry.
#[derive(Default)]
struct Entry<'a> {
    model: Text<'a>,
    session: Text<'a>,
    before: Text<'a>,
    id: Text<'a>,
    at: Option<u64>,
    sent: Option<&'a str>,
    answer: Option<&'a str>,
    usage: Option<&'a str>,
}

/// Reads messages.
pub(super) fn read(mut reader: Reader<'_>, dialect: Dialect, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut out = Outbox::new(dialect.format(), sink);
    let mut threads = Threads { name: reader.name, dialect, all: Vec::new(), now: 0, count: 0 };
    each_value(&mut reader, &mut out, &mut |out, text, _| threads.value(out, text))?;
    for thread in &mut threads.all {
        thread.talk.closes(&mut out);
    }
    Ok(out.finish())
}

impl<'a> Threads<'a> {
    fn value(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        if !text.trim_start().starts_with('[') {
            return self.entry(out, text);
        }
        let messages = items(text).next().is_none_or(|first| {
            fields(first).any(|field| matches!(field.key, "role" | "type")) && !is_entry(first)
        });
        if messages {
            self.list(out, text, &Entry::default());
            return Step::Took;
        }
        items(text).fold(Step::Nothing, |step, entry| match self.entry(out, entry) {
            Step::Took => Step::Took,
            _ => step,
        })
    }

    fn entry(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        if !is_entry(text) && self.dialect.said(text).is_some() {
            self.messages(out, std::iter::once(text), None);
            return Step::Took;
        }
        let mut took = Step::Nothing;
        let mut entry = Entry::default();
        for field in fields(text) {
            match field.key {
                "request" | "response" | "body" | "kwargs" if field.value.starts_with('{') => {
                    took = if self.entry(out, field.value) == Step::Took { Step::Took } else { took };
                }
                _ => entry.take(field.key, field.value),
            }
        }
        if let Some(sent) = entry.sent {
            self.list(out, sent, &entry);
            took = Step::Took;
        }
        if let Some(answer) = entry.answer {
            self.answered(out, text, answer, &entry);
            took = Step::Took;
        }
        took
    }

    /// A list of messages, or one text that stands for a user's message.
    fn list(&mut self, out: &mut Outbox<'_>, sent: &str, entry: &Entry<'_>) {
        self.about(entry);
        if sent.starts_with('"') {
            // A text that is cut is no message yet.
            if let Ok(text) = serde_json::from_str::<Text<'_>>(sent) {
                self.thread(None, entry).talk.hears(out, text.0, Origin::Human);
            }
            return;
        }
        self.messages(out, items(sent), Some(entry));
    }

    /// What the model answered.
    fn answered(&mut self, out: &mut Outbox<'_>, whole: &str, answer: &str, entry: &Entry<'_>) {
        let dialect = self.dialect;
        let thread = self.thread(Some(self.now), entry);
        thread.talk.by(&entry.model);
        thread.talk.at = entry.at.or(thread.talk.at);
        thread.talk.new_answer();
        if let Some(usage) = entry.usage {
            thread.talk.uses(dialect.used(usage));
        }
        match dialect {
            Dialect::Chat => {
                let first = items(answer).next().and_then(|choice| super::peel::field(choice, "message"));
                self.messages(out, first.into_iter(), None);
            }
            Dialect::Responses => self.messages(out, items(answer), None),
            Dialect::Anthropic => self.messages(out, std::iter::once(whole), None),
        }
        let now = self.now;
        if let (Some(id), Some(thread)) = (entry.id.some(), self.all.get_mut(now)) {
            thread.answer = Fingerprint::of_text(id);
        }
    }

    /// Messages: of a conversation that is known and goes on, of a new one, or (without an entry) of the last one.
    fn messages<'m>(
        &mut self,
        out: &mut Outbox<'_>,
        messages: impl Iterator<Item = &'m str> + Clone,
        entry: Option<&Entry<'_>>,
    ) {
        let dialect = self.dialect;
        let (mut known, mut which) = (0, Some(self.now));
        if let Some(entry) = entry {
            (known, which) = self.known(messages.clone(), entry);
        }
        let none = Entry::default();
        let thread = self.thread(which, entry.unwrap_or(&none));
        if let Some(entry) = entry {
            thread.talk.by(&entry.model);
        }
        for (at, raw) in messages.enumerate() {
            let Some(said) = dialect.said(raw) else { continue };
            thread.head = thread.head.with(said.print());
            if at < known {
                continue;
            }
            if entry.is_some() {
                out.next_entry();
            }
            tell(&mut thread.talk, out, said);
        }
    }

    /// How many of the messages are known already, and which conversation they are of.
    fn known<'m>(
        &mut self,
        messages: impl Iterator<Item = &'m str>,
        entry: &Entry<'_>,
    ) -> (usize, Option<usize>) {
        if let Some(before) = entry.before.some().map(Fingerprint::of_text)
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
            let Some(said) = self.dialect.said(raw) else { continue };
            head = head.with(said.print());
            if let Some(which) = self.all.iter().rposition(|thread| thread.head == head) {
                best = (at + 1, Some(which));
            }
        }
        if let Some(thread) = best.1.and_then(|which| self.all.get_mut(which)) {
            // It is worked out again while the messages are gone through.
            thread.head = Fingerprint::NONE;
        }
        best
    }

    fn about(&mut self, entry: &Entry<'_>) {
        if let (Some(at), Some(thread)) = (entry.at, self.all.get_mut(self.now)) {
            thread.talk.at = Some(at);
        }
    }

    /// The conversation at a place, or a new one.
    fn thread(&mut self, which: Option<usize>, entry: &Entry<'_>) -> &mut Thread {
        let which = which.filter(|which| *which < self.all.len()).unwrap_or_else(|| {
            self.count += 1;
            let name = match (entry.session.some(), self.count) {
                (Some(session), _) if self.all.iter().all(|thread| thread.talk.session() != session) => {
                    session.to_owned()
                }
                (Some(session), count) => format!("{session}#{count}"),
                (None, 1) => self.name.to_owned(),
                (None, count) => format!("{}#{count}", self.name),
            };
            if self.all.len() == THREADS {
                self.all.remove(0);
            }
            let mut talk = Talk::new(&name);
            talk.at = entry.at;
            self.all.push(Thread { talk, head: Fingerprint::NONE, answer: Fingerprint::NONE });
            self.all.len() - 1
        });
        self.now = which;
        &mut self.all[which]
    }
}

impl<'a> Entry<'a> {
    fn take(&mut self, key: &str, value: &'a str) {
        let text = || serde_json::from_str::<Text<'a>>(value).unwrap_or_default();
        match key {
            "messages" | "input" => self.sent = Some(value),
            "choices" | "output" => self.answer = Some(value).filter(|value| value.starts_with('[')),
            "content" => self.answer = self.answer.or(Some(value)),
            "usage" => self.usage = Some(value),
            "model" => self.model = text(),
            "id" => self.id = text(),
            "previous_response_id" => self.before = text(),
            "session_id" | "conversation_id" | "thread_id" | "session" | "conversation"
                if self.session.is_empty() =>
            {
                self.session = text();
            }
            "timestamp" | "created" | "created_at" | "time" => {
                self.at = self.at.or_else(|| moment(value.trim_matches('"')));
            }
            _ => {}
        }
    }
}

/// Whether an object is a request or an answer, and not a message by itself.
fn is_entry(text: &str) -> bool {
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

fn tell(talk: &mut Talk, out: &mut Outbox<'_>, said: Said<'_>) {
    talk.at = said.at.or(talk.at);
    for (call, end) in said.ends {
        talk.ended(out, &call, end);
    }
    match said.role {
        Role::User if !said.text.trim().is_empty() => talk.hears(out, said.text, Origin::Human),
        Role::Assistant => {
            let last = said.calls.is_empty();
            talk.says(out, said.text, last);
        }
        _ => {}
    }
    for (call, tool, args) in said.calls {
        talk.calls(out, &call, &tool, args);
    }
    if said.role == Role::User {
        talk.new_answer();
    }
}

/// Arguments of a call, however they are written.
fn args(raw: Option<&serde_json::value::RawValue>) -> Value {
    raw.map_or(Value::Null, |raw| bounds::args(raw.get()))
}
