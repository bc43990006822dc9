//! `budget`: limits for a session, a turn, a node, a loop or one message.
//!
//! Amounts (time, tokens, money) trip when usage exceeds the limit; counts (turns, calls, iterations, transitions) are
//! capacities, checked before the act. An exhausted budget halts, and a release raises it by a bounded step. The step
//! is added to the usage at the time the work continues, so a release always allows at least one more step, no matter
//! how far the last one exceeded the limit. A child session also draws on the budgets of its ancestors.

use super::budget_check::{
    BudgetCheck, BudgetGrant, ExhaustedBudget, format_usage, grant_key, raised_key, trip_message,
};
use super::info::GuardInfo;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::{BoundedMap, push_bounded};
use crate::decision::{HaltReason, TripSeverity};
use crate::event::{EventKind, MessageOrigin, Usage};
use crate::fingerprint::Fingerprint;
use crate::limits::NODES;
use crate::policy::{GuardMode, Policy};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use crate::state::read_layout;
use crate::workflow_position::WorkflowPosition;
use serde::{Deserialize, Serialize};

/// The declaration of the guard; its settings are the budgets (`policy/budgets.rs`).
pub(super) const INFO: GuardInfo =
    GuardInfo::new(RulesVersion::V1, "Limits on time, turns, tokens and cost.")
        .table(
            "time, turns, tokens, money of a session, turn, node, loop, message, and of the parents",
            "warn before the end, then halt (message: block)",
        )
        .reasons(&[
            Reason::exhausted("max_runtime", USED_UP),
            Reason::exhausted("max_turns", USED_UP),
            Reason::exhausted("max_iterations", USED_UP),
            Reason::exhausted("max_tokens", USED_UP),
            Reason::exhausted("max_cost", USED_UP),
            Reason::exhausted("max_steps", USED_UP),
            Reason::exhausted("turn_timeout", USED_UP),
            Reason::exhausted("node_budget", USED_UP),
            Reason::exhausted("max_cycle_iterations", USED_UP),
        ]);

const USED_UP: &str = "A budget is used up. An operator can raise it.";

/// Budget data of an ancestor session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ancestor {
    /// Session name.
    pub session: String,
    /// Whether it is halted, which also halts its children.
    pub halted: bool,
    /// Usage of the session and all its children.
    pub used: Usage,
    /// Token limit.
    pub tokens: Option<u64>,
    /// Cost limit, in millionths of a dollar.
    pub cost_micro_usd: Option<u64>,
}

/// The ancestors of a session, nearest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ancestors {
    /// The ancestors.
    pub nearest_first: Vec<Ancestor>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct NodeUsage {
    turns: u32,
    runtime_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OpenTurn {
    node: Fingerprint,
    started: u64,
    tokens: u64,
}

/// Budget usage and grants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BudgetGuard {
    /// Usage of this session and all its children.
    pub(crate) used: Usage,
    pub(crate) turns: u64,
    pub(crate) calls: u64,
    pub(crate) iterations: u64,
    message_transitions: u64,
    message_calls: u64,
    turn: Option<OpenTurn>,
    nodes: BoundedMap<NodeUsage, NODES>,
    /// Raised by releases, by scope and name.
    raised: BoundedMap<u64, MAX_WARNED>,
    /// Budgets already warned about, by scope and name.
    warned: Vec<Fingerprint>,
    /// Granted by releases but not yet applied: added to the usage at the next check of the budget.
    granted: BoundedMap<u64, MAX_WARNED>,
    /// Largest token and cost usage of one event.
    largest_event: LargestEvent,
}

/// Largest usage of one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LargestEvent {
    tokens: u64,
    cost_micro_usd: u64,
}

/// Layout 1 of the state, before grants were stored separately.
#[derive(Deserialize)]
struct BudgetLayout1 {
    used: Usage,
    turns: u64,
    calls: u64,
    iterations: u64,
    message_transitions: u64,
    message_calls: u64,
    turn: Option<OpenTurn>,
    nodes: BoundedMap<NodeUsage, NODES>,
    raised: BoundedMap<u64, MAX_WARNED>,
    warned: Vec<Fingerprint>,
}

impl From<BudgetLayout1> for BudgetGuard {
    fn from(old: BudgetLayout1) -> Self {
        BudgetGuard {
            used: old.used,
            turns: old.turns,
            calls: old.calls,
            iterations: old.iterations,
            message_transitions: old.message_transitions,
            message_calls: old.message_calls,
            turn: old.turn,
            nodes: old.nodes,
            raised: old.raised,
            warned: old.warned,
            ..BudgetGuard::default()
        }
    }
}

