//! A stream of server-sent events, cut into its events with every byte kept.

/// The longest event; a longer one is passed on in pieces that nobody looks into.
const MOST_BYTES: usize = 128 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// As it came, with the empty line at its end.
    pub(super) raw: Vec<u8>,
}

/// Cuts a stream into events.
#[derive(Debug, Default)]
pub(super) struct Events {
    raw: Vec<u8>,
    /// How long the present line is.
    line: usize,
    after_cr: bool,
}

impl Events {
    /// Takes the next bytes; gives the events that are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut found = Vec::new();
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            if byte == b'\n' && after_cr && self.raw.is_empty() {
                // The second half of a line end whose first half ended an event.
                found.push(Event { raw: vec![byte] });
                continue;
            }
            self.raw.push(byte);
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' if self.line == 0 => found.push(self.cut()),
                b'\n' | b'\r' => self.line = 0,
                _ => self.line += 1,
            }
            if self.raw.len() > MOST_BYTES {
                found.push(self.cut());
            }
        }
        found
    }

    /// What is left at the end of the stream.
    pub(super) fn rest(&mut self) -> Option<Event> {
        (!self.raw.is_empty()).then(|| self.cut())
    }

    fn cut(&mut self) -> Event {
        self.line = 0;
        Event { raw: std::mem::take(&mut self.raw) }
    }
}

impl Event {
    /// Its data; several lines are joined. `None` if it has none, or none that can be read.
    pub(super) fn data(&self) -> Option<String> {
        let text = std::str::from_utf8(&self.raw).ok()?;
        let lines: Vec<&str> = lines(text).filter_map(data_of).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// The event with other data, and everything else as it was.
    pub(super) fn with_data(&self, data: &str) -> Vec<u8> {
        let text = String::from_utf8_lossy(&self.raw);
        let mut new = String::new();
        let mut put = false;
        for line in lines(&text).filter(|line| !line.is_empty()) {
            if data_of(line).is_none() {
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

fn data_of(line: &str) -> Option<&str> {
    let value = line.strip_prefix("data:")?;
    Some(value.strip_prefix(' ').unwrap_or(value))
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
