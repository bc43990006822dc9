//! `recurrence`: calls that return nothing new, without a fixed period.
//!
//! Three signs, each with no new write and no user message in between:
//! - most of the last calls gave a (call, result) pair that was already seen (`stale` of the last `window`): the same
//!   few calls in any order, a long cycle before its third pass, paging that wraps around;
//! - one (call, result) pair was seen more than `limit` times, among other calls that do return something new: a
//!   warning;
//! - one tool is called repeatedly with arguments that differ only in their numbers, each call introduced by the same
//!   sentence or revisiting a range that was already covered (`drift`).

use super::drift::{DriftSign, DriftTracker};
use super::info::GuardInfo;
use super::info::ScopeKind::{Node, Tool};
use super::{Guard, GuardContext, TripBuilder, Trips, escalated_severity};
use crate::bounded_map::BoundedMap;
use crate::call_ledger::{CallFacts, ResultFacts};
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::limits::SEEN_PAIRS;
use crate::policy::settings::StricterDirection::{Less, More};
use crate::policy::settings::{COUNT_RANGE, Count, WINDOW_RANGE, Word, settings};
use crate::policy::{GuardMode, Limit, ToolEffect};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The declaration of the guard.
pub(super) const INFO: GuardInfo =
    GuardInfo::new(RulesVersion::V1, "The same call with the same result at irregular intervals.")
        .table(
            "calls that return nothing new, in any order; paging back and forth",
            "warn, block, the 3rd block halts",
        )
        .reasons(&[Reason::exhausted(
            "recurrence",
            "Calls are repeated although their results are known and nothing has changed in between.",
        )])
        .scopes::<RecurrencePolicy>(&[Node, Tool]);

settings! {
    /// The same (call, result) pair at irregular intervals.
    pub struct RecurrencePolicy: "RecurrenceFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Occurrences of one (call, result) pair allowed without a new write; the next one causes a warning.
        limit: Limit = Some(6) => Count(2..=1_000, Less);
        /// Number of recent calls considered for `stale`, 2 to 64.
        window: u64 = 12 => Count(WINDOW_RANGE, More);
        /// Calls among the last `window` that return nothing new.
        stale: Limit = Some(7) => Count(2..=1_000, Less);
        /// Consecutive calls to one tool whose arguments differ only in their numbers.
        drift: Limit = Some(12) => Count(2..=1_000, Less);
        /// The Nth block halts the session.
        blocks: Limit = Some(3) => Count(COUNT_RANGE, Less);
    }
}

/// Maximum size of the call window.
const MAX_WINDOW: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PairCount {
    count: u32,
    last: u64,
}

/// One call of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RecentCall {
    pair: Fingerprint,
    seq: u64,
    stale: bool,
}

/// Pairs and calls since the last new write or user message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecurrenceGuard {
    pairs: BoundedMap<PairCount, SEEN_PAIRS>,
    window: VecDeque<RecentCall>,
    drift: DriftTracker,
    blocks: u32,
}

impl RecurrenceGuard {
    fn stale_count(&self, limits: &RecurrencePolicy) -> u64 {
        let window = (limits.window as usize).min(MAX_WINDOW);
        self.window.iter().rev().take(window).filter(|recent| recent.stale).count() as u64
    }

    /// Whether the latest result of this call is already known, so that repeating it would probably return nothing new.
    fn is_known_result(&self, call: &CallFacts) -> bool {
        !call.last_result.is_none() && self.pairs.contains(call.call.combine(call.last_result))
    }

    fn check_stale(&self, cx: &GuardContext<'_>, call: &CallFacts, trips: &mut Trips) {
        let limits = &cx.limits.recurrence;
        let Some(limit) = limits.stale else { return };
        let stale = self.stale_count(limits);
        if stale + 1 < limit || !self.is_known_result(call) {
            return;
        }
        let severity =
            if stale < limit { TripSeverity::Warn } else { escalated_severity(self.blocks, limits.blocks) };
        let window = limits.window.min(MAX_WINDOW as u64).min(self.window.len() as u64);
        let (message, feedback) = cx.rules.wording(
            (
                format!(
                    "{stale} of the last {window} calls told nothing that was not known, and nothing new was written"
                ),
                format!(
                    "{stale} of your last {window} calls repeated what you already knew, and nothing was changed \
                     between. Use what you have, change something, or say what is missing."
                ),
            ),
            (
                format!("{stale} of the last {window} calls returned nothing new, and nothing new was written"),
                format!(
                    "{stale} of your last {window} calls returned results you already had, and nothing changed in \
                     between. Use what you have, change something, or say what is missing."
                ),
            ),
        );
        let events = self.window.iter().rev().take(window as usize).filter(|r| r.stale).map(|r| r.seq);
        let mut events: Vec<u64> = events.collect();
        events.reverse();
        let mut known: Vec<Fingerprint> = self.window.iter().filter(|r| r.stale).map(|r| r.pair).collect();
        known.sort_unstable();
        known.dedup();
        let mut draft = TripBuilder::new("recurrence", "recurrence", severity, message)
            .count(stale, limit)
            .scope("tool", &call.tool)
            .events(events)
            .actions(&["try_different_approach", "switch_to_interactive", "tighten_context_pack"])
            .halt_reason(HaltReason::Stalled)
            .feedback(feedback);
        draft.trip.evidence.fingerprints =
            known.into_iter().take(crate::limits::EVIDENCE_FINGERPRINTS).collect();
        trips.add(limits.mode, draft);
    }

