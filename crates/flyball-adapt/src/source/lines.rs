//! Reading the text of a transcript: line by line, or as one document; in bounded memory, and behind the door.

use super::outbox::{Outbox, Step};
use super::peel::Unread;
use super::{Broken, peel};
use flyball::{Code, Error};
use flyball_journal::Door;
use memchr::memchr;
use std::borrow::Cow;
use std::io::BufRead;

/// The longest line of another tool's log that is read, in bytes; a longer one is skipped.
const LINE_BYTES: usize = 64 * 1024 * 1024;
/// The largest file that is one JSON document, in bytes.
pub(super) const DOCUMENT_BYTES: usize = 512 * 1024 * 1024;

/// The text of a transcript.
pub(super) struct Reader<'a> {
    /// What to call a session that has no name of its own.
    pub(super) name: &'a str,
    /// The bytes.
    pub(super) input: &'a mut dyn BufRead,
    /// Takes out what looks like a secret.
    pub(super) door: &'a Door,
}

/// Hands on each line that is not blank. The last one may be half written.
pub(super) fn each_line(
    reader: &mut Reader<'_>,
    out: &mut Outbox<'_>,
    each: &mut dyn FnMut(&mut Outbox<'_>, &str) -> Step,
) -> Result<(), Broken> {
    let door = reader.door;
    each_raw_line(reader, out, &mut |out, line, last| one_line(door, out, line, last, each))
}

/// The same, without a field that nobody reads: most of a line may be in it.
pub(super) fn each_line_without(
    unread: &mut Unread,
    reader: &mut Reader<'_>,
    out: &mut Outbox<'_>,
    each: &mut dyn FnMut(&mut Outbox<'_>, &str) -> Step,
) -> Result<(), Broken> {
    let door = reader.door;
    each_raw_line(reader, out, &mut |out, line, last| {
        one_line(door, out, unread.out_of(line.trim_ascii()), last, each);
    })
}

/// Hands on each line as it is, and whether it is what stands behind the last line end.
fn each_raw_line(
    reader: &mut Reader<'_>,
    out: &mut Outbox<'_>,
    each: &mut dyn FnMut(&mut Outbox<'_>, &[u8], bool),
) -> Result<(), Broken> {
    let mut kept = Vec::new();
    loop {
        let buffer = reader.input.fill_buf().map_err(|error| unreadable(out, &error))?;
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
                // What is longer than a line may be is read to its end, and kept no further.
                if kept.len() <= LINE_BYTES {
                    kept.extend_from_slice(buffer);
                }
                reader.input.consume(length);
            }
        }
        if out.stopped() {
            return Ok(());
        }
    }
}

fn one_line(
    door: &Door,
    out: &mut Outbox<'_>,
    line: &[u8],
    last: bool,
    each: &mut dyn FnMut(&mut Outbox<'_>, &str) -> Step,
) {
    out.next_line();
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    let step = if line.is_empty() {
        Step::Nothing
    } else if line.len() > LINE_BYTES {
        Step::Bad
    } else {
        let text = readable(line);
        each(out, &door.clean(&text))
    };
    if step == Step::Bad && last {
        out.unfinished();
    } else {
        out.count(step);
    }
}

/// Hands on each JSON value of a file: one a line, or one that is the whole file. The last argument tells whether the
/// value is all there.
pub(super) fn each_value(
    reader: &mut Reader<'_>,
    out: &mut Outbox<'_>,
    each: &mut dyn FnMut(&mut Outbox<'_>, &str, bool) -> Step,
) -> Result<(), Broken> {
    let mut first = Vec::new();
    while first.trim_ascii().is_empty() {
        first.clear();
        let read =
            take_until(reader.input, &mut first, Some(b'\n')).map_err(|error| unreadable(out, &error))?;
        if read == 0 {
            return Ok(());
        }
    }
    let more = !reader.input.fill_buf().map_err(|error| unreadable(out, &error))?.is_empty();
    if more && peel::is_whole(&readable(trimmed(&first))) {
        one_line(reader.door, out, &first, false, &mut |out, text| each(out, text, true));
        return each_line(reader, out, &mut |out, text| {
            if peel::is_whole(text) { each(out, text, true) } else { Step::Bad }
        });
    }
    out.is_document();
    take_until(reader.input, &mut first, None).map_err(|error| unreadable(out, &error))?;
    if first.len() > DOCUMENT_BYTES {
        return Err(Broken {
            line: 0,
            error: Error::new(
                Code::DocumentTooLarge,
                format!("the file is one JSON document of more than {} MiB", DOCUMENT_BYTES >> 20),
                "split it, or write one JSON object a line: lines are read one by one",
            ),
        });
    }
    let text = readable(trimmed(&first));
    let text = reader.door.clean(&text);
    let whole = peel::is_whole(&text);
    if !whole {
        out.unfinished();
    }
    each(out, &text, whole);
    Ok(())
}

/// Reads to a byte, or to the end; never more than a document may have, and one byte.
fn take_until(input: &mut dyn BufRead, into: &mut Vec<u8>, until: Option<u8>) -> std::io::Result<usize> {
    let mut read = 0;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() || into.len() > DOCUMENT_BYTES {
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

/// Reads everything that is left, up to the size of a document.
pub(super) fn whole(reader: &mut Reader<'_>, out: &Outbox<'_>) -> Result<Vec<u8>, Broken> {
    let mut all = Vec::new();
    take_until(reader.input, &mut all, None).map_err(|error| unreadable(out, &error))?;
    Ok(all)
}

/// Bytes that are not UTF-8 are shown as such; an event is not lost for a broken letter.
pub(super) fn readable(bytes: &[u8]) -> Cow<'_, str> {
    // Checking is many times as fast as repairing, and almost always enough.
    simdutf8::basic::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii()
}

fn unreadable(out: &Outbox<'_>, error: &std::io::Error) -> Broken {
    let advice = "check that the file can be read";
    Broken { line: out.line(), error: Error::new(Code::BrokenLine, error.to_string(), advice) }
}
