//! `cycle`: one block of acts that stands several times in a row.
//!
//! On tool calls: (call, result) pairs with any period up to 64, found exactly. The pass that completes the cycle is
//! answered with a warning; the call that would begin another pass is blocked. On transitions: a block of p transitions
//! repeated, a recurring suffix, and self-loops as a class of their own, each looked at with the proposed transition
//! appended, so that the transition that would close the cycle is refused.

use super::{Cx, Draft, Guard, Trips, ladder};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::fingerprint::Fingerprint;
use crate::ledger::CallFacts;
use crate::limits::PERIOD;
use crate::periodic::{Periodic, Repeat};
use crate::policy::{Effect, TransitionCycles};
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The most transitions that a message tells.
const MESSAGE_STEPS: usize = 12;

/// The recent calls and transitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cycle {
    /// (call, result) pairs, in the order in which the calls ended.
    pairs: Periodic,
    /// The calls of these pairs, to foresee which call would go on with the cycle.
    calls: VecDeque<Fingerprint>,
    transitions: Periodic,
    /// Outputs of turns, each with its node.
    outputs: Periodic,
    /// Measured states, each with its signal.
    states: Periodic,
    /// How often a cycle of calls was blocked; forgotten when something new is learned.
    blocks: u32,
}

impl Cycle {
    fn call_cycle(&self, cx: &Cx<'_>) -> Option<Repeat> {
        let limits = &cx.limits.cycle.calls;
        let found = self.pairs.repeat(1, limits.max_period? as usize, limits.repeats as usize)?;
        // One call repeated is not a cycle; that is the guard `repetition`'s business.
        (found.period > 1).then_some(found)
    }

    fn call_draft(&self, cx: &Cx<'_>, call: &CallFacts, found: Repeat, severity: Severity) -> Draft {
        let (period, passes) = (found.period as u64, found.passes() as u64);
        let repeats = cx.limits.cycle.calls.repeats;
        let message = format!("the same {period} calls with the same results came {passes} times in a row");
        let next =
            if severity == Severity::Warn { "the next pass is blocked" } else { "the call was blocked" };
        let feedback = format!(
            "You are going in a circle: the same {period} calls with the same results, {passes} times in a row; {next}. \
             Nothing new can come of it. Change the approach, or say what you are missing."
        );
        Draft::new("cycle", "cycle_detected", severity, message)
            .count(passes, repeats)
            .scope("tool", &call.tool)
            .events(self.pairs.last_events(found.period * passes as usize))
            .block(period, passes, self.pairs.last(found.period))
            .actions(&["try_different_approach", "switch_to_interactive", "tighten_context_pack"])
            .halts_as(HaltReason::Oscillating)
            .feedback(feedback)
    }

    fn ask_call(&self, cx: &Cx<'_>, call: &CallFacts, trips: &mut Trips) {
        let limits = &cx.limits.cycle;
        if !limits.mode.is_on() || call.twin || cx.facts.blind {
            return;
        }
        let Some(found) = self.call_cycle(cx) else { return };
        let expected = self.calls.len().checked_sub(found.period).and_then(|at| self.calls.get(at));
        if expected == Some(&call.call) {
            trips.add(limits.mode, self.call_draft(cx, call, found, ladder(self.blocks, limits.blocks)));
        }
    }

    fn tell_result(&mut self, cx: &Cx<'_>, call: &CallFacts, trips: &mut Trips) {
        let Some(result) = cx.facts.result.as_ref().filter(|result| !result.ignored) else { return };
        if call.twin || call.effect == Effect::Poll {
            return;
        }
        self.pairs.push(result.pair, call.seq);
        note(&mut self.calls, call.call);
        let found = self.call_cycle(cx);
        if found.is_none() {
            self.blocks = 0;
        }
        if let Some(found) = found.filter(|found| found.run % found.period == 0)
            && cx.limits.cycle.mode.is_on()
        {
            trips.add(cx.limits.cycle.mode, self.call_draft(cx, call, found, Severity::Warn));
        }
    }

