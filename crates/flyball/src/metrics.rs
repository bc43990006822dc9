//! What is counted over all sessions, for people who watch many of them: refusals, circles, retries, confirmations,
//! halts, health.
//!
//! A pure fold like the governor: an event and its decision go in, numbers come out, as JSON or as the text that
//! Prometheus reads. Names of sessions and arguments are in none of them, and the kinds of things that are told apart are
//! bounded.

mod text;

pub use text::Family;

use crate::decision::{Decision, HaltReason, Severity, Status};
use crate::event::{Event, Kind};
use crate::guards::{BREAKER, OPENED};
use crate::reasons::{Ending, ending};
use serde::Serialize;
use std::collections::BTreeMap;

/// How many operations, guards or tools are told apart; the others are counted as `other`.
const APART: usize = 100;
/// A session is degraded until so many events have passed without trouble.
const RECOVERY: u64 = 10;

/// How a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Nothing is wrong.
    Ok,
    /// It runs, but was warned or refused something within its last ten events.
    Degraded,
    /// It stands still: it was going round and round, and waits for a person.
    Thrashing,
    /// It is halted: a budget, a limit or patience is used up.
    Exhausted,
}

impl Health {
    /// All of them, best first.
    pub const ALL: [Health; 4] = [Health::Ok, Health::Degraded, Health::Thrashing, Health::Exhausted];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Health::Ok => "ok",
            Health::Degraded => "degraded",
            Health::Thrashing => "thrashing",
            Health::Exhausted => "exhausted",
        }
    }
}

/// Failed and succeeded attempts of an operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Attempts {
    /// How many failed.
    pub failed: u64,
    /// How many succeeded.
    pub succeeded: u64,
    /// How often there were too many failures: the breaker opened.
    pub breaker_opened: u64,
}

/// What became of questions whether a plan may be run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Confirmations {
    /// Put to a person.
    pub asked: u64,
    /// Answered with a yes.
    pub confirmed: u64,
    /// Answered with a no, or taken back.
    pub rejected: u64,
    /// Answers that were neither.
    pub unclear: u64,
    /// Answered too late.
    pub expired: u64,
    /// Given up after too many unclear answers.
    pub aborted: u64,
    /// Dropped because something else was asked for.
    pub replaced: u64,
}

/// One kind of trip.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct TripKind {
    /// The guard.
    pub guard: String,
    /// The fine reason.
    pub reason: String,
    /// How grave.
    pub severity: &'static str,
}

#[derive(Debug, Clone, Copy)]
struct Vital {
    status: Status,
    exhausted: bool,
    /// Events since the last trouble.
    quiet: u64,
}

/// The counts.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Metrics {
    /// Events.
    pub events: u64,
    /// Decisions by verdict.
    pub decisions: BTreeMap<&'static str, u64>,
    /// Entries into a phase that were refused.
    pub phase_visits_blocked: u64,
    /// Transitions that were refused because an edge was taken too often.
    pub transitions_blocked: u64,
    /// Circles of phases or calls that were found and refused.
    pub cycles_detected: u64,
    /// How often a person was called.
    pub hitl_triggered: u64,
    /// Calls that were refused because they repeat.
    pub repetitions_blocked: u64,
    /// Answers of a model that could not be used.
    pub validation_failures: u64,
    /// Completions that a quality gate refused.
    pub gate_blocks: u64,
    /// Outputs that were too large and went to a file.
    pub large_responses: u64,
    /// Halts by coarse reason.
    pub halts: BTreeMap<&'static str, u64>,
    /// Trips by guard, reason and severity.
    #[serde(serialize_with = "text::listed")]
    pub trips: BTreeMap<TripKind, u64>,
    /// Attempts by operation.
    pub operations: BTreeMap<String, Attempts>,
    /// Questions whether a plan may be run.
    pub confirmations: Confirmations,
    /// Releases by guard.
    pub releases: BTreeMap<String, u64>,
    /// Tokens sent to models.
    pub tokens_in: u64,
    /// Tokens that models wrote.
    pub tokens_out: u64,
    /// Millionths of a dollar.
    pub cost_micro_usd: u64,
    #[serde(skip)]
    sessions: BTreeMap<String, Vital>,
}

