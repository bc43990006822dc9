//! A server behind HTTP, served on HTTP: requests and answers pass, calls and their results are looked at.
//!
//! The answer to a call comes with the answer to its request, as one object or as a stream. Each exchange is a
//! connection of its own for the gate, so ids of different clients do not meet.

use super::events::{Event, Events};
use super::gate::{Act, Gate, Shared};
use crate::model_proxy::Trouble;
use crate::model_proxy::headers::{for_client, for_provider};
use crate::model_proxy::upstream::Upstream;
use crate::same_site::AllowedHosts;
use flyball::Fingerprint;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, ORIGIN,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The largest message.
const MOST_BYTES: usize = 128 * 1024 * 1024;
/// How many pieces of a stream may wait for a slow client.
const WAITING: usize = 16;
/// The header that names a client's session with the server.
const MCP_SESSION: &str = "mcp-session-id";

type Broken = Box<dyn Error + Send + Sync>;
type Out = BoxBody<Bytes, Broken>;

/// The proxy.
pub(super) struct Http {
    shared: Arc<Shared>,
    upstream: Upstream,
    /// The path of the server's endpoint, for clients that are told no path.
    path: String,
    hosts: AllowedHosts,
}

/// A body that comes through a channel.
struct Piped(Receiver<Result<Bytes, Broken>>);

impl Body for Piped {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.0.poll_recv(context).map(|next| next.map(|piece| piece.map(Frame::data)))
    }
}

impl Http {
    pub(super) fn new(shared: Arc<Shared>, url: &str) -> Result<Self, Trouble> {
        let (origin, path) = super::origin(url);
        Ok(Http {
            shared,
            upstream: Upstream::new(origin)?,
            path: path.to_owned(),
            hosts: AllowedHosts::default(),
        })
    }

    /// The session of a client: named by its header, or by its session with the server.
    fn session(&self, headers: &HeaderMap) -> String {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let own = &self.shared.setting.session;
        match (header("x-flyball-session"), header(MCP_SESSION)) {
            (Some(named), _) => named.to_owned(),
            (None, Some(id)) => format!("{own}-{}", Fingerprint::of_text(id)),
            (None, None) => own.clone(),
        }
    }

    /// Answers a request. Whatever happens, there is an answer.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Out> {
        let (mut parts, body) = request.into_parts();
        if is_foreign(&parts.headers) || self.hosts.check_host(&parts).is_err() {
            return plain(StatusCode::FORBIDDEN, "flyball: pages of other sites are not served");
        }
        let gate = Arc::new(Gate::new(Arc::clone(&self.shared), self.session(&parts.headers)));
        let looked_at = parts.method == Method::POST;
        for_provider(&mut parts.headers);
        if parts.uri.path() == "/" {
            parts.uri = self.path.parse().unwrap_or(parts.uri);
        }
        if looked_at && parts.headers.contains_key(CONTENT_ENCODING) {
            let what = "flyball: the message is compressed and was not passed on";
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, what);
        }
        let body = if looked_at {
            let Ok(body) = Limited::new(body, MOST_BYTES).collect().await else {
                return plain(StatusCode::PAYLOAD_TOO_LARGE, "the message broke off, or is too long");
            };
            let body = body.to_bytes();
            if let Some(instead) = ask(&gate, &body).await {
                return instead;
            }
            parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            Full::new(body).map_err(|never| match never {}).boxed()
        } else {
            body.map_err(Broken::from).boxed()
        };
        match self.upstream.send(Request::from_parts(parts, body)).await {
            Ok(answer) if looked_at => told(gate, answer).await,
            Ok(mut answer) => {
                for_client(answer.headers_mut());
                answer.map(|body| body.map_err(Broken::from).boxed())
            }
            Err(trouble) => {
                gate.complain(&trouble);
                plain(StatusCode::BAD_GATEWAY, &format!("flyball: {} ({})", trouble.what, trouble.code))
            }
        }
    }
}

