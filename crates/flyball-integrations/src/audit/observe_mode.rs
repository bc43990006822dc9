//! An observe-only policy for the audit, and the severity of each finding under the audited policy.
//!
//! In a transcript every requested call did run. If the governor denied calls while reading it, it would ignore the
//! results that follow as part of that denial, and after a halt it would evaluate nothing. So every guard observes,
//! and [`effective_severity`] computes the severity under the audited policy.

use flyball::policy::{GuardMode, GuardPolicies};
use flyball::{Event, EventKind, Policy, Trip, TripSeverity};

/// The same limits with every enabled guard in observe mode. Custom rules are dropped, because they do not detect
/// loops.
pub(super) fn observe_only(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    set_observe(&mut policy.guards);
    policy.nodes.values_mut().for_each(|node| set_observe(&mut node.guards));
    policy.edges.values_mut().flat_map(|to| to.values_mut()).for_each(|edge| set_observe(&mut edge.guards));
    policy.tools.values_mut().for_each(|tool| set_observe(&mut tool.guards));
    if policy.budgets.mode.is_on() {
        policy.budgets.mode = GuardMode::Observe;
    }
    policy.rules.clear();
    policy
}

/// Disabled guards stay disabled.
fn set_observe(guards: &mut GuardPolicies) {
    guards.set_modes(|mode| if mode.is_on() { GuardMode::Observe } else { mode });
}

/// The severity of a finding under the audited policy.
pub(super) fn effective_severity(policy: &Policy, event: &Event, trip: &Trip) -> TripSeverity {
    let natural = trip.unclamped.0;
    match guard_mode(policy, event, trip) {
        GuardMode::Off | GuardMode::Observe => TripSeverity::Observe,
        GuardMode::Warn => natural.min(TripSeverity::Warn),
        GuardMode::Block => natural.min(TripSeverity::Block),
        GuardMode::Halt if natural == TripSeverity::Block => TripSeverity::Halt,
        GuardMode::Halt | GuardMode::Staged => natural,
    }
}

/// The mode of the guard that tripped, for the tool, edge or node of the event.
fn guard_mode(policy: &Policy, event: &Event, trip: &Trip) -> GuardMode {
    if trip.guard == "budget" {
        return policy.budgets.mode;
    }
    let tool = trip.scope.get("tool").and_then(|tool| policy.tool(tool));
    let guards = match (&event.kind, tool, &event.node) {
        (_, Some(tool), _) => &tool.guards,
        (EventKind::TransitionRequested { from, to, .. }, ..) => policy.guards_for_edge(from, to),
        (_, None, Some(node)) => policy.guards_for_node(node),
        _ => &policy.guards,
    };
    let found = guards.modes().find(|(name, _)| *name == trip.guard);
    found.map_or(GuardMode::Staged, |(_, mode)| mode)
}

/// Whether a finding is a loop, and not a budget, a plan or a person's stop. A gate that rejects a completion works as
/// intended; it is a loop once the gate gives up.
pub(super) fn is_loop_trip(trip: &Trip) -> bool {
    match trip.guard.as_str() {
        "gate" => trip.unclamped.0 == TripSeverity::Halt,
        "budget" => matches!(trip.reason.as_str(), "max_cycle_iterations" | "max_steps"),
        "confirmation" | "rule" | "human" | "release" => false,
        _ => true,
    }
}
