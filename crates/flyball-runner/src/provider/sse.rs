//! Incremental parser for server-sent events. Handles any line ending, lines and characters split across chunks,
//! comments, and multiple data lines.

use super::limits::MAX_EVENT_BYTES;

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SseEvent {
    /// Event name; empty if none.
    pub(super) name: String,
    /// Data; multiple lines are joined by `
    /// `.
    pub(super) data: String,
}

/// Why a stream cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SseError {
    /// An event exceeds the size limit.
    TooLong,
    /// A line is not UTF-8.
    NotUtf8,
}

/// Parser state.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    after_cr: bool,
    begun: bool,
}

impl SseParser {
    /// Parses the next bytes and appends completed events.
    pub(super) fn push(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => self.end_line(events)?,
                _ => self.line.push(byte),
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > MAX_EVENT_BYTES {
                return Err(SseError::TooLong);
            }
        }
        Ok(())
    }

    /// Handles a clean end of the stream: a final event may lack its empty line.
    pub(super) fn finish(&mut self, events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        if !self.line.is_empty() {
            self.end_line(events)?;
        }
        self.dispatch(events);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        let text = std::str::from_utf8(&line).map_err(|_| SseError::NotUtf8)?;
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
            // Ignore comments, `id`, `retry` and unknown fields.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, events: &mut Vec<SseEvent>) {
        let name = std::mem::take(&mut self.name);
        if let Some(data) = self.data.take() {
            events.push(SseEvent { name, data });
        }
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
