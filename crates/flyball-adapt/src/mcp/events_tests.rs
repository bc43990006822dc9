//! Events of a stream: cut anywhere, changed or not, no byte is lost.

use super::{Event, Events};

fn cut(stream: &str, size: usize) -> Vec<Event> {
    let mut events = Events::default();
    let mut found: Vec<Event> = stream.as_bytes().chunks(size).flat_map(|piece| events.push(piece)).collect();
    found.extend(events.rest());
    found
}

#[test]
fn every_byte_is_kept_and_every_event_is_found() {
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
            let events = cut(&stream, size);
            let all: Vec<u8> = events.iter().flat_map(|event| event.raw.clone()).collect();
            assert_eq!(String::from_utf8(all).unwrap(), stream);
            let data: Vec<String> = events.iter().filter_map(Event::data).collect();
            assert_eq!(data, ["{\"a\":\n1}", "x", "half"], "{end:?} {size}");
        }
    }
}

#[test]
fn other_data_leaves_the_rest_of_the_event() {
    let events = cut("event: message\nid: 7\ndata: {\ndata: }\n\n", 100);
    assert_eq!(events[0].with_data("{\"b\":2}"), b"event: message\nid: 7\ndata: {\"b\":2}\n\n");
}
