//! The HTTP side: takes requests, passes them on, passes answers back.

use super::body::{Passed, Tapped};
use super::dialect::{AmbiguousPath, Asked, Dialect};
use super::draft::Tap;
use super::headers::{credentials, for_client, for_provider};
use super::strict_json::parse_strict;
use super::upstream::Upstream;
use super::watch::{Outcome, Sender, Setting, Ticket, Trouble, Watch};
use crate::same_site::AllowedHosts;
use flyball::{Fingerprint, Verdict};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode, http};
use std::error::Error;
use std::sync::Arc;

/// The header that names the session of a request, and of an answer.
pub(super) const SESSION: &str = "x-flyball-session";
/// The header that tells what was decided, if it was not `allow`.
const DECISION: &str = "x-flyball-decision";
/// The header that tells why nothing could be decided.
const ERROR: &str = "x-flyball-error";
/// The code of a request that the guards cannot read.
const UNREADABLE: &str = "request_unreadable";
/// The largest request that is looked into.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// What goes wrong on the way of a body.
type Broken = Box<dyn Error + Send + Sync>;
/// A body on its way to the client.
pub(super) type Out = BoxBody<Bytes, Broken>;

/// What the proxy does when it cannot decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnError {
    /// Passes everything on, and says so loudly.
    #[default]
    Allow,
    /// Answers with an error.
    Block,
}

/// The proxy.
pub(super) struct Proxy {
    watch: Watch,
    upstream: Upstream,
    hosts: AllowedHosts,
    on_error: OnError,
    /// Where one is loud.
    complain: Box<dyn Fn(&Trouble) + Send + Sync>,
}

impl Proxy {
    pub(super) fn new(
        setting: Setting,
        upstream: Upstream,
        hosts: AllowedHosts,
        on_error: OnError,
        complain: Box<dyn Fn(&Trouble) + Send + Sync>,
    ) -> Self {
        Proxy { watch: Watch::new(setting), upstream, hosts, on_error, complain }
    }

