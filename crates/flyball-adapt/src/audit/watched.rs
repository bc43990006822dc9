//! A policy that watches and stops nothing, and what the real one would have made of each finding.
//!
//! A transcript is a run that nobody stopped: what was asked for did run. If the governor refused while it reads, it
//! would take the results that follow for echoes of its own refusal, and after a halt it would look no further. So
//! every guard observes, and [`weight`] says how grave a finding is under the policy that was asked for.

use flyball::policy::{Guards, Mode};
use flyball::{Event, Kind, Policy, Severity, Trip};

/// The same limits, with every guard that is on reporting only. Custom rules are left out: they are no loops.
pub(super) fn watched(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    observe(&mut policy.guards);
    policy.nodes.values_mut().for_each(|node| observe(&mut node.guards));
    policy.edges.values_mut().flat_map(|to| to.values_mut()).for_each(|edge| observe(&mut edge.guards));
    policy.tools.values_mut().for_each(|tool| observe(&mut tool.guards));
    if policy.budgets.mode.is_on() {
        policy.budgets.mode = Mode::Observe;
    }
    policy.rules.clear();
    policy
}

fn observe(guards: &mut Guards) {
    let was = guards.clone();
    guards.set_all(Mode::Observe);
    // Those that were off stay off.
    macro_rules! keep_off {
        ($($name:ident),*) => {
            $(if !was.$name.mode.is_on() { guards.$name.mode = Mode::Off; })*
        };
    }
    keep_off!(
        repetition,
        cycle,
        recurrence,
        visits,
        transitions,
        stall,
        oscillation,
        error_streak,
        validation,
        retry,
        gate,
        confirmation,
        question,
        denial,
        monologue,
        large_response
    );
}

/// How grave a finding is under the policy that was asked for.
pub(super) fn weight(policy: &Policy, event: &Event, trip: &Trip) -> Severity {
    let natural = trip.natural.0;
    match mode(policy, event, trip) {
        Mode::Off | Mode::Observe => Severity::Observe,
        Mode::Warn => natural.min(Severity::Warn),
        Mode::Block => natural.min(Severity::Block),
        Mode::Halt if natural == Severity::Block => Severity::Halt,
        Mode::Halt | Mode::Staged => natural,
    }
}

/// The mode of the guard that tripped, for the tool, edge or node that the event is about.
fn mode(policy: &Policy, event: &Event, trip: &Trip) -> Mode {
    if trip.guard == "budget" {
        return policy.budgets.mode;
    }
    let tool = trip.scope.get("tool").and_then(|tool| policy.tool(tool));
    let guards = match (&event.kind, tool, &event.node) {
        (_, Some(tool), _) => &tool.guards,
        (Kind::TransitionRequested { from, to, .. }, ..) => policy.guards_for_edge(from, to),
        (_, None, Some(node)) => policy.guards_for_node(node),
        _ => &policy.guards,
    };
    let found = Guards::NAMES.iter().zip(guards.modes()).find(|(name, _)| **name == trip.guard);
    found.map_or(Mode::Staged, |(_, mode)| mode)
}

/// Whether a finding is about going round, and not about a budget, a plan or a person's stop. A gate that refuses a
/// completion does its work; it is a loop when the gate gives up.
pub(super) fn is_loop(trip: &Trip) -> bool {
    match trip.guard.as_str() {
        "gate" => trip.natural.0 == Severity::Halt,
        "budget" => matches!(trip.reason.as_str(), "max_cycle_iterations" | "max_steps"),
        "confirmation" | "rule" | "human" | "release" => false,
        _ => true,
    }
}
