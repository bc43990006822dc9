//! `cycle`: a sequence that repeats several times in a row.
//!
//! Tool calls: exact detection over (call, result) pairs with any period up to 64. The pass that completes the cycle
//! gets a warning; the call that would start another pass is blocked. Transitions: a repeated block of p transitions, a
//! recurring suffix, and self-loops as a separate class. Each check appends the proposed transition, so the transition
//! that would close the cycle is denied.

use super::info::GuardInfo;
use super::info::ScopeKind::{Edge, Node, Tool};
use super::{Guard, GuardContext, TripBuilder, Trips, escalated_severity};
use crate::call_ledger::CallFacts;
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::limits::{MAX_PERIOD, MAX_TRANSITION_HISTORY};
use crate::period_detector::{PeriodDetector, RepeatedBlock};
use crate::policy::settings::StricterDirection::{Less, More, Unknown};
use crate::policy::settings::{COUNT_RANGE, Count, Detector, Flag, Word, scope_keys, settings};
use crate::policy::{GuardMode, Limit, ToolEffect};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The declaration of the guard.
pub(super) const INFO: GuardInfo = GuardInfo::new(RulesVersion::V1, "A repeating sequence of calls, transitions or outputs.")
    .table("a block of calls, transitions, outputs or states that repeats several times in a row", "calls: warn at the third pass, block the next; transitions: block and escalate to a person; outputs: halt")
    .reasons(&[Reason::exhausted(
        "cycle_detected",
        "The same sequence of steps repeats with the same results.",
    )])
    .scope::<NodeCycle>(Node, "A repeating sequence of calls or outputs.")
    .scope::<EdgeCycle>(Edge, "A repeating sequence of transitions that this edge would complete.")
    .scope::<ToolCycle>(Tool, "A repeating sequence of calls.")
    .parts(&[
        ("calls", &["max_period"]),
        ("outputs", &["max_period"]),
        ("transitions", &["max_period", "suffix_length", "self_loop"]),
    ]);

settings! {
    /// A repeating sequence of actions.
    pub struct CyclePolicy: "CycleFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Cycles of (call, result) pairs.
        calls: CyclePeriods = CyclePeriods::default() => Detector;
        /// Cycles of transitions between nodes.
        transitions: TransitionCycles = TransitionCycles::default() => Detector;
        /// Cycles of outputs.
        outputs: CyclePeriods = CyclePeriods::default() => Detector;
        /// The Nth block halts the session.
        blocks: Limit = Some(3) => Count(COUNT_RANGE, Less);
    }
}

settings! {
    /// Periods that a cycle detector looks for.
    pub struct CyclePeriods: "PeriodsFile" {
        /// Longest sequence to look for, 1 to 64.
        max_period: Limit = Some(64) => Count(1..=MAX_PERIOD as u64, More);
        /// Repeats of the sequence that count as a cycle, 2 to 20.
        repeats: u64 = 3 => Count(2..=20, Less);
    }
}

settings! {
    /// Detection of transition cycles.
    pub struct TransitionCycles: "TransitionCyclesFile" {
        /// Longest sequence to look for, 2 to 64. Default: 10; off under `loop_prevention`, which uses only the recurring
        /// suffix.
        max_period: Limit = Some(10) => Count(2..=MAX_PERIOD as u64, More);
        /// Repeats of the sequence that count as a cycle, 2 to 20.
        repeats: u64 = 3 => Count(2..=20, Less);
        /// Length of the recurring suffix, 2 to 10.
        suffix_length: Limit = Some(3) => Count(2..=10, Unknown);
        /// Consecutive self-transitions allowed. Default: 5. With `off`, self-transitions count like any other transition,
        /// as under `loop_prevention`.
        self_loop: Limit = Some(5) => Count(2..=1_000, Less);
        /// Transitions shown in reports and evidence, 1 to 64. Default: 10. Detection looks back as far as it needs.
        max_history: u64 = 10 => Count(1..=MAX_TRANSITION_HISTORY as u64, Unknown);
        /// Whether to also look inside loops that the workflow declares. Default: false, except in `simple`, `complex` and
        /// under `loop_prevention`.
        declared_loops: bool = false => Flag(More), in Simple => true, in Complex => true;
    }
}

scope_keys! {
    /// Repeating sequences of calls and outputs, for one node.
    NodeCycle: "NodeCycleFile", CyclePolicy, ["mode", "calls", "blocks", "outputs"]
}

scope_keys! {
    /// Repeating sequences of transitions, for one edge.
    EdgeCycle: "EdgeCycleFile", CyclePolicy, ["mode", "transitions"]
}

scope_keys! {
    /// Repeating sequences of calls, for one tool.
    ToolCycle: "ToolCycleFile", CyclePolicy, ["mode", "calls", "blocks"]
}