const MAX_WARNED: usize = 32;
/// Minimum time that a release grants if the policy sets no turn timeout: the default turn timeout.
const DEFAULT_TURN_MS: u64 = 600_000;

/// Result of a budget check: the warnings issued, and the grants applied with their limits.
#[derive(Default)]
struct BudgetCheckResult {
    warned: Vec<Fingerprint>,
    started_grants: Vec<(Fingerprint, u64)>,
}

/// Position of a session, used to compute the remaining time before its next event.
pub(crate) struct BudgetPosition<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) flow: &'a WorkflowPosition,
    pub(crate) node: Option<&'a str>,
    pub(crate) active_ms: u64,
    pub(crate) wall_ms: u64,
}

impl BudgetGuard {
    fn limit(&self, line: &BudgetCheck<'_>) -> Option<u64> {
        if self.raised.is_empty() && self.granted.is_empty() {
            return line.limit;
        }
        let raised_by = |key| self.raised.get(key).copied().unwrap_or(0);
        let own = raised_by(raised_key(line.scope, line.name, line.owner));
        let limit =
            line.limit?.saturating_add(own.max(raised_by(grant_key(line.scope, line.name, line.owner))));
        Some(match self.granted.get(grant_key(line.scope, line.name, line.owner)) {
            Some(step) => limit.max(line.used).saturating_add(*step),
            None => limit,
        })
    }

    /// Iteration limit of a loop, including raises by releases.
    pub(crate) fn loop_iteration_limit(&self, id: &str, limit: Option<u64>) -> Option<u64> {
        self.raised_limit("loop", "iterations", id, limit)
    }

    /// A limit, including raises by releases.
    pub(crate) fn raised_limit(
        &self,
        scope: &str,
        name: &str,
        whose: &str,
        limit: Option<u64>,
    ) -> Option<u64> {
        self.limit(&BudgetCheck::count(scope, name, "").for_owner(whose).with_usage(0, limit))
    }

    /// Checks one budget: trips if it is exhausted, warns once when it is nearly exhausted.
    fn check_budget(
        &self,
        cx: &GuardContext<'_>,
        line: &BudgetCheck<'_>,
        trips: &mut Trips,
        looked: &mut BudgetCheckResult,
    ) {
        let mode = cx.policy.budgets.mode;
        let Some(limit) = self.limit(line).filter(|_| mode.is_on()) else { return };
        let key = grant_key(line.scope, line.name, line.owner);
        if self.granted.contains(key) {
            looked.started_grants.push((key, limit.saturating_sub(line.limit.unwrap_or(0))));
        }
        let warned = &mut looked.warned;
        let asks = cx.event.kind.is_request();
        let over = if line.count { asks && line.used >= limit } else { line.used > limit };
        if over {
            let enforced = matches!(mode, GuardMode::Block | GuardMode::Halt | GuardMode::Staged);
            let key = line.key(1);
            if enforced || !self.warned.contains(&key) {
                warned.push(key);
                trips.add(mode, self.trip(cx, line, limit, line.severity, trip_message(cx, line, limit)));
            }
            return;
        }
        let Some(percent) = cx.policy.budgets.warn_percent.filter(|_| limit >= 3) else { return };
        let (used, near) = if line.count {
            (line.used + 1, asks && line.used + 2 == limit)
        } else {
            (line.used, u128::from(line.used) * 100 >= u128::from(percent) * u128::from(limit))
        };
        let key = if near { line.key(0) } else { return };
        if !self.warned.contains(&key) {
            warned.push(key);
            let (usage, scope) = (format_usage(line.name, used, limit), line.scope);
            let message = cx.rules.wording(
                format!("{usage} of the {scope} budget are used"),
                format!("the {scope} budget is nearly used up: {usage}"),
            );
            trips.add(mode, self.trip(cx, line, limit, TripSeverity::Warn, message));
        }
    }

    fn trip(
        &self,
        cx: &GuardContext<'_>,
        line: &BudgetCheck<'_>,
        limit: u64,
        severity: TripSeverity,
        message: String,
    ) -> TripBuilder {
        let draft = TripBuilder::new("budget", line.reason, severity, message.clone())
            .budget(line.scope, line.name, limit, line.used)
            .events(vec![cx.seq])
            .trail(cx.trail())
            .actions(&["raise_budget", "switch_to_interactive", "stop"])
            .halt_reason(HaltReason::BudgetExceeded)
            .feedback(if severity == TripSeverity::Warn {
                format!("{message}. {}", cx.rules.wording("Come to an end.", "Wrap up."))
            } else {
                format!("{message}. The work stops here until a person raises the budget.")
            });
        let whose = if line.owner.is_empty() { line.name } else { line.owner };
        draft.scope(line.scope, whose)
    }

