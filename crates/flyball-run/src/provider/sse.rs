//! Server-sent events, as bytes come in: any line end, lines and characters split anywhere, comments, several lines of
//! data.

use super::limits::MAX_EVENT_BYTES;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// Its name; empty if it has none.
    pub(super) name: String,
    /// Its data; several lines are joined by `\n`.
    pub(super) data: String,
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bad {
    /// An event is longer than it may be.
    TooLong,
    /// A line is not UTF-8.
    NotUtf8,
}

/// Reads a stream of events.
#[derive(Debug, Default)]
pub(super) struct Sse {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    after_cr: bool,
    begun: bool,
}

impl Sse {
    /// Takes the next bytes and adds the events that are complete.
    pub(super) fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), Bad> {
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => self.end_line(events)?,
                _ => self.line.push(byte),
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > MAX_EVENT_BYTES {
                return Err(Bad::TooLong);
            }
        }
        Ok(())
    }

    /// The stream has ended properly: what was not followed by an empty line is an event all the same.
    pub(super) fn finish(&mut self, events: &mut Vec<Event>) -> Result<(), Bad> {
        if !self.line.is_empty() {
            self.end_line(events)?;
        }
        self.dispatch(events);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), Bad> {
        let line = std::mem::take(&mut self.line);
        let text = std::str::from_utf8(&line).map_err(|_| Bad::NotUtf8)?;
        let begun = std::mem::replace(&mut self.begun, true);
        let text = if begun { text } else { text.strip_prefix('\u{feff}').unwrap_or(text) };
        if text.is_empty() {
            self.dispatch(events);
            return Ok(());
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (field, &mut self.data) {
            ("event", _) => self.name = value.to_owned(),
            ("data", Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            ("data", None) => self.data = Some(value.to_owned()),
            // Comments, `id`, `retry` and what nobody knows.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, events: &mut Vec<Event>) {
        let name = std::mem::take(&mut self.name);
        if let Some(data) = self.data.take() {
            events.push(Event { name, data });
        }
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
