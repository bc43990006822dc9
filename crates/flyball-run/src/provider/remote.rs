//! A provider behind HTTP: one try, from the request to the reply.

use super::draft::Draft;
use super::error::{Code, ProviderError};
use super::fault::{Again, Fault, quote, read_error};
use super::http::{Agents, Exchange, Head, Lost, Patience, Post};
use super::limits::MAX_ERROR_BYTES;
use super::message::{Reply, Request};
use super::price::Price;
use super::retry::{Progress, RetryPolicy, Try, cancelled, out_of_time, persist};
use super::secret::Key;
use super::sse::{Bad, Event, Sse};
use super::{Provider, retry_after};
use crate::process::Cancel;
use serde_json::{Map, Value};
use std::sync::{Mutex, PoisonError};

/// How often one try adjusts to what the endpoint does not know.
const ADJUSTMENTS: usize = 3;

/// What differs from one protocol to the other.
pub(super) trait Protocol: Send + Sync + std::fmt::Debug {
    /// The headers, the key included.
    fn headers(&self, key: &Key) -> Vec<(String, String)>;

    /// What is sent, apart from the model and what the file adds.
    fn body(
        &self,
        url: &str,
        adjusted: &Adjusted,
        request: &Request,
        max_tokens: Option<u64>,
    ) -> Map<String, Value>;

    /// Takes the next event of a stream.
    fn event(
        &self,
        name: &str,
        data: &str,
        draft: &mut Draft,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), Trouble>;

    /// Takes an answer that came at once.
    fn whole(&self, answer: &Value, draft: &mut Draft, on_text: &mut dyn FnMut(&str)) -> Result<(), Trouble>;

    /// What to do otherwise when the endpoint does not know a parameter.
    fn adjust(&self, _adjusted: Adjusted, _param: &str, _message: &str) -> Option<Adjusted> {
        None
    }
}

/// What an endpoint was found to understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Adjusted {
    /// It streams.
    pub(super) stream: bool,
    /// It takes `stream_options`.
    pub(super) stream_options: bool,
    /// It wants the other name for the most tokens.
    pub(super) other_max_tokens: bool,
}

/// What is wrong with an answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It is not JSON.
    NotJson(String),
    /// It is JSON of another shape.
    Shape(String),
    /// It is an error.
    Reported(Fault),
}

/// An error in place of an answer, or in mid-stream.
pub(super) fn reported(answer: &Value) -> Result<(), Trouble> {
    match answer.get("error") {
        Some(error) if !error.is_null() => {
            let (kind, message) = read_error(answer.to_string().as_bytes());
            Err(Trouble::Reported(Fault::of_kind(&kind, &message)))
        }
        _ => Ok(()),
    }
}

/// A provider behind HTTP.
pub(super) struct Remote {
    pub(super) name: String,
    pub(super) model: String,
    pub(super) url: String,
    pub(super) protocol: Box<dyn Protocol>,
    pub(super) key: Key,
    /// Where the key comes from, for messages.
    pub(super) key_env: String,
    /// The header for the key, if it is another than the protocol's.
    pub(super) key_header: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    /// What the file adds to the body.
    pub(super) extra: Map<String, Value>,
    pub(super) max_tokens: Option<u64>,
    pub(super) price: Option<Price>,
    pub(super) retry: RetryPolicy,
    pub(super) patience: Patience,
    pub(super) agents: Agents,
    pub(super) adjusted: Mutex<Adjusted>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Remote");
        shown.field("name", &self.name).field("url", &self.url).field("model", &self.model);
        shown.field("protocol", &self.protocol).field("key", &self.key).finish_non_exhaustive()
    }
}

impl Provider for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask_watched(
        &self,
        request: &Request,
        cancel: &Cancel,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Reply, ProviderError> {
        let mut attempt = |this: Try, on_text: &mut dyn FnMut(&str)| {
            self.attempt(request, cancel, this, on_text).map_err(|mut fault| {
                fault.what = self.key.scrub(&fault.what);
                fault
            })
        };
        persist(&self.name, &self.retry, request, cancel, watch, &mut attempt)
    }
}