    /// Calls whose results are never told: a cycle of calls alone is worth a warning and no more.
    fn tell_blind(&mut self, cx: &Cx<'_>, call: &CallFacts, trips: &mut Trips) {
        if call.twin || call.effect == Effect::Poll {
            return;
        }
        self.pairs.push(call.call, call.seq);
        note(&mut self.calls, call.call);
        if let Some(found) = self.call_cycle(cx).filter(|found| found.run % found.period == 0)
            && cx.limits.cycle.mode.is_on()
        {
            trips.add(cx.limits.cycle.mode, self.call_draft(cx, call, found, Severity::Warn));
        }
    }

    /// Outputs and measured states that come round again and again, with any period.
    fn tell_state(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        let Some((series, what, state)) = super::oscillation::whole_state(cx) else { return };
        let is_output = matches!(cx.event.kind, Kind::TurnFinished { .. });
        let stream = if is_output { &mut self.outputs } else { &mut self.states };
        stream.push(series.with(state), cx.seq);
        let limits = &cx.limits.cycle;
        let (Some(most), true) = (limits.outputs.max_period, limits.mode.is_on()) else { return };
        let Some(found) = stream.repeat(2, most as usize, limits.outputs.repeats as usize) else { return };
        let (period, passes) = (found.period as u64, found.passes() as u64);
        let kind = if is_output { "outputs" } else { "states" };
        let message = format!("the same {period} {kind} came {passes} times in a row, {what} the last");
        let draft = Draft::new("cycle", "cycle_detected", Severity::Halt, message)
            .count(passes, limits.outputs.repeats)
            .scope("stream", kind)
            .events(stream.last_events(found.period * found.passes()))
            .block(period, passes, stream.last(found.period))
            .trail(cx.trail())
            .actions(&["switch_to_interactive", "spawn_reconciliation_node", "tighten_context_pack"])
            .halts_as(HaltReason::Oscillating)
            .feedback(
                "The work comes round to the same results again and again. Decide what has to change first.",
            );
        trips.add(limits.mode, draft);
    }

    fn ask_transition(&self, cx: &Cx<'_>, from: &str, to: &str, trips: &mut Trips) {
        let limits = &cx.policy.guards_for_edge(from, to).cycle;
        let exempt = [from, to].iter().any(|node| cx.policy.node(node).is_some_and(|node| node.allow_cycles));
        // A loop that the workflow declares is governed by its own budget and its progress.
        let declared = !limits.transitions.declared_loops && cx.flow.inside_a_loop(from, to);
        if !limits.mode.is_on() || exempt || declared {
            return;
        }
        let next = transition_key(from, to);
        let rule = if cx.rules == RulesVersion::V1 { first_transition_cycle } else { transition_cycle };
        let Some((found, rule)) = rule(&self.transitions, &limits.transitions, next, from == to) else {
            return;
        };
        let span = found.period * found.passes();
        let mut trail = cx.flow.trail_with(from, to);
        let shown = if cx.rules == RulesVersion::V1 { span.min(MESSAGE_STEPS) } else { span };
        trail.drain(..trail.len().saturating_sub(shown + 1));
        let told = trail.iter().skip(trail.len().saturating_sub(MESSAGE_STEPS + 1));
        let labels: Vec<&str> = told.map(|node| cx.label(node)).collect();
        let message = format!("Oscillating cycle detected: {}", labels.join("→"));
        let mut events = self.transitions.last_events(span.saturating_sub(1));
        events.push(cx.seq);
        let draft = Draft::new("cycle", "cycle_detected", Severity::Block, message)
            .count(found.passes() as u64, rule)
            .scope("edge", format!("{from}->{to}"))
            .events(events)
            .block(found.period as u64, found.passes() as u64, self.transitions.last(found.period))
            .trail(trail)
            .actions(&["review_the_trail", "find_the_bounce", "fix_the_cause", "change_the_workflow", "release"])
            .halts_as(HaltReason::Oscillating)
            .feedback(format!(
                "Going from '{}' to '{}' would close a circle that was already gone round. Choose another destination.",
                cx.label(from),
                cx.label(to)
            ))
            .escalates();
        trips.add(limits.mode, draft);
    }
}

