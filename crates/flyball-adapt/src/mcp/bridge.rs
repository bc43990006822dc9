//! A server behind HTTP, served on stdin and stdout: each line is a request of its own, and its answers are lines.
//!
//! What the transport asks for is added here and nowhere else: the session that the server gives, the version that was
//! agreed upon, and the headers that tell what a message is.

use super::events::{Event, Events};
use super::gate::{Act, Gate, Shared};
use super::message::Message;
use crate::model_proxy::Trouble;
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

/// The largest message.
const MOST_BYTES: usize = 128 * 1024 * 1024;
/// How many lines may wait.
const WAITING: usize = 16;
/// How long answers may take once the client sends nothing more, and how long the farewell may.
const PATIENCE: Duration = Duration::from_secs(5);
/// What an answer of the server's may be.
const TAKES: &str = "application/json, text/event-stream";

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// What the handshake brought.
#[derive(Debug, Clone, Default)]
struct Agreed {
    session: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// The bridge.
struct Bridge {
    gate: Arc<Gate>,
    upstream: Upstream,
    path: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    agreed: Mutex<Agreed>,
}

/// Serves the client on stdin and stdout until it sends nothing more.
pub(super) fn serve(url: &str, headers: &[(String, String)], shared: Arc<Shared>) -> Result<(), Trouble> {
    let session = shared.setting.session.clone();
    let (origin, path) = super::origin(url);
    let named = |(name, value): &(String, String)| Some((name.parse().ok()?, value.parse().ok()?));
    let headers = headers.iter().map(|header| {
        named(header).ok_or_else(|| Trouble {
            code: "bad_header".to_owned(),
            what: format!("'{}' is not a header", header.0),
            advice: "write it like --header Authorization=VARIABLE, and set the variable".to_owned(),
        })
    });
    let bridge = Arc::new(Bridge {
        gate: Arc::new(Gate::new(shared, session)),
        upstream: Upstream::new(origin)?,
        path: path.to_owned(),
        headers: headers.collect::<Result<_, _>>()?,
        agreed: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(crate::model_proxy::refused)?;
    runtime.block_on(bridge.run(lines()));
    // The thread that reads stdin may wait for ever.
    runtime.shutdown_background();
    Ok(())
}

/// The lines of stdin.
fn lines() -> Receiver<String> {
    let (to, from) = channel(WAITING);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            // A line that is not text is no message, and there is no way to send it.
            let Ok(line) = line else { break };
            if !line.trim().is_empty() && to.blocking_send(line).is_err() {
                break;
            }
        }
    });
    from
}

/// Writes a line to the client; `false` if nobody reads any more.
fn say(text: &str) -> bool {
    let mut out = io::stdout().lock();
    // A message is one line: what looks like a line end stands between tokens, never inside a string.
    let line = text.replace(['\r', '\n'], " ");
    out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).is_ok()
}

