//! A cancellable HTTP exchange.
//!
//! A separate thread reads the socket. The caller waits for its data while it checks for cancellation and the deadline.
//! Dropping the exchange closes the connection, which ends the thread and signals the provider to stop.

use super::limits::{CANCEL_POLL_INTERVAL, DRAIN_TIMEOUT, MAX_ANSWER_BYTES, MAX_IDLE_AGENTS};
use super::retry::AttemptInfo;
use crate::process::CancelToken;
use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use ureq::{Agent, Proxy};

/// Number of unread chunks before the reading thread blocks.
const QUEUE_CAPACITY: usize = 16;
/// Size of a read.
const READ_BUFFER_BYTES: usize = 16 * 1024;

/// Timeouts of the stages of an exchange. The deadline of the turn bounds them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HttpTimeouts {
    pub(super) connect: Duration,
    pub(super) first_byte: Duration,
    pub(super) idle: Duration,
}

/// A POST request.
pub(super) struct HttpPost<'a> {
    pub(super) url: &'a str,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

/// Status and headers of a response.
pub(super) struct ResponseHead {
    pub(super) status: u16,
    headers: ureq::http::HeaderMap,
}

impl ResponseHead {
    /// A header by name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Why an exchange failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExchangeError {
    /// Cancelled by the caller.
    Cancelled,
    /// The turn has no time left.
    Deadline,
    /// No data for this long.
    IdleTimeout(Duration),
    /// No connection, or it closed before the response started.
    Unreachable(String),
    /// The connection closed in the middle of the response.
    Truncated(String),
    /// Retrying cannot help.
    Permanent(String),
    /// The response exceeds the size limit.
    TooLarge,
}

/// Pool of reusable connections. Each exchange has exclusive use of an agent, so that aborting one does not affect
/// another.
pub(super) struct AgentPool {
    idle: Mutex<Vec<Agent>>,
    config: ureq::config::Config,
}

impl AgentPool {
    pub(super) fn new(timeouts: &HttpTimeouts, proxy: Option<Proxy>) -> Self {
        let config = Agent::config_builder()
            .timeout_connect(Some(timeouts.connect))
            .timeout_resolve(Some(timeouts.connect))
            .http_status_as_error(false)
            // A redirect could send the key to a different host.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("flyball/", env!("CARGO_PKG_VERSION")))
            .proxy(proxy)
            .build();
        AgentPool { idle: Mutex::default(), config }
    }

    fn acquire(&self) -> Agent {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop().unwrap_or_else(|| self.config.new_agent())
    }

    fn release(&self, agent: Agent) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE_AGENTS {
            idle.push(agent);
        }
    }
}

enum ResponsePart {
    Head(ResponseHead),
    Bytes(Vec<u8>),
    End,
    Failed(ureq::Error),
}

/// An exchange. Dropping it before the end closes the connection.
pub(super) struct HttpExchange<'a> {
    agents: &'a AgentPool,
    agent: Option<Agent>,
    parts: Receiver<ResponsePart>,
    cancel: &'a CancelToken,
    attempt: AttemptInfo,
    timeouts: HttpTimeouts,
    begun: bool,
    ended: bool,
    size: usize,
}

impl<'a> HttpExchange<'a> {
    /// Sends a request.
    pub(super) fn start(
        agents: &'a AgentPool,
        post: HttpPost<'_>,
        cancel: &'a CancelToken,
        this: AttemptInfo,
        timeouts: HttpTimeouts,
    ) -> Result<Self, ExchangeError> {
        let agent = agents.acquire();
        let mut request = agent.post(post.url);
        for (name, value) in &post.headers {
            request = request.header(name, value);
        }
        // Backstop only: `next_part` enforces the deadline.
        let request = request.config().timeout_global(Some(this.remaining())).build();
        let (sender, pieces) = sync_channel(QUEUE_CAPACITY);
        let body = post.body;
        std::thread::Builder::new()
            .name("provider".to_owned())
            .spawn(move || transfer(request, &body, &sender))
            .map_err(|error| ExchangeError::Permanent(format!("cannot start a thread: {error}")))?;
        let agent = Some(agent);
        Ok(HttpExchange {
            agents,
            agent,
            parts: pieces,
            cancel,
            attempt: this,
            timeouts,
            begun: false,
            ended: false,
            size: 0,
        })
    }

    /// Waits for the response head.
    pub(super) fn head(&mut self) -> Result<ResponseHead, ExchangeError> {
        let timeout = self.timeouts.connect.saturating_add(self.timeouts.first_byte);
        match self.next_part(timeout)? {
            ResponsePart::Head(head) => {
                self.begun = true;
                Ok(head)
            }
            _ => Err(ExchangeError::Unreachable("the response has no head".to_owned())),
        }
    }

