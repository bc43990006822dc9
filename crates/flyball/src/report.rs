//! Session reports: counters, loops, budgets and trends.

use crate::confirm::PlanPhase;
use crate::decision::{HaltReason, SessionPhase};
use crate::guards::format_usage;
use crate::lifecycle::STOP_GUARD;
use crate::policy::{GuardMode, Policy, SessionCounters};
use crate::reasons::{EndingKind, ending_kind};
use crate::state::{Latch, SessionState};
use crate::tool_usage::ToolUsage;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// One loop of the session's workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoopReport {
    /// Stable id.
    pub id: String,
    /// Node where an iteration starts.
    pub header: String,
    /// All nodes of the loop.
    pub nodes: Vec<String>,
    /// Completed iterations.
    pub iterations: u64,
    /// Iteration limit.
    pub limit: Option<u64>,
    /// The badge: `Loop 3/8`.
    pub badge: String,
}

/// A budget of the session or of one of its loops, including raises by releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BudgetReport {
    /// `session` or `loop`.
    pub scope: &'static str,
    /// Id of the loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whose: Option<String>,
    /// `runtime_ms`, `turns`, `iterations`, `tokens`, `tool_calls` or `cost_micro_usd`.
    pub name: &'static str,
    /// The limit.
    pub limit: u64,
    /// The usage.
    pub used: u64,
}

impl BudgetReport {
    /// Remaining budget as text: `6 of 8 iterations`.
    #[must_use]
    pub fn remaining_text(&self) -> String {
        let left = self.limit.saturating_sub(self.used);
        let share = format_usage(self.name, left, self.limit);
        let unit = if self.name == "runtime_ms" { " active time" } else { "" };
        match &self.whose {
            Some(whose) => format!("{share}{unit} in {whose}"),
            None => format!("{share}{unit}"),
        }
    }
}

/// One transition between nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeTransition {
    /// Source node.
    pub from: String,
    /// Destination node.
    pub to: String,
}

/// The transitions shown in a report, and the number of transitions that cycle detection considers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransitionHistory {
    /// Maximum number shown: `max_history` of the policy.
    pub max_history: u64,
    /// Number considered by cycle detection: `max_history`, or more if a rule needs more.
    pub effective: u64,
    /// The most recent transitions, oldest first.
    pub recent: Vec<NodeTransition>,
}

/// Summary of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionReport {
    /// Phase of the session.
    pub status: SessionPhase,
    /// Events so far.
    pub events: u64,
    /// Tool calls so far.
    pub calls: u64,
    /// Turns so far.
    pub turns: u64,
    /// Transitions so far.
    pub transitions: u64,
    /// Failed calls so far.
    pub errors: u64,
    /// Tokens so far, including children.
    pub tokens: u64,
    /// Cost so far in millionths of a dollar, including children.
    pub cost_micro_usd: u64,
    /// Active time, in milliseconds.
    pub active_ms: u64,
    /// Number of `warn` decisions.
    pub warnings: u64,
    /// Number of `block` decisions.
    pub blocks: u64,
    /// Number of `halt` decisions.
    pub halts: u64,
    /// Releases so far, by guard.
    pub releases: BTreeMap<String, u64>,
    /// Why the session is stopped, if it is.
    pub stopped_by: Option<String>,
    /// Specific reason why the session is stopped, if it is.
    pub reason: Option<String>,
    /// Kind of ending that the reason indicates.
    pub ending: Option<EndingKind>,
    /// Coarse reason, if the session is halted.
    pub halt_reason: Option<HaltReason>,
    /// The session's version of the decision rules.
    pub rules_version: u64,
    /// Phase of the plan that needs approval.
    pub confirmation: PlanPhase,
    /// Number of unused approved steps.
    pub approvals: u64,
    /// Counters of operations that failed and have not succeeded since: `_confirmation_attempts`,
    /// `_correction_retries`, `_<operation>_retries`; operations with a key as `_<operation>_retries:KEY`.
    pub counters: BTreeMap<String, u64>,
    /// Breakers of these operations.
    pub breakers: Vec<BreakerReport>,
    /// The current node.
    pub node: Option<String>,
    /// The trail of visited nodes, oldest first.
    pub trail: Vec<String>,
    /// The most recent transitions, and the number that cycle detection considers.
    pub history: TransitionHistory,
    /// Visits per workflow node.
    pub visits: BTreeMap<String, u32>,
    /// Loops of the workflow.
    pub loops: Vec<LoopReport>,
    /// Limited budgets of the session and its loops.
    pub budgets: Vec<BudgetReport>,
    /// Measured values by signal.
    pub trends: BTreeMap<String, Vec<i64>>,
    /// Allowed, blocked and failed calls per tool.
    pub tools: BTreeMap<String, ToolUsage>,
    /// Guards that the policy turns off.
    pub off: Vec<&'static str>,
}

