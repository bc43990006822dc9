//! Retries: backoff, limits and notifications.

use super::attempt_error::{AttemptError, Retryability};
use super::limits::{
    DEFAULT_ATTEMPTS, DEFAULT_BACKOFF_BASE, DEFAULT_BACKOFF_CAP, DEFAULT_DEADLINE, MAX_ATTEMPTS,
};
use super::message::{ModelReply, ModelRequest};
use super::provider_error::{ProviderError, ProviderErrorCode};
use super::units::ProviderDuration;
use crate::process::CancelToken;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Retry policy of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderRetryPolicy {
    /// Number of attempts, including the first; 1 disables retries.
    pub attempts: u32,
    /// The first delay is random up to this; the upper bound doubles each time.
    pub base: ProviderDuration,
    /// Maximum delay. A longer delay requested by the provider is honored if the turn has the time.
    pub cap: ProviderDuration,
    /// Whether to retry a truncated reply.
    #[serde(rename = "broken_off")]
    pub on_truncated: OnTruncated,
}

impl Default for ProviderRetryPolicy {
    fn default() -> Self {
        ProviderRetryPolicy {
            attempts: DEFAULT_ATTEMPTS,
            base: ProviderDuration(DEFAULT_BACKOFF_BASE),
            cap: ProviderDuration(DEFAULT_BACKOFF_CAP),
            on_truncated: OnTruncated::default(),
        }
    }
}

impl ProviderRetryPolicy {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.attempts {
            1..=MAX_ATTEMPTS => Ok(()),
            _ => Err(format!("`retry.attempts` must be between 1 and {MAX_ATTEMPTS}")),
        }
    }
}

/// Whether to retry a truncated reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTruncated {
    /// Only if no text was received yet; otherwise report it with the partial text.
    #[default]
    RetryIfSilent,
    /// Always; listeners are notified and must discard the partial text.
    Retry,
    /// Never.
    Report,
}

/// Notice of an upcoming retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RetryNotice {
    /// Provider name in the workflow file.
    pub provider: String,
    /// Number of the failed attempt, starting at 1.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub attempts: u32,
    /// Error code of the failed attempt.
    pub code: &'static str,
    /// The problem, in one line without secrets.
    #[serde(rename = "what")]
    pub message: String,
    /// HTTP status, if any.
    pub status: Option<u16>,
    /// Delay in milliseconds.
    pub wait_ms: u64,
    /// Whether text was received that is now discarded.
    #[serde(rename = "heard")]
    pub text_discarded: bool,
}

/// Progress of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderProgress<'a> {
    /// Next chunk of text.
    Text(&'a str),
    /// A retry is about to start.
    Retry(&'a RetryNotice),
}

/// An attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptInfo {
    /// Attempt number, starting at 1.
    pub(super) number: u32,
    /// Deadline of the attempt.
    pub(super) deadline: Instant,
}

