//! HTTP provider: one attempt, from the request to the reply.

use super::attempt_error::{AttemptError, Retryability, parse_error_body, quote};
use super::http::{AgentPool, ExchangeError, HttpExchange, HttpPost, HttpTimeouts, ResponseHead};
use super::limits::MAX_ERROR_BYTES;
use super::message::{ModelReply, ModelRequest};
use super::price::TokenPrice;
use super::provider_error::{ProviderError, ProviderErrorCode};
use super::provider_key::ProviderKey;
use super::reply_builder::ReplyBuilder;
use super::retry::{
    AttemptInfo, ProviderProgress, ProviderRetryPolicy, cancelled_error, deadline_error, with_retries,
};
use super::sse::{SseError, SseEvent, SseParser};
use super::{Provider, retry_after};
use crate::process::CancelToken;
use serde_json::{Map, Value};
use std::sync::{Mutex, PoisonError};

/// Maximum number of parameter adjustments per attempt.
const MAX_ADJUSTMENTS: usize = 3;

/// Protocol-specific part of an HTTP provider.
pub(super) trait WireProtocol: Send + Sync + std::fmt::Debug {
    /// Headers, including the key.
    fn headers(&self, key: &ProviderKey) -> Vec<(String, String)>;

    /// Request body without the model and the configured extra parameters.
    fn request_body(
        &self,
        url: &str,
        adjusted: &EndpointSupport,
        request: &ModelRequest,
        max_tokens: Option<u64>,
    ) -> Map<String, Value>;

    /// Handles an event of a stream.
    fn handle_event(
        &self,
        name: &str,
        data: &str,
        draft: &mut ReplyBuilder,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), ReplyError>;

    /// Handles a complete response.
    fn handle_document(
        &self,
        answer: &Value,
        draft: &mut ReplyBuilder,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), ReplyError>;

    /// Adjusted parameters after the endpoint rejected one; `None` if there is no alternative.
    fn adjust_support(
        &self,
        _adjusted: EndpointSupport,
        _param: &str,
        _message: &str,
    ) -> Option<EndpointSupport> {
        None
    }
}

/// Parameters that an endpoint is known to accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndpointSupport {
    /// Streaming.
    pub(super) stream: bool,
    /// The `stream_options` parameter.
    pub(super) stream_options: bool,
    /// The alternative name of the token limit.
    pub(super) alternate_max_tokens: bool,
}

/// Why a response cannot be used.
#[derive(Debug)]
pub(super) enum ReplyError {
    /// Not JSON.
    NotJson(String),
    /// JSON of an unexpected shape.
    UnexpectedShape(String),
    /// An error reported by the provider.
    Failed(AttemptError),
}

/// Returns the error that a response or event contains, if any.
pub(super) fn check_reported_error(answer: &Value) -> Result<(), ReplyError> {
    match answer.get("error") {
        Some(error) if !error.is_null() => {
            let (kind, message) = parse_error_body(answer.to_string().as_bytes());
            Err(ReplyError::Failed(AttemptError::from_error_type(&kind, &message)))
        }
        _ => Ok(()),
    }
}

/// A provider behind an HTTP API.
pub(super) struct HttpProvider {
    pub(super) name: String,
    pub(super) model: String,
    pub(super) url: String,
    pub(super) protocol: Box<dyn WireProtocol>,
    pub(super) key: ProviderKey,
    /// Variable that contains the key, for messages.
    pub(super) key_env: String,
    /// Header for the key, if it differs from the protocol's.
    pub(super) key_header: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    /// Configured extra body parameters.
    pub(super) extra: Map<String, Value>,
    pub(super) max_tokens: Option<u64>,
    pub(super) price: Option<TokenPrice>,
    pub(super) retry: ProviderRetryPolicy,
    pub(super) timeouts: HttpTimeouts,
    pub(super) agents: AgentPool,
    pub(super) support: Mutex<EndpointSupport>,
}

impl std::fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("HttpProvider");
        shown.field("name", &self.name).field("url", &self.url).field("model", &self.model);
        shown.field("protocol", &self.protocol).field("key", &self.key).finish_non_exhaustive()
    }
}

impl Provider for HttpProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask_with_progress(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        watch: &mut dyn FnMut(ProviderProgress<'_>),
    ) -> Result<ModelReply, ProviderError> {
        let mut attempt = |this: AttemptInfo, on_text: &mut dyn FnMut(&str)| {
            self.attempt(request, cancel, this, on_text).map_err(|mut error| {
                error.message = self.key.scrub(&error.message);
                error
            })
        };
        with_retries(&self.name, &self.retry, request, cancel, watch, &mut attempt)
    }
}