/// Remembers one more call, as many as a period is long.
fn note(calls: &mut VecDeque<Fingerprint>, call: Fingerprint) {
    if calls.len() == PERIOD {
        calls.pop_front();
    }
    calls.push_back(call);
}

fn transition_key(from: &str, to: &str) -> Fingerprint {
    super::transitions::edge_key(from, to)
}

/// The first rule that the proposed transition would break, with the number it is measured by.
///
/// A self-edge taken again and again is a class of its own (`self_loop`). One that closes a longer block is found like
/// any other transition, and so are all of them where the class is off.
fn transition_cycle(
    history: &Periodic,
    limits: &TransitionCycles,
    next: Fingerprint,
    self_edge: bool,
) -> Option<(Repeat, u64)> {
    let self_loop = limits.self_loop.filter(|_| self_edge);
    if let Some(limit) = self_loop
        && let Some(found) = history.repeat_with(next, 1, 1, limit as usize + 1)
    {
        return Some((found, limit));
    }
    if let Some(most) = limits.max_period
        && let Some(found) = history.block_with(next, most as usize, limits.repeats as usize)
    {
        return Some((found, limits.repeats));
    }
    let length = limits.suffix_length? as usize;
    recurring_suffix(history, next, length, self_loop.is_some()).map(|found| (found, 2))
}

/// The same under version 1 of the rules: a self-edge belongs to its own class only.
fn first_transition_cycle(
    history: &Periodic,
    limits: &TransitionCycles,
    next: Fingerprint,
    self_edge: bool,
) -> Option<(Repeat, u64)> {
    if self_edge {
        let limit = limits.self_loop?;
        let found = history.repeat_with(next, 1, 1, limit as usize + 1)?;
        return Some((found, limit));
    }
    if let Some(most) = limits.max_period
        && let Some(found) = history.repeat_with(next, 1, most as usize, limits.repeats as usize)
        && found.period > 1
    {
        return Some((found, limits.repeats));
    }
    let length = limits.suffix_length? as usize;
    recurring_suffix(history, next, length, false).map(|found| (found, 2))
}

/// The last `length` transitions, the proposed one included, stand earlier in the window without overlap. With
/// `own_class` not inside one run of equal transitions: that is for another rule to judge.
fn recurring_suffix(history: &Periodic, next: Fingerprint, length: usize, own_class: bool) -> Option<Repeat> {
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
    Some(Repeat { period, run: period })
}

impl Guard for Cycle {
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        match &cx.event.kind {
            Kind::ToolRequested { .. } => {
                if let Some(call) = &cx.facts.call {
                    self.ask_call(cx, call, trips);
                }
            }
            Kind::TransitionRequested { from, to, .. } => self.ask_transition(cx, from, to, trips),
            _ => {}
        }
    }

    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        match (&cx.event.kind, &cx.facts.call) {
            (Kind::ToolRequested { .. }, Some(call)) if cx.facts.blind => self.tell_blind(cx, call, trips),
            (Kind::ToolFinished { .. }, Some(call)) => {
                if cx.facts.blind {
                    // The first result of the session: what was noted without results does not compare.
                    self.pairs.clear();
                    self.calls.clear();
                }
                self.tell_result(cx, call, trips);
            }
            (Kind::TransitionRequested { from, to, .. }, _) => {
                self.transitions.push(transition_key(from, to), cx.seq);
            }
            (Kind::TurnFinished { .. } | Kind::Progress { .. }, _) => self.tell_state(cx, trips),
            _ => {}
        }
    }

    fn refused(&mut self, cx: &Cx<'_>, mine: bool) {
        if mine && matches!(cx.event.kind, Kind::ToolRequested { .. }) {
            self.blocks = self.blocks.saturating_add(1);
        }
    }

    fn fresh(&mut self) {
        self.pairs.clear();
        self.calls.clear();
        self.transitions.clear();
        self.blocks = 0;
    }

    fn reset(&mut self) {
        *self = Cycle::default();
    }
}
