//! Somebody who listens to live events.

use crate::kit::Server;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long to wait for something that must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// One event of the stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heard {
    pub(crate) id: String,
    pub(crate) data: Value,
}

impl Heard {
    /// The session and the number.
    pub(crate) fn name(&self) -> (String, u64) {
        (self.data["session"].as_str().unwrap().to_owned(), self.data["seq"].as_u64().unwrap())
    }

    /// The place, in its order.
    pub(crate) fn place(&self) -> (u64, u64) {
        let (transaction, position) = self.id.split_once('-').unwrap();
        (transaction.parse().unwrap(), position.parse().unwrap())
    }
}

/// A connection that is read in a thread.
pub(crate) struct Ear(Receiver<Heard>);

impl Ear {
    /// Listens; the stream has begun when this returns.
    pub(crate) fn open(server: &Server, path: &str, key: &str, last: Option<&str>) -> Self {
        let agent: ureq::Agent = ureq::Agent::config_builder().build().into();
        let mut request =
            agent.get(format!("{}{path}", server.place)).header("Authorization", format!("Bearer {key}"));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let answer = request.call().unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut lines = BufReader::new(answer.into_body().into_reader()).lines();
        let hello = lines.next().unwrap().unwrap();
        assert_eq!(hello, "retry: 1000");
        let (tell, heard) = channel();
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
                        let _ = tell.send(Heard { id: id.clone(), data });
                    }
                } else {
                    assert!(line.starts_with(':'), "{line:?}");
                }
            }
        });
        Ear(heard)
    }

    /// The next events, as many as must come.
    pub(crate) fn next(&self, count: usize) -> Vec<Heard> {
        (0..count).map(|_| self.0.recv_timeout(PATIENCE).expect("an event was missed")).collect()
    }

    /// Nothing comes for a while.
    pub(crate) fn quiet(&self) {
        assert_eq!(self.0.recv_timeout(Duration::from_millis(700)), Err(RecvTimeoutError::Timeout));
    }

    /// The stream ends.
    pub(crate) fn ends(&self) {
        loop {
            match self.0.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => panic!("it goes on and on"),
            }
        }
    }
}