impl Remote {
    fn attempt(
        &self,
        request: &Request,
        cancel: &Cancel,
        this: Try,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Reply, Fault> {
        let mut left = ADJUSTMENTS;
        loop {
            let adjusted = *self.adjusted.lock().unwrap_or_else(PoisonError::into_inner);
            let post = self.post(&adjusted, request)?;
            let mut exchange =
                Exchange::start(&self.agents, post, cancel, this, self.patience).map_err(fault)?;
            let head = exchange.head().map_err(fault)?;
            if (200..300).contains(&head.status) {
                return self.read(request, exchange, &head, on_text);
            }
            let body = error_body(&mut exchange);
            match self.better(adjusted, head.status, &body).filter(|_| left > 0) {
                Some(better) => *self.adjusted.lock().unwrap_or_else(PoisonError::into_inner) = better,
                None => return Err(self.refused(&head, &body)),
            }
            left -= 1;
        }
    }

    fn post(&self, adjusted: &Adjusted, request: &Request) -> Result<Post<'_>, Fault> {
        let mut body =
            self.protocol.body(&self.url, adjusted, request, request.max_tokens.or(self.max_tokens));
        if body.get("messages").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let what = "the conversation is empty: there is nothing to answer";
            return Err(Fault::new(Code::BadRequest, Again::Never, what).advised("give the node a prompt"));
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
                headers.extend(self.protocol.headers(&Key::default()));
                headers.extend(self.key.reveal().map(|key| (name.clone(), key.to_owned())));
            }
            None => headers.extend(self.protocol.headers(&self.key)),
        }
        Ok(Post { url: &self.url, headers, body: Value::Object(body).to_string() })
    }

    /// Another way to ask, if the endpoint does not know a parameter that it can do without.
    fn better(&self, adjusted: Adjusted, status: u16, body: &[u8]) -> Option<Adjusted> {
        if status != 400 && status != 422 {
            return None;
        }
        let param = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let param = param.pointer("/error/param").and_then(Value::as_str).unwrap_or_default();
        self.protocol.adjust(adjusted, param, &String::from_utf8_lossy(body).to_lowercase())
    }

    /// What an answer with an error status means.
    fn refused(&self, head: &Head, body: &[u8]) -> Fault {
        let (kind, message) = read_error(body);
        let message = match head.header("location") {
            Some(location) if (300..400).contains(&head.status) => format!("go to {}", quote(location)),
            _ => message,
        };
        let mut fault = Fault::of_status(head.status, &message, retry_after::read(|name| head.header(name)));
        if kind == "insufficient_quota" {
            fault.again = Again::Never;
            fault.advice = Some("the account has no credit left: look at its plan and billing".to_owned());
        }
        if fault.code == Code::Auth {
            let name = &self.key_env;
            fault.advice = Some(if self.key.is_none() {
                format!("no key was sent: set the environment variable {name}")
            } else {
                format!("check the key in the environment variable {name}, and what it may be used for")
            });
        }
        fault
    }

    /// Reads the answer, streamed or whole.
    fn read(
        &self,
        request: &Request,
        mut exchange: Exchange<'_>,
        head: &Head,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Reply, Fault> {
        let mut reading =
            Reading { protocol: self.protocol.as_ref(), shape: Shape::Unknown, draft: Draft::default() };
        let outcome = loop {
            match exchange.next() {
                Ok(Some(bytes)) => match reading.take(&bytes, on_text) {
                    Ok(()) if reading.draft.ended => break Ok(()),
                    Ok(()) => {}
                    Err(trouble) => break Err(trouble),
                },
                Ok(None) => break reading.end(on_text),
                Err(lost) => break Err(Trouble::Reported(fault(lost))),
            }
        };
        let draft = reading.draft;
        let begun = !draft.text.is_empty() || !draft.calls.is_empty();
        let finished = draft.finish(request, &self.model, self.price.as_ref());
        match outcome {
            Ok(()) => {
                exchange.settle();
                Ok(finished)
            }
            Err(trouble) => {
                let mut fault = understood(trouble, head);
                fault.partial = begun.then(|| Box::new(finished));
                Err(fault)
            }
        }
    }
}

/// What kind of answer it is: told by its first sign, because content types are often wrong.
enum Shape {
    Unknown,
    Stream(Sse),
    Whole(Vec<u8>),
}

struct Reading<'a> {
    protocol: &'a dyn Protocol,
    shape: Shape,
    draft: Draft,
}

