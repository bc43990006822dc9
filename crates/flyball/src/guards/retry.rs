//! `retry`: attempts of one operation, with backoff and a breaker (seed 000).
//!
//! `limit` failed attempts may be tried again, each after a longer wait; the next failure opens the breaker. The
//! breaker as a table:
//!
//! | state     | failed                                  | succeeded | time passes            |
//! |-----------|-----------------------------------------|-----------|------------------------|
//! | closed    | count; over the limit: open             | clear     |                        |
//! | open      | refused, with the time that is left     | closed    | cooldown over: half-open |
//! | half-open | first: the probe is let through; its failure opens again, for longer | closed | probe expired: half-open again |
//!
//! All times are event times. The probe expires, because its outcome may never be told. After `trips` openings a
//! person is called.

use super::{Cx, Draft, Guard, Trips};
use crate::confirm::{Text, Texts, language_for};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::fingerprint::Fingerprint;
use crate::limits::OPERATIONS;
use crate::policy::{Backoff, Mode, RetryLimits};
use crate::window::{Keyed, cut};
use serde::{Deserialize, Serialize};

/// The state of one operation's breaker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Breaker {
    #[default]
    Closed,
    /// Until this time nothing is tried.
    Open { until: u64 },
    /// One attempt is under way; after this time it counts as lost.
    Probing { until: u64 },
}

/// One operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Operation {
    attempts: u32,
    breaker: Breaker,
    trips: u32,
    first: u64,
}

/// All operations of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Retry {
    operations: Keyed<Operation, OPERATIONS>,
}

/// What a failed attempt leads to.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Again { attempt: u32, wait_ms: u64 },
    Opened { wait_ms: u64 },
    StillOpen { wait_ms: u64 },
    Probe { wait_ms: u64 },
}

impl Operation {
    fn fail(&mut self, limits: &RetryLimits, limit: u64, now: u64, jitter: Fingerprint) -> Next {
        match self.breaker {
            Breaker::Open { until } if now < until => Next::StillOpen { wait_ms: until - now },
            Breaker::Probing { until } if now < until => self.open(limits, now),
            Breaker::Open { .. } | Breaker::Probing { .. } => {
                self.breaker = Breaker::Probing { until: now.saturating_add(limits.probe_ms) };
                Next::Probe { wait_ms: 0 }
            }
            Breaker::Closed if u64::from(self.attempts) >= limit => self.open(limits, now),
            Breaker::Closed => {
                self.attempts = self.attempts.saturating_add(1);
                Next::Again { attempt: self.attempts, wait_ms: backoff(limits, self.attempts, jitter) }
            }
        }
    }

    /// Opens the breaker, each time for longer, up to the cap.
    fn open(&mut self, limits: &RetryLimits, now: u64) -> Next {
        let longer = 1_u64.checked_shl(self.trips.min(20)).unwrap_or(1);
        let wait_ms =
            limits.cooldown_ms.saturating_mul(longer).min(limits.max_cooldown_ms.max(limits.cooldown_ms));
        self.trips = self.trips.saturating_add(1);
        self.attempts = 0;
        self.breaker = Breaker::Open { until: now.saturating_add(wait_ms) };
        Next::Opened { wait_ms }
    }
}

/// The wait before an attempt; the jitter comes from the session and is the same on every replay.
fn backoff(limits: &RetryLimits, attempt: u32, jitter: Fingerprint) -> u64 {
    let attempt = attempt.max(1);
    let factor = match limits.backoff {
        Backoff::Exponential => 1_u64 << (attempt - 1).min(30),
        Backoff::Linear => u64::from(attempt),
        Backoff::Fixed => 1,
    };
    let plain = limits.base_ms.saturating_mul(factor).min(limits.cap_ms);
    let spread = plain / 100 * limits.jitter_percent;
    let extra = if spread == 0 { 0 } else { jitter.number() % (spread + 1) };
    plain.saturating_add(extra).min(limits.cap_ms.max(plain))
}

/// The name of the counter in the seed's metadata.
fn counter_name(operation: &str) -> String {
    match operation {
        "confirmation" | "validation" => format!("_{operation}_attempts"),
        other => format!("_{}_retries", cut(other, 40)),
    }
}

