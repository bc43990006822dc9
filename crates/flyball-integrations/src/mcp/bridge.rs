//! Bridge from stdio to an MCP server over HTTP: each input line becomes one request, and its responses are output
//! lines.
//!
//! This module adds what the HTTP transport requires: the session id from the server, the negotiated protocol version,
//! and the headers that describe a message.

use super::guard::{McpForward, McpGuard, McpProxyState};
use super::message::McpMessage;
use super::sse_frames::{SseFrame, SseSplitter};
use crate::model_proxy::ProxyError;
use crate::model_proxy::upstream::Upstream;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinSet;

/// Maximum message size, in bytes.
const MAX_MESSAGE_BYTES: usize = 128 * 1024 * 1024;
/// Maximum number of queued input lines.
const MAX_QUEUED_LINES: usize = 16;
/// How long in-flight responses and closing the session may take after the client's end of input.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Content types accepted from the server.
const ACCEPTED_TYPES: &str = "application/json, text/event-stream";

const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// The result of the initialize handshake.
#[derive(Debug, Clone, Default)]
struct NegotiatedSession {
    session: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// The bridge and its connection state.
struct McpBridge {
    guard: Arc<McpGuard>,
    upstream: Upstream,
    path: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    negotiated: Mutex<NegotiatedSession>,
}

/// Serves the client on stdin and stdout until its end of input.
pub(super) fn serve(
    url: &str,
    headers: &[(String, String)],
    shared: Arc<McpProxyState>,
) -> Result<(), ProxyError> {
    let session = shared.config.session.clone();
    let (origin, path) = super::split_origin(url);
    let named = |(name, value): &(String, String)| Some((name.parse().ok()?, value.parse().ok()?));
    let headers = headers.iter().map(|header| {
        named(header).ok_or_else(|| ProxyError {
            code: "bad_header".to_owned(),
            message: format!("'{}' is not a valid header", header.0),
            help: "write it as --header Authorization=VARIABLE and set that variable".to_owned(),
        })
    });
    let bridge = Arc::new(McpBridge {
        guard: Arc::new(McpGuard::new(shared, session)),
        upstream: Upstream::new(origin)?,
        path: path.to_owned(),
        headers: headers.collect::<Result<_, _>>()?,
        negotiated: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(crate::model_proxy::listen_error)?;
    runtime.block_on(bridge.run(stdin_lines()));
    // The thread that reads stdin may block forever.
    runtime.shutdown_background();
    Ok(())
}

/// The lines of stdin.
fn stdin_lines() -> Receiver<String> {
    let (to, from) = channel(MAX_QUEUED_LINES);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            // A line that is not UTF-8 is not a message and cannot be sent.
            let Ok(line) = line else { break };
            if !line.trim().is_empty() && to.blocking_send(line).is_err() {
                break;
            }
        }
    });
    from
}

/// Writes a line to the client; `false` if stdout is closed.
fn write_stdout_line(text: &str) -> bool {
    let mut out = io::stdout().lock();
    // A message is one line. JSON strings escape line breaks, so a raw one is always between tokens.
    let line = text.replace(['\r', '\n'], " ");
    out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).is_ok()
}

impl McpBridge {
    fn negotiated(&self) -> NegotiatedSession {
        self.negotiated.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn run(self: Arc<Self>, mut lines: Receiver<String>) {
        let mut under_way = JoinSet::new();
        let mut listening = None;
        while let Some(line) = lines.recv().await {
            let guard = Arc::clone(&self.guard);
            let Ok(forwards) = tokio::task::spawn_blocking(move || guard.handle_client_message(&line)).await
            else {
                continue;
            };
            for act in forwards {
                match act {
                    McpForward::ToClient(text) => {
                        write_stdout_line(&text);
                    }
                    McpForward::ToServer(text) => {
                        let begins = self.send(text, &mut under_way).await;
                        if begins && listening.is_none() && self.negotiated().session.is_some() {
                            listening = Some(tokio::spawn(Arc::clone(&self).listen_for_server_messages()));
                        }
                    }
                }
            }
            while under_way.try_join_next().is_some() {}
        }
        let all = async { while under_way.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, all).await;
        if let Some(listening) = listening {
            listening.abort();
        }
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, self.close_session()).await;
    }

    /// Sends a message. Requests run concurrently; all other messages keep their order. Returns whether it was the
    /// handshake.
    async fn send(self: &Arc<Self>, text: String, under_way: &mut JoinSet<()>) -> bool {
        let message = McpMessage::parse(&text);
        let method = message.as_ref().and_then(|message| message.method.as_deref().map(str::to_owned));
        let waits = message.as_ref().and_then(McpMessage::id).is_some() && method.is_some();
        let begins = method.as_deref() == Some("initialize");
        let bridge = Arc::clone(self);
        if waits && !begins {
            under_way.spawn(async move { bridge.exchange(text).await });
        } else {
            bridge.exchange(text).await;
        }
        begins
    }