    fn check_drift(&self, cx: &GuardContext<'_>, call: &CallFacts, trips: &mut Trips) {
        let limits = &cx.limits.recurrence;
        let Some((found, limit)) =
            limits.drift.and_then(|limit| Some((self.drift.check(call, limit)?, limit)))
        else {
            return;
        };
        let severity =
            if found.refuse { escalated_severity(self.blocks, limits.blocks) } else { TripSeverity::Warn };
        let (tool, count) = (&call.tool, found.count);
        let how = match found.sign {
            DriftSign::SameSentence => {
                cx.rules.wording("announced by the same sentence", "each introduced by the same sentence")
            }
            DriftSign::CoveredRange => {
                cx.rules.wording("going over ground that was covered before", "over ranges already covered")
            }
        };
        let shown = cx.safe_name(tool);
        let message =
            format!("tool '{shown}' called {count} times in a row with only the numbers changed, {how}");
        let draft = TripBuilder::new("recurrence", "recurrence", severity, message)
            .count(count, limit)
            .scope("tool", tool)
            .scope("sign", "drift")
            .events(vec![self.drift.first(), self.drift.last(), cx.seq])
            .repeating(1, count, vec![call.skeleton])
            .actions(&["try_different_approach", "switch_to_interactive"])
            .halt_reason(HaltReason::Stalled)
            .feedback(cx.rules.wording(
                format!(
                    "You have called '{shown}' {count} times in a row, only with other numbers. \
                     Search for what you need instead of leafing through, or work with what you have."
                ),
                format!(
                    "You have called '{shown}' {count} times in a row with only the numbers changed. \
                     Search for what you need instead of paging through, or work with what you have."
                ),
            ));
        trips.add(limits.mode, draft);
    }

    fn record_result(
        &mut self,
        cx: &GuardContext<'_>,
        call: &CallFacts,
        result: &ResultFacts,
        trips: &mut Trips,
    ) {
        if result.new_write {
            self.pairs.clear();
            self.window.clear();
            self.drift.reset();
            self.blocks = 0;
            return;
        }
        if call.duplicate_in_round || call.effect == ToolEffect::Poll {
            return;
        }
        let seen = self.pairs.entry(result.pair);
        let stale = seen.count > 0;
        seen.count = seen.count.saturating_add(1);
        let (count, before) = (u64::from(seen.count), seen.last);
        seen.last = call.seq;
        if self.window.len() == MAX_WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(RecentCall { pair: result.pair, seq: call.seq, stale });
        let limits = &cx.limits.recurrence;
        if limits.mode.is_on() && limits.limit.is_some_and(|limit| count == limit + 1) {
            let tool = &call.tool;
            let shown = cx.safe_name(tool);
            let (message, feedback) = cx.rules.wording(
                (
                    format!(
                        "the same call of '{shown}' gave the same result {count} times, with nothing new written \
                         between"
                    ),
                    format!(
                        "This call of '{shown}' has now given the same result {count} times, and nothing was changed \
                         between. Its answer will not change."
                    ),
                ),
                (
                    format!(
                        "the same call to '{shown}' returned the same result {count} times, with nothing new written \
                         in between"
                    ),
                    format!(
                        "This call to '{shown}' has now returned the same result {count} times, and nothing changed \
                         in between. Its result will not change."
                    ),
                ),
            );
            let draft = TripBuilder::new("recurrence", "recurrence", TripSeverity::Warn, message)
                .count(count, limits.limit.unwrap_or(0))
                .scope("tool", tool)
                .events(vec![before, call.seq])
                .actions(&["try_different_approach"])
                .feedback(feedback);
            trips.add(limits.mode, draft);
        }
    }
}

impl Guard for RecurrenceGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let (EventKind::ToolRequested { .. }, Some(call)) = (&cx.event.kind, &cx.facts.call) else { return };
        if !cx.limits.recurrence.mode.is_on() || call.duplicate_in_round || call.effect == ToolEffect::Poll {
            return;
        }
        self.check_stale(cx, call, trips);
        self.check_drift(cx, call, trips);
    }

    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        match (&cx.event.kind, &cx.facts.call) {
            (EventKind::AssistantMessage { text, .. }, _) => self.drift.record_message(text),
            (EventKind::ToolRequested { .. }, Some(call)) if !call.duplicate_in_round => {
                self.drift.record_call(call)
            }
            (EventKind::ToolFinished { .. }, Some(call)) => {
                if let Some(result) = cx.facts.result.as_ref().filter(|result| !result.ignored) {
                    self.record_result(cx, call, result, trips);
                }
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
        *self = RecurrenceGuard::default();
    }

    fn reset(&mut self) {
        *self = RecurrenceGuard::default();
    }
}
