//! `repetition`: the same call with the same arguments, again and again in a row (seed 002).
//!
//! `limit` identical consecutive calls run, the next is blocked; the block with number `blocks` halts. A call whose
//! normalised result changes is not a repetition (`result_aware`), equal calls of one round count once, and a tool
//! that waits for something (`effect: poll`) has its own, wider limit.

use super::{Cx, Draft, Guard, Trips, ladder};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::fingerprint::Fingerprint;
use crate::ledger::CallFacts;
use crate::policy::{Effect, Repetition as Limits};
use crate::window::keep;
use serde::{Deserialize, Serialize};

const EVENTS: usize = 24;

/// The current row of identical calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Repetition {
    call: Fingerprint,
    result: Fingerprint,
    count: u32,
    events: Vec<u64>,
    /// How often the row was blocked; forgotten when another call succeeds.
    blocks: u32,
}

impl Repetition {
    /// How many identical calls there are if this one runs.
    fn with(&self, call: &CallFacts) -> u32 {
        if call.call != self.call {
            1
        } else if call.twin {
            self.count.max(1)
        } else {
            self.count.saturating_add(1)
        }
    }

    fn events_with(&self, seq: u64) -> Vec<u64> {
        let mut events = self.events.clone();
        events.push(seq);
        events
    }
}

fn limit_for(limits: &Limits, call: &CallFacts) -> Option<u64> {
    if call.effect == Effect::Poll { limits.poll_limit } else { limits.limit }
}

impl Guard for Repetition {
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let (Kind::ToolRequested { .. }, Some(call)) = (&cx.event.kind, &cx.facts.call) else { return };
        let limits = &cx.limits.repetition;
        let count = u64::from(self.with(call));
        let Some(limit) = limit_for(limits, call) else { return };
        if call.twin || !limits.mode.is_on() {
            return;
        }
        let tool = &call.tool;
        let shown = cx.label(tool);
        if count > limit {
            let message =
                format!("tool '{shown}' called {count} times consecutively with identical parameters");
            let feedback = format!("Tool call blocked: {message}. Try a different approach or parameters.");
            let draft =
                Draft::new("repetition", "repetition_loop", ladder(self.blocks, limits.blocks), message)
                    .count(count, limit)
                    .scope("tool", tool)
                    .events(self.events_with(cx.seq))
                    .block(1, count, vec![call.call])
                    .actions(&["try_different_approach", "switch_to_interactive"])
                    .halts_as(HaltReason::Stalled)
                    .feedback(feedback);
            trips.add(limits.mode, draft);
        } else if call.effect != Effect::Poll && limits.warn_at.is_some_and(|at| count >= at) {
            let left = limit - count;
            let message =
                format!("tool '{shown}' called {count} times consecutively with identical parameters");
            let feedback = format!(
                "You have called '{shown}' {count} times in a row with the same parameters and learned nothing new. \
                 {left} more will run, then it is blocked. Try a different approach or parameters."
            );
            let draft = Draft::new("repetition", "repetition_loop", Severity::Warn, message)
                .count(count, limit)
                .scope("tool", tool)
                .events(self.events_with(cx.seq))
                .block(1, count, vec![call.call])
                .actions(&["try_different_approach"])
                .feedback(feedback);
            trips.add(limits.mode, draft);
        }
    }

    fn tell(&mut self, cx: &Cx<'_>, _trips: &mut Trips) {
        let Some(call) = &cx.facts.call else { return };
        match &cx.event.kind {
            Kind::ToolRequested { .. } => {
                if call.call != self.call {
                    self.call = call.call;
                    self.result = Fingerprint::NONE;
                    self.events.clear();
                }
                self.count = if self.events.is_empty() { 1 } else { self.with(call) };
                if !call.twin || self.events.is_empty() {
                    keep(&mut self.events, cx.seq, EVENTS);
                }
            }
            Kind::ToolFinished { .. } => {
                let Some(result) = cx.facts.result.as_ref().filter(|result| !result.ignored) else { return };
                if call.call != self.call {
                    if !result.failed {
                        self.blocks = 0;
                    }
                    return;
                }
                let changed = !self.result.is_none() && self.result != result.result;
                if changed && cx.limits.repetition.result_aware {
                    // It told something new: the row begins with this call.
                    self.count = 1;
                    self.events = vec![call.seq];
                    self.blocks = 0;
                }
                self.result = result.result;
            }
            _ => {}
        }
    }

    fn refused(&mut self, _cx: &Cx<'_>, mine: bool) {
        if mine {
            self.blocks = self.blocks.saturating_add(1);
        }
    }

    fn fresh(&mut self) {
        *self = Repetition::default();
    }

    fn reset(&mut self) {
        *self = Repetition::default();
    }
}
