//! Streams split at any byte, with and without edits, lose no byte.

use super::{SseFrame, SseSplitter};

fn split(stream: &str, size: usize) -> Vec<SseFrame> {
    let mut events = SseSplitter::default();
    let mut found: Vec<SseFrame> =
        stream.as_bytes().chunks(size).flat_map(|piece| events.push(piece)).collect();
    found.extend(events.take_rest());
    found
}

#[test]
fn splitting_keeps_every_byte_and_finds_every_event() {
    for end in ["\n", "\r\n", "\r"] {
        let lines = [
            ": hi",
            "",
            "event: message",
            "id: 1",
            "data: {\"a\":",
            "data:1}",
            "",
            "data: x",
            "",
            "data: half",
        ];
        let stream = lines.join(end);
        for size in [1, 2, 5, 1000] {
            let events = split(&stream, size);
            let all: Vec<u8> = events.iter().flat_map(|event| event.raw.clone()).collect();
            assert_eq!(String::from_utf8(all).unwrap(), stream);
            let data: Vec<String> = events.iter().filter_map(SseFrame::data).collect();
            assert_eq!(data, ["{\"a\":\n1}", "x", "half"], "{end:?} {size}");
        }
    }
}

#[test]
fn replacing_data_keeps_the_other_fields() {
    let events = split("event: message\nid: 7\ndata: {\ndata: }\n\n", 100);
    assert_eq!(events[0].with_data("{\"b\":2}"), b"event: message\nid: 7\ndata: {\"b\":2}\n\n");
}
