//! What a person may want to know of a session besides its decisions: counters, loops, trends.

use crate::confirm::Phase;
use crate::decision::{HaltReason, Status};
use crate::guards::share;
use crate::lifecycle::STOP_GUARD;
use crate::policy::{Counters, Guards, Mode, Policy};
use crate::reasons::{Ending, ending};
use crate::state::{Latch, State};
use crate::tally::ToolUse;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// One loop of the session's workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoopReport {
    /// The stable id.
    pub id: String,
    /// The node where an iteration begins.
    pub header: String,
    /// All its nodes.
    pub nodes: Vec<String>,
    /// Completed iterations.
    pub iterations: u64,
    /// Iterations allowed.
    pub limit: Option<u64>,
    /// The badge: `Loop 3/8`.
    pub badge: String,
}

/// A budget of the session or of one of its loops, with what people have added to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BudgetReport {
    /// `session` or `loop`.
    pub scope: &'static str,
    /// The id of the loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whose: Option<String>,
    /// `runtime_ms`, `turns`, `iterations`, `tokens`, `tool_calls` or `cost_micro_usd`.
    pub name: &'static str,
    /// What is allowed.
    pub limit: u64,
    /// What is used.
    pub used: u64,
}

impl BudgetReport {
    /// What is left of it, for a sentence: `6 of 8 iterations`.
    #[must_use]
    pub fn left(&self) -> String {
        let left = self.limit.saturating_sub(self.used);
        let share = share(self.name, left, self.limit);
        let unit = if self.name == "runtime_ms" { " at work" } else { "" };
        match &self.whose {
            Some(whose) => format!("{share}{unit} in {whose}"),
            None => format!("{share}{unit}"),
        }
    }
}

/// One transition between nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Transition {
    /// The node it left.
    pub from: String,
    /// The node it entered.
    pub to: String,
}

/// The transitions that a report shows, and how many the rules against cycles look back at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransitionHistory {
    /// How many are shown at most: `max_history` of the policy.
    pub max_history: u64,
    /// How many the rules look back at: `max_history`, or more where a rule needs more.
    pub effective: u64,
    /// The last ones, oldest first.
    pub recent: Vec<Transition>,
}

/// A session at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What it is doing.
    pub status: Status,
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
    /// Tokens so far, children included.
    pub tokens: u64,
    /// Millionths of a dollar so far, children included.
    pub cost_micro_usd: u64,
    /// Time at work.
    pub active_ms: u64,
    /// Decisions `warn`, `block` and `halt` so far.
    pub warnings: u64,
    /// See `warnings`.
    pub blocks: u64,
    /// See `warnings`.
    pub halts: u64,
    /// Releases so far, by guard.
    pub releases: BTreeMap<String, u64>,
    /// Why it stands still, if it does.
    pub stopped_by: Option<String>,
    /// The fine reason why it stands still, if it does.
    pub reason: Option<String>,
    /// What kind of end that reason means.
    pub ending: Option<Ending>,
    /// The coarse reason, if it is halted.
    pub halt_reason: Option<HaltReason>,
    /// The version of the decision rules that the session started under.
    pub rules_version: u64,
    /// Where a plan that needs a yes is.
    pub confirmation: Phase,
    /// Approved steps that were not used yet.
    pub approvals: u64,
    /// The counters of operations that have failed and not succeeded since: `_confirmation_attempts`,
    /// `_correction_retries`, `_<operation>_retries`; those with a key as `_<operation>_retries:KEY`.
    pub counters: BTreeMap<String, u64>,
    /// The breakers of these operations.
    pub breakers: Vec<BreakerReport>,
    /// The node at work.
    pub node: Option<String>,
    /// The way through the nodes, oldest first.
    pub trail: Vec<String>,
    /// The last transitions, and how many the rules against cycles look back at.
    pub history: TransitionHistory,
    /// Visits of each node of the workflow.
    pub visits: BTreeMap<String, u32>,
    /// The loops of the workflow.
    pub loops: Vec<LoopReport>,
    /// The budgets of the session and its loops that have a limit.
    pub budgets: Vec<BudgetReport>,
    /// Measured values by signal.
    pub trends: BTreeMap<String, Vec<i64>>,
    /// What each tool was asked for, was refused and failed at.
    pub tools: BTreeMap<String, ToolUse>,
    /// The guards that the policy has switched off, so that nobody believes them at work.
    pub off: Vec<&'static str>,
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Attempts are allowed.
    Closed,
    /// Nothing is tried until the cooldown is over.
    Open,
    /// The cooldown is over: one probe is allowed, or under way.
    HalfOpen,
}

