//! Reads a transcript line by line or as one document, in bounded memory and with redaction.

use super::emitter::{EventEmitter, LineOutcome};
use super::raw_json::FieldStripper;
use super::{TranscriptError, raw_json};
use flyball::{Error, ErrorCode};
use flyball_store::RedactingParser;
use memchr::memchr;
use std::borrow::Cow;
use std::io::BufRead;

/// Maximum line length, in bytes; a longer line is skipped.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
/// Maximum size of a file that is one JSON document, in bytes.
pub(super) const MAX_DOCUMENT_BYTES: usize = 512 * 1024 * 1024;

/// Reads the text of a transcript.
pub(super) struct TranscriptReader<'a> {
    /// The name for a session without its own name.
    pub(super) name: &'a str,
    /// The input.
    pub(super) input: &'a mut dyn BufRead,
    /// Redacts secrets.
    pub(super) redactor: &'a RedactingParser,
}

/// Calls a function for each line that is not blank. The last line may be incomplete.
pub(super) fn each_line(
    reader: &mut TranscriptReader<'_>,
    out: &mut EventEmitter<'_>,
    each: &mut dyn FnMut(&mut EventEmitter<'_>, &str) -> LineOutcome,
) -> Result<(), TranscriptError> {
    let redactor = reader.redactor;
    each_raw_line(reader, out, &mut |out, line, last| handle_line(redactor, out, line, last, each))
}

/// Like `each_line`, but strips an unused field that may be most of a line.
pub(super) fn each_line_without_field(
    unread: &mut FieldStripper,
    reader: &mut TranscriptReader<'_>,
    out: &mut EventEmitter<'_>,
    each: &mut dyn FnMut(&mut EventEmitter<'_>, &str) -> LineOutcome,
) -> Result<(), TranscriptError> {
    let redactor = reader.redactor;
    each_raw_line(reader, out, &mut |out, line, last| {
        handle_line(redactor, out, unread.strip(line.trim_ascii()), last, each);
    })
}

/// Calls a function for each raw line, with a flag for text after the last line end.
fn each_raw_line(
    reader: &mut TranscriptReader<'_>,
    out: &mut EventEmitter<'_>,
    each: &mut dyn FnMut(&mut EventEmitter<'_>, &[u8], bool),
) -> Result<(), TranscriptError> {
    let mut kept = Vec::new();
    loop {
        let buffer = reader.input.fill_buf().map_err(|error| read_error(out, &error))?;
        if buffer.is_empty() {
            if !kept.is_empty() {
                each(out, &kept, true);
            }
            return Ok(());
        }
        match memchr(b'\n', buffer) {
            Some(end) if kept.is_empty() => {
                each(out, buffer.get(..end).unwrap_or_default(), false);
                reader.input.consume(end + 1);
            }
            Some(end) => {
                kept.extend_from_slice(buffer.get(..end).unwrap_or_default());
                reader.input.consume(end + 1);
                each(out, &kept, false);
                kept.clear();
            }
            None => {
                let length = buffer.len();
                // An oversized line is read to its end, but only the beginning is kept.
                if kept.len() <= MAX_LINE_BYTES {
                    kept.extend_from_slice(buffer);
                }
                reader.input.consume(length);
            }
        }
        if out.is_stopped() {
            return Ok(());
        }
    }
}

fn handle_line(
    redactor: &RedactingParser,
    out: &mut EventEmitter<'_>,
    line: &[u8],
    last: bool,
    each: &mut dyn FnMut(&mut EventEmitter<'_>, &str) -> LineOutcome,
) {
    out.next_line();
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    let step = if line.is_empty() {
        LineOutcome::Skipped
    } else if line.len() > MAX_LINE_BYTES {
        LineOutcome::Malformed
    } else {
        let text = lossy_text(line);
        each(out, &redactor.redact(&text))
    };
    if step == LineOutcome::Malformed && last {
        out.mark_unfinished();
    } else {
        out.count(step);
    }
}

/// Calls a function for each JSON value of a file: one per line, or one that is the whole file. The last argument is
/// whether the value is complete.
pub(super) fn each_value(
    reader: &mut TranscriptReader<'_>,
    out: &mut EventEmitter<'_>,
    each: &mut dyn FnMut(&mut EventEmitter<'_>, &str, bool) -> LineOutcome,
) -> Result<(), TranscriptError> {
    let mut first = Vec::new();
    while first.trim_ascii().is_empty() {
        first.clear();
        let read =
            read_until(reader.input, &mut first, Some(b'\n')).map_err(|error| read_error(out, &error))?;
        if read == 0 {
            return Ok(());
        }
    }
    let more = !reader.input.fill_buf().map_err(|error| read_error(out, &error))?.is_empty();
    if more && raw_json::is_complete(&lossy_text(trim_line(&first))) {
        handle_line(reader.redactor, out, &first, false, &mut |out, text| each(out, text, true));
        return each_line(reader, out, &mut |out, text| {
            if raw_json::is_complete(text) { each(out, text, true) } else { LineOutcome::Malformed }
        });
    }
    out.set_document();
    read_until(reader.input, &mut first, None).map_err(|error| read_error(out, &error))?;
    if first.len() > MAX_DOCUMENT_BYTES {
        return Err(TranscriptError {
            line: 0,
            error: Error::new(
                ErrorCode::DocumentTooLarge,
                format!("the file is one JSON document of more than {} MiB", MAX_DOCUMENT_BYTES >> 20),
                "split it, or write JSON lines, which are read one at a time",
            ),
        });
    }
    let text = lossy_text(trim_line(&first));
    let text = reader.redactor.redact(&text);
    let whole = raw_json::is_complete(&text);
    if !whole {
        out.mark_unfinished();
    }
    each(out, &text, whole);
    Ok(())
}

/// Reads up to a byte or the end of input, but at most one byte more than the document limit.
fn read_until(input: &mut dyn BufRead, into: &mut Vec<u8>, until: Option<u8>) -> std::io::Result<usize> {
    let mut read = 0;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() || into.len() > MAX_DOCUMENT_BYTES {
            return Ok(read);
        }
        let end = until.and_then(|byte| memchr(byte, buffer));
        let length = end.map_or(buffer.len(), |end| end + 1);
        into.extend_from_slice(buffer.get(..length).unwrap_or_default());
        input.consume(length);
        read += length;
        if end.is_some() {
            return Ok(read);
        }
    }
}

/// Reads the rest of the input, up to the document limit.
pub(super) fn read_rest(
    reader: &mut TranscriptReader<'_>,
    out: &EventEmitter<'_>,
) -> Result<Vec<u8>, TranscriptError> {
    let mut all = Vec::new();
    read_until(reader.input, &mut all, None).map_err(|error| read_error(out, &error))?;
    Ok(all)
}

/// Decodes UTF-8 and replaces invalid bytes, so that an event is not lost because of one.
pub(super) fn lossy_text(bytes: &[u8]) -> Cow<'_, str> {
    // Validation is much faster than lossy decoding and almost always succeeds.
    simdutf8::basic::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

fn trim_line(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii()
}

fn read_error(out: &EventEmitter<'_>, error: &std::io::Error) -> TranscriptError {
    let help = "check that the file can be read";
    TranscriptError { line: out.line(), error: Error::new(ErrorCode::InvalidJson, error.to_string(), help) }
}
