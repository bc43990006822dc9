//! `retry`: attempts of one operation, with backoff and a breaker (seed 000).
//!
//! `limit` failed attempts may be tried again, each after a longer wait; the next failure opens the breaker. The
//! breaker as a table:
//!
//! | state     | requested                      | failed                                  | succeeded | time passes            |
//! |-----------|--------------------------------|-----------------------------------------|-----------|------------------------|
//! | closed    | allowed; after `limit` failed attempts: refused, open | count; over the limit: open | clear |         |
//! | open      | refused, with the time left    | refused, with the time that is left     | closed    | cooldown over: half-open |
//! | half-open | one probe is let through       | first: the probe is let through; its failure opens again, for longer | closed | probe expired: half-open again |
//!
//! Who asks first (`operation.requested`) makes `limit` attempts; who only reports failures is stopped by the one after
//! them. All times are event times. The probe expires, because its outcome may never be told. After `trips` openings a
//! person is called.

use super::{Cx, Draft, Guard, Trips};
use crate::confirm::{Text, Texts, language_for};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::fingerprint::Fingerprint;
use crate::limits::OPERATIONS;
use crate::policy::{Backoff, Mode, Policy, RetryLimits};
use crate::report::{BreakerReport, BreakerState};
use crate::rules_version::RulesVersion;
use crate::state::read_layout;
use crate::window::{Keyed, cut};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The field of an `operation.failed` by which its sender says that it tells the person itself.
const QUIET: &str = "quiet";
/// What the scope of a trip says about the breaker of an operation that was requested: `half_open`, `open`, or `opened`
/// by this very request.
pub(crate) const BREAKER: &str = "breaker";
pub(crate) const OPENED: &str = "opened";
/// How much of an operation's name and key is kept for reports, in bytes.
const NAME_KEPT: usize = 32;

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
    /// Its name and key, shortened for reports.
    name: String,
    key: Option<String>,
}

/// The operations of layout 1, which had no names.
type Layout1 = Keyed<(u32, Breaker, u32, u64), OPERATIONS>;

/// Whether a breaker lets an operation through.
#[derive(Debug, PartialEq, Eq)]
enum Admission {
    Closed,
    Probe,
    /// All attempts are used up: the breaker opens.
    Opens {
        wait_ms: u64,
    },
    Open {
        wait_ms: u64,
    },
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

    /// How long the breaker stays open the next time: each time for longer, up to the cap.
    fn next_cooldown(&self, limits: &RetryLimits) -> u64 {
        let longer = 1_u64.checked_shl(self.trips.min(20)).unwrap_or(1);
        limits.cooldown_ms.saturating_mul(longer).min(limits.max_cooldown_ms.max(limits.cooldown_ms))
    }

    /// Whether another attempt may be made.
    fn admits(&self, limits: &RetryLimits, limit: u64, now: u64) -> Admission {
        match self.breaker {
            Breaker::Closed if u64::from(self.attempts) >= limit => {
                Admission::Opens { wait_ms: self.next_cooldown(limits) }
            }
            Breaker::Closed => Admission::Closed,
            Breaker::Open { until } | Breaker::Probing { until } if now < until => {
                Admission::Open { wait_ms: until - now }
            }
            Breaker::Open { .. } | Breaker::Probing { .. } => Admission::Probe,
        }
    }

