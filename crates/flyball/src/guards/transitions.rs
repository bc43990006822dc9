//! `transitions`: limits on how often one edge is taken, and on all edges together.
//!
//! `limit` transitions along one edge are allowed, the next one is blocked and escalates to a person. Blocked
//! transitions are not counted.

use super::info::GuardInfo;
use super::info::ScopeKind::Edge;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::BoundedMap;
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::limits::EDGES;
use crate::policy::settings::StricterDirection::Less;
use crate::policy::settings::{COUNT_RANGE, Count, HoldsInLoops, Word, settings};
use crate::policy::{GuardMode, Limit, widen_in_loop};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};

/// The declaration of the guard.
pub(super) const INFO: GuardInfo = GuardInfo::new(RulesVersion::V1, "Uses of one edge.")
    .table("uses of one edge, and of all", "as visits")
    .reasons(&[Reason::exhausted(
        "transition_limit",
        "The workflow returned to the same place more often than its limit allows.",
    )])
    .scope::<TransitionsPolicy>(Edge, "Uses of this edge.");

settings! {
    /// Uses of one edge.
    pub struct TransitionsPolicy: "TransitionsFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Uses of one edge allowed; the next one is blocked.
        limit: Limit = Some(5) => Count(COUNT_RANGE, Less),
            in Agent => None, in Simple => Some(3), in Complex => Some(8);
        /// Whether the limit also applies inside loops that the workflow declares. If not, it is raised there to fit the
        /// loop budget. Default: true if the limit is set explicitly, otherwise false.
        limit_set as "holds_in_loops": bool = false => HoldsInLoops("limit"), in Simple => true, in Complex => true;
        /// Total transitions across all edges.
        total: Limit = None => Count(COUNT_RANGE, Less);
    }
}

impl TransitionsPolicy {
    /// Uses of an edge inside a declared loop of this many iterations.
    #[must_use]
    pub fn limit_in_loop(&self, iterations: Limit) -> Limit {
        widen_in_loop(self.limit, self.limit_set, iterations.map(|iterations| iterations.saturating_add(1)))
    }
}

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
