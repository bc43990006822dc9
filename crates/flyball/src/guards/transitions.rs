//! `transitions`: how often one edge is taken (seed 003, layer 2), and all edges together.
//!
//! `limit` transitions along one edge are accepted, the next is refused, and a person is called. A refused
//! transition is not counted.

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::fingerprint::Fingerprint;
use crate::limits::EDGES;
use crate::window::Keyed;
use serde::{Deserialize, Serialize};

/// Transitions an edge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Transitions {
    counts: Keyed<u32, EDGES>,
    total: u64,
}

pub(super) fn edge_key(from: &str, to: &str) -> Fingerprint {
    Fingerprint::of_text(from).with(Fingerprint::of_text(to))
}

impl Transitions {
    /// How often an edge was taken.
    pub(crate) fn count(&self, from: &str, to: &str) -> u32 {
        self.counts.get(edge_key(from, to)).copied().unwrap_or(0)
    }

    /// How often any edge was taken.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }
}

impl Guard for Transitions {
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let Kind::TransitionRequested { from, to, .. } = &cx.event.kind else { return };
        let limits = &cx.policy.guards_for_edge(from, to).transitions;
        if !limits.mode.is_on() {
            return;
        }
        let taken = u64::from(self.count(from, to));
        let limit = if cx.flow.inside_a_loop(from, to) {
            limits.limit_in_loop(cx.policy.budgets.loops.iterations)
        } else {
            limits.limit
        };
        let (here, there) = (cx.label(from), cx.label(to));
        let scope = |draft: Draft| {
            draft.scope("edge", format!("{from}->{to}")).events(vec![cx.seq]).trail(cx.trail())
        };
        if let Some(limit) = limit.filter(|limit| taken >= *limit) {
            let message = format!(
                "Transition {here}→{there} exceeded max_transitions ({limit}) with {taken} occurrences"
            );
            let feedback = format!(
                "The way from '{here}' to '{there}' was taken {taken} times, as often as it may be. Choose another destination."
            );
            let draft = Draft::new("transitions", "transition_limit", Severity::Block, message)
                .count(taken, limit)
                .actions(&[
                    "analyse_why_it_repeats",
                    "check_the_workflow",
                    "choose_another_path",
                    "raise_max_transitions",
                    "release",
                ])
                .halts_as(HaltReason::BudgetExceeded)
                .feedback(feedback)
                .escalates();
            trips.add(limits.mode, scope(draft));
        } else if let Some(limit) = limit.filter(|limit| *limit > 2 && taken + 2 == *limit) {
            let message = format!("Transition {here}→{there} is at {} of {limit}", taken + 1);
            let draft = Draft::new("transitions", "transition_limit", Severity::Warn, message)
                .count(taken + 1, limit)
                .feedback(format!("The way from '{here}' to '{there}' may be taken once more after this."));
            trips.add(limits.mode, scope(draft));
        }
        if let Some(limit) = limits.total.filter(|limit| self.total >= *limit) {
            let message =
                format!("all transitions together exceeded the total ({limit}) with {}", self.total);
            let draft = Draft::new("transitions", "transition_limit", Severity::Block, message)
                .count(self.total, limit)
                .actions(&["check_the_workflow", "release"])
                .halts_as(HaltReason::BudgetExceeded)
                .escalates();
            trips.add(limits.mode, scope(draft));
        }
    }

    fn tell(&mut self, cx: &Cx<'_>, _trips: &mut Trips) {
        let Kind::TransitionRequested { from, to, .. } = &cx.event.kind else { return };
        let count = self.counts.entry(edge_key(from, to));
        *count = count.saturating_add(1);
        self.total = self.total.saturating_add(1);
    }

    fn reset(&mut self) {
        self.counts.clear();
        self.total = 0;
    }
}