/// State of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerStatus {
    /// Attempts are allowed.
    Closed,
    /// No attempts until the cooldown ends.
    Open,
    /// The cooldown has ended: one probe is allowed or in flight.
    HalfOpen,
}

impl BreakerStatus {
    /// The printed name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            BreakerStatus::Closed => "closed",
            BreakerStatus::Open => "open",
            BreakerStatus::HalfOpen => "half_open",
        }
    }
}

/// Retry counter and breaker of one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BreakerReport {
    /// Operation name, truncated.
    pub operation: String,
    /// Operation key, truncated, if present.
    pub key: Option<String>,
    /// Counter name: `_correction_retries`.
    pub counter: String,
    /// Failed attempts since the last success.
    pub attempts: u64,
    /// Attempt limit.
    pub limit: Option<u64>,
    /// State of the breaker.
    pub state: BreakerStatus,
    /// Number of openings.
    pub trips: u64,
    /// Remaining cooldown in milliseconds, if the breaker is open.
    pub cooldown_left_ms: Option<u64>,
}

impl BreakerReport {
    /// Counter name with the key, if present.
    #[must_use]
    pub fn counter_key(&self) -> String {
        match &self.key {
            Some(key) => format!("{}:{key}", self.counter),
            None => self.counter.clone(),
        }
    }
}

/// A plan awaiting approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting<'a> {
    /// The plan digest that an approval is bound to.
    pub digest: &'a str,
    /// The question asked.
    pub question: &'a str,
    /// Who requested the plan; only they may approve it.
    pub requester: Option<&'a str>,
    /// Expiry time, in milliseconds since 1970.
    pub expires: Option<u64>,
    /// Sequence number of the event that asked the question.
    pub request_seq: u64,
    /// Sequence numbers of the events that requested the plan or one of its steps.
    pub requesters: &'a [u64],
    /// The plan as JSON; `None` if it is longer than [`crate::limits::MAX_PLAN_BYTES`].
    pub plan: Option<&'a str>,
}

/// Session status, cheap enough to compute after every event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusSummary<'a> {
    /// Phase of the session.
    pub status: SessionPhase,
    /// Number of `warn` decisions.
    pub warnings: u64,
    /// Number of `block` decisions.
    pub blocks: u64,
    /// Number of `halt` decisions.
    pub halts: u64,
    /// The guard and message that stopped the session, if it is stopped.
    pub stopped_by: Option<(&'a str, Cow<'a, str>)>,
    /// Whether the human-in-the-loop label is set.
    pub labeled: bool,
}

/// A stop by a person that was not lifted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorStop<'a> {
    /// Message with the author and the reason: `stopped by anna: wrong branch`.
    pub message: Cow<'a, str>,
    /// Sequence number of the stop.
    pub seq: u64,
}

/// A halt or block by a guard that was not released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardHold<'a> {
    /// Guard name to release.
    pub guard: &'a str,
    /// Message of the trip.
    pub message: &'a str,
    /// Sequence number of the event that it stopped.
    pub seq: u64,
}

/// The cause of a stop.
struct StopCause<'a> {
    guard: &'a str,
    reason: &'a str,
    halt_reason: Option<HaltReason>,
    message: Cow<'a, str>,
}

