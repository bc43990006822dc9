//! `retry`: attempts of one operation, with backoff and a circuit breaker.
//!
//! `limit` failed attempts may be retried, each after a longer wait; the next failure opens the breaker. State table of
//! the breaker:
//!
//! | state     | requested                      | failed                                  | succeeded | time passes            |
//! |-----------|--------------------------------|-----------------------------------------|-----------|------------------------|
//! | closed    | allowed; after `limit` failed attempts: blocked, open | count; over the limit: open | clear |         |
//! | open      | blocked, with the time left    | blocked, with the time left             | closed    | cooldown over: half-open |
//! | half-open | one probe is allowed           | first: the probe is allowed; its failure opens again, for longer | closed | probe expired: half-open again |
//!
//! A caller that sends `operation.requested` first gets `limit` attempts; a caller that only reports failures is
//! stopped by the failure after them. All times are event times. A probe expires, because its outcome may never be
//! reported. After `trips` openings the guard escalates to a person.

use super::info::GuardInfo;
use super::info::ScopeKind::Node;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::{BoundedMap, truncate_bytes};
use crate::confirm::{ConfirmationMessage, MessageCatalog, language_for};
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::limits::OPERATIONS;
use crate::policy::settings::StricterDirection::{Less, More, Unknown};
use crate::policy::settings::{
    COUNT_RANGE, Count, Duration, KeyKind, PolicySection, SchemaKeys, ScopeKeys, SectionReader, Settings,
    Word, keywords, object_schema, settings,
};
use crate::policy::{GuardMode, Limit, MINUTE_MS, Policy, Preset};
use crate::reasons::Reason;
use crate::report::{BreakerReport, BreakerStatus};
use crate::rules_version::RulesVersion;
use crate::state::read_layout;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The declaration of the guard.
pub(super) const INFO: GuardInfo =
    GuardInfo::new(RulesVersion::V1, "Attempts at one operation, with backoff and a circuit breaker.")
        .table(
            "attempts of one operation, requested with `operation.requested` or only reported",
            "warn with a wait, then block while the breaker is open",
        )
        .reasons(&[Reason::exhausted(
            "retries_exhausted",
            "An operation failed too often and is disabled for a while.",
        )])
        .scopes::<RetryPolicy>(&[Node]);

settings! {
    /// Attempts at one named operation; omitted keys come from `retry`.
    pub struct RetryLimits: "RetryOperationFile" {
        /// Attempts allowed; the next one is blocked.
        limit: Limit = Some(3) => Count(COUNT_RANGE, Less);
        /// How the delay between attempts grows.
        backoff: BackoffStrategy = BackoffStrategy::Exponential => Word;
        /// Delay before the first retry.
        base_ms as "base": u64 = 1_000 => Duration(Unknown);
        /// Maximum delay. Default: 60s.
        cap_ms as "cap": u64 = MINUTE_MS => Duration(Unknown);
        /// Jitter of the delay, in percent.
        jitter_percent: u64 = 10 => Count(0..=100, Unknown);
        /// How long the open circuit breaker blocks. Default: 60s.
        cooldown_ms as "cooldown": u64 = MINUTE_MS => Duration(More), in Strict => 2 * MINUTE_MS;
        /// Maximum cooldown after repeated trips.
        max_cooldown_ms as "max_cooldown": u64 = 15 * MINUTE_MS => Duration(More);
        /// How long a half-open circuit breaker waits for its probe. Default: 60s.
        probe_ms as "probe": u64 = MINUTE_MS => Duration(Unknown);
        /// The Nth trip escalates to a person.
        trips: Limit = Some(3) => Count(COUNT_RANGE, Less);
    }
}

/// How the delay between attempts grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "BackoffValue", rename_all = "snake_case")]
pub enum BackoffStrategy {
    /// The delay doubles each time.
    #[default]
    Exponential,
    /// The delay grows by `base` each time.
    Linear,
    /// The delay stays the same.
    Fixed,
}
keywords! { BackoffStrategy { "exponential" = Exponential, "linear" = Linear, "fixed" = Fixed } }

