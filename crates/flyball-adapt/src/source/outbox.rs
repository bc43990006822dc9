//! Events on their way out, one behind: the newest is held back until the next is known.
//!
//! Many tools write what an answer used, and that it was the last of its turn, behind the answer itself. Holding one
//! event back is enough to put both where they belong.

use super::{Cached, Format, Item, Sink, Summary};
use flyball::{Kind, Usage};

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It said something that is counted.
    Took,
    /// It said nothing that is counted.
    Nothing,
    /// It is not what the format says.
    Bad,
}

/// Hands events on, and counts what was read.
pub(super) struct Outbox<'a> {
    sink: Sink<'a>,
    /// The line that events are of, if it is not the last one that was read.
    place: Option<u64>,
    held: Option<Item>,
    stopped: bool,
    summary: Summary,
    /// The file is one document; its entries are counted instead of its lines.
    document: bool,
}

impl<'a> Outbox<'a> {
    /// Nothing read yet.
    pub(super) fn new(format: Format, sink: Sink<'a>) -> Self {
        let summary = Summary { format, lines: 0, skipped: 0, broken: 0, unfinished: false };
        Outbox { sink, place: None, held: None, stopped: false, summary, document: false }
    }

    /// The line or entry that is being read, from 1.
    pub(super) fn line(&self) -> u64 {
        self.place.unwrap_or(self.summary.lines).max(1)
    }

    /// The events that follow are of a line that was read earlier.
    pub(super) fn of_line(&mut self, line: u64) {
        self.place = Some(line);
    }

    /// Begins with the next line.
    pub(super) fn next_line(&mut self) {
        self.summary.lines += 1;
    }

    /// The file is one document.
    pub(super) fn is_document(&mut self) {
        self.document = true;
    }

    /// Begins with the next entry of a document. The entries of a line are not counted.
    pub(super) fn next_entry(&mut self) {
        self.summary.lines += u64::from(self.document);
    }

    /// Counts what became of an entry of a document.
    pub(super) fn count_entry(&mut self, step: Step) {
        if self.document {
            self.count(step);
        }
    }

    /// Counts what became of a line.
    pub(super) fn count(&mut self, step: Step) {
        match step {
            Step::Took => {}
            Step::Nothing => self.summary.skipped += 1,
            Step::Bad => self.summary.broken += 1,
        }
    }

    /// The text ended in the middle of something.
    pub(super) fn unfinished(&mut self) {
        self.summary.unfinished = true;
    }

    /// Whoever takes the events wants no more.
    pub(super) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Hands an event on, behind the one that was held.
    pub(super) fn push(&mut self, item: Item) {
        let before = self.held.replace(item);
        self.send(before);
    }

    /// Puts what was used onto the event that is held, if it belongs to the session.
    pub(super) fn charge(&mut self, session: &str, usage: Usage, cached: Cached) -> bool {
        let Some(item) = self.held.as_mut().filter(|item| item.event.session == session) else {
            return false;
        };
        item.event.usage.add(&usage);
        item.cached.add(cached);
        true
    }

    /// The turn of a session ended: if it spoke last, that was its final word.
    pub(super) fn end_turn(&mut self, session: &str) {
        if let Some(item) = self.held.as_mut().filter(|item| item.event.session == session)
            && let Kind::AssistantMessage { is_final, .. } = &mut item.event.kind
        {
            *is_final = true;
        }
    }

    /// Everything was read.
    pub(super) fn finish(mut self) -> Summary {
        let last = self.held.take();
        self.send(last);
        self.summary
    }

    fn send(&mut self, item: Option<Item>) {
        if let Some(item) = item
            && !self.stopped
        {
            self.stopped = !(self.sink)(item);
        }
    }
}
