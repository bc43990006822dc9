//! The data of server-sent events, as bytes come in: any line end, lines and characters split anywhere.
//!
//! It looks at a copy, so it complains about nothing: what it cannot read it leaves out.

/// The longest event that is looked into.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Reads a stream of events.
#[derive(Debug, Default)]
pub(super) struct Sse {
    line: Vec<u8>,
    data: Option<String>,
    after_cr: bool,
}

impl Sse {
    /// Takes the next bytes, and hands on the data of each event that is complete.
    pub(super) fn push(&mut self, bytes: &[u8], found: &mut dyn FnMut(&str)) {
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => self.end_line(found),
                _ if self.line.len() < MOST_BYTES => self.line.push(byte),
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
            Some(data) if data.len() < MOST_BYTES => {
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
