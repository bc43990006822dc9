//! Flyball's own events: one JSON object a line.

use super::lines::Reader;
use super::{Broken, Format, Item, Sink, Summary};
use flyball::limits::EVENT_BYTES;
use flyball::{Code, Error, Event};
use flyball_journal::parsed_checks;
use std::borrow::Cow;
use std::io::{BufRead, Read};

/// Reads events. The first bad line ends it.
pub(super) fn read(reader: Reader<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut summary = Summary { format: Format::Flyball, lines: 0, skipped: 0, broken: 0, unfinished: false };
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let line = summary.lines + 1;
        let broken = |error| Broken { line, error };
        let read = (&mut *reader.input).take(EVENT_BYTES as u64 + 2).read_until(b'\n', &mut buffer);
        let read = read.map_err(|error| {
            broken(Error::new(Code::BrokenLine, error.to_string(), "check that the file can be read"))
        })?;
        if read == 0 {
            return Ok(summary);
        }
        summary.lines = line;
        let whole = buffer.last() == Some(&b'\n');
        let text = buffer.strip_prefix(b"\xef\xbb\xbf").filter(|_| line == 1).unwrap_or(&buffer);
        let text = text.trim_ascii();
        if text.is_empty() {
            summary.skipped += 1;
            continue;
        }
        if text.len() > EVENT_BYTES {
            return Err(broken(Error::new(
                Code::EventTooLarge,
                format!("the line has more than {EVENT_BYTES} bytes"),
                "send a fingerprint or the first part of large outputs instead of the whole",
            )));
        }
        // What is not UTF-8 is refused by the event, and shown to nobody.
        let clean = std::str::from_utf8(text).map(|text| reader.door.clean(text));
        let clean = match &clean {
            Ok(Cow::Owned(clean)) => clean.as_bytes(),
            _ => text,
        };
        let read = Event::from_bytes(clean).and_then(|event| {
            // What was understood as an event is UTF-8.
            let parsed = parsed_checks(&event, &String::from_utf8_lossy(clean))?;
            parsed.map_or(Ok(event), |text| Event::from_json(&text))
        });
        match read {
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