impl HttpProvider {
    fn attempt(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        this: AttemptInfo,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<ModelReply, AttemptError> {
        let mut left = MAX_ADJUSTMENTS;
        loop {
            let adjusted = *self.support.lock().unwrap_or_else(PoisonError::into_inner);
            let post = self.build_request(&adjusted, request)?;
            let mut exchange = HttpExchange::start(&self.agents, post, cancel, this, self.timeouts)
                .map_err(exchange_error)?;
            let head = exchange.head().map_err(exchange_error)?;
            if (200..300).contains(&head.status) {
                return self.read_reply(request, exchange, &head, on_text);
            }
            let body = read_error_body(&mut exchange);
            match self.adjusted_support(adjusted, head.status, &body).filter(|_| left > 0) {
                Some(better) => *self.support.lock().unwrap_or_else(PoisonError::into_inner) = better,
                None => return Err(self.status_error(&head, &body)),
            }
            left -= 1;
        }
    }

    fn build_request(
        &self,
        adjusted: &EndpointSupport,
        request: &ModelRequest,
    ) -> Result<HttpPost<'_>, AttemptError> {
        let mut body =
            self.protocol.request_body(&self.url, adjusted, request, request.max_tokens.or(self.max_tokens));
        if body.get("messages").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let what = "the conversation is empty";
            return Err(AttemptError::new(ProviderErrorCode::BadRequest, Retryability::Never, what)
                .with_help("give the node a prompt"));
        }
        body.insert("model".to_owned(), Value::from(self.model.as_str()));
        body.extend(self.extra.clone());
        let mut headers = vec![
            ("Content-Type".to_owned(), "application/json".to_owned()),
            ("Accept".to_owned(), "text/event-stream, application/json".to_owned()),
        ];
        headers.extend(self.headers.iter().cloned());
        match &self.key_header {
            Some(name) => {
                headers.extend(self.protocol.headers(&ProviderKey::default()));
                headers.extend(self.key.reveal().map(|key| (name.clone(), key.to_owned())));
            }
            None => headers.extend(self.protocol.headers(&self.key)),
        }
        Ok(HttpPost { url: &self.url, headers, body: Value::Object(body).to_string() })
    }

    /// Adjusted parameters if the endpoint rejected an optional one.
    fn adjusted_support(
        &self,
        adjusted: EndpointSupport,
        status: u16,
        body: &[u8],
    ) -> Option<EndpointSupport> {
        if status != 400 && status != 422 {
            return None;
        }
        let param = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let param = param.pointer("/error/param").and_then(Value::as_str).unwrap_or_default();
        self.protocol.adjust_support(adjusted, param, &String::from_utf8_lossy(body).to_lowercase())
    }

    /// Error for an HTTP error status.
    fn status_error(&self, head: &ResponseHead, body: &[u8]) -> AttemptError {
        let (kind, message) = parse_error_body(body);
        let message = match head.header("location") {
            Some(location) if (300..400).contains(&head.status) => format!("redirect to {}", quote(location)),
            _ => message,
        };
        let mut error = AttemptError::from_status(
            head.status,
            &message,
            retry_after::parse_retry_after(|name| head.header(name)),
        );
        if kind == "insufficient_quota" {
            error.retryability = Retryability::Never;
            error.help = Some("the account has no credit left: check its plan and billing".to_owned());
        }
        if error.code == ProviderErrorCode::Auth {
            let name = &self.key_env;
            error.help = Some(if self.key.is_none() {
                format!("no key was sent: set the environment variable {name}")
            } else {
                format!("check the key in the environment variable {name} and its permissions")
            });
        }
        error
    }

    /// Reads the reply, streamed or complete.
    fn read_reply(
        &self,
        request: &ModelRequest,
        mut exchange: HttpExchange<'_>,
        head: &ResponseHead,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<ModelReply, AttemptError> {
        let mut reading = ReplyReader {
            protocol: self.protocol.as_ref(),
            format: ReplyBodyFormat::Unknown,
            builder: ReplyBuilder::default(),
        };
        let outcome = loop {
            match exchange.next() {
                Ok(Some(bytes)) => match reading.push(&bytes, on_text) {
                    Ok(()) if reading.builder.saw_end => break Ok(()),
                    Ok(()) => {}
                    Err(error) => break Err(error),
                },
                Ok(None) => break reading.finish(on_text),
                Err(error) => break Err(ReplyError::Failed(exchange_error(error))),
            }
        };
        let draft = reading.builder;
        let begun = !draft.text.is_empty() || !draft.calls.is_empty();
        let finished = draft.build(request, &self.model, self.price.as_ref());
        match outcome {
            Ok(()) => {
                exchange.drain();
                Ok(finished)
            }
            Err(error) => {
                let mut error = to_attempt_error(error, head);
                error.partial = begun.then(|| Box::new(finished));
                Err(error)
            }
        }
    }
}

/// Format of a response body, detected from its first byte because content types are often wrong.
enum ReplyBodyFormat {
    Unknown,
    Stream(SseParser),
    Unchanged(Vec<u8>),
}

struct ReplyReader<'a> {
    protocol: &'a dyn WireProtocol,
    format: ReplyBodyFormat,
    builder: ReplyBuilder,
}

