//! More ways to ask the server than the kit has: JSON in and out, bytes as they are, keys for some sessions.

use crate::kit::Server;
use flyball_serve::{Keys, Role};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

impl Server {
    /// Makes a key for sessions whose names begin with this.
    pub(crate) fn key_for(&self, name: &str, role: Role, sessions: &str) -> String {
        let address = flyball_journal::Address::read(&self.store, &self.folder).unwrap();
        let keys = Keys::new(address.open().unwrap());
        keys.create(name, role, Some(sessions.to_owned()), None).unwrap().secret
    }

    /// Asks and reads JSON; gives the status and the value.
    pub(crate) fn json(&self, method: &str, path: &str, key: &str, body: Option<&Value>) -> (u16, Value) {
        let body = body.map(Value::to_string);
        let (status, text) = self.ask(method, path, Some(key), body.as_deref());
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Sends bytes as they are; gives what comes back, at least its head.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream =
            TcpStream::connect(self.place.trim_start_matches("https://").trim_start_matches("http://"))
                .unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The server may hang up before it has read everything.
        let _ = stream.write_all(bytes);
        answer(stream)
    }
}

/// What comes back on a connection: the head, and all of the body unless it goes on for ever.
pub(crate) fn answer(mut stream: impl Read) -> String {
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&got).into_owned();
        if text.contains("\r\n\r\n") && text.contains("text/event-stream") {
            return text;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return text,
            Ok(count) => got.extend_from_slice(&buffer[..count]),
        }
    }
}

/// The status of an answer that came as text.
pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}
