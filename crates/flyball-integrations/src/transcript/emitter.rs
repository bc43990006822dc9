//! Emits events with a delay of one: the newest event is held until the next one is known.
//!
//! Many tools write an answer's usage, and the fact that it ended the turn, after the answer. Holding one event back is
//! enough to add both to it.

use super::{CachedTokens, TranscriptEvent, TranscriptFormat, TranscriptSink, TranscriptSummary};
use flyball::{EventKind, Usage};

/// The outcome of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineOutcome {
    /// It produced an event.
    Counted,
    /// It is not relevant.
    Skipped,
    /// It does not match the format.
    Malformed,
}

/// Emits events and counts lines.
pub(super) struct EventEmitter<'a> {
    sink: TranscriptSink<'a>,
    /// The line of the following events, if it is not the current one.
    line_override: Option<u64>,
    held: Option<TranscriptEvent>,
    stopped: bool,
    summary: TranscriptSummary,
    /// Whether the file is one document, whose entries are counted instead of lines.
    document: bool,
}

impl<'a> EventEmitter<'a> {
    /// Creates an emitter.
    pub(super) fn new(format: TranscriptFormat, sink: TranscriptSink<'a>) -> Self {
        let summary = TranscriptSummary { format, lines: 0, skipped: 0, broken: 0, unfinished: false };
        EventEmitter { sink, line_override: None, held: None, stopped: false, summary, document: false }
    }

    /// The current line or entry, starting at 1.
    pub(super) fn line(&self) -> u64 {
        self.line_override.unwrap_or(self.summary.lines).max(1)
    }

    /// Assigns the following events to an earlier line.
    pub(super) fn set_line(&mut self, line: u64) {
        self.line_override = Some(line);
    }

    /// Advances to the next line.
    pub(super) fn next_line(&mut self) {
        self.summary.lines += 1;
    }

    /// Marks the file as one document.
    pub(super) fn set_document(&mut self) {
        self.document = true;
    }

    /// Advances to the next entry of a document. Entries within a line are not counted.
    pub(super) fn next_entry(&mut self) {
        self.summary.lines += u64::from(self.document);
    }

    /// Counts the outcome of a document entry.
    pub(super) fn count_entry(&mut self, step: LineOutcome) {
        if self.document {
            self.count(step);
        }
    }

    /// Counts the outcome of a line.
    pub(super) fn count(&mut self, step: LineOutcome) {
        match step {
            LineOutcome::Counted => {}
            LineOutcome::Skipped => self.summary.skipped += 1,
            LineOutcome::Malformed => self.summary.broken += 1,
        }
    }

    /// Records that the text is truncated.
    pub(super) fn mark_unfinished(&mut self) {
        self.summary.unfinished = true;
    }

    /// Whether the sink has stopped reading.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Emits the held event and holds this one.
    pub(super) fn push(&mut self, item: TranscriptEvent) {
        let before = self.held.replace(item);
        self.send(before);
    }

    /// Adds usage to the held event, if it belongs to the session.
    pub(super) fn add_usage(&mut self, session: &str, usage: Usage, cached: CachedTokens) -> bool {
        let Some(item) = self.held.as_mut().filter(|item| item.event.session == session) else {
            return false;
        };
        item.event.usage.add(&usage);
        item.cached.add(cached);
        true
    }

    /// Ends a session's turn: a held message of the agent becomes final.
    pub(super) fn end_turn(&mut self, session: &str) {
        if let Some(item) = self.held.as_mut().filter(|item| item.event.session == session)
            && let EventKind::AssistantMessage { is_final, .. } = &mut item.event.kind
        {
            *is_final = true;
        }
    }

    /// Emits the held event and returns the summary.
    pub(super) fn finish(mut self) -> TranscriptSummary {
        let last = self.held.take();
        self.send(last);
        self.summary
    }

    fn send(&mut self, item: Option<TranscriptEvent>) {
        if let Some(item) = item
            && !self.stopped
        {
            self.stopped = !(self.sink)(item);
        }
    }
}
