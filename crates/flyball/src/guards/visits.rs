//! `visits`: limit on how often a node is entered.
//!
//! A visit is an accepted transition into a node, or a turn on it without a preceding transition (a retry). It is
//! checked before it is counted: `limit` visits are allowed, the next one is blocked and escalates to a person.

use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::BoundedMap;
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::limits::NODES;
use crate::policy::GuardPolicies;
use serde::{Deserialize, Serialize};

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
