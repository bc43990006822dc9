//! `denial`: repeated requests for an action that was denied.
//!
//! Counts denials by a person or a permission rule. The guard trips at `consecutive` denials of one action, or at
//! `total` denials among the last `of` calls. An action that is allowed later is forgotten, so approved repeats never
//! count. Flyball's own blocks are not denials.

use super::info::GuardInfo;
use super::info::ScopeKind::{Node, Tool};
use super::{Guard, GuardContext, TripBuilder, Trips, escalated_severity};
use crate::bounded_map::{BoundedMap, push_bounded};
use crate::decision::{HaltReason, TripSeverity};
use crate::event::{DeniedBy, EventKind};
use crate::policy::settings::StricterDirection::{Less, Unknown};
use crate::policy::settings::{COUNT_RANGE, Count, WINDOW_RANGE, Word, settings};
use crate::policy::{GuardMode, Limit};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};

/// The declaration of the guard.
pub(super) const INFO: GuardInfo = GuardInfo::new(RulesVersion::V1, "Repeated requests for a denied action.")
    .table("a refused action that is requested again", "warn, block, halt")
    .reasons(&[Reason::exhausted("repeated_denial", "A denied request was made again.")])
    .scopes::<DenialPolicy>(&[Node, Tool]);

settings! {
    /// Repeated requests for a denied action.
    pub struct DenialPolicy: "DenialFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Consecutive requests for the same denied action.
        consecutive: Limit = Some(3) => Count(COUNT_RANGE, Less);
        /// Number of recent requests for `total`, 1 to 64.
        of: u64 = 50 => Count(1..=*WINDOW_RANGE.end(), Unknown);
        /// Denials among the last `of` requests.
        total: Limit = Some(10) => Count(COUNT_RANGE, Less);
    }
}

const MAX_ACTIONS: usize = 32;
const MAX_EVENTS: usize = 16;

/// Denied actions and the most recent outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DenialGuard {
    actions: BoundedMap<u32, MAX_ACTIONS>,
    /// One bit per call, newest in the lowest bit; 1 = denied.
    outcomes: u64,
    events: Vec<u64>,
    blocks: u32,
}

impl DenialGuard {
    fn recent_denials(&self, limits: &DenialPolicy) -> u64 {
        let of = limits.of.clamp(1, 64);
        let mask = if of == 64 { u64::MAX } else { (1 << of) - 1 };
        u64::from((self.outcomes & mask).count_ones())
    }

    fn trip(
        &self,
        cx: &GuardContext<'_>,
        severity: TripSeverity,
        message: String,
        (count, limit): (u64, u64),
        tool: &str,
    ) -> TripBuilder {
        let shown = cx.safe_name(tool);
        TripBuilder::new("denial", "repeated_denial", severity, message)
            .count(count, limit)
            .scope("tool", tool)
            .events(self.events.clone())
            .actions(&["respect_the_refusal", "ask_the_person_why", "switch_to_interactive"])
            .halt_reason(HaltReason::RepeatedError)
            .feedback(cx.rules.wording(
                format!(
                    "'{shown}' was refused {count} times. Do not ask for it again; find another way or say why it is \
                     needed."
                ),
                format!(
                    "'{shown}' was refused {count} times. Do not request it again; find another way or explain why \
                     it is needed."
                ),
            ))
    }
}

impl Guard for DenialGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let (EventKind::ToolRequested { .. }, Some(call)) = (&cx.event.kind, &cx.facts.call) else { return };
        let limits = &cx.limits.denial;
        let Some(times) = self.actions.get(call.call).map(|times| u64::from(*times)) else { return };
        if !limits.mode.is_on() || call.duplicate_in_round {
            return;
        }
        let Some(limit) = limits.consecutive else { return };
        let requested = cx.rules.wording("asked for", "requested");
        let message =
            format!("'{}' was refused {times} times and is {requested} again", cx.safe_name(&call.tool));
        if times >= limit {
            trips.add(
                limits.mode,
                self.trip(cx, escalated_severity(self.blocks, Some(3)), message, (times, limit), &call.tool),
            );
        } else if times + 1 >= limit {
            trips.add(limits.mode, self.trip(cx, TripSeverity::Warn, message, (times, limit), &call.tool));
        }
    }

    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let Some(call) = &cx.facts.call else { return };
        match &cx.event.kind {
            EventKind::ToolDenied { by, .. } if *by != DeniedBy::Guard => {
                self.outcomes = self.outcomes << 1 | 1;
                let times = self.actions.entry(call.call);
                *times = times.saturating_add(1);
                let times = u64::from(*times);
                push_bounded(&mut self.events, cx.seq, MAX_EVENTS);
                let limits = &cx.limits.denial;
                if !limits.mode.is_on() {
                    return;
                }
                let total = self.recent_denials(limits);
                if let Some(limit) = limits.consecutive.filter(|limit| times >= *limit) {
                    let message = format!("'{}' was refused {times} times", cx.safe_name(&call.tool));
                    trips.add(
                        limits.mode,
                        self.trip(cx, TripSeverity::Block, message, (times, limit), &call.tool),
                    );
                } else if let Some(limit) = limits.total.filter(|limit| total >= *limit) {
                    let message = format!("{total} of the last {} actions were refused", limits.of);
                    trips.add(
                        limits.mode,
                        self.trip(cx, TripSeverity::Block, message, (total, limit), &call.tool),
                    );
                }
            }
            EventKind::ToolFinished { .. }
                if cx.facts.result.as_ref().is_some_and(|result| !result.ignored) =>
            {
                // It ran, so it was allowed.
                self.outcomes <<= 1;
                self.blocks = 0;
                self.actions.remove(call.call);
            }
            _ => {}
        }
    }

    fn on_denied(&mut self, _cx: &GuardContext<'_>, mine: bool) {
        if mine {
            self.blocks = self.blocks.saturating_add(1);
        }
    }

    fn on_user_input(&mut self) {
        self.actions.clear();
        self.blocks = 0;
    }

    fn reset(&mut self) {
        *self = DenialGuard::default();
    }
}
