//! Error of a single attempt, and whether a retry may help.

use super::limits::MAX_QUOTE_CHARS;
use super::message::ModelReply;
use super::provider_error::{ProviderError, ProviderErrorCode};
use serde_json::Value;
use std::time::Duration;

/// Whether a retry may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retryability {
    /// It would fail again.
    Never,
    /// It may succeed later.
    Later,
    /// It may succeed, but part of the reply was received and would be repeated.
    AfterPartial,
}

/// Error of a single attempt.
#[derive(Debug, Clone)]
pub(super) struct AttemptError {
    pub(super) code: ProviderErrorCode,
    pub(super) message: String,
    pub(super) help: Option<String>,
    pub(super) status: Option<u16>,
    pub(super) retryability: Retryability,
    /// Delay requested by the provider.
    pub(super) retry_after: Option<Duration>,
    /// Part of the reply received before the failure.
    pub(super) partial: Option<Box<ModelReply>>,
}

impl AttemptError {
    pub(super) fn new(
        code: ProviderErrorCode,
        retryability: Retryability,
        message: impl Into<String>,
    ) -> Self {
        AttemptError {
            code,
            message: message.into(),
            help: None,
            status: None,
            retryability,
            retry_after: None,
            partial: None,
        }
    }

    pub(super) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Error for an HTTP error status.
    pub(super) fn from_status(status: u16, said: &str, wait: Option<Duration>) -> Self {
        let (code, again) = match status {
            401 | 403 => (ProviderErrorCode::Auth, Retryability::Never),
            408 => (ProviderErrorCode::Timeout, Retryability::Later),
            429 => (ProviderErrorCode::RateLimited, Retryability::Later),
            500 | 502 | 503 | 504 | 529 => (ProviderErrorCode::Overloaded, Retryability::Later),
            500.. => (ProviderErrorCode::Overloaded, Retryability::Never),
            _ => (ProviderErrorCode::BadRequest, Retryability::Never),
        };
        let mut error =
            AttemptError::new(code, again, format!("the provider answered {status}{}", colon_prefixed(said)));
        error.status = Some(status);
        error.retry_after = wait;
        error.help = match status {
            300..=399 => Some("set `base_url` to the redirect target".to_owned()),
            404 => Some("check `base_url`, `path` and `model`: the provider does not know them".to_owned()),
            413 => Some("shorten the conversation or the tool outputs".to_owned()),
            _ => None,
        };
        error
    }

    /// Error for an error event in a stream or document.
    pub(super) fn from_error_type(kind: &str, message: &str) -> Self {
        let (code, again) = match kind {
            "authentication_error" | "permission_error" | "invalid_api_key" => {
                (ProviderErrorCode::Auth, Retryability::Never)
            }
            "rate_limit_error" | "rate_limit_exceeded" => {
                (ProviderErrorCode::RateLimited, Retryability::AfterPartial)
            }
            "invalid_request_error" | "not_found_error" | "request_too_large" => {
                (ProviderErrorCode::BadRequest, Retryability::Never)
            }
            "timeout_error" => (ProviderErrorCode::Timeout, Retryability::AfterPartial),
            _ => (ProviderErrorCode::Overloaded, Retryability::AfterPartial),
        };
        let kind = if kind.is_empty() { "an error" } else { kind };
        AttemptError::new(code, again, format!("the provider reported {kind}{}", colon_prefixed(message)))
    }

    /// Converts it to the error for the caller.
    pub(super) fn into_error(self, provider: &str, attempts: u32) -> ProviderError {
        let mut error = ProviderError::new(self.code, provider, self.message);
        if let Some(advice) = self.help {
            error.help = advice;
        }
        error.status = self.status;
        error.attempts = attempts;
        error.retry_after_ms =
            self.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        error.partial = self.partial;
        error
    }
}

fn colon_prefixed(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

/// Kind and message of an error body in any known format.
pub(super) fn parse_error_body(body: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(body);
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        // An HTML page is useless in a terminal.
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

/// Start of a text from the other side, as one line.
pub(super) fn quote(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut quoted: String = line.chars().filter(|c| !c.is_control()).take(MAX_QUOTE_CHARS).collect();
    if line.chars().count() > MAX_QUOTE_CHARS {
        quoted.push('…');
    }
    quoted
}
