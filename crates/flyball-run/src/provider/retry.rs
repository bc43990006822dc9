//! Trying again: how long to wait, when to give up, and who is told.

use super::error::{Code, ProviderError};
use super::fault::{Again, Fault};
use super::limits::{ATTEMPTS, BASE, CAP, DEFAULT_DEADLINE, MAX_ATTEMPTS};
use super::message::{Reply, Request};
use super::units::Millis;
use crate::process::Cancel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// How often and how fast a failed ask is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// How often it is tried, the first time included; 1 is no second try.
    pub attempts: u32,
    /// The first wait is a random time up to this, and each further one up to twice as long.
    pub base: Millis,
    /// No wait of our own is longer. A provider that asks for more gets it, if the turn has the time.
    pub cap: Millis,
    /// Whether an answer that broke off is asked for again.
    pub broken_off: BrokenOff,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            attempts: ATTEMPTS,
            base: Millis(BASE),
            cap: Millis(CAP),
            broken_off: BrokenOff::default(),
        }
    }
}

impl RetryPolicy {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.attempts {
            1..=MAX_ATTEMPTS => Ok(()),
            _ => Err(format!("`retry.attempts` is from 1 to {MAX_ATTEMPTS}")),
        }
    }
}

/// Whether an answer that broke off is asked for again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrokenOff {
    /// If nothing of it was heard yet; else it is reported with what had come.
    #[default]
    RetryIfSilent,
    /// Always; whoever listens hears of the retry and forgets what was said.
    Retry,
    /// Never.
    Report,
}

/// Another try is about to be made, after a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Retry {
    /// Which provider, by its name in the file.
    pub provider: String,
    /// The try that failed, counted from 1.
    pub attempt: u32,
    /// How many there may be.
    pub attempts: u32,
    /// Why it failed: the code of the error that it would have been.
    pub code: &'static str,
    /// What happened, in one line, without secrets.
    pub what: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// How long the wait is, in milliseconds.
    pub wait_ms: u64,
    /// Text was heard that is now void.
    pub heard: bool,
}

/// What is told while a model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The next piece of text.
    Text(&'a str),
    /// Another try is about to be made.
    Retry(&'a Retry),
}

/// One try.
#[derive(Debug, Clone, Copy)]
pub(super) struct Try {
    /// Which one, counted from 1.
    pub(super) number: u32,
    /// When it must be over.
    pub(super) until: Instant,
}

impl Try {
    /// What is left of the time.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// A function that makes one try and passes text on.
pub(super) type Attempt<'a> = dyn FnMut(Try, &mut dyn FnMut(&str)) -> Result<Reply, Fault> + 'a;

/// Tries until there is an answer, no hope, no time, or no more tries.
pub(super) fn persist(
    provider: &str,
    policy: &RetryPolicy,
    request: &Request,
    cancel: &Cancel,
    watch: &mut dyn FnMut(Progress<'_>),
    attempt: &mut Attempt<'_>,
) -> Result<Reply, ProviderError> {
    let began = Instant::now();
    let deadline = request.deadline.unwrap_or(DEFAULT_DEADLINE);
    // A deadline too far away to be expressed is as good as the default.
    let until = began.checked_add(deadline).unwrap_or(began + DEFAULT_DEADLINE);
    let mut number = 1;
    let mut before: Option<String> = None;
    loop {
        if cancel.is_cancelled() {
            return Err(cancelled().into_error(provider, number - 1));
        }
        let this = Try { number, until };
        let mut heard = false;
        let mut on_text = |text: &str| {
            heard = true;
            watch(Progress::Text(text));
        };
        let tried = if this.left().is_zero() { Err(out_of_time()) } else { attempt(this, &mut on_text) };
        let fault = match tried {
            Ok(reply) => return Ok(reply),
            Err(fault) => after(fault, before.as_deref()),
        };
        if number >= policy.attempts || !hopeful(policy, &fault, heard) {
            return Err(fault.into_error(provider, number));
        }
        let left = this.left();
        let Some(wait) = pause(policy, number, fault.wait, left, random()) else {
            return Err(too_late(fault, left).into_error(provider, number));
        };
        watch(Progress::Retry(&told(provider, policy, number, &fault, wait, heard)));
        if cancel.wait(wait) {
            return Err(cancelled().into_error(provider, number));
        }
        before = Some(fault.what);
        number += 1;
    }
}

/// Somebody does not want the answer any more.
pub(super) fn cancelled() -> Fault {
    Fault::new(Code::Cancelled, Again::Never, "it was cancelled")
}

/// The turn's budget is used up.
pub(super) fn out_of_time() -> Fault {
    Fault::new(Code::Timeout, Again::Never, "the turn has no time left")
}

fn hopeful(policy: &RetryPolicy, fault: &Fault, heard: bool) -> bool {
    match (fault.again, policy.broken_off) {
        (Again::Never, _) | (Again::Midway, BrokenOff::Report) => false,
        (Again::Later, _) | (Again::Midway, BrokenOff::Retry) => true,
        (Again::Midway, BrokenOff::RetryIfSilent) => !heard,
    }
}

/// How long to wait before the next try; nothing if the time does not allow it.
///
/// Full jitter: anything from nothing to twice what the last wait could be, so that many who failed together do not
/// come back together. What the provider asks for is honoured, and the jitter added.
fn pause(
    policy: &RetryPolicy,
    tried: u32,
    asked: Option<Duration>,
    left: Duration,
    random: u64,
) -> Option<Duration> {
    let doubled = policy.base.0.saturating_mul(1 << tried.saturating_sub(1).min(20));
    let window = match asked {
        Some(_) => policy.base.0,
        // Our own wait must leave time for the try that follows.
        None => doubled.min(policy.cap.0).min(left / 2),
    };
    let window = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
    let jitter = Duration::from_micros(random.checked_rem(window.saturating_add(1)).unwrap_or(0));
    let wait = match asked {
        // The jitter gives way if the time is short; what was asked for does not.
        Some(asked) => asked.saturating_add(jitter.min(left.saturating_sub(asked) / 2)),
        None => jitter,
    };
    (wait < left).then_some(wait)
}

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

fn too_late(mut fault: Fault, left: Duration) -> Fault {
    let asked = fault.wait.map(|wait| format!(" and asks to wait {} ms", wait.as_millis()));
    let asked = asked.unwrap_or_default();
    fault.what = format!("{}{asked}, but only {} ms of the turn are left", fault.what, left.as_millis());
    fault
}

/// A try that ran out of time says why there had to be one.
fn after(mut fault: Fault, before: Option<&str>) -> Fault {
    if let Some(before) = before.filter(|_| fault.code == Code::Timeout && fault.again == Again::Never) {
        fault.what = format!("{}; before that, {before}", fault.what);
    }
    fault
}

fn told(
    provider: &str,
    policy: &RetryPolicy,
    number: u32,
    fault: &Fault,
    wait: Duration,
    heard: bool,
) -> Retry {
    Retry {
        provider: provider.to_owned(),
        attempt: number,
        attempts: policy.attempts,
        code: fault.code.as_str(),
        what: fault.what.clone(),
        status: fault.status,
        wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        heard,
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