impl Reading<'_> {
    fn take(&mut self, bytes: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<(), Trouble> {
        if matches!(self.shape, Shape::Unknown) {
            let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
            self.shape = match first {
                None => return Ok(()),
                Some(b'{') => Shape::Whole(Vec::new()),
                // `data`, `event`, `id`, `retry`, a comment, or the mark of UTF-8.
                Some(b'd' | b'e' | b'i' | b'r' | b':' | 0xef) => Shape::Stream(Sse::default()),
                Some(_) => {
                    let text = quote(&String::from_utf8_lossy(bytes));
                    return Err(Trouble::Shape(format!("neither a stream nor JSON: {text}")));
                }
            };
        }
        match &mut self.shape {
            Shape::Whole(so_far) => so_far.extend_from_slice(bytes),
            Shape::Stream(sse) => {
                let mut events = Vec::new();
                let read = sse.push(bytes, &mut events);
                self.handle(&events, on_text)?;
                read.map_err(bad)?;
            }
            Shape::Unknown => {}
        }
        Ok(())
    }

    /// The body has ended.
    fn end(&mut self, on_text: &mut dyn FnMut(&str)) -> Result<(), Trouble> {
        match std::mem::replace(&mut self.shape, Shape::Unknown) {
            Shape::Unknown => Err(broke_off("the answer is empty")),
            Shape::Whole(bytes) => {
                let answer: Value = serde_json::from_slice(&bytes).map_err(|error| {
                    if error.is_eof() {
                        broke_off("the answer broke off")
                    } else {
                        Trouble::NotJson(error.to_string())
                    }
                })?;
                self.protocol.whole(&answer, &mut self.draft, on_text)
            }
            Shape::Stream(mut sse) => {
                let mut events = Vec::new();
                sse.finish(&mut events).map_err(bad)?;
                let handled = self.handle(&events, on_text);
                // Some endpoints say why they stopped and leave the end marker out.
                match handled {
                    Ok(()) if self.draft.ended || self.draft.stop.is_some() => Ok(()),
                    Ok(()) | Err(Trouble::NotJson(_)) => {
                        Err(broke_off("the stream ended before its end marker"))
                    }
                    Err(trouble) => Err(trouble),
                }
            }
        }
    }

    fn handle(&mut self, events: &[Event], on_text: &mut dyn FnMut(&str)) -> Result<(), Trouble> {
        for event in events {
            self.protocol.event(&event.name, &event.data, &mut self.draft, on_text)?;
            if self.draft.ended {
                break;
            }
        }
        Ok(())
    }
}

fn broke_off(what: &str) -> Trouble {
    Trouble::Reported(Fault::new(Code::Truncated, Again::Midway, what))
}

fn bad(bad: Bad) -> Trouble {
    match bad {
        Bad::TooLong => Trouble::Shape("an event of the stream is too long".to_owned()),
        Bad::NotUtf8 => Trouble::NotJson("the stream is not UTF-8".to_owned()),
    }
}

fn understood(trouble: Trouble, head: &Head) -> Fault {
    match trouble {
        Trouble::Reported(fault) => fault,
        // It may be a slip of the line, so another try may help.
        Trouble::NotJson(error) => {
            Fault::new(Code::Malformed, Again::Midway, format!("a part of the answer is not JSON: {error}"))
        }
        Trouble::Shape(what) => {
            let declared = quote(head.header("content-type").unwrap_or("no content type"));
            Fault::new(
                Code::Malformed,
                Again::Never,
                format!("the answer ({declared}) cannot be understood: {what}"),
            )
        }
    }
}

fn fault(lost: Lost) -> Fault {
    match lost {
        Lost::Cancelled => cancelled(),
        Lost::Deadline => out_of_time(),
        Lost::Silent(patience) => {
            Fault::new(Code::Timeout, Again::Midway, format!("nothing came for {} ms", patience.as_millis()))
        }
        Lost::Unreachable(why) => Fault::new(Code::Unreachable, Again::Later, why),
        Lost::Broken(why) => {
            Fault::new(Code::Truncated, Again::Midway, format!("the answer broke off: {why}"))
        }
        Lost::Hopeless(why) => Fault::new(Code::Unreachable, Again::Never, why),
        Lost::TooLarge => Fault::new(Code::Malformed, Again::Never, "the answer is too large"),
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;

/// What there is of an error's body.
fn error_body(exchange: &mut Exchange<'_>) -> Vec<u8> {
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