impl BreakerState {
    /// The word as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
        }
    }
}

/// The retry counter and breaker of one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BreakerReport {
    /// The operation, shortened.
    pub operation: String,
    /// Its key, shortened, if it has one.
    pub key: Option<String>,
    /// The name of the counter: `_correction_retries`.
    pub counter: String,
    /// Failed attempts since the last success.
    pub attempts: u64,
    /// Attempts allowed.
    pub limit: Option<u64>,
    /// The state of the breaker.
    pub state: BreakerState,
    /// How often it has opened.
    pub trips: u64,
    /// How long it stays open, in milliseconds, if it is open.
    pub cooldown_left_ms: Option<u64>,
}

impl BreakerReport {
    /// The name of the counter, with the key if there is one.
    #[must_use]
    pub fn counter_key(&self) -> String {
        match &self.key {
            Some(key) => format!("{}:{key}", self.counter),
            None => self.counter.clone(),
        }
    }
}

/// A plan that waits for a person's yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting<'a> {
    /// The digest that an approval is bound to.
    pub digest: &'a str,
    /// The question that was put.
    pub question: &'a str,
    /// Who asked for it; only they may say yes.
    pub requester: Option<&'a str>,
    /// When a yes comes too late, in milliseconds since 1970.
    pub expires: Option<u64>,
    /// The number of the event that put the question.
    pub asked: u64,
    /// The numbers of the events that asked for the plan or for a step of it.
    pub askers: &'a [u64],
    /// The plan as JSON; nothing if it is longer than [`crate::limits::PLAN_BYTES`].
    pub plan: Option<&'a str>,
}

/// How a session stands, cheap enough to be asked after every event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing<'a> {
    /// What it is doing.
    pub status: Status,
    /// Decisions `warn`, `block` and `halt` so far.
    pub warnings: u64,
    /// See `warnings`.
    pub blocks: u64,
    /// See `warnings`.
    pub halts: u64,
    /// The guard and the sentence that stopped it, if it stands still.
    pub stopped_by: Option<(&'a str, Cow<'a, str>)>,
    /// Whether the label that calls a person is set.
    pub labelled: bool,
}

/// A person's stop that still holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorStop<'a> {
    /// Who stopped the session, and why: `stopped by anna: wrong branch`.
    pub message: Cow<'a, str>,
    /// The number of the event that stopped it.
    pub seq: u64,
}

/// A guard's halt or block that still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardHold<'a> {
    /// The guard that a release names.
    pub guard: &'a str,
    /// What it found.
    pub message: &'a str,
    /// The number of the event that it stopped.
    pub seq: u64,
}

/// What stopped a session.
struct StopCause<'a> {
    guard: &'a str,
    reason: &'a str,
    halt_reason: Option<HaltReason>,
    message: Cow<'a, str>,
}

