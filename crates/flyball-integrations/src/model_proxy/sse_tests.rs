//! Server-sent events are read correctly however the bytes are split.

use super::SseDataReader;

fn read(stream: &str, size: usize) -> Vec<String> {
    let (mut sse, mut found) = (SseDataReader::default(), Vec::new());
    for piece in stream.as_bytes().chunks(size) {
        sse.push(piece, &mut |data| found.push(data.to_owned()));
    }
    found
}

#[test]
fn events_are_found_however_the_bytes_are_split() {
    for end in ["\n", "\r\n", "\r"] {
        let stream =
            ["event: x", "data: {\"a\":\"ü\"}", "", ": ping", "", "data:one", "data: two", "", "data: half"];
        let stream = stream.join(end);
        for size in [1, 2, 3, 7, 1000] {
            assert_eq!(read(&stream, size), ["{\"a\":\"ü\"}", "one\ntwo"], "{end:?} {size}");
        }
    }
}