impl SessionState {
    /// The plan awaiting approval, if any.
    #[must_use]
    pub fn pending_plan(&self) -> Option<Waiting<'_>> {
        self.guards.confirmation.pending_plan()
    }

    /// Stops by people that were not lifted, oldest first. Only a release of the guard `human` lifts them.
    pub fn operator_stops(&self) -> impl Iterator<Item = OperatorStop<'_>> {
        let latched = self.halted.as_ref().filter(|latch| latch.guard == STOP_GUARD);
        let latched =
            latched.map(|latch| OperatorStop { message: Cow::Borrowed(&latch.message), seq: latch.seq });
        let listed = self.stops.iter();
        let listed = listed.map(|stop| OperatorStop { message: Cow::Owned(stop.message()), seq: stop.seq });
        latched.into_iter().chain(listed)
    }

    /// The active halt or block by a guard, which a release without a guard name lifts.
    #[must_use]
    pub fn guard_hold(&self) -> Option<GuardHold<'_>> {
        let by_guard = |latch: &&Latch| latch.guard != STOP_GUARD;
        let latch =
            self.halted.as_ref().filter(by_guard).or_else(|| self.blocked.as_ref().filter(by_guard))?;
        Some(GuardHold { guard: &latch.guard, message: &latch.message, seq: latch.seq })
    }

    /// The block that the label represents, if the label is set. Removing the label releases only this block: never a
    /// halt, and never a person's stop.
    #[must_use]
    pub fn label_hold(&self) -> Option<GuardHold<'_>> {
        let latch = self.blocked.as_ref().filter(|latch| self.labeled && latch.guard != STOP_GUARD)?;
        Some(GuardHold { guard: &latch.guard, message: &latch.message, seq: latch.seq })
    }

    /// Whether the session needs a release before it may continue, even after it has ended.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_halted() || self.blocked.is_some()
    }

    /// Why the session is stopped, if it is: a person's stop first, then a halt, then a block.
    fn stop_cause(&self) -> Option<StopCause<'_>> {
        if let Some(stop) = self.stops.first() {
            return Some(StopCause {
                guard: "human",
                reason: "user_stop",
                halt_reason: Some(HaltReason::UserStop),
                message: Cow::Owned(stop.message()),
            });
        }
        let latch = self.halted.as_ref().or(self.blocked.as_ref())?;
        Some(StopCause {
            guard: &latch.guard,
            reason: &latch.reason,
            halt_reason: self.halted.as_ref().map(|latch| latch.halt_reason),
            message: Cow::Borrowed(&latch.message),
        })
    }

    /// The session status.
    #[must_use]
    pub fn status_summary(&self) -> StatusSummary<'_> {
        let cause = self.stop_cause();
        StatusSummary {
            status: self.status(),
            warnings: self.totals.warnings,
            blocks: self.totals.blocks,
            halts: self.totals.halts,
            stopped_by: cause.map(|cause| (cause.guard, cause.message)),
            labeled: self.labeled,
        }
    }

    /// The session report at the time of its last event.
    #[must_use]
    pub fn report(&self, policy: &Policy) -> SessionReport {
        self.report_at(policy, self.now)
    }

    /// Nonzero counters of operations, by name.
    fn retry_counters(&self, breakers: &[BreakerReport]) -> BTreeMap<String, u64> {
        let failed = breakers.iter().filter(|breaker| breaker.attempts > 0);
        let mut counters: BTreeMap<String, u64> =
            failed.map(|breaker| (breaker.counter_key(), breaker.attempts)).collect();
        let unclear = self.guards.confirmation.unclear_answers();
        if unclear > 0 {
            counters.insert("_confirmation_attempts".to_owned(), unclear);
        }
        counters
    }

    /// The session report at `now`, in milliseconds since 1970, which must not precede the last event.
    #[must_use]
    pub fn report_at(&self, policy: &Policy, now: u64) -> SessionReport {
        let now = now.max(self.now);
        let breakers = self.guards.retry.breaker_reports(policy, now);
        let SessionCounters { calls, turns, transitions, errors, tokens, cost_micro_usd, .. } =
            self.counters();
        let loops = self.position.loops().map(|(shape, used)| {
            let limit = self.guards.budget.loop_iteration_limit(&shape.id, policy.budgets.loops.iterations);
            LoopReport {
                id: shape.id.clone(),
                header: shape.header.clone(),
                nodes: shape.nodes.clone(),
                iterations: used.iterations,
                limit,
                badge: match limit {
                    Some(limit) => format!("Loop {}/{limit}", used.iterations),
                    None => format!("Loop {}", used.iterations),
                },
            }
        });
        let nodes = self.position.workflow().map_or(&[][..], |workflow| &workflow.nodes);
        let cause = self.stop_cause();
        SessionReport {
            status: self.status(),
            events: self.seq,
            calls,
            turns,
            transitions,
            errors,
            tokens,
            cost_micro_usd,
            active_ms: self.active_ms,
            warnings: self.totals.warnings,
            blocks: self.totals.blocks,
            halts: self.totals.halts,
            releases: self.releases.clone(),
            stopped_by: cause.as_ref().map(|cause| format!("{}: {}", cause.guard, cause.message)),
            reason: cause.as_ref().map(|cause| cause.reason.to_owned()),
            ending: cause.as_ref().and_then(|cause| ending_kind(cause.reason)),
            halt_reason: cause.as_ref().and_then(|cause| cause.halt_reason),
            rules_version: self.rules.number(),
            confirmation: self.guards.confirmation.phase(),
            approvals: self.guards.confirmation.unused_approvals(now).len() as u64,
            counters: self.retry_counters(&breakers),
            breakers,
            node: self.position.node().map(str::to_owned),
            trail: self.position.trail(policy.shown_history(self.rules)),
            history: self.transition_history(policy),
            visits: nodes.iter().map(|node| (node.clone(), self.guards.visits.count(node))).collect(),
            loops: loops.collect(),
            budgets: self.budget_reports(policy),
            trends: self
                .guards
                .stall
                .trends()
                .map(|(name, trend)| (name.to_owned(), trend.to_vec()))
                .collect(),
            tools: self.tool_usage.tools().clone(),
            off: disabled_guards(policy),
        }
    }

    fn budget_reports(&self, policy: &Policy) -> Vec<BudgetReport> {
        let (budget, session, loops) = (&self.guards.budget, &policy.budgets.session, &policy.budgets.loops);
        let of_session = [
            ("runtime_ms", session.runtime_ms, self.active_ms),
            ("turns", session.turns, budget.turns),
            ("iterations", session.iterations, budget.iterations),
            ("tokens", session.tokens, budget.used.tokens()),
            ("cost_micro_usd", session.cost_micro_usd, budget.used.cost_micro_usd),
            ("tool_calls", session.tool_calls, budget.calls),
        ];
        let of_session = of_session.into_iter().filter_map(|(name, limit, used)| {
            let limit = budget.raised_limit("session", name, "", limit)?;
            Some(BudgetReport { scope: "session", whose: None, name, limit, used })
        });
        let of_loops = self.position.loops().flat_map(|(shape, used)| {
            let all = [
                ("iterations", loops.iterations, used.iterations),
                ("runtime_ms", loops.runtime_ms, used.runtime_ms),
                ("cost_micro_usd", loops.cost_micro_usd, used.cost_micro_usd),
            ];
            all.into_iter().filter_map(|(name, limit, used)| {
                let limit = budget.raised_limit("loop", name, &shape.id, limit)?;
                Some(BudgetReport { scope: "loop", whose: Some(shape.id.clone()), name, limit, used })
            })
        });
        of_session.chain(of_loops).collect()
    }

    fn transition_history(&self, policy: &Policy) -> TransitionHistory {
        let cycles = &policy.guards.cycle.transitions;
        let shown = self.position.recent_transitions(policy.shown_history(self.rules));
        TransitionHistory {
            max_history: cycles.max_history,
            effective: cycles.history_needed(),
            recent: shown
                .map(|(from, to)| NodeTransition { from: from.to_owned(), to: to.to_owned() })
                .collect(),
        }
    }

    /// The session's workflow, if declared.
    #[must_use]
    pub fn workflow(&self) -> Option<&crate::graph::Workflow> {
        self.position.workflow()
    }
}

/// Names of the guards whose mode is `off`, including `budget`.
fn disabled_guards(policy: &Policy) -> Vec<&'static str> {
    let guards = policy.guards.modes();
    let budgets = ("budget", policy.budgets.mode);
    [budgets]
        .into_iter()
        .chain(guards)
        .filter(|(_, mode)| *mode == GuardMode::Off)
        .map(|(name, _)| name)
        .collect()
}
