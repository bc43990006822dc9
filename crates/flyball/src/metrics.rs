//! Counters over all sessions: denials, cycles, retries, confirmations, halts and health.
//!
//! A pure fold like the governor: it takes events with their decisions and produces numbers, as JSON or in the
//! Prometheus text format. Session names and arguments never appear, and the number of label values is bounded.

mod prometheus;

pub use prometheus::MetricFamily;

use crate::decision::{Decision, HaltReason, SessionPhase, TripSeverity};
use crate::event::{Event, EventKind};
use crate::guards::{BREAKER_SCOPE, OPENED_SCOPE};
use crate::reasons::{EndingKind, ending_kind};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of distinct operations, guards or tools; the rest are counted as `other`.
const MAX_LABEL_VALUES: usize = 100;
/// A session stays degraded until this many events have passed without trouble.
const RECOVERY_EVENTS: u64 = 10;

/// The health of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionHealth {
    /// Nothing is wrong.
    Ok,
    /// The session runs, but was warned or denied something within its last ten events.
    Degraded,
    /// The session was caught in a loop and waits for a person.
    Thrashing,
    /// The session is halted: a budget, a limit or a retry allowance is used up.
    Exhausted,
}

impl SessionHealth {
    /// All values, best first.
    pub const ALL: [SessionHealth; 4] =
        [SessionHealth::Ok, SessionHealth::Degraded, SessionHealth::Thrashing, SessionHealth::Exhausted];

    /// The name of the value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SessionHealth::Ok => "ok",
            SessionHealth::Degraded => "degraded",
            SessionHealth::Thrashing => "thrashing",
            SessionHealth::Exhausted => "exhausted",
        }
    }
}

/// Attempts at an operation, by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OperationCounts {
    /// Failed attempts.
    pub failed: u64,
    /// Successful attempts.
    pub succeeded: u64,
    /// How often the circuit breaker opened because of too many failures.
    pub breaker_opened: u64,
}

/// Outcomes of plan confirmations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ConfirmationCounts {
    /// Requested from a person.
    pub asked: u64,
    /// Confirmed.
    pub confirmed: u64,
    /// Rejected or canceled.
    pub rejected: u64,
    /// Unclear answers.
    pub unclear: u64,
    /// Answered too late.
    pub expired: u64,
    /// Aborted after too many unclear answers.
    pub aborted: u64,
    /// Replaced because the person asked for something else.
    pub replaced: u64,
}

/// One kind of trip.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct TripKind {
    /// The guard.
    pub guard: String,
    /// The detailed reason.
    pub reason: String,
    /// The severity.
    pub severity: &'static str,
}

#[derive(Debug, Clone, Copy)]
struct SessionVitals {
    status: SessionPhase,
    exhausted: bool,
    /// Events since the last warning, block or halt.
    events_since_trouble: u64,
}

/// The counters.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Metrics {
    /// Events.
    pub events: u64,
    /// Decisions by verdict.
    pub decisions: BTreeMap<&'static str, u64>,
    /// Blocked visits to a phase.
    pub phase_visits_blocked: u64,
    /// Transitions blocked because an edge was used too often.
    pub transitions_blocked: u64,
    /// Cycles of phases or calls that were detected and blocked.
    pub cycles_detected: u64,
    /// How often a person was called in.
    pub hitl_triggered: u64,
    /// Calls blocked because they repeat.
    pub repetitions_blocked: u64,
    /// Model responses that failed to parse.
    pub validation_failures: u64,
    /// Completions blocked by a quality gate.
    pub gate_blocks: u64,
    /// Outputs that were too large and were written to a file.
    pub large_responses: u64,
    /// Halts by coarse reason.
    pub halts: BTreeMap<&'static str, u64>,
    /// Trips by guard, reason and severity.
    #[serde(serialize_with = "prometheus::serialize_trips")]
    pub trips: BTreeMap<TripKind, u64>,
    /// Attempts by operation.
    pub operations: BTreeMap<String, OperationCounts>,
    /// Plan confirmations.
    pub confirmations: ConfirmationCounts,
    /// Releases by guard.
    pub releases: BTreeMap<String, u64>,
    /// Input tokens.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Cost in millionths of a dollar.
    pub cost_micro_usd: u64,
    #[serde(skip)]
    sessions: BTreeMap<String, SessionVitals>,
}

/// The counter of a name, or of `other` if there are too many names.
fn bounded_entry<'a, V: Default>(map: &'a mut BTreeMap<String, V>, name: &str) -> &'a mut V {
    let name = if map.len() >= MAX_LABEL_VALUES && !map.contains_key(name) { "other" } else { name };
    map.entry(name.to_owned()).or_default()
}

