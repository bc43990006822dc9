//! Splits a server-sent event stream into events, keeping every byte.

/// Maximum event size, in bytes; a longer event is forwarded in chunks without inspection.
const MAX_EVENT_BYTES: usize = 128 * 1024 * 1024;

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SseFrame {
    /// The raw bytes, including the empty line at the end.
    pub(super) raw: Vec<u8>,
}

/// Splits a stream into events.
#[derive(Debug, Default)]
pub(super) struct SseSplitter {
    raw: Vec<u8>,
    /// Length of the current line.
    line_length: usize,
    after_cr: bool,
}

impl SseSplitter {
    /// Consumes bytes and returns the completed events.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<SseFrame> {
        let mut found = Vec::new();
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            if byte == b'\n' && after_cr && self.raw.is_empty() {
                // The LF of a CRLF whose CR completed an event.
                found.push(SseFrame { raw: vec![byte] });
                continue;
            }
            self.raw.push(byte);
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' if self.line_length == 0 => found.push(self.take_frame()),
                b'\n' | b'\r' => self.line_length = 0,
                _ => self.line_length += 1,
            }
            if self.raw.len() > MAX_EVENT_BYTES {
                found.push(self.take_frame());
            }
        }
        found
    }

    /// Returns the remaining bytes at the end of the stream.
    pub(super) fn take_rest(&mut self) -> Option<SseFrame> {
        (!self.raw.is_empty()).then(|| self.take_frame())
    }

    fn take_frame(&mut self) -> SseFrame {
        self.line_length = 0;
        SseFrame { raw: std::mem::take(&mut self.raw) }
    }
}

impl SseFrame {
    /// The data; several lines are joined. `None` if there is none, or if it is not UTF-8.
    pub(super) fn data(&self) -> Option<String> {
        let text = std::str::from_utf8(&self.raw).ok()?;
        let lines: Vec<&str> = lines(text).filter_map(data_value).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// The event with other data and everything else unchanged.
    pub(super) fn with_data(&self, data: &str) -> Vec<u8> {
        let text = String::from_utf8_lossy(&self.raw);
        let mut new = String::new();
        let mut put = false;
        for line in lines(&text).filter(|line| !line.is_empty()) {
            if data_value(line).is_none() {
                new.push_str(line);
                new.push('\n');
            } else if !std::mem::replace(&mut put, true) {
                new.push_str("data: ");
                new.push_str(data);
                new.push('\n');
            }
        }
        new.push('\n');
        new.into_bytes()
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '\r'])
}

fn data_value(line: &str) -> Option<&str> {
    let value = line.strip_prefix("data:")?;
    Some(value.strip_prefix(' ').unwrap_or(value))
}

#[cfg(test)]
#[path = "sse_frames_tests.rs"]
mod tests;
