//! `visits`: limit on how often a node is entered.
//!
//! A visit is an accepted transition into a node, or a turn on it without a preceding transition (a retry). It is
//! checked before it is counted: `limit` visits are allowed, the next one is blocked and escalates to a person.

use super::info::GuardInfo;
use super::info::ScopeKind::Node;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::BoundedMap;
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::limits::NODES;
use crate::policy::settings::StricterDirection::Less;
use crate::policy::settings::{COUNT_RANGE, Count, HoldsInLoops, Word, settings};
use crate::policy::{GuardMode, GuardPolicies, Limit, widen_in_loop};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};

/// The declaration of the guard.
pub(super) const INFO: GuardInfo = GuardInfo::new(RulesVersion::V1, "Entries into one node.")
    .table(
        "entries into one node, retries included",
        "warn at the last but one, then block and escalate to a person",
    )
    .reasons(&[Reason::exhausted(
        "visit_limit",
        "The workflow returned to the same place more often than its limit allows.",
    )])
    .scope::<VisitsPolicy>(Node, "Entries into this node.");

settings! {
    /// Entries into one node.
    pub struct VisitsPolicy: "VisitsFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Visits allowed; the next one is blocked.
        limit: Limit = Some(10) => Count(COUNT_RANGE, Less),
            in Agent => None, in Simple => Some(5), in Complex => Some(15);
        /// Whether the limit also applies inside loops that the workflow declares. If not, it is raised there to fit the
        /// loop budget. Default: true if the limit is set explicitly, otherwise false.
        limit_set as "holds_in_loops": bool = false => HoldsInLoops("limit"), in Simple => true, in Complex => true;
    }
}

impl VisitsPolicy {
    /// Visits allowed inside a declared loop of this many iterations: at least `iterations + 2`.
    #[must_use]
    pub fn limit_in_loop(&self, iterations: Limit) -> Limit {
        widen_in_loop(self.limit, self.limit_set, iterations.map(|iterations| iterations.saturating_add(2)))
    }
}

/// Visits per node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VisitsGuard {
    counts: BoundedMap<u32, NODES>,
    /// The destination of an accepted transition whose turn has not started.
    announced: Option<Fingerprint>,
}

impl VisitsGuard {
    /// The node that this event would enter, if it is a visit.
    fn visited_node<'a>(&self, cx: &GuardContext<'a>) -> Option<&'a str> {
        match &cx.event.kind {
            EventKind::TransitionRequested { to, .. } => Some(to),
            EventKind::TurnStarted {} => {
                let node = cx.event.node.as_deref()?;
                (self.announced != Some(Fingerprint::of_text(node))).then_some(node)
            }
            _ => None,
        }
    }

    /// How often a node was entered.
    pub(crate) fn count(&self, node: &str) -> u32 {
        self.counts.get(Fingerprint::of_text(node)).copied().unwrap_or(0)
    }
}

fn limits_for<'a>(cx: &GuardContext<'a>, node: &str) -> &'a GuardPolicies {
    cx.policy.guards_for_node(node)
}

impl Guard for VisitsGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let Some(node) = self.visited_node(cx) else { return };
        let limits = &limits_for(cx, node).visits;
        let limit = if cx.position.in_loop(node) {
            limits.limit_in_loop(cx.policy.budgets.loops.iterations)
        } else {
            limits.limit
        };
        let (Some(limit), true) = (limit, limits.mode.is_on()) else { return };
        let visits = u64::from(self.count(node));
        let shown = cx.safe_name(node);
        if visits >= limit {
            let message = format!("Phase '{shown}' exceeded max_visits ({limit}) with {visits} visits");
            let limit_reached = cx.rules.wording("as often as it may be", "which is its limit");
            let feedback = format!(
                "'{shown}' was visited {visits} times, {limit_reached}. Choose another destination or hand over to a \
                 person."
            );
            let draft = TripBuilder::new("visits", "visit_limit", TripSeverity::Block, message)
                .count(visits, limit)
                .scope("node", node)
                .events(vec![cx.seq])
                .trail(cx.trail())
                .actions(&["find_why_it_repeats", "fix_the_cause", "raise_max_visits", "release"])
                .halt_reason(HaltReason::BudgetExceeded)
                .feedback(feedback)
                .escalate();
            trips.add(limits.mode, draft);
        } else if limit > 2 && visits + 2 == limit {
            let message = format!("Phase '{shown}' is at visit {} of {limit}", visits + 1);
            let draft = TripBuilder::new("visits", "visit_limit", TripSeverity::Warn, message)
                .count(visits + 1, limit)
                .scope("node", node)
                .actions(&["try_different_approach"])
                .feedback(format!("'{shown}' may be visited once more after this."));
            trips.add(limits.mode, draft);
        }
    }

    fn record(&mut self, cx: &GuardContext<'_>, _trips: &mut Trips) {
        if let Some(node) = self.visited_node(cx) {
            let count = self.counts.entry(Fingerprint::of_text(node));
            *count = count.saturating_add(1);
        }
        match &cx.event.kind {
            EventKind::TransitionRequested { to, .. } => self.announced = Some(Fingerprint::of_text(to)),
            EventKind::TurnStarted {} => self.announced = None,
            _ => {}
        }
    }

    fn reset(&mut self) {
        self.counts.clear();
    }
}
