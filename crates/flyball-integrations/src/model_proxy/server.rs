//! HTTP side of the model proxy: receives requests, forwards them and returns the answers.

use super::conversation_recorder::{
    ConversationRecorder, ModelProxyConfig, PendingExchange, ProxyError, RequestOutcome, RequestSender,
};
use super::headers::{credentials, prepare_request_headers, prepare_response_headers};
use super::partial_answer::AnswerTap;
use super::protocol::{AmbiguousPath, ProxyProtocol, ProxyRequest};
use super::response_body::{PassthroughBody, TappedBody};
use super::strict_json::parse_strict;
use super::upstream::Upstream;
use crate::same_site::AllowedHosts;
use flyball::{Fingerprint, Verdict};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode, http};
use std::error::Error;
use std::sync::Arc;

/// The header with the session name, in requests and responses.
pub(super) const SESSION_HEADER: &str = "x-flyball-session";
/// The response header with a verdict other than `allow`.
const DECISION_HEADER: &str = "x-flyball-decision";
/// The response header with the reason why a request could not be evaluated.
const ERROR_HEADER: &str = "x-flyball-error";
/// The error code of a request that cannot be parsed.
const UNREADABLE_CODE: &str = "request_unreadable";
/// Maximum size of an inspected request, in bytes.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// An error while a body is transferred.
type ProxyBodyError = Box<dyn Error + Send + Sync>;
/// A response body for the client.
pub(super) type ProxyBody = BoxBody<Bytes, ProxyBodyError>;

/// The action if a request cannot be evaluated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProxyOnError {
    /// Forward it and report the error.
    #[default]
    Allow,
    /// Respond with an error.
    Block,
}

/// The model proxy.
pub(super) struct ModelProxy {
    conversations: ConversationRecorder,
    upstream: Upstream,
    hosts: AllowedHosts,
    on_error: ProxyOnError,
    /// Callback for errors.
    report_error: Box<dyn Fn(&ProxyError) + Send + Sync>,
}

impl ModelProxy {
    pub(super) fn new(
        config: ModelProxyConfig,
        upstream: Upstream,
        hosts: AllowedHosts,
        on_error: ProxyOnError,
        report_error: Box<dyn Fn(&ProxyError) + Send + Sync>,
    ) -> Self {
        ModelProxy {
            conversations: ConversationRecorder::new(config),
            upstream,
            hosts,
            on_error,
            report_error,
        }
    }

    /// Handles a request. Errors become responses.
    pub(super) async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Response<ProxyBody> {
        let (mut parts, body) = request.into_parts();
        if let Err(what) = self.hosts.check(&parts) {
            return self.error_response(None, StatusCode::FORBIDDEN, &foreign_origin(what));
        }
        match ProxyProtocol::detect(parts.method.as_str(), parts.uri.path()) {
            Err(AmbiguousPath) => {
                let error = unreadable("the path is ambiguously encoded");
                self.error_response(None, StatusCode::BAD_REQUEST, &error)
            }
            Ok(Some(protocol)) => self.handle_model_request(protocol, parts, body).await,
            Ok(None) => {
                prepare_request_headers(&mut parts.headers);
                match self
                    .upstream
                    .send(Request::from_parts(parts, body.map_err(ProxyBodyError::from).boxed()))
                    .await
                {
                    Ok(answer) => passthrough(answer),
                    Err(error) => self.error_response(None, StatusCode::BAD_GATEWAY, &error),
                }
            }
        }
    }

