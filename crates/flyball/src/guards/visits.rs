//! `visits`: how often a node is entered (seed 003, layer 1).
//!
//! A visit is an accepted transition into a node, or a turn started on it that no transition announced (a retry). It
//! is checked before it counts: `limit` visits run, the next is refused, and a person is called.

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::fingerprint::Fingerprint;
use crate::limits::NODES;
use crate::policy::Guards;
use crate::window::Keyed;
use serde::{Deserialize, Serialize};

/// Visits a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Visits {
    counts: Keyed<u32, NODES>,
    /// The node that an accepted transition led to and whose turn has not begun.
    announced: Option<Fingerprint>,
}

impl Visits {
    /// The node that this event would enter, if it is a visit.
    fn entered<'a>(&self, cx: &Cx<'a>) -> Option<&'a str> {
        match &cx.event.kind {
            Kind::TransitionRequested { to, .. } => Some(to),
            Kind::TurnStarted {} => {
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

fn limits_for<'a>(cx: &Cx<'a>, node: &str) -> &'a Guards {
    cx.policy.guards_for_node(node)
}

impl Guard for Visits {
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let Some(node) = self.entered(cx) else { return };
        let limits = &limits_for(cx, node).visits;
        let limit = if cx.flow.in_loop(node) {
            limits.limit_in_loop(cx.policy.budgets.loops.iterations)
        } else {
            limits.limit
        };
        let (Some(limit), true) = (limit, limits.mode.is_on()) else { return };
        let visits = u64::from(self.count(node));
        let shown = cx.label(node);
        if visits >= limit {
            let message = format!("Phase '{shown}' exceeded max_visits ({limit}) with {visits} visits");
            let feedback = format!(
                "'{shown}' was visited {visits} times, as often as it may be. Choose another destination or hand over to a person."
            );
            let draft = Draft::new("visits", "visit_limit", Severity::Block, message)
                .count(visits, limit)
                .scope("node", node)
                .events(vec![cx.seq])
                .trail(cx.trail())
                .actions(&["find_why_it_repeats", "fix_the_cause", "raise_max_visits", "release"])
                .halts_as(HaltReason::BudgetExceeded)
                .feedback(feedback)
                .escalates();
            trips.add(limits.mode, draft);
        } else if limit > 2 && visits + 2 == limit {
            let message = format!("Phase '{shown}' is at visit {} of {limit}", visits + 1);
            let draft = Draft::new("visits", "visit_limit", Severity::Warn, message)
                .count(visits + 1, limit)
                .scope("node", node)
                .actions(&["try_different_approach"])
                .feedback(format!("'{shown}' may be visited once more after this."));
            trips.add(limits.mode, draft);
        }
    }

    fn tell(&mut self, cx: &Cx<'_>, _trips: &mut Trips) {
        if let Some(node) = self.entered(cx) {
            let count = self.counts.entry(Fingerprint::of_text(node));
            *count = count.saturating_add(1);
        }
        match &cx.event.kind {
            Kind::TransitionRequested { to, .. } => self.announced = Some(Fingerprint::of_text(to)),
            Kind::TurnStarted {} => self.announced = None,
            _ => {}
        }
    }

    fn reset(&mut self) {
        self.counts.clear();
    }
}
