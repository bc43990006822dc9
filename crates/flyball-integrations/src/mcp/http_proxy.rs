//! MCP proxy from HTTP to HTTP: forwards requests and responses, and evaluates tool calls and results.
//!
//! A call's result arrives in the response to its request, as an object or as a stream. Each exchange has its own
//! guard, so request ids of different clients cannot collide.

use super::guard::{McpForward, McpGuard, McpProxyState};
use super::sse_frames::{SseFrame, SseSplitter};
use crate::model_proxy::ProxyError;
use crate::model_proxy::headers::{prepare_request_headers, prepare_response_headers};
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

/// Maximum message size, in bytes.
const MAX_MESSAGE_BYTES: usize = 128 * 1024 * 1024;
/// Maximum number of stream chunks queued for a slow client.
const MAX_QUEUED_CHUNKS: usize = 16;
/// The header with the client's MCP session id.
const MCP_SESSION_HEADER: &str = "mcp-session-id";

type McpBodyError = Box<dyn Error + Send + Sync>;
type McpBody = BoxBody<Bytes, McpBodyError>;

/// The HTTP proxy.
pub(super) struct McpHttpProxy {
    shared: Arc<McpProxyState>,
    upstream: Upstream,
    /// The path of the server's endpoint, used for requests to `/`.
    path: String,
    hosts: AllowedHosts,
}

/// A response body fed by a channel.
struct ChannelBody(Receiver<Result<Bytes, McpBodyError>>);

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = McpBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, McpBodyError>>> {
        self.0.poll_recv(context).map(|next| next.map(|piece| piece.map(Frame::data)))
    }
}

impl McpHttpProxy {
    pub(super) fn new(shared: Arc<McpProxyState>, url: &str) -> Result<Self, ProxyError> {
        let (origin, path) = super::split_origin(url);
        Ok(McpHttpProxy {
            shared,
            upstream: Upstream::new(origin)?,
            path: path.to_owned(),
            hosts: AllowedHosts::default(),
        })
    }

    /// The Flyball session of a client: from our header, or else from its MCP session id.
    fn session(&self, headers: &HeaderMap) -> String {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let own = &self.shared.config.session;
        match (header("x-flyball-session"), header(MCP_SESSION_HEADER)) {
            (Some(named), _) => named.to_owned(),
            (None, Some(id)) => format!("{own}-{}", Fingerprint::of_text(id)),
            (None, None) => own.clone(),
        }
    }

    /// Handles a request. Errors become responses.
    pub(super) async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Response<McpBody> {
        let (mut parts, body) = request.into_parts();
        if is_cross_site(&parts.headers) || self.hosts.check_host(&parts).is_err() {
            return text_response(StatusCode::FORBIDDEN, "flyball: cross-site requests are not allowed");
        }
        let guard = Arc::new(McpGuard::new(Arc::clone(&self.shared), self.session(&parts.headers)));
        let looked_at = parts.method == Method::POST;
        prepare_request_headers(&mut parts.headers);
        if parts.uri.path() == "/" {
            parts.uri = self.path.parse().unwrap_or(parts.uri);
        }
        if looked_at && parts.headers.contains_key(CONTENT_ENCODING) {
            let what = "flyball: compressed messages are not supported; the message was not forwarded";
            return text_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, what);
        }
        let body = if looked_at {
            let Ok(body) = Limited::new(body, MAX_MESSAGE_BYTES).collect().await else {
                return text_response(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "the message was cut off or is too long",
                );
            };
            let body = body.to_bytes();
            if let Some(instead) = check_client_message(&guard, &body).await {
                return instead;
            }
            parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            Full::new(body).map_err(|never| match never {}).boxed()
        } else {
            body.map_err(McpBodyError::from).boxed()
        };
        match self.upstream.send(Request::from_parts(parts, body)).await {
            Ok(answer) if looked_at => forward_response(guard, answer).await,
            Ok(mut answer) => {
                prepare_response_headers(answer.headers_mut());
                answer.map(|body| body.map_err(McpBodyError::from).boxed())
            }
            Err(error) => {
                guard.report_error(&error);
                text_response(
                    StatusCode::BAD_GATEWAY,
                    &format!("flyball: {} ({})", error.message, error.code),
                )
            }
        }
    }
}