    /// Inspects a request, and forwards or answers it.
    async fn handle_model_request(
        self: Arc<Self>,
        protocol: ProxyProtocol,
        mut parts: http::request::Parts,
        body: Incoming,
    ) -> Response<ProxyBody> {
        let body = match read_body(&parts, body).await {
            Ok(body) => body,
            Err((status, error)) => return self.error_response(Some(protocol), status, &error),
        };
        let (looked, request) = self.record_request(protocol, &parts, &body).await;
        prepare_request_headers(&mut parts.headers);
        let (mut extra_headers, mut pending, mut sent) = (Vec::new(), None, None);
        match looked {
            Ok(RequestOutcome::Halted { session, text }) => {
                let request = request.unwrap_or_default();
                return self.own_answer(protocol, &request, Verdict::Halt, &session, &text);
            }
            Ok(RequestOutcome::Forward { session, verdict, note, pending: open }) => {
                extra_headers.push((SESSION_HEADER, session));
                if verdict > Verdict::Allow {
                    extra_headers.push((DECISION_HEADER, verdict.as_str().to_owned()));
                }
                sent = note.and_then(|note| protocol.with_note(&body, &note));
                pending = Some(open);
                // The copy of the answer must be readable, and every client accepts an uncompressed one.
                parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            // A request that cannot be parsed must not reach the model.
            Err(error) if error.code == UNREADABLE_CODE => {
                return self.error_response(Some(protocol), StatusCode::BAD_REQUEST, &error);
            }
            // Without a decision there is no approval, so a request that offers a destructive tool is not forwarded.
            Err(error)
                if self.on_error == ProxyOnError::Block
                    || request
                        .as_ref()
                        .is_some_and(|request| self.conversations.offers_destructive(request)) =>
            {
                return self.error_response(Some(protocol), StatusCode::SERVICE_UNAVAILABLE, &error);
            }
            Err(error) => {
                (self.report_error)(&error);
                extra_headers.push((ERROR_HEADER, error.code));
            }
        }
        let body = sent.map_or(body, Bytes::from);
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        parts.headers.remove(hyper::header::TRANSFER_ENCODING);
        let whole = Full::new(body).map_err(|never| match never {}).boxed();
        let answer = match self.upstream.send(Request::from_parts(parts, whole)).await {
            Ok(answer) => answer,
            Err(error) => return self.error_response(Some(protocol), StatusCode::BAD_GATEWAY, &error),
        };
        let holding = request.as_ref().filter(|request| self.conversations.offers_destructive(request));
        let answer = match (holding, pending) {
            (Some(request), Some(pending)) if answer.status().is_success() => {
                let session = extra_headers.iter().find(|(name, _)| *name == SESSION_HEADER);
                let session = session.map(|(_, session)| session.clone()).unwrap_or_default();
                self.forward_or_withhold(protocol, answer, pending, request, &session).await
            }
            (_, pending) => self.tap_answer(protocol, answer, pending),
        };
        with_headers(answer, extra_headers)
    }

    /// Records a request on a thread that may block on disk I/O.
    async fn record_request(
        self: &Arc<Self>,
        protocol: ProxyProtocol,
        parts: &http::request::Parts,
        body: &Bytes,
    ) -> (Result<RequestOutcome, ProxyError>, Option<ProxyRequest>) {
        let session =
            parts.headers.get(SESSION_HEADER).and_then(|name| name.to_str().ok()).map(str::to_owned);
        let credentials = credentials(&parts.headers);
        let (proxy, body) = (Arc::clone(self), body.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let request = match parse_strict(&body) {
                Ok(body) => protocol.parse_request(&body).ok_or(
                    "the request lacks fields that this \
                     endpoint requires",
                ),
                Err(_) => Err("the request is not UTF-8 JSON, or an object contains a duplicate key"),
            };
            let request = match request {
                Ok(request) => request,
                Err(what) => return (Err(unreadable(what)), None),
            };
            let from = RequestSender { session: session.as_deref(), credentials: &credentials };
            (proxy.conversations.record_request(from, &request, body.len()), Some(request))
        });
        looked.await.unwrap_or_else(|_| (Err(recorder_gone()), None))
    }

    /// Returns the provider's response, inspected if it is an answer of a model.
    fn tap_answer(
        self: &Arc<Self>,
        protocol: ProxyProtocol,
        mut answer: Response<Incoming>,
        pending: Option<PendingExchange>,
    ) -> Response<ProxyBody> {
        prepare_response_headers(answer.headers_mut());
        let header =
            |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let plain = matches!(header(CONTENT_ENCODING), "" | "identity");
        let tap = AnswerTap::new(protocol);
        let Some(pending) = pending.filter(|_| answer.status().is_success()) else { return boxed(answer) };
        if !plain {
            let error = ProxyError {
                code: "response_unreadable".to_owned(),
                message: "the provider compressed its answer although `identity` was requested".to_owned(),
                help: "this answer was not counted".to_owned(),
            };
            (self.report_error)(&error);
            answer.headers_mut().insert(ERROR_HEADER, HeaderValue::from_static("response_unreadable"));
            return boxed(answer);
        }
        let proxy = Arc::clone(self);
        let record = Box::new(move |draft| {
            tokio::task::spawn_blocking(move || {
                let kept = protocol == ProxyProtocol::Responses;
                if let Err(error) = proxy.conversations.record_answer(&pending, &draft, kept) {
                    (proxy.report_error)(&error);
                }
            })
        });
        answer.map(|body| TappedBody::new(body, tap, record).map_err(ProxyBodyError::from).boxed())
    }

    /// Buffers an answer that may call a tool that needs approval, and forwards or withholds it once complete.
    async fn forward_or_withhold(
        self: &Arc<Self>,
        protocol: ProxyProtocol,
        mut answer: Response<Incoming>,
        pending: PendingExchange,
        request: &ProxyRequest,
        session: &str,
    ) -> Response<ProxyBody> {
        prepare_response_headers(answer.headers_mut());
        let (parts, body) = answer.into_parts();
        let encoding = parts.headers.get(CONTENT_ENCODING);
        let plain = encoding.is_none_or(|encoding| encoding.is_empty() || encoding == "identity");
        let whole = Limited::new(body, MAX_REQUEST_BYTES).collect().await;
        let (Ok(whole), true) = (whole, plain) else {
            return self.error_response(Some(protocol), StatusCode::BAD_GATEWAY, &unreadable_answer());
        };
        let whole = whole.to_bytes();
        let mut tap = AnswerTap::new(protocol);
        tap.push(&whole);
        let Some(draft) = tap.finish() else {
            return self.error_response(Some(protocol), StatusCode::BAD_GATEWAY, &unreadable_answer());
        };
        let calls = self.conversations.calls_destructive(&draft);
        let proxy = Arc::clone(self);
        let recorded = tokio::task::spawn_blocking(move || {
            proxy.conversations.record_answer(&pending, &draft, protocol == ProxyProtocol::Responses)
        });
        match recorded.await.unwrap_or_else(|_| Err(recorder_gone())) {
            Ok(Some(text)) => return self.own_answer(protocol, request, Verdict::Block, session, &text),
            Err(error) if calls => {
                return self.error_response(Some(protocol), StatusCode::SERVICE_UNAVAILABLE, &error);
            }
            Err(error) => (self.report_error)(&error),
            Ok(None) => {}
        }
        Response::from_parts(parts, Full::new(whole).map_err(|never| match never {}).boxed())
    }