/// Attempts at one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// The limits of operations without an override.
    pub limits: RetryLimits,
    /// The complete limits of operations named in the policy.
    pub operations: BTreeMap<String, RetryLimits>,
}

impl RetryPolicy {
    /// The limits of one operation.
    pub fn operation(&self, name: &str) -> &RetryLimits {
        self.operations.get(name).unwrap_or(&self.limits)
    }
}

// Implemented without the macro, because an operation starts from the limits next to it.
impl PolicySection for RetryPolicy {
    fn read_keys(&mut self, reader: &mut SectionReader<'_>) {
        reader.keyword("mode", &mut self.mode);
        self.limits.read_keys(reader);
        reader.sections("operations", &self.limits, &mut self.operations);
    }
}

impl Settings for RetryPolicy {
    fn preset(preset: Preset) -> Self {
        RetryPolicy { limits: RetryLimits::preset(preset), ..RetryPolicy::default() }
    }

    fn describe(&self, keys: &mut SchemaKeys<'_>) {
        Word.describe("mode", "Action when the guard trips.", &self.mode, keys);
        self.limits.describe(keys);
        let operations = keys.generator.subschema_for::<Option<BTreeMap<String, RetryLimits>>>();
        keys.add("operations", operations, "Overrides for individual operations, by name.");
    }
}

impl ScopeKeys for RetryPolicy {}

impl JsonSchema for RetryPolicy {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RetryFile".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        object_schema("Attempts at one operation.", None, generator, |keys| {
            RetryPolicy::default().describe(keys)
        })
    }
}

/// Field of an `operation.failed` with which the sender states that it notifies the person itself.
const QUIET_FIELD: &str = "quiet";
/// Scope key of a trip with the breaker state of a requested operation: `half_open`, `open`, or `opened` by this
/// request.
pub(crate) const BREAKER_SCOPE: &str = "breaker";
pub(crate) const OPENED_SCOPE: &str = "opened";
/// Maximum length of an operation's name and key in reports, in bytes.
const MAX_NAME_BYTES: usize = 32;

/// The state of one operation's breaker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum BreakerState {
    #[default]
    Closed,
    /// No attempt is made until this time.
    Open { until: u64 },
    /// A probe is in flight; after this time it counts as lost.
    Probing { until: u64 },
}

/// One operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct RetryState {
    attempts: u32,
    breaker: BreakerState,
    trips: u32,
    first: u64,
    /// Name and key, truncated for reports.
    name: String,
    key: Option<String>,
}

/// The operations of layout 1, which had no names.
type RetryLayout1 = BoundedMap<(u32, BreakerState, u32, u64), OPERATIONS>;

/// Admission decision of a breaker.
#[derive(Debug, PartialEq, Eq)]
enum BreakerAdmission {
    Closed,
    Probe,
    /// All attempts are used: the breaker opens.
    Opens {
        wait_ms: u64,
    },
    Open {
        wait_ms: u64,
    },
}

/// All operations of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetryGuard {
    operations: BoundedMap<RetryState, OPERATIONS>,
}

/// Outcome of a failed attempt.
#[derive(Debug, PartialEq, Eq)]
enum RetryOutcome {
    Retry { attempt: u32, wait_ms: u64 },
    Opened { wait_ms: u64 },
    StillOpen { wait_ms: u64 },
    Probe { wait_ms: u64 },
}

impl RetryState {
    fn on_failure(
        &mut self,
        limits: &RetryLimits,
        limit: u64,
        now: u64,
        jitter: Fingerprint,
    ) -> RetryOutcome {
        match self.breaker {
            BreakerState::Open { until } if now < until => RetryOutcome::StillOpen { wait_ms: until - now },
            BreakerState::Probing { until } if now < until => self.open(limits, now),
            BreakerState::Open { .. } | BreakerState::Probing { .. } => {
                self.breaker = BreakerState::Probing { until: now.saturating_add(limits.probe_ms) };
                RetryOutcome::Probe { wait_ms: 0 }
            }
            BreakerState::Closed if u64::from(self.attempts) >= limit => self.open(limits, now),
            BreakerState::Closed => {
                self.attempts = self.attempts.saturating_add(1);
                RetryOutcome::Retry {
                    attempt: self.attempts,
                    wait_ms: backoff_ms(limits, self.attempts, jitter),
                }
            }
        }
    }

