//! Why one try failed, and whether another may help.

use super::error::{Code, ProviderError};
use super::limits::QUOTE_CHARS;
use super::message::Reply;
use serde_json::Value;
use std::time::Duration;

/// Whether another try may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// It would fail in the same way.
    Never,
    /// Later, it may.
    Later,
    /// It may; but the answer had begun, so what was heard would be heard again.
    Midway,
}

/// Why one try failed.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) code: Code,
    pub(super) what: String,
    pub(super) advice: Option<String>,
    pub(super) status: Option<u16>,
    pub(super) again: Again,
    /// How long the provider asks to wait.
    pub(super) wait: Option<Duration>,
    /// What had come before it failed.
    pub(super) partial: Option<Box<Reply>>,
}

impl Fault {
    pub(super) fn new(code: Code, again: Again, what: impl Into<String>) -> Self {
        Fault { code, what: what.into(), advice: None, status: None, again, wait: None, partial: None }
    }

    pub(super) fn advised(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// What an answer with an error status means.
    pub(super) fn of_status(status: u16, said: &str, wait: Option<Duration>) -> Self {
        let (code, again) = match status {
            401 | 403 => (Code::Auth, Again::Never),
            408 => (Code::Timeout, Again::Later),
            429 => (Code::RateLimited, Again::Later),
            500 | 502 | 503 | 504 | 529 => (Code::Overloaded, Again::Later),
            500.. => (Code::Overloaded, Again::Never),
            _ => (Code::BadRequest, Again::Never),
        };
        let mut fault = Fault::new(code, again, format!("the provider answered {status}{}", said_so(said)));
        fault.status = Some(status);
        fault.wait = wait;
        fault.advice = match status {
            300..=399 => Some("name the address that it redirects to as `base_url`".to_owned()),
            404 => Some("check `base_url`, `path` and `model`: the provider knows no such thing".to_owned()),
            413 => Some("send less: shorten the conversation or what the tools return".to_owned()),
            _ => None,
        };
        fault
    }

    /// What an error in the words of a protocol means, when it comes in mid-stream.
    pub(super) fn of_kind(kind: &str, message: &str) -> Self {
        let (code, again) = match kind {
            "authentication_error" | "permission_error" | "invalid_api_key" => (Code::Auth, Again::Never),
            "rate_limit_error" | "rate_limit_exceeded" => (Code::RateLimited, Again::Midway),
            "invalid_request_error" | "not_found_error" | "request_too_large" => {
                (Code::BadRequest, Again::Never)
            }
            "timeout_error" => (Code::Timeout, Again::Midway),
            _ => (Code::Overloaded, Again::Midway),
        };
        let kind = if kind.is_empty() { "an error" } else { kind };
        Fault::new(code, again, format!("the provider broke off with {kind}{}", said_so(message)))
    }

    /// The error for the caller.
    pub(super) fn into_error(self, provider: &str, attempts: u32) -> ProviderError {
        let mut error = ProviderError::new(self.code, provider, self.what);
        if let Some(advice) = self.advice {
            error.advice = advice;
        }
        error.status = self.status;
        error.attempts = attempts;
        error.retry_after_ms = self.wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        error.partial = self.partial;
        error
    }
}

fn said_so(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

/// What an error's body says: the kind and the message, whichever way it is written.
pub(super) fn read_error(body: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(body);
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        // A page of HTML says nothing to a person who reads a terminal.
        let plain = if text.trim_start().starts_with('<') { "" } else { text.as_ref() };
        return (String::new(), quote(plain));
    };
    let error = value.get("error").unwrap_or(&value);
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = [text("code"), text("type")].into_iter().find(|word| !word.is_empty()).unwrap_or_default();
    let message = error.as_str().into_iter().chain([text("message"), text("detail")]);
    let message = message.into_iter().find(|message| !message.is_empty()).unwrap_or_default();
    (kind.to_owned(), quote(message))
}

/// The beginning of what the other side said, in one line.
pub(super) fn quote(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut quoted: String = line.chars().filter(|c| !c.is_control()).take(QUOTE_CHARS).collect();
    if line.chars().count() > QUOTE_CHARS {
        quoted.push('…');
    }
    quoted
}
