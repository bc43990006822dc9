//! `error_streak`: failures that repeat (seeds 002 and 004).
//!
//! The same normalised error whatever the arguments (`warn_at`, then `same_error`), the very same call failing in
//! the very same way three times, failures of any kind in a row (`any`), and a failure rate over a window that one
//! lucky call does not wipe out. Failures of one round count once. A failure that says no more than its exit status
//! is how a command answers "no"; it is not taken for an error that repeats.

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::fingerprint::Fingerprint;
use crate::ledger::{CallFacts, ResultFacts};
use crate::policy::ErrorStreak as Limits;
use crate::window::keep;
use serde::{Deserialize, Serialize};

/// How often the very same call may fail in the very same way.
const IDENTICAL: u32 = 3;
const EVENTS: usize = 16;

/// The failures in a row, and the last outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErrorStreak {
    error: Fingerprint,
    same: u32,
    pair: Fingerprint,
    identical: u32,
    any: u32,
    events: Vec<u64>,
    /// One bit an outcome, the newest lowest; 1 = failed.
    outcomes: u64,
    known: u32,
    round: Option<u64>,
    rate_warned: bool,
}

impl ErrorStreak {
    fn succeeded(&mut self, new_write: bool) {
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

    fn note(&mut self, failed: bool) {
        self.outcomes = self.outcomes << 1 | u64::from(failed);
        self.known = self.known.saturating_add(1).min(64);
    }

    fn failed(&mut self, cx: &Cx<'_>, call: &CallFacts, result: &ResultFacts) {
        let same_round = self.round == Some(call.round);
        self.round = Some(call.round);
        let same_error = self.error == result.result;
        if same_round && (same_error || result.bare) {
            return;
        }
        self.same =
            if same_error && !result.bare { self.same.saturating_add(1) } else { u32::from(!result.bare) };
        self.identical = match (result.bare, self.pair == result.pair) {
            (true, _) => 0,
            (false, true) => self.identical.saturating_add(1),
            (false, false) => 1,
        };
        self.any = self.any.saturating_add(u32::from(!result.bare && !same_round));
        self.error = result.result;
        self.pair = result.pair;
        keep(&mut self.events, cx.seq, EVENTS);
    }

    fn judge(&mut self, cx: &Cx<'_>, call: &CallFacts, trips: &mut Trips) {
        let limits = &cx.limits.error_streak;
        let same = u64::from(self.same);
        let tool = &call.tool;
        let last = |count: u64| {
            let from = self.events.len().saturating_sub(count as usize);
            self.events.get(from..).unwrap_or_default().to_vec()
        };
        let repeated = |severity: Severity, count: u64, limit: u64, what: &str| {
            Draft::new("error_streak", "repeated_error", severity, format!("{what} {count} times in a row"))
                .count(count, limit)
                .scope("tool", tool)
                .events(last(count))
                .block(1, count, vec![self.error])
                .actions(&["try_different_approach", "read_the_error", "switch_to_interactive"])
                .halts_as(HaltReason::RepeatedError)
        };
        if limits.same_error.is_some() && self.identical >= IDENTICAL && same < limits.same_error.unwrap_or(0)
        {
            let count = u64::from(self.identical);
            let shown = cx.label(tool);
            let what = format!("the same call of '{shown}' failed with the same error");
            let feedback = format!(
                "The same call of '{shown}' has failed {count} times with the same error. It will fail again. Change the call or the approach."
            );
            trips.add(
                limits.mode,
                repeated(Severity::Block, count, u64::from(IDENTICAL), &what).feedback(feedback),
            );
        } else if let Some(limit) = limits.same_error.filter(|limit| same >= *limit) {
            // The ladder: at the limit a refusal, and a halt when as many more as `blocks` follow.
            let over = same - limit;
            let halts = limits.blocks.is_some_and(|blocks| over + 1 >= blocks);
            let severity = if halts { Severity::Halt } else { Severity::Block };
            let feedback = format!(
                "The same error came back {same} times, whatever the arguments. Stop and find its cause first."
            );
            trips.add(limits.mode, repeated(severity, same, limit, "the same error came").feedback(feedback));
        } else if limits.warn_at.is_some_and(|at| same >= at) {
            let feedback =
                format!("The same error came back {same} times. Read it again before the next attempt.");
            let limit = limits.same_error.unwrap_or(0);
            trips.add(
                limits.mode,
                repeated(Severity::Warn, same, limit, "the same error came").feedback(feedback),
            );
        }
        self.judge_any(cx, limits, trips);
    }

    fn judge_any(&mut self, cx: &Cx<'_>, limits: &Limits, trips: &mut Trips) {
        let any = u64::from(self.any);
        if let Some(limit) = limits.any.filter(|limit| any >= *limit && u64::from(self.same) < *limit) {
            // Different failures are different attempts: a refusal would stop somebody who is finding their way.
            let severity = if any >= limit * 2 { Severity::Block } else { Severity::Warn };
            let draft = Draft::new(
                "error_streak",
                "consecutive_failures",
                severity,
                format!("{any} failures in a row"),
            )
            .count(any, limit)
            .events(self.events.clone())
            .actions(&["try_different_approach", "switch_to_interactive"])
            .halts_as(HaltReason::RepeatedError)
            .feedback(format!(
                "{any} calls in a row failed. Step back: check what you assume before the next attempt."
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
            let draft = Draft::new(
                "error_streak",
                "error_rate",
                Severity::Warn,
                format!("{failures} of the last {window} calls failed"),
            )
            .count(failures, percent * window / 100)
            .events(vec![cx.seq])
            .actions(&["try_different_approach", "switch_to_interactive"])
            .halts_as(HaltReason::RepeatedError)
            .feedback(format!(
                "{failures} of your last {window} calls failed. Something basic is wrong; find it first."
            ));
            trips.add(limits.mode, draft);
        }
    }
}

impl Guard for ErrorStreak {
    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        let (Kind::ToolFinished { .. }, Some(call)) = (&cx.event.kind, &cx.facts.call) else { return };
        let Some(result) = cx.facts.result.as_ref().filter(|result| !result.ignored) else { return };
        if call.twin {
            return;
        }
        self.note(result.failed && !result.bare);
        if !result.failed {
            self.succeeded(result.new_write);
            return;
        }
        self.failed(cx, call, result);
        if cx.limits.error_streak.mode.is_on() {
            self.judge(cx, call, trips);
        }
    }

    fn fresh(&mut self) {
        *self = ErrorStreak::default();
    }

    fn reset(&mut self) {
        *self = ErrorStreak::default();
    }
}