    /// Answers a request. Whatever happens, there is an answer.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Out> {
        let (mut parts, body) = request.into_parts();
        if let Err(what) = self.hosts.check(&parts) {
            return self.failed(None, StatusCode::FORBIDDEN, &foreign(what));
        }
        match Dialect::of(parts.method.as_str(), parts.uri.path()) {
            Err(AmbiguousPath) => {
                let trouble = unreadable("the path is encoded in an ambiguous way");
                self.failed(None, StatusCode::BAD_REQUEST, &trouble)
            }
            Ok(Some(dialect)) => self.guarded(dialect, parts, body).await,
            Ok(None) => {
                for_provider(&mut parts.headers);
                match self.upstream.send(Request::from_parts(parts, body.map_err(Broken::from).boxed())).await
                {
                    Ok(answer) => passed(answer),
                    Err(trouble) => self.failed(None, StatusCode::BAD_GATEWAY, &trouble),
                }
            }
        }
    }

    /// Looks into a request, and passes it on or answers it.
    async fn guarded(
        self: Arc<Self>,
        dialect: Dialect,
        mut parts: http::request::Parts,
        body: Incoming,
    ) -> Response<Out> {
        let body = match read_body(&parts, body).await {
            Ok(body) => body,
            Err((status, trouble)) => return self.failed(Some(dialect), status, &trouble),
        };
        let (looked, asked) = self.look(dialect, &parts, &body).await;
        for_provider(&mut parts.headers);
        let (mut told, mut ticket, mut sent) = (Vec::new(), None, None);
        match looked {
            Ok(Outcome::Stop { session, text }) => {
                let asked = asked.unwrap_or_default();
                return self.instead(dialect, &asked, Verdict::Halt, &session, &text);
            }
            Ok(Outcome::Go { session, verdict, note, ticket: open }) => {
                told.push((SESSION, session));
                if verdict > Verdict::Allow {
                    told.push((DECISION, verdict.as_str().to_owned()));
                }
                sent = note.and_then(|note| dialect.with_note(&body, &note));
                ticket = Some(open);
                // A copy of the answer must be readable, and the client takes it in any way.
                parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            // What the guards cannot read must not reach the model unseen.
            Err(trouble) if trouble.code == UNREADABLE => {
                return self.failed(Some(dialect), StatusCode::BAD_REQUEST, &trouble);
            }
            // Without a decision there is no approval: a model that may call such a tool is not asked.
            Err(trouble)
                if self.on_error == OnError::Block
                    || asked.as_ref().is_some_and(|asked| self.watch.offers_destructive(asked)) =>
            {
                return self.failed(Some(dialect), StatusCode::SERVICE_UNAVAILABLE, &trouble);
            }
            Err(trouble) => {
                (self.complain)(&trouble);
                told.push((ERROR, trouble.code));
            }
        }
        let body = sent.map_or(body, Bytes::from);
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        parts.headers.remove(hyper::header::TRANSFER_ENCODING);
        let whole = Full::new(body).map_err(|never| match never {}).boxed();
        let answer = match self.upstream.send(Request::from_parts(parts, whole)).await {
            Ok(answer) => answer,
            Err(trouble) => return self.failed(Some(dialect), StatusCode::BAD_GATEWAY, &trouble),
        };
        let holding = asked.as_ref().filter(|asked| self.watch.offers_destructive(asked));
        let answer = match (holding, ticket) {
            (Some(asked), Some(ticket)) if answer.status().is_success() => {
                let session = told.iter().find(|(name, _)| *name == SESSION);
                let session = session.map(|(_, session)| session.clone()).unwrap_or_default();
                self.held(dialect, answer, ticket, asked, &session).await
            }
            (_, ticket) => self.tapped(dialect, answer, ticket),
        };
        with_headers(answer, told)
    }

    /// Records what a request brings, in a thread that may wait for the disk.
    async fn look(
        self: &Arc<Self>,
        dialect: Dialect,
        parts: &http::request::Parts,
        body: &Bytes,
    ) -> (Result<Outcome, Trouble>, Option<Asked>) {
        let session = parts.headers.get(SESSION).and_then(|name| name.to_str().ok()).map(str::to_owned);
        let credentials = credentials(&parts.headers);
        let (proxy, body) = (Arc::clone(self), body.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let asked = match parse_strict(&body) {
                Ok(body) => dialect.read(&body).ok_or("the request lacks what this path takes"),
                Err(_) => Err("the request is not UTF-8 JSON, or has a key twice in one object"),
            };
            let asked = match asked {
                Ok(asked) => asked,
                Err(what) => return (Err(unreadable(what)), None),
            };
            let from = Sender { session: session.as_deref(), credentials: &credentials };
            (proxy.watch.before(from, &asked, body.len()), Some(asked))
        });
        looked.await.unwrap_or_else(|_| (Err(gone()), None))
    }

    /// An answer of the provider, looked at if it is one of a model.
    fn tapped(
        self: &Arc<Self>,
        dialect: Dialect,
        mut answer: Response<Incoming>,
        ticket: Option<Ticket>,
    ) -> Response<Out> {
        for_client(answer.headers_mut());
        let header =
            |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let plain = matches!(header(CONTENT_ENCODING), "" | "identity");
        let tap = Tap::new(dialect);
        let Some(ticket) = ticket.filter(|_| answer.status().is_success()) else { return boxed(answer) };
        if !plain {
            let trouble = Trouble {
                code: "answer_unreadable".to_owned(),
                what: "the provider compresses its answers although it was asked not to".to_owned(),
                advice: "nothing of this answer was counted".to_owned(),
            };
            (self.complain)(&trouble);
            answer.headers_mut().insert(ERROR, HeaderValue::from_static("answer_unreadable"));
            return boxed(answer);
        }
        let proxy = Arc::clone(self);
        let record = Box::new(move |draft| {
            tokio::task::spawn_blocking(move || {
                let kept = dialect == Dialect::Responses;
                if let Err(trouble) = proxy.watch.after(&ticket, &draft, kept) {
                    (proxy.complain)(&trouble);
                }
            })
        });
        answer.map(|body| Tapped::new(body, tap, record).map_err(Broken::from).boxed())
    }

    /// An answer that may call a tool that needs an approval: it is passed on, or withheld, when it is complete.
    async fn held(
        self: &Arc<Self>,
        dialect: Dialect,
        mut answer: Response<Incoming>,
        ticket: Ticket,
        asked: &Asked,
        session: &str,
    ) -> Response<Out> {
        for_client(answer.headers_mut());
        let (parts, body) = answer.into_parts();
        let encoding = parts.headers.get(CONTENT_ENCODING);
        let plain = encoding.is_none_or(|encoding| encoding.is_empty() || encoding == "identity");
        let whole = Limited::new(body, MOST_BYTES).collect().await;
        let (Ok(whole), true) = (whole, plain) else {
            return self.failed(Some(dialect), StatusCode::BAD_GATEWAY, &unreadable_answer());
        };
        let whole = whole.to_bytes();
        let mut tap = Tap::new(dialect);
        tap.push(&whole);
        let Some(draft) = tap.finish() else {
            return self.failed(Some(dialect), StatusCode::BAD_GATEWAY, &unreadable_answer());
        };
        let calls = self.watch.calls_destructive(&draft);
        let proxy = Arc::clone(self);
        let recorded = tokio::task::spawn_blocking(move || {
            proxy.watch.after(&ticket, &draft, dialect == Dialect::Responses)
        });
        match recorded.await.unwrap_or_else(|_| Err(gone())) {
            Ok(Some(text)) => return self.instead(dialect, asked, Verdict::Block, session, &text),
            Err(trouble) if calls => {
                return self.failed(Some(dialect), StatusCode::SERVICE_UNAVAILABLE, &trouble);
            }
            Err(trouble) => (self.complain)(&trouble),
            Ok(None) => {}
        }
        Response::from_parts(parts, Full::new(whole).map_err(|never| match never {}).boxed())
    }

    /// An answer of our own instead of the model's.
    fn instead(
        &self,
        dialect: Dialect,
        asked: &Asked,
        verdict: Verdict,
        session: &str,
        text: &str,
    ) -> Response<Out> {
        let now = self.watch.now_s();
        let id = Fingerprint::of_text(session).with(Fingerprint::of_text(&now.to_string()));
        let body = dialect.say(asked, text, &format!("flyball{id}"), now);
        let kind = if asked.stream { "text/event-stream; charset=utf-8" } else { "application/json" };
        let mut answer = response(StatusCode::OK, kind, body);
        answer.headers_mut().insert(DECISION, HeaderValue::from_static(verdict.as_str()));
        if let Ok(session) = HeaderValue::from_str(session) {
            answer.headers_mut().insert(SESSION, session);
        }
        answer
    }

    /// An error of our own.
    fn failed(&self, dialect: Option<Dialect>, status: StatusCode, trouble: &Trouble) -> Response<Out> {
        (self.complain)(trouble);
        let text = format!("flyball: {} ({}); {}", trouble.what, trouble.code, trouble.advice);
        let mut answer = match dialect {
            Some(dialect) => response(status, "application/json", dialect.error(&text)),
            None => response(status, "text/plain; charset=utf-8", format!("{text}\n")),
        };
        if let Ok(code) = HeaderValue::from_str(&trouble.code) {
            answer.headers_mut().insert(ERROR, code);
        }
        answer
    }
}

