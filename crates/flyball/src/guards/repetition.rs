//! `repetition`: consecutive calls with identical arguments.
//!
//! `limit` identical consecutive calls are allowed and the next one is blocked; block number `blocks` halts. A call
//! whose normalized result changes is not a repetition (`result_aware`), equal calls in one round count once, and
//! polling tools (`effect: poll`) have a separate, higher limit.

use super::info::GuardInfo;
use super::info::ScopeKind::{Node, Tool};
use super::{Guard, GuardContext, TripBuilder, Trips, escalated_severity};
use crate::bounded_map::push_bounded;
use crate::call_ledger::CallFacts;
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::policy::settings::StricterDirection::{Less, Unknown};
use crate::policy::settings::{COUNT_RANGE, Count, Flag, Word, settings};
use crate::policy::{GuardMode, Limit, ToolEffect};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};

/// The declaration of the guard.
pub(super) const INFO: GuardInfo = GuardInfo::new(RulesVersion::V1, "Repeated identical calls.")
    .table("identical calls in a row", "warn at 3, block the 6th, the 3rd block halts")
    .reasons(&[Reason::exhausted(
        "repetition_loop",
        "The same call with the same arguments gives the same result; calling it again cannot help.",
    )])
    .scopes::<RepetitionPolicy>(&[Node, Tool]);

settings! {
    /// Identical consecutive calls.
    pub struct RepetitionPolicy: "RepetitionFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Identical consecutive calls allowed; the next one is blocked.
        limit: Limit = Some(5) => Count(COUNT_RANGE, Less);
        /// Number of identical consecutive calls at which warnings start.
        warn_at: Limit = Some(3) => Count(COUNT_RANGE, Less);
        /// The Nth block halts the session.
        blocks: Limit = Some(3) => Count(COUNT_RANGE, Less);
        /// Whether a call with a changed (normalized) result does not count as a repetition.
        result_aware: bool = true => Flag(Unknown);
        /// Limit for tools with effect `poll`.
        poll_limit: Limit = Some(20) => Count(COUNT_RANGE, Less);
    }
}

const MAX_EVENTS: usize = 24;

/// The current run of identical calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RepetitionGuard {
    call: Fingerprint,
    result: Fingerprint,
    count: u32,
    events: Vec<u64>,
    /// Number of blocks in this run; reset when a different call succeeds.
    blocks: u32,
}

impl RepetitionGuard {
    /// Length of the run if this call is allowed.
    fn count_with(&self, call: &CallFacts) -> u32 {
        if call.call != self.call {
            1
        } else if call.duplicate_in_round {
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

fn limit_for(limits: &RepetitionPolicy, call: &CallFacts) -> Option<u64> {
    if call.effect == ToolEffect::Poll { limits.poll_limit } else { limits.limit }
}

impl Guard for RepetitionGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let (EventKind::ToolRequested { .. }, Some(call)) = (&cx.event.kind, &cx.facts.call) else { return };
        let limits = &cx.limits.repetition;
        let count = u64::from(self.count_with(call));
        let Some(limit) = limit_for(limits, call) else { return };
        if call.duplicate_in_round || !limits.mode.is_on() {
            return;
        }
        let tool = &call.tool;
        let shown = cx.safe_name(tool);
        if count > limit {
            let message =
                format!("tool '{shown}' called {count} times consecutively with identical parameters");
            let feedback = format!("Tool call blocked: {message}. Try a different approach or parameters.");
            let draft = TripBuilder::new(
                "repetition",
                "repetition_loop",
                escalated_severity(self.blocks, limits.blocks),
                message,
            )
            .count(count, limit)
            .scope("tool", tool)
            .events(self.events_with(cx.seq))
            .repeating(1, count, vec![call.call])
            .actions(&["try_different_approach", "switch_to_interactive"])
            .halt_reason(HaltReason::Stalled)
            .feedback(feedback);
            trips.add(limits.mode, draft);
        } else if call.effect != ToolEffect::Poll && limits.warn_at.is_some_and(|at| count >= at) {
            let left = limit - count;
            let message =
                format!("tool '{shown}' called {count} times consecutively with identical parameters");
            let next = match left {
                0 => "The next identical call will be blocked.".to_owned(),
                1 => "One more identical call is allowed.".to_owned(),
                left => format!("{left} more identical calls are allowed."),
            };
            let feedback = cx.rules.wording(
                format!(
                    "You have called '{shown}' {count} times in a row with the same parameters and learned nothing new. \
                     {left} more will run, then it is blocked. Try a different approach or parameters."
                ),
                format!(
                    "You have called '{shown}' {count} times in a row with the same parameters and learned nothing new. \
                     {next} Try a different approach or parameters."
                ),
            );
            let draft = TripBuilder::new("repetition", "repetition_loop", TripSeverity::Warn, message)
                .count(count, limit)
                .scope("tool", tool)
                .events(self.events_with(cx.seq))
                .repeating(1, count, vec![call.call])
                .actions(&["try_different_approach"])
                .feedback(feedback);
            trips.add(limits.mode, draft);
        }
    }

    fn record(&mut self, cx: &GuardContext<'_>, _trips: &mut Trips) {
        let Some(call) = &cx.facts.call else { return };
        match &cx.event.kind {
            EventKind::ToolRequested { .. } => {
                if call.call != self.call {
                    self.call = call.call;
                    self.result = Fingerprint::NONE;
                    self.events.clear();
                }
                self.count = if self.events.is_empty() { 1 } else { self.count_with(call) };
                if !call.duplicate_in_round || self.events.is_empty() {
                    push_bounded(&mut self.events, cx.seq, MAX_EVENTS);
                }
            }
            EventKind::ToolFinished { .. } => {
                let Some(result) = cx.facts.result.as_ref().filter(|result| !result.ignored) else { return };
                if call.call != self.call {
                    if !result.failed {
                        self.blocks = 0;
                    }
                    return;
                }
                let changed = !self.result.is_none() && self.result != result.result;
                if changed && cx.limits.repetition.result_aware {
                    // The result changed, so the run restarts at this call.
                    self.count = 1;
                    self.events = vec![call.seq];
                    self.blocks = 0;
                }
                self.result = result.result;
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
        *self = RepetitionGuard::default();
    }

    fn reset(&mut self) {
        *self = RepetitionGuard::default();
    }
}