    /// Next cooldown: doubles with each opening, up to the cap.
    fn next_cooldown(&self, limits: &RetryLimits) -> u64 {
        let longer = 1_u64.checked_shl(self.trips.min(20)).unwrap_or(1);
        limits.cooldown_ms.saturating_mul(longer).min(limits.max_cooldown_ms.max(limits.cooldown_ms))
    }

    /// Whether another attempt may be made.
    fn admission(&self, limits: &RetryLimits, limit: u64, now: u64) -> BreakerAdmission {
        match self.breaker {
            BreakerState::Closed if u64::from(self.attempts) >= limit => {
                BreakerAdmission::Opens { wait_ms: self.next_cooldown(limits) }
            }
            BreakerState::Closed => BreakerAdmission::Closed,
            BreakerState::Open { until } | BreakerState::Probing { until } if now < until => {
                BreakerAdmission::Open { wait_ms: until - now }
            }
            BreakerState::Open { .. } | BreakerState::Probing { .. } => BreakerAdmission::Probe,
        }
    }

    /// Opens the breaker.
    fn open(&mut self, limits: &RetryLimits, now: u64) -> RetryOutcome {
        let wait_ms = self.next_cooldown(limits);
        self.trips = self.trips.saturating_add(1);
        self.attempts = 0;
        self.breaker = BreakerState::Open { until: now.saturating_add(wait_ms) };
        RetryOutcome::Opened { wait_ms }
    }
}

/// Backoff before an attempt. The jitter is derived from the session, so replays are deterministic.
fn backoff_ms(limits: &RetryLimits, attempt: u32, jitter: Fingerprint) -> u64 {
    let attempt = attempt.max(1);
    let factor = match limits.backoff {
        BackoffStrategy::Exponential => 1_u64 << (attempt - 1).min(30),
        BackoffStrategy::Linear => u64::from(attempt),
        BackoffStrategy::Fixed => 1,
    };
    let plain = limits.base_ms.saturating_mul(factor).min(limits.cap_ms);
    let spread = plain / 100 * limits.jitter_percent;
    let extra = if spread == 0 { 0 } else { jitter.number() % (spread + 1) };
    plain.saturating_add(extra).min(limits.cap_ms.max(plain))
}

/// Name of the attempt counter.
fn counter_name(operation: &str) -> String {
    match operation {
        "confirmation" | "validation" => format!("_{operation}_attempts"),
        other => format!("_{}_retries", truncate_bytes(other, 40)),
    }
}

impl RetryGuard {
    fn on_operation_failed(
        &mut self,
        cx: &GuardContext<'_>,
        operation: &str,
        key: Option<&str>,
        trips: &mut Trips,
    ) {
        let limits = &cx.limits.retry;
        let values = limits.operation(operation);
        let (Some(limit), true) = (values.limit, limits.mode.is_on()) else { return };
        let name = operation_key(operation, key);
        let jitter = Fingerprint::of_text(&cx.event.session)
            .combine(name)
            .combine(Fingerprint::of(&cx.seq.to_le_bytes()));
        let entry = self.operations.entry(name);
        truncate_bytes(operation, MAX_NAME_BYTES).clone_into(&mut entry.name);
        entry.key = key.map(|key| truncate_bytes(key, MAX_NAME_BYTES).to_owned());
        if entry.attempts == 0 {
            entry.first = cx.seq;
        }
        let next = entry.on_failure(values, limit, cx.now, jitter);
        let shown = cx.safe_name(truncate_bytes(operation, 48));
        let (first, opened) = (entry.first, u64::from(entry.trips));
        let draft = |severity: TripSeverity, count: u64, message: String| {
            trip(operation, severity, (count, limit), message).events(vec![first, cx.seq])
        };
        let again = matches!(next, RetryOutcome::Retry { .. });
        let quiet =
            cx.rules > RulesVersion::V1 && cx.event.extra.get(QUIET_FIELD) == Some(&Value::Bool(true));
        if limits.mode >= GuardMode::Block && !quiet && (again || matches!(next, RetryOutcome::Opened { .. }))
        {
            say(cx, operation, !again, trips);
        }
        let draft = match next {
            RetryOutcome::Retry { attempt, wait_ms } => draft(
                TripSeverity::Warn,
                u64::from(attempt),
                format!("'{shown}' failed (attempt {attempt}/{limit})"),
            )
            .retry_after(wait_ms)
            .feedback(format!(
                "'{shown}' {} (attempt {attempt} of {limit}).",
                cx.rules.wording("did not work", "failed")
            )),
            RetryOutcome::Opened { wait_ms } => {
                let draft = exhausted_trip(draft, operation, shown, limit).retry_after(wait_ms);
                if values.trips.is_some_and(|most| opened >= most) { draft.escalate() } else { draft }
            }
            RetryOutcome::StillOpen { wait_ms } => open_trip(cx, draft, shown, limit, wait_ms),
            RetryOutcome::Probe { wait_ms } => probe_trip(cx, draft, shown, limit).retry_after(wait_ms),
        };
        trips.add(limits.mode, draft);
    }