impl Retry {
    fn failed(&mut self, cx: &Cx<'_>, operation: &str, key: Option<&str>, trips: &mut Trips) {
        let limits = &cx.limits.retry;
        let values = limits.operation(operation);
        let (Some(limit), true) = (values.limit, limits.mode.is_on()) else { return };
        let name = operation_key(operation, key);
        let jitter =
            Fingerprint::of_text(&cx.event.session).with(name).with(Fingerprint::of(&cx.seq.to_le_bytes()));
        let entry = self.operations.entry(name);
        if entry.attempts == 0 {
            entry.first = cx.seq;
        }
        let next = entry.fail(values, limit, cx.now, jitter);
        let operation_shown = cut(operation, 48);
        let shown = cx.label(operation_shown);
        let (first, opened) = (entry.first, u64::from(entry.trips));
        let draft = |severity: Severity, count: u64, message: String| {
            Draft::new("retry", "retries_exhausted", severity, message)
                .count(count, limit)
                .scope("operation", operation_shown)
                .scope("counter", counter_name(operation))
                .events(vec![first, cx.seq])
                .actions(&["start_over", "hand_over_to_a_person"])
                .halts_as(HaltReason::RepeatedError)
        };
        let again = matches!(next, Next::Again { .. });
        if limits.mode >= Mode::Block && (again || matches!(next, Next::Opened { .. })) {
            say(cx, operation, !again, trips);
        }
        let draft = match next {
            Next::Again { attempt, wait_ms } => draft(
                Severity::Warn,
                u64::from(attempt),
                format!("'{shown}' failed (attempt {attempt}/{limit})"),
            )
            .retry_after(wait_ms)
            .feedback(format!("'{shown}' did not work (attempt {attempt} of {limit}).")),
            Next::Opened { wait_ms } => {
                let message = if operation == "confirmation" {
                    format!("Maximum confirmation attempts ({limit}) exceeded. Aborting confirmation flow.")
                } else {
                    format!("Max retries for {shown} exceeded")
                };
                let draft = draft(Severity::Block, limit, message)
                    .retry_after(wait_ms)
                    .feedback(format!("'{shown}' failed too often. Start over instead of trying again."));
                if values.trips.is_some_and(|most| opened >= most) { draft.escalates() } else { draft }
            }
            Next::StillOpen { wait_ms } => {
                draft(Severity::Block, limit, format!("'{shown}' is not tried for another {wait_ms} ms"))
                    .retry_after(wait_ms)
                    .feedback(format!("'{shown}' is switched off for a while. Do something else."))
            }
            Next::Probe { wait_ms } => draft(
                Severity::Warn,
                limit,
                format!("'{shown}' may be tried once, to see whether it works again"),
            )
            .retry_after(wait_ms)
            .feedback(format!("'{shown}' may be tried once more.")),
        };
        trips.add(limits.mode, draft);
    }
}

fn operation_key(operation: &str, key: Option<&str>) -> Fingerprint {
    Fingerprint::of_text(operation).with(key.map_or(Fingerprint::NONE, Fingerprint::of_text))
}

/// What is said to the person when an operation is asked again, and when it is given up.
fn say(cx: &Cx<'_>, operation: &str, given_up: bool, trips: &mut Trips) {
    let confirmation = &cx.limits.confirmation;
    let text = match (operation, given_up) {
        ("confirmation", true) => Text::Aborted,
        ("confirmation", false) => Text::AskAgain { question: None },
        (_, true) => Text::RetryAborted,
        (_, false) => return,
    };
    let texts = Texts::new(confirmation.texts.clone());
    trips.say(texts.render(&text, language_for(confirmation.language, None)));
}

impl Guard for Retry {
    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        match &cx.event.kind {
            Kind::OperationFailed { operation, key } => self.failed(cx, operation, key.as_deref(), trips),
            Kind::OperationSucceeded { operation, key } => {
                self.operations.remove(operation_key(operation, key.as_deref()));
            }
            _ => {}
        }
    }

    fn reset(&mut self) {
        self.operations.clear();
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