    fn check_amounts(&self, cx: &GuardContext<'_>, trips: &mut Trips, looked: &mut BudgetCheckResult) {
        let session = &cx.policy.budgets.session;
        let mut look = |line: BudgetCheck<'_>| self.check_budget(cx, &line, trips, looked);
        let amount = |name, reason| BudgetCheck::amount("session", name, reason);
        look(amount("runtime_ms", "max_runtime").with_usage(cx.active_ms, session.runtime_ms));
        look(amount("wall_ms", "max_runtime").with_usage(cx.wall_ms, session.wall_ms));
        look(amount("tokens", "max_tokens").with_usage(self.used.tokens(), session.tokens));
        look(
            amount("cost_micro_usd", "max_cost").with_usage(self.used.cost_micro_usd, session.cost_micro_usd),
        );
        for above in cx.ancestors.nearest_first.iter().take(crate::limits::TREE_DEPTH) {
            let amount = |name, reason| BudgetCheck::amount("tree", name, reason).for_owner(&above.session);
            look(amount("tokens", "max_tokens").with_usage(above.used.tokens(), above.tokens));
            look(
                amount("cost_micro_usd", "max_cost")
                    .with_usage(above.used.cost_micro_usd, above.cost_micro_usd),
            );
        }
        self.check_turn_and_loops(cx, trips, looked);
    }

    fn check_turn_and_loops(&self, cx: &GuardContext<'_>, trips: &mut Trips, looked: &mut BudgetCheckResult) {
        let budgets = &cx.policy.budgets;
        let mut look = |line: BudgetCheck<'_>| self.check_budget(cx, &line, trips, looked);
        if let Some(turn) = &self.turn {
            let told = match &cx.event.kind {
                EventKind::TurnFinished { duration_ms, .. } => duration_ms.unwrap_or(0),
                _ => 0,
            };
            let elapsed = cx.active_ms.saturating_sub(turn.started).max(told);
            let node = cx.event.node.as_deref().unwrap_or("");
            let amount = |name, reason| BudgetCheck::amount("turn", name, reason).for_owner(node);
            look(amount("timeout_ms", "turn_timeout").with_usage(elapsed, budgets.turn.timeout_ms));
            look(amount("tokens", "max_tokens").with_usage(turn.tokens, budgets.turn.tokens));
            // Normally checked before the next turn; an interruption reports that the node's time is up.
            if matches!(cx.event.kind, EventKind::TurnInterrupted { .. }) {
                let spent = self.nodes.get(turn.node).map_or(0, |used| used.runtime_ms);
                let line = BudgetCheck::amount("node", "runtime_ms", "node_budget").for_owner(node);
                look(
                    line.with_usage(
                        spent.saturating_add(elapsed),
                        cx.policy.budget_for_node(node).runtime_ms,
                    ),
                );
            }
        }
        for (shape, used) in cx.position.active_loops() {
            let amount = |name, reason| BudgetCheck::amount("loop", name, reason).for_owner(&shape.id);
            look(amount("runtime_ms", "max_runtime").with_usage(used.runtime_ms, budgets.loops.runtime_ms));
            look(
                amount("cost_micro_usd", "max_cost")
                    .with_usage(used.cost_micro_usd, budgets.loops.cost_micro_usd),
            );
        }
    }

    /// Checks the capacities that a request would use.
    fn check_counts(&self, cx: &GuardContext<'_>, trips: &mut Trips, looked: &mut BudgetCheckResult) {
        let budgets = &cx.policy.budgets;
        let mut look = |line: BudgetCheck<'_>| self.check_budget(cx, &line, trips, looked);
        match &cx.event.kind {
            EventKind::TurnStarted {} => {
                look(
                    BudgetCheck::count("session", "turns", "max_turns")
                        .with_usage(self.turns, budgets.session.turns),
                );
                if let Some(node) = cx.event.node.as_deref() {
                    self.check_node_counts(cx, node, trips, looked);
                }
            }
            EventKind::ToolRequested { .. } => {
                let line = BudgetCheck::count("session", "iterations", "max_iterations");
                if cx.facts.new_model_response {
                    look(line.with_usage(self.iterations, budgets.session.iterations));
                } else if cx.rules > RulesVersion::V1 {
                    // The response that this call belongs to has already started and was counted.
                    look(line.with_usage(self.iterations.saturating_sub(1), budgets.session.iterations));
                }
                let calls = |scope| BudgetCheck::count(scope, "tool_calls", "max_steps");
                look(calls("session").with_usage(self.calls, budgets.session.tool_calls));
                look(calls("message").with_usage(self.message_calls, budgets.message.tool_calls));
            }
            EventKind::TransitionRequested { .. } => {
                let line = BudgetCheck::count("message", "transitions", "max_steps");
                look(line.with_usage(self.message_transitions, budgets.message.transitions));
                if let Some((shape, used)) = cx.position.loop_closed_by(cx.event) {
                    let line =
                        BudgetCheck::count("loop", "iterations", "max_cycle_iterations").for_owner(&shape.id);
                    look(line.with_usage(used.iterations, budgets.loops.iterations));
                }
            }
            _ => {}
        }
    }