impl Metrics {
    /// Counts an event and its decision.
    pub fn take(&mut self, event: &Event, decision: &Decision) {
        self.events += 1;
        *self.decisions.entry(decision.decision.as_str()).or_default() += 1;
        self.tokens_in = self.tokens_in.saturating_add(event.usage.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(event.usage.tokens_out);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(event.usage.cost_micro_usd);
        self.record_event(event);
        // Requests of a halted session repeat the same trip, which is counted only once.
        let halted = self.sessions.get(&event.session).is_some_and(|was| was.status == SessionPhase::Halted);
        if !halted {
            self.record_trips(event, decision);
        }
        if !halted && decision.state == SessionPhase::Halted {
            let reason = decision.trips.iter().find_map(|trip| trip.halt_reason);
            *self.halts.entry(reason.map_or("user_stop", HaltReason::as_str)).or_default() += 1;
        }
        self.record_effects(decision);
        self.record_vitals(event, decision);
    }

    fn record_event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::OperationFailed { operation, .. } => {
                bounded_entry(&mut self.operations, operation).failed += 1
            }
            EventKind::OperationSucceeded { operation, .. } => {
                bounded_entry(&mut self.operations, operation).succeeded += 1;
            }
            EventKind::ValidationFailed { .. } => self.validation_failures += 1,
            EventKind::ConfirmationRequested { .. } => self.confirmations.asked += 1,
            EventKind::HumanReleased { guard, .. } => {
                *bounded_entry(&mut self.releases, guard.as_deref().unwrap_or("all")) += 1;
            }
            EventKind::ToolFinished { .. } if event.extra.contains_key("large") => self.large_responses += 1,
            EventKind::OutputReceived { output: Some(_), .. } => self.large_responses += 1,
            _ => {}
        }
    }

    fn record_trips(&mut self, event: &Event, decision: &Decision) {
        for trip in &decision.trips {
            let refused = matches!(trip.severity, TripSeverity::Block | TripSeverity::Halt);
            let kind = TripKind {
                guard: trip.guard.clone(),
                reason: trip.reason.clone(),
                severity: trip.severity.as_str(),
            };
            if self.trips.len() < MAX_LABEL_VALUES * 4 || self.trips.contains_key(&kind) {
                *self.trips.entry(kind).or_default() += 1;
            }
            if trip.reason == "confirmation_unclear" {
                self.confirmations.unclear += 1;
            }
            let waited = || self.sessions.get(&event.session).map(|was| was.status);
            if trip.reason == "approval_required"
                && decision.state == SessionPhase::AwaitingConfirmation
                && waited() != Some(SessionPhase::AwaitingConfirmation)
            {
                self.confirmations.asked += 1;
            }
            if !refused {
                continue;
            }
            match trip.guard.as_str() {
                "visits" => self.phase_visits_blocked += 1,
                "transitions" => self.transitions_blocked += 1,
                "cycle" => self.cycles_detected += 1,
                "repetition" | "recurrence" => self.repetitions_blocked += 1,
                "gate" => self.gate_blocks += 1,
                "retry" => match &event.kind {
                    EventKind::OperationFailed { operation, .. } => {
                        bounded_entry(&mut self.operations, operation).breaker_opened += 1;
                    }
                    EventKind::OperationRequested { operation, .. }
                        if trip.scope.get(BREAKER_SCOPE).is_some_and(|breaker| breaker == OPENED_SCOPE) =>
                    {
                        bounded_entry(&mut self.operations, operation).breaker_opened += 1;
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn record_effects(&mut self, decision: &Decision) {
        for effect in &decision.effects {
            match effect.effect.as_str() {
                "label.added" => self.hitl_triggered += 1,
                "plan.approved" => self.confirmations.confirmed += 1,
                "plan.rejected" => self.confirmations.rejected += 1,
                "plan.expired" => self.confirmations.expired += 1,
                "plan.aborted" => self.confirmations.aborted += 1,
                "plan.replaced" => self.confirmations.replaced += 1,
                _ => {}
            }
        }
    }

    fn record_vitals(&mut self, event: &Event, decision: &Decision) {
        if decision.state == SessionPhase::Ended {
            self.sessions.remove(&event.session);
            return;
        }
        let was = self.sessions.get(&event.session).copied();
        let trouble = decision.trips.iter().any(|trip| trip.severity >= TripSeverity::Warn);
        let exhausted =
            decision.trips.iter().any(|trip| ending_kind(&trip.reason) == Some(EndingKind::Exhaustion));
        let quiet = if trouble {
            0
        } else {
            was.map_or(RECOVERY_EVENTS, |was| was.events_since_trouble.saturating_add(1))
        };
        let exhausted = exhausted || was.is_some_and(|was| was.exhausted && was.status == decision.state);
        self.sessions.insert(
            event.session.clone(),
            SessionVitals { status: decision.state, exhausted, events_since_trouble: quiet },
        );
    }

    /// The health of a session, if it is known and has not ended.
    #[must_use]
    pub fn health(&self, session: &str) -> Option<SessionHealth> {
        self.sessions.get(session).map(SessionVitals::health)
    }

    /// Active sessions by health.
    #[must_use]
    pub fn sessions_by_health(&self) -> BTreeMap<SessionHealth, u64> {
        let mut all: BTreeMap<SessionHealth, u64> =
            SessionHealth::ALL.into_iter().map(|health| (health, 0)).collect();
        for vital in self.sessions.values() {
            *all.entry(vital.health()).or_default() += 1;
        }
        all
    }
}

impl Metrics {
    /// Active sessions by status.
    #[must_use]
    pub fn sessions_by_status(&self) -> BTreeMap<&'static str, u64> {
        let all = [
            SessionPhase::Running,
            SessionPhase::AwaitingConfirmation,
            SessionPhase::Blocked,
            SessionPhase::Halted,
        ];
        let mut all: BTreeMap<&'static str, u64> = all.map(|status| (status.as_str(), 0)).into();
        for vital in self.sessions.values() {
            *all.entry(vital.status.as_str()).or_default() += 1;
        }
        all
    }
}

impl SessionVitals {
    fn health(&self) -> SessionHealth {
        match self.status {
            SessionPhase::Halted if self.exhausted => SessionHealth::Exhausted,
            SessionPhase::Halted | SessionPhase::Blocked => SessionHealth::Thrashing,
            _ if self.events_since_trouble < RECOVERY_EVENTS => SessionHealth::Degraded,
            _ => SessionHealth::Ok,
        }
    }
}
