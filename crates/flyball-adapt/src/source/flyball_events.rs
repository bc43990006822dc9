//! Flyball's own events: one JSON object a line.

use super::{Broken, Format, Item, Sink, Summary};
use flyball::limits::EVENT_BYTES;
use flyball::{Code, Error, Event};
use std::io::{BufRead, Read};

/// Reads events. The first bad line ends it.
pub(super) fn read(input: &mut dyn BufRead, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut summary = Summary { format: Format::Flyball, lines: 0, skipped: 0, unfinished: false };
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let line = summary.lines + 1;
        let broken = |error| Broken { line, error };
        let read = input.take(EVENT_BYTES as u64 + 2).read_until(b'\n', &mut buffer);
        let read = read.map_err(|error| {
            broken(Error::new(Code::BrokenLine, error.to_string(), "check that the file can be read"))
        })?;
        if read == 0 {
            return Ok(summary);
        }
        summary.lines = line;
        let whole = buffer.last() == Some(&b'\n');
        let text = buffer.trim_ascii();
        if text.is_empty() {
            summary.skipped += 1;
            continue;
        }
        match Event::from_bytes(text) {
            Ok(event) => {
                if !sink(Item::plain(event, line)) {
                    return Ok(summary);
                }
            }
            Err(error) if !whole && error.code == Code::BrokenLine => {
                summary.unfinished = true;
                return Ok(summary);
            }
            Err(error) => return Err(broken(error)),
        }
    }
}