impl AttemptInfo {
    /// Remaining time.
    pub(super) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Function that makes one attempt and forwards text.
pub(super) type AttemptFn<'a> =
    dyn FnMut(AttemptInfo, &mut dyn FnMut(&str)) -> Result<ModelReply, AttemptError> + 'a;

/// Retries until success, a permanent error, the deadline or the attempt limit.
pub(super) fn with_retries(
    provider: &str,
    policy: &ProviderRetryPolicy,
    request: &ModelRequest,
    cancel: &CancelToken,
    watch: &mut dyn FnMut(ProviderProgress<'_>),
    attempt: &mut AttemptFn<'_>,
) -> Result<ModelReply, ProviderError> {
    let began = Instant::now();
    let deadline = request.deadline.unwrap_or(DEFAULT_DEADLINE);
    // A deadline too far away to represent falls back to the default.
    let until = began.checked_add(deadline).unwrap_or(began + DEFAULT_DEADLINE);
    let mut number = 1;
    let mut before: Option<String> = None;
    loop {
        if cancel.is_cancelled() {
            return Err(cancelled_error().into_error(provider, number - 1));
        }
        let this = AttemptInfo { number, deadline: until };
        let mut received = false;
        let mut on_text = |text: &str| {
            received = true;
            watch(ProviderProgress::Text(text));
        };
        let tried =
            if this.remaining().is_zero() { Err(deadline_error()) } else { attempt(this, &mut on_text) };
        let error = match tried {
            Ok(reply) => return Ok(reply),
            Err(error) => with_previous_error(error, before.as_deref()),
        };
        if number >= policy.attempts || !should_retry(policy, &error, received) {
            return Err(error.into_error(provider, number));
        }
        let left = this.remaining();
        let Some(wait) = backoff_delay(policy, number, error.retry_after, left, random_u64()) else {
            return Err(with_remaining_time(error, left).into_error(provider, number));
        };
        watch(ProviderProgress::Retry(&retry_notice(provider, policy, number, &error, wait, received)));
        if cancel.wait_timeout(wait) {
            return Err(cancelled_error().into_error(provider, number));
        }
        before = Some(error.message);
        number += 1;
    }
}

/// Error for a cancelled request.
pub(super) fn cancelled_error() -> AttemptError {
    AttemptError::new(ProviderErrorCode::Cancelled, Retryability::Never, "cancelled")
}

/// Error for an exhausted time budget.
pub(super) fn deadline_error() -> AttemptError {
    AttemptError::new(ProviderErrorCode::Timeout, Retryability::Never, "the turn has no time left")
}

fn should_retry(policy: &ProviderRetryPolicy, error: &AttemptError, received: bool) -> bool {
    match (error.retryability, policy.on_truncated) {
        (Retryability::Never, _) | (Retryability::AfterPartial, OnTruncated::Report) => false,
        (Retryability::Later, _) | (Retryability::AfterPartial, OnTruncated::Retry) => true,
        (Retryability::AfterPartial, OnTruncated::RetryIfSilent) => !received,
    }
}

/// Delay before the next attempt; `None` if there is not enough time.
///
/// Full jitter: random between zero and an upper bound that doubles with each attempt, so that clients that failed
/// together do not retry together. A delay requested by the provider is honored, plus jitter.
fn backoff_delay(
    policy: &ProviderRetryPolicy,
    tried: u32,
    asked: Option<Duration>,
    left: Duration,
    random: u64,
) -> Option<Duration> {
    let doubled = policy.base.0.saturating_mul(1 << tried.saturating_sub(1).min(20));
    let window = match asked {
        Some(_) => policy.base.0,
        // Leave time for the next attempt.
        None => doubled.min(policy.cap.0).min(left / 2),
    };
    let window = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
    let jitter = Duration::from_micros(random.checked_rem(window.saturating_add(1)).unwrap_or(0));
    let wait = match asked {
        // Shorten the jitter if time is short, but not the requested delay.
        Some(asked) => asked.saturating_add(jitter.min(left.saturating_sub(asked) / 2)),
        None => jitter,
    };
    (wait < left).then_some(wait)
}

fn random_u64() -> u64 {
    RandomState::new().hash_one(0)
}

fn with_remaining_time(mut error: AttemptError, left: Duration) -> AttemptError {
    let asked = error.retry_after.map(|wait| format!(" and requests a delay of {} ms", wait.as_millis()));
    let asked = asked.unwrap_or_default();
    error.message = format!("{}{asked}, but the turn has only {} ms left", error.message, left.as_millis());
    error
}

/// Adds the previous error to a timeout, since it caused the retry.
fn with_previous_error(mut error: AttemptError, before: Option<&str>) -> AttemptError {
    if let Some(before) = before
        .filter(|_| error.code == ProviderErrorCode::Timeout && error.retryability == Retryability::Never)
    {
        error.message = format!("{}; previous attempt: {before}", error.message);
    }
    error
}

fn retry_notice(
    provider: &str,
    policy: &ProviderRetryPolicy,
    number: u32,
    error: &AttemptError,
    wait: Duration,
    received: bool,
) -> RetryNotice {
    RetryNotice {
        provider: provider.to_owned(),
        attempt: number,
        attempts: policy.attempts,
        code: error.code.as_str(),
        message: error.message.clone(),
        status: error.status,
        wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        text_discarded: received,
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