/// The count of a name, or of `other` when too many are told apart already.
fn bounded<'a, V: Default>(map: &'a mut BTreeMap<String, V>, name: &str) -> &'a mut V {
    let name = if map.len() >= APART && !map.contains_key(name) { "other" } else { name };
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
        self.event(event);
        // What a halted session asks for is answered with the same trip again: it is counted once.
        let halted = self.sessions.get(&event.session).is_some_and(|was| was.status == Status::Halted);
        if !halted {
            self.trips(event, decision);
        }
        if !halted && decision.state == Status::Halted {
            let reason = decision.trips.iter().find_map(|trip| trip.halt_reason);
            *self.halts.entry(reason.map_or("user_stop", HaltReason::as_str)).or_default() += 1;
        }
        self.effects(decision);
        self.vital(event, decision);
    }

    fn event(&mut self, event: &Event) {
        match &event.kind {
            Kind::OperationFailed { operation, .. } => bounded(&mut self.operations, operation).failed += 1,
            Kind::OperationSucceeded { operation, .. } => {
                bounded(&mut self.operations, operation).succeeded += 1;
            }
            Kind::ValidationFailed { .. } => self.validation_failures += 1,
            Kind::ConfirmationRequested { .. } => self.confirmations.asked += 1,
            Kind::HumanReleased { guard, .. } => {
                *bounded(&mut self.releases, guard.as_deref().unwrap_or("all")) += 1;
            }
            Kind::ToolFinished { .. } if event.extra.contains_key("large") => self.large_responses += 1,
            Kind::OutputReceived { output: Some(_), .. } => self.large_responses += 1,
            _ => {}
        }
    }

    fn trips(&mut self, event: &Event, decision: &Decision) {
        for trip in &decision.trips {
            let refused = matches!(trip.severity, Severity::Block | Severity::Halt);
            let kind = TripKind {
                guard: trip.guard.clone(),
                reason: trip.reason.clone(),
                severity: trip.severity.as_str(),
            };
            if self.trips.len() < APART * 4 || self.trips.contains_key(&kind) {
                *self.trips.entry(kind).or_default() += 1;
            }
            if trip.reason == "confirmation_unclear" {
                self.confirmations.unclear += 1;
            }
            let waited = || self.sessions.get(&event.session).map(|was| was.status);
            if trip.reason == "approval_required"
                && decision.state == Status::AwaitingConfirmation
                && waited() != Some(Status::AwaitingConfirmation)
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
                    Kind::OperationFailed { operation, .. } => {
                        bounded(&mut self.operations, operation).breaker_opened += 1;
                    }
                    Kind::OperationRequested { operation, .. }
                        if trip.scope.get(BREAKER).is_some_and(|breaker| breaker == OPENED) =>
                    {
                        bounded(&mut self.operations, operation).breaker_opened += 1;
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn effects(&mut self, decision: &Decision) {
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

    fn vital(&mut self, event: &Event, decision: &Decision) {
        if decision.state == Status::Ended {
            self.sessions.remove(&event.session);
            return;
        }
        let was = self.sessions.get(&event.session).copied();
        let trouble = decision.trips.iter().any(|trip| trip.severity >= Severity::Warn);
        let exhausted = decision.trips.iter().any(|trip| ending(&trip.reason) == Some(Ending::Exhaustion));
        let quiet = if trouble { 0 } else { was.map_or(RECOVERY, |was| was.quiet.saturating_add(1)) };
        let exhausted = exhausted || was.is_some_and(|was| was.exhausted && was.status == decision.state);
        self.sessions.insert(event.session.clone(), Vital { status: decision.state, exhausted, quiet });
    }

    /// How a session does, if it is known and has not ended.
    #[must_use]
    pub fn health(&self, session: &str) -> Option<Health> {
        self.sessions.get(session).map(Vital::health)
    }

    /// Sessions that have not ended, by how they do.
    #[must_use]
    pub fn sessions(&self) -> BTreeMap<Health, u64> {
        let mut all: BTreeMap<Health, u64> = Health::ALL.into_iter().map(|health| (health, 0)).collect();
        for vital in self.sessions.values() {
            *all.entry(vital.health()).or_default() += 1;
        }
        all
    }
}

impl Metrics {
    /// Sessions that have not ended, by what they are doing.
    #[must_use]
    pub fn states(&self) -> BTreeMap<&'static str, u64> {
        let all = [Status::Running, Status::AwaitingConfirmation, Status::Blocked, Status::Halted];
        let mut all: BTreeMap<&'static str, u64> = all.map(|status| (status.as_str(), 0)).into();
        for vital in self.sessions.values() {
            *all.entry(vital.status.as_str()).or_default() += 1;
        }
        all
    }
}

impl Vital {
    fn health(&self) -> Health {
        match self.status {
            Status::Halted if self.exhausted => Health::Exhausted,
            Status::Halted | Status::Blocked => Health::Thrashing,
            _ if self.quiet < RECOVERY => Health::Degraded,
            _ => Health::Ok,
        }
    }
}
