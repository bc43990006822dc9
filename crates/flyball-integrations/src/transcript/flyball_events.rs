//! Flyball's own events as JSON lines.

use super::lines::TranscriptReader;
use super::{TranscriptError, TranscriptEvent, TranscriptFormat, TranscriptSink, TranscriptSummary};
use flyball::limits::EVENT_BYTES;
use flyball::{Error, ErrorCode, Event};
use flyball_store::with_parsed_checks;
use std::borrow::Cow;
use std::io::{BufRead, Read};

/// Reads events. The first invalid line is an error.
pub(super) fn read(
    reader: TranscriptReader<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let mut summary = TranscriptSummary {
        format: TranscriptFormat::Flyball,
        lines: 0,
        skipped: 0,
        broken: 0,
        unfinished: false,
    };
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let line = summary.lines + 1;
        let broken = |error| TranscriptError { line, error };
        let read = (&mut *reader.input).take(EVENT_BYTES as u64 + 2).read_until(b'\n', &mut buffer);
        let read = read.map_err(|error| {
            broken(Error::new(ErrorCode::InvalidJson, error.to_string(), "check that the file can be read"))
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
                ErrorCode::EventTooLarge,
                format!("the line has more than {EVENT_BYTES} bytes"),
                "send a fingerprint or the first part of large outputs instead of the whole",
            )));
        }
        // Text that is not UTF-8 is rejected by the event parser and never shown.
        let clean = std::str::from_utf8(text).map(|text| reader.redactor.redact(text));
        let clean = match &clean {
            Ok(Cow::Owned(clean)) => clean.as_bytes(),
            _ => text,
        };
        let read = Event::from_bytes(clean).and_then(|event| {
            // A parsed event is valid UTF-8.
            let parsed = with_parsed_checks(&event, &String::from_utf8_lossy(clean))?;
            parsed.map_or(Ok(event), |text| Event::from_json(&text))
        });
        match read {
            Ok(event) => {
                if !sink(TranscriptEvent::from_event(event, line)) {
                    return Ok(summary);
                }
            }
            Err(error) if !whole && error.code == ErrorCode::InvalidJson => {
                summary.unfinished = true;
                return Ok(summary);
            }
            Err(error) => return Err(broken(error)),
        }
    }
}