    /// Sends one message and handles its responses.
    async fn exchange(&self, text: String) {
        let answer = match self.post_message(&text).await {
            Ok(answer) => answer,
            Err(error) => {
                self.guard.report_error(&error);
                return self.fail_request(&text, &format!("{} ({})", error.message, error.code));
            }
        };
        if let Some(session) = answer.headers().get(SESSION_HEADER) {
            self.negotiated.lock().unwrap_or_else(PoisonError::into_inner).session = Some(session.clone());
        }
        let status = answer.status();
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        match kind.split(';').next().unwrap_or_default().trim() {
            "text/event-stream" if status.is_success() => {
                if !self.forward_stream(answer.into_body()).await {
                    self.fail_request(&text, "the server's response was cut off");
                }
            }
            "application/json" => match Limited::new(answer.into_body(), MAX_MESSAGE_BYTES).collect().await {
                Ok(body) => {
                    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
                    let said =
                        McpMessage::parse(&body).is_some_and(|message| message.response_id().is_some());
                    if said || body.trim_start().starts_with('[') {
                        self.handle_server_message(body).await;
                    } else {
                        self.fail_request(&text, &format!("the server returned status {status}"));
                    }
                }
                Err(_) => self.fail_request(&text, "the server's response was cut off or is too long"),
            },
            _ if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT => {}
            _ => self.fail_request(&text, &format!("the server returned status {status}")),
        }
    }

    async fn post_message(&self, text: &str) -> Result<Response<Incoming>, ProxyError> {
        let mut request = self.request(Method::POST, Bytes::from(text.to_owned()));
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED_TYPES));
        if let Some(message) = McpMessage::parse(text) {
            let params = message.params();
            let own =
                params.pointer("/_meta/io.modelcontextprotocol~1protocolVersion").and_then(Value::as_str);
            let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str);
            for (header, value) in
                [(VERSION_HEADER, own), (METHOD_HEADER, message.method.as_deref()), (NAME_HEADER, name)]
            {
                if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                    headers.insert(header, value);
                }
            }
        }
        self.upstream.send(request.map(|body| Full::new(body).map_err(|never| match never {}).boxed())).await
    }

    fn request(&self, method: Method, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.path.parse().unwrap_or_default();
        let agreed = self.negotiated();
        let headers = request.headers_mut();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in [(SESSION_HEADER, agreed.session), (VERSION_HEADER, agreed.version)] {
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        request
    }

    /// Forwards a stream of responses; `false` if it was cut off.
    async fn forward_stream(&self, mut body: Incoming) -> bool {
        let mut events = SseSplitter::default();
        loop {
            let next = body.frame().await;
            let over = next.is_none();
            let found = match next {
                Some(Ok(frame)) => frame.into_data().map(|data| events.push(&data)).unwrap_or_default(),
                Some(Err(_)) => return false,
                None => events.take_rest().into_iter().collect(),
            };
            for data in found.iter().filter_map(SseFrame::data).filter(|data| !data.trim().is_empty()) {
                self.handle_server_message(data).await;
            }
            if over {
                return true;
            }
        }
    }

    /// Handles a message from the server.
    async fn handle_server_message(&self, text: String) {
        if let Some(version) = negotiated_version(&text) {
            self.negotiated.lock().unwrap_or_else(PoisonError::into_inner).version = Some(version);
        }
        let guard = Arc::clone(&self.guard);
        if let Ok(new) = tokio::task::spawn_blocking(move || guard.handle_server_message(&text)).await {
            write_stdout_line(&new);
            for line in self.guard.take_notifications() {
                write_stdout_line(&line);
            }
        }
    }

    /// Sends the client an error in place of a response.
    fn fail_request(&self, text: &str, why: &str) {
        let Some(message) = McpMessage::parse(text) else { return };
        let (Some(id), true) = (message.id(), message.method.is_some()) else { return };
        let error = json!({"code": -32000, "message": format!("flyball: {why}")});
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}");
        // The guard must see the error too, to close the call.
        write_stdout_line(&self.guard.handle_server_message(&line));
    }

    /// Receives messages that the server sends on its own initiative, if it supports them.
    async fn listen_for_server_messages(self: Arc<Self>) {
        let mut request = self.request(Method::GET, Bytes::new());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let request = request.map(|body| Full::new(body).map_err(|never| match never {}).boxed());
        if let Ok(answer) = self.upstream.send(request).await
            && answer.status().is_success()
        {
            self.forward_stream(answer.into_body()).await;
        }
    }

    /// Closes the session on the server.
    async fn close_session(&self) {
        if self.negotiated().session.is_some() {
            let request = self.request(Method::DELETE, Bytes::new());
            let request = request.map(|body| Full::new(body).map_err(|never| match never {}).boxed());
            // The server may not support closing a session.
            let _ = self.upstream.send(request).await;
        }
    }
}

/// The protocol version in a handshake response.
fn negotiated_version(text: &str) -> Option<HeaderValue> {
    if !text.contains("protocolVersion") || !text.contains("capabilities") {
        return None;
    }
    let message: Value = serde_json::from_str(text).ok()?;
    HeaderValue::from_str(message.pointer("/result/protocolVersion")?.as_str()?).ok()
}
