//! One HTTP exchange that can be given up at any time.
//!
//! The socket is read by a thread of its own; whoever asks waits for what it brings, looks whether it was cancelled,
//! and keeps to its deadline. Giving up shuts the connection, which ends the thread and tells the provider to stop.

use super::limits::{GLANCE, IDLE_AGENTS, MAX_ANSWER_BYTES, TAIL};
use super::retry::Try;
use crate::process::Cancel;
use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use ureq::{Agent, Proxy};

/// How many pieces may wait to be handled before the reading waits, too.
const QUEUE: usize = 16;
/// How much is read at once.
const PIECE_BYTES: usize = 16 * 1024;

/// How long the stages of an exchange may take. The deadline of the turn bounds them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    pub(super) connect: Duration,
    pub(super) first_byte: Duration,
    pub(super) idle: Duration,
}

/// What is sent.
pub(super) struct Post<'a> {
    pub(super) url: &'a str,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

/// The head of an answer.
pub(super) struct Head {
    pub(super) status: u16,
    headers: ureq::http::HeaderMap,
}

impl Head {
    /// A header by its name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Why an exchange came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lost {
    /// Somebody does not want it any more.
    Cancelled,
    /// The turn has no time left.
    Deadline,
    /// Nothing came for so long.
    Silent(Duration),
    /// There was no connection, or it ended before the answer began.
    Unreachable(String),
    /// It ended in the middle of the answer.
    Broken(String),
    /// It cannot work, however often it is tried.
    Hopeless(String),
    /// The answer is larger than may be.
    TooLarge,
}

/// Connections that are used again. Each exchange has an agent to itself, so that giving one up hurts no other.
pub(super) struct Agents {
    idle: Mutex<Vec<Agent>>,
    config: ureq::config::Config,
}

impl Agents {
    pub(super) fn new(patience: &Patience, proxy: Option<Proxy>) -> Self {
        let config = Agent::config_builder()
            .timeout_connect(Some(patience.connect))
            .timeout_resolve(Some(patience.connect))
            .http_status_as_error(false)
            // A redirect would carry the key to somebody else.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("flyball/", env!("CARGO_PKG_VERSION")))
            .proxy(proxy)
            .build();
        Agents { idle: Mutex::default(), config }
    }

    fn take(&self) -> Agent {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop().unwrap_or_else(|| self.config.new_agent())
    }

    fn give_back(&self, agent: Agent) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_AGENTS {
            idle.push(agent);
        }
    }
}

enum Piece {
    Head(Head),
    Bytes(Vec<u8>),
    End,
    Failed(ureq::Error),
}

/// One exchange. Dropping it before its end shuts the connection.
pub(super) struct Exchange<'a> {
    agents: &'a Agents,
    agent: Option<Agent>,
    pieces: Receiver<Piece>,
    cancel: &'a Cancel,
    this: Try,
    patience: Patience,
    begun: bool,
    ended: bool,
    size: usize,
}

impl<'a> Exchange<'a> {
    /// Sends a request.
    pub(super) fn start(
        agents: &'a Agents,
        post: Post<'_>,
        cancel: &'a Cancel,
        this: Try,
        patience: Patience,
    ) -> Result<Self, Lost> {
        let agent = agents.take();
        let mut request = agent.post(post.url);
        for (name, value) in &post.headers {
            request = request.header(name, value);
        }
        // A backstop: the waiting below is what keeps to the deadline.
        let request = request.config().timeout_global(Some(this.left())).build();
        let (sender, pieces) = sync_channel(QUEUE);
        let body = post.body;
        std::thread::Builder::new()
            .name("provider".to_owned())
            .spawn(move || carry(request, &body, &sender))
            .map_err(|error| Lost::Hopeless(format!("no thread can be started: {error}")))?;
        let agent = Some(agent);
        Ok(Exchange { agents, agent, pieces, cancel, this, patience, begun: false, ended: false, size: 0 })
    }

    /// Waits for the head of the answer.
    pub(super) fn head(&mut self) -> Result<Head, Lost> {
        let patience = self.patience.connect.saturating_add(self.patience.first_byte);
        match self.wait(patience)? {
            Piece::Head(head) => {
                self.begun = true;
                Ok(head)
            }
            _ => Err(Lost::Unreachable("the answer has no head".to_owned())),
        }
    }