impl ReplyReader<'_> {
    fn push(&mut self, bytes: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<(), ReplyError> {
        if matches!(self.format, ReplyBodyFormat::Unknown) {
            let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
            self.format = match first {
                None => return Ok(()),
                Some(b'{') => ReplyBodyFormat::Unchanged(Vec::new()),
                // `data`, `event`, `id`, `retry`, a comment, or a UTF-8 byte order mark.
                Some(b'd' | b'e' | b'i' | b'r' | b':' | 0xef) => {
                    ReplyBodyFormat::Stream(SseParser::default())
                }
                Some(_) => {
                    let text = quote(&String::from_utf8_lossy(bytes));
                    return Err(ReplyError::UnexpectedShape(format!("neither a stream nor JSON: {text}")));
                }
            };
        }
        match &mut self.format {
            ReplyBodyFormat::Unchanged(buffer) => buffer.extend_from_slice(bytes),
            ReplyBodyFormat::Stream(sse) => {
                let mut events = Vec::new();
                let read = sse.push(bytes, &mut events);
                self.handle_events(&events, on_text)?;
                read.map_err(sse_error)?;
            }
            ReplyBodyFormat::Unknown => {}
        }
        Ok(())
    }

    /// Handles the end of the body.
    fn finish(&mut self, on_text: &mut dyn FnMut(&str)) -> Result<(), ReplyError> {
        match std::mem::replace(&mut self.format, ReplyBodyFormat::Unknown) {
            ReplyBodyFormat::Unknown => Err(truncated_error("the response is empty")),
            ReplyBodyFormat::Unchanged(bytes) => {
                let answer: Value = serde_json::from_slice(&bytes).map_err(|error| {
                    if error.is_eof() {
                        truncated_error("the response was truncated")
                    } else {
                        ReplyError::NotJson(error.to_string())
                    }
                })?;
                self.protocol.handle_document(&answer, &mut self.builder, on_text)
            }
            ReplyBodyFormat::Stream(mut sse) => {
                let mut events = Vec::new();
                sse.finish(&mut events).map_err(sse_error)?;
                let handled = self.handle_events(&events, on_text);
                // Some endpoints send a finish reason but no end marker.
                match handled {
                    Ok(()) if self.builder.saw_end || self.builder.stop.is_some() => Ok(()),
                    Ok(()) | Err(ReplyError::NotJson(_)) => {
                        Err(truncated_error("the stream ended before its end marker"))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    fn handle_events(
        &mut self,
        events: &[SseEvent],
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), ReplyError> {
        for event in events {
            self.protocol.handle_event(&event.name, &event.data, &mut self.builder, on_text)?;
            if self.builder.saw_end {
                break;
            }
        }
        Ok(())
    }
}

fn truncated_error(what: &str) -> ReplyError {
    ReplyError::Failed(AttemptError::new(ProviderErrorCode::Truncated, Retryability::AfterPartial, what))
}

fn sse_error(error: SseError) -> ReplyError {
    match error {
        SseError::TooLong => ReplyError::UnexpectedShape("an event of the stream is too long".to_owned()),
        SseError::NotUtf8 => ReplyError::NotJson("the stream is not UTF-8".to_owned()),
    }
}

fn to_attempt_error(error: ReplyError, head: &ResponseHead) -> AttemptError {
    match error {
        ReplyError::Failed(error) => error,
        // It may be a transmission error, so a retry may help.
        ReplyError::NotJson(error) => AttemptError::new(
            ProviderErrorCode::Malformed,
            Retryability::AfterPartial,
            format!("the response contains invalid JSON: {error}"),
        ),
        ReplyError::UnexpectedShape(what) => {
            let declared = quote(head.header("content-type").unwrap_or("no content type"));
            AttemptError::new(
                ProviderErrorCode::Malformed,
                Retryability::Never,
                format!("unexpected response ({declared}): {what}"),
            )
        }
    }
}

fn exchange_error(error: ExchangeError) -> AttemptError {
    match error {
        ExchangeError::Cancelled => cancelled_error(),
        ExchangeError::Deadline => deadline_error(),
        ExchangeError::IdleTimeout(timeout) => AttemptError::new(
            ProviderErrorCode::Timeout,
            Retryability::AfterPartial,
            format!("no data for {} ms", timeout.as_millis()),
        ),
        ExchangeError::Unreachable(why) => {
            AttemptError::new(ProviderErrorCode::Unreachable, Retryability::Later, why)
        }
        ExchangeError::Truncated(why) => AttemptError::new(
            ProviderErrorCode::Truncated,
            Retryability::AfterPartial,
            format!("the response was truncated: {why}"),
        ),
        ExchangeError::Permanent(why) => {
            AttemptError::new(ProviderErrorCode::Unreachable, Retryability::Never, why)
        }
        ExchangeError::TooLarge => {
            AttemptError::new(ProviderErrorCode::Malformed, Retryability::Never, "the response is too large")
        }
    }
}

#[cfg(test)]
#[path = "http_provider_tests.rs"]
mod tests;

/// Body of an error response, up to a limit.
fn read_error_body(exchange: &mut HttpExchange<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = exchange.next() {
        body.extend_from_slice(&bytes);
        if body.len() > MAX_ERROR_BYTES {
            body.truncate(MAX_ERROR_BYTES);
            break;
        }
    }
    body
}