impl TransitionCycles {
    /// Transitions the detector must keep: enough for every enabled rule, and at least `max_history`.
    pub fn history_needed(&self) -> u64 {
        let periodic = self.max_period.unwrap_or(0).saturating_mul(self.repeats);
        let suffix = self.suffix_length.map_or(0, |length| length.saturating_mul(3).max(10));
        self.max_history.max(periodic).max(suffix).max(self.self_loop.unwrap_or(0))
    }
}

/// Maximum number of transitions listed in a message.
const MAX_MESSAGE_TRANSITIONS: usize = 12;

/// The recent calls and transitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CycleGuard {
    /// (call, result) pairs, in order of completion.
    pairs: PeriodDetector,
    /// The calls of these pairs, used to predict the call that would continue the cycle.
    calls: VecDeque<Fingerprint>,
    transitions: PeriodDetector,
    /// Outputs of turns, each with its node.
    outputs: PeriodDetector,
    /// Measured states, each with its signal.
    states: PeriodDetector,
    /// Number of blocked call cycles; reset when a result breaks the cycle.
    blocks: u32,
}

impl CycleGuard {
    fn call_cycle(&self, cx: &GuardContext<'_>) -> Option<RepeatedBlock> {
        let limits = &cx.limits.cycle.calls;
        let found = self.pairs.find_repeat(1, limits.max_period? as usize, limits.repeats as usize)?;
        // A single repeated call is not a cycle; the guard `repetition` handles it.
        (found.period > 1).then_some(found)
    }

    fn call_trip(
        &self,
        cx: &GuardContext<'_>,
        call: &CallFacts,
        found: RepeatedBlock,
        severity: TripSeverity,
    ) -> TripBuilder {
        let (period, passes) = (found.period as u64, found.passes() as u64);
        let repeats = cx.limits.cycle.calls.repeats;
        // A session that never reports results is warned about its calls alone and never blocked.
        let unseen = cx.facts.no_results_seen && cx.rules > RulesVersion::V1;
        let results = if unseen { "" } else { " with the same results" };
        let were_made = cx.rules.wording("came", "were made");
        let message = format!("the same {period} calls{results} {were_made} {passes} times in a row");
        let next = match severity {
            TripSeverity::Warn if unseen => "",
            TripSeverity::Warn => {
                cx.rules.wording("; the next pass is blocked", "; the next pass will be blocked")
            }
            _ => "; the call was blocked",
        };
        let feedback = cx.rules.wording(
            format!(
                "You are going in a circle: the same {period} calls{results}, {passes} times in a row{next}. \
                 Nothing new can come of it. Change the approach, or say what you are missing."
            ),
            format!(
                "You are in a loop: the same {period} calls{results}, {passes} times in a row{next}. \
                 Repeating them will not produce anything new. Change the approach, or say what you are missing."
            ),
        );
        TripBuilder::new("cycle", "cycle_detected", severity, message)
            .count(passes, repeats)
            .scope("tool", &call.tool)
            .events(self.pairs.last_events(found.period * passes as usize))
            .repeating(period, passes, self.pairs.last(found.period))
            .actions(&["try_different_approach", "switch_to_interactive", "tighten_context_pack"])
            .halt_reason(HaltReason::Oscillating)
            .feedback(feedback)
    }

    fn check_call(&self, cx: &GuardContext<'_>, call: &CallFacts, trips: &mut Trips) {
        let limits = &cx.limits.cycle;
        if !limits.mode.is_on() || call.duplicate_in_round || cx.facts.no_results_seen {
            return;
        }
        let Some(found) = self.call_cycle(cx) else { return };
        let expected = self.calls.len().checked_sub(found.period).and_then(|at| self.calls.get(at));
        if expected == Some(&call.call) {
            trips.add(
                limits.mode,
                self.call_trip(cx, call, found, escalated_severity(self.blocks, limits.blocks)),
            );
        }
    }

    fn record_result(&mut self, cx: &GuardContext<'_>, call: &CallFacts, trips: &mut Trips) {
        let Some(result) = cx.facts.result.as_ref().filter(|result| !result.ignored) else { return };
        if call.duplicate_in_round || call.effect == ToolEffect::Poll {
            return;
        }
        self.pairs.push(result.pair, call.seq);
        push_call(&mut self.calls, call.call);
        let found = self.call_cycle(cx);
        if found.is_none() {
            self.blocks = 0;
        }
        if let Some(found) = found.filter(|found| found.run % found.period == 0)
            && cx.limits.cycle.mode.is_on()
        {
            trips.add(cx.limits.cycle.mode, self.call_trip(cx, call, found, TripSeverity::Warn));
        }
    }

