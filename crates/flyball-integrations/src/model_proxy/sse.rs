//! Incremental reader for the data of server-sent events: accepts any line ending, and input split anywhere.
//!
//! It reads a copy of the stream and skips what it cannot parse.

/// Maximum size of an inspected event, in bytes.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// Reads a stream of events.
#[derive(Debug, Default)]
pub(super) struct SseDataReader {
    line: Vec<u8>,
    data: Option<String>,
    after_cr: bool,
}

impl SseDataReader {
    /// Consumes bytes and passes the data of each completed event to `found`.
    pub(super) fn push(&mut self, bytes: &[u8], found: &mut dyn FnMut(&str)) {
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => self.end_line(found),
                _ if self.line.len() < MAX_EVENT_BYTES => self.line.push(byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self, found: &mut dyn FnMut(&str)) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            if let Some(data) = self.data.take() {
                found(&data);
            }
            return;
        }
        let Some(value) = line.strip_prefix(b"data:") else { return };
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match &mut self.data {
            Some(data) if data.len() < MAX_EVENT_BYTES => {
                data.push('\n');
                data.push_str(&value);
            }
            Some(_) => {}
            None => self.data = Some(value.into_owned()),
        }
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
