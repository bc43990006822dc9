//! `gate`: a completion that the quality gate refuses (seed 002).
//!
//! A failing check refuses the completion and says which one is the root cause. The Nth refused attempt halts, so do
//! the Nth refusal by one item of a checklist and the same failure for the Nth time. A check that was skipped did not
//! pass; if all were skipped the work is unverified, and the policy says what that means.

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::{Check, Kind, normalised};
use crate::fingerprint::Fingerprint;
use crate::limits::GATE_ITEMS;
use crate::policy::{Gate as Limits, GateOrder, Unverified};
use crate::window::{Keyed, cut};
use serde::{Deserialize, Serialize};

const EVENTS: usize = 16;

/// Checks that are gates; any other name is an item of a checklist.
const GATES: [&str; 12] = [
    "build",
    "compile",
    "typecheck",
    "types",
    "tests",
    "test",
    "unit",
    "integration",
    "lint",
    "format",
    "fmt",
    "check",
];

/// Refused attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gate {
    attempts: u32,
    failure: Fingerprint,
    same: u32,
    items: Keyed<u32, GATE_ITEMS>,
    events: Vec<u64>,
}

fn failed(check: &Check) -> bool {
    !check.passed && !check.skipped
}

/// Which of the failed checks is named: the root cause, or the seed's own order.
fn blocker<'a>(checks: &'a [Check], limits: &Limits) -> Option<&'a Check> {
    let order: &[&str] = match limits.order {
        GateOrder::RootCause => &["build", "compile", "typecheck", "types", "tests", "test", "lint"],
        GateOrder::Seed => &["tests", "test", "lint", "build"],
    };
    let depends_on_failed = |check: &Check| {
        limits.dependencies.iter().any(|(gate, on)| {
            *gate == check.name && checks.iter().any(|other| other.name == *on && failed(other))
        })
    };
    let rank = |check: &Check| order.iter().position(|name| *name == check.name).unwrap_or(order.len());
    checks.iter().filter(|check| failed(check)).min_by_key(|check| (depends_on_failed(check), rank(check)))
}

/// One fingerprint for what failed: the same failure again is told from a new one.
fn failure_fingerprint(checks: &[Check]) -> Fingerprint {
    let mut lines: Vec<String> = Vec::new();
    for check in checks.iter().filter(|check| failed(check)) {
        if check.details.is_empty() {
            lines.push(format!("{}\0{}", check.name, normalised(cut(&check.output, 64 * 1024))));
        }
        lines.extend(check.details.iter().map(|detail| format!("{}\0{}", check.name, normalised(detail))));
    }
    lines.sort_unstable();
    Fingerprint::of_text(&lines.join("\n"))
}

impl Gate {
    fn blocked(&mut self, cx: &Cx<'_>, checks: &[Check], request: &str, trips: &mut Trips) {
        let limits = &cx.limits.gate;
        self.attempts = self.attempts.saturating_add(1);
        let failure = failure_fingerprint(checks);
        self.same = if failure == self.failure { self.same.saturating_add(1) } else { 1 };
        self.failure = failure;
        if self.events.len() == EVENTS {
            self.events.remove(0);
        }
        self.events.push(cx.seq);
        let mut worst: Option<(&str, u64)> = None;
        for check in checks.iter().filter(|check| failed(check) && !GATES.contains(&check.name.as_str())) {
            let blocks = self.items.entry(Fingerprint::of_text(&check.name));
            *blocks = blocks.saturating_add(1);
            if worst.is_none_or(|(_, most)| u64::from(*blocks) > most) {
                worst = Some((&check.name, u64::from(*blocks)));
            }
        }
        let name = blocker(checks, limits).map_or("unknown", |check| cut(&check.name, 48));
        let base = |reason: &str, severity: Severity, message: String, count: u64, limit: u64| {
            Draft::new("gate", reason, severity, message)
                .count(count, limit)
                .scope("gate", name)
                .scope("request", cut(request, 48))
                .events(self.events.clone())
                .block(1, u64::from(self.same), vec![failure])
                .names(
                    checks
                        .iter()
                        .filter(|check| failed(check))
                        .take(8)
                        .map(|check| cut(&check.name, 48).to_owned())
                        .collect(),
                )
        };
        let attempts = u64::from(self.attempts);
        let same = u64::from(self.same);
        let draft = if let Some((item, blocks)) =
            worst.filter(|(_, blocks)| limits.item_blocks.is_some_and(|most| *blocks >= most))
        {
            base(
                "loop_thrashing",
                Severity::Halt,
                format!("'{}' blocked the completion {blocks} times", cut(item, 48)),
                blocks,
                limits.item_blocks.unwrap_or(0),
            )
            .scope("item", cut(item, 48))
            .halts_as(HaltReason::Stalled)
        } else if let Some(limit) = limits.same_failure.filter(|limit| same >= *limit) {
            base(
                "repeated_error",
                Severity::Halt,
                format!("the same failure of '{name}' blocked the completion {same} times"),
                same,
                limit,
            )
            .halts_as(HaltReason::RepeatedError)
        } else if let Some(limit) = limits.attempts.filter(|limit| attempts >= *limit) {
            base(
                "quality_gate_exhausted",
                Severity::Halt,
                format!("the completion was blocked {attempts} times"),
                attempts,
                limit,
            )
            .halts_as(HaltReason::RepeatedError)
        } else {
            let limit = limits.attempts.unwrap_or(0);
            let left = limit.saturating_sub(attempts);
            let draft = base(
                "quality_gate_blocked",
                Severity::Block,
                format!("completion blocked by {name}"),
                attempts,
                limit,
            );
            // Without backpressure the completion is refused all the same, but the model is not told why.
            if !limits.backpressure {
                draft
            } else {
                let request = super::validation::plain(request, 60);
                draft.feedback(format!("Your `{request}` request was blocked: {name} failed. Fix that first; {left} attempts are left."))
            }
        };
        let draft = draft.actions(&["fix_the_failing_check", "switch_to_interactive", "raise_budget"]);
        trips.add(limits.mode, draft);
    }

    fn unverified(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let limits = &cx.limits.gate;
        let severity = match limits.unverified {
            Unverified::Allow => return,
            Unverified::Warn => Severity::Warn,
            Unverified::Block => Severity::Block,
        };
        let draft =
            Draft::new("gate", "quality_gate_blocked", severity, "no check ran, so the work is unverified")
                .events(vec![cx.seq])
                .actions(&["configure_a_check"])
                .feedback("No check ran: nothing shows that the work is right.");
        trips.add(limits.mode, draft);
    }
}

impl Guard for Gate {
    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        let Kind::GateChecked { request, checks } = &cx.event.kind else { return };
        let limits = &cx.limits.gate;
        if !limits.mode.is_on() {
            return;
        }
        if checks.iter().any(failed) {
            let request = request.as_deref().unwrap_or("TASK_COMPLETE");
            self.blocked(cx, checks, request, trips);
        } else if checks.iter().all(|check| check.skipped) {
            self.unverified(cx, trips);
        } else {
            self.reset();
        }
    }

    fn reset(&mut self) {
        *self = Gate::default();
    }
}