    /// Records a call of a session that never reports results. A cycle of calls alone only warrants a warning.
    fn record_call_without_result(&mut self, cx: &GuardContext<'_>, call: &CallFacts, trips: &mut Trips) {
        if call.duplicate_in_round || call.effect == ToolEffect::Poll {
            return;
        }
        self.pairs.push(call.call, call.seq);
        push_call(&mut self.calls, call.call);
        if let Some(found) = self.call_cycle(cx).filter(|found| found.run % found.period == 0)
            && cx.limits.cycle.mode.is_on()
        {
            trips.add(cx.limits.cycle.mode, self.call_trip(cx, call, found, TripSeverity::Warn));
        }
    }

    /// Records outputs and measured states, and trips if they repeat with any period.
    fn record_state(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let Some((series, what, state)) = super::oscillation::combined_state(cx) else { return };
        let is_output = matches!(cx.event.kind, EventKind::TurnFinished { .. });
        let stream = if is_output { &mut self.outputs } else { &mut self.states };
        stream.push(series.combine(state), cx.seq);
        let limits = &cx.limits.cycle;
        let (Some(most), true) = (limits.outputs.max_period, limits.mode.is_on()) else { return };
        let Some(found) = stream.find_repeat(2, most as usize, limits.outputs.repeats as usize) else {
            return;
        };
        let (period, passes) = (found.period as u64, found.passes() as u64);
        let kind = if is_output { "outputs" } else { "states" };
        let message = cx.rules.wording(
            format!("the same {period} {kind} came {passes} times in a row, {what} the last"),
            format!("the same {period} {kind} repeated {passes} times in a row, ending with {what}"),
        );
        let draft = TripBuilder::new("cycle", "cycle_detected", TripSeverity::Halt, message)
            .count(passes, limits.outputs.repeats)
            .scope("stream", kind)
            .events(stream.last_events(found.period * found.passes()))
            .repeating(period, passes, stream.last(found.period))
            .trail(cx.trail())
            .actions(&["switch_to_interactive", "spawn_reconciliation_node", "tighten_context_pack"])
            .halt_reason(HaltReason::Oscillating)
            .feedback(cx.rules.wording(
                "The work comes round to the same results again and again. Decide what has to change first.",
                "The work keeps returning to the same results. Decide what has to change first.",
            ));
        trips.add(limits.mode, draft);
    }

    fn check_transition(&self, cx: &GuardContext<'_>, from: &str, to: &str, trips: &mut Trips) {
        let limits = &cx.policy.guards_for_edge(from, to).cycle;
        let exempt = [from, to].iter().any(|node| cx.policy.node(node).is_some_and(|node| node.allow_cycles));
        // A declared loop is limited by its own budget and by the progress checks.
        let declared = !limits.transitions.declared_loops && cx.position.stays_in_loop(from, to);
        if !limits.mode.is_on() || exempt || declared {
            return;
        }
        let next = transition_key(from, to);
        let rule = if cx.rules == RulesVersion::V1 { find_transition_cycle_v1 } else { transition_cycle };
        let Some((found, rule)) = rule(&self.transitions, &limits.transitions, next, from == to) else {
            return;
        };
        let span = found.period * found.passes();
        let mut trail = cx.position.trail_with(from, to);
        let shown = if cx.rules == RulesVersion::V1 { span.min(MAX_MESSAGE_TRANSITIONS) } else { span };
        trail.drain(..trail.len().saturating_sub(shown + 1));
        let listed = trail.iter().skip(trail.len().saturating_sub(MAX_MESSAGE_TRANSITIONS + 1));
        let labels: Vec<&str> = listed.map(|node| cx.safe_name(node)).collect();
        let message = format!("Oscillating cycle detected: {}", labels.join("→"));
        let mut events = self.transitions.last_events(span.saturating_sub(1));
        events.push(cx.seq);
        let draft = TripBuilder::new("cycle", "cycle_detected", TripSeverity::Block, message)
            .count(found.passes() as u64, rule)
            .scope("edge", format!("{from}->{to}"))
            .events(events)
            .repeating(found.period as u64, found.passes() as u64, self.transitions.last(found.period))
            .trail(trail)
            .actions(&[
                "review_the_trail",
                "find_the_bounce",
                "fix_the_cause",
                "change_the_workflow",
                "release",
            ])
            .halt_reason(HaltReason::Oscillating)
            .feedback(format!(
                "Going from '{}' to '{}' would {}. Choose another destination.",
                cx.safe_name(from),
                cx.safe_name(to),
                cx.rules.wording("close a circle that was already gone round", "repeat a cycle"),
            ))
            .escalate();
        trips.add(limits.mode, draft);
    }
}

