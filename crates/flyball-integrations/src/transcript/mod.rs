//! Transcript readers: convert other tools' logs to events.
//!
//! [`read`] processes a transcript in one pass and in bounded memory, and passes on each event as soon as it is known.
//! An incomplete last line is not an error, because the agent may still be running.

mod anthropic_blocks;
mod atif;
mod bounds;
mod claude_code;
mod codex;
mod conversation;
mod emitter;
mod event_folder;
mod flyball_events;
mod format;
mod gemini;
mod lenient_fields;
mod lines;
mod messages;
mod opencode;
mod openhands;
mod otlp;
mod raw_json;
mod responses_items;
mod swe_agent;

pub use event_folder::{EventFolder, open_event_folder};
pub use format::{TranscriptFormat, detect_format};

use flyball::{Error, Event};
use flyball_store::RedactingParser;
use lines::TranscriptReader;
use messages::MessageFormat;
use std::io::{BufRead, Read};
use std::sync::Arc;

/// One event of a transcript, with data that has no field in an event.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptEvent {
    /// The event. Its session is the transcript's session name, or [`Transcript::name`].
    pub event: Event,
    /// The line, starting at 1; for a file that is one JSON document, the position of the entry.
    pub line: u64,
    /// The model that produced it, if known; used for pricing.
    pub model: Option<Arc<str>>,
    /// Input tokens read from or written to the provider's cache. They are included in `event.usage.tokens_in` but
    /// priced differently.
    pub cached: CachedTokens,
}

impl TranscriptEvent {
    /// An event with only its line known.
    #[must_use]
    pub fn from_event(event: Event, line: u64) -> Self {
        TranscriptEvent { event, line, model: None, cached: CachedTokens::default() }
    }
}

/// Input tokens read from or written to a provider's cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CachedTokens {
    /// Read from the cache.
    pub read: u64,
    /// Written to the cache.
    pub written: u64,
}

impl CachedTokens {
    /// Adds `other` to this count.
    pub fn add(&mut self, other: CachedTokens) {
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
    }
}

/// A transcript to read.
pub struct Transcript<'a> {
    /// The name for a session without its own name, for example the file stem.
    pub name: &'a str,
    /// The format; detected from the first bytes if `None`.
    pub format: Option<TranscriptFormat>,
    /// The format to use if detection fails; `None` makes that an error.
    pub fallback_format: Option<TranscriptFormat>,
    /// The input.
    pub input: &'a mut dyn BufRead,
}

/// A summary of what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptSummary {
    /// The format.
    pub format: TranscriptFormat,
    /// Number of lines or entries.
    pub lines: u64,
    /// Number of irrelevant lines or entries.
    pub skipped: u64,
    /// Number of malformed lines or entries, which were skipped.
    pub broken: u64,
    /// Whether the last line was incomplete.
    pub unfinished: bool,
}

/// A transcript that could not be read to its end. Events passed on before the error remain valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptError {
    /// The line or entry, starting at 1; 0 for the whole file.
    pub line: u64,
    /// The error with its code.
    pub error: Error,
}

/// Receives events; `false` stops reading.
pub type TranscriptSink<'a> = &'a mut dyn FnMut(TranscriptEvent) -> bool;

/// Reads a transcript and passes on its events in order.
///
/// # Errors
/// If the format is unknown, or the transcript is broken.
pub fn read(
    transcript: Transcript<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    read_redacted(transcript, &RedactingParser::default(), sink)
}

/// Like [`read`], but redacts secrets in each line before parsing it.
///
/// # Errors
/// See [`read`].
pub fn read_redacted(
    transcript: Transcript<'_>,
    redactor: &RedactingParser,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let Transcript { name, format, fallback_format: otherwise, input } = transcript;
    if let Some(format) = format {
        return read_format(format, TranscriptReader { name, input, redactor }, sink);
    }
    let ready = input.fill_buf().map_err(|error| read_error(&error))?;
    if ready.len() >= format::HEAD_BYTES {
        let format = format::guess_format(ready).or(otherwise).ok_or_else(format::unknown_format)?;
        return read_format(format, TranscriptReader { name, input, redactor }, sink);
    }
    let mut head = Vec::new();
    let limit = format::HEAD_BYTES as u64;
    (&mut *input).take(limit).read_to_end(&mut head).map_err(|error| read_error(&error))?;
    let format = format::guess_format(&head).or(otherwise).ok_or_else(format::unknown_format)?;
    let mut input = head.as_slice().chain(input);
    read_format(format, TranscriptReader { name, input: &mut input, redactor }, sink)
}

fn read_format(
    format: TranscriptFormat,
    reader: TranscriptReader<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    match format {
        TranscriptFormat::Flyball => flyball_events::read(reader, sink),
        TranscriptFormat::ClaudeCode => claude_code::read(reader, sink),
        TranscriptFormat::Codex => codex::read(reader, sink),
        TranscriptFormat::OpenAiChat => messages::read(reader, MessageFormat::Chat, sink),
        TranscriptFormat::OpenAiResponses => messages::read(reader, MessageFormat::Responses, sink),
        TranscriptFormat::Anthropic => messages::read(reader, MessageFormat::Anthropic, sink),
        TranscriptFormat::Gemini => gemini::read(reader, sink),
        TranscriptFormat::Opencode => opencode::read(reader, sink),
        TranscriptFormat::SweAgent => swe_agent::read(reader, sink),
        TranscriptFormat::OpenHands => openhands::read(reader, sink),
        TranscriptFormat::Atif => atif::read(reader, sink),
        TranscriptFormat::OtlpJson => otlp::read_json(reader, sink),
        TranscriptFormat::OtlpProtobuf => otlp::read_protobuf(reader, sink),
    }
}

fn read_error(error: &std::io::Error) -> TranscriptError {
    let help = "check that the file can be read";
    TranscriptError { line: 1, error: Error::new(flyball::ErrorCode::InvalidJson, error.to_string(), help) }
}
