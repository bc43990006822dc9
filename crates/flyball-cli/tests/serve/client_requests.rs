//! Additional requests: JSON in and out, raw bytes, keys limited to some sessions.

use crate::server_harness::TestServer;
use flyball_server::{ApiKeyStore, AuthRole};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Timeout for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

impl TestServer {
    /// Creates a key for sessions with this prefix.
    pub(crate) fn create_key_for(&self, name: &str, role: AuthRole, sessions: &str) -> String {
        let address = flyball_store::StoreAddress::parse(&self.store, &self.folder).unwrap();
        let keys = ApiKeyStore::new(address.open().unwrap());
        keys.create(name, role, Some(sessions.to_owned()), None).unwrap().secret
    }

    /// Sends a JSON request; returns the status and the JSON body.
    pub(crate) fn request_json(
        &self,
        method: &str,
        path: &str,
        key: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let body = body.map(Value::to_string);
        let (status, text) = self.request(method, path, Some(key), body.as_deref());
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Sends raw bytes; returns the response, at least its head.
    pub(crate) fn send_raw(&self, bytes: &[u8]) -> String {
        let mut stream =
            TcpStream::connect(self.base_url.trim_start_matches("https://").trim_start_matches("http://"))
                .unwrap();
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).unwrap();
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(bytes);
        read_response(stream)
    }
}

/// Reads a response: the head, and the whole body unless it is an open-ended stream.
pub(crate) fn read_response(mut stream: impl Read) -> String {
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

/// The status of a raw response.
pub(crate) fn response_status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}
