//! `transitions`: limits on how often one edge is taken, and on all edges together.
//!
//! `limit` transitions along one edge are allowed, the next one is blocked and escalates to a person. Blocked
//! transitions are not counted.

use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::BoundedMap;
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::limits::EDGES;
use serde::{Deserialize, Serialize};

/// Transitions per edge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TransitionsGuard {
    counts: BoundedMap<u32, EDGES>,
    total: u64,
}

pub(super) fn edge_key(from: &str, to: &str) -> Fingerprint {
    Fingerprint::of_text(from).combine(Fingerprint::of_text(to))
}

impl TransitionsGuard {
    /// How often an edge was taken.
    pub(crate) fn count(&self, from: &str, to: &str) -> u32 {
        self.counts.get(edge_key(from, to)).copied().unwrap_or(0)
    }

    /// How often any edge was taken.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }
}

impl Guard for TransitionsGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let EventKind::TransitionRequested { from, to, .. } = &cx.event.kind else { return };
        let limits = &cx.policy.guards_for_edge(from, to).transitions;
        if !limits.mode.is_on() {
            return;
        }
        let taken = u64::from(self.count(from, to));
        let limit = if cx.position.stays_in_loop(from, to) {
            limits.limit_in_loop(cx.policy.budgets.loops.iterations)
        } else {
            limits.limit
        };
        let (here, there) = (cx.safe_name(from), cx.safe_name(to));
        let edge = cx.rules.wording("way", "transition");
        let scope = |draft: TripBuilder| {
            draft.scope("edge", format!("{from}->{to}")).events(vec![cx.seq]).trail(cx.trail())
        };
        if let Some(limit) = limit.filter(|limit| taken >= *limit) {
            let message = format!(
                "Transition {here}→{there} exceeded max_transitions ({limit}) with {taken} occurrences"
            );
            let limit_reached = cx.rules.wording("as often as it may be", "which is its limit");
            let feedback = format!(
                "The {edge} from '{here}' to '{there}' was taken {taken} times, {limit_reached}. Choose another \
                 destination."
            );
            let draft = TripBuilder::new("transitions", "transition_limit", TripSeverity::Block, message)
                .count(taken, limit)
                .actions(&[
                    "analyse_why_it_repeats",
                    "check_the_workflow",
                    "choose_another_path",
                    "raise_max_transitions",
                    "release",
                ])
                .halt_reason(HaltReason::BudgetExceeded)
                .feedback(feedback)
                .escalate();
            trips.add(limits.mode, scope(draft));
        } else if let Some(limit) = limit.filter(|limit| *limit > 2 && taken + 2 == *limit) {
            let message = format!("Transition {here}→{there} is at {} of {limit}", taken + 1);
            let draft = TripBuilder::new("transitions", "transition_limit", TripSeverity::Warn, message)
                .count(taken + 1, limit)
                .feedback(format!(
                    "The {edge} from '{here}' to '{there}' may be taken once more after this."
                ));
            trips.add(limits.mode, scope(draft));
        }
        if let Some(limit) = limits.total.filter(|limit| self.total >= *limit) {
            let message = cx.rules.wording(
                format!("all transitions together exceeded the total ({limit}) with {}", self.total),
                format!("the session has reached its limit of {limit} transitions"),
            );
            let draft = TripBuilder::new("transitions", "transition_limit", TripSeverity::Block, message)
                .count(self.total, limit)
                .actions(&["check_the_workflow", "release"])
                .halt_reason(HaltReason::BudgetExceeded)
                .escalate();
            trips.add(limits.mode, scope(draft));
        }
    }

    fn record(&mut self, cx: &GuardContext<'_>, _trips: &mut Trips) {
        let EventKind::TransitionRequested { from, to, .. } = &cx.event.kind else { return };
        let count = self.counts.entry(edge_key(from, to));
        *count = count.saturating_add(1);
        self.total = self.total.saturating_add(1);
    }

    fn reset(&mut self) {
        self.counts.clear();
        self.total = 0;
    }
}