/// Appends a call, keeping at most one maximum period.
fn push_call(calls: &mut VecDeque<Fingerprint>, call: Fingerprint) {
    if calls.len() == MAX_PERIOD {
        calls.pop_front();
    }
    calls.push_back(call);
}

fn transition_key(from: &str, to: &str) -> Fingerprint {
    super::transitions::edge_key(from, to)
}

/// The first rule that the proposed transition would break, with its limit.
///
/// A repeated self-edge is a separate class (`self_loop`). A self-edge that closes a longer block is treated like any
/// other transition, as are all self-edges when the class is off.
fn transition_cycle(
    history: &PeriodDetector,
    limits: &TransitionCycles,
    next: Fingerprint,
    self_edge: bool,
) -> Option<(RepeatedBlock, u64)> {
    let self_loop = limits.self_loop.filter(|_| self_edge);
    if let Some(limit) = self_loop
        && let Some(found) = history.find_repeat_with(next, 1, 1, limit as usize + 1)
    {
        return Some((found, limit));
    }
    if let Some(most) = limits.max_period
        && let Some(found) = history.repeating_block_with(next, most as usize, limits.repeats as usize)
    {
        return Some((found, limits.repeats));
    }
    let length = limits.suffix_length? as usize;
    recurring_suffix(history, next, length, self_loop.is_some()).map(|found| (found, 2))
}

/// [`transition_cycle`] under version 1 of the rules, where a self-edge belongs only to its own class.
fn find_transition_cycle_v1(
    history: &PeriodDetector,
    limits: &TransitionCycles,
    next: Fingerprint,
    self_edge: bool,
) -> Option<(RepeatedBlock, u64)> {
    if self_edge {
        let limit = limits.self_loop?;
        let found = history.find_repeat_with(next, 1, 1, limit as usize + 1)?;
        return Some((found, limit));
    }
    if let Some(most) = limits.max_period
        && let Some(found) = history.find_repeat_with(next, 1, most as usize, limits.repeats as usize)
        && found.period > 1
    {
        return Some((found, limits.repeats));
    }
    let length = limits.suffix_length? as usize;
    recurring_suffix(history, next, length, false).map(|found| (found, 2))
}

/// Finds an earlier, non-overlapping occurrence of the last `length` transitions, including the proposed one. With
/// `own_class`, occurrences inside a run of equal transitions are skipped: the `self_loop` rule covers them.
fn recurring_suffix(
    history: &PeriodDetector,
    next: Fingerprint,
    length: usize,
    own_class: bool,
) -> Option<RepeatedBlock> {
    let window = (3 * length).max(10);
    let mut recent = history.last(window - 1);
    recent.push(next);
    let earlier_end = recent.len().checked_sub(length)?;
    let suffix = recent.get(earlier_end..)?;
    let one_run = recent.iter().rev().take_while(|transition| **transition == next).count();
    let run_from = recent.len() - if own_class { one_run } else { 0 };
    let found = (0..=earlier_end.checked_sub(length)?)
        .rev()
        .find(|at| *at < run_from && recent.get(*at..at + length) == Some(suffix))?;
    let period = earlier_end - found;
    Some(RepeatedBlock { period, run: period })
}

impl Guard for CycleGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        match &cx.event.kind {
            EventKind::ToolRequested { .. } => {
                if let Some(call) = &cx.facts.call {
                    self.check_call(cx, call, trips);
                }
            }
            EventKind::TransitionRequested { from, to, .. } => self.check_transition(cx, from, to, trips),
            _ => {}
        }
    }

    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        match (&cx.event.kind, &cx.facts.call) {
            (EventKind::ToolRequested { .. }, Some(call)) if cx.facts.no_results_seen => {
                self.record_call_without_result(cx, call, trips)
            }
            (EventKind::ToolFinished { .. }, Some(call)) => {
                if cx.facts.no_results_seen {
                    // First result of the session: entries recorded without results are not comparable.
                    self.pairs.clear();
                    self.calls.clear();
                }
                self.record_result(cx, call, trips);
            }
            (EventKind::TransitionRequested { from, to, .. }, _) => {
                self.transitions.push(transition_key(from, to), cx.seq);
            }
            (EventKind::TurnFinished { .. } | EventKind::Progress { .. }, _) => self.record_state(cx, trips),
            _ => {}
        }
    }

    fn on_denied(&mut self, cx: &GuardContext<'_>, mine: bool) {
        if mine && matches!(cx.event.kind, EventKind::ToolRequested { .. }) {
            self.blocks = self.blocks.saturating_add(1);
        }
    }

    fn on_user_input(&mut self) {
        self.pairs.clear();
        self.calls.clear();
        self.transitions.clear();
        self.blocks = 0;
    }

    fn reset(&mut self) {
        *self = CycleGuard::default();
    }
}
