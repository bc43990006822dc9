//! `gate`: a completion that the quality gate refuses (seed 002).
//!
//! A failing check refuses the completion and says which one is the root cause. The Nth refused attempt halts, so do
//! the Nth refusal by one item of a checklist and the same failure for the Nth time. A check that was skipped did not
//! pass; if all were skipped the work is unverified, and the policy says what that means. A refusal carries the effect
//! `completion.blocked`: what failed and what to do, as data and as text for the agent.

use super::{Cx, Draft, Guard, Trips};
use crate::backpressure::{self, BlockingEvent, TASK_COMPLETE, failed, with_dependencies};
use crate::decision::{HaltReason, Severity};
use crate::event::{Check, Kind, normalised};
use crate::fingerprint::Fingerprint;
use crate::limits::GATE_ITEMS;
use crate::policy::{Gate as Limits, GateOrder, Unverified};
use crate::rules_version::RulesVersion;
use crate::window::{Keyed, cut, keep};
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

/// Which of the failed checks is named under version 1 of the rules: the root cause, or the seed's own order.
fn blocker_v1<'a>(checks: &'a [Check], limits: &Limits) -> Option<&'a Check> {
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

/// Which of the failed checks is named.
fn blocker<'a>(cx: &Cx<'_>, checks: &'a [Check]) -> Option<&'a Check> {
    let limits = &cx.limits.gate;
    match cx.rules {
        RulesVersion::V1 => blocker_v1(checks, limits),
        _ => backpressure::blocker(checks, limits.order),
    }
}

/// One fingerprint for what failed: the same failure again is told from a new one, also if lines of code have moved.
fn failure_fingerprint(cx: &Cx<'_>, checks: &[Check]) -> Fingerprint {
    if cx.rules > RulesVersion::V1 {
        return backpressure::failure_fingerprint(checks);
    }
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
        let failure = failure_fingerprint(cx, checks);
        self.same = if failure == self.failure { self.same.saturating_add(1) } else { 1 };
        self.failure = failure;
        keep(&mut self.events, cx.seq, EVENTS);
        let worst = self.count_items(checks);
        let name = blocker(cx, checks).map_or("unknown", |check| cut(&check.name, 48));
        let shown: Vec<String> = checks
            .iter()
            .filter(|check| failed(check))
            .take(8)
            .map(|check| cut(&check.name, 48).to_owned())
            .collect();
        let draft = self
            .verdict(cx, name, worst, request)
            .scope("gate", name)
            .scope("request", cut(request, 48))
            .events(self.events.clone())
            .block(1, u64::from(self.same), vec![failure])
            .names(shown)
            .actions(&["fix_the_failing_check", "switch_to_interactive", "raise_budget"]);
        trips.add(limits.mode, with_details(cx, draft, checks, request));
    }

    /// Which of the limits is reached first; none of them: the completion is refused and may be tried again.
    fn verdict(&self, cx: &Cx<'_>, name: &str, worst: Option<(&str, u64)>, request: &str) -> Draft {
        let limits = &cx.limits.gate;
        let (attempts, same) = (u64::from(self.attempts), u64::from(self.same));
        let halt = |reason: &str, message: String| Draft::new("gate", reason, Severity::Halt, message);
        if let Some(((item, blocks), limit)) =
            worst.zip(limits.item_blocks).filter(|((_, blocks), most)| blocks >= most)
        {
            let item = cut(item, 48);
            return halt("loop_thrashing", format!("'{item}' blocked the completion {blocks} times"))
                .count(blocks, limit)
                .scope("item", item)
                .halts_as(HaltReason::Stalled);
        }
        if let Some(limit) = limits.same_failure.filter(|limit| same >= *limit) {
            let message = format!("the same failure of '{name}' blocked the completion {same} times");
            return halt("repeated_error", message).count(same, limit).halts_as(HaltReason::RepeatedError);
        }
        if let Some(limit) = limits.attempts.filter(|limit| attempts >= *limit) {
            let message = format!("the completion was blocked {attempts} times");
            return halt("quality_gate_exhausted", message)
                .count(attempts, limit)
                .halts_as(HaltReason::RepeatedError);
        }
        let limit = limits.attempts.unwrap_or(0);
        let message = format!("completion blocked by {name}");
        let draft =
            Draft::new("gate", "quality_gate_blocked", Severity::Block, message).count(attempts, limit);
        // Without backpressure the completion is refused all the same, but the model is not told why.
        if !limits.backpressure {
            return draft;
        }
        let (request, left) = (super::validation::plain(request, 60), limit.saturating_sub(attempts));
        let (request, name) = (cx.title(&request), cx.title(name));
        draft.feedback(format!(
            "Your `{request}` request was blocked: {name} failed. Fix that first; {left} attempts are left."
        ))
    }

    /// Counts a refusal for each failed item of a checklist, and names the one with the most.
    fn count_items<'a>(&mut self, checks: &'a [Check]) -> Option<(&'a str, u64)> {
        let mut worst: Option<(&str, u64)> = None;
        for check in checks.iter().filter(|check| failed(check) && !GATES.contains(&check.name.as_str())) {
            let blocks = self.items.entry(Fingerprint::of_text(&check.name));
            *blocks = blocks.saturating_add(1);
            if worst.is_none_or(|(_, most)| u64::from(*blocks) > most) {
                worst = Some((&check.name, u64::from(*blocks)));
            }
        }
        worst
    }

    fn unverified(&self, cx: &Cx<'_>, checks: &[Check], request: &str, trips: &mut Trips) {
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
        trips.add(limits.mode, with_details(cx, draft, checks, request));
    }
}

/// A refusal with what failed and what to do about it, for whoever asked.
fn with_details(cx: &Cx<'_>, draft: Draft, checks: &[Check], request: &str) -> Draft {
    let blocking = (cx.rules > RulesVersion::V1).then(|| BlockingEvent::of(checks, request, &cx.limits.gate));
    match blocking.flatten() {
        Some(blocking) => draft.refuses_with("completion.blocked", blocking.fields()),
        None => draft,
    }
}

impl Guard for Gate {
    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        let Kind::GateChecked { request, checks } = &cx.event.kind else { return };
        let limits = &cx.limits.gate;
        if !limits.mode.is_on() {
            return;
        }
        let request = request.as_deref().unwrap_or(TASK_COMPLETE);
        // A check that depends on one that failed says nothing by itself.
        let related = (cx.rules > RulesVersion::V1).then(|| with_dependencies(checks, &limits.dependencies));
        let checks = related.as_deref().unwrap_or(checks);
        if checks.iter().any(failed) {
            self.blocked(cx, checks, request, trips);
        } else if checks.iter().all(|check| check.skipped) {
            self.unverified(cx, checks, request, trips);
        } else {
            self.reset();
        }
    }

    fn reset(&mut self) {
        *self = Gate::default();
    }
}
