//! Clients that keep a connection open and send events with ids, to this server or to that.

use flyball_journal::{Address, Desk};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits for an answer before it asks elsewhere.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection to a server.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    key: String,
}

/// What came back.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: String,
}

/// An event that was acknowledged, and with which words.
pub(crate) struct Acknowledged {
    pub(crate) session: String,
    pub(crate) id: String,
    pub(crate) decision: String,
}

/// An event with an id, unlike any other.
pub(crate) fn event(session: &str, id: &str) -> String {
    format!(
        r#"{{"type":"tool.requested","session":"{session}","id":"{id}","call":"{id}","tool":"bash","args":{{"command":"make {id}"}}}}"#
    )
}

/// A store, as anybody may look at it.
pub(crate) fn desk(store: &str) -> Arc<dyn Desk> {
    Address::read(store, Path::new(".")).unwrap().open().unwrap()
}

/// Every acknowledged decision is in the store, byte for byte; gives how many events the sessions have.
pub(crate) fn all_stored(desk: &dyn Desk, acknowledged: &[Acknowledged]) -> u64 {
    for Acknowledged { session, id, decision } in acknowledged {
        let stored = desk.find(session, id).unwrap().unwrap_or_else(|| panic!("{session}/{id} is lost"));
        assert_eq!(stored.decision.as_deref(), Some(decision.as_str()), "{session}/{id}");
    }
    let mut sessions: Vec<&str> = acknowledged.iter().map(|one| one.session.as_str()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    sessions.iter().map(|session| desk.load(session).unwrap().unwrap().head.seq).sum()
}

impl Client {
    /// Connects; `place` is `http://ADDRESS`.
    pub(crate) fn connect(place: &str, key: &str) -> std::io::Result<Self> {
        let address = place.trim_start_matches("http://").parse().unwrap();
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream: BufReader::new(stream), key: key.to_owned() })
    }

    /// Posts an event and reads the answer; an error means that nobody knows whether it was taken.
    pub(crate) fn post(&mut self, event: &str) -> std::io::Result<Reply> {
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
        Ok(Reply { status, retry_after, body: String::from_utf8_lossy(&body).into_owned() })
    }

    /// Sends a request that says how long its body is, and as much of the body as there is.
    pub(crate) fn send(&mut self, length: usize, body: &str) -> std::io::Result<()> {
        let request = format!(
            "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
            self.key
        );
        self.stream.get_mut().write_all(request.as_bytes())
    }
}