    /// Checks whether an operation may run now. State changes only once the request is accepted or denied.
    fn on_operation_requested(
        &self,
        cx: &GuardContext<'_>,
        operation: &str,
        key: Option<&str>,
        trips: &mut Trips,
    ) {
        let limits = &cx.limits.retry;
        let values = limits.operation(operation);
        let (Some(limit), true) = (values.limit, limits.mode.is_on()) else { return };
        let Some(entry) = self.operations.get(operation_key(operation, key)) else { return };
        let shown = cx.safe_name(truncate_bytes(operation, 48));
        let draft = |severity: TripSeverity, count: u64, message: String| {
            trip(operation, severity, (count, limit), message).events(vec![entry.first, cx.seq])
        };
        let draft = match entry.admission(values, limit, cx.now) {
            BreakerAdmission::Closed => return,
            BreakerAdmission::Probe => probe_trip(cx, draft, shown, limit).scope(BREAKER_SCOPE, "half_open"),
            BreakerAdmission::Open { wait_ms } => {
                open_trip(cx, draft, shown, limit, wait_ms).scope(BREAKER_SCOPE, "open")
            }
            BreakerAdmission::Opens { wait_ms } => {
                if limits.mode >= GuardMode::Block {
                    say(cx, operation, true, trips);
                }
                let draft = exhausted_trip(draft, operation, shown, limit)
                    .retry_after(wait_ms)
                    .scope(BREAKER_SCOPE, OPENED_SCOPE);
                let opened = u64::from(entry.trips) + 1;
                if values.trips.is_some_and(|most| opened >= most) { draft.escalate() } else { draft }
            }
        };
        trips.add(limits.mode, draft);
    }

    /// Updates the breaker of a requested operation: to probing if it runs, to open if it was denied.
    fn apply_request(&mut self, cx: &GuardContext<'_>, runs: bool) {
        let EventKind::OperationRequested { operation, key } = &cx.event.kind else { return };
        let values = cx.limits.retry.operation(operation);
        let (Some(limit), true) = (values.limit, cx.limits.retry.mode.is_on()) else { return };
        let name = operation_key(operation, key.as_deref());
        if !self.operations.contains(name) {
            return;
        }
        let entry = self.operations.entry(name);
        match (entry.admission(values, limit, cx.now), runs) {
            (BreakerAdmission::Probe, true) => {
                entry.breaker = BreakerState::Probing { until: cx.now.saturating_add(values.probe_ms) };
            }
            (BreakerAdmission::Opens { .. }, false) => drop(entry.open(values, cx.now)),
            _ => {}
        }
    }

