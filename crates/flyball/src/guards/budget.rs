//! `budget`: what a session, a turn, a node, a loop or one message may use (seeds 000, 002, 004).
//!
//! Amounts (time, tokens, money) trip when more is used than allowed; counts (turns, calls, iterations, transitions)
//! are capacities, refused before the act. A used-up budget halts, and a release raises it by a bounded step. The step is
//! added to what is used when the work continues, so that a release is always enough for one more step, however far the
//! last one went over the limit. A child session draws on what its parents have left.

use super::budget_line::{Granted, Line, Tripped, granted_key, raised_key, sentence, share};
use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::{Kind, Origin, Usage};
use crate::fingerprint::Fingerprint;
use crate::flow::Flow;
use crate::limits::NODES;
use crate::policy::{Mode, Policy};
use crate::rules_version::RulesVersion;
use crate::state::read_layout;
use crate::window::{Keyed, keep};
use serde::{Deserialize, Serialize};

/// A session above this one in the tree, as far as its budget is concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ancestor {
    /// Its name.
    pub session: String,
    /// It is halted, so its children are too.
    pub halted: bool,
    /// What it and all its children have used.
    pub used: Usage,
    /// What it may use: tokens.
    pub tokens: Option<u64>,
    /// What it may use: millionths of a dollar.
    pub cost_micro_usd: Option<u64>,
}

/// The sessions above this one, the nearest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Family {
    /// The ancestors.
    pub ancestors: Vec<Ancestor>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct NodeUse {
    turns: u32,
    runtime_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OpenTurn {
    node: Fingerprint,
    started: u64,
    tokens: u64,
}

/// What was used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Budget {
    /// This session and all its children.
    pub(crate) used: Usage,
    pub(crate) turns: u64,
    pub(crate) calls: u64,
    pub(crate) iterations: u64,
    message_transitions: u64,
    message_calls: u64,
    turn: Option<OpenTurn>,
    nodes: Keyed<NodeUse, NODES>,
    /// Raised by releases, by scope and name.
    raised: Keyed<u64, WARNED>,
    /// Warned about already, by scope and name.
    warned: Vec<Fingerprint>,
    /// Granted by releases and not begun yet: added to what is used when the budget is looked at next.
    granted: Keyed<u64, WARNED>,
    /// The most tokens and money that one event has used.
    largest: Largest,
}

/// The most that one event has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Largest {
    tokens: u64,
    cost_micro_usd: u64,
}

/// The state before grants were kept apart.
#[derive(Deserialize)]
struct BudgetLayout1 {
    used: Usage,
    turns: u64,
    calls: u64,
    iterations: u64,
    message_transitions: u64,
    message_calls: u64,
    turn: Option<OpenTurn>,
    nodes: Keyed<NodeUse, NODES>,
    raised: Keyed<u64, WARNED>,
    warned: Vec<Fingerprint>,
}

impl From<BudgetLayout1> for Budget {
    fn from(old: BudgetLayout1) -> Self {
        Budget {
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
            ..Budget::default()
        }
    }
}

const WARNED: usize = 32;
/// The least time that a release grants where the policy does not limit a turn: as long as a turn may take by default.
const TURN_MS: u64 = 600_000;

/// What looking at budgets leads to: what was warned about, and which grants have begun with what limit.
#[derive(Default)]
struct Looked {
    warned: Vec<Fingerprint>,
    begun: Vec<(Fingerprint, u64)>,
}

/// Where a session is, for whoever asks how much time is left before its next event.
pub(crate) struct Position<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) flow: &'a Flow,
    pub(crate) node: Option<&'a str>,
    pub(crate) active_ms: u64,
    pub(crate) wall_ms: u64,
}

impl Budget {
    fn limit(&self, line: &Line<'_>) -> Option<u64> {
        if self.raised.is_empty() && self.granted.is_empty() {
            return line.limit;
        }
        let raised_by = |key| self.raised.get(key).copied().unwrap_or(0);
        let own = raised_by(raised_key(line.scope, line.name, line.whose));
        let limit =
            line.limit?.saturating_add(own.max(raised_by(granted_key(line.scope, line.name, line.whose))));
        Some(match self.granted.get(granted_key(line.scope, line.name, line.whose)) {
            Some(step) => limit.max(line.used).saturating_add(*step),
            None => limit,
        })
    }

    /// The iterations that a loop has, with what people have added to them.
    pub(crate) fn iterations_of(&self, id: &str, limit: Option<u64>) -> Option<u64> {
        self.raised_limit("loop", "iterations", id, limit)
    }