/// Whether a browser sent the request from a page of another site. The upstream server cannot check this, because it
/// sees its own host name.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    let host = origin.as_ref().and_then(Uri::host).unwrap_or_default();
    !["localhost", "127.0.0.1", "[::1]"].contains(&host)
}

/// Evaluates a client message. Returns the response if the message is not forwarded.
async fn check_client_message(guard: &Arc<McpGuard>, body: &Bytes) -> Option<Response<McpBody>> {
    let readable = !body.starts_with(b"\xef\xbb\xbf");
    let Some(text) = std::str::from_utf8(body).ok().filter(|_| readable).map(str::to_owned) else {
        let what = "flyball: the message is not UTF-8 JSON and was not forwarded";
        return Some(text_response(StatusCode::BAD_REQUEST, what));
    };
    let guard = Arc::clone(guard);
    let forwards = tokio::task::spawn_blocking(move || guard.handle_client_message(&text)).await.ok()?;
    match forwards.as_slice() {
        [McpForward::ToServer(_)] => None,
        [McpForward::ToClient(text)] => Some(response(StatusCode::OK, "application/json", text.clone())),
        _ => {
            let what = "a batch with a tool call is not supported; send the messages separately";
            Some(text_response(StatusCode::BAD_REQUEST, what))
        }
    }
}

/// Forwards a server response after processing the tool results in it.
async fn forward_response(guard: Arc<McpGuard>, mut answer: Response<Incoming>) -> Response<McpBody> {
    prepare_response_headers(answer.headers_mut());
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/json" => forward_json(guard, answer).await,
        "text/event-stream" => {
            let (to, from) = channel(MAX_QUEUED_CHUNKS);
            let (parts, body) = answer.into_parts();
            tokio::spawn(forward_stream(guard, body, to));
            Response::from_parts(parts, ChannelBody(from).boxed())
        }
        _ => answer.map(|body| body.map_err(McpBodyError::from).boxed()),
    }
}

async fn forward_json(guard: Arc<McpGuard>, answer: Response<Incoming>) -> Response<McpBody> {
    let (mut parts, body) = answer.into_parts();
    let Ok(body) = Limited::new(body, MAX_MESSAGE_BYTES).collect().await else {
        return text_response(StatusCode::BAD_GATEWAY, "the server's response was cut off or is too long");
    };
    let mut body = body.to_bytes();
    if let Ok(text) = std::str::from_utf8(&body).map(str::to_owned)
        && let Ok(new) = tokio::task::spawn_blocking(move || guard.handle_server_message(&text)).await
    {
        body = Bytes::from(new);
    }
    if parts.headers.contains_key(CONTENT_LENGTH) {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    Response::from_parts(parts, Full::new(body).map_err(|never| match never {}).boxed())
}

/// Forwards a stream event by event.
async fn forward_stream(guard: Arc<McpGuard>, mut body: Incoming, to: Sender<Result<Bytes, McpBodyError>>) {
    let mut events = SseSplitter::default();
    loop {
        let found = match body.frame().await {
            Some(Ok(frame)) => frame.into_data().map(|data| events.push(&data)).unwrap_or_default(),
            Some(Err(error)) => {
                let _ = to.send(Err(error.into())).await;
                return;
            }
            None => {
                if let Some(rest) = events.take_rest() {
                    let _ = to.send(Ok(rest.raw.into())).await;
                }
                return;
            }
        };
        for event in found {
            let piece = edit_event(&guard, event).await;
            if to.send(Ok(piece.into())).await.is_err() {
                return;
            }
        }
    }
}

/// Returns the event to forward.
async fn edit_event(guard: &Arc<McpGuard>, event: SseFrame) -> Vec<u8> {
    let Some(data) = event.data() else { return event.raw };
    let (guard, text) = (Arc::clone(guard), data.clone());
    match tokio::task::spawn_blocking(move || guard.handle_server_message(&text)).await {
        Ok(new) if new != data => event.with_data(&new),
        _ => event.raw,
    }
}

fn text_response(status: StatusCode, text: &str) -> Response<McpBody> {
    response(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Response<McpBody> {
    let mut response = Response::new(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
