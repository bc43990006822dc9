//! Streams split at any position, with any line ending.

use super::*;

fn read(pieces: &[&[u8]], finish: bool) -> Result<Vec<(String, String)>, SseError> {
    let mut sse = SseParser::default();
    let mut events = Vec::new();
    for piece in pieces {
        sse.push(piece, &mut events)?;
    }
    if finish {
        sse.finish(&mut events)?;
    }
    Ok(events.into_iter().map(|event| (event.name, event.data)).collect())
}

fn check(stream: &str, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> =
        expected.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect();
    let bytes = stream.as_bytes();
    assert_eq!(read(&[bytes], false).unwrap(), expected, "at once: {stream:?}");
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(&single, false).unwrap(), expected, "byte by byte: {stream:?}");
    for at in 0..=bytes.len() {
        let (a, b) = bytes.split_at(at);
        assert_eq!(read(&[a, b], false).unwrap(), expected, "split at {at}: {stream:?}");
    }
}

#[test]
fn events_are_the_same_for_any_chunking() {
    check("data: a\n\n", &[("", "a")]);
    check("data:a\n\ndata:  b\n\n", &[("", "a"), ("", " b")]);
    check("event: x\ndata: a\n\ndata: b\n\n", &[("x", "a"), ("", "b")]);
    check("data: a\r\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]);
    check("data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]);
    check("data: a\ndata: b\ndata\n\n", &[("", "a\nb\n")]);
    check(": comment\n\n:\nid: 7\nretry: 10\nwhat: ever\ndata: a\n\n", &[("", "a")]);
    check("event: lonely\n\ndata: a\n\n", &[("", "a")]);
    check("\u{feff}data: a\n\n", &[("", "a")]);
    check("data: {\"t\":\"żółw 🐢 — кот\"}\n\n", &[("", "{\"t\":\"żółw 🐢 — кот\"}")]);
    check("data: a\n\ndata: not complete", &[("", "a")]);
    check("data\n\n", &[("", "")]);
}

#[test]
fn end_of_stream_completes_the_last_event() {
    let done = vec![(String::new(), "[DONE]".to_owned())];
    assert_eq!(read(&[b"data: [DONE]"], true).unwrap(), done);
    assert_eq!(read(&[b"data: [DONE]\n"], true).unwrap(), done);
    assert_eq!(read(&[b""], true).unwrap(), vec![]);
}

#[test]
fn invalid_utf8_and_oversized_events_are_rejected() {
    assert_eq!(read(&[b"data: \xff\n\n"], false), Err(SseError::NotUtf8));
    let line = vec![b'x'; MAX_EVENT_BYTES + 1];
    assert_eq!(read(&[&line], false), Err(SseError::TooLong));
    let lines = [b"data: ".as_slice(), &vec![b'x'; MAX_EVENT_BYTES / 2], b"\n"].concat();
    assert_eq!(read(&[&lines, &lines, &lines], false), Err(SseError::TooLong));
}