    /// A limit with what people have added to it.
    pub(crate) fn raised_limit(
        &self,
        scope: &str,
        name: &str,
        whose: &str,
        limit: Option<u64>,
    ) -> Option<u64> {
        self.limit(&Line::count(scope, name, "").of(whose).uses(0, limit))
    }

    /// Looks at one budget: trips if it is used up, warns once when little is left.
    fn look(&self, cx: &Cx<'_>, line: &Line<'_>, trips: &mut Trips, looked: &mut Looked) {
        let mode = cx.policy.budgets.mode;
        let Some(limit) = self.limit(line).filter(|_| mode.is_on()) else { return };
        let key = granted_key(line.scope, line.name, line.whose);
        if self.granted.contains(key) {
            looked.begun.push((key, limit.saturating_sub(line.limit.unwrap_or(0))));
        }
        let warned = &mut looked.warned;
        let asks = cx.event.kind.is_act();
        let over = if line.count { asks && line.used >= limit } else { line.used > limit };
        if over {
            let enforced = matches!(mode, Mode::Block | Mode::Halt | Mode::Staged);
            let key = line.key(1);
            if enforced || !self.warned.contains(&key) {
                warned.push(key);
                trips.add(mode, self.draft(cx, line, limit, line.severity, sentence(cx, line, limit)));
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
            let message = format!("{} of the {} budget are used", share(line.name, used, limit), line.scope);
            trips.add(mode, self.draft(cx, line, limit, Severity::Warn, message));
        }
    }

    fn draft(&self, cx: &Cx<'_>, line: &Line<'_>, limit: u64, severity: Severity, message: String) -> Draft {
        let draft = Draft::new("budget", line.reason, severity, message.clone())
            .budget(line.scope, line.name, limit, line.used)
            .events(vec![cx.seq])
            .trail(cx.trail())
            .actions(&["raise_budget", "switch_to_interactive", "stop"])
            .halts_as(HaltReason::BudgetExceeded)
            .feedback(if severity == Severity::Warn {
                format!("{message}. Come to an end.")
            } else {
                format!("{message}. The work stops here until a person raises the budget.")
            });
        let whose = if line.whose.is_empty() { line.name } else { line.whose };
        draft.scope(line.scope, whose)
    }

    fn amounts(&self, cx: &Cx<'_>, trips: &mut Trips, looked: &mut Looked) {
        let session = &cx.policy.budgets.session;
        let mut look = |line: Line<'_>| self.look(cx, &line, trips, looked);
        let amount = |name, reason| Line::amount("session", name, reason);
        look(amount("runtime_ms", "max_runtime").uses(cx.active_ms, session.runtime_ms));
        look(amount("wall_ms", "max_runtime").uses(cx.wall_ms, session.wall_ms));
        look(amount("tokens", "max_tokens").uses(self.used.tokens(), session.tokens));
        look(amount("cost_micro_usd", "max_cost").uses(self.used.cost_micro_usd, session.cost_micro_usd));
        for above in cx.family.ancestors.iter().take(crate::limits::TREE_DEPTH) {
            let amount = |name, reason| Line::amount("tree", name, reason).of(&above.session);
            look(amount("tokens", "max_tokens").uses(above.used.tokens(), above.tokens));
            look(amount("cost_micro_usd", "max_cost").uses(above.used.cost_micro_usd, above.cost_micro_usd));
        }
        self.turn_and_loops(cx, trips, looked);
    }

    fn turn_and_loops(&self, cx: &Cx<'_>, trips: &mut Trips, looked: &mut Looked) {
        let budgets = &cx.policy.budgets;
        let mut look = |line: Line<'_>| self.look(cx, &line, trips, looked);
        if let Some(turn) = &self.turn {
            let told = match &cx.event.kind {
                Kind::TurnFinished { duration_ms, .. } => duration_ms.unwrap_or(0),
                _ => 0,
            };
            let elapsed = cx.active_ms.saturating_sub(turn.started).max(told);
            let node = cx.event.node.as_deref().unwrap_or("");
            let amount = |name, reason| Line::amount("turn", name, reason).of(node);
            look(amount("timeout_ms", "turn_timeout").uses(elapsed, budgets.turn.timeout_ms));
            look(amount("tokens", "max_tokens").uses(turn.tokens, budgets.turn.tokens));
            // Otherwise looked at before the next turn; here somebody says that the node's time is up.
            if matches!(cx.event.kind, Kind::TurnInterrupted { .. }) {
                let spent = self.nodes.get(turn.node).map_or(0, |used| used.runtime_ms);
                let line = Line::amount("node", "runtime_ms", "node_budget").of(node);
                look(line.uses(spent.saturating_add(elapsed), cx.policy.budget_for_node(node).runtime_ms));
            }
        }
        for (shape, used) in cx.flow.loops_here() {
            let amount = |name, reason| Line::amount("loop", name, reason).of(&shape.id);
            look(amount("runtime_ms", "max_runtime").uses(used.runtime_ms, budgets.loops.runtime_ms));
            look(
                amount("cost_micro_usd", "max_cost").uses(used.cost_micro_usd, budgets.loops.cost_micro_usd),
            );
        }
    }

    /// The capacities that an act would draw on.
    fn counts(&self, cx: &Cx<'_>, trips: &mut Trips, looked: &mut Looked) {
        let budgets = &cx.policy.budgets;
        let mut look = |line: Line<'_>| self.look(cx, &line, trips, looked);
        match &cx.event.kind {
            Kind::TurnStarted {} => {
                look(Line::count("session", "turns", "max_turns").uses(self.turns, budgets.session.turns));
                if let Some(node) = cx.event.node.as_deref() {
                    self.node_counts(cx, node, trips, looked);
                }
            }
            Kind::ToolRequested { .. } => {
                let line = Line::count("session", "iterations", "max_iterations");
                if cx.facts.new_answer {
                    look(line.uses(self.iterations, budgets.session.iterations));
                } else if cx.rules > RulesVersion::V1 {
                    // The answer that this call belongs to has begun, with a message or another call, and is counted.
                    look(line.uses(self.iterations.saturating_sub(1), budgets.session.iterations));
                }
                let calls = |scope| Line::count(scope, "tool_calls", "max_steps");
                look(calls("session").uses(self.calls, budgets.session.tool_calls));
                look(calls("message").uses(self.message_calls, budgets.message.tool_calls));
            }
            Kind::TransitionRequested { .. } => {
                let line = Line::count("message", "transitions", "max_steps");
                look(line.uses(self.message_transitions, budgets.message.transitions));
                if let Some((shape, used)) = cx.flow.closes(cx.event) {
                    let line = Line::count("loop", "iterations", "max_cycle_iterations").of(&shape.id);
                    look(line.uses(used.iterations, budgets.loops.iterations));
                }
            }
            _ => {}
        }
    }

    fn node_counts(&self, cx: &Cx<'_>, node: &str, trips: &mut Trips, looked: &mut Looked) {
        let budget = cx.policy.budget_for_node(node);
        let turns = if cx.flow.in_loop(node) {
            budget.turns_in_loop(cx.policy.budgets.loops.iterations)
        } else {
            budget.turns
        };
        let unused = NodeUse::default();
        let used = self.nodes.get(Fingerprint::of_text(node)).unwrap_or(&unused);
        let mut look = |line: Line<'_>| self.look(cx, &line, trips, looked);
        let count = |name| Line::count("node", name, "node_budget").of(node);
        look(count("turns").uses(u64::from(used.turns), turns));
        look(count("runtime_ms").uses(used.runtime_ms, budget.runtime_ms));
    }

    fn use_up(&mut self, cx: &Cx<'_>) {
        self.used.add(&cx.event.usage);
        self.largest.tokens = self.largest.tokens.max(cx.event.usage.tokens());
        self.largest.cost_micro_usd = self.largest.cost_micro_usd.max(cx.event.usage.cost_micro_usd);
        if let Some(turn) = &mut self.turn {
            turn.tokens = turn.tokens.saturating_add(cx.event.usage.tokens());
        }
        if cx.facts.new_answer {
            self.iterations = self.iterations.saturating_add(1);
        }
        match &cx.event.kind {
            Kind::TurnStarted {} => {
                self.turns = self.turns.saturating_add(1);
                let node = Fingerprint::of_text(cx.event.node.as_deref().unwrap_or(""));
                let used = self.nodes.entry(node);
                used.turns = used.turns.saturating_add(1);
                self.turn = Some(OpenTurn { node, started: cx.active_ms, tokens: cx.event.usage.tokens() });
            }
            Kind::ToolRequested { .. } => {
                self.calls = self.calls.saturating_add(1);
                self.message_calls = self.message_calls.saturating_add(1);
            }
            Kind::TransitionRequested { .. } => {
                self.message_transitions = self.message_transitions.saturating_add(1)
            }
            Kind::UserMessage { origin: Origin::Human, .. } => {
                self.message_transitions = 0;
                self.message_calls = 0;
            }
            _ => {}
        }
    }

    /// A child session used something.
    pub(crate) fn draw(&mut self, usage: &Usage) {
        self.used.add(usage);
    }

    /// Grants a further step of a budget that is used up: `n` more of a count, `n` tenths more of an amount, but at least
    /// as much as one step may need: time for a whole turn, tokens and money for the largest answer so far. As much as
    /// before if `whole`.
    pub(crate) fn grant(&mut self, policy: &Policy, tripped: &Tripped, n: u64, whole: bool) -> Granted {
        let turn = policy.budgets.turn.timeout_ms.unwrap_or(TURN_MS);
        let least = match tripped.name.as_str() {
            "timeout_ms" => tripped.limit,
            "runtime_ms" | "wall_ms" => turn,
            "tokens" => self.largest.tokens,
            "cost_micro_usd" => self.largest.cost_micro_usd,
            _ => 1,
        };
        let step = match (whole, tripped.is_amount()) {
            (true, _) => tripped.limit,
            (false, true) => (tripped.limit / 10).max(1).saturating_mul(n),
            (false, false) => n,
        };
        let step = step.max(least).max(1);
        let waiting = self.granted.entry(granted_key(&tripped.scope, &tripped.name, &tripped.whose));
        *waiting = waiting.saturating_add(step);
        Granted { step, limit: tripped.limit.max(tripped.used).saturating_add(*waiting), of: tripped.clone() }
    }

    /// How much time is left before a budget is used up, if one limits it and is enforced.
    pub(crate) fn time_left_ms(&self, at: &Position<'_>) -> Option<u64> {
        let budgets = &at.policy.budgets;
        if !matches!(budgets.mode, Mode::Block | Mode::Halt | Mode::Staged) {
            return None;
        }
        let elapsed = self.turn.as_ref().map_or(0, |turn| at.active_ms.saturating_sub(turn.started));
        let node = at.node.unwrap_or("");
        let spent = self.nodes.get(Fingerprint::of_text(node)).map_or(0, |used| used.runtime_ms);
        let mut lines = vec![
            Line::amount("session", "runtime_ms", "").uses(at.active_ms, budgets.session.runtime_ms),
            Line::amount("session", "wall_ms", "").uses(at.wall_ms, budgets.session.wall_ms),
            Line::amount("turn", "timeout_ms", "").of(node).uses(elapsed, budgets.turn.timeout_ms),
        ];
        if at.node.is_some() {
            let own = at.policy.budget_for_node(node).runtime_ms;
            lines.push(
                Line::amount("node", "runtime_ms", "").of(node).uses(spent.saturating_add(elapsed), own),
            );
        }
        for (shape, used) in at.flow.loops_here() {
            let line = Line::amount("loop", "runtime_ms", "").of(&shape.id);
            lines.push(line.uses(used.runtime_ms, budgets.loops.runtime_ms));
        }
        lines.iter().filter_map(|line| Some(self.limit(line)?.saturating_sub(line.used))).min()
    }

    /// Raises the budget that tripped, under version 1 of the rules: counts by `n`, amounts by `n` tenths; anew if `whole`.
    pub(crate) fn raise(&mut self, tripped: &Tripped, n: u64, whole: bool) {
        let amount = tripped.is_amount();
        let step = match (whole, amount) {
            (true, _) => tripped.used.max(1),
            (false, true) => (tripped.limit / 10).max(1).saturating_mul(n),
            (false, false) => n,
        };
        let raised = self.raised.entry(raised_key(&tripped.scope, &tripped.name, &tripped.whose));
        *raised = raised.saturating_add(step);
    }

    fn remember(&mut self, looked: Looked) {
        for key in looked.warned {
            keep(&mut self.warned, key, WARNED);
        }
        for (key, raised) in looked.begun {
            self.granted.remove(key);
            *self.raised.entry(key) = raised;
        }
    }
}

impl Guard for Budget {
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let mut looked = Looked::default();
        self.counts(cx, trips, &mut looked);
        self.amounts(cx, trips, &mut looked);
    }

    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        let mut looked = Looked::default();
        if cx.event.kind.is_act() {
            // What was said when it was asked is remembered, so that it is not said again with every act.
            if !self.granted.is_empty() || trips.list.iter().any(|draft| draft.trip.guard == "budget") {
                let mut said = Trips::default();
                self.counts(cx, &mut said, &mut looked);
                self.amounts(cx, &mut said, &mut looked);
            }
            self.use_up(cx);
        } else if matches!(cx.event.kind, Kind::HumanReleased { .. }) && cx.rules > RulesVersion::V1 {
            // The release itself uses nothing; what it grants begins with the next event.
            self.use_up(cx);
        } else {
            self.use_up(cx);
            self.amounts(cx, trips, &mut looked);
        }
        if let Kind::TurnFinished { .. } = &cx.event.kind
            && let Some(turn) = self.turn.take()
        {
            let elapsed = cx.active_ms.saturating_sub(turn.started);
            let used = self.nodes.entry(turn.node);
            used.runtime_ms = used.runtime_ms.saturating_add(elapsed);
        }
        self.remember(looked);
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
        *self = Budget { used, ..Budget::default() };
    }
}
