//! `denial`: a refused action that is asked for again and again.
//!
//! A person or a permission rule said no. Asking for the very same thing again is counted; `consecutive` refusals of one
//! action, or `total` of the last `of` calls, trip. An action that is let through after all is forgotten, so that
//! approved repeats never count. Flyball's own veto is not a denial.

use super::{Cx, Draft, Guard, Trips, ladder};
use crate::decision::{HaltReason, Severity};
use crate::event::{Denier, Kind};
use crate::policy::Denial as Limits;
use crate::window::{Keyed, keep};
use serde::{Deserialize, Serialize};

const ACTIONS: usize = 32;
const EVENTS: usize = 16;

/// Refused actions, and the last outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Denial {
    actions: Keyed<u32, ACTIONS>,
    /// One bit a call, the newest lowest; 1 = denied.
    outcomes: u64,
    events: Vec<u64>,
    blocks: u32,
}

impl Denial {
    fn total(&self, limits: &Limits) -> u64 {
        let of = limits.of.clamp(1, 64);
        let mask = if of == 64 { u64::MAX } else { (1 << of) - 1 };
        u64::from((self.outcomes & mask).count_ones())
    }

    fn draft(
        &self,
        cx: &Cx<'_>,
        severity: Severity,
        message: String,
        (count, limit): (u64, u64),
        tool: &str,
    ) -> Draft {
        let shown = cx.label(tool);
        Draft::new("denial", "repeated_denial", severity, message)
            .count(count, limit)
            .scope("tool", tool)
            .events(self.events.clone())
            .actions(&["respect_the_refusal", "ask_the_person_why", "switch_to_interactive"])
            .halts_as(HaltReason::RepeatedError)
            .feedback(format!("'{shown}' was refused {count} times. Do not ask for it again; find another way or say why it is needed."))
    }
}

impl Guard for Denial {
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let (Kind::ToolRequested { .. }, Some(call)) = (&cx.event.kind, &cx.facts.call) else { return };
        let limits = &cx.limits.denial;
        let Some(times) = self.actions.get(call.call).map(|times| u64::from(*times)) else { return };
        if !limits.mode.is_on() || call.twin {
            return;
        }
        let Some(limit) = limits.consecutive else { return };
        let message = format!("'{}' was refused {times} times and is asked for again", cx.label(&call.tool));
        if times >= limit {
            trips.add(
                limits.mode,
                self.draft(cx, ladder(self.blocks, Some(3)), message, (times, limit), &call.tool),
            );
        } else if times + 1 >= limit {
            trips.add(limits.mode, self.draft(cx, Severity::Warn, message, (times, limit), &call.tool));
        }
    }

    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        let Some(call) = &cx.facts.call else { return };
        match &cx.event.kind {
            Kind::ToolDenied { by, .. } if *by != Denier::Guard => {
                self.outcomes = self.outcomes << 1 | 1;
                let times = self.actions.entry(call.call);
                *times = times.saturating_add(1);
                let times = u64::from(*times);
                keep(&mut self.events, cx.seq, EVENTS);
                let limits = &cx.limits.denial;
                if !limits.mode.is_on() {
                    return;
                }
                let total = self.total(limits);
                if let Some(limit) = limits.consecutive.filter(|limit| times >= *limit) {
                    let message = format!("'{}' was refused {times} times", cx.label(&call.tool));
                    trips.add(
                        limits.mode,
                        self.draft(cx, Severity::Block, message, (times, limit), &call.tool),
                    );
                } else if let Some(limit) = limits.total.filter(|limit| total >= *limit) {
                    let message = format!("{total} of the last {} actions were refused", limits.of);
                    trips.add(
                        limits.mode,
                        self.draft(cx, Severity::Block, message, (total, limit), &call.tool),
                    );
                }
            }
            Kind::ToolFinished { .. } if cx.facts.result.as_ref().is_some_and(|result| !result.ignored) => {
                // It ran, so somebody let it through.
                self.outcomes <<= 1;
                self.blocks = 0;
                self.actions.remove(call.call);
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
        self.actions.clear();
        self.blocks = 0;
    }

    fn reset(&mut self) {
        *self = Denial::default();
    }
}
