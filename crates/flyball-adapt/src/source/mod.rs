//! Transcripts in: what other tools wrote down, as events of the contract.
//!
//! [`read`] goes through a transcript once, from its beginning to its end, in bounded memory, and hands each event on
//! as soon as it is known. A last line that is only half written is no error: the agent may still be at work.

mod atif;
mod blocks;
mod bounds;
mod claude_code;
mod codex;
mod dump;
mod fields;
mod flyball_events;
mod format;
mod gemini;
mod items;
mod lines;
mod messages;
mod opencode;
mod openhands;
mod otlp;
mod outbox;
mod peel;
mod swe_agent;
mod talk;

pub use dump::{Dump, dump};
pub use format::{Format, detect};

use flyball::{Error, Event};
use flyball_journal::Door;
use lines::Reader;
use messages::Dialect;
use std::io::{BufRead, Read};
use std::sync::Arc;

/// One event of a transcript, with what the contract has no field for.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The event. Its session is the transcript's own name for it, or the name that [`Transcript::name`] gives.
    pub event: Event,
    /// The line that it was read from, from 1; in a file that is one JSON document: its place among the entries.
    pub line: u64,
    /// The model whose answer this belongs to, where the transcript says so; prices go by it.
    pub model: Option<Arc<str>>,
    /// Tokens of the input that were read from or written to the provider's cache. They are part of
    /// `event.usage.tokens_in`, and priced differently.
    pub cached: Cached,
}

impl Item {
    /// An event of which no more is known than its line.
    #[must_use]
    pub fn plain(event: Event, line: u64) -> Self {
        Item { event, line, model: None, cached: Cached::default() }
    }
}

/// Tokens of the input that a provider's cache had or got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cached {
    /// Read from the cache.
    pub read: u64,
    /// Written to the cache.
    pub written: u64,
}

impl Cached {
    /// Adds another count to this one.
    pub fn add(&mut self, other: Cached) {
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
    }
}

/// A transcript that is to be read.
pub struct Transcript<'a> {
    /// What to call a session that has no name of its own, for example the stem of the file's name.
    pub name: &'a str,
    /// The format, if it is known; otherwise it is found out from the first bytes.
    pub format: Option<Format>,
    /// What it is read as if the first bytes look like no format that is known; `None`: it is an error.
    pub otherwise: Option<Format>,
    /// The text.
    pub input: &'a mut dyn BufRead,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The format that it was read as.
    pub format: Format,
    /// How many lines or entries there were.
    pub lines: u64,
    /// How many of them say nothing that Flyball counts.
    pub skipped: u64,
    /// How many of them are not what the format says, and were passed over.
    pub broken: u64,
    /// The last line was only half written.
    pub unfinished: bool,
}

/// Why a transcript could not be read to its end. What was handed on before stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The line or entry, from 1; 0 if it is the whole.
    pub line: u64,
    /// What is wrong, with its code.
    pub error: Error,
}

/// Whoever takes events; `false` ends the reading.
pub type Sink<'a> = &'a mut dyn FnMut(Item) -> bool;

/// Reads a transcript and hands on its events, in order.
///
/// # Errors
/// If it is of no known format, or broken before its end.
pub fn read(transcript: Transcript<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    read_behind(transcript, &Door::default(), sink)
}

/// Reads a transcript as [`read`] does; what looks like a secret is taken out of each line before it is parsed.
///
/// # Errors
/// As [`read`].
pub fn read_behind(transcript: Transcript<'_>, door: &Door, sink: Sink<'_>) -> Result<Summary, Broken> {
    let Transcript { name, format, otherwise, input } = transcript;
    if let Some(format) = format {
        return read_as(format, Reader { name, input, door }, sink);
    }
    let ready = input.fill_buf().map_err(|error| unreadable(&error))?;
    if ready.len() >= format::HEAD_BYTES {
        let format = format::look(ready).or(otherwise).ok_or_else(format::unknown)?;
        return read_as(format, Reader { name, input, door }, sink);
    }
    let mut head = Vec::new();
    let limit = format::HEAD_BYTES as u64;
    (&mut *input).take(limit).read_to_end(&mut head).map_err(|error| unreadable(&error))?;
    let format = format::look(&head).or(otherwise).ok_or_else(format::unknown)?;
    let mut input = head.as_slice().chain(input);
    read_as(format, Reader { name, input: &mut input, door }, sink)
}

fn read_as(format: Format, reader: Reader<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    match format {
        Format::Flyball => flyball_events::read(reader, sink),
        Format::ClaudeCode => claude_code::read(reader, sink),
        Format::Codex => codex::read(reader, sink),
        Format::OpenAiChat => messages::read(reader, Dialect::Chat, sink),
        Format::OpenAiResponses => messages::read(reader, Dialect::Responses, sink),
        Format::Anthropic => messages::read(reader, Dialect::Anthropic, sink),
        Format::Gemini => gemini::read(reader, sink),
        Format::Opencode => opencode::read(reader, sink),
        Format::SweAgent => swe_agent::read(reader, sink),
        Format::OpenHands => openhands::read(reader, sink),
        Format::Atif => atif::read(reader, sink),
        Format::OtlpJson => otlp::read_json(reader, sink),
        Format::OtlpProtobuf => otlp::read_protobuf(reader, sink),
    }
}

fn unreadable(error: &std::io::Error) -> Broken {
    let advice = "check that the file can be read";
    Broken { line: 1, error: Error::new(flyball::Code::BrokenLine, error.to_string(), advice) }
}