    /// Opens the breaker.
    fn open(&mut self, limits: &RetryLimits, now: u64) -> Next {
        let wait_ms = self.next_cooldown(limits);
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
        cut(operation, NAME_KEPT).clone_into(&mut entry.name);
        entry.key = key.map(|key| cut(key, NAME_KEPT).to_owned());
        if entry.attempts == 0 {
            entry.first = cx.seq;
        }
        let next = entry.fail(values, limit, cx.now, jitter);
        let shown = cx.label(cut(operation, 48));
        let (first, opened) = (entry.first, u64::from(entry.trips));
        let draft = |severity: Severity, count: u64, message: String| {
            draft_of(operation, severity, (count, limit), message).events(vec![first, cx.seq])
        };
        let again = matches!(next, Next::Again { .. });
        let quiet = cx.rules > RulesVersion::V1 && cx.event.extra.get(QUIET) == Some(&Value::Bool(true));
        if limits.mode >= Mode::Block && !quiet && (again || matches!(next, Next::Opened { .. })) {
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
                let draft = exhausted(draft, operation, shown, limit).retry_after(wait_ms);
                if values.trips.is_some_and(|most| opened >= most) { draft.escalates() } else { draft }
            }
            Next::StillOpen { wait_ms } => still_open(draft, shown, limit, wait_ms),
            Next::Probe { wait_ms } => probe(draft, shown, limit).retry_after(wait_ms),
        };
        trips.add(limits.mode, draft);
    }

    /// Asks whether an operation may run now. Nothing is changed; what follows is done when the act is accepted or
    /// refused.
    fn requested(&self, cx: &Cx<'_>, operation: &str, key: Option<&str>, trips: &mut Trips) {
        let limits = &cx.limits.retry;
        let values = limits.operation(operation);
        let (Some(limit), true) = (values.limit, limits.mode.is_on()) else { return };
        let Some(entry) = self.operations.get(operation_key(operation, key)) else { return };
        let shown = cx.label(cut(operation, 48));
        let draft = |severity: Severity, count: u64, message: String| {
            draft_of(operation, severity, (count, limit), message).events(vec![entry.first, cx.seq])
        };
        let draft = match entry.admits(values, limit, cx.now) {
            Admission::Closed => return,
            Admission::Probe => probe(draft, shown, limit).scope(BREAKER, "half_open"),
            Admission::Open { wait_ms } => still_open(draft, shown, limit, wait_ms).scope(BREAKER, "open"),
            Admission::Opens { wait_ms } => {
                if limits.mode >= Mode::Block {
                    say(cx, operation, true, trips);
                }
                let draft =
                    exhausted(draft, operation, shown, limit).retry_after(wait_ms).scope(BREAKER, OPENED);
                let opened = u64::from(entry.trips) + 1;
                if values.trips.is_some_and(|most| opened >= most) { draft.escalates() } else { draft }
            }
        };
        trips.add(limits.mode, draft);
    }

    /// Moves the breaker of an operation that was requested: on to the probe if it may run, open if it may not.
    fn settle_request(&mut self, cx: &Cx<'_>, runs: bool) {
        let Kind::OperationRequested { operation, key } = &cx.event.kind else { return };
        let values = cx.limits.retry.operation(operation);
        let (Some(limit), true) = (values.limit, cx.limits.retry.mode.is_on()) else { return };
        let name = operation_key(operation, key.as_deref());
        if !self.operations.contains(name) {
            return;
        }
        let entry = self.operations.entry(name);
        match (entry.admits(values, limit, cx.now), runs) {
            (Admission::Probe, true) => {
                entry.breaker = Breaker::Probing { until: cx.now.saturating_add(values.probe_ms) };
            }
            (Admission::Opens { .. }, false) => drop(entry.open(values, cx.now)),
            _ => {}
        }
    }

    /// The operations that have failed and not succeeded since, with their breakers as they are at a time.
    pub(crate) fn breakers(&self, policy: &Policy, now: u64) -> Vec<BreakerReport> {
        let report = |entry: &Operation| {
            let limits = policy.guards.retry.operation(&entry.name);
            let (state, cooldown_left_ms) = match entry.breaker {
                Breaker::Closed => (BreakerState::Closed, None),
                Breaker::Open { until } if now < until => (BreakerState::Open, Some(until - now)),
                Breaker::Open { .. } | Breaker::Probing { .. } => (BreakerState::HalfOpen, None),
            };
            BreakerReport {
                operation: entry.name.clone(),
                key: entry.key.clone(),
                counter: counter_name(&entry.name),
                attempts: u64::from(entry.attempts),
                limit: limits.limit,
                state,
                trips: u64::from(entry.trips),
                cooldown_left_ms,
            }
        };
        let mut all: Vec<BreakerReport> =
            self.operations.values().filter(|entry| !entry.name.is_empty()).map(report).collect();
        all.sort_by(|a, b| (&a.operation, &a.key).cmp(&(&b.operation, &b.key)));
        all
    }
}

/// A trip about an operation.
fn draft_of(operation: &str, severity: Severity, (count, limit): (u64, u64), message: String) -> Draft {
    Draft::new("retry", "retries_exhausted", severity, message)
        .count(count, limit)
        .scope("operation", cut(operation, 48))
        .scope("counter", counter_name(operation))
        .actions(&["start_over", "hand_over_to_a_person"])
        .halts_as(HaltReason::RepeatedError)
}

fn exhausted(
    draft: impl Fn(Severity, u64, String) -> Draft,
    operation: &str,
    shown: &str,
    limit: u64,
) -> Draft {
    let message = if operation == "confirmation" {
        format!("Maximum confirmation attempts ({limit}) exceeded. Aborting confirmation flow.")
    } else {
        format!("Max retries for {shown} exceeded")
    };
    draft(Severity::Block, limit, message)
        .feedback(format!("'{shown}' failed too often. Start over instead of trying again."))
}

fn still_open(
    draft: impl Fn(Severity, u64, String) -> Draft,
    shown: &str,
    limit: u64,
    wait_ms: u64,
) -> Draft {
    draft(Severity::Block, limit, format!("'{shown}' is not tried for another {wait_ms} ms"))
        .retry_after(wait_ms)
        .feedback(format!("'{shown}' is switched off for a while. Do something else."))
}

fn probe(draft: impl Fn(Severity, u64, String) -> Draft, shown: &str, limit: u64) -> Draft {
    draft(Severity::Warn, limit, format!("'{shown}' may be tried once, to see whether it works again"))
        .feedback(format!("'{shown}' may be tried once more."))
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
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        if let Kind::OperationRequested { operation, key } = &cx.event.kind {
            self.requested(cx, operation, key.as_deref(), trips);
        }
    }

    fn refused(&mut self, cx: &Cx<'_>, mine: bool) {
        if mine {
            self.settle_request(cx, false);
        }
    }

    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        match &cx.event.kind {
            Kind::OperationRequested { .. } => self.settle_request(cx, true),
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

    const LAYOUT: u16 = 2;

    fn read(layout: u16, bytes: &[u8]) -> postcard::Result<(Self, &[u8])> {
        if layout != 1 {
            return read_layout(layout, Self::LAYOUT, bytes);
        }
        let (known, rest): (Layout1, &[u8]) = read_layout(layout, 1, bytes)?;
        let mut operations = Keyed::default();
        for (key, (attempts, breaker, trips, first)) in known.pairs() {
            *operations.entry(key) = Operation {
                attempts: *attempts,
                breaker: *breaker,
                trips: *trips,
                first: *first,
                ..Operation::default()
            };
        }
        Ok((Retry { operations }, rest))
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
