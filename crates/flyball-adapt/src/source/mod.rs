//! Transcripts in: what other tools wrote down, as events of the contract.
//!
//! [`read`] goes through a transcript once, from its beginning to its end, in bounded memory, and hands each event on
//! as soon as it is known. A last line that is only half written is no error: the agent may still be at work.

mod flyball_events;
mod format;

pub use format::{Format, detect};

use flyball::{Error, Event};
use std::io::BufRead;
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

/// A transcript that is to be read.
pub struct Transcript<'a> {
    /// What to call a session that has no name of its own, for example the stem of the file's name.
    pub name: &'a str,
    /// The format, if it is known; otherwise it is found out from the first bytes.
    pub format: Option<Format>,
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
    let format = match transcript.format {
        Some(format) => format,
        None => detect(transcript.input)?,
    };
    match format {
        Format::Flyball => flyball_events::read(transcript.input, sink),
    }
}