    /// Waits for the next bytes of the body; `None` at its end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, ExchangeError> {
        let timeout = if self.size == 0 { self.timeouts.first_byte } else { self.timeouts.idle };
        match self.next_part(timeout)? {
            ResponsePart::Bytes(bytes) => {
                self.size += bytes.len();
                if self.size > MAX_ANSWER_BYTES { Err(ExchangeError::TooLarge) } else { Ok(Some(bytes)) }
            }
            _ => {
                self.ended = true;
                Ok(None)
            }
        }
    }

    /// Waits briefly for the end of the body after the model's last event, so that the connection can be reused.
    pub(super) fn drain(mut self) {
        let until = Instant::now() + DRAIN_TIMEOUT;
        while !self.ended && Instant::now() < until {
            match self.parts.recv_timeout(DRAIN_TIMEOUT) {
                Ok(ResponsePart::End) => self.ended = true,
                Ok(ResponsePart::Bytes(_)) => {}
                _ => return,
            }
        }
    }

    fn next_part(&mut self, timeout: Duration) -> Result<ResponsePart, ExchangeError> {
        let began = Instant::now();
        loop {
            if self.cancel.is_cancelled() {
                return Err(ExchangeError::Cancelled);
            }
            if self.attempt.remaining().is_zero() {
                return Err(ExchangeError::Deadline);
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(ExchangeError::IdleTimeout(timeout));
            }
            match self.parts.recv_timeout(CANCEL_POLL_INTERVAL.min(left).min(self.attempt.remaining())) {
                Ok(ResponsePart::Failed(error)) => return Err(self.classify_error(error)),
                Ok(piece) => return Ok(piece),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ExchangeError::Truncated("the connection was dropped".to_owned()));
                }
            }
        }
    }

    fn classify_error(&self, error: ureq::Error) -> ExchangeError {
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                let ms = self.timeouts.connect.as_millis();
                ExchangeError::Unreachable(format!("no connection within {ms} ms"))
            }
            ureq::Error::Timeout(_) => ExchangeError::Deadline,
            ureq::Error::Io(error) if !self.begun => ExchangeError::Unreachable(error.to_string()),
            error @ (ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::ConnectProxyFailed(_)) => ExchangeError::Unreachable(error.to_string()),
            error @ (ureq::Error::Io(_) | ureq::Error::Protocol(_)) => {
                ExchangeError::Truncated(error.to_string())
            }
            error => ExchangeError::Permanent(error.to_string()),
        }
    }
}

impl Drop for HttpExchange<'_> {
    fn drop(&mut self) {
        match self.agent.take() {
            Some(agent) if self.ended => self.agents.release(agent),
            Some(agent) => agent.shutdown(),
            None => {}
        }
    }
}

/// Sends the request and forwards the response until its end, or until the receiver is gone.
fn transfer(
    request: ureq::RequestBuilder<ureq::typestate::WithBody>,
    body: &str,
    to: &SyncSender<ResponsePart>,
) {
    let response = match request.send(body) {
        Ok(response) => response,
        Err(error) => return drop(to.send(ResponsePart::Failed(error))),
    };
    let (parts, body) = response.into_parts();
    let head = ResponseHead { status: parts.status.as_u16(), headers: parts.headers };
    if to.send(ResponsePart::Head(head)).is_err() {
        return;
    }
    let mut reader = body.into_with_config().limit(u64::MAX).reader();
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    loop {
        let piece = match reader.read(&mut buffer) {
            Ok(0) => ResponsePart::End,
            Ok(got) => ResponsePart::Bytes(buffer.get(..got).unwrap_or_default().to_vec()),
            Err(error) => ResponsePart::Failed(error.into()),
        };
        let over = !matches!(piece, ResponsePart::Bytes(_));
        if over {
            // Return the connection to its agent before signaling the end, so that the next request can reuse it.
            drop(reader);
            return drop(to.send(piece));
        }
        if to.send(piece).is_err() {
            return;
        }
    }
}

/// Proxy for a URL from the usual environment variables; none for the local machine.
pub(super) fn proxy_for(url: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Proxy>, String> {
    let uri: ureq::http::Uri = url.parse().map_err(|_| "invalid URL".to_owned())?;
    let host = uri.host().unwrap_or_default();
    if host == "localhost" || host == "[::1]" || host.starts_with("127.") {
        return Ok(None);
    }
    let either = |name: &str| env(name).or_else(|| env(&name.to_ascii_lowercase())).filter(|v| !v.is_empty());
    let scheme = if uri.scheme_str() == Some("https") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let Some(written) = either(scheme).or_else(|| either("ALL_PROXY")) else { return Ok(None) };
    let no_proxy = either("NO_PROXY").unwrap_or_default();
    if no_proxy.split(',').any(|entry| matches_no_proxy(entry.trim(), host)) {
        return Ok(None);
    }
    Proxy::new(&written).map(Some).map_err(|_| "invalid proxy URL in the environment".to_owned())
}

/// Whether an entry of `NO_PROXY` matches this host: `*`, the host, or a parent domain.
fn matches_no_proxy(entry: &str, host: &str) -> bool {
    let domain = entry.trim_start_matches("*.").trim_start_matches('.');
    entry == "*" || (!domain.is_empty() && (host == domain || host.ends_with(&format!(".{domain}"))))
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
