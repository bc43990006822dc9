//! `workflow`: transitions that the declared workflow does not have.
//!
//! A session may declare its workflow, and the policy may say where a node leads (`allowed_destinations`, also written
//! as `phases`). What is declared is enforced: a transition along no declared edge, or to a destination that is not
//! allowed, is refused with the destinations that are. Where nothing is declared nothing is refused. Refused again and
//! again, with no accepted transition in between, a person is called.

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::limits::SHOWN_NAME_BYTES;
use crate::rules_version::RulesVersion;
use crate::window::cut;
use serde::{Deserialize, Serialize};

/// Names of destinations that a message lists.
const LISTED: usize = 12;

/// How often the session left the declared ways.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeclaredWorkflow {
    /// Transitions that were refused since the last accepted one.
    refused: u32,
}

impl DeclaredWorkflow {
    /// Why the transition is not among the declared ones, if it is not.
    fn objection(cx: &Cx<'_>, from: &str, to: &str, edge: Option<&str>) -> Option<String> {
        let (here, there) = (cx.label(from), cx.label(to));
        if let Some(allowed) = cx.policy.destinations_of(from)
            && !allowed.iter().any(|name| name == to)
        {
            return Some(format!(
                "Transition {here}→{there} is not among the allowed destinations of '{here}'"
            ));
        }
        let workflow = cx.flow.workflow().filter(|workflow| !workflow.edges.is_empty())?;
        let mut between = workflow.edges.iter().filter(|known| known.from == from && known.to == to);
        match edge {
            None => between.next().is_none(),
            Some(edge) => !between.any(|known| known.id == edge),
        }
        .then(|| match edge {
            Some(edge) => {
                let edge = cx.label(edge);
                format!("Transition {here}→{there} is not in the workflow as edge '{edge}'")
            }
            None => format!("Transition {here}→{there} is not in the workflow"),
        })
    }
}

/// The destinations of a node that the workflow and the policy allow, in the order of the workflow.
pub(crate) fn destinations<'a>(cx: &'a Cx<'_>, from: &str) -> Vec<&'a str> {
    let allowed = cx.policy.destinations_of(from);
    let declared = cx.flow.workflow().filter(|workflow| !workflow.edges.is_empty());
    let mut names: Vec<&str> = Vec::new();
    let mut add = |name: &'a str| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    match (declared, allowed) {
        (Some(workflow), allowed) => {
            let leads = workflow.edges.iter().filter(|edge| edge.from == from).map(|edge| edge.to.as_str());
            leads
                .filter(|name| allowed.is_none_or(|allowed| allowed.iter().any(|known| known == name)))
                .for_each(&mut add);
        }
        (None, Some(allowed)) => allowed.iter().for_each(|name| add(name)),
        (None, None) => {}
    }
    names
}

/// Names for a sentence, the first few of them.
pub(crate) fn listed(cx: &Cx<'_>, names: &[&str]) -> String {
    let mut shown: Vec<&str> = names.iter().take(LISTED).map(|name| cx.label(name)).collect();
    let more = format!("{} more", names.len().saturating_sub(LISTED));
    if names.len() > LISTED {
        shown.push(&more);
    }
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

impl Guard for DeclaredWorkflow {
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let Kind::TransitionRequested { from, to, edge } = &cx.event.kind else { return };
        let limits = &cx.policy.guards_for_edge(from, to).workflow;
        if cx.rules == RulesVersion::V1 || !limits.mode.is_on() {
            return;
        }
        let Some(objection) = Self::objection(cx, from, to, edge.as_deref()) else { return };
        let allowed = destinations(cx, from);
        let count = u64::from(self.refused) + 1;
        let message = format!("{objection}; allowed from '{}': {}", cx.label(from), listed(cx, &allowed));
        let mut draft = Draft::new("workflow", "transition_not_allowed", Severity::Block, message)
            .count(count, limits.blocks.unwrap_or(0))
            .scope("edge", format!("{from}->{to}"))
            .events(vec![cx.seq])
            .trail(cx.trail())
            .names(allowed.iter().take(LISTED).map(|name| cut(name, SHOWN_NAME_BYTES).to_owned()).collect())
            .actions(&["choose_another_path", "check_the_workflow", "release"])
            .halts_as(HaltReason::RepeatedError)
            .feedback(format!("{objection}."));
        if limits.blocks.is_some_and(|blocks| count >= blocks) {
            draft = draft.escalates();
        }
        trips.add(limits.mode, draft);
    }

    fn tell(&mut self, cx: &Cx<'_>, _trips: &mut Trips) {
        if matches!(cx.event.kind, Kind::TransitionRequested { .. }) {
            self.refused = 0;
        }
    }

    fn refused(&mut self, cx: &Cx<'_>, mine: bool) {
        if mine && matches!(cx.event.kind, Kind::TransitionRequested { .. }) {
            self.refused = self.refused.saturating_add(1);
        }
    }

    fn reset(&mut self) {
        *self = DeclaredWorkflow::default();
    }
}