/// The body of a request, if the guards can read it.
async fn read_body(parts: &http::request::Parts, body: Incoming) -> Result<Bytes, (StatusCode, Trouble)> {
    if !parts.headers.get_all(CONTENT_ENCODING).iter().all(|value| value == "identity") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, unreadable("the request is compressed")));
    }
    let Ok(body) = Limited::new(body, MOST_BYTES).collect().await else {
        let trouble = Trouble {
            code: UNREADABLE.to_owned(),
            what: format!("the request broke off, or is longer than {MOST_BYTES} bytes"),
            advice: "send it again; shorten the conversation if it is that long".to_owned(),
        };
        return Err((StatusCode::PAYLOAD_TOO_LARGE, trouble));
    };
    Ok(without_byte_order_mark(body.to_bytes()))
}

/// An answer with what is told about it, unless the provider has said it.
fn with_headers(mut answer: Response<Out>, told: Vec<(&'static str, String)>) -> Response<Out> {
    for (name, value) in told {
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.headers_mut().entry(name).or_insert(value);
        }
    }
    answer
}

/// Some servers skip a byte order mark; without it the body means the same to all of them.
fn without_byte_order_mark(body: Bytes) -> Bytes {
    if body.starts_with(b"\xef\xbb\xbf") { body.slice(3..) } else { body }
}

fn unreadable(what: &str) -> Trouble {
    let advice = "it was not passed on; send it as uncompressed JSON to the usual path".to_owned();
    Trouble { code: UNREADABLE.to_owned(), what: what.to_owned(), advice }
}

fn foreign(what: &str) -> Trouble {
    let advice = "use localhost or an IP address, or allow the name with --host".to_owned();
    Trouble { code: "foreign_origin".to_owned(), what: what.to_owned(), advice }
}

fn unreadable_answer() -> Trouble {
    Trouble {
        code: "answer_unreadable".to_owned(),
        what:
            "the provider's answer broke off or cannot be read, and a tool that needs an approval was offered"
                .to_owned(),
        advice: "the answer was not passed on; ask again".to_owned(),
    }
}

fn gone() -> Trouble {
    let advice = "this is a bug; please report it".to_owned();
    Trouble { code: "internal".to_owned(), what: "the recording ended by itself".to_owned(), advice }
}

/// An answer that nobody looks at.
fn passed(mut answer: Response<Incoming>) -> Response<Out> {
    for_client(answer.headers_mut());
    boxed(answer)
}

fn boxed(answer: Response<Incoming>) -> Response<Out> {
    answer.map(|body| Passed::from(body).map_err(Broken::from).boxed())
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<Out> {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