impl Bridge {
    fn agreed(&self) -> Agreed {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn run(self: Arc<Self>, mut lines: Receiver<String>) {
        let mut under_way = JoinSet::new();
        let mut listening = None;
        while let Some(line) = lines.recv().await {
            let gate = Arc::clone(&self.gate);
            let Ok(acts) = tokio::task::spawn_blocking(move || gate.client_says(&line)).await else {
                continue;
            };
            for act in acts {
                match act {
                    Act::ToClient(text) => {
                        say(&text);
                    }
                    Act::ToServer(text) => {
                        let begins = self.send(text, &mut under_way).await;
                        if begins && listening.is_none() && self.agreed().session.is_some() {
                            listening = Some(tokio::spawn(Arc::clone(&self).listen()));
                        }
                    }
                }
            }
            while under_way.try_join_next().is_some() {}
        }
        let all = async { while under_way.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(PATIENCE, all).await;
        if let Some(listening) = listening {
            listening.abort();
        }
        let _ = tokio::time::timeout(PATIENCE, self.farewell()).await;
    }

    /// Sends a message. Requests do not wait for each other; everything else keeps its order. Says whether it was the
    /// handshake.
    async fn send(self: &Arc<Self>, text: String, under_way: &mut JoinSet<()>) -> bool {
        let message = Message::read(&text);
        let method = message.as_ref().and_then(|message| message.method.as_deref().map(str::to_owned));
        let waits = message.as_ref().and_then(Message::id).is_some() && method.is_some();
        let begins = method.as_deref() == Some("initialize");
        let bridge = Arc::clone(self);
        if waits && !begins {
            under_way.spawn(async move { bridge.exchange(text).await });
        } else {
            bridge.exchange(text).await;
        }
        begins
    }

    /// One message, and everything that is answered to it.
    async fn exchange(&self, text: String) {
        let answer = match self.post(&text).await {
            Ok(answer) => answer,
            Err(trouble) => {
                self.gate.complain(&trouble);
                return self.failed(&text, &format!("{} ({})", trouble.what, trouble.code));
            }
        };
        if let Some(session) = answer.headers().get(SESSION) {
            self.agreed.lock().unwrap_or_else(PoisonError::into_inner).session = Some(session.clone());
        }
        let status = answer.status();
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        match kind.split(';').next().unwrap_or_default().trim() {
            "text/event-stream" if status.is_success() => {
                if !self.stream(answer.into_body()).await {
                    self.failed(&text, "the server's answer broke off");
                }
            }
            "application/json" => match Limited::new(answer.into_body(), MOST_BYTES).collect().await {
                Ok(body) => {
                    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
                    let said = Message::read(&body).is_some_and(|message| message.answers().is_some());
                    if said || body.trim_start().starts_with('[') {
                        self.hear(body).await;
                    } else {
                        self.failed(&text, &format!("the server answered with status {status}"));
                    }
                }
                Err(_) => self.failed(&text, "the server's answer broke off, or is too long"),
            },
            _ if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT => {}
            _ => self.failed(&text, &format!("the server answered with status {status}")),
        }
    }

    async fn post(&self, text: &str) -> Result<Response<Incoming>, Trouble> {
        let mut request = self.request(Method::POST, Bytes::from(text.to_owned()));
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(TAKES));
        if let Some(message) = Message::read(text) {
            let params = message.params();
            let own =
                params.pointer("/_meta/io.modelcontextprotocol~1protocolVersion").and_then(Value::as_str);
            let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str);
            for (header, value) in [(VERSION, own), (METHOD, message.method.as_deref()), (NAME, name)] {
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
        let agreed = self.agreed();
        let headers = request.headers_mut();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in [(SESSION, agreed.session), (VERSION, agreed.version)] {
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        request
    }

    /// Passes a stream of answers on; `false` if it broke off.
    async fn stream(&self, mut body: Incoming) -> bool {
        let mut events = Events::default();
        loop {
            let next = body.frame().await;
            let over = next.is_none();
            let found = match next {
                Some(Ok(frame)) => frame.into_data().map(|data| events.push(&data)).unwrap_or_default(),
                Some(Err(_)) => return false,
                None => events.rest().into_iter().collect(),
            };
            for data in found.iter().filter_map(Event::data).filter(|data| !data.trim().is_empty()) {
                self.hear(data).await;
            }
            if over {
                return true;
            }
        }
    }

    /// A message of the server.
    async fn hear(&self, text: String) {
        if let Some(version) = agreed_version(&text) {
            self.agreed.lock().unwrap_or_else(PoisonError::into_inner).version = Some(version);
        }
        let gate = Arc::clone(&self.gate);
        if let Ok(new) = tokio::task::spawn_blocking(move || gate.server_says(&text)).await {
            say(&new);
            for line in self.gate.notifications() {
                say(&line);
            }
        }
    }

    /// Tells the client that a request will not be answered.
    fn failed(&self, text: &str, why: &str) {
        let Some(message) = Message::read(text) else { return };
        let (Some(id), true) = (message.id(), message.method.is_some()) else { return };
        let error = json!({"code": -32000, "message": format!("flyball: {why}")});
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}");
        // The guards hear of it too.
        say(&self.gate.server_says(&line));
    }

    /// Messages that the server sends by itself, if it does.
    async fn listen(self: Arc<Self>) {
        let mut request = self.request(Method::GET, Bytes::new());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let request = request.map(|body| Full::new(body).map_err(|never| match never {}).boxed());
        if let Ok(answer) = self.upstream.send(request).await
            && answer.status().is_success()
        {
            self.stream(answer.into_body()).await;
        }
    }

    /// Tells the server that the session is over.
    async fn farewell(&self) {
        if self.agreed().session.is_some() {
            let request = self.request(Method::DELETE, Bytes::new());
            let request = request.map(|body| Full::new(body).map_err(|never| match never {}).boxed());
            // It may know of no farewells.
            let _ = self.upstream.send(request).await;
        }
    }
}

/// The version that an answer to the handshake settles.
fn agreed_version(text: &str) -> Option<HeaderValue> {
    if !text.contains("protocolVersion") || !text.contains("capabilities") {
        return None;
    }
    let message: Value = serde_json::from_str(text).ok()?;
    HeaderValue::from_str(message.pointer("/result/protocolVersion")?.as_str()?).ok()
}
