//! `error_streak`: repeated failures.
//!
//! Detects the same normalized error regardless of the arguments (`warn_at`, then `same_error`), an identical call that
//! fails identically three times, consecutive failures of any kind (`any`), and a failure rate over a window that a
//! single success does not reset. Failures in one round count once. A failure that reports only its exit status is how
//! many commands answer "no", so it is not counted as a repeated error.

use super::info::GuardInfo;
use super::info::ScopeKind::{Node, Tool};
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::push_bounded;
use crate::call_ledger::{CallFacts, ResultFacts};
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::policy::settings::StricterDirection::{Less, Unknown};
use crate::policy::settings::{COUNT_RANGE, Count, PERCENT_RANGE, WINDOW_RANGE, Word, settings};
use crate::policy::{GuardMode, Limit};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};

/// The declaration of the guard.
pub(super) const INFO: GuardInfo =
    GuardInfo::new(RulesVersion::V1, "Consecutive errors: the same one, or any.")
        .table(
            "repeated failures; of the identical call from 3 on",
            "warn, block, halt; failures of different kinds: warn, block at twice the number",
        )
        .reasons(&[
            Reason::exhausted(
                "repeated_error",
                "The same error keeps occurring; retrying the same way will fail again.",
            ),
            Reason::exhausted(
                "consecutive_failures",
                "Most attempts fail; something fundamental is probably wrong.",
            ),
            Reason::exhausted("error_rate", "Most attempts fail; something fundamental is probably wrong."),
        ])
        .scopes::<ErrorStreakPolicy>(&[Node, Tool]);

settings! {
    /// Consecutive failures, and the failure rate over a window.
    pub struct ErrorStreakPolicy: "ErrorStreakFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Consecutive occurrences of the same (normalized) error that trip the guard.
        same_error: Limit = Some(4) => Count(COUNT_RANGE, Less), in Strict => Some(3);
        /// Consecutive occurrences of the same error that cause a warning.
        warn_at: Limit = Some(3) => Count(COUNT_RANGE, Less);
        /// Consecutive failures of any kind that trip the guard.
        any: Limit = Some(5) => Count(COUNT_RANGE, Less);
        /// Number of recent calls for the failure rate, 2 to 64.
        window: u64 = 20 => Count(WINDOW_RANGE, Unknown);
        /// Failure rate within the window that trips the guard, in percent.
        rate_percent: Limit = Some(80) => Count(PERCENT_RANGE, Less), in Strict => Some(60);
        /// The Nth block halts the session.
        blocks: Limit = Some(3) => Count(COUNT_RANGE, Less);
    }
}

/// Number of identical failures of an identical call that trips.
const IDENTICAL_LIMIT: u32 = 3;
const MAX_EVENTS: usize = 16;

/// Consecutive failures and the most recent outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErrorStreakGuard {
    error: Fingerprint,
    same: u32,
    pair: Fingerprint,
    identical: u32,
    any: u32,
    events: Vec<u64>,
    /// One bit per outcome, newest in the lowest bit; 1 = failed.
    outcomes: u64,
    known: u32,
    round: Option<u64>,
    rate_warned: bool,
}

impl ErrorStreakGuard {
    fn on_success(&mut self, new_write: bool) {
        self.same = 0;
        self.identical = 0;
        self.any = 0;
        self.error = Fingerprint::NONE;
        self.pair = Fingerprint::NONE;
        self.events.clear();
        if new_write {
            self.outcomes = 0;
            self.known = 0;
            self.rate_warned = false;
        }
    }

    fn record_outcome(&mut self, failed: bool) {
        self.outcomes = self.outcomes << 1 | u64::from(failed);
        self.known = self.known.saturating_add(1).min(64);
    }

    fn on_failure(&mut self, cx: &GuardContext<'_>, call: &CallFacts, result: &ResultFacts) {
        let same_round = self.round == Some(call.round);
        self.round = Some(call.round);
        let same_error = self.error == result.result;
        if same_round && (same_error || result.is_bare_status) {
            return;
        }
        self.same = if same_error && !result.is_bare_status {
            self.same.saturating_add(1)
        } else {
            u32::from(!result.is_bare_status)
        };
        self.identical = match (result.is_bare_status, self.pair == result.pair) {
            (true, _) => 0,
            (false, true) => self.identical.saturating_add(1),
            (false, false) => 1,
        };
        self.any = self.any.saturating_add(u32::from(!result.is_bare_status && !same_round));
        self.error = result.result;
        self.pair = result.pair;
        push_bounded(&mut self.events, cx.seq, MAX_EVENTS);
    }

