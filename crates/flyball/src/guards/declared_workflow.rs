//! `workflow`: transitions that the workflow does not declare.
//!
//! A session may declare its workflow, and the policy may restrict the destinations of a node (`allowed_destinations`,
//! or `phases`). A transition along an undeclared edge or to a destination that is not allowed is denied, with a list
//! of the allowed destinations. If nothing is declared, nothing is denied. Repeated denials without an accepted
//! transition in between escalate to a person.

use super::info::GuardInfo;
use super::info::ScopeKind::Edge;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::truncate_bytes;
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::limits::SHOWN_NAME_BYTES;
use crate::policy::settings::StricterDirection::Less;
use crate::policy::settings::{COUNT_RANGE, Count, Word, settings};
use crate::policy::{GuardMode, Limit};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};

/// The declaration of the guard.
pub(super) const INFO: GuardInfo =
    GuardInfo::new(RulesVersion::V1, "Transitions that are not part of the declared workflow.")
        .table(
            "transitions that the workflow of the session does not declare",
            "block; the 3rd in a row escalates to a person",
        )
        .reasons(&[Reason::external(
            "transition_not_allowed",
            "The workflow or policy does not allow this transition from this node.",
        )])
        .scopes::<DeclaredWorkflowPolicy>(&[Edge]);

settings! {
    /// Transitions that are not part of the declared workflow.
    pub struct DeclaredWorkflowPolicy: "DeclaredWorkflowFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// The Nth consecutive refusal escalates to a person; an accepted transition resets the count.
        blocks: Limit = Some(3) => Count(COUNT_RANGE, Less);
    }
}

/// Maximum number of destinations listed in a message.
const MAX_LISTED: usize = 12;

/// Denied undeclared transitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeclaredWorkflowGuard {
    /// Transitions denied since the last accepted one.
    consecutive_refusals: u32,
}

impl DeclaredWorkflowGuard {
    /// The reason why a transition is not declared, if it is not.
    fn undeclared_reason(cx: &GuardContext<'_>, from: &str, to: &str, edge: Option<&str>) -> Option<String> {
        let (here, there) = (cx.safe_name(from), cx.safe_name(to));
        if let Some(allowed) = cx.policy.destinations_of(from)
            && !allowed.iter().any(|name| name == to)
        {
            return Some(format!(
                "Transition {here}→{there} is not among the allowed destinations of '{here}'"
            ));
        }
        let workflow = cx.position.workflow().filter(|workflow| !workflow.edges.is_empty())?;
        let mut between = workflow.edges.iter().filter(|known| known.from == from && known.to == to);
        match edge {
            None => between.next().is_none(),
            Some(edge) => !between.any(|known| known.id == edge),
        }
        .then(|| match edge {
            Some(edge) => {
                let edge = cx.safe_name(edge);
                format!("Transition {here}→{there} is not in the workflow as edge '{edge}'")
            }
            None => format!("Transition {here}→{there} is not in the workflow"),
        })
    }
}

/// Destinations of a node that the workflow and the policy allow, in workflow order.
pub(crate) fn open_destinations<'a>(cx: &'a GuardContext<'_>, from: &str) -> Vec<&'a str> {
    let allowed = cx.policy.destinations_of(from);
    let declared = cx.position.workflow().filter(|workflow| !workflow.edges.is_empty());
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

/// Comma-separated list of the first few names.
pub(crate) fn list_names(cx: &GuardContext<'_>, names: &[&str]) -> String {
    let mut shown: Vec<&str> = names.iter().take(MAX_LISTED).map(|name| cx.safe_name(name)).collect();
    let more = format!("{} more", names.len().saturating_sub(MAX_LISTED));
    if names.len() > MAX_LISTED {
        shown.push(&more);
    }
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

impl Guard for DeclaredWorkflowGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let EventKind::TransitionRequested { from, to, edge } = &cx.event.kind else { return };
        let limits = &cx.policy.guards_for_edge(from, to).workflow;
        if cx.rules == RulesVersion::V1 || !limits.mode.is_on() {
            return;
        }
        let Some(objection) = Self::undeclared_reason(cx, from, to, edge.as_deref()) else { return };
        let allowed = open_destinations(cx, from);
        let count = u64::from(self.consecutive_refusals) + 1;
        let message =
            format!("{objection}; allowed from '{}': {}", cx.safe_name(from), list_names(cx, &allowed));
        let mut draft = TripBuilder::new("workflow", "transition_not_allowed", TripSeverity::Block, message)
            .count(count, limits.blocks.unwrap_or(0))
            .scope("edge", format!("{from}->{to}"))
            .events(vec![cx.seq])
            .trail(cx.trail())
            .names(
                allowed
                    .iter()
                    .take(MAX_LISTED)
                    .map(|name| truncate_bytes(name, SHOWN_NAME_BYTES).to_owned())
                    .collect(),
            )
            .actions(&["choose_another_path", "check_the_workflow", "release"])
            .halt_reason(HaltReason::RepeatedError)
            .feedback(format!("{objection}."));
        if limits.blocks.is_some_and(|blocks| count >= blocks) {
            draft = draft.escalate();
        }
        trips.add(limits.mode, draft);
    }

    fn record(&mut self, cx: &GuardContext<'_>, _trips: &mut Trips) {
        if matches!(cx.event.kind, EventKind::TransitionRequested { .. }) {
            self.consecutive_refusals = 0;
        }
    }

    fn on_denied(&mut self, cx: &GuardContext<'_>, mine: bool) {
        if mine && matches!(cx.event.kind, EventKind::TransitionRequested { .. }) {
            self.consecutive_refusals = self.consecutive_refusals.saturating_add(1);
        }
    }

    fn reset(&mut self) {
        *self = DeclaredWorkflowGuard::default();
    }
}
