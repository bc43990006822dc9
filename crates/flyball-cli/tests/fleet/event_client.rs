//! Clients that keep a connection open and send events with ids to any of the servers.

use flyball_store::{AdminStore, StoreAddress};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits for a response before it tries another server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to a server.
pub(crate) struct EventClient {
    stream: BufReader<TcpStream>,
    key: String,
}

/// A response.
pub(crate) struct EventResponse {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: String,
}

/// An acknowledged event and its decision.
pub(crate) struct AcknowledgedEvent {
    pub(crate) session: String,
    pub(crate) id: String,
    pub(crate) decision: String,
}

/// A unique event with an id.
pub(crate) fn event(session: &str, id: &str) -> String {
    format!(
        r#"{{"type":"tool.requested","session":"{session}","id":"{id}","call":"{id}","tool":"bash","args":{{"command":"make {id}"}}}}"#
    )
}

/// Opens a store directly.
pub(crate) fn open_store(store: &str) -> Arc<dyn AdminStore> {
    StoreAddress::parse(store, Path::new(".")).unwrap().open().unwrap()
}

/// Asserts that every acknowledged decision is stored byte for byte; returns the number of events in the sessions.
pub(crate) fn assert_all_stored(store: &dyn AdminStore, acknowledged: &[AcknowledgedEvent]) -> u64 {
    for AcknowledgedEvent { session, id, decision } in acknowledged {
        let stored =
            store.find_by_id(session, id).unwrap().unwrap_or_else(|| panic!("{session}/{id} is lost"));
        assert_eq!(stored.decision_json.as_deref(), Some(decision.as_str()), "{session}/{id}");
    }
    let mut sessions: Vec<&str> = acknowledged.iter().map(|one| one.session.as_str()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    sessions.iter().map(|session| store.load(session).unwrap().unwrap().head.seq).sum()
}

impl EventClient {
    /// Connects to `base_url`, which is `http://ADDRESS`.
    pub(crate) fn connect(base_url: &str, key: &str) -> std::io::Result<Self> {
        let address = base_url.trim_start_matches("http://").parse().unwrap();
        let stream = TcpStream::connect_timeout(&address, REQUEST_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
        Ok(EventClient { stream: BufReader::new(stream), key: key.to_owned() })
    }

    /// Posts an event and reads the response. After an error, it is unknown whether the event was accepted.
    pub(crate) fn post(&mut self, event: &str) -> std::io::Result<EventResponse> {
        self.send(event.len(), event)?;
        let gone = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let (mut status, mut length, mut retry_after) = (0, 0, None);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(gone());
            }
            let line = line.trim();
            if line.is_empty() {
                break;
            }
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest.get(..3).and_then(|code| code.parse().ok()).ok_or_else(gone)?;
            } else if let Some((name, value)) = line.split_once(':') {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.trim().parse().map_err(|_| gone())?,
                    "retry-after" => retry_after = Some(value.trim().to_owned()),
                    _ => {}
                }
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(EventResponse { status, retry_after, body: String::from_utf8_lossy(&body).into_owned() })
    }

    /// Sends a request with this content length and as much of the body as given.
    pub(crate) fn send(&mut self, length: usize, body: &str) -> std::io::Result<()> {
        let request = format!(
            "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
            self.key
        );
        self.stream.get_mut().write_all(request.as_bytes())
    }
}