    fn check_streak(&mut self, cx: &GuardContext<'_>, call: &CallFacts, trips: &mut Trips) {
        let limits = &cx.limits.error_streak;
        let same = u64::from(self.same);
        let tool = &call.tool;
        let same_error = cx.rules.wording("the same error came", "the same error occurred");
        let last = |count: u64| {
            let from = self.events.len().saturating_sub(count as usize);
            self.events.get(from..).unwrap_or_default().to_vec()
        };
        let repeated = |severity: TripSeverity, count: u64, limit: u64, what: &str| {
            TripBuilder::new(
                "error_streak",
                "repeated_error",
                severity,
                format!("{what} {count} times in a row"),
            )
            .count(count, limit)
            .scope("tool", tool)
            .events(last(count))
            .repeating(1, count, vec![self.error])
            .actions(&["try_different_approach", "read_the_error", "switch_to_interactive"])
            .halt_reason(HaltReason::RepeatedError)
        };
        if limits.same_error.is_some()
            && self.identical >= IDENTICAL_LIMIT
            && same < limits.same_error.unwrap_or(0)
        {
            let count = u64::from(self.identical);
            let shown = cx.safe_name(tool);
            let call_to = cx.rules.wording("call of", "call to");
            let what = format!("the same {call_to} '{shown}' failed with the same error");
            let feedback = format!(
                "The same {call_to} '{shown}' has failed {count} times with the same error. It will fail again. \
                 Change the call or the approach."
            );
            trips.add(
                limits.mode,
                repeated(TripSeverity::Block, count, u64::from(IDENTICAL_LIMIT), &what).feedback(feedback),
            );
        } else if let Some(limit) = limits.same_error.filter(|limit| same >= *limit) {
            // Escalation: block at the limit, halt at block number `blocks`.
            let over = same - limit;
            let halts = limits.blocks.is_some_and(|blocks| over + 1 >= blocks);
            let severity = if halts { TripSeverity::Halt } else { TripSeverity::Block };
            let feedback = cx.rules.wording(
                format!(
                    "The same error came back {same} times, whatever the arguments. Stop and find its cause first."
                ),
                format!(
                    "The same error occurred {same} times, regardless of the arguments. Stop and find its cause first."
                ),
            );
            trips.add(limits.mode, repeated(severity, same, limit, same_error).feedback(feedback));
        } else if limits.warn_at.is_some_and(|at| same >= at) {
            let occurred = cx.rules.wording("came back", "occurred");
            let feedback =
                format!("The same error {occurred} {same} times. Read it again before the next attempt.");
            let limit = limits.same_error.unwrap_or(0);
            trips.add(limits.mode, repeated(TripSeverity::Warn, same, limit, same_error).feedback(feedback));
        }
        self.check_failure_rate(cx, limits, trips);
    }

    fn check_failure_rate(&mut self, cx: &GuardContext<'_>, limits: &ErrorStreakPolicy, trips: &mut Trips) {
        let any = u64::from(self.any);
        if let Some(limit) = limits.any.filter(|limit| any >= *limit && u64::from(self.same) < *limit) {
            // Different failures are different attempts: a block at `any` would stop an agent that is still exploring.
            let severity = if any >= limit * 2 { TripSeverity::Block } else { TripSeverity::Warn };
            let draft = TripBuilder::new(
                "error_streak",
                "consecutive_failures",
                severity,
                format!("{any} failures in a row"),
            )
            .count(any, limit)
            .events(self.events.clone())
            .actions(&["try_different_approach", "switch_to_interactive"])
            .halt_reason(HaltReason::RepeatedError)
            .feedback(format!(
                "{any} calls in a row failed. Step back: check {} before the next attempt.",
                cx.rules.wording("what you assume", "your assumptions")
            ));
            trips.add(limits.mode, draft);
        }
        let window = limits.window.min(64);
        let Some(percent) = limits.rate_percent.filter(|_| u64::from(self.known) >= window && window > 0)
        else {
            return;
        };
        let mask = if window == 64 { u64::MAX } else { (1 << window) - 1 };
        let failures = u64::from((self.outcomes & mask).count_ones());
        if failures * 100 >= percent * window && !self.rate_warned {
            self.rate_warned = true;
            let draft = TripBuilder::new(
                "error_streak",
                "error_rate",
                TripSeverity::Warn,
                format!("{failures} of the last {window} calls failed"),
            )
            .count(failures, percent * window / 100)
            .events(vec![cx.seq])
            .actions(&["try_different_approach", "switch_to_interactive"])
            .halt_reason(HaltReason::RepeatedError)
            .feedback(format!(
                "{failures} of your last {window} calls failed. Something basic is wrong; find it first."
            ));
            trips.add(limits.mode, draft);
        }
    }
}

impl Guard for ErrorStreakGuard {
    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let (EventKind::ToolFinished { .. }, Some(call)) = (&cx.event.kind, &cx.facts.call) else { return };
        let Some(result) = cx.facts.result.as_ref().filter(|result| !result.ignored) else { return };
        if call.duplicate_in_round {
            return;
        }
        self.record_outcome(result.failed && !result.is_bare_status);
        if !result.failed {
            self.on_success(result.new_write);
            return;
        }
        self.on_failure(cx, call, result);
        if cx.limits.error_streak.mode.is_on() {
            self.check_streak(cx, call, trips);
        }
    }

    fn on_user_input(&mut self) {
        *self = ErrorStreakGuard::default();
    }

    fn reset(&mut self) {
        *self = ErrorStreakGuard::default();
    }
}