impl State {
    /// The plan that waits for a yes, if one does.
    #[must_use]
    pub fn waiting(&self) -> Option<Waiting<'_>> {
        self.watch.confirmation.waiting()
    }

    /// The stops by people that still hold, oldest first. Only a release that names the guard `human` lifts them.
    pub fn operator_stops(&self) -> impl Iterator<Item = OperatorStop<'_>> {
        let latched = self.halted.as_ref().filter(|latch| latch.guard == STOP_GUARD);
        let latched =
            latched.map(|latch| OperatorStop { message: Cow::Borrowed(&latch.message), seq: latch.seq });
        let listed = self.stops.iter();
        let listed = listed.map(|stop| OperatorStop { message: Cow::Owned(stop.message()), seq: stop.seq });
        latched.into_iter().chain(listed)
    }

    /// The halt or block by a guard that still holds; what a release without a guard would lift.
    #[must_use]
    pub fn guard_hold(&self) -> Option<GuardHold<'_>> {
        let by_guard = |latch: &&Latch| latch.guard != STOP_GUARD;
        let latch =
            self.halted.as_ref().filter(by_guard).or_else(|| self.blocked.as_ref().filter(by_guard))?;
        Some(GuardHold { guard: &latch.guard, message: &latch.message, seq: latch.seq })
    }

    /// The block that the label stands for, if the label is set. Taking the label off releases this, and nothing else: no
    /// halt, and never a person's stop.
    #[must_use]
    pub fn label_hold(&self) -> Option<GuardHold<'_>> {
        let latch = self.blocked.as_ref().filter(|latch| self.labelled && latch.guard != STOP_GUARD)?;
        Some(GuardHold { guard: &latch.guard, message: &latch.message, seq: latch.seq })
    }

    /// Whether a release is needed before the session may continue, also after it has ended.
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

    /// How the session stands.
    #[must_use]
    pub fn standing(&self) -> Standing<'_> {
        let cause = self.stop_cause();
        Standing {
            status: self.status(),
            warnings: self.totals.warnings,
            blocks: self.totals.blocks,
            halts: self.totals.halts,
            stopped_by: cause.map(|cause| (cause.guard, cause.message)),
            labelled: self.labelled,
        }
    }

    /// The session at a glance, at the time of its last event.
    #[must_use]
    pub fn report(&self, policy: &Policy) -> Report {
        self.report_at(policy, self.now)
    }

    /// The counters of operations by their names, without those at zero.
    fn retry_counters(&self, breakers: &[BreakerReport]) -> BTreeMap<String, u64> {
        let failed = breakers.iter().filter(|breaker| breaker.attempts > 0);
        let mut counters: BTreeMap<String, u64> =
            failed.map(|breaker| (breaker.counter_key(), breaker.attempts)).collect();
        let unclear = self.watch.confirmation.attempts();
        if unclear > 0 {
            counters.insert("_confirmation_attempts".to_owned(), unclear);
        }
        counters
    }

    /// The session at a glance, at a time in milliseconds since 1970 that is not before its last event.
    #[must_use]
    pub fn report_at(&self, policy: &Policy, now: u64) -> Report {
        let now = now.max(self.now);
        let breakers = self.watch.retry.breakers(policy, now);
        let Counters { calls, turns, transitions, errors, tokens, cost_micro_usd, .. } = self.counters();
        let loops = self.flow.loops().map(|(shape, used)| {
            let limit = self.watch.budget.iterations_of(&shape.id, policy.budgets.loops.iterations);
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
        let nodes = self.flow.workflow().map_or(&[][..], |workflow| &workflow.nodes);
        let cause = self.stop_cause();
        Report {
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
            ending: cause.as_ref().and_then(|cause| ending(cause.reason)),
            halt_reason: cause.as_ref().and_then(|cause| cause.halt_reason),
            rules_version: self.rules.number(),
            confirmation: self.watch.confirmation.phase(),
            approvals: self.watch.confirmation.unused(now).len() as u64,
            counters: self.retry_counters(&breakers),
            breakers,
            node: self.flow.node().map(str::to_owned),
            trail: self.flow.trail(policy.shown_history(self.rules)),
            history: self.history(policy),
            visits: nodes.iter().map(|node| (node.clone(), self.watch.visits.count(node))).collect(),
            loops: loops.collect(),
            budgets: self.budgets(policy),
            trends: self
                .watch
                .stall
                .trends()
                .map(|(name, trend)| (name.to_owned(), trend.to_vec()))
                .collect(),
            tools: self.tally.tools().clone(),
            off: switched_off(policy),
        }
    }

    fn budgets(&self, policy: &Policy) -> Vec<BudgetReport> {
        let (budget, session, loops) = (&self.watch.budget, &policy.budgets.session, &policy.budgets.loops);
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
        let of_loops = self.flow.loops().flat_map(|(shape, used)| {
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

    fn history(&self, policy: &Policy) -> TransitionHistory {
        let cycles = &policy.guards.cycle.transitions;
        let shown = self.flow.recent(policy.shown_history(self.rules));
        TransitionHistory {
            max_history: cycles.max_history,
            effective: cycles.history_needed(),
            recent: shown.map(|(from, to)| Transition { from: from.to_owned(), to: to.to_owned() }).collect(),
        }
    }

    /// The workflow of the session, if it has one.
    #[must_use]
    pub fn workflow(&self) -> Option<&crate::graph::Workflow> {
        self.flow.workflow()
    }
}

/// The names of the guards whose mode is `off`, the budgets among them.
fn switched_off(policy: &Policy) -> Vec<&'static str> {
    let guards = Guards::NAMES.into_iter().zip(policy.guards.modes());
    let budgets = ("budget", policy.budgets.mode);
    [budgets].into_iter().chain(guards).filter(|(_, mode)| *mode == Mode::Off).map(|(name, _)| name).collect()
}
