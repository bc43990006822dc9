//! A client for live events.

use crate::server_harness::TestServer;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Timeout for expected events.
pub(crate) const RECEIVE_TIMEOUT: Duration = Duration::from_secs(30);

/// One event of the stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SseMessage {
    pub(crate) id: String,
    pub(crate) data: Value,
}

impl SseMessage {
    /// The session and the sequence number.
    pub(crate) fn session_and_seq(&self) -> (String, u64) {
        (self.data["session"].as_str().unwrap().to_owned(), self.data["seq"].as_u64().unwrap())
    }

    /// The stream position, in comparable form.
    pub(crate) fn position(&self) -> (u64, u64) {
        let (transaction, position) = self.id.split_once('-').unwrap();
        (transaction.parse().unwrap(), position.parse().unwrap())
    }
}

/// A connection that is read on a separate thread.
pub(crate) struct SseClient(Receiver<SseMessage>);

impl SseClient {
    /// Connects; the stream has started when this returns.
    pub(crate) fn open(server: &TestServer, path: &str, key: &str, last: Option<&str>) -> Self {
        let agent: ureq::Agent = ureq::Agent::config_builder().build().into();
        let mut request =
            agent.get(format!("{}{path}", server.base_url)).header("Authorization", format!("Bearer {key}"));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let answer = request.call().unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut lines = BufReader::new(answer.into_body().into_reader()).lines();
        let hello = lines.next().unwrap().unwrap();
        assert_eq!(hello, "retry: 1000");
        let (tell, received) = channel();
        std::thread::spawn(move || {
            let (mut id, mut kind, mut data) = (String::new(), String::new(), None);
            for line in lines.map_while(Result::ok) {
                if let Some(text) = line.strip_prefix("id: ") {
                    text.clone_into(&mut id);
                } else if let Some(text) = line.strip_prefix("event: ") {
                    text.clone_into(&mut kind);
                } else if let Some(text) = line.strip_prefix("data: ") {
                    assert!(data.replace(serde_json::from_str(text).unwrap()).is_none(), "two lines of data");
                } else if line.is_empty() {
                    if let Some(data) = data.take() {
                        assert_eq!(kind, "decision");
                        let _ = tell.send(SseMessage { id: id.clone(), data });
                    }
                } else {
                    assert!(line.starts_with(':'), "{line:?}");
                }
            }
        });
        SseClient(received)
    }

    /// The next `count` events.
    pub(crate) fn next(&self, count: usize) -> Vec<SseMessage> {
        (0..count).map(|_| self.0.recv_timeout(RECEIVE_TIMEOUT).expect("an event was missed")).collect()
    }

    /// Asserts that nothing arrives for a while.
    pub(crate) fn assert_quiet(&self) {
        assert_eq!(self.0.recv_timeout(Duration::from_millis(700)), Err(RecvTimeoutError::Timeout));
    }

    /// Asserts that the stream ends.
    pub(crate) fn assert_ended(&self) {
        loop {
            match self.0.recv_timeout(RECEIVE_TIMEOUT) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => panic!("the stream does not end"),
            }
        }
    }
}