/// Whether a page of another site asks, through a browser on this machine. The server behind us cannot tell: it sees
/// its own name.
fn is_foreign(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    let host = origin.as_ref().and_then(Uri::host).unwrap_or_default();
    !["localhost", "127.0.0.1", "[::1]"].contains(&host)
}

/// Puts a message to the gate. Gives what is answered in the server's place, if anything is.
async fn ask(gate: &Arc<Gate>, body: &Bytes) -> Option<Response<Out>> {
    let readable = !body.starts_with(b"\xef\xbb\xbf");
    let Some(text) = std::str::from_utf8(body).ok().filter(|_| readable).map(str::to_owned) else {
        let what = "flyball: the message is not plain UTF-8 JSON and was not passed on";
        return Some(plain(StatusCode::BAD_REQUEST, what));
    };
    let gate = Arc::clone(gate);
    let acts = tokio::task::spawn_blocking(move || gate.client_says(&text)).await.ok()?;
    match acts.as_slice() {
        [Act::ToServer(_)] => None,
        [Act::ToClient(text)] => Some(answered(StatusCode::OK, "application/json", text.clone())),
        _ => {
            let what = "several messages with a call among them in one request; send them one by one";
            Some(plain(StatusCode::BAD_REQUEST, what))
        }
    }
}

/// An answer of the server, with what the gate makes of the results in it.
async fn told(gate: Arc<Gate>, mut answer: Response<Incoming>) -> Response<Out> {
    for_client(answer.headers_mut());
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/json" => whole(gate, answer).await,
        "text/event-stream" => {
            let (to, from) = channel(WAITING);
            let (parts, body) = answer.into_parts();
            tokio::spawn(pump(gate, body, to));
            Response::from_parts(parts, Piped(from).boxed())
        }
        _ => answer.map(|body| body.map_err(Broken::from).boxed()),
    }
}

async fn whole(gate: Arc<Gate>, answer: Response<Incoming>) -> Response<Out> {
    let (mut parts, body) = answer.into_parts();
    let Ok(body) = Limited::new(body, MOST_BYTES).collect().await else {
        return plain(StatusCode::BAD_GATEWAY, "the server's answer broke off, or is too long");
    };
    let mut body = body.to_bytes();
    if let Ok(text) = std::str::from_utf8(&body).map(str::to_owned)
        && let Ok(new) = tokio::task::spawn_blocking(move || gate.server_says(&text)).await
    {
        body = Bytes::from(new);
    }
    if parts.headers.contains_key(CONTENT_LENGTH) {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    Response::from_parts(parts, Full::new(body).map_err(|never| match never {}).boxed())
}

/// Passes a stream on, event by event.
async fn pump(gate: Arc<Gate>, mut body: Incoming, to: Sender<Result<Bytes, Broken>>) {
    let mut events = Events::default();
    loop {
        let found = match body.frame().await {
            Some(Ok(frame)) => frame.into_data().map(|data| events.push(&data)).unwrap_or_default(),
            Some(Err(error)) => {
                let _ = to.send(Err(error.into())).await;
                return;
            }
            None => {
                if let Some(rest) = events.rest() {
                    let _ = to.send(Ok(rest.raw.into())).await;
                }
                return;
            }
        };
        for event in found {
            let piece = edited(&gate, event).await;
            if to.send(Ok(piece.into())).await.is_err() {
                return;
            }
        }
    }
}

/// An event as it goes on.
async fn edited(gate: &Arc<Gate>, event: Event) -> Vec<u8> {
    let Some(data) = event.data() else { return event.raw };
    let (gate, text) = (Arc::clone(gate), data.clone());
    match tokio::task::spawn_blocking(move || gate.server_says(&text)).await {
        Ok(new) if new != data => event.with_data(&new),
        _ => event.raw,
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Out> {
    answered(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

fn answered(status: StatusCode, kind: &'static str, text: String) -> Response<Out> {
    let mut response = Response::new(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