    fn check_node_counts(
        &self,
        cx: &GuardContext<'_>,
        node: &str,
        trips: &mut Trips,
        looked: &mut BudgetCheckResult,
    ) {
        let budget = cx.policy.budget_for_node(node);
        let turns = if cx.position.in_loop(node) {
            budget.turns_in_loop(cx.policy.budgets.loops.iterations)
        } else {
            budget.turns
        };
        let unused = NodeUsage::default();
        let used = self.nodes.get(Fingerprint::of_text(node)).unwrap_or(&unused);
        let mut look = |line: BudgetCheck<'_>| self.check_budget(cx, &line, trips, looked);
        let count = |name| BudgetCheck::count("node", name, "node_budget").for_owner(node);
        look(count("turns").with_usage(u64::from(used.turns), turns));
        look(count("runtime_ms").with_usage(used.runtime_ms, budget.runtime_ms));
    }

    fn record_usage(&mut self, cx: &GuardContext<'_>) {
        self.used.add(&cx.event.usage);
        self.largest_event.tokens = self.largest_event.tokens.max(cx.event.usage.tokens());
        self.largest_event.cost_micro_usd =
            self.largest_event.cost_micro_usd.max(cx.event.usage.cost_micro_usd);
        if let Some(turn) = &mut self.turn {
            turn.tokens = turn.tokens.saturating_add(cx.event.usage.tokens());
        }
        if cx.facts.new_model_response {
            self.iterations = self.iterations.saturating_add(1);
        }
        match &cx.event.kind {
            EventKind::TurnStarted {} => {
                self.turns = self.turns.saturating_add(1);
                let node = Fingerprint::of_text(cx.event.node.as_deref().unwrap_or(""));
                let used = self.nodes.entry(node);
                used.turns = used.turns.saturating_add(1);
                self.turn = Some(OpenTurn { node, started: cx.active_ms, tokens: cx.event.usage.tokens() });
            }
            EventKind::ToolRequested { .. } => {
                self.calls = self.calls.saturating_add(1);
                self.message_calls = self.message_calls.saturating_add(1);
            }
            EventKind::TransitionRequested { .. } => {
                self.message_transitions = self.message_transitions.saturating_add(1)
            }
            EventKind::UserMessage { origin: MessageOrigin::Human, .. } => {
                self.message_transitions = 0;
                self.message_calls = 0;
            }
            _ => {}
        }
    }

    /// Adds the usage of a child session.
    pub(crate) fn add_child_usage(&mut self, usage: &Usage) {
        self.used.add(usage);
    }

    /// Grants one more step of an exhausted budget: `n` more of a count, or `n` tenths of an amount, but at least as
    /// much as one step may need (time for a whole turn, tokens and money for the largest response so far). With
    /// `whole`, grants the full limit again.
    pub(crate) fn grant(
        &mut self,
        policy: &Policy,
        tripped: &ExhaustedBudget,
        n: u64,
        whole: bool,
    ) -> BudgetGrant {
        let turn = policy.budgets.turn.timeout_ms.unwrap_or(DEFAULT_TURN_MS);
        let least = match tripped.name.as_str() {
            "timeout_ms" => tripped.limit,
            "runtime_ms" | "wall_ms" => turn,
            "tokens" => self.largest_event.tokens,
            "cost_micro_usd" => self.largest_event.cost_micro_usd,
            _ => 1,
        };
        let step = match (whole, tripped.is_amount()) {
            (true, _) => tripped.limit,
            (false, true) => (tripped.limit / 10).max(1).saturating_mul(n),
            (false, false) => n,
        };
        let step = step.max(least).max(1);
        let waiting = self.granted.entry(grant_key(&tripped.scope, &tripped.name, &tripped.owner));
        *waiting = waiting.saturating_add(step);
        BudgetGrant {
            step,
            limit: tripped.limit.max(tripped.used).saturating_add(*waiting),
            budget: tripped.clone(),
        }
    }