    /// Builds our own answer.
    fn own_answer(
        &self,
        protocol: ProxyProtocol,
        request: &ProxyRequest,
        verdict: Verdict,
        session: &str,
        text: &str,
    ) -> Response<ProxyBody> {
        let now = self.conversations.now_s();
        let id = Fingerprint::of_text(session).combine(Fingerprint::of_text(&now.to_string()));
        let body = protocol.render_answer(request, text, &format!("flyball{id}"), now);
        let kind = if request.stream { "text/event-stream; charset=utf-8" } else { "application/json" };
        let mut answer = response(StatusCode::OK, kind, body);
        answer.headers_mut().insert(DECISION_HEADER, HeaderValue::from_static(verdict.as_str()));
        if let Ok(session) = HeaderValue::from_str(session) {
            answer.headers_mut().insert(SESSION_HEADER, session);
        }
        answer
    }

    /// Builds an error response.
    fn error_response(
        &self,
        protocol: Option<ProxyProtocol>,
        status: StatusCode,
        error: &ProxyError,
    ) -> Response<ProxyBody> {
        (self.report_error)(error);
        let text = format!("flyball: {} ({}); {}", error.message, error.code, error.help);
        let mut answer = match protocol {
            Some(protocol) => response(status, "application/json", protocol.render_error(&text)),
            None => response(status, "text/plain; charset=utf-8", format!("{text}\n")),
        };
        if let Ok(code) = HeaderValue::from_str(&error.code) {
            answer.headers_mut().insert(ERROR_HEADER, code);
        }
        answer
    }
}

/// Reads a request body that can be inspected.
async fn read_body(parts: &http::request::Parts, body: Incoming) -> Result<Bytes, (StatusCode, ProxyError)> {
    if !parts.headers.get_all(CONTENT_ENCODING).iter().all(|value| value == "identity") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, unreadable("the request is compressed")));
    }
    let Ok(body) = Limited::new(body, MAX_REQUEST_BYTES).collect().await else {
        let error = ProxyError {
            code: UNREADABLE_CODE.to_owned(),
            message: format!("the request was cut off or is longer than {MAX_REQUEST_BYTES} bytes"),
            help: "send it again; shorten the conversation if it is too long".to_owned(),
        };
        return Err((StatusCode::PAYLOAD_TOO_LARGE, error));
    };
    Ok(without_byte_order_mark(body.to_bytes()))
}

/// Adds our headers to a response, except those that the provider has set.
fn with_headers(
    mut answer: Response<ProxyBody>,
    extra_headers: Vec<(&'static str, String)>,
) -> Response<ProxyBody> {
    for (name, value) in extra_headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.headers_mut().entry(name).or_insert(value);
        }
    }
    answer
}

/// Strips a byte-order mark, because servers treat it differently.
fn without_byte_order_mark(body: Bytes) -> Bytes {
    if body.starts_with(b"\xef\xbb\xbf") { body.slice(3..) } else { body }
}

fn unreadable(what: &str) -> ProxyError {
    let help = "it was not forwarded; send uncompressed JSON to the standard path".to_owned();
    ProxyError { code: UNREADABLE_CODE.to_owned(), message: what.to_owned(), help }
}

fn foreign_origin(what: &str) -> ProxyError {
    let help = "use localhost or an IP address, or allow the name with --host".to_owned();
    ProxyError { code: "foreign_origin".to_owned(), message: what.to_owned(), help }
}

fn unreadable_answer() -> ProxyError {
    ProxyError {
        code: "response_unreadable".to_owned(),
        message: "the provider's answer was cut off or cannot be parsed, and a tool that needs approval was \
             offered"
            .to_owned(),
        help: "the answer was not forwarded; ask again".to_owned(),
    }
}

fn recorder_gone() -> ProxyError {
    let help = "this is a bug; please report it".to_owned();
    ProxyError {
        code: "internal".to_owned(),
        message: "the recording thread stopped unexpectedly".to_owned(),
        help,
    }
}

/// Returns a response without inspecting it.
fn passthrough(mut answer: Response<Incoming>) -> Response<ProxyBody> {
    prepare_response_headers(answer.headers_mut());
    boxed(answer)
}

fn boxed(answer: Response<Incoming>) -> Response<ProxyBody> {
    answer.map(|body| PassthroughBody::from(body).map_err(ProxyBodyError::from).boxed())
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<ProxyBody> {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