    /// Operations that failed and have not succeeded since, with their breaker states at `now`.
    pub(crate) fn breaker_reports(&self, policy: &Policy, now: u64) -> Vec<BreakerReport> {
        let report = |entry: &RetryState| {
            let limits = policy.guards.retry.operation(&entry.name);
            let (state, cooldown_left_ms) = match entry.breaker {
                BreakerState::Closed => (BreakerStatus::Closed, None),
                BreakerState::Open { until } if now < until => (BreakerStatus::Open, Some(until - now)),
                BreakerState::Open { .. } | BreakerState::Probing { .. } => (BreakerStatus::HalfOpen, None),
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
fn trip(operation: &str, severity: TripSeverity, (count, limit): (u64, u64), message: String) -> TripBuilder {
    TripBuilder::new("retry", "retries_exhausted", severity, message)
        .count(count, limit)
        .scope("operation", truncate_bytes(operation, 48))
        .scope("counter", counter_name(operation))
        .actions(&["start_over", "hand_over_to_a_person"])
        .halt_reason(HaltReason::RepeatedError)
}

fn exhausted_trip(
    draft: impl Fn(TripSeverity, u64, String) -> TripBuilder,
    operation: &str,
    shown: &str,
    limit: u64,
) -> TripBuilder {
    let message = if operation == "confirmation" {
        format!("Maximum confirmation attempts ({limit}) exceeded. Aborting confirmation flow.")
    } else {
        format!("Max retries for {shown} exceeded")
    };
    draft(TripSeverity::Block, limit, message)
        .feedback(format!("'{shown}' failed too often. Start over instead of trying again."))
}

fn open_trip(
    cx: &GuardContext<'_>,
    draft: impl Fn(TripSeverity, u64, String) -> TripBuilder,
    shown: &str,
    limit: u64,
    wait_ms: u64,
) -> TripBuilder {
    let tried = cx.rules.wording("is not tried", "will not be retried");
    let disabled = cx.rules.wording("switched off for a while", "temporarily disabled");
    draft(TripSeverity::Block, limit, format!("'{shown}' {tried} for another {wait_ms} ms"))
        .retry_after(wait_ms)
        .feedback(format!("'{shown}' is {disabled}. Do something else."))
}

fn probe_trip(
    cx: &GuardContext<'_>,
    draft: impl Fn(TripSeverity, u64, String) -> TripBuilder,
    shown: &str,
    limit: u64,
) -> TripBuilder {
    let purpose = cx.rules.wording("once, to see whether", "once to check whether");
    draft(TripSeverity::Warn, limit, format!("'{shown}' may be tried {purpose} it works again"))
        .feedback(format!("'{shown}' may be tried once more."))
}

fn operation_key(operation: &str, key: Option<&str>) -> Fingerprint {
    Fingerprint::of_text(operation).combine(key.map_or(Fingerprint::NONE, Fingerprint::of_text))
}

/// Message to the person when an operation is retried or given up.
fn say(cx: &GuardContext<'_>, operation: &str, given_up: bool, trips: &mut Trips) {
    let confirmation = &cx.limits.confirmation;
    let text = match (operation, given_up) {
        ("confirmation", true) => ConfirmationMessage::Aborted,
        ("confirmation", false) => ConfirmationMessage::AskAgain { question: None },
        (_, true) => ConfirmationMessage::RetryAborted,
        (_, false) => return,
    };
    let texts = MessageCatalog::new(confirmation.texts.clone());
    trips.say(texts.render(&text, language_for(confirmation.language, None)));
}

impl Guard for RetryGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        if let EventKind::OperationRequested { operation, key } = &cx.event.kind {
            self.on_operation_requested(cx, operation, key.as_deref(), trips);
        }
    }

    fn on_denied(&mut self, cx: &GuardContext<'_>, mine: bool) {
        if mine {
            self.apply_request(cx, false);
        }
    }

    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        match &cx.event.kind {
            EventKind::OperationRequested { .. } => self.apply_request(cx, true),
            EventKind::OperationFailed { operation, key } => {
                self.on_operation_failed(cx, operation, key.as_deref(), trips)
            }
            EventKind::OperationSucceeded { operation, key } => {
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
        let (known, rest): (RetryLayout1, &[u8]) = read_layout(layout, 1, bytes)?;
        let mut operations = BoundedMap::default();
        for (key, (attempts, breaker, trips, first)) in known.pairs() {
            *operations.entry(key) = RetryState {
                attempts: *attempts,
                breaker: *breaker,
                trips: *trips,
                first: *first,
                ..RetryState::default()
            };
        }
        Ok((RetryGuard { operations }, rest))
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