    /// Time left before an enforced time budget is exhausted, if there is one.
    pub(crate) fn time_left_ms(&self, at: &BudgetPosition<'_>) -> Option<u64> {
        let budgets = &at.policy.budgets;
        if !matches!(budgets.mode, GuardMode::Block | GuardMode::Halt | GuardMode::Staged) {
            return None;
        }
        let elapsed = self.turn.as_ref().map_or(0, |turn| at.active_ms.saturating_sub(turn.started));
        let node = at.node.unwrap_or("");
        let spent = self.nodes.get(Fingerprint::of_text(node)).map_or(0, |used| used.runtime_ms);
        let mut lines = vec![
            BudgetCheck::amount("session", "runtime_ms", "")
                .with_usage(at.active_ms, budgets.session.runtime_ms),
            BudgetCheck::amount("session", "wall_ms", "").with_usage(at.wall_ms, budgets.session.wall_ms),
            BudgetCheck::amount("turn", "timeout_ms", "")
                .for_owner(node)
                .with_usage(elapsed, budgets.turn.timeout_ms),
        ];
        if at.node.is_some() {
            let own = at.policy.budget_for_node(node).runtime_ms;
            lines.push(
                BudgetCheck::amount("node", "runtime_ms", "")
                    .for_owner(node)
                    .with_usage(spent.saturating_add(elapsed), own),
            );
        }
        for (shape, used) in at.flow.active_loops() {
            let line = BudgetCheck::amount("loop", "runtime_ms", "").for_owner(&shape.id);
            lines.push(line.with_usage(used.runtime_ms, budgets.loops.runtime_ms));
        }
        lines.iter().filter_map(|line| Some(self.limit(line)?.saturating_sub(line.used))).min()
    }

    /// Raises the exhausted budget under version 1 of the rules: counts by `n`, amounts by `n` tenths, or by the amount
    /// used if `whole`.
    pub(crate) fn raise(&mut self, tripped: &ExhaustedBudget, n: u64, whole: bool) {
        let amount = tripped.is_amount();
        let step = match (whole, amount) {
            (true, _) => tripped.used.max(1),
            (false, true) => (tripped.limit / 10).max(1).saturating_mul(n),
            (false, false) => n,
        };
        let raised = self.raised.entry(raised_key(&tripped.scope, &tripped.name, &tripped.owner));
        *raised = raised.saturating_add(step);
    }

    fn remember_warned(&mut self, looked: BudgetCheckResult) {
        for key in looked.warned {
            push_bounded(&mut self.warned, key, MAX_WARNED);
        }
        for (key, raised) in looked.started_grants {
            self.granted.remove(key);
            *self.raised.entry(key) = raised;
        }
    }
}

impl Guard for BudgetGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let mut looked = BudgetCheckResult::default();
        self.check_counts(cx, trips, &mut looked);
        self.check_amounts(cx, trips, &mut looked);
    }

    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let mut looked = BudgetCheckResult::default();
        if cx.event.kind.is_request() {
            // Remember warnings issued by `check`, so that they are not repeated with every request.
            if !self.granted.is_empty() || trips.list.iter().any(|draft| draft.trip.guard == "budget") {
                let mut said = Trips::default();
                self.check_counts(cx, &mut said, &mut looked);
                self.check_amounts(cx, &mut said, &mut looked);
            }
            self.record_usage(cx);
        } else if matches!(cx.event.kind, EventKind::HumanReleased { .. }) && cx.rules > RulesVersion::V1 {
            // A release consumes no budget; its grants apply from the next event.
            self.record_usage(cx);
        } else {
            self.record_usage(cx);
            self.check_amounts(cx, trips, &mut looked);
        }
        if let EventKind::TurnFinished { .. } = &cx.event.kind
            && let Some(turn) = self.turn.take()
        {
            let elapsed = cx.active_ms.saturating_sub(turn.started);
            let used = self.nodes.entry(turn.node);
            used.runtime_ms = used.runtime_ms.saturating_add(elapsed);
        }
        self.remember_warned(looked);
    }

    const LAYOUT: u16 = 2;

    fn read(layout: u16, bytes: &[u8]) -> postcard::Result<(Self, &[u8])> {
        match layout {
            1 => read_layout::<BudgetLayout1>(layout, 1, bytes).map(|(old, rest)| (old.into(), rest)),
            _ => read_layout(layout, Self::LAYOUT, bytes),
        }
    }

    fn reset(&mut self) {
        let used = self.used;
        *self = BudgetGuard { used, ..BudgetGuard::default() };
    }
}