    /// Waits for the next bytes of the body; nothing at its end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Lost> {
        let patience = if self.size == 0 { self.patience.first_byte } else { self.patience.idle };
        match self.wait(patience)? {
            Piece::Bytes(bytes) => {
                self.size += bytes.len();
                if self.size > MAX_ANSWER_BYTES { Err(Lost::TooLarge) } else { Ok(Some(bytes)) }
            }
            _ => {
                self.ended = true;
                Ok(None)
            }
        }
    }

    /// The model has ended: waits shortly for the end of the body, so that the connection can be used again.
    pub(super) fn settle(mut self) {
        let until = Instant::now() + TAIL;
        while !self.ended && Instant::now() < until {
            match self.pieces.recv_timeout(TAIL) {
                Ok(Piece::End) => self.ended = true,
                Ok(Piece::Bytes(_)) => {}
                _ => return,
            }
        }
    }

    fn wait(&mut self, patience: Duration) -> Result<Piece, Lost> {
        let began = Instant::now();
        loop {
            if self.cancel.is_cancelled() {
                return Err(Lost::Cancelled);
            }
            if self.this.left().is_zero() {
                return Err(Lost::Deadline);
            }
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(Lost::Silent(patience));
            }
            match self.pieces.recv_timeout(GLANCE.min(left).min(self.this.left())) {
                Ok(Piece::Failed(error)) => return Err(self.lost(error)),
                Ok(piece) => return Ok(piece),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Lost::Broken("the connection was dropped".to_owned()));
                }
            }
        }
    }

    fn lost(&self, error: ureq::Error) -> Lost {
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                let ms = self.patience.connect.as_millis();
                Lost::Unreachable(format!("no connection within {ms} ms"))
            }
            ureq::Error::Timeout(_) => Lost::Deadline,
            ureq::Error::Io(error) if !self.begun => Lost::Unreachable(error.to_string()),
            error @ (ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::ConnectProxyFailed(_)) => Lost::Unreachable(error.to_string()),
            error @ (ureq::Error::Io(_) | ureq::Error::Protocol(_)) => Lost::Broken(error.to_string()),
            error => Lost::Hopeless(error.to_string()),
        }
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        match self.agent.take() {
            Some(agent) if self.ended => self.agents.give_back(agent),
            Some(agent) => agent.shutdown(),
            None => {}
        }
    }
}

/// Sends the request and brings what comes back, until the end or until nobody listens.
fn carry(request: ureq::RequestBuilder<ureq::typestate::WithBody>, body: &str, to: &SyncSender<Piece>) {
    let response = match request.send(body) {
        Ok(response) => response,
        Err(error) => return drop(to.send(Piece::Failed(error))),
    };
    let (parts, body) = response.into_parts();
    let head = Head { status: parts.status.as_u16(), headers: parts.headers };
    if to.send(Piece::Head(head)).is_err() {
        return;
    }
    let mut reader = body.into_with_config().limit(u64::MAX).reader();
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let piece = match reader.read(&mut buffer) {
            Ok(0) => Piece::End,
            Ok(got) => Piece::Bytes(buffer.get(..got).unwrap_or_default().to_vec()),
            Err(error) => Piece::Failed(error.into()),
        };
        let over = !matches!(piece, Piece::Bytes(_));
        if over {
            // The connection goes back to its agent before the end is told, so that the next ask finds it there.
            drop(reader);
            return drop(to.send(piece));
        }
        if to.send(piece).is_err() {
            return;
        }
    }
}

/// The proxy that the environment names for an address, as everybody reads it; never one for this machine itself.
pub(super) fn proxy(url: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Proxy>, String> {
    let uri: ureq::http::Uri = url.parse().map_err(|_| "the address cannot be understood".to_owned())?;
    let host = uri.host().unwrap_or_default();
    if host == "localhost" || host == "[::1]" || host.starts_with("127.") {
        return Ok(None);
    }
    let either = |name: &str| env(name).or_else(|| env(&name.to_ascii_lowercase())).filter(|v| !v.is_empty());
    let scheme = if uri.scheme_str() == Some("https") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let Some(written) = either(scheme).or_else(|| either("ALL_PROXY")) else { return Ok(None) };
    let spared = either("NO_PROXY").unwrap_or_default();
    if spared.split(',').any(|entry| spares(entry.trim(), host)) {
        return Ok(None);
    }
    Proxy::new(&written)
        .map(Some)
        .map_err(|_| "the proxy that the environment names cannot be used".to_owned())
}

/// Whether an entry of `NO_PROXY` means this host: `*`, the host, or a domain that it is in.
fn spares(entry: &str, host: &str) -> bool {
    let domain = entry.trim_start_matches("*.").trim_start_matches('.');
    entry == "*" || (!domain.is_empty() && (host == domain || host.ends_with(&format!(".{domain}"))))
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
